//! A network namespace to run the programs in, a lock of its own, and folders with programs of the test's choice.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::iptables::{Missing, Toolbox, Tools, Variant};
use kernel::netns::Namespace;

const SUFFIXES: [&str; 3] = ["", "-save", "-restore"];

/// A folder that goes with its test.
pub(crate) struct Place {
    folder: PathBuf,
}

/// Run `body` in a namespace of its own, where the programs are installed; says so if they are not.
pub(crate) fn in_place(body: impl FnOnce(&Place) + Send) {
    let place = Place::new();
    // Looked for in a namespace that goes: trying them out loads tables.
    let found =
        Namespace::new().unwrap().run(|| Variant::BOTH.map(|variant| place.toolbox().of(variant, false)));
    if found.iter().any(|found| matches!(found, Err(Missing::NotInstalled { .. }))) {
        println!("SKIPPED: the two variants of the iptables tools are not both installed");
        return;
    }
    Namespace::new().unwrap().run(|| body(&place));
}

/// The same for each variant and address family.
pub(crate) fn with_each(body: impl Fn(Tools) + Sync + Send) {
    in_place(|place| {
        for (variant, is_ipv6) in
            Variant::BOTH.into_iter().flat_map(|variant| [(variant, false), (variant, true)])
        {
            Namespace::new().unwrap().run(|| body(place.toolbox().of(variant, is_ipv6).unwrap()));
        }
    });
}

impl Place {
    fn new() -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("iptables-tools-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Place { folder }
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// The programs of the system, with the lock of this test.
    pub(crate) fn toolbox(&self) -> Toolbox {
        let mut toolbox = Toolbox::default();
        toolbox.terms.lock_file = Some(self.lock_file());
        toolbox
    }

    /// Nothing but what is put into [`Place::programs`].
    pub(crate) fn own_toolbox(&self) -> Toolbox {
        Toolbox { folders: vec![self.programs()], ..self.toolbox() }
    }

    pub(crate) fn programs(&self) -> PathBuf {
        let folder = self.folder.join("programs");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Let `base` and its companions be those of the system named `real`.
    pub(crate) fn link(&self, base: &str, real: &str) {
        for suffix in SUFFIXES {
            let target = find(&self.toolbox(), &format!("{real}{suffix}"));
            symlink(fs::canonicalize(target).unwrap(), self.programs().join(format!("{base}{suffix}")))
                .unwrap();
        }
    }

    /// Let `base` and its companions be a shell script.
    pub(crate) fn fake(&self, base: &str, script: &str) {
        // Written by another process: a child that a test beside this one is just starting would hold a file that
        // was opened here, and a file that is open for writing cannot be run.
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" >"$2" && chmod 755 "$2""#;
        for suffix in SUFFIXES {
            let file = self.programs().join(format!("{base}{suffix}"));
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", write, "sh", script]).arg(&file);
            assert!(shell.status().unwrap().success());
        }
    }
}

fn find(toolbox: &Toolbox, name: &str) -> PathBuf {
    toolbox.folders.iter().map(|folder| folder.join(name)).find(|file| file.exists()).unwrap()
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
