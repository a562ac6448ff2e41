//! `kube-proxy completion SHELL`: what a shell offers behind the Tab key, from the same table as everything else.

mod bash;
mod fish;
mod zsh;

use super::read::usages;
use crate::Configuration;
use crate::settings::{self, Usage};

const USAGE: &str = "\
Usage: kube-proxy completion bash|zsh|fish

Prints a script with which the shell completes the flags of kube-proxy and their values.

  bash   source <(kube-proxy completion bash)
         or into /etc/bash_completion.d/kube-proxy, for every shell to come
  zsh    source <(kube-proxy completion zsh)
         or into a file _kube-proxy in a folder of $fpath
  fish   kube-proxy completion fish | source
         or into ~/.config/fish/completions/kube-proxy.fish
";

/// What can stand before any flag, and what can follow it.
const COMMANDS: [(&str, &str, &[&str]); 7] = [
    ("bundle", "Write an archive for a bug report", &["-", "--force"]),
    ("check", "Check manifests before anything runs", &["-"]),
    ("completion", "Print the completions of a shell", &["bash", "zsh", "fish"]),
    ("diff", "Compare the kernel with what was written", &["--output"]),
    ("explain", "Ask the agent what happens to a packet", &["service"]),
    ("services", "Ask the agent what is programmed", &["--problems", "--all-namespaces"]),
    ("trace", "Watch new connections as they happen", &["--from", "--for"]),
];

/// What follows a flag.
enum Takes {
    /// Nothing, or `=true` and `=false`.
    Nothing,
    File,
    Words(Vec<&'static str>),
    /// Words with commas between them.
    List(Vec<&'static str>),
    /// What only the operator knows.
    Anything,
}

struct Flag {
    usage: Usage,
    takes: Takes,
}

impl Flag {
    fn of(usage: Usage) -> Flag {
        let setting =
            settings::all().find(|setting| setting.flag.is_some_and(|flag| flag.name == usage.name));
        let words = setting.map(|setting| setting.value(&mut Configuration::default()).words());
        let words = words.unwrap_or_default();
        let takes = match usage.value {
            "" => Takes::Nothing,
            "FILE" | "PATH" => Takes::File,
            value if !words.is_empty() && value.ends_with("[,...]") => Takes::List(words),
            _ if !words.is_empty() => Takes::Words(words),
            _ => Takes::Anything,
        };
        Flag { usage, takes }
    }

    /// The first clause of its help.
    fn gist(&self) -> &'static str {
        let help = self.usage.help;
        let end = [". ", "; "].iter().filter_map(|mark| help.find(mark)).min().unwrap_or(help.len());
        help.get(..end).unwrap_or(help).trim_end_matches('.')
    }
}

/// Every flag, in the order of the alphabet.
fn flags() -> Vec<Flag> {
    let mut flags: Vec<Flag> = usages().map(Flag::of).collect();
    flags.sort_by_key(|flag| flag.usage.name);
    flags
}

/// Read the arguments behind `completion`.
pub(super) fn script(mut arguments: impl Iterator<Item = String>) -> Result<String, String> {
    let shell = arguments.next().unwrap_or_default();
    if let Some(other) = arguments.next() {
        return Err(format!("completion: unexpected argument {other:?}; see kube-proxy completion --help"));
    }
    match shell.as_str() {
        "bash" => Ok(bash::script(&flags())),
        "zsh" => Ok(zsh::script(&flags())),
        "fish" => Ok(fish::script(&flags())),
        "--help" | "-help" | "-h" => Ok(USAGE.to_owned()),
        "" => Err("completion: for which shell? bash, zsh or fish".into()),
        other => Err(format!("completion: {other:?} is not one of bash, zsh and fish")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<String, String> {
        script(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn every_flag_is_in_every_script() {
        for (shell, lead) in [("bash", "--"), ("zsh", "--"), ("fish", "-l ")] {
            let script = asked(&[shell]).unwrap();
            for flag in flags() {
                assert!(
                    script.contains(&format!("{lead}{}", flag.usage.name)),
                    "{shell} {}",
                    flag.usage.name
                );
            }
        }
    }

    #[test]
    fn what_is_no_shell_is_refused() {
        for (arguments, words) in [
            (&[][..], "for which shell?"),
            (&["powershell"], "is not one of bash, zsh and fish"),
            (&["bash", "more"], "unexpected argument"),
        ] {
            assert!(asked(arguments).unwrap_err().contains(words), "{arguments:?}");
        }
        assert!(asked(&["--help"]).unwrap().starts_with("Usage:"));
    }
}
