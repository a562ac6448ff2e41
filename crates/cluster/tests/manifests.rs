//! The file source against real folders: one reading after another, and a live watch.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use cluster::manifests::{Loaded, ManifestError, ManifestProblem, ManifestSource, ManifestWatch};
use cluster::{Change, ClusterState, Update};
use proptest::prelude::*;

/// A folder of its own for every test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("manifests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: impl AsRef<str>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.as_ref()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn service(name: &str, port: u32) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  clusterIP: 10.96.0.1\n  ports:\n  - port: {port}\n"
    )
}

fn documents(texts: &[String]) -> String {
    texts.join("---\n")
}

/// What a problem ends in before everything was read whole.
const UNTOUCHED: &str =
    "nothing is programmed until this is mended or removed; rules of an earlier run stay as they are";

/// The source together with a state that follows it.
struct Followed {
    source: ManifestSource,
    state: ClusterState,
    problems: Vec<String>,
    last: Vec<String>,
    is_complete: bool,
}

impl Followed {
    fn new(path: &Path) -> Followed {
        let mut followed = Followed {
            source: ManifestSource::new(path),
            state: ClusterState::default(),
            problems: Vec::new(),
            last: Vec::new(),
            is_complete: false,
        };
        followed.load();
        followed
    }

    /// Read again; returns what changed, like `+web` and `-web`.
    fn load(&mut self) -> Vec<String> {
        let Loaded { changes, problems, is_complete } = self.source.load().unwrap();
        self.is_complete = is_complete;
        let word = |change: &Change| match change {
            Change::Apply(object) => format!("+{}", object.key.name()),
            Change::Delete(key) => format!("-{}", key.name()),
        };
        self.last = changes.iter().map(word).collect();
        self.last.sort();
        changes.into_iter().for_each(|change| self.state.change(change));
        self.problems = problems.iter().map(ToString::to_string).collect();
        self.last.clone()
    }

    fn ports(&self) -> BTreeMap<String, u16> {
        ports(&self.state)
    }
}

/// Every service by name, with its first port.
fn ports(state: &ClusterState) -> BTreeMap<String, u16> {
    let name = |key: &str| key.strip_prefix("default/").unwrap().to_owned();
    state.services().map(|key| (name(key), state.service(key).unwrap().ports[0].port)).collect()
}

fn expected<const N: usize>(pairs: [(&str, u16); N]) -> BTreeMap<String, u16> {
    pairs.into_iter().map(|(name, port)| (name.to_owned(), port)).collect()
}

#[test]
fn a_missing_path_is_one_clear_error() {
    let folder = Folder::new();
    let path = folder.0.join("nothing");
    let error = ManifestSource::new(&path).load().unwrap_err();
    assert!(matches!(error, ManifestError::Missing { .. }));
    assert_eq!(
        error.to_string(),
        format!("manifests: {} does not exist; name a file or a folder of manifests", path.display())
    );
    assert!(ManifestSource::new(&path).watch(|_| ControlFlow::Continue(())).is_err());
}

#[test]
fn everything_in_the_folder_is_read_and_nothing_else() {
    let folder = Folder::new();
    folder.write("a.yaml", service("a", 1));
    folder.write("b.yml", documents(&["# only a comment\n".into(), service("b", 2), service("c", 3)]));
    folder.write("sub/deeper/d.yaml", service("d", 4));
    folder.write(
        "e.json",
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"e"},
            "spec":{"clusterIP":"10.0.0.1","ports":[{"port":5}]}}"#,
    );
    folder.write(".hidden.yaml", service("x", 1));
    folder.write(".git/x.yaml", service("x", 1));
    folder.write("notes.txt", service("x", 1));
    folder.write(
        "deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {ports: 7}\n",
    );
    folder.write("knative.yaml", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: x}\n");
    symlink(&folder.0, folder.0.join("sub/circle")).unwrap();
    let mut followed = Followed::new(&folder.0);
    assert_eq!(followed.problems, [""; 0]);
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]));
    assert_eq!(followed.load(), [""; 0], "nothing changed");
}

