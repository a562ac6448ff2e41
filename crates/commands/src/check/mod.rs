//! `kube-proxy check`: what would go wrong with manifests, before anything runs. Needs neither an agent nor rights.

mod fields;
mod services;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use cluster::manifests::{Consequence, ManifestSource, raw_documents};
use cluster::{ClusterState, Counts, Update};

use crate::arguments::Arguments;
use crate::{FAILED, GOOD, Outcome, harmless, print};

pub(super) const USAGE: &str = "\
Check manifests of Services, EndpointSlices, Nodes and ServiceCIDRs: what cannot be read, fields that are misspelt,
services without usable endpoints, slices without a service, addresses that several services claim.

Usage:
  kube-proxy check PATH... [flags]        files or folders; - reads from a pipe, such as
                                          kubectl get svc,endpointslices -A -o yaml | kube-proxy check -

Flags:
  --node NAME                             check what policy Local means on this node

Exit code: 0 if nothing is wrong, else 1.
";

pub(super) fn run(arguments: Arguments) -> Outcome {
    arguments.only(&["node"])?;
    if arguments.words.is_empty() {
        return Err("which manifests? Name files or folders, or - for a pipe; see --help".to_owned());
    }
    let (findings, counts) = examine(&arguments.words, arguments.value("node"))?;
    print(&findings.iter().map(|line| format!("{}\n", harmless(line, false))).collect::<String>())?;
    let (services, slices) = (counts.services, counts.slices);
    print(&format!("Services: {services}, slices: {slices}, problems: {}\n", findings.len()))?;
    Ok(if findings.is_empty() { GOOD } else { FAILED })
}

/// A line for each problem, and what there is.
fn examine(words: &[String], node: Option<&str>) -> Result<(Vec<String>, Counts), String> {
    let (mut findings, mut services) = (Vec::new(), BTreeSet::new());
    let mut state = ClusterState::default();
    for word in words {
        let piped = match word.as_str() {
            "-" => Piped::read("the pipe", std::io::stdin())?,
            // Such as <(kubectl get ...) of a shell.
            path if is_pipe(path) => {
                let pipe = File::open(path).map_err(|error| format!("cannot open {path}: {error}"))?;
                Piped::read(path, pipe)?
            }
            path => {
                findings.extend(load(Path::new(path), &mut state, &mut services)?);
                continue;
            }
        };
        let found = load(&piped.0, &mut state, &mut services)?;
        let shown = piped.0.display().to_string();
        findings.extend(found.into_iter().map(|line| line.replace(&shown, word)));
    }
    findings.extend(services::problems(&state, node));
    findings.extend(services::orphans(&state, &services));
    Ok((findings, state.counts()))
}

/// Take the objects in, and the names of all services, proxied or not; returns what is wrong with the documents.
fn load(
    path: &Path,
    state: &mut ClusterState,
    services: &mut BTreeSet<String>,
) -> Result<Vec<String>, String> {
    let loaded = ManifestSource::new(path).load().map_err(|error| error.to_string())?;
    let problems = loaded.problems.into_iter().map(|mut problem| {
        // What the agent does about it is another matter.
        problem.consequence = problem.consequence.filter(|what| *what == Consequence::RestIsUsed);
        problem.to_string()
    });
    let mut findings: Vec<String> = problems.collect();
    state.update(Update::Changes(loaded.changes));
    let documents = raw_documents(path);
    if documents.is_empty() && findings.is_empty() {
        let what = "no manifests are here; in a folder, files that end in .yaml, .yml or .json are read";
        findings.push(format!("{}: {what}", path.display()));
    }
    for document in documents {
        services.extend(fields::service(&document));
        findings.extend(fields::of_another_api(&document));
        findings.extend(fields::misspelt(&document));
        findings.extend(fields::without_service(&document));
    }
    Ok(findings)
}

/// As files may be.
const LONGEST_PIPE: u64 = 256 << 20;

/// What a pipe says, in a file until it is checked.
struct Piped(PathBuf);

