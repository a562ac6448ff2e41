//! The data plane of the chosen mode: what it needs of this node, and the one [`Backend`] that the sync loop knows.

use std::collections::HashMap;
use std::time::Duration;

use dataplane::iptables::Iptables;
use dataplane::nftables::{Nftables, Pin, PinSweep};
use dataplane::{Backend, Change, Committed, Looks, Setup, SyncError, TellDrift};
use kernel::iptables::{Chosen, Missing, Tools};
use kernel::nft::{self, Connection};
use model::{Family, NodePlan, ServiceKey, ServicePlan};

use crate::config::Mode;
use crate::leftovers::Own;
use crate::run::StartError;
use crate::{Options, packet_counters, pins};

/// What a mode stands on, found before anything is changed.
pub(crate) enum Ground {
    Nftables,
    Iptables(Box<Chosen>),
}

impl Ground {
    /// Whether this node has what the mode needs.
    pub(crate) fn find(options: &Options) -> Result<Ground, StartError> {
        let because = || options.mode_because.clone();
        match options.mode() {
            Mode::Iptables => match Tools::choose() {
                Ok(chosen) => Ok(Ground::Iptables(Box::new(chosen))),
                Err(error) => Err(StartError::Iptables { because: because(), error }),
            },
            Mode::Nftables | Mode::Unset | Mode::Ipvs => {
                nft::probe(nft::OLDEST_KERNEL).map_err(StartError::Nftables)?;
                Ok(Ground::Nftables)
            }
        }
    }

    /// Say on what the agent stands, where there was a choice.
    pub(crate) fn tell(&self) {
        let Ground::Iptables(chosen) = self else { return };
        let version = chosen.tools.iter().flatten().find_map(Tools::version);
        let version = version.map(|version| version.to_string()).unwrap_or_default();
        tracing::info!(
            variant = %chosen.variant, version, why = %chosen.why,
            "Rules are written by the iptables tools"
        );
        for (family, missing) in Family::BOTH.iter().zip(&chosen.missing) {
            match missing {
                None => {}
                Some(why @ Missing::NoIpv6) => {
                    tracing::info!(%family, %why, "No rules are written for this family");
                }
                // The node may well have no such addresses; services that it has are an error then.
                Some(why) => tracing::warn!(%family, %why, "No rules can be written for this family"),
            }
        }
    }

    /// What is written here, and not to be taken for the leftovers of others.
    pub(crate) fn own(&self) -> Own {
        match self {
            Ground::Nftables => Own::Nftables,
            Ground::Iptables(chosen) => Own::Iptables(chosen.variant),
        }
    }
}

/// One for each mode.
pub(crate) enum DataPlane {
    Nftables(Box<Nftables<Connection>>),
    Iptables {
        backend: Box<Iptables<Tools>>,
        counters: packet_counters::Keeper,
        /// The kernel does not have the family, so that nobody misses its rules.
        is_absent: [bool; 2],
    },
}

impl DataPlane {
    /// Call it once the node is set up.
    pub(crate) fn build(ground: Ground, setup: &Setup, options: &Options) -> Result<DataPlane, StartError> {
        match ground {
            Ground::Nftables => {
                let connection = Connection::open()
                    .map_err(|source| StartError::System { what: "open a netlink socket", source })?;
                let own_port = connection.port();
                let backend = Nftables::new(connection, &setup.detector, setup.masquerade_mark)
                    .notified_beside(own_port)
                    .room_for_pins(pins::room());
                Ok(DataPlane::Nftables(Box::new(backend.count_traffic(options.service_counters))))
            }
            Ground::Iptables(chosen) => {
                let is_absent = chosen.missing.map(|missing| matches!(missing, Some(Missing::NoIpv6)));
                let backend = Box::new(Iptables::new(chosen.tools, setup));
                Ok(DataPlane::Iptables { backend, counters: packet_counters::Keeper::default(), is_absent })
            }
        }
    }

    fn backend(&mut self) -> &mut dyn Backend {
        match self {
            DataPlane::Nftables(backend) => &mut **backend,
            DataPlane::Iptables { backend, .. } => &mut **backend,
        }
    }

    /// Somebody may have removed what rules count in.
    fn ensure_counters(&mut self, family: Family) {
        let DataPlane::Iptables { backend, counters, .. } = self else { return };
        if let Some(usable) = backend.tables(family).map(|tables| counters.ensure(tables)) {
            backend.count_in(family, usable);
        }
    }

    /// Whether there is nothing to do for the family, ever.
    fn lacks(&self, family: Family) -> bool {
        matches!(self, DataPlane::Iptables { is_absent, .. } if is_absent[family.index()])
    }
}

impl Backend for DataPlane {
    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        if self.lacks(family) {
            return Ok(Committed::default());
        }
        self.ensure_counters(family);
        self.backend().rewrite(family, plans, node)
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        if self.lacks(family) {
            return Ok(Committed::default());
        }
        self.backend().apply(family, changes, node)
    }

    fn works_in_pieces(&self) -> bool {
        match self {
            DataPlane::Nftables(backend) => backend.works_in_pieces(),
            DataPlane::Iptables { backend, .. } => backend.works_in_pieces(),
        }
    }

    fn interim(&self, change: &Change<'_>) -> Option<ServicePlan> {
        match self {
            DataPlane::Nftables(backend) => backend.interim(change),
            DataPlane::Iptables { backend, .. } => backend.interim(change),
        }
    }

    fn take_sweeps(&mut self, family: Family) -> Vec<PinSweep> {
        self.backend().take_sweeps(family)
    }

    fn sweep(&mut self, sweep: &PinSweep) -> Result<usize, SyncError> {
        self.backend().sweep(sweep)
    }

    fn forget(&mut self, family: Family, pins: &[Pin]) -> Result<usize, SyncError> {
        self.backend().forget(family, pins)
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        self.backend().configure(family, setup)
    }

    fn watch(&mut self, tell: TellDrift) {
        self.backend().watch(tell);
    }

    fn looks(&self, sync_period: Duration) -> Looks {
        match self {
            DataPlane::Nftables(backend) => backend.looks(sync_period),
            DataPlane::Iptables { backend, .. } => backend.looks(sync_period),
        }
    }

    fn damage_found(&self) -> &'static str {
        match self {
            DataPlane::Nftables(backend) => backend.damage_found(),
            DataPlane::Iptables { backend, .. } => backend.damage_found(),
        }
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        self.backend().is_intact(family, plans, node)
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        self.backend().cleanup(family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::iptables::NoTools;
    use model::LocalDetector;
    use std::error::Error as _;

    #[test]
    fn a_family_that_the_kernel_lacks_is_no_error_and_one_without_tools_is() {
        let setup = Setup { detector: LocalDetector::None, masquerade_mark: 1 << 14, drop_invalid: true };
        let backend = Box::new(Iptables::new([None, None], &setup));
        let counters = packet_counters::Keeper::default();
        let mut data_plane = DataPlane::Iptables { backend, counters, is_absent: [false, true] };
        let plans = HashMap::from([(ServiceKey::from("default/web"), ServicePlan::default())]);
        let node = NodePlan::default();
        let error = data_plane.rewrite(Family::V4, &plans, &node).unwrap_err();
        assert!(error.source().is_some_and(|source| source.is::<NoTools>()), "{error}");
        data_plane.rewrite(Family::V6, &plans, &node).unwrap();
        data_plane.apply(Family::V6, &[], (&node, &node)).unwrap();
        assert!(data_plane.is_intact(Family::V6, &plans, &node));
    }
}
