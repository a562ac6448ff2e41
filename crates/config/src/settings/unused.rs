//! Settings of another system, or of the past: read and written back, and without effect.

use super::OnChange::Live;
use super::{Effect, Setting, setting};

pub(super) const ALL: &[Setting] = &[
    setting("winkernel.networkName", Live, |c| &mut c.winkernel.network_name).effect(Effect::Never),
    setting("winkernel.sourceVip", Live, |c| &mut c.winkernel.source_vip).effect(Effect::Never),
    setting("winkernel.enableDSR", Live, |c| &mut c.winkernel.enable_dsr).effect(Effect::Never),
    setting("winkernel.rootHnsEndpointName", Live, |c| &mut c.winkernel.root_hns_endpoint_name)
        .effect(Effect::Never),
    setting("winkernel.forwardHealthCheckVip", Live, |c| &mut c.winkernel.forward_health_check_vip)
        .effect(Effect::Never),
    setting("windowsRunAsService", Live, |c| &mut c.windows_run_as_service)
        .omit_default()
        .effect(Effect::Never),
    setting("portRange", Live, |c| &mut c.port_range).effect(Effect::Never),
];
