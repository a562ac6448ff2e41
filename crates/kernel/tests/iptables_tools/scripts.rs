//! What goes in comes out, and what does not go in is explained.

use kernel::iptables::{Table, Tables, ToolError, Tools};

use kernel::netns::privileged_test;

use crate::place::with_each;

/// The rules and chains of a table, without comments and the chains that each table has.
fn saved(tools: &mut Tools, table: Table) -> Vec<String> {
    let text = tools.save(table).unwrap_or_else(|error| panic!("{error}"));
    let is_own = |line: &&str| line.starts_with('-') || line.ends_with("- [0:0]");
    text.lines().filter(is_own).map(str::to_owned).collect()
}

fn restore(tools: &mut Tools, script: &str) {
    tools.restore(script).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_script_changes_what_it_names_and_nothing_else() {
    privileged_test(|| {
        with_each(|mut tools| {
            let rule =
                |chain: &str| format!("-A {chain} -p tcp -m comment --comment \"ns/web:http\" -j RETURN");
            restore(
                &mut tools,
                &format!("*nat\n:OURS - [0:0]\n{}\nCOMMIT\n*filter\n:OTHER - [0:0]\nCOMMIT\n", rule("OURS")),
            );
            restore(&mut tools, &format!("*nat\n:NEW - [0:0]\n{}\nCOMMIT\n", rule("NEW")));
            let nat = saved(&mut tools, Table::Nat);
            assert_eq!(nat, [":NEW - [0:0]", ":OURS - [0:0]", &rule("NEW"), &rule("OURS")]);
            assert_eq!(saved(&mut tools, Table::Filter), [":OTHER - [0:0]"]);
            restore(&mut tools, "*nat\n:OURS - [0:0]\n:NEW - [0:0]\n-X NEW\nCOMMIT\n");
            assert_eq!(saved(&mut tools, Table::Nat), [":OURS - [0:0]"]);
            assert!(tools.has_random_fully());
            assert!(tools.version().is_some());
        });
    });
}

#[test]
fn the_line_that_fails_is_named_and_the_table_stays() {
    privileged_test(|| {
        with_each(|mut tools| {
            for (line, content) in [
                (4, "-A A -j NOWHERE"),
                (4, "-A A -m nope -j RETURN"),
                (4, "-A A -d 1.2.3.400 -j RETURN"),
                (4, "-A A --frobnicate -j RETURN"),
                (4, "-A NOWHERE -j RETURN"),
                (4, "-D A -j RETURN"),
                (5, "-A A -j B\n-X B"),
            ] {
                let script = format!("*nat\n:A - [0:0]\n:B - [0:0]\n{content}\nCOMMIT\n");
                let error = tools.restore(&script).expect_err(content);
                let ToolError::Refused { line: found, text, .. } = &error else { panic!("{error:?}") };
                assert_eq!(*found, Some(line), "{error}");
                assert_eq!(text.as_deref(), content.lines().last(), "{error}");
                assert!(error.to_string().contains(&format!("at line {line}, \"-")), "{error}");
                assert_eq!(saved(&mut tools, Table::Nat), [""; 0], "{content}");
            }
        });
    });
}
