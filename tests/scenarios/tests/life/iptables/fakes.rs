//! A folder of iptables tools that are not quite the real ones, for an agent whose PATH is just that folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use model::Family;

use super::super::stage::Stage;

/// Removed together with the manifests.
pub(super) struct Fakes {
    folder: PathBuf,
}

impl Fakes {
    fn at(stage: &Stage) -> Fakes {
        let folder = stage.folder.path().join(".tools");
        fs::create_dir(&folder).unwrap();
        Fakes { folder }
    }

    /// What the agent is started by, so that it finds these tools and no others.
    pub(super) fn launcher(&self) -> Vec<String> {
        vec!["/usr/bin/env".to_owned(), format!("PATH={}", self.folder.display())]
    }

    /// The real ones, but a restore of a family whose script matches [`Fakes::refuse`]'s pattern fails at that line.
    pub(super) fn that_refuse(stage: &Stage) -> Fakes {
        let fakes = Fakes::at(stage);
        for family in Family::BOTH {
            for kind in ["", "-save"] {
                let tool = stage.carrier.tool(family == Family::V6, kind);
                fakes.script(&tool, &format!("exec {tool} \"$@\"\n"));
            }
            let restore = stage.carrier.tool(family == Family::V6, "-restore");
            let pattern = fakes.pattern(family);
            let script = format!(
                "script=$(mktemp {folder}/script.XXXXXX)\ncat > $script\n\
                 if [ -e {pattern} ] && line=$(grep -n -m 1 -f {pattern} $script); then\n\
                 echo \"{restore} v1.8.9: host/network '1.2.3.400' not found\" >&2\n\
                 echo \"Error occurred at line: ${{line%%:*}}\" >&2\nrm $script\nexit 2\nfi\n\
                 {restore} \"$@\" < $script\ncode=$?\nrm $script\nexit $code\n",
                folder = fakes.folder.display(),
                pattern = pattern.display(),
            );
            fakes.script(&restore, &script);
        }
        fakes
    }

    /// From now on refuse lines of this pattern (of grep).
    pub(super) fn refuse(&self, family: Family, pattern: &str) {
        let next = self.folder.join("next");
        fs::write(&next, pattern).unwrap();
        fs::rename(&next, self.pattern(family)).unwrap();
    }

    pub(super) fn refuse_nothing(&self, family: Family) {
        fs::remove_file(self.pattern(family)).unwrap();
    }

    fn pattern(&self, family: Family) -> PathBuf {
        self.folder.join(format!("refuse-{family}"))
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.folder.join(name);
        fs::write(&path, format!("#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n{body}")).unwrap();
        make_executable(&path);
    }
}

fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
