//! What a kubeconfig says: the server of its current context and who we are there. Files that it names are read elsewhere;
//! their paths are below its own folder.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an exec plugin may be told of a cluster stands in an extension with this name.
const FOR_PLUGINS: &str = "client.authentication.k8s.io/exec";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
    contexts: Option<Vec<NamedContext>>,
    current_context: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Option<Cluster>,
}

#[derive(Clone, Debug, Deserialize)]
struct NamedUser {
    name: String,
    user: Option<User>,
}

#[derive(Clone, Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Option<Context>,
}

#[derive(Clone, Debug, Deserialize)]
struct Context {
    cluster: String,
    user: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) tls_server_name: Option<String>,
    pub(super) proxy_url: Option<String>,
    extensions: Option<Vec<Extension>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Extension {
    name: String,
    #[serde(default)]
    extension: Value,
}

/// Holds secrets, so it cannot be printed.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct User {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) token: Option<String>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    pub(super) client_certificate: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<String>,
    #[serde(rename = "as")]
    pub(super) as_user: Option<String>,
    pub(super) as_uid: Option<String>,
    pub(super) as_groups: Option<Vec<String>>,
    pub(super) as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    pub(super) auth_provider: Option<Value>,
    pub(super) exec: Option<Exec>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("User")
    }
}

impl User {
    /// What is empty is not set.
    fn drop_empty(&mut self) {
        let User { username, password, token, token_file, as_user, as_uid, exec, .. } = self;
        let command = exec.as_mut().map(|exec| &mut exec.command);
        let texts = [username, password, token, token_file, as_user, as_uid];
        for text in texts.into_iter().chain(command) {
            text.take_if(|text| text.is_empty());
        }
    }
}

/// How an exec plugin is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Exec {
    pub(super) api_version: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<Variable>>,
    pub(super) interactive_mode: Option<String>,
    #[serde(default)]
    pub(super) provide_cluster_info: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

/// The cluster, in the form that exec plugins get.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ToldCluster<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    insecure_skip_tls_verify: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a Value>,
}

/// The cluster and the user of the current context.
pub(super) fn read(path: &Path) -> Result<(Cluster, User), String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let text = std::str::from_utf8(text).map_err(|_| "it is not a kubeconfig: it is not UTF-8".to_owned())?;
    let (mut cluster, mut user) = parse(text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let command = user.exec.as_mut().and_then(|exec| exec.command.as_mut());
    // One without a slash is looked for in PATH.
    let command = command.filter(|command| command.contains('/'));
    [
        cluster.certificate_authority.as_mut(),
        user.client_certificate.as_mut(),
        user.client_key.as_mut(),
        user.token_file.as_mut(),
        command,
    ]
    .into_iter()
    .flatten()
    .filter(|named| !named.is_empty())
    .for_each(|named| *named = folder.join(&*named).display().to_string());
    Ok((cluster, user))
}

pub(super) fn parse(text: &str) -> Result<(Cluster, User), String> {
    let documents: Vec<File> =
        serde_saphyr::from_multiple(text).map_err(|error| mistake(&error.to_string()))?;
    if documents.is_empty() {
        return Err("it is empty".to_owned());
    }
    let (cluster, mut user) = documents.into_iter().fold(File::default(), File::merge).current()?;
    user.drop_empty();
    Ok((cluster, user))
}