#[test]
fn lists_in_yaml_and_json() {
    let folder = Folder::new();
    let indented = |text: String| text.replace('\n', "\n  ").trim_end().to_owned();
    folder.write(
        "list.yaml",
        format!(
            "apiVersion: v1\nitems:\n- {}\n- {}\n- apiVersion: v1\n  kind: Pod\n  spec: 7\nkind: List\n",
            indented(service("a", 1)),
            indented(service("b", 2))
        ),
    );
    folder.write(
        "list.json",
        r#"{"kind":"ServiceList","apiVersion":"v1","items":[
            {"metadata":{"name":"c"},"spec":{"clusterIP":"10.0.0.1","ports":[{"port":3}]}},
            {"metadata":{"name":"d"},"spec":{"clusterIP":"10.0.0.1","ports":[{"port":"many"}]}},
            {"metadata":{"name":"e"},"spec":{"clusterIP":"10.0.0.1","ports":[{"port":70000}]}}]}"#,
    );
    folder.write("empty.yaml", "apiVersion: v1\nkind: List\nitems: null\n");
    let mut followed = Followed::new(&folder.0);
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 2), ("c", 3)]));
    let file = folder.0.join("list.json").display().to_string();
    assert_eq!(
        followed.problems,
        [
            format!(
                "{file}: document 1: Service default/d: items[1].spec.ports[0].port: invalid type: string \"many\", expected i64; {UNTOUCHED}"
            ),
            format!(
                "{file}: document 1: Service default/e: items[2].spec.ports[0].port: 70000 is not a port (1-65535); {UNTOUCHED}"
            ),
        ]
    );
    // One item changes, one item is applied.
    let text = fs::read_to_string(folder.0.join("list.yaml")).unwrap();
    folder.write("list.yaml", text.replace("port: 2", "port: 22"));
    assert_eq!(followed.load(), ["+b"]);
}

#[test]
fn problems_name_file_place_object_and_field() {
    let folder = Folder::new();
    let file = folder.write(
        "a.yaml",
        documents(&[
            service("good", 1),
            service("wrong-type", 1).replace("port: 1", "port: http"),
            service("bad-port", 70000),
            "kind: [\n".into(),
            service("", 1),
            service("old", 1).replace("v1", "v0"),
            service("no-ip", 1).replace("  clusterIP: 10.96.0.1\n", ""),
            "metadata: {name: x}\n".into(),
        ]),
    );
    folder.write("b.json", "{\n  \"kind\": \"Service\",\n  ]\n}");
    let followed = Followed::new(&folder.0);
    assert_eq!(followed.ports(), expected([("good", 1)]));
    let file = file.display().to_string();
    let has = |start: &str, end: &str| {
        let found = followed.problems.iter().any(|p| p.starts_with(start) && p.contains(end));
        assert!(found, "{start} ... {end}\nnot in\n{}", followed.problems.join("\n"));
    };
    has(&format!("{file}:17:"), "document 2: Service default/wrong-type: spec.ports[0].port: ");
    has(&format!("{file}: document 3: Service default/bad-port: spec.ports[0].port: 70000"), "is not a port");
    has(&format!("{file}:"), "document 4: ");
    has(&format!("{file}: document 5"), "metadata.name: is missing");
    has(&format!("{file}: document 6: Service default/old: apiVersion: \"v0\" is not read"), "write v1");
    has(&format!("{file}: document 7: Service default/no-ip: spec.clusterIP: "), "is missing");
    has(&format!("{file}: document 8"), "kind: is missing");
    has(&format!("{}:3:3: document 1: ", folder.0.join("b.json").display()), "");
    assert_eq!(followed.problems.len(), 8);
}

