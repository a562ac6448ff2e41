//! The deprecated --healthz-port and --metrics-port: a port for an address that names none; 0 serves nothing.

use super::orders::{Orders, Port};
use crate::{Configuration, Endpoint};

/// What is to be said about them is the answer.
pub(super) fn apply(orders: &Orders, configuration: &mut Configuration) -> Vec<String> {
    // Upstream writes a file without them, because an address that is off has no form there.
    if !orders.write_config_to.is_empty() {
        let given = named(orders).into_iter().filter(|(_, port)| port.is_some());
        return given
            .map(|(name, _)| format!("--{name}-port is not written: no field stands for it"))
            .collect();
    }
    let [(healthz, healthz_port), (metrics, metrics_port)] = named(orders);
    let words = [
        healthz_port.map(|port| apply_port(&mut configuration.healthz_bind_address, port, healthz)),
        metrics_port.map(|port| apply_port(&mut configuration.metrics_bind_address, port, metrics)),
    ];
    words.into_iter().flatten().collect()
}

fn named(orders: &Orders) -> [(&'static str, Option<Port>); 2] {
    [("healthz", orders.healthz_port), ("metrics", orders.metrics_port)]
}

fn apply_port<const PORT: u16>(endpoint: &mut Endpoint<PORT>, port: Port, name: &str) -> String {
    // Its reader has seen to the bounds.
    let port = u16::try_from(port.0).unwrap_or_default();
    match (port, &mut *endpoint) {
        (0, endpoint) => {
            *endpoint = Endpoint::Nowhere;
            format!("--{name}-port is deprecated; 0 turns the server off")
        }
        (port, Endpoint::At(_, wanted @ None)) => {
            *wanted = Some(port);
            format!("--{name}-port is deprecated; give the port in --{name}-bind-address")
        }
        (_, Endpoint::At(_, Some(kept))) => {
            format!(
                "--{name}-port has no effect, because --{name}-bind-address has port {kept}; give it there"
            )
        }
        (_, Endpoint::Nowhere) => format!("--{name}-port has no effect"),
    }
}
