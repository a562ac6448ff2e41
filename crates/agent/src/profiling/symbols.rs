//! Names for the addresses of a profile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use kernel::profile::Object;

use super::elf;

/// The program's own file, also after it was replaced.
const OWN_FILE: &str = "/proc/self/exe";

/// What is known of the addresses in a profile.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    pub(super) objects: Vec<Object>,
    names: BTreeMap<usize, String>,
}

impl Symbols {
    /// Look up `addresses`. A file that cannot be read leaves its functions without names.
    pub(super) fn find(objects: Vec<Object>, addresses: &BTreeSet<usize>) -> Symbols {
        let mut names = BTreeMap::new();
        for object in &objects {
            let wanted: Vec<usize> = addresses.range(object.code.clone()).copied().collect();
            if wanted.is_empty() {
                continue;
            }
            let in_file: Vec<u64> =
                wanted.iter().map(|address| address.wrapping_sub(object.bias) as u64).collect();
            let found = match File::open(file_of(object)).and_then(|file| elf::names(&file, &in_file)) {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(file = file_of(object), %error, "Failed to read function names for a profile");
                    BTreeMap::new()
                }
            };
            for (address, in_file) in wanted.into_iter().zip(in_file) {
                let name = found.get(&in_file).map(|name| readable(name));
                names.insert(address, name.unwrap_or_else(|| format!("[{}]", short_name(object))));
            }
        }
        Symbols { objects, names }
    }

    pub(super) fn name(&self, address: usize) -> &str {
        self.names.get(&address).map_or("[unknown]", String::as_str)
    }

    pub(super) fn object(&self, address: usize) -> Option<usize> {
        self.objects.iter().position(|object| object.code.contains(&address))
    }
}

/// The path as a reader of the profile should see it.
pub(super) fn path_of(object: &Object) -> String {
    if !object.path.is_empty() {
        return object.path.clone();
    }
    std::fs::read_link(OWN_FILE).map_or_else(|_| "kube-proxy".to_owned(), |path| path.display().to_string())
}

fn file_of(object: &Object) -> &str {
    if object.path.is_empty() { OWN_FILE } else { &object.path }
}

fn short_name(object: &Object) -> &str {
    if object.path.is_empty() { "kube-proxy" } else { object.path.rsplit('/').next().unwrap_or_default() }
}

/// Demangled, without the hash that tells instances apart.
fn readable(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn landmark() -> usize {
        std::hint::black_box(7)
    }

    #[test]
    fn own_functions_are_found_by_address() {
        landmark();
        let inside = landmark as *const () as usize + 1;
        let library = libc_function();
        let symbols = Symbols::find(kernel::profile::loaded_objects(), &[inside, library, 16].into());
        assert_eq!(symbols.name(inside), "agent::profiling::symbols::tests::landmark");
        assert_eq!(symbols.name(16), "[unknown]");
        assert_eq!(symbols.object(16), None);
        assert!(symbols.object(inside).is_some_and(|number| symbols.objects[number].path.is_empty()));
    }

    /// Any address will do: it must not disturb the others.
    fn libc_function() -> usize {
        let objects = kernel::profile::loaded_objects();
        objects.iter().rev().find(|object| !object.path.is_empty()).map_or(1, |object| object.code.start)
    }
}
