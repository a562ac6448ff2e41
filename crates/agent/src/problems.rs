//! Who is refused by a service or led nowhere, in words.

use model::{Family, Refusal};

use crate::questions::{PortRow, Refused, ServiceRow};

/// Of all ports, and of the service itself.
pub(crate) fn of_service(row: &ServiceRow) -> Vec<String> {
    let lost = row
        .lost
        .iter()
        .map(|(claim, owner)| format!("{claim} belongs to {owner}, whose claim takes precedence"));
    let mut lines: Vec<String> = lost.collect();
    if !row.excess.is_none() {
        lines.push(format!(
            "exceeds the limits per service: {} ports and {} endpoints are not served",
            row.excess.ports, row.excess.endpoints
        ));
    }
    lines
}

pub(crate) fn of_port(row: &ServiceRow, port: &PortRow) -> Vec<String> {
    let refused = port.refused.iter().map(|refused| line(refused, row.known[refused.family.index()]));
    let dead_end = port.dead_end.iter().map(|(ip, why)| format!("endpoint {ip} {why}"));
    refused.chain(dead_end).collect()
}

fn line(refused: &Refused, known: usize) -> String {
    let family = match refused.family {
        Family::V4 => "",
        Family::V6 => " over IPv6",
    };
    let who = if refused.only_outside { "clients outside this node" } else { "all clients" };
    match refused.why {
        Refusal::NoEndpoints if known == 0 => {
            format!("rejects {who}{family}: no endpoints; check the selector and the pods")
        }
        Refusal::NoEndpoints => {
            format!("rejects {who}{family}: none of its {known} endpoints is usable for this port")
        }
        Refusal::NoLocalEndpoints => {
            format!("drops {who}{family} at {}: policy Local, and no endpoint on this node", refused.at)
        }
        Refusal::NotCarried => {
            format!("rejects {who}{family}: this mode does not carry the protocol; use another mode for it")
        }
        // The service decides nothing of these.
        Refusal::SourceRange | Refusal::UnlistedPort | Refusal::UnallocatedAddress => String::new(),
    }
}
