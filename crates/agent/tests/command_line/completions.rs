//! The completions, in the shells that are there.

use super::*;

/// The script for a shell, in a file; `None` if there is no such shell.
fn script(scratch: &Scratch, shell: &str) -> Option<PathBuf> {
    let is_there = Command::new(shell).args(["-c", "exit 0"]).stdin(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no {shell} on this machine");
        return None;
    }
    let output = run(kube_proxy().args(["completion", shell]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let path = scratch.path(shell);
    std::fs::write(&path, output.stdout).unwrap();
    Some(path)
}

fn offered(output: &Output) -> Vec<String> {
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| line.split('\t').next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn bash() {
    const ASK: &str = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kube_proxy
        printf '%s\n' "${COMPREPLY[@]}""#;
    let scratch = Scratch::new("bash");
    let Some(script) = script(&scratch, "bash") else { return };
    let ask = |words: &[&str]| {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile", "-c", ASK, "bash"])
            .arg(&script)
            .args(words)
            .current_dir(&scratch.0);
        offered(&run(&mut bash))
    };
    assert_eq!(ask(&["kube-proxy", "--proxy-m"]), ["--proxy-mode"]);
    assert_eq!(ask(&["kube-proxy", "--proxy-mode", "n"]), ["nftables"]);
    assert_eq!(ask(&["kube-proxy", "--proxy-mode", "=", "ip"]), ["iptables", "ipvs"]);
    assert_eq!(ask(&["kube-proxy", "--proxy-mode", "="]), ["nftables", "iptables", "ipvs", "userspace"]);
    assert_eq!(ask(&["kube-proxy", "--masquerade-all", "=", "t"]), ["true"]);
    assert_eq!(ask(&["kube-proxy", "--masquerade-all", "--clean"]), ["--cleanup", "--cleanup-and-wait"]);
    assert_eq!(ask(&["kube-proxy", "--nodeport-addresses", "primary,lo"]), ["primary,localhost"]);
    assert_eq!(ask(&["kube-proxy", "--feature-gates", "=", "KubeProxyI"]), ["KubeProxyIPVS"]);
    assert_eq!(ask(&["kube-proxy", "--feature-gates", "=", "KubeProxyIPVS", "=", "f"]), ["false"]);
    assert_eq!(ask(&["kube-proxy", "--config", "ba"]), ["bash"]);
    assert_eq!(ask(&["kube-proxy", "--cluster-cidr", ""]), [""]);
    assert_eq!(ask(&["kube-proxy", "comp"]), ["completion"]);
    assert_eq!(ask(&["kube-proxy", "completion", "z"]), ["zsh"]);
    let unknown = String::from_utf8(kube_proxy().arg("nope").output().unwrap().stderr).unwrap();
    let commands = unknown.split_once("the commands are ").unwrap().1.split(", see").next().unwrap();
    assert_eq!(commands.split(", ").count(), 7, "{unknown}");
    for command in commands.split(", ") {
        assert_eq!(ask(&["kube-proxy", command]), [command]);
    }
    assert!(ask(&["kube-proxy", "-v", "2", "--"]).len() > 50);
}

#[test]
fn fish() {
    let scratch = Scratch::new("fish");
    let Some(script) = script(&scratch, "fish") else { return };
    let ask = |line: &str| {
        let ask = format!("source {}; complete -C '{line}'", script.display());
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &ask]).current_dir(&scratch.0).env("HOME", &scratch.0);
        offered(&run(&mut fish))
    };
    assert_eq!(ask("kube-proxy --proxy-m"), ["--proxy-mode"]);
    assert_eq!(ask("kube-proxy --proxy-mode=n"), ["--proxy-mode=nftables"]);
    assert_eq!(ask("kube-proxy --proxy-mode "), ["iptables", "ipvs", "nftables"]);
    assert!(ask("kube-proxy --nodeport-addresses primary,").contains(&"primary,localhost".into()));
    assert_eq!(ask("kube-proxy --config fi"), ["fish"]);
    assert_eq!(ask("kube-proxy completion "), ["bash", "fish", "zsh"]);
    assert!(ask("kube-proxy ").contains(&"completion".into()));
}

/// Completion in zsh needs a terminal, which zsh itself can play.
#[test]
fn zsh() {
    const PLAY: &str = r#"
        zmodload zsh/zpty || exit 3
        zpty -b z zsh -f -i
        zpty -w z "autoload -U compinit; compinit -u -D; source $1; print RE''ADY"
        zpty -r z answer "*READY*"
        ask() {
            zpty -w -n z "$1"$'\t'
            zpty -r z answer "*$2*" || exit 4
        }
        ask 'kube-proxy --proxy-m' '--proxy-mode='
        ask 'nf' 'nftables'
        ask '--logging-f' '--logging-format='
        ask 'j' 'json'
        ask '--masq' '--masquerade-all'
        print -r -- DONE
        zpty -d z"#;
    let scratch = Scratch::new("zsh");
    let Some(script) = script(&scratch, "zsh") else { return };
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", PLAY, "zsh"])
        .arg(&script)
        .env("TERM", "dumb")
        .env("HOME", &scratch.0)
        .stdin(Stdio::null());
    let output = run(&mut zsh);
    if output.status.code() == Some(3) {
        println!("SKIPPED: this zsh has no module zsh/zpty");
        return;
    }
    assert_eq!(text(&output.stdout).trim(), "DONE", "{}", text(&output.stderr));
}
