//! Mode iptables: what it needs and does not find, and what it finds of others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dataplane::Backend;
use dataplane::iptables::INVALID_COUNTER;
use dataplane::nftables::Nftables;
use kernel::iptables::{Tables as _, Tools, Variant};
use kernel::nfacct;
use kernel::nft::Connection;
use model::{Family, LocalDetector, NodePlan};
use sandbox::Namespace;
use test_support::{Case, ManifestFolder, SOON, Verdict, wait_until};

use crate::{BINARY, Ended, is_ready, kube_proxy, open_to_all, run, run_in, tables};

const MODE: &str = "--proxy-mode=iptables";

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        Case::new("iptables tools that are too old", too_old),
        Case::new("an old kernel gets mode iptables, and the reason why", old_kernel),
        Case::new("mode iptables beside what other modes and the other variant left", leftovers),
        Case::new("cleanup with tools for which the kernel has no tables", cleanup_without_nft),
        Case::new("cleanup names the variant whose tools are not there", cleanup_without_tools),
        Case::new("an agent names the variant whose rules it cannot remove", leftovers_without_tools),
        Case::new("cleanup with tools that fail does what the others can", cleanup_with_broken_tools),
        Case::new(
            "cleanup beside an agent in mode iptables does not call gone what is back",
            cleanup_in_vain,
        ),
    ]
}

/// An agent in a namespace, and what it says. Ends with this.
struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    fn start(namespace: &Namespace, folder: &ManifestFolder, mut command: Command) -> Agent {
        let log = folder.path().join(".log");
        command.arg("--manifests").arg(folder.path()).env("XTABLES_LOCKFILE", lock(folder));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        Agent { child: namespace.run(|| command.spawn()).unwrap(), log }
    }

    fn says(&self, words: &str) -> bool {
        fs::read_to_string(&self.log).unwrap().contains(words)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes in another namespace are not waited for.
fn lock(folder: &ManifestFolder) -> PathBuf {
    folder.path().join(".lock")
}

/// Both variants of both families; or why this machine cannot do without.
fn installed(namespace: &Namespace) -> Result<Vec<Tools>, Verdict> {
    let tools: Vec<Tools> = [false, true].into_iter().flat_map(Tools::installed).collect();
    if tools.len() < 4 {
        return Err(Verdict::Skipped("both variants of the iptables tools are not installed".into()));
    }
    let works = |tools: &Tools| namespace.run(|| tools.save_all()).is_ok();
    match tools.iter().all(works) {
        true => Ok(tools),
        false => Err(Verdict::Skipped("this kernel does not take both variants of iptables".into())),
    }
}

fn saved(namespace: &Namespace, tools: &[Tools], variant: Variant) -> String {
    let of_variant = tools.iter().filter(|tools| tools.variant() == variant);
    of_variant.map(|tools| namespace.run(|| tools.save_all()).unwrap()).collect()
}

/// As the programs of ten years ago answer.
fn too_old() -> Verdict {
    let folder = ManifestFolder::create();
    let programs = folder.path().join(".programs");
    fs::create_dir(&programs).unwrap();
    for name in ["iptables", "iptables-save", "iptables-restore"] {
        old_program(&programs.join(name));
    }
    let mut command = kube_proxy();
    command.arg(MODE).arg("--manifests").arg(folder.path()).env("PATH", &programs);
    run(command).assert_refused(&[
        "mode iptables cannot work here",
        "is of version 1.4.21",
        "or later is needed",
    ]);
    Verdict::Passed
}

fn old_program(path: &Path) {
    fs::write(path, "#!/bin/sh\necho iptables v1.4.21\n").unwrap();
    open_to_all(path);
}

fn old_kernel() -> Verdict {
    if Command::new("setarch").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Verdict::Skipped("needs setarch of util-linux".into());
    }
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    if let Err(verdict) = installed(&namespace) {
        return verdict;
    }
    let mut command = Command::new("setarch");
    command.arg("--uname-2.6").arg(BINARY.get().unwrap());
    let agent = Agent::start(&namespace, &folder, command);
    let words = "No proxy mode is set: iptables is used, because the kernel is release 2.6; nftables mode needs 5.13 or \
                 later. Set mode: iptables";
    assert!(wait_until(SOON, || is_ready(&namespace)), "not ready");
    assert!(agent.says(words), "{}", fs::read_to_string(&agent.log).unwrap());
    Verdict::Passed
}

