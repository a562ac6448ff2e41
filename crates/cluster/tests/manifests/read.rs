//! What one reading of files and folders brings.

use super::*;

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
fn what_is_too_large_or_never_ends_is_refused_at_once() {
    let folder = Folder::new();
    let path = folder.0.join("image.yaml");
    fs::File::create(&path).unwrap().set_len(10 << 30).unwrap();
    folder.write("a.yaml", service("a", 1));
    let followed = Followed::new(&folder.0);
    assert_eq!(followed.ports(), expected([("a", 1)]));
    let problem = format!("{}: cannot be read (larger than 256 MiB)", path.display());
    assert!(followed.problems[0].starts_with(&problem), "{:?}", followed.problems);
    assert_eq!(raw_documents(&folder.0).len(), 1);
    for device in ["/dev/zero", "/dev/null"].map(Path::new) {
        let problems = ManifestSource::new(device).load().unwrap().problems;
        assert!(problems[0].to_string().contains(" cannot be read (not a regular file)"), "{problems:?}");
        assert_eq!(raw_documents(device), []);
    }
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
            {"metadata":{"name":"e"},"spec":{"clusterIP":"10.0.0.one","ports":[{"port":5}]}},
            {"metadata":{"name":"f"},"spec":{"clusterIP":"10.0.0.1","ports":[{"port":6},{"port":70000}]}}]}"#,
    );
    folder.write("empty.yaml", "apiVersion: v1\nkind: List\nitems: null\n");
    let mut followed = Followed::new(&folder.0);
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 2), ("c", 3), ("f", 6)]));
    let file = folder.0.join("list.json").display().to_string();
    assert_eq!(
        followed.problems,
        [
            format!(
                "{file}: document 1: Service default/d: items[1].spec.ports[0].port: invalid type: string \"many\", \
                 expected i64; {UNTOUCHED}"
            ),
            format!(
                "{file}: document 1: Service default/e: items[2].spec.clusterIP: \"10.0.0.one\" is not an IP \
                 address; {UNTOUCHED}"
            ),
            format!(
                "{file}: document 1: Service default/f: items[3].spec.ports[1].port: 70000 is not a port (1-65535); \
                 the rest of it is used"
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
            broken("bad-ip"),
            "kind: [\n".into(),
            service("", 1),
            service("old", 1).replace("v1", "v0"),
            service("no-ip", 1).replace("  clusterIP: 10.96.0.1\n", ""),
            "metadata: {name: x}\n".into(),
            "kind: EndpointSlice\nmetadata: {name: bare}\n".into(),
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
    has(
        &format!("{file}:17:"),
        "document 2: Service default/wrong-type: spec.ports[0].port: must be a whole number; ",
    );
    has(
        &format!("{file}: document 3: Service default/bad-ip: spec.clusterIP: \"10.96.0.one\""),
        "is not an IP",
    );
    has(&format!("{file}:"), "document 4: ");
    has(&format!("{file}: document 5"), "metadata.name: is missing");
    has(&format!("{file}: document 6: Service default/old: apiVersion: \"v0\" is not read"), "write v1");
    has(&format!("{file}: document 7: Service default/no-ip: spec.clusterIP: "), "is missing");
    has(&format!("{file}: document 8"), "kind: is missing");
    has(
        &format!("{file}: document 9: EndpointSlice default/bare: apiVersion: "),
        "is missing; write discovery.k8s.io/v1",
    );
    has(&format!("{}:3:3: document 1: ", folder.0.join("b.json").display()), "");
    assert_eq!(followed.problems.len(), 9);
}

#[test]
fn a_broken_document_keeps_the_last_good_version() {
    let folder = Folder::new();
    folder.write("a.yaml", documents(&[service("a", 1), service("b", 1)]));
    let mut followed = Followed::new(&folder.0);
    // b breaks, a changes, c is new: only b stays as it was.
    folder.write("a.yaml", documents(&[service("a", 2), broken("b"), service("c", 1)]));
    assert_eq!(followed.load(), ["+a", "+c"]);
    assert_eq!(followed.ports(), expected([("a", 2), ("b", 1), ("c", 1)]));
    assert_eq!(followed.problems.len(), 1);
    // Still broken, and now c is gone too: it is unknown whether that was meant.
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
    // Fixed without c: now it goes.
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
    folder.write("a.yaml", documents(&[broken("a"), "kind: [\n".into(), broken("c"), broken("n")]));
    followed.load();
    let ends: Vec<&str> = followed.problems.iter().map(|text| text.rsplit("; ").next().unwrap()).collect();
    let (stays, other, not) =
        ("its last good version stays in use", "another document provides it", "it is not programmed");
    assert_eq!(ends, [stays, stays, other, not], "{:#?}", followed.problems);
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 1), ("c", 1)]));
}

/// It is reported for as long as it is there, holds up no start, and keeps back no change of the rest.
#[test]
fn an_entry_that_cannot_be_used_is_left_out_of_its_object() {
    let folder = Folder::new();
    let two_ports = |first: u32| format!("{}  - port: 70000\n", service("a", first));
    folder.write("a.yaml", documents(&[two_ports(1), service("b", 1)]));
    let mut followed = Followed::new(&folder.0);
    let flaw = format!(
        "{}: document 1: Service default/a: spec.ports[1].port: 70000 is not a port (1-65535); the rest of it is \
         used",
        folder.0.join("a.yaml").display()
    );
    assert!(followed.is_complete);
    assert_eq!(followed.problems, [&*flaw]);
    assert_eq!(followed.ports(), expected([("a", 1), ("b", 1)]));
    folder.write("a.yaml", documents(&[two_ports(1), service("b", 2)]));
    assert_eq!(followed.load(), ["+b"]);
    assert_eq!(followed.problems, [&*flaw], "it is still there");
    folder.write("a.yaml", documents(&[two_ports(2)]));
    assert_eq!(followed.load(), ["+a", "-b"], "nothing is kept for the sake of an entry");
    assert_eq!(followed.problems, [&*flaw]);
    folder.write("a.yaml", service("a", 2));
    followed.load();
    assert_eq!(followed.problems, [""; 0]);
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
    assert!(followed.problems[0].ends_with("its last good version stays in use"), "{:?}", followed.problems);
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
            "{}: document 1: Service default/web: is already in {} (document 1), which is used; remove one of the \
             two",
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