#[test]
fn a_broken_document_keeps_the_last_good_version() {
    let folder = Folder::new();
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 1)]));
    let mut followed = Followed::new(&folder.0);
    // b breaks, a changes, c is new: only b stays as it was.
    folder.write("a.yaml", documents(&[service("a", 2), service("b", 99999), service("c", 1)]));
    assert_eq!(followed.load(), ["+a", "+c"]);
    assert_eq!(followed.ports(), expected([("a", 2), ("b", 1), ("c", 1)]));
    assert_eq!(followed.problems.len(), 1);
    // Still broken, and now c is gone too: nobody can tell whether that was meant.
    folder.write("a.yaml", documents(&[service("a", 2), "kind: [".into()]));
    assert_eq!(followed.load(), [""; 0]);
    // A healthy document elsewhere takes over.
    folder.write("b.yaml", service("b", 3));
    assert_eq!(followed.load(), ["+b"]);
    assert_eq!(followed.ports(), expected([("a", 2), ("b", 3), ("c", 1)]));
    assert_eq!(followed.problems.len(), 1, "what was kept is no second document: {:?}", followed.problems);
    // What took over is gone: the version before it does not come back.
    fs::remove_file(folder.0.join("b.yaml")).unwrap();
    assert_eq!(followed.load(), ["-b"]);
    // Mended without c: now it goes.
    folder.write("a.yaml", service("a", 2));
    assert_eq!(followed.load(), ["-c"]);
    assert_eq!(followed.problems, [""; 0]);
}

#[test]
fn a_start_is_complete_once_everything_could_be_read() {
    let folder = Folder::new();
    folder.write("a.yaml", documents(&[service("a", 1), "{".into()]));
    folder.write("b.yaml", service("b", 1));
    let b_twice = folder.write("c.yaml", service("b", 2));
    let mut followed = Followed::new(&folder.0);
    assert!(!followed.is_complete);
    assert_eq!(followed.problems.len(), 2);
    assert!(followed.problems[0].ends_with(UNTOUCHED), "{}", followed.problems[0]);
    assert!(followed.problems[1].ends_with("remove one of the two"), "{}", followed.problems[1]);
    folder.write("b.yaml", service("b", 3));
    followed.load();
    assert!(!followed.is_complete, "the other file is still broken");
    // Something twice loses nothing.
    folder.write("a.yaml", documents(&[service("a", 1), service("d", 1)]));
    followed.load();
    assert!(followed.is_complete);
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 3), ("d", 1)]));
    fs::remove_file(b_twice).unwrap();
    folder.write("a.yaml", "{");
    followed.load();
    assert!(followed.is_complete, "from then on the last good version counts");
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 3), ("d", 1)]));
}

#[test]
fn an_unreadable_file_at_the_start_is_not_whole_either() {
    let folder = Folder::new();
    folder.write("a.yaml", service("a", 1));
    let b = folder.0.join("b.yaml");
    symlink("b.yaml", &b).unwrap();
    let mut followed = Followed::new(&folder.0);
    assert!(!followed.is_complete && followed.problems[0].ends_with(UNTOUCHED), "{:?}", followed.problems);
    fs::remove_file(&b).unwrap();
    followed.load();
    assert!(followed.is_complete && followed.problems.is_empty());
}

#[test]
fn a_problem_says_what_becomes_of_the_object() {
    let folder = Folder::new();
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 1)]));
    folder.write("c.yaml", service("c", 1));
    let mut followed = Followed::new(&folder.0);
    folder.write(
        "a.yaml",
        documents(&[service("a", 99999), "kind: [\n".into(), service("c", 99999), service("n", 99999)]),
    );
    followed.load();
    let ends: Vec<&str> = followed.problems.iter().map(|text| text.rsplit("; ").next().unwrap()).collect();
    let (stays, other, not) =
        ("its last good version stays in force", "another document provides it", "it is not programmed");
    assert_eq!(ends, [stays, stays, other, not], "{:#?}", followed.problems);
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 1), ("c", 1)]));
}

