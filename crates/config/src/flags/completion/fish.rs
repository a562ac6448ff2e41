//! Completions for fish.

use super::{COMMANDS, Flag, Takes};

const HEAD: &str = "\
# Completions of kube-proxy for fish. Load them with: kube-proxy completion fish | source

complete -c kube-proxy -f
";

pub(super) fn script(flags: &[Flag]) -> String {
    let mut text = HEAD.to_owned();
    for (name, gist, words) in COMMANDS {
        let words = words.join(" ");
        text.push_str(&format!(
            "complete -c kube-proxy -n __fish_use_subcommand -a {name} -d {}\n\
             complete -c kube-proxy -n '__fish_seen_subcommand_from {name}' -a '{words}'\n",
            quoted(gist)
        ));
    }
    let seen = COMMANDS.map(|(name, ..)| name).join(" ");
    for flag in flags {
        let name = flag.usage.name;
        let short = match name {
            "v" => " -s v",
            "help" => " -s h",
            _ => "",
        };
        text.push_str(&format!(
            "complete -c kube-proxy -n 'not __fish_seen_subcommand_from {seen}' -l {name}{short}{} -d {}\n",
            takes(flag),
            quoted(flag.gist())
        ));
    }
    text
}

fn takes(flag: &Flag) -> String {
    match &flag.takes {
        Takes::Nothing => String::new(),
        Takes::File => " -r -F".into(),
        Takes::Words(words) => format!(" -x -a '{}'", words.join(" ")),
        Takes::List(words) => format!(" -x -a '(__fish_append , {})'", words.join(" ")),
        Takes::Anything => " -x".into(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
