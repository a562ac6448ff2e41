//! What is logged, and how. These flags count beside a configuration file too.

use super::OnChange::Live;
use super::{Group, Setting, setting};

pub(super) const ALL: &[Setting] = &[
    setting("logging.verbosity", Live, |c| &mut c.logging.verbosity).flag(Group::Logging, "v", "LEVEL").help(
        "Log level: 0 events of the agent and its rules, 4 also every sync, 6 also every request to the \
             apiserver, 8 also the libraries, 10 everything.",
    ),
    setting("logging.format", Live, |c| &mut c.logging.format)
        .zero_is_unset()
        .flag(Group::Logging, "logging-format", "FORMAT")
        .help("Log format: text or json."),
    setting("logging.flushFrequency", Live, |c| &mut c.logging.flush_frequency)
        .zero_is_unset()
        .flag(Group::Logging, "log-flush-frequency", "DURATION")
        .help("Maximum time that buffered lines are held back."),
    setting("logging.vmodule", Live, |c| &mut c.logging.vmodule)
        .omit_default()
        .flag(Group::Logging, "vmodule", "FILE=LEVEL[,...]")
        .help("Log levels per source file, by name without .rs; * and ? are wildcards. Format text only."),
    setting("logging.options.text.splitStream", Live, |c| &mut c.logging.text.split)
        .omit_default()
        .flag(Group::Logging, "log-text-split-stream", "")
        .help(
            "Text: warnings and errors go to stderr, the rest to stdout; needs feature gate \
             LoggingAlphaOptions.",
        ),
    setting("logging.options.text.infoBufferSize", Live, |c| &mut c.logging.text.info_buffer_size)
        .zero_is_unset()
        .flag(Group::Logging, "log-text-info-buffer-size", "BYTES")
        .help("Text: size of the buffer for stdout; needs feature gate LoggingAlphaOptions."),
    setting("logging.options.json.splitStream", Live, |c| &mut c.logging.json.split)
        .omit_default()
        .flag(Group::Logging, "log-json-split-stream", "")
        .help("JSON: errors go to stderr, the rest to stdout; needs feature gate LoggingAlphaOptions."),
    setting("logging.options.json.infoBufferSize", Live, |c| &mut c.logging.json.info_buffer_size)
        .zero_is_unset()
        .flag(Group::Logging, "log-json-info-buffer-size", "BYTES")
        .help("JSON: as --log-text-info-buffer-size."),
];
