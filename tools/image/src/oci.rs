//! An OCI image layout in one tar file, for one platform or for several under one name.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::Failure;
use crate::tar::{self, Archive, Content};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What to write.
#[derive(Clone, Debug)]
pub struct Image {
    /// The whole name, such as `registry.example.com/pointsman/kube-proxy:0.1.0`.
    pub reference: String,
    /// Seconds since 1970: of the commit that it is built from.
    pub time: u64,
    pub entrypoint: String,
    pub labels: BTreeMap<String, String>,
    pub platforms: Vec<Platform>,
}

#[derive(Clone, Debug)]
pub struct Platform {
    /// As Go calls it: `amd64`, `arm64`.
    pub architecture: String,
    /// A folder for each layer, the lowest first.
    pub layers: Vec<PathBuf>,
}

/// The archive, and the digest of what a registry would know it by.
pub fn archive(image: &Image) -> Result<(Vec<u8>, String), Failure> {
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    for platform in &image.platforms {
        let mut manifest = manifest(image, platform, &mut blobs)?;
        manifest["platform"] = json!({"architecture": platform.architecture, "os": "linux"});
        manifests.push(manifest);
    }
    let mut top = match <[Value; 1]>::try_from(manifests) {
        Ok([only]) => only,
        Err(several) => {
            let index = json!({
                "schemaVersion": 2, "mediaType": INDEX, "manifests": several, "annotations": image.labels,
            });
            blobs.add_json(INDEX, &index)
        }
    };
    let digest = top["digest"].as_str().unwrap_or_default().to_owned();
    top["annotations"] = json!({
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference,
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]});
    Ok((blobs.pack(image.time, &index)?, digest))
}

fn manifest(image: &Image, platform: &Platform, blobs: &mut Blobs) -> Result<Value, Failure> {
    let created = jiff::Timestamp::from_second(i64::try_from(image.time)?)?.to_string();
    let (mut layers, mut contents, mut history) = (Vec::new(), Vec::new(), Vec::new());
    for folder in &platform.layers {
        let layer = tar::of_folder(folder, image.time)?;
        contents.push(digest(&layer));
        layers.push(blobs.add(LAYER, compressed(&layer)?));
        let what = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        history.push(json!({"created": created, "created_by": "make image", "comment": what}));
    }
    let config = json!({
        "architecture": platform.architecture,
        "os": "linux",
        "created": created,
        "config": {
            "Entrypoint": [image.entrypoint],
            "Env": [format!("PATH={PATH}")],
            "Labels": image.labels,
        },
        "rootfs": {"type": "layers", "diff_ids": contents},
        "history": history,
    });
    let config = blobs.add_json(CONFIG, &config);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
        "annotations": image.labels,
    });
    Ok(blobs.add_json(MANIFEST, &manifest))
}

/// Contents by digest, each once.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Its descriptor.
    fn add(&mut self, kind: &str, bytes: Vec<u8>) -> Value {
        let digest = digest(&bytes);
        let descriptor = json!({"mediaType": kind, "digest": digest, "size": bytes.len()});
        self.0.insert(digest, bytes);
        descriptor
    }

    fn add_json(&mut self, kind: &str, value: &Value) -> Value {
        self.add(kind, value.to_string().into_bytes())
    }

    fn pack(self, time: u64, index: &Value) -> Result<Vec<u8>, Failure> {
        let mut archive = Archive::new(time);
        let file = |bytes| Content::File { bytes, is_program: false };
        archive.add("oci-layout", &file(json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes()))?;
        archive.add("index.json", &file(index.to_string().into_bytes()))?;
        archive.add("blobs", &Content::Folder)?;
        archive.add("blobs/sha256", &Content::Folder)?;
        for (digest, bytes) in self.0 {
            archive.add(&format!("blobs/{}", digest.replace(':', "/")), &file(bytes))?;
        }
        Ok(archive.finish())
    }
}

/// Without a name or time inside, so that it depends on the contents only.
fn compressed(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn digest(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn image(architectures: &[&str], tag: &str) -> (Image, PathBuf) {
        let root = std::env::temp_dir().join(format!("pointsman-oci-{tag}-{}", std::process::id()));
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/program"), b"contents").unwrap();
        let platform =
            |name: &&str| Platform { architecture: (*name).to_owned(), layers: vec![root.clone()] };
        let image = Image {
            reference: "registry.example.com/a/b:1".to_owned(),
            time: 1_700_000_000,
            entrypoint: "/bin/program".to_owned(),
            labels: [("org.opencontainers.image.version".to_owned(), "1".to_owned())].into(),
            platforms: architectures.iter().map(platform).collect(),
        };
        (image, root)
    }

    /// The files of an archive, by name.
    fn unpacked(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut at = 0;
        while archive[at] != 0 {
            let field = |from: usize, length: usize| {
                let bytes = &archive[at + from..at + from + length];
                String::from_utf8(bytes.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
            };
            let size = usize::from_str_radix(&field(124, 12), 8).unwrap();
            files.insert(field(0, 100), archive[at + 512..at + 512 + size].to_vec());
            at += 512 + size.next_multiple_of(512);
        }
        files
    }

    fn blob(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().unwrap();
        let bytes = &files[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(
            (super::digest(bytes), bytes.len() as u64),
            (digest.to_owned(), descriptor["size"].as_u64().unwrap())
        );
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    #[test]
    fn one_platform_is_a_manifest_and_every_digest_is_right() {
        let (image, root) = image(&["amd64"], "one");
        let (bytes, digest) = archive(&image).unwrap();
        let again = archive(&image).unwrap();
        fs::remove_dir_all(root).unwrap();
        assert_eq!((&bytes, &digest), (&again.0, &again.1), "the same files, the same digest");
        let files = unpacked(&bytes);
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let top = &index["manifests"][0];
        assert_eq!(top["digest"], digest.as_str());
        assert_eq!(top["annotations"]["io.containerd.image.name"], "registry.example.com/a/b:1");
        let manifest = blob(&files, top);
        let config = blob(&files, &manifest["config"]);
        assert_eq!(
            (&config["architecture"], &config["created"]),
            (&json!("amd64"), &json!("2023-11-14T22:13:20Z"))
        );
        assert_eq!(config["config"]["Entrypoint"], json!(["/bin/program"]));
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], "1");
        blob(&files, &manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn several_platforms_are_one_index() {
        let (image, root) = image(&["amd64", "arm64"], "two");
        let (bytes, _) = archive(&image).unwrap();
        fs::remove_dir_all(root).unwrap();
        let files = unpacked(&bytes);
        let outer: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let inner = blob(&files, &outer["manifests"][0]);
        let platforms: Vec<&Value> = inner["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|each| &each["platform"]["architecture"])
            .collect();
        assert_eq!(platforms, ["amd64", "arm64"]);
        for manifest in inner["manifests"].as_array().unwrap() {
            let manifest = blob(&files, manifest);
            assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
        }
    }
}
