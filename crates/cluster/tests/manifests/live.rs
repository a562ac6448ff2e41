//! What a running watch tells, and when.

use super::*;

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
                        let deletes =
                            changes.iter().filter(|change| matches!(change, ObjectChange::Delete(_)));
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
fn live_start_with_a_broken_file_waits_until_it_is_repaired() {
    let folder = Folder::new();
    folder.write("a.yaml", documents(&[service("a", 1), broken("b")]));
    folder.write("c.yaml", service("c", 1));
    let mut live = Live::begin(&folder.0);
    live.until("a problem", |live| live.problems.len() == 1);
    assert!(live.problems[0].to_string().ends_with(UNTOUCHED), "{}", live.problems[0]);
    // Changes elsewhere are followed, but nothing is complete.
    folder.write("c.yaml", service("c", 2));
    live.until_ports([("a", 1), ("c", 2)]);
    assert!(!live.state.is_complete());
    // Broken in another way: that is news, and nothing is solved.
    folder.write("a.yaml", documents(&[service("a", 1), broken("b").replace(".one", ".two")]));
    live.until("another problem", |live| live.problems.len() == 2);
    assert!(!live.state.is_complete());
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 5)]));
    live.until("complete", |live| live.state.is_complete());
    assert_eq!(ports(&live.state), expected([("a", 1), ("b", 5), ("c", 2)]));
    assert!(live.problems.iter().all(|problem| problem.to_string().contains(".one")), "{:?}", live.problems);
}

#[test]
fn live_problems_are_told_once_and_their_end_too() {
    let folder = Folder::new();
    folder.write("a.yaml", service("a", 1));
    folder.write("b.yaml", service("b", 1));
    let mut live = Live::start(&folder.0);
    folder.write("a.yaml", broken("a"));
    live.until("a problem", |live| live.problems.len() == 1);
    folder.write("b.yaml", broken("b"));
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