#[test]
fn removed_files_take_their_objects_along_unreadable_ones_do_not() {
    let folder = Folder::new();
    let a = folder.write("a.yaml", service("a", 1));
    let b = folder.write("b.yaml", service("b", 1));
    let mut followed = Followed::new(&folder.0);
    fs::remove_file(&a).unwrap();
    // A link to itself exists and cannot be read, also for root.
    fs::remove_file(&b).unwrap();
    symlink("b.yaml", &b).unwrap();
    assert_eq!(followed.load(), ["-a"]);
    assert_eq!(followed.ports(), expected([("b", 1)]));
    assert_eq!(followed.problems.len(), 1);
    assert!(
        followed.problems[0].ends_with("its last good version stays in force"),
        "{:?}",
        followed.problems
    );
    fs::remove_file(&b).unwrap();
    folder.write("b.yaml", service("b", 1));
    assert_eq!(followed.load(), [""; 0]);
    assert_eq!(followed.problems, [""; 0]);
}

#[test]
fn of_two_the_first_by_path_wins() {
    let folder = Folder::new();
    folder.write("b.yaml", service("web", 2));
    let mut followed = Followed::new(&folder.0);
    folder.write("a.yaml", service("web", 1));
    assert_eq!(followed.load(), ["+web"]);
    assert_eq!(followed.ports(), expected([("web", 1)]));
    let (a, b) = (folder.0.join("a.yaml"), folder.0.join("b.yaml"));
    assert_eq!(
        followed.problems,
        [format!(
            "{}: document 1: Service default/web: is already in {} (document 1), which is used; remove one of the two",
            b.display(),
            a.display()
        )]
    );
    // The loser was not parsed this time, and is needed now.
    fs::remove_file(&a).unwrap();
    assert_eq!(followed.load(), ["+web"]);
    assert_eq!(followed.ports(), expected([("web", 2)]));
    assert_eq!(followed.problems, [""; 0]);
    // Twice in one file.
    folder.write("b.yaml", documents(&[service("web", 2), service("web", 3)]));
    assert_eq!(followed.load(), [""; 0]);
    assert_eq!(followed.problems.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Files that come, change and go, with the same few objects in them, in one or several documents.
    #[test]
    fn step_by_step_is_the_same_as_all_at_once(
        steps in prop::collection::vec((0..4_usize, prop::collection::vec((0..4_usize, 1..4_u32), 0..4)), 1..12)
    ) {
        let folder = Folder::new();
        let mut followed = Followed::new(&folder.0);
        for (file, objects) in steps {
            let name = ["a.yaml", "b.yaml", "c.yaml", "sub/d.yaml"][file];
            let texts: Vec<String> = objects.iter().map(|(o, port)| service(["v", "w", "x", "y"][*o], *port)).collect();
            match texts.is_empty() {
                true => drop(fs::remove_file(folder.0.join(name))),
                false => drop(folder.write(name, documents(&texts))),
            }
            followed.load();
            let fresh = Followed::new(&folder.0);
            prop_assert_eq!(followed.ports(), fresh.ports());
            prop_assert_eq!(&followed.problems.iter().collect::<BTreeSet<_>>(), &fresh.problems.iter().collect());
            prop_assert_eq!(followed.load(), Vec::<String>::new());
        }
    }
}

#[test]
fn an_object_that_is_no_longer_for_us_goes() {
    let folder = Folder::new();
    folder.write("a.yaml", service("a", 1));
    let mut followed = Followed::new(&folder.0);
    folder.write("a.yaml", service("a", 1).replace("10.96.0.1", "None"));
    assert_eq!(followed.load(), ["-a"]);
}

#[test]
fn alias_bombs_are_refused() {
    let folder = Folder::new();
    let mut bomb =
        String::from("apiVersion: v1\nkind: Service\nmetadata:\n  name: x\nl0: &l0 [a,a,a,a,a,a,a,a,a,a]\n");
    for level in 1..10 {
        let below = vec![format!("*l{}", level - 1); 10].join(",");
        bomb.push_str(&format!("l{level}: &l{level} [{below}]\n"));
    }
    folder.write("bomb.yaml", bomb);
    folder.write("ok.yaml", service("ok", 1));
    // Unfolded these would be ten thousand million nodes: refused, or this never returns.
    let followed = Followed::new(&folder.0);
    assert_eq!(followed.ports(), expected([("ok", 1)]));
    assert_eq!(followed.problems.len(), 1);
}

/// A live watch and a state that follows it.
struct Live {
    _watch: ManifestWatch,
    updates: Receiver<Update>,
    state: ClusterState,
    /// Those that are new and not solved yet.
    problems: Vec<ManifestProblem>,
    deleted: usize,
}

impl Live {
    fn start(path: &Path) -> Live {
        let mut live = Live::begin(path);
        live.until("the first list is in", |live| live.state.is_complete());
        live
    }

    /// Without waiting for anything.
    fn begin(path: &Path) -> Live {
        let (sender, updates) = mpsc::channel();
        let deliver = move |update| match sender.send(update) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let watch = ManifestSource::new(path).watch(deliver).unwrap();
        let state = ClusterState::default();
        Live { _watch: watch, updates, state, problems: Vec::new(), deleted: 0 }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Live) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.updates.recv_timeout(left) {
                Ok(Update::Problems { new, solved }) => {
                    self.problems.retain(|problem| !solved.contains(problem));
                    self.problems.extend(new);
                }
                Ok(update) => {
                    if let Update::Changes(changes) = &update {
                        let deletes = changes.iter().filter(|change| matches!(change, Change::Delete(_)));
                        self.deleted += deletes.count();
                    }
                    self.state.update(update);
                }
                Err(_) => panic!("{what}: not before the deadline; {:?}", ports(&self.state)),
            }
        }
    }

    fn until_ports<const N: usize>(&mut self, pairs: [(&str, u16); N]) {
        let wanted = expected(pairs);
        self.until(&format!("{wanted:?}"), |live| ports(&live.state) == wanted);
    }
}

