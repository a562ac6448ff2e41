//! What an unset mode means on this node, in the words of the configuration.

use config::{DefaultMode, Mode};

/// Asks the data plane.
pub fn default_mode() -> DefaultMode {
    let dataplane::DefaultMode { mode, why } = dataplane::default_mode();
    Mode::named(mode.name()).map_or_else(DefaultMode::nftables, |mode| DefaultMode { mode, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_and_the_data_plane_have_the_same_modes() {
        let names = dataplane::MODES.map(dataplane::Mode::name);
        assert_eq!(names, Mode::ALL.map(Mode::word));
    }
}