fn is_pipe(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

impl Piped {
    fn read(name: &str, pipe: impl Read) -> Result<Piped, String> {
        let mut bytes = Vec::new();
        let read = pipe.take(LONGEST_PIPE + 1).read_to_end(&mut bytes);
        if read.map_err(|error| format!("cannot read {name}: {error}"))? as u64 > LONGEST_PIPE {
            return Err(format!("{name} has more than {} MiB; check it in parts", LONGEST_PIPE >> 20));
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("cannot read {name}: it is not UTF-8"))?;
        if text.trim().is_empty() {
            return Err(format!("{name} is empty; did the command that writes to it fail?"));
        }
        let is_json = text.trim_start().starts_with('{');
        let name =
            format!("kube-proxy-check-{}.{}", std::process::id(), if is_json { "json" } else { "yaml" });
        let file = Piped(std::env::temp_dir().join(name));
        // Nobody else's file is followed or overwritten.
        let created = std::fs::OpenOptions::new().write(true).create_new(true).open(&file.0);
        let written = created.and_then(|mut to| std::io::Write::write_all(&mut to, text.as_bytes()));
        written.map_err(|error| format!("cannot write {}: {error}", file.0.display()))?;
        Ok(file)
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // It is ours; there is nobody to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of this text.
    fn said_of(name: &str, text: &str) -> Vec<String> {
        let file = format!("kube-proxy-check-{name}-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, text).unwrap();
        let examined = examine(&[path.display().to_string()], None);
        std::fs::remove_file(&path).unwrap();
        let shown = path.display().to_string();
        examined.unwrap().0.into_iter().map(|line| line.replace(&shown, "FILE")).collect()
    }

    #[test]
    fn devices_are_refused_and_pipes_are_read() {
        let examined = |path: &str| examine(&[path.to_owned()], None).unwrap().0;
        assert_eq!(examined("/dev/zero"), ["/dev/zero: cannot be read (not a regular file)"]);
        let pipe = std::env::temp_dir().join(format!("kube-proxy-check-pipe-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let shown = pipe.display().to_string();
        let writer = {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                std::fs::write(pipe, format!("# piped\n{SERVICE}\n---\nkind: [")).unwrap()
            })
        };
        let said = examined(&shown);
        writer.join().unwrap();
        std::fs::remove_file(&pipe).unwrap();
        assert!(said[0].starts_with(&shown) && said[0].contains(": document 2: "), "{said:?}");
        assert!(said[1].starts_with("Service default/web: "), "{said:?}");
    }

    const SERVICE: &str = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}";

    fn slice(name: &str, labels: &str, address: &str) -> String {
        format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, labels: {{{labels}}}}}, \
             addressType: IPv4, ports: [{{name: \"\", port: 8080}}], endpoints: [{{addresses: [{address}]}}]}}"
        )
    }

    #[test]
    fn slices_that_belong_to_no_service_are_named() {
        let said =
            said_of("unlabelled", &[SERVICE.to_owned(), slice("web-1", "", "10.244.0.1")].join("\n---\n"));
        assert_eq!(
            said,
            [
                "FILE: document 2: EndpointSlice web-1: no label kubernetes.io/service-name, so no service uses it; add the \
                 label with the name of the service",
                "Service default/web: port 80 (tcp): no EndpointSlice has endpoints for it; clients are rejected",
            ]
        );
        let other = slice("api-1", "kubernetes.io/service-name: api", "10.244.0.2");
        let all = [SERVICE.to_owned(), slice("web-1", WEB, "10.244.0.1"), other.clone()].join("\n---\n");
        assert_eq!(
            said_of("orphan", &all),
            ["EndpointSlices of service default/api: there is no such service here; check their label \
              kubernetes.io/service-name and their namespace"]
        );
        assert_eq!(said_of("slices", &other), Vec::<String>::new(), "no services were given");
        let headless = "{apiVersion: v1, kind: Service, metadata: {name: api}, spec: {clusterIP: None}}";
        assert_eq!(said_of("headless", &[headless.to_owned(), other].join("\n---\n")), Vec::<String>::new());
    }

    #[test]
    fn where_nothing_is_nothing_is_in_order() {
        assert!(said_of("empty", "# later\n")[0].starts_with("FILE: no manifests are here"));
        assert_eq!(said_of("others", "{apiVersion: apps/v1, kind: Deployment}"), Vec::<String>::new());
    }

    const WEB: &str = "kubernetes.io/service-name: web";

    #[test]
    fn endpoints_that_lead_nowhere_are_named() {
        let text = |ip| [SERVICE.to_owned(), slice("web-1", WEB, ip)].join("\n---\n");
        assert_eq!(said_of("pods", &text("10.244.0.1")), Vec::<String>::new());
        let said = said_of("loop", &text("10.96.0.1"));
        let line = "Service default/web: endpoint 10.96.0.1 is the cluster IP of default/web; connections to it usually go \
                    nowhere: point the EndpointSlice at pods";
        assert_eq!(said, [line]);
        for (ip, what) in [("127.0.0.1", "a loopback"), ("169.254.7.7", "a link-local")] {
            let line = format!(
                "Service default/web: endpoint {ip} is {what} address, which an apiserver refuses; point the \
                                EndpointSlice at pods"
            );
            assert_eq!(said_of(ip, &text(ip)), [line]);
        }
        assert!(said_of("forwarder", &text("169.254.84.85"))[0].contains("kube-proxy's own"));
    }
}
