//! Which form of a debugging page a client asks for. Text is for people and may change; the other forms are named by
//! kind, group and version, as the API's own objects are.

use config::{Node, json, yaml};
use hyper::StatusCode;
use hyper::header::ACCEPT;
use hyper::http::request::Parts;

use crate::answer::{self, Answer};

const GROUP: &str = "config.k8s.io";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1alpha1,
    V1beta1,
}

impl Version {
    fn word(self) -> &'static str {
        match self {
            Version::V1alpha1 => "v1alpha1",
            Version::V1beta1 => "v1beta1",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json(Version),
    Yaml(Version),
}

/// A page in the form that was asked for. `kind` is the kind of the structured forms, `fields` what they hold.
pub fn answer(
    parts: &Parts,
    kind: &str,
    text: impl FnOnce() -> String,
    fields: impl FnOnce() -> Vec<(&'static str, Node)>,
) -> Answer {
    let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let object = |version: Version| {
        let name = Node::Map([("name".to_owned(), Node::text("kube-proxy"))].into());
        let named = [
            ("apiVersion", Node::text(format!("{GROUP}/{}", version.word()))),
            ("kind", Node::text(kind)),
            ("metadata", name),
        ];
        Node::Map(named.into_iter().chain(fields()).map(|(name, node)| (name.to_owned(), node)).collect())
    };
    match choose(accept, kind) {
        None => refuse(kind),
        Some(Form::Text) => answer::text(StatusCode::OK, text()),
        Some(Form::Json(version)) => {
            structured("application/json", kind, version, json::indented(&object(version)))
        }
        Some(Form::Yaml(version)) => {
            structured("application/yaml", kind, version, yaml::text(&object(version)))
        }
    }
}

fn structured(media: &str, kind: &str, version: Version, body: String) -> Answer {
    let answer = answer::text(StatusCode::OK, body);
    let content_type = format!("{media};g={GROUP};v={};as={kind}", version.word());
    let answer = answer::with_header(answer, "content-type", &content_type);
    match version {
        Version::V1beta1 => answer,
        Version::V1alpha1 => {
            let warning = "299 - \"v1alpha1 of this page is deprecated; ask for v1beta1\"";
            answer::with_header(answer, "warning", warning)
        }
    }
}

fn refuse(kind: &str) -> Answer {
    let message = format!(
        "only the following media types are accepted: text/plain, and application/json or application/yaml with \
         ;as={kind};v=v1beta1;g={GROUP}"
    );
    let fields = [
        ("kind", Node::text("Status")),
        ("apiVersion", Node::text("v1")),
        ("metadata", Node::Map([].into())),
        ("status", Node::text("Failure")),
        ("message", Node::text(message)),
        ("reason", Node::text("NotAcceptable")),
        ("code", Node::Number("406".into())),
    ];
    let status = Node::Map(fields.map(|(name, node)| (name.to_owned(), node)).into());
    answer::json(StatusCode::NOT_ACCEPTABLE, json::indented(&status))
}

/// The first form that the client accepts, those it prefers first.
fn choose(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut clauses: Vec<(f32, &str)> = accept.split(',').map(|clause| (quality(clause), clause)).collect();
    clauses.retain(|(quality, _)| *quality > 0.0);
    clauses.sort_by(|one, other| other.0.total_cmp(&one.0));
    clauses.into_iter().find_map(|(_, clause)| form(clause, kind))
}

fn parameters(clause: &str) -> impl Iterator<Item = (&str, &str)> {
    clause
        .split(';')
        .skip(1)
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
}

fn quality(clause: &str) -> f32 {
    parameters(clause).find(|(name, _)| *name == "q").and_then(|(_, value)| value.parse().ok()).unwrap_or(1.0)
}

fn form(clause: &str, kind: &str) -> Option<Form> {
    let named = |wanted: &str| parameters(clause).find(|(name, _)| *name == wanted).map(|(_, value)| value);
    let version = match (named("as"), named("g"), named("v")) {
        (Some(of), Some(GROUP), Some("v1alpha1")) if of == kind => Some(Version::V1alpha1),
        (Some(of), Some(GROUP), Some("v1beta1")) if of == kind => Some(Version::V1beta1),
        (None, None, None) => None,
        _ => return None,
    };
    match (clause.split(';').next().unwrap_or_default().trim(), version) {
        ("text/plain" | "text/*" | "*/*", None) => Some(Form::Text),
        ("application/json" | "application/*" | "*/*", Some(version)) => Some(Form::Json(version)),
        ("application/yaml", Some(version)) => Some(Form::Yaml(version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_chosen_as_upstream_chooses_them() {
        let beta = "as=Statusz;v=v1beta1;g=config.k8s.io";
        let cases = [
            ("", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            ("text/html", None),
            ("application/json", None),
            ("text/html, text/*;q=0.5", Some(Form::Text)),
            ("text/plain;q=0", None),
            (&format!("application/json;{beta}"), Some(Form::Json(Version::V1beta1))),
            (&format!("application/yaml; {beta}"), Some(Form::Yaml(Version::V1beta1))),
            (&format!("text/plain;q=0.1, application/json;{beta};q=0.9"), Some(Form::Json(Version::V1beta1))),
            ("application/json;as=Statusz;v=v1alpha1;g=config.k8s.io", Some(Form::Json(Version::V1alpha1))),
            ("application/json;as=Flagz;v=v1beta1;g=config.k8s.io", None),
            ("application/json;as=Statusz;v=v2;g=config.k8s.io", None),
            (&format!("application/cbor;{beta}"), None),
        ];
        for (accept, wanted) in cases {
            assert_eq!(choose(accept, "Statusz"), wanted, "{accept}");
        }
    }

    #[test]
    fn a_refusal_is_a_status_of_the_api_and_says_what_to_ask_for() {
        let mut parts = hyper::Request::new(()).into_parts().0;
        parts.headers.insert(ACCEPT, "application/json".parse().unwrap());
        let (code, body) = answer::read(answer(&parts, "Flagz", String::new, Vec::new));
        assert_eq!(code, 406);
        assert!(
            body.contains("\"reason\": \"NotAcceptable\"") && body.contains(";as=Flagz;v=v1beta1;"),
            "{body}"
        );
    }
}