#[test]
fn live_files_come_change_and_go() {
    let folder = Folder::new();
    folder.write("a.yaml", service("a", 1));
    let mut live = Live::start(&folder.0);
    live.until_ports([("a", 1)]);
    folder.write("a.yaml", service("a", 2));
    live.until_ports([("a", 2)]);
    // As editors write: a new file renamed over the old one.
    let draft = folder.write(".a.yaml.swp", service("a", 3));
    fs::rename(draft, folder.0.join("a.yaml")).unwrap();
    live.until_ports([("a", 3)]);
    folder.write("new/folder/b.yaml", service("b", 1));
    live.until_ports([("a", 3), ("b", 1)]);
    folder.write("new/folder/b.yaml", service("b", 2));
    live.until_ports([("a", 3), ("b", 2)]);
    folder.write("a.yaml", "kind: [");
    live.until("a problem", |live| live.problems.len() == 1);
    assert_eq!(ports(&live.state), expected([("a", 3), ("b", 2)]));
    fs::remove_dir_all(folder.0.join("new")).unwrap();
    live.until_ports([("a", 3)]);
    folder.write("a.yaml", service("a", 4));
    live.until_ports([("a", 4)]);
    live.until("no problem", |live| live.problems.is_empty());
}

#[test]
fn live_half_written_files_wait_for_their_writer() {
    use std::io::Write;
    let folder = Folder::new();
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 1)]));
    let mut live = Live::start(&folder.0);
    let mut writer = fs::File::create(folder.0.join("a.yaml")).unwrap();
    let mut newcomer = fs::File::create(folder.0.join("d.yaml")).unwrap();
    writer.write_all(service("a", 2).as_bytes()).unwrap();
    newcomer.write_all(service("d", 1).as_bytes()).unwrap();
    // Something else calls for a reading meanwhile.
    folder.write("c.yaml", service("c", 1));
    live.until("c", |live| live.state.service("default/c").is_some());
    assert_eq!(ports(&live.state), expected([("a", 1), ("b", 1), ("c", 1)]));
    writer.write_all(format!("---\n{}", service("b", 2)).as_bytes()).unwrap();
    drop((writer, newcomer));
    live.until_ports([("a", 2), ("b", 2), ("c", 1), ("d", 1)]);
}

