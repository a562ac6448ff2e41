//! What scrapers read.

use dataplane::metrics::{Description, Page, label_text};

#[test]
fn labels_and_help_are_escaped() {
    assert_eq!(label_text([("a", "x\"y\\z\n"), ("b", "")]), "a=\"x\\\"y\\\\z\\n\",b=\"\"");
    let mut page = Page::default();
    page.family(&Description::gauge("name", &[], "one\ntwo"));
    page.sample("name", "", f64::INFINITY);
    assert_eq!(page.into_text(), "# HELP name one\\ntwo\n# TYPE name gauge\nname +Inf\n");
}
