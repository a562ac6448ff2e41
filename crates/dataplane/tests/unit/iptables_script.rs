//! Unit tests of `iptables/script`.

use super::*;

#[test]
fn lines_have_owners() {
    let chain = |name: &str, rules: usize| {
        let mut chain = Chain::new(name);
        (0..rules).for_each(|_| chain.rule(format_args!(" -j RETURN")));
        chain
    };
    let (web, dns): (ServiceKey, ServiceKey) = ("a/web".into(), "a/dns".into());
    let mut script = Script::default();
    script.open(Table::Nat, vec!["B".into(), "A".into(), "A".into()]);
    script.chain(Table::Nat, &chain("A", 1), None);
    script.chain(Table::Nat, &chain("B", 2), Some(&web));
    script.chain(Table::Nat, &chain("C", 1), Some(&web));
    script.chain(Table::Nat, &chain("D", 1), Some(&dns));
    script.close(&["E".into()]);
    let text = "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j RETURN\n-A B -j RETURN\n-A B -j RETURN\n-A C -j RETURN\n\
                -A D -j RETURN\n-X E\nCOMMIT\n";
    assert_eq!(script.text(), text);
    let owners: Vec<Option<&str>> = (0..12).map(|line| script.owner(line).map(|owner| &**owner)).collect();
    let (web, dns, none) = (Some("a/web"), Some("a/dns"), None);
    assert_eq!(owners, [none, none, none, none, none, web, web, web, dns, none, none, none]);
    assert_eq!(script.written, [0, 5]);
}
