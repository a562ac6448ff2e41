//! Start a command as a container runtime would: with few capabilities, on a read-only root, under a seccomp profile.
//!
//! `confine [--seccomp=FILE] [--capabilities=A,B] [--read-only [--privileged]] [--empty=FOLDER]... [--over=FILE:FILE]...
//! COMMAND ARGUMENTS...`
//! What the command may do is the point; that nothing of the machine changes follows from a mount namespace of its own.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use test_support::seccomp;

fn main() -> ExitCode {
    let why = run().err().unwrap_or_default();
    println!("confine: {why}");
    ExitCode::from(125)
}

#[derive(Default)]
struct Confinement {
    seccomp: Option<String>,
    capabilities: Option<String>,
    read_only: bool,
    /// As runtimes do it for privileged containers: the files of the kernel stay writable.
    privileged: bool,
    /// Folders in which there is nothing, as in an image.
    empty: Vec<String>,
    /// What is put over what, and stays writable.
    over: Vec<(String, String)>,
}

/// Returns only if something failed.
fn run() -> Result<(), String> {
    let mut confinement = Confinement::default();
    let mut arguments = std::env::args().skip(1).peekable();
    while let Some(flag) = arguments.next_if(|argument| argument.starts_with("--")) {
        match flag.split_once('=') {
            Some(("--seccomp", file)) => confinement.seccomp = Some(file.to_owned()),
            Some(("--capabilities", names)) => confinement.capabilities = Some(names.to_owned()),
            Some(("--over", pair)) => {
                let (source, target) = pair.split_once(':').ok_or("--over takes FILE:FILE")?;
                confinement.over.push((source.to_owned(), target.to_owned()));
            }
            Some(("--empty", folder)) => confinement.empty.push(folder.to_owned()),
            None if flag == "--read-only" => confinement.read_only = true,
            None if flag == "--privileged" => confinement.privileged = true,
            _ => return Err(format!("no such flag: {flag}")),
        }
    }
    let program = arguments.next().ok_or("no command")?;
    let mut command = Command::new(&program);
    command.args(arguments);
    confinement.mounts()?;
    if let Some(names) = &confinement.capabilities {
        keep(names)?;
    }
    if let Some(file) = &confinement.seccomp {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        seccomp::load(&text)?;
    }
    Err(format!("{program}: {}", command.exec()))
}

impl Confinement {
    fn mounts(&self) -> Result<(), String> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error| format!("{what}: {error}")
        };
        if !self.read_only && self.over.is_empty() && self.empty.is_empty() {
            return Ok(());
        }
        kernel::process::unshare_mounts().map_err(|error| format!("a mount namespace: {error}"))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(failed("private mounts"))?;
        for folder in &self.empty {
            mount("tmpfs", folder.as_str(), "tmpfs", MountFlags::empty(), None).map_err(failed(folder))?;
        }
        for (source, target) in &self.over {
            if !Path::new(target).exists() {
                std::fs::write(target, "").map_err(|error| format!("{target}: {error}"))?;
            }
            mount_bind(Path::new(source), Path::new(target)).map_err(failed(target))?;
        }
        if self.read_only && !self.privileged {
            // As runtimes do: everything but /proc, and of that what belongs to the node.
            mount_bind("/proc/sys", "/proc/sys").map_err(failed("/proc/sys"))?;
        }
        for place in self.read_only_places()? {
            let flags = MountFlags::BIND | MountFlags::RDONLY;
            mount_remount(place.as_str(), flags, "").map_err(failed(&place))?;
        }
        Ok(())
    }

    /// Every mount but /proc itself, devices and what is put over others.
    fn read_only_places(&self) -> Result<Vec<String>, String> {
        if !self.read_only {
            return Ok(Vec::new());
        }
        let text = std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        let places = text.lines().filter_map(|line| line.split(' ').nth(1));
        let is_of_kernel =
            |place: &str| ["/proc", "/sys"].iter().any(|root| Path::new(place).starts_with(root));
        // Mounts below a folder that was emptied cannot be reached any more, such as /run/user or /run/netns.
        let is_hidden = |place: &str| {
            self.empty.iter().any(|folder| place != folder && Path::new(place).starts_with(folder))
        };
        let stays = |place: &str| {
            place == "/proc"
                || is_hidden(place)
                || place.starts_with("/dev")
                || place.contains('\\')
                || self.over.iter().any(|(_, target)| target == place)
                || (self.privileged && is_of_kernel(place))
        };
        Ok(places.filter(|place| !stays(place)).map(str::to_owned).collect())
    }
}

/// Keep only these, also for what is executed.
fn keep(names: &str) -> Result<(), String> {
    let mut kept = CapabilitySet::empty();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        kept |= CapabilitySet::from_name(name).ok_or_else(|| format!("no capability {name}"))?;
    }
    let failed = |error| format!("capabilities: {error}");
    for one in (CapabilitySet::all() - kept).iter() {
        // The kernel may be too old to know the last ones.
        let _ = remove_capability_from_bounding_set(one);
    }
    clear_ambient_capability_set().map_err(failed)?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })
        .map_err(failed)?;
    let left = capabilities(None).map_err(failed)?;
    if left.permitted == kept { Ok(()) } else { Err(format!("more are left: {left:?}")) }
}