/// A parser's own words show the lines around the mistake, and a value that has the wrong type.
fn mistake(said: &str) -> String {
    let number = |after: &str| -> Option<u32> {
        let (_, rest) = said.split_once(after)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    match (number("line "), number("column ")) {
        (Some(line), Some(column)) => {
            format!("it is not a kubeconfig: mistake at line {line}, column {column}")
        }
        _ => "it is not a kubeconfig".to_owned(),
    }
}

impl File {
    /// What comes first is what counts.
    fn merge(mut self, next: File) -> File {
        self.clusters.get_or_insert_default().extend(next.clusters.into_iter().flatten());
        self.users.get_or_insert_default().extend(next.users.into_iter().flatten());
        self.contexts.get_or_insert_default().extend(next.contexts.into_iter().flatten());
        self.current_context = self.current_context.or(next.current_context);
        self
    }

    fn current(self) -> Result<(Cluster, User), String> {
        let Some(current) = self.current_context.filter(|name| !name.is_empty()) else {
            return Err("it names no current-context".to_owned());
        };
        let context = self.contexts.into_iter().flatten().find(|context| context.name == current);
        let Some(context) = context.and_then(|context| context.context) else {
            return Err(format!("its current-context {current:?} is not one that it defines"));
        };
        let cluster = self.clusters.into_iter().flatten().find(|cluster| cluster.name == context.cluster);
        let Some(cluster) = cluster.and_then(|cluster| cluster.cluster) else {
            return Err(format!(
                "its context names the cluster {:?}, which it does not define",
                context.cluster
            ));
        };
        let Some(name) = context.user.filter(|name| !name.is_empty()) else {
            return Ok((cluster, User::default()));
        };
        match self.users.into_iter().flatten().find(|user| user.name == name) {
            Some(user) => Ok((cluster, user.user.unwrap_or_default())),
            // Without credentials, the server would refuse everything.
            None => Err(format!("its context names the user {name:?}, which it does not define")),
        }
    }
}

impl Cluster {
    /// `authority`: the certificates that are trusted.
    pub(super) fn told(&self, authority: Option<String>) -> ToldCluster<'_> {
        let extension = self.extensions.iter().flatten().find(|extension| extension.name == FOR_PLUGINS);
        ToldCluster {
            server: self.server.as_deref(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            certificate_authority_data: authority,
            proxy_url: self.proxy_url.as_deref(),
            tls_server_name: self.tls_server_name.as_deref(),
            config: extension.map(|extension| &extension.extension),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
apiVersion: v1
kind: Config
current-context: b
clusters:
- {name: one, cluster: {server: 'https://192.0.2.1:6443', certificate-authority: ca.crt}}
contexts:
- {name: a, context: {cluster: none}}
- {name: b, context: {cluster: one, user: ann, namespace: n}}
preferences: {}
users:
- {name: bob, user: {token: a}}
- name: ann
  user:
    tokenFile: /run/token
    exec: {apiVersion: v1, command: ./plugin, args: [a], env: [{name: N, value: V}], provideClusterInfo: true}
";

    #[test]
    fn the_current_context_names_cluster_and_user() {
        let (cluster, user) = parse(TWO).unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://192.0.2.1:6443"));
        assert_eq!(user.token_file.as_deref(), Some("/run/token"));
        let exec = user.exec.unwrap();
        assert!(exec.provide_cluster_info && exec.env.unwrap()[0].value == "V");
    }

    #[test]
    fn paths_are_below_the_folder_of_the_file() {
        let folder = std::env::temp_dir().join(format!("kubeconfig-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("config");
        std::fs::write(&path, ["\u{feff}", TWO].concat()).unwrap();
        let (cluster, user) = read(&path).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(cluster.certificate_authority.as_deref(), folder.join("ca.crt").to_str());
        assert_eq!(user.token_file.as_deref(), Some("/run/token"), "it is a path already");
        assert_eq!(user.exec.unwrap().command.as_deref(), folder.join("./plugin").to_str());
    }

    #[test]
    fn what_is_empty_is_not_set() {
        let empty =
            "{tokenFile: '', token: '', username: '', password: '', as: '', as-uid: '', exec: {command: ''}}";
        let text =
            TWO.split_once("    tokenFile").unwrap().0.replace("  user:\n", &format!("  user: {empty}\n"));
        let (_, user) = parse(&text).unwrap();
        let texts = [user.token_file, user.token, user.username, user.password, user.as_user, user.as_uid];
        assert_eq!(texts.map(|text| text.is_some()), [false; 6]);
        assert_eq!(user.exec.unwrap().command, None);
    }

    #[test]
    fn of_several_documents_the_first_counts() {
        let later =
            "current-context: a\nclusters: [{name: one, cluster: {server: later}}]\nusers:\ncontexts: null\n";
        let (cluster, _) = parse(&format!("{TWO}\n---\n{later}")).unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://192.0.2.1:6443"));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, words) in [
            (String::new(), "it is empty"),
            ("{}".to_owned(), "no current-context"),
            (TWO.replace("current-context: b", "current-context: c"), "\"c\""),
            (TWO.replace("cluster: one", "cluster: two"), "the cluster \"two\""),
            (TWO.replace("user: ann", "user: eve"), "the user \"eve\""),
        ] {
            let said = parse(&text).err().unwrap_or_default();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn nothing_of_a_kubeconfig_but_the_place_of_its_mistake_is_said() {
        let text = "apiVersion: v1\nusers:\n- name: a\n  user:\n    token: SECRET\n  - oops: [\n";
        let said = parse(text).err().unwrap_or_default();
        assert!(said.contains("line ") && !said.contains("SECRET"), "{said}");
        let said = parse("apiVersion: v1\nclusters: SECRET\n").err().unwrap_or_default();
        assert!(said.contains("line 2") && !said.contains("SECRET"), "{said}");
    }

    #[test]
    fn a_plugin_is_told_of_the_cluster() {
        let mut cluster = parse(TWO).unwrap().0;
        let extension = Extension { name: FOR_PLUGINS.to_owned(), extension: serde_json::json!({"a": 1}) };
        cluster.extensions = Some(vec![extension]);
        let told = serde_json::to_value(cluster.told(Some("Zg==".to_owned()))).unwrap();
        let expected = serde_json::json!({
            "server": "https://192.0.2.1:6443", "certificate-authority-data": "Zg==", "config": {"a": 1},
        });
        assert_eq!(told, expected);
    }
}
