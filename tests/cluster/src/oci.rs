//! Image archives for tests, which `ctr images import` takes: several names for few layers, uncompressed.
//!
//! The images that are shipped are made by `make image` and not here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::run;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A name for a layer, and what is run in it.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub name: String,
    /// A folder with the files of the image.
    pub root: PathBuf,
    pub entrypoint: Vec<&'static str>,
    pub command: Vec<&'static str>,
}

/// Write all of them to one archive. Works in `folder`, which it leaves empty.
pub(crate) fn write(images: &[Image], archive: &Path, folder: &Path) -> Result<(), String> {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(|e| format!("making {}: {e}", blobs.display()))?;
    let mut layers: Vec<(&Path, Value)> = Vec::new();
    let mut manifests = Vec::new();
    for image in images {
        if !layers.iter().any(|(root, _)| *root == image.root) {
            layers.push((&image.root, layer(&image.root, &blobs)?));
        }
        let layer = layers.iter().find(|(root, _)| *root == image.root).map(|(_, layer)| layer.clone());
        manifests.push(manifest(image, &layer.unwrap_or_default(), &blobs)?);
    }
    put(&folder.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes())?;
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    put(&folder.join("index.json"), index.to_string().as_bytes())?;
    pack(folder, archive)?;
    fs::remove_dir_all(folder).map_err(|e| format!("removing {}: {e}", folder.display()))
}

fn manifest(image: &Image, layer: &Value, blobs: &Path) -> Result<Value, String> {
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }, "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        "config": {"Env": [PATH], "Entrypoint": image.entrypoint, "Cmd": image.command, "WorkingDir": "/"},
    });
    let config = blob(CONFIG, config.to_string().as_bytes(), blobs)?;
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    let mut descriptor = blob(MANIFEST, manifest.to_string().as_bytes(), blobs)?;
    descriptor["annotations"] = json!({"io.containerd.image.name": image.name});
    Ok(descriptor)
}

fn layer(root: &Path, blobs: &Path) -> Result<Value, String> {
    let unnamed = blobs.join("layer");
    pack(root, &unnamed)?;
    let descriptor = descriptor(LAYER, &unnamed)?;
    let named = blobs.join(digest_alone(&descriptor));
    fs::rename(&unnamed, &named).map_err(|e| format!("naming {}: {e}", named.display()))?;
    Ok(descriptor)
}

fn pack(folder: &Path, archive: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args(["--numeric-owner", "--owner=0", "--group=0", "--sort=name", "-C"]).arg(folder);
    tar.arg("-cf").arg(archive).arg(".");
    run::output(&mut tar).map(drop)
}

fn blob(kind: &str, bytes: &[u8], blobs: &Path) -> Result<Value, String> {
    let unnamed = blobs.join("blob");
    put(&unnamed, bytes)?;
    let descriptor = descriptor(kind, &unnamed)?;
    let named = blobs.join(digest_alone(&descriptor));
    fs::rename(&unnamed, &named).map_err(|e| format!("naming {}: {e}", named.display()))?;
    Ok(descriptor)
}

fn descriptor(kind: &str, file: &Path) -> Result<Value, String> {
    // Of hundreds of megabytes, and this program is not optimised.
    let sum = run::output(Command::new("sha256sum").arg(file))?;
    let hex = sum.split_whitespace().next().unwrap_or_default();
    let size = fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?.len();
    Ok(json!({"mediaType": kind, "digest": format!("sha256:{hex}"), "size": size}))
}

fn digest_alone(descriptor: &Value) -> String {
    descriptor["digest"].as_str().unwrap_or_default().trim_start_matches("sha256:").to_owned()
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|e| format!("writing {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_share_a_layer() {
        let folder = std::env::temp_dir().join(format!("pointsman-oci-{}", std::process::id()));
        let root = folder.join("root");
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("file"), "text").unwrap();
        let image = |name: &str| Image {
            name: name.to_owned(),
            root: root.clone(),
            entrypoint: vec!["/file"],
            command: vec![],
        };
        let archive = folder.join("archive.tar");
        write(&[image("a:1"), image("b:1")], &archive, &folder.join("work")).unwrap();
        let names = run::output(Command::new("tar").arg("-tf").arg(&archive)).unwrap();
        let blobs = names.lines().filter(|line| line.starts_with("./blobs/sha256/") && !line.ends_with('/'));
        // One layer, one configuration and one manifest: only the names differ.
        assert_eq!(blobs.count(), 3, "{names}");
        fs::remove_dir_all(folder).unwrap();
    }
}
