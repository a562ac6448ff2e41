//! A CycloneDX bill of materials: what an image holds, with versions, licences and checksums. Pure.

use serde_json::{Value, json};

use crate::linked::Crate;

/// Something in the image that cargo does not know: the C library, a package of Debian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    pub name: String,
    pub version: String,
    pub licence: String,
    /// A package URL.
    pub purl: String,
}

impl Other {
    /// From `NAME VERSION LICENCE PURL`; the licence has no spaces.
    pub fn parse(line: &str) -> Option<Other> {
        let [name, version, licence, purl] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        let [name, version, licence, purl] = [name, version, licence, purl].map(str::to_owned);
        Some(Other { name, version, licence, purl })
    }
}

/// `crates` are those linked into the program, and `time` is that of the commit.
pub fn cyclonedx(version: &str, time: &str, crates: &[Crate], others: &[Other]) -> Value {
    let program = json!({
        "type": "application",
        "bom-ref": "kube-proxy",
        "name": "pointsman/kube-proxy",
        "version": version,
        "licenses": [{"expression": "Apache-2.0"}],
    });
    let (ours, theirs): (Vec<&Crate>, Vec<&Crate>) = crates.iter().partition(|each| is_ours(each));
    let mut components: Vec<Value> = theirs.iter().map(|each| component(each)).collect();
    components.extend(others.iter().map(other));
    // The crates of this project are the program itself.
    let mut direct: Vec<String> = ours
        .iter()
        .flat_map(|each| &each.dependencies)
        .filter(|(name, _)| !ours.iter().any(|each| each.name == *name))
        .map(|(name, version)| reference(name, version))
        .chain(others.iter().map(|other| other.purl.clone()))
        .collect();
    direct.sort();
    direct.dedup();
    let uses = theirs.iter().map(|each| {
        let used: Vec<String> =
            each.dependencies.iter().map(|(name, version)| reference(name, version)).collect();
        json!({"ref": reference(&each.name, &each.version), "dependsOn": used})
    });
    let mut dependencies = vec![json!({"ref": "kube-proxy", "dependsOn": direct})];
    dependencies.extend(uses);
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": time, "component": program},
        "components": components,
        "dependencies": dependencies,
    })
}

fn is_ours(each: &Crate) -> bool {
    each.checksum.is_none()
}

fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn component(each: &Crate) -> Value {
    let purl = reference(&each.name, &each.version);
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": each.name,
        "version": each.version,
        "description": each.description,
        // Older crates write a slash for OR, which is not SPDX.
        "licenses": [{"expression": each.licence.replace('/', " OR ")}],
        "purl": purl,
        "scope": "required",
    });
    if let Some(checksum) = &each.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &each.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

fn other(other: &Other) -> Value {
    json!({
        "type": "library",
        "bom-ref": other.purl,
        "name": other.name,
        "version": other.version,
        "licenses": [{"license": {"name": other.licence}}],
        "purl": other.purl,
        "scope": "required",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, checksum: Option<&str>, uses: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: "MIT/Apache-2.0".to_owned(),
            description: String::new(),
            repository: Some("https://example.com/repository".to_owned()),
            folder: "/".into(),
            checksum: checksum.map(str::to_owned),
            dependencies: uses.iter().map(|name| ((*name).to_owned(), "1.0.0".to_owned())).collect(),
        }
    }

    #[test]
    fn others_are_components_and_ours_are_the_program() {
        let crates = [
            of("ours", None, &["own", "lib"]),
            of("own", None, &["deep"]),
            of("lib", Some("ab"), &["deep"]),
            of("deep", Some("cd"), &[]),
        ];
        let libc = Other::parse("musl 1.2.5 MIT pkg:generic/musl@1.2.5").unwrap();
        let bom = cyclonedx("0.1.0", "2023-11-14T22:13:20Z", &crates, &[libc]);
        let names: Vec<&Value> =
            bom["components"].as_array().unwrap().iter().map(|each| &each["name"]).collect();
        assert_eq!(names, ["lib", "deep", "musl"]);
        assert_eq!(bom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bom["components"][0]["hashes"][0]["content"], "ab");
        let direct = &bom["dependencies"][0];
        assert_eq!(
            (&direct["ref"], &direct["dependsOn"]),
            (
                &json!("kube-proxy"),
                &json!(["pkg:cargo/deep@1.0.0", "pkg:cargo/lib@1.0.0", "pkg:generic/musl@1.2.5"])
            )
        );
        assert_eq!(bom["dependencies"][1]["dependsOn"], json!(["pkg:cargo/deep@1.0.0"]));
        assert_eq!(Other::parse("too few words"), None);
    }
}
