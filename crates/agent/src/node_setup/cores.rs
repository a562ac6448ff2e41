//! How many processors the node has.

use kernel::sysctl::Root;

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The limit on connections is the node's, so the node's processors count: not those that this process may use.
pub(super) fn count(root: &Root) -> usize {
    let online = root.read(ONLINE).ok().and_then(|text| listed(&text));
    online.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// `0-3,5` are five.
fn listed(text: &str) -> Option<usize> {
    let mut sum: usize = 0;
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        sum = sum.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        for (text, count) in [("0", 1), ("0-3", 4), ("0-3,5", 5), ("0,2,4-7\n", 6)] {
            assert_eq!(listed(text), Some(count), "{text}");
        }
        for text in ["", "a", "3-1", "0-", "0-18446744073709551615"] {
            assert_eq!(listed(text), None, "{text}");
        }
    }
}
