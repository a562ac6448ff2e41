//! `image`: the steps of `make image` that are more than copying files. See `scripts/image`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use image::oci::{Image, Platform};
use image::sbom::Other;
use image::{Failure, licences, linked, oci, sbom};

const USAGE: &str = "\
image archive --reference NAME --time SECONDS --entrypoint PATH --output FILE [--label KEY=VALUE]... ARCH=FOLDER[:FOLDER]...
    Writes an OCI archive with a layer for each folder, and prints its digest. Several ARCHs make one index.
image sbom --target TRIPLE --time SECONDS --output FILE [--other 'NAME VERSION LICENCE PURL']...
    Writes a CycloneDX bill of materials of what is linked into the agent.
image licences --target TRIPLE --output FILE [--other NAME=FILE]...
    Writes the licences of what is linked into the agent.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            #[expect(clippy::print_stderr, reason = "for the person who runs it")]
            {
                eprintln!("image: {problem}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let Some((command, rest)) = arguments.split_first() else { return Err(USAGE.into()) };
    let given = Given::read(rest)?;
    match command.as_str() {
        "archive" => archive(&given),
        "sbom" => bill(&given),
        "licences" => texts(&given),
        _ => Err(USAGE.into()),
    }
}

/// Flags, each with its values, and what follows.
#[derive(Default)]
struct Given {
    flags: BTreeMap<String, Vec<String>>,
    rest: Vec<String>,
}

impl Given {
    fn read(arguments: &[String]) -> Result<Given, Failure> {
        let mut given = Given::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.strip_prefix("--") {
                Some(flag) => {
                    let value = arguments.next().ok_or_else(|| format!("--{flag} needs a value"))?;
                    given.flags.entry(flag.to_owned()).or_default().push(value.clone());
                }
                None => given.rest.push(argument.clone()),
            }
        }
        Ok(given)
    }

    fn all(&self, flag: &str) -> &[String] {
        self.flags.get(flag).map_or(&[], Vec::as_slice)
    }

    fn one(&self, flag: &str) -> Result<&str, Failure> {
        self.all(flag)
            .last()
            .map(String::as_str)
            .ok_or_else(|| format!("--{flag} is missing\n{USAGE}").into())
    }

    fn time(&self) -> Result<u64, Failure> {
        let text = self.one("time")?;
        text.parse().map_err(|_| format!("--time {text}: give seconds since 1970").into())
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let path = Path::new(self.one("output")?);
        std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
    }
}

fn pair(text: &str) -> Result<(String, String), Failure> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?}: expected KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn archive(given: &Given) -> Result<(), Failure> {
    let platform = |text: &String| -> Result<Platform, Failure> {
        let (architecture, folders) = pair(text)?;
        Ok(Platform { architecture, layers: folders.split(':').map(PathBuf::from).collect() })
    };
    let platforms = given.rest.iter().map(platform).collect::<Result<Vec<_>, _>>()?;
    if platforms.is_empty() {
        return Err(USAGE.into());
    }
    let image = Image {
        reference: given.one("reference")?.to_owned(),
        time: given.time()?,
        entrypoint: given.one("entrypoint")?.to_owned(),
        labels: given.all("label").iter().map(|label| pair(label)).collect::<Result<_, _>>()?,
        platforms,
    };
    let (bytes, digest) = oci::archive(&image)?;
    given.write(&bytes)?;
    println!("{digest}");
    Ok(())
}

fn bill(given: &Given) -> Result<(), Failure> {
    let others = given.all("other").iter().map(|line| {
        Other::parse(line)
            .ok_or_else(|| format!("--other {line:?}: expected NAME VERSION LICENCE PURL").into())
    });
    let others = others.collect::<Result<Vec<_>, Failure>>()?;
    let time = jiff::Timestamp::from_second(i64::try_from(given.time()?)?)?.to_string();
    let crates = linked::crates(Path::new("."), given.one("target")?)?;
    let bom = sbom::cyclonedx(env!("CARGO_PKG_VERSION"), &time, &crates, &others);
    given.write(format!("{bom:#}\n").as_bytes())
}

fn texts(given: &Given) -> Result<(), Failure> {
    let other = |text: &String| -> Result<(String, String), Failure> {
        let (name, file) = pair(text)?;
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        Ok((name, text))
    };
    let others = given.all("other").iter().map(other).collect::<Result<Vec<_>, _>>()?;
    let crates = linked::crates(Path::new("."), given.one("target")?)?;
    given.write(licences::text(&crates, &others)?.as_bytes())
}