const OTHERS: &str = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SEP-ERIFXISQEP7F7OF4 - [0:0]\n\
    -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
    -A KUBE-SERVICES -p tcp -j KUBE-SEP-ERIFXISQEP7F7OF4\nCOMMIT\n";
const HINT: &str = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";

/// Ours stay, of the variant that the kubelet uses; those of the other variant and of mode nftables go.
fn leftovers() -> Verdict {
    for own in Variant::BOTH {
        let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
        let mut tools = match installed(&namespace) {
            Ok(tools) => tools,
            Err(verdict) => return verdict,
        };
        namespace.run(|| {
            for tools in &mut tools {
                tools.restore(OTHERS).unwrap();
                if tools.variant() == own {
                    tools.restore(HINT).unwrap();
                }
            }
            let mut nftables = Nftables::new(Connection::open().unwrap(), &LocalDetector::None, 1 << 14);
            for family in Family::BOTH {
                nftables.rewrite(family, &Default::default(), &NodePlan::default()).unwrap();
            }
        });
        let mut command = kube_proxy();
        command.arg(MODE);
        let agent = Agent::start(&namespace, &folder, command);
        let is_alone = || {
            !saved(&namespace, &tools, own.other()).contains("KUBE-SERVICES")
                && !tables(&namespace).iter().any(|table| table == "kube-proxy")
        };
        let log = || fs::read_to_string(&agent.log).unwrap();
        assert!(wait_until(SOON, is_alone), "{own}: {}", log());
        let ours = saved(&namespace, &tools, own);
        assert_eq!(ours.matches(":KUBE-PROXY-CANARY").count(), 4, "{own}: {ours}\n{}", log());
        assert!(!ours.contains("KUBE-SEP-"), "{own}: {ours}");
        assert!(agent.says(&format!("variant=\"{own}\"")), "{}", log());
    }
    Verdict::Passed
}

/// As it is on a kernel without nf_tables, whose legacy tables hold rules.
fn cleanup_without_nft() -> Verdict {
    let words = "iptables/1.8.9 Failed to initialize nft: Protocol not supported";
    cleanup_beside(words, |ended| {
        assert_eq!(ended.code, Some(0), "{:?}", ended.lines);
    })
}

fn cleanup_with_broken_tools() -> Verdict {
    cleanup_beside("the disk is gone", |ended| {
        assert_eq!(ended.code, Some(1), "{:?}", ended.lines);
        let named = ended.lines.iter().filter(|line| line.contains("iptables mode may still be there"));
        assert_eq!(named.count(), 2, "one per family: {:?}", ended.lines);
    })
}

/// Clean up legacy rules where the tools of the other variant only ever say `words`.
fn cleanup_beside(words: &str, check: impl FnOnce(&Ended)) -> Verdict {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    let mut tools = match installed(&namespace) {
        Ok(tools) => tools,
        Err(verdict) => return verdict,
    };
    for tools in tools.iter_mut().filter(|tools| tools.variant() == Variant::Legacy) {
        namespace.run(|| tools.restore(OTHERS)).unwrap();
    }
    // Where the kernel does not count, there is nothing to remove.
    let _ = namespace.run(|| nfacct::ensure(INVALID_COUNTER));
    let mut command = kube_proxy();
    command.arg("--cleanup").env("PATH", half_broken(&folder, words)).env("XTABLES_LOCKFILE", lock(&folder));
    let ended = run_in(&namespace, command);
    check(&ended);
    let left = saved(&namespace, &tools, Variant::Legacy);
    assert!(!left.contains("KUBE-"), "{left}");
    assert_eq!(namespace.run(|| nfacct::packets(INVALID_COUNTER)).unwrap_or_default(), None);
    Verdict::Passed
}

/// A folder with the real legacy tools, and ones of the nf_tables variant that fail.
fn half_broken(folder: &ManifestFolder, words: &str) -> PathBuf {
    let programs = only(folder, Variant::Legacy);
    for family in ["iptables", "ip6tables"] {
        for ending in ["", "-save", "-restore"] {
            let broken = programs.join(format!("{family}-nft{ending}"));
            fs::write(&broken, format!("#!/bin/sh\necho '{words}' >&2\nexit 1\n")).unwrap();
            open_to_all(&broken);
        }
    }
    programs
}

