//! Who speaks, as headers of each request: a token or a password, and whom it acts for.

use std::path::Path;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::base64;
use super::kubeconfig::User;

/// What the name of a header may hold; all else of a key is escaped in it, and so is `%`.
const IN_NAMES: AsciiSet = NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Of a user of a kubeconfig; a token in a file is not looked at.
pub(super) fn headers(user: &User) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &user.token {
        headers.insert(AUTHORIZATION, bearer(token).map_err(|why| format!("its token: {why}"))?);
    } else if let (Some(name), Some(password)) = (&user.username, &user.password) {
        let pair = format!("{name}:{}", password);
        let mut header = HeaderValue::try_from(format!("Basic {}", base64::encode(pair.as_bytes())))
            .map_err(|error| error.to_string())?;
        header.set_sensitive(true);
        headers.insert(AUTHORIZATION, header);
    }
    impersonate(user, &mut headers)?;
    Ok(headers)
}

fn impersonate(user: &User, headers: &mut HeaderMap) -> Result<(), String> {
    let mut add = |name: HeaderName, value: &str| {
        let value = HeaderValue::from_str(value)
            .map_err(|_| format!("{name} contains characters that are not allowed in a header"))?;
        headers.append(name, value);
        Ok::<(), String>(())
    };
    if let Some(name) = &user.as_user {
        add(HeaderName::from_static("impersonate-user"), name)?;
    }
    if let Some(uid) = &user.as_uid {
        add(HeaderName::from_static("impersonate-uid"), uid)?;
    }
    for group in user.as_groups.iter().flatten() {
        add(HeaderName::from_static("impersonate-group"), group)?;
    }
    for (key, values) in user.as_user_extra.iter().flatten() {
        let name = format!("impersonate-extra-{}", percent_encode(key.as_bytes(), &IN_NAMES));
        let name = HeaderName::try_from(name).map_err(|error| format!("as-user-extra {key:?}: {error}"))?;
        for value in values {
            add(name.clone(), value)?;
        }
    }
    Ok(())
}

pub(super) fn read_token(path: &Path) -> Result<HeaderValue, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    bearer(&text).map_err(str::to_owned)
}

/// Most files end in a newline, which no header may.
fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    let token = token.trim();
    if token.is_empty() {
        return Err("it is empty");
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| "it contains characters that are not allowed in a token")?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_trimmed_and_what_no_header_takes_is_an_error() {
        assert_eq!(bearer("token\n").map(|header| header.as_bytes().to_vec()), Ok(b"Bearer token".to_vec()));
        assert!(bearer("token").is_ok_and(|header| header.is_sensitive()), "never in a log");
        assert_eq!(bearer(" \n"), Err("it is empty"));
        assert_eq!(bearer("to\nken"), Err("it contains characters that are not allowed in a token"));
    }

    fn written(user: serde_json::Value) -> Result<Vec<String>, String> {
        let headers = headers(&serde_json::from_value(user).unwrap())?;
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        Ok(lines)
    }

    #[test]
    fn a_user_becomes_headers() {
        let user = serde_json::json!({"username": "ann", "password": "b:c"});
        assert_eq!(written(user), Ok(vec!["authorization: Basic YW5uOmI6Yw==".to_owned()]));
        let user = serde_json::json!({
            "token": "abc", "as": "ann", "as-uid": "7", "as-groups": ["a", "b"],
            "as-user-extra": {"Foo.com/a%b": ["x", "y"]},
        });
        let expected = [
            "authorization: Bearer abc",
            "impersonate-extra-foo.com%2fa%25b: x",
            "impersonate-extra-foo.com%2fa%25b: y",
            "impersonate-group: a",
            "impersonate-group: b",
            "impersonate-uid: 7",
            "impersonate-user: ann",
        ];
        assert_eq!(written(user), Ok(expected.map(str::to_owned).to_vec()));
        assert!(written(serde_json::json!({"as": "a\nb"})).unwrap_err().contains("impersonate-user"));
    }
}