#[test]
fn live_half_written_files_wait_behind_links_too() {
    use std::io::Write;
    let folder = Folder::new();
    let file = folder.write("real/objects", documents(&[service("a", 1), service("b", 1)]));
    fs::create_dir(folder.0.join("watched")).unwrap();
    symlink("../real/objects", folder.0.join("watched/a.yaml")).unwrap();
    symlink("watched", folder.0.join("link")).unwrap();
    let mut live = Live::start(&folder.0.join("link"));
    let mut writer = fs::File::create(file).unwrap();
    writer.write_all(service("a", 2).as_bytes()).unwrap();
    // Something else calls for a reading meanwhile.
    folder.write("watched/c.yaml", service("c", 1));
    live.until("c", |live| live.state.service("default/c").is_some());
    assert_eq!(ports(&live.state), expected([("a", 1), ("b", 1), ("c", 1)]));
    writer.write_all(format!("---\n{}", service("b", 2)).as_bytes()).unwrap();
    drop(writer);
    live.until_ports([("a", 2), ("b", 2), ("c", 1)]);
    assert_eq!(live.deleted, 0);
}

#[test]
fn live_files_rewritten_in_place_never_seem_empty() {
    let folder = Folder::new();
    let version = |port| documents(&[service("a", port), service("b", port)]);
    let path = folder.write("a.yaml", version(1));
    let mut live = Live::start(&folder.0);
    // Each writing empties the file first; the other file has it read at all times.
    let busy = std::thread::spawn(move || (2..500).for_each(|port| fs::write(&path, version(port)).unwrap()));
    for port in 1..200 {
        folder.write("c.yaml", service("c", port));
    }
    busy.join().unwrap();
    live.until_ports([("a", 499), ("b", 499), ("c", 199)]);
    assert_eq!(live.deleted, 0);
}

#[test]
fn live_start_with_a_broken_file_waits_until_it_is_mended() {
    let folder = Folder::new();
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 99999)]));
    folder.write("c.yaml", service("c", 1));
    let mut live = Live::begin(&folder.0);
    live.until("a problem", |live| live.problems.len() == 1);
    assert!(live.problems[0].to_string().ends_with(UNTOUCHED), "{}", live.problems[0]);
    // Changes elsewhere are followed, but nothing is complete.
    folder.write("c.yaml", service("c", 2));
    live.until_ports([("a", 1), ("c", 2)]);
    assert!(!live.state.is_complete());
    // Broken in another way: that is news, and nothing is solved.
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 88888)]));
    live.until("another problem", |live| live.problems.len() == 2);
    assert!(!live.state.is_complete());
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 5)]));
    live.until("complete", |live| live.state.is_complete());
    assert_eq!(ports(&live.state), expected([("a", 1), ("b", 5), ("c", 2)]));
    assert!(live.problems.iter().all(|problem| problem.to_string().contains("99999")), "{:?}", live.problems);
}

