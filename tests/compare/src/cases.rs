//! What is compared in a mode: sizes, and in mode iptables the variants of its tools.

use bench_support::variant::ToolVariant;

use crate::contestant::Mode;
use crate::report::thousands;

/// iptables-nft looks at every chain for each one it adds, and upstream has a chain for each endpoint: 20 s for
/// 3,000 services, more than eight minutes for 10,000.
const MOST_OF_UPSTREAM_WITH_NFT: u32 = 3_000;

/// One size with one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) services: u32,
    pub(crate) variant: Option<ToolVariant>,
}

impl Case {
    /// In growing order: objects are only ever added.
    pub(crate) fn all(mode: Mode, sizes: &[u32], variants: &[ToolVariant]) -> Vec<Case> {
        let variants: Vec<Option<ToolVariant>> = match mode {
            Mode::Nftables | Mode::Ipvs => vec![None],
            Mode::Iptables => variants.iter().copied().map(Some).collect(),
        };
        let of_size = |services: &u32| {
            let services = *services;
            variants.clone().into_iter().map(move |variant| Case { services, variant })
        };
        sizes.iter().flat_map(of_size).collect()
    }

    pub(crate) fn has_upstream(self) -> bool {
        self.variant != Some(ToolVariant::Nft) || self.services <= MOST_OF_UPSTREAM_WITH_NFT
    }

    /// For the heads of tables.
    pub(crate) fn name(self, endpoints: u32) -> String {
        let variant = self.variant.map(|variant| format!(", {}", variant.name())).unwrap_or_default();
        format!("{} services × {endpoints} endpoints{variant}", thousands(self.services))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iptables_has_variants_and_upstream_is_spared_the_hopeless_one() {
        assert_eq!(
            Case::all(Mode::Nftables, &[1, 2], &ToolVariant::BOTH),
            [1, 2].map(|services| Case { services, variant: None })
        );
        let cases = Case::all(Mode::Iptables, &[3_000, 10_000], &ToolVariant::BOTH);
        assert_eq!(
            cases.iter().map(|case| case.has_upstream()).collect::<Vec<_>>(),
            [true, true, true, false]
        );
        assert_eq!(cases[3].name(5), "10,000 services × 5 endpoints, iptables-nft");
    }
}
