//! The file that tells a kube-proxy where the apiserver is and who it is itself.

use std::path::Path;

use serde_json::{Value, json};

/// How a client proves who it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof<'a> {
    Token(&'a str),
    /// A file that holds the token and may change.
    TokenFile(&'a Path),
    Certificate {
        certificate: &'a Path,
        key: &'a Path,
    },
    /// A program that prints the token.
    Exec(&'a Path),
}

/// JSON is YAML, so every reader of a kubeconfig takes it.
pub(crate) fn text(server: &str, authority: &Path, proof: Proof<'_>) -> String {
    let user: Value = match proof {
        Proof::Token(token) => json!({"token": token}),
        Proof::TokenFile(path) => json!({"tokenFile": path}),
        Proof::Certificate { certificate, key } => {
            json!({"client-certificate": certificate, "client-key": key})
        }
        Proof::Exec(program) => json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": program, "interactiveMode": "Never",
        }}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    });
    format!("{config:#}\n")
}
