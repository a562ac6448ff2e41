//! The real Helm, and what it renders.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use test_support::{Report, Verdict};

/// What every rendering needs.
pub(crate) const SERVER: &str = "apiServer=https://control-plane.example.com:6443";
pub(crate) const IMAGE: &str = "image.repository=registry.example.com/pointsman/kube-proxy";

#[derive(Clone, Debug)]
pub(crate) struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Never builds it: that takes minutes.
    pub(crate) fn find_for(report: &Report) -> Result<Helm, Verdict> {
        if report.is_list_only() {
            return Err(Verdict::Passed);
        }
        let asked = Command::new(root().join("scripts/helm")).arg("--cached").output();
        let asked = asked.map_err(|error| Verdict::Failed(format!("scripts/helm: {error}")))?;
        if !asked.status.success() {
            return Err(Verdict::Skipped(text(&asked.stderr).trim().to_owned()));
        }
        Ok(Helm { program: text(&asked.stdout).trim().into() })
    }

    /// Definitions of the Prometheus operator, which the chart can have objects of.
    pub(crate) fn definition(&self, kind: &str) -> Value {
        let path = self.program.with_file_name(format!("{kind}.yaml"));
        let written = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        read(written.trim_start_matches("---"))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let home = std::env::temp_dir();
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(root());
        // Nothing of the user's own.
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, &home);
        }
        command.output().expect("helm starts")
    }

    /// `helm template` with values as `--set` takes them.
    pub(crate) fn template(&self, values: &[&str]) -> Output {
        let mut arguments =
            vec!["template", "pointsman", "deploy/helm/pointsman", "--namespace", "kube-system"];
        values.iter().for_each(|value| arguments.extend(["--set", value]));
        self.run(&arguments)
    }

    /// The objects of a rendering that has to succeed. Those of `helm test` are among them.
    pub(crate) fn objects(&self, values: &[&str]) -> Vec<Value> {
        let output = self.template(&[&[SERVER, IMAGE], values].concat());
        assert!(output.status.success(), "{values:?}: {}", text(&output.stderr));
        let rendered = text(&output.stdout);
        let parts = rendered.split("\n---\n").map(|part| part.trim_start_matches("---\n"));
        parts.map(read).filter(|object| !object.is_null()).collect()
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Repeated keys are errors.
pub(crate) fn read(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap_or_else(|problem| panic!("{problem}\n{yaml}"))
}

pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}