#[test]
fn live_problems_are_told_once_and_their_end_too() {
    let folder = Folder::new();
    folder.write("a.yaml", service("a", 1));
    folder.write("b.yaml", service("b", 1));
    let mut live = Live::start(&folder.0);
    folder.write("a.yaml", service("a", 99999));
    live.until("a problem", |live| live.problems.len() == 1);
    folder.write("b.yaml", service("b", 99999));
    live.until("another, without the first again", |live| live.problems.len() == 2);
    let places: Vec<String> = live.problems.iter().map(ManifestProblem::place).collect();
    let place = |name: &str| {
        format!(
            "{}: document 1: Service default/{name}",
            folder.0.join(name).with_extension("yaml").display()
        )
    };
    assert_eq!(places, [place("a"), place("b")]);
    folder.write("a.yaml", service("a", 2));
    live.until("one is solved", |live| live.problems.len() == 1);
    assert_eq!(live.problems[0].place(), place("b"));
    live.until_ports([("a", 2), ("b", 1)]);
}

#[test]
fn live_config_map_mount() {
    let folder = Folder::new();
    let mount = |version: u16| {
        folder.write(&format!("..{version}/a.yaml"), service("a", version.into()));
        symlink(format!("..{version}"), folder.0.join("..data_tmp")).unwrap();
        fs::rename(folder.0.join("..data_tmp"), folder.0.join("..data")).unwrap();
    };
    mount(1);
    symlink("..data/a.yaml", folder.0.join("a.yaml")).unwrap();
    let mut live = Live::start(&folder.0);
    live.until_ports([("a", 1)]);
    for version in 2..5 {
        mount(version);
        fs::remove_dir_all(folder.0.join(format!("..{}", version - 1))).unwrap();
        live.until_ports([("a", version)]);
    }
}

#[test]
fn live_path_that_is_a_link_to_a_folder() {
    let folder = Folder::new();
    folder.write("v1/a.yaml", service("a", 1));
    folder.write("v2/a.yaml", service("a", 2));
    let swap = |target: &str| {
        symlink(target, folder.0.join("next")).unwrap();
        fs::rename(folder.0.join("next"), folder.0.join("current")).unwrap();
    };
    swap("v1");
    let mut live = Live::start(&folder.0.join("current"));
    live.until_ports([("a", 1)]);
    swap("v2");
    live.until_ports([("a", 2)]);
    folder.write("v2/a.yaml", service("a", 3));
    live.until_ports([("a", 3)]);
}

#[test]
fn live_single_file_and_link_to_elsewhere() {
    let folder = Folder::new();
    let file = folder.write("one/objects", service("a", 1));
    symlink("../one/objects", folder.0.join("link")).unwrap();
    fs::create_dir(folder.0.join("two")).unwrap();
    symlink("../one/objects", folder.0.join("two/a.yaml")).unwrap();
    let mut single = Live::start(&file);
    let mut linked = Live::start(&folder.0.join("two"));
    single.until_ports([("a", 1)]);
    linked.until_ports([("a", 1)]);
    fs::write(&file, service("a", 2)).unwrap();
    single.until_ports([("a", 2)]);
    linked.until_ports([("a", 2)]);
    // Gone for a while: what it said stays.
    fs::remove_file(&file).unwrap();
    single.until("a problem", |live| live.problems.len() == 1);
    assert_eq!(ports(&single.state), expected([("a", 2)]));
    linked.until_ports([]);
    fs::write(&file, service("a", 3)).unwrap();
    single.until_ports([("a", 3)]);
    linked.until_ports([("a", 3)]);
}

#[test]
fn a_dropped_watch_ends_its_thread() {
    let folder = Folder::new();
    let (sender, updates) = mpsc::channel();
    let deliver = move |update| sender.send(update).map_or(ControlFlow::Break(()), ControlFlow::Continue);
    drop(ManifestSource::new(&folder.0).watch(deliver).unwrap());
    // The sender went with the thread, so the channel ends.
    while updates.recv_timeout(Duration::from_secs(20)).is_ok() {}
    assert!(matches!(updates.try_recv(), Err(mpsc::TryRecvError::Disconnected)));
}
