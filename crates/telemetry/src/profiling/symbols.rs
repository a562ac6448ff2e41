//! Names for the addresses of a profile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

use kernel::profile::Object;

use super::elf;

/// The program's own file, also after it was replaced.
const OWN_FILE: &str = "/proc/self/exe";

/// What is known of the addresses in a profile.
#[derive(Debug, Default)]
pub struct Symbols {
    pub objects: Vec<Object>,
    names: BTreeMap<usize, String>,
}

impl Symbols {
    /// Look up `addresses`. A file that cannot be read leaves its functions without names.
    pub fn find(objects: Vec<Object>, addresses: &BTreeSet<usize>) -> Symbols {
        let mut names = BTreeMap::new();
        for object in &objects {
            let wanted: Vec<usize> = addresses.range(object.code.clone()).copied().collect();
            if wanted.is_empty() {
                continue;
            }
            let in_file: Vec<u64> =
                wanted.iter().map(|address| address.wrapping_sub(object.bias) as u64).collect();
            let found = match names_file(object).and_then(|file| elf::names(&file, &in_file)) {
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

    pub fn name(&self, address: usize) -> &str {
        self.names.get(&address).map_or("[unknown]", String::as_str)
    }

    pub fn object(&self, address: usize) -> Option<usize> {
        self.objects.iter().position(|object| object.code.contains(&address))
    }
}

/// The path as a reader of the profile should see it.
pub fn path_of(object: &Object) -> String {
    if !object.path.is_empty() {
        return object.path.clone();
    }
    std::fs::read_link(OWN_FILE).map_or_else(|_| "kube-proxy".to_owned(), |path| path.display().to_string())
}

fn file_of(object: &Object) -> &str {
    if object.path.is_empty() { OWN_FILE } else { &object.path }
}

/// The file with the names of the functions: the object's own, or if that is stripped the one that was split off from it.
fn names_file(object: &Object) -> io::Result<File> {
    let own = File::open(file_of(object))?;
    if elf::has_names(&own)? {
        return Ok(own);
    }
    Ok(split_off(&own, &path_of(object)).unwrap_or(own))
}

/// `NAME.debug` beside `path`, if it was made from the same build as `own`.
fn split_off(own: &File, path: &str) -> Option<File> {
    let beside = File::open(format!("{path}.debug")).ok()?;
    let id = |file| elf::build_id(file).ok().flatten();
    if id(own).is_some() && id(own) == id(&beside) {
        return Some(beside);
    }
    tracing::debug!(file = format!("{path}.debug"), "Ignoring function names that are of another build");
    None
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
        assert_eq!(symbols.name(inside), "telemetry::profiling::symbols::tests::landmark");
        assert_eq!(symbols.name(16), "[unknown]");
        assert_eq!(symbols.object(16), None);
        assert!(symbols.object(inside).is_some_and(|number| symbols.objects[number].path.is_empty()));
    }

    /// As scripts/dist makes them.
    #[test]
    fn names_of_a_stripped_program_come_from_the_file_beside_it() {
        let folder = std::env::temp_dir().join(format!("pointsman-symbols-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        let beside = folder.join("program.debug");
        let own = std::env::current_exe().unwrap();
        let objcopy = |how: &str, to: &std::path::Path| {
            std::process::Command::new("objcopy").arg(how).arg(&own).arg(to).status()
        };
        let done = objcopy("--strip-all", &program).and_then(|_| objcopy("--only-keep-debug", &beside));
        if done.is_err() || elf::build_id(&File::open(&own).unwrap()).unwrap().is_none() {
            println!("SKIPPED: no objcopy, or a linker that writes no build id");
            return std::fs::remove_dir_all(folder).unwrap();
        }
        let stripped = File::open(&program).unwrap();
        assert!(!elf::has_names(&stripped).unwrap());
        let names = split_off(&stripped, program.to_str().unwrap()).expect("the same build");
        let object = kernel::profile::loaded_objects().into_iter().find(|object| object.path.is_empty());
        let address = (landmark as *const () as usize - object.unwrap().bias) as u64;
        let found = elf::names(&names, &[address]).unwrap();
        assert_eq!(readable(&found[&address]), "telemetry::profiling::symbols::tests::landmark");
        // Of another build: any other program of this machine.
        std::fs::copy("/bin/sh", &beside).unwrap();
        assert!(split_off(&stripped, program.to_str().unwrap()).is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Any address will do: it must not disturb the others.
    fn libc_function() -> usize {
        let objects = kernel::profile::loaded_objects();
        objects.iter().rev().find(|object| !object.path.is_empty()).map_or(1, |object| object.code.start)
    }
}
