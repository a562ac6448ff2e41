//! The answer to the form: the words of `kube-proxy explain`, with their labels apart.

use serde_json::Value;

use super::html::Html;
use super::service::verdict_words;

/// How wide labels are in the text.
const LABEL: usize = 11;

/// `answer` is the document of `/pointsman/v1/explain`, or why there is none.
pub(super) fn answer(html: &mut Html, answer: &Result<Value, String>) {
    html.raw("<section class=\"card wide\" aria-label=\"Answer\">");
    match answer {
        Err(problem) => drop(html.raw("<p class=\"bad\">").text(problem).raw("</p>")),
        Ok(document) => {
            let each = document["explanations"].as_array();
            if each.is_some_and(|each| !each.is_empty()) {
                let (class, word) = verdict_words(&document["verdict"]);
                html.raw("<p class=\"badge ").raw(class).raw("\">").raw(word).raw("</p>");
            }
            html.raw("<dl class=\"walk\">");
            document["text"].as_str().unwrap_or_default().lines().for_each(|line| self::line(html, line));
            html.raw("</dl>");
        }
    }
    html.raw("</section>");
}

fn line(html: &mut Html, line: &str) {
    let is_labelled = line.is_char_boundary(LABEL) && line.len() > LABEL;
    let (label, text) = if is_labelled { line.split_at(LABEL) } else { ("", line) };
    let label = label.trim_end();
    // Where something new begins.
    let class = match label {
        "Packet" => " class=\"packet\"",
        "From" => " class=\"from\"",
        "To do" => " class=\"todo\"",
        "Verdict" if text.starts_with("forwarded") => " class=\"good\"",
        "Verdict" => " class=\"bad\"",
        _ => "",
    };
    html.raw("<dt")
        .raw(class)
        .raw(">")
        .text(label)
        .raw("</dt><dd")
        .raw(class)
        .raw(">")
        .text(text)
        .raw("</dd>");
}
