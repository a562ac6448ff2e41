//! Completions for bash, 4 or later.

use super::{COMMANDS, Flag, Takes};

/// Bash takes `=` for a word of its own, so that `--flag=val` arrives as three words.
const HEAD: &str = r#"# Completions of kube-proxy for bash. Load them with: source <(kube-proxy completion bash)

_kube_proxy_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
}

_kube_proxy_list() {
    local said=
    [[ $word == *,* ]] && said=${word%,*},
    mapfile -t COMPREPLY < <(compgen -P "$said" -W "$1" -- "${word##*,}")
    compopt -o nospace 2>/dev/null
}

_kube_proxy_file() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

_kube_proxy() {
    local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} joined=
    if [[ $word == = ]]; then
        word= joined=yes
    elif [[ $flag == = ]]; then
        flag=${COMP_WORDS[COMP_CWORD-2]} joined=yes
    fi
    COMPREPLY=()
"#;

const TAIL: &str = "
complete -F _kube_proxy kube-proxy
";

pub(super) fn script(flags: &[Flag]) -> String {
    let mut text = HEAD.to_owned();
    for (name, _, words) in COMMANDS {
        let words = words.join(" ");
        text.push_str(&format!(
            "    if [[ ${{COMP_WORDS[1]}} == {name} && $COMP_CWORD -gt 1 ]]; then\n        \
             _kube_proxy_words \"{words}\"\n        return\n    fi\n"
        ));
    }
    text.push_str("    case $flag in\n");
    for flag in flags {
        text.push_str(&format!("        {}\n", case(flag)));
    }
    // A gate, or a switch.
    text.push_str("    esac\n    [[ $joined ]] && { _kube_proxy_words \"true false\"; return; }\n");
    let commands = COMMANDS.map(|(name, ..)| name).join(" ");
    let all: Vec<String> = flags.iter().map(|flag| format!("--{}", flag.usage.name)).collect();
    text.push_str(&format!(
        "    if [[ $COMP_CWORD -eq 1 && $word != -* ]]; then\n        _kube_proxy_words \"{commands}\"\n    fi\n    \
         if [[ $word == -* || ${{#COMPREPLY[@]}} -eq 0 ]]; then\n        _kube_proxy_words \"{}\"\n    fi\n}}\n",
        all.join(" ")
    ));
    text + TAIL
}

fn case(flag: &Flag) -> String {
    let name = flag.usage.name;
    let pattern = if name == "v" { "--v|-v".to_owned() } else { format!("--{name}") };
    match &flag.takes {
        Takes::Nothing => format!("{pattern}) ;;"),
        Takes::File => format!("{pattern}) _kube_proxy_file; return ;;"),
        Takes::Words(words) => format!("{pattern}) _kube_proxy_words \"{}\"; return ;;", words.join(" ")),
        Takes::List(words) => format!("{pattern}) _kube_proxy_list \"{}\"; return ;;", words.join(" ")),
        Takes::Anything => format!("{pattern}) return ;;"),
    }
}
