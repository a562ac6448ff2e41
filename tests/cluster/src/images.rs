//! The images of everything but Pointsman, made from the programs of this machine: no registry is asked.
//!
//! One layer holds the programs that upstream's suite deploys, CoreDNS, upstream's kube-proxy and the tools that tests
//! run inside pods, with their libraries. It has all the names that the suite asks for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::oci::{self, Image};
use crate::programs::{Programs, on_path};
use crate::run;

/// There is no such host: an image that was not imported cannot come from elsewhere.
pub(crate) const REGISTRY: &str = "pointsman.invalid";

/// What tests run in pods. Not busybox's own: its `nc` has other flags, and its static `wget` cannot resolve names.
const TOOLS: &[&str] =
    &["dash", "bash", "curl", "nc", "dig", "ss", "ip", "iperf", "socat", "conntrack", "nft", "wget"];
/// What upstream's kube-proxy runs beside `nft` and `conntrack`.
const IPTABLES: &[&str] = &[
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
    "ipset",
];
const REGISTRIES: &[&str] = &[
    "buildImageRegistry",
    "cloudProviderGcpRegistry",
    "dockerLibraryRegistry",
    "gcEtcdRegistry",
    "gcRegistry",
    "invalidRegistry",
    "privateRegistry",
    "promoterE2eRegistry",
    "sigStorageRegistry",
];

#[derive(Clone, Debug)]
pub struct Images {
    pub archive: PathBuf,
    /// What the suite is told about registries.
    pub registries: PathBuf,
    pub pause: String,
    pub agnhost: String,
    pub coredns: String,
    pub kube_proxy: String,
}

/// Make all of them in `folder`.
pub(crate) fn make(programs: &Programs, folder: &Path) -> Result<Images, String> {
    let registries = folder.join("registries.yaml");
    let lines: String = REGISTRIES.iter().map(|key| format!("{key}: {REGISTRY}\n")).collect();
    fs::write(&registries, lines).map_err(|e| e.to_string())?;
    let mut suite = Command::new(programs.path("e2e.test")?);
    let listed = run::output(suite.arg("--list-images").env("KUBE_TEST_REPO_LIST", &registries))?;
    let (tools, pause) = (folder.join("tools"), folder.join("pause"));
    fill(programs, &tools).map_err(|e| format!("filling an image: {e}"))?;
    copy(&programs.path("pause")?, &pause.join("pause")).map_err(|e| e.to_string())?;

    let named = |part: &str| -> Vec<String> {
        let is =
            |name: &&str| name.rsplit_once(':').is_some_and(|(path, _)| path.ends_with(&format!("/{part}")));
        listed.lines().filter(is).map(str::to_owned).collect()
    };
    let one =
        |part: &str| named(part).first().cloned().ok_or_else(|| format!("the suite names no image {part}"));
    let mut images = Vec::new();
    let mut add = |names: &[String], root: &Path, entrypoint: &[&'static str], command: &[&'static str]| {
        images.extend(names.iter().map(|name| Image {
            name: name.clone(),
            root: root.to_owned(),
            entrypoint: entrypoint.into(),
            command: command.into(),
        }));
    };
    add(&named("agnhost"), &tools, &["/agnhost"], &["pause"]);
    for part in ["busybox", "distroless-iptables", "glibc-dns-testing"] {
        add(&named(part), &tools, &[], &["sh"]);
    }
    add(&named("nginx"), &tools, &["/agnhost", "test-webserver"], &[]);
    add(&named("regression-issue-74839"), &tools, &["/regression-issue-74839"], &[]);
    add(&named("pause"), &pause, &["/pause"], &[]);
    let (coredns, kube_proxy) = (format!("{REGISTRY}/coredns:built"), format!("{REGISTRY}/kube-proxy:built"));
    add(std::slice::from_ref(&coredns), &tools, &["/coredns"], &[]);
    add(std::slice::from_ref(&kube_proxy), &tools, &["/usr/local/bin/kube-proxy"], &[]);

    let archive = folder.join("images.tar");
    oci::write(&images, &archive, &folder.join("oci"))?;
    for done in [&tools, &pause] {
        fs::remove_dir_all(done).map_err(|e| format!("removing {}: {e}", done.display()))?;
    }
    Ok(Images { archive, registries, pause: one("pause")?, agnhost: one("agnhost")?, coredns, kube_proxy })
}

fn fill(programs: &Programs, root: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for folder in ["tmp", "uploads", "root", "run", "var", "bin", "etc"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    fs::set_permissions(root.join("uploads"), fs::Permissions::from_mode(0o1777))?;
    symlink("/run", root.join("var/run"))?;
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n",
    )?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    fs::write(root.join("etc/nsswitch.conf"), "hosts: files dns\n")?;
    // As busybox's, which tries once: the suite itself tries again, and twenty times at every turn took hours.
    fs::write(root.join("etc/wgetrc"), "tries = 1\n")?;
    for name in ["agnhost", "regression-issue-74839", "coredns"] {
        add_program(root, &programs.path(name)?, name)?;
    }
    symlink("agnhost", root.join("agnhost-2"))?;
    for name in ["localhost.crt", "localhost.key"] {
        fs::copy(programs.path(name)?, root.join(name))?;
    }
    add_program(root, &programs.kit.upstream, "usr/local/bin/kube-proxy")?;
    for name in TOOLS.iter().chain(IPTABLES) {
        // A tool that is missing fails the tests that run it, not those that do not.
        if let Some(path) = on_path(name) {
            add_program(root, &path, &format!("usr/bin/{name}"))?;
        }
    }
    for folder in ["/usr/lib/x86_64-linux-gnu/xtables", "/usr/lib/aarch64-linux-gnu/xtables"] {
        for extension in fs::read_dir(folder).into_iter().flatten().flatten() {
            copy(&extension.path(), &inside(root, &extension.path()))?;
        }
    }
    let busybox = on_path("busybox").ok_or("busybox is not installed")?;
    copy(&busybox, &root.join("bin/busybox"))?;
    for applet in run::output(Command::new(&busybox).arg("--list"))?.lines().filter(|name| *name != "busybox")
    {
        // Its own shell would prefer its applets to the tools above.
        let target = if applet == "sh" { "/usr/bin/dash" } else { "busybox" };
        symlink(target, root.join("bin").join(applet))?;
    }
    Ok(())
}

/// The program under a name, and the libraries it is linked with.
fn add_program(root: &Path, program: &Path, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let real = fs::canonicalize(program)?;
    copy(&real, &root.join(name))?;
    // Fails for a static program, which has none.
    let listed = run::output(Command::new("ldd").arg(&real)).unwrap_or_default();
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let library = Path::new(library);
        copy(library, &inside(root, library))?;
    }
    Ok(())
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The file behind a link, executable if it was.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).map(drop)
}
