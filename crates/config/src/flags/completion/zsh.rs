//! Completions for zsh.

use super::{COMMANDS, Flag, Takes};

const HEAD: &str = "\
#compdef kube-proxy
# Completions of kube-proxy for zsh. Load them with: source <(kube-proxy completion zsh)

_kube_proxy() {
";

/// As a file in $fpath the whole text is the function; as a script it has to be made known.
const TAIL: &str = "}

if [[ ${funcstack[1]} == _kube-proxy ]]; then
    _kube_proxy \"$@\"
else
    compdef _kube_proxy kube-proxy
fi
";

pub(super) fn script(flags: &[Flag]) -> String {
    let mut text = HEAD.to_owned();
    for (name, _, words) in COMMANDS {
        let words = words.join(" ");
        text.push_str(&format!(
            "    if [[ ${{words[2]}} == {name} ]] && (( CURRENT > 2 )); then\n        compadd -- {words}\n        return\n    fi\n"
        ));
    }
    let commands: Vec<String> = COMMANDS
        .iter()
        .map(|(name, gist, _)| format!("{name}\\:{}", escaped(gist).replace(' ', "\\ ")))
        .collect();
    text.push_str("    _arguments \\\n");
    for flag in flags {
        text.push_str(&format!("        {} \\\n", specification(flag)));
    }
    text.push_str(&format!("        '1::command:(({}))'\n", commands.join(" ")));
    text + TAIL
}

/// Any flag may be given again: lists grow, and of the others the last one counts.
fn specification(flag: &Flag) -> String {
    let (name, gist) = (flag.usage.name, escaped(flag.gist()));
    let value = escaped(flag.usage.value);
    match &flag.takes {
        Takes::Nothing => format!("'*--{name}[{gist}]'"),
        Takes::File => format!("'*--{name}=[{gist}]:{value}:_files'"),
        Takes::Words(words) => format!("'*--{name}=[{gist}]:{value}:({})'", words.join(" ")),
        Takes::List(words) => format!("'*--{name}=[{gist}]:{value}:_sequence compadd - {}'", words.join(" ")),
        Takes::Anything => format!("'*--{name}=[{gist}]:{value}: '"),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\'' => escaped.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}
