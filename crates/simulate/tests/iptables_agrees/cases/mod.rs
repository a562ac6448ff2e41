//! Scripts, and whether they are taken. Before each, the tables hold what [`setup`] says.

mod chains;
mod families;
mod rules;

use kernel::iptables::Table;

/// What a script is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Taken,
    /// Some kernels refuse it, with one variant of the tools: Linux 6.1 does. Never written here.
    TakenByNew,
    Refused,
    /// A tool may put up with it. It is a mistake or a thing that is never written here, and the simulator does not.
    Strict,
}

/// A name, and the lines of a script's one section.
type Row = (Table, &'static str, &'static str, Answer);

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) script: String,
    pub(crate) answer: Answer,
    pub(crate) is_ipv6: bool,
}

pub(crate) fn setup(is_ipv6: bool) -> String {
    let to = if is_ipv6 { "[fd00::1]:80" } else { "10.0.0.1:80" };
    format!(
        "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -p tcp -j DNAT --to-destination {to}\nCOMMIT\n\
         *filter\n:F - [0:0]\n-A F -j DROP\nCOMMIT\n"
    )
}

pub(crate) fn all() -> Vec<Case> {
    let of_one_family = |rows: &[Row], is_ipv6| {
        let case = |(table, name, lines, answer): &Row| Case {
            name: (*name).to_owned(),
            script: section(*table, lines),
            answer: *answer,
            is_ipv6,
        };
        rows.iter().map(case).collect::<Vec<Case>>()
    };
    let built = built().into_iter().map(|(name, script, answer)| Case {
        name: name.to_owned(),
        script,
        answer,
        is_ipv6: false,
    });
    let rows = [(chains::ROWS, false), (rules::ROWS, false), (families::ROWS, true)];
    rows.into_iter().flat_map(|(rows, is_ipv6)| of_one_family(rows, is_ipv6)).chain(built).collect()
}

fn section(table: Table, lines: &str) -> String {
    format!("*{}\n{lines}\nCOMMIT\n", table.name())
}

/// Scripts that are more or less than a section, and those with something long in them.
fn built() -> Vec<(&'static str, String, Answer)> {
    use Answer::*;
    let whole = |name, script: &str, answer| (name, script.to_owned(), answer);
    let comment =
        |length: usize| section(Table::Nat, &format!("-A A -m comment --comment {}", "x".repeat(length)));
    let list =
        |length: usize| section(Table::Nat, &format!("-A A -m recent --set --name {}", "n".repeat(length)));
    vec![
        whole("no COMMIT", "*nat\n-A A -j RETURN\n", Refused),
        whole("a rule before the table", "-A A -j RETURN\nCOMMIT\n", Refused),
        whole("COMMIT before the table", "COMMIT\n", Refused),
        whole("a table inside another", "*nat\n-A A -j RETURN\n*filter\nCOMMIT\n", Refused),
        whole("an unknown table", "*nope\nCOMMIT\n", Refused),
        whole("nothing", "", Taken),
        whole("comments and empty lines", "# hello\n*nat\n\n# x\nCOMMIT\n", Taken),
        whole(
            "the second table fails",
            "*nat\n-A A -j RETURN\nCOMMIT\n*filter\n-A F --nope\nCOMMIT\n",
            Refused,
        ),
        ("the longest comment", comment(255), Taken),
        ("a comment that would be cut", comment(256), Strict),
        ("the longest name of a list", list(199), Taken),
        ("a name of a list that would be cut", list(200), Strict),
        ("fifteen chains below a hook", deep(15), Taken),
        ("sixteen chains below a hook", deep(16), Strict),
    ]
}

fn deep(levels: usize) -> String {
    let declared: String = (0..levels).map(|level| format!(":D{level} - [0:0]\n")).collect();
    let jumps: String = (1..levels).map(|level| format!("-A D{} -j D{level}\n", level - 1)).collect();
    section(Table::Nat, &format!("{declared}{jumps}-A PREROUTING -j D0"))
}
