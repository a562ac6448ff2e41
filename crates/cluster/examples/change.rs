//! `cargo run --release --example change`: how long a reading takes after one of 20 files of 1,000 objects changed.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cluster::manifests::ManifestSource;

const FILES: usize = 20;
const OBJECTS: usize = 1_000;
const TURNS: usize = 20;

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("change-{}", std::process::id()));
    let result = measure(&folder);
    let removed = fs::remove_dir_all(&folder);
    match result.and(removed.map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for file in 0..FILES {
        write(folder, file, 80)?;
    }
    let mut source = ManifestSource::new(folder);
    let (first, took) = load(&mut source)?;
    println!("{FILES} files of {OBJECTS} objects: {first} changes in {took:?}");
    // Stamps of files that changed just now are not trusted; nor need they be in what is measured.
    std::thread::sleep(Duration::from_secs(3));
    println!("read again: {:?}", load(&mut source)?.1);
    println!("nothing changed: {:?}", load(&mut source)?.1);
    let mut times = Vec::new();
    for turn in 0..TURNS {
        write(folder, 7, 81 + turn)?;
        let (changes, took) = load(&mut source)?;
        if changes != 1 {
            return Err(format!("{changes} changes instead of one"));
        }
        times.push(took);
    }
    times.sort_unstable();
    let best = times.first().copied().unwrap_or_default();
    let median = times.get(TURNS / 2).copied().unwrap_or_default();
    println!("one object in one file changed: {best:?} at best, {median:?} in the middle of {TURNS}");
    Ok(())
}

fn load(source: &mut ManifestSource) -> Result<(usize, Duration), String> {
    let started = Instant::now();
    let loaded = source.load().map_err(|error| error.to_string())?;
    match loaded.problems.first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok((loaded.changes.len(), started.elapsed())),
    }
}

/// A file of services, the first of which has this port.
fn write(folder: &Path, file: usize, port: usize) -> Result<(), String> {
    let mut text = String::new();
    for object in 0..OBJECTS {
        let port = if object == 0 { port } else { 80 };
        text.push_str(&format!(
            "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: s-{file}-{object}\nspec:\n  \
             clusterIP: 10.{file}.{}.{}\n  ports:\n  - port: {port}\n",
            object / 250,
            object % 250
        ));
    }
    fs::write(folder.join(format!("{file}.yaml")), text).map_err(|error| error.to_string())
}