/// A folder with the real tools of one variant.
fn only(folder: &ManifestFolder, variant: Variant) -> PathBuf {
    let programs = folder.path().join(".programs");
    fs::create_dir(&programs).unwrap();
    for family in ["iptables", "ip6tables"] {
        for ending in ["", "-save", "-restore"] {
            let name = format!("{family}-{}{ending}", short(variant));
            let mut system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(Path::new).into_iter();
            let real = system.find_map(|folder| Some(folder.join(&name)).filter(|file| file.is_file()));
            std::os::unix::fs::symlink(real.unwrap(), programs.join(&name)).unwrap();
        }
    }
    programs
}

/// As the programs are called.
fn short(variant: Variant) -> &'static str {
    match variant {
        Variant::Legacy => "legacy",
        Variant::Nft => "nft",
    }
}

fn cleanup_without_tools() -> Verdict {
    for missing in Variant::BOTH {
        let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
        let mut tools = match installed(&namespace) {
            Ok(tools) => tools,
            Err(verdict) => return verdict,
        };
        // Rules of others are none of ours.
        let foreign = "*nat\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n";
        namespace.run(|| tools.iter_mut().for_each(|tools| tools.restore(foreign).unwrap()));
        let programs = only(&folder, missing.other());
        let cleanup = || {
            let mut command = kube_proxy();
            command.arg("--cleanup").env("PATH", &programs).env("XTABLES_LOCKFILE", lock(&folder));
            run_in(&namespace, command)
        };
        let ended = cleanup();
        assert_eq!(ended.code, Some(0), "{missing}: {:?}", ended.lines);

        namespace.run(|| tools.iter_mut().for_each(|tools| tools.restore(OTHERS).unwrap()));
        let ended = cleanup();
        assert_eq!(ended.code, Some(1), "{missing}: {:?}", ended.lines);
        for program in ["iptables", "ip6tables"] {
            let words = format!("{program}-{}-restore is not installed", short(missing));
            let named = ended.lines.iter().filter(|line| line.contains(&words)).count();
            assert_eq!(named, 1, "{missing}: {:?}", ended.lines);
        }
        let again = ended.lines.iter().any(|line| line.contains("wrote them again"));
        assert!(!again, "{missing}: {:?}", ended.lines);
        assert!(!saved(&namespace, &tools, missing.other()).contains("KUBE-"));
    }
    Verdict::Passed
}

/// In mode nftables, which needs no tools, and in mode iptables.
fn leftovers_without_tools() -> Verdict {
    for mode in ["--proxy-mode=nftables", MODE] {
        let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
        let mut tools = match installed(&namespace) {
            Ok(tools) => tools,
            Err(verdict) => return verdict,
        };
        for tools in tools.iter_mut().filter(|tools| tools.variant() == Variant::Nft) {
            namespace.run(|| tools.restore(OTHERS)).unwrap();
        }
        let mut command = kube_proxy();
        command.arg(mode).env("PATH", only(&folder, Variant::Legacy));
        let agent = Agent::start(&namespace, &folder, command);
        for program in ["iptables", "ip6tables"] {
            let words = format!("{program}-nft-restore is not installed");
            let log = || fs::read_to_string(&agent.log).unwrap();
            assert!(wait_until(SOON, || agent.says(&words)), "{mode}: {}", log());
        }
    }
    Verdict::Passed
}

fn cleanup_in_vain() -> Verdict {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    if let Err(verdict) = installed(&namespace) {
        return verdict;
    }
    let mut command = kube_proxy();
    command.arg(MODE);
    let _agent = Agent::start(&namespace, &folder, command);
    assert!(wait_until(SOON, || is_ready(&namespace)), "not ready");
    let mut lines = Vec::new();
    let is_told = wait_until(SOON, || {
        let mut command = kube_proxy();
        command.arg("--cleanup").env("XTABLES_LOCKFILE", lock(&folder));
        let ended = run_in(&namespace, command);
        lines = ended.lines;
        ended.code == Some(1)
            && lines.iter().any(|line| line.contains("stop the kube-proxy of this node first"))
    });
    assert!(is_told, "{lines:?}");
    Verdict::Passed
}
