//! Which services the page lists: those that match, those with problems first, one screen of them.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use model::ServiceKey;
use serde_json::Value;

use super::super::api::{Refused, unanswered};
use super::super::api_services;
use super::wanted::Wanted;
use crate::questions::Asker;

const ON_A_PAGE: usize = 50;

#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Services that match, and how many of them have problems.
    pub(super) matching: usize,
    pub(super) problems: usize,
    /// The number of the first one that is shown, from 0.
    pub(super) first: usize,
    pub(super) page: usize,
    pub(super) pages: usize,
    /// Documents as `/pointsman/v1/services` has them.
    pub(super) rows: Vec<Value>,
}

pub(super) async fn gather(wanted: &Wanted, sync_thread: &Asker) -> Result<Listing, Refused> {
    let names = sync_thread.service_names(address(&wanted.search)).await.map_err(unanswered)?;
    let mut names: Vec<ServiceKey> = names.into_iter().filter(|name| matches(name, &wanted.search)).collect();
    names.sort_unstable();
    let problems = sync_thread.problematic(&names, usize::MAX).await.map_err(unanswered)?;
    let ordered = match wanted.only_problems {
        true => problems.clone(),
        false => problems_first(names, &problems),
    };
    let pages = ordered.len().div_ceil(ON_A_PAGE).max(1);
    let page = wanted.page.min(pages);
    let first = (page - 1) * ON_A_PAGE;
    let shown: Vec<ServiceKey> = ordered.iter().skip(first).take(ON_A_PAGE).cloned().collect();
    let rows = sync_thread.service_rows(&shown).await.map_err(unanswered)?;
    Ok(Listing {
        matching: ordered.len(),
        problems: problems.len(),
        first,
        page,
        pages,
        rows: rows.iter().map(|row| api_services::document(row, None)).collect(),
    })
}

/// A search for an address, with or without a port, is one for the services that have it.
fn address(search: &str) -> Option<IpAddr> {
    let bare = search.trim_matches(['[', ']']);
    bare.parse().ok().or_else(|| Some(search.parse::<SocketAddr>().ok()?.ip()))
}

fn matches(name: &str, search: &str) -> bool {
    address(search).is_some() || name.contains(search)
}

fn problems_first(names: Vec<ServiceKey>, problems: &[ServiceKey]) -> Vec<ServiceKey> {
    if problems.is_empty() {
        return names;
    }
    let first: HashSet<&ServiceKey> = problems.iter().collect();
    problems.iter().chain(names.iter().filter(|name| !first.contains(name))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_a_part_of_a_name_or_an_address() {
        for (search, wanted) in [
            ("10.96.0.1", Some("10.96.0.1")),
            ("10.96.0.1:80", Some("10.96.0.1")),
            ("[fd00::1]:80", Some("fd00::1")),
            ("[fd00::1]", Some("fd00::1")),
            ("fd00::1", Some("fd00::1")),
            ("10.96", None),
            ("web", None),
            ("", None),
        ] {
            assert_eq!(address(search), wanted.map(|ip| ip.parse().unwrap()), "{search}");
        }
        assert!(
            matches("default/web", "t/we") && matches("default/web", "") && !matches("default/web", "db")
        );
    }

    #[test]
    fn problems_come_first_and_the_rest_keeps_its_order() {
        let names: Vec<ServiceKey> = ["a/a", "a/b", "a/c", "a/d"].map(Into::into).into();
        let ordered = problems_first(names.clone(), &["a/c".into()]);
        assert_eq!(ordered.iter().map(|name| &**name).collect::<Vec<_>>(), ["a/c", "a/a", "a/b", "a/d"]);
        assert_eq!(problems_first(names.clone(), &[]), names);
    }
}
