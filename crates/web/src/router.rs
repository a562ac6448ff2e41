//! Which path is answered by what. Most pages are pure functions of the request; a few take their time.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::http::request::Parts;

use crate::answer::{self, Answer};

/// No page takes more than a word.
const LARGEST_BODY: usize = 4096;
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// A request whose body has not been read yet.
pub struct Asked {
    pub parts: Parts,
    pub body: Incoming,
}

impl Asked {
    /// What was sent, if it is a short text that comes soon; or the code and the words to refuse it with.
    pub async fn text(self) -> Result<String, (StatusCode, &'static str)> {
        let all = Limited::new(self.body, LARGEST_BODY).collect();
        match tokio::time::timeout(BODY_DEADLINE, all).await {
            Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10 s\n")),
            Ok(Err(_)) => {
                Err((StatusCode::PAYLOAD_TOO_LARGE, "the body is broken or longer than 4096 bytes\n"))
            }
            Ok(Ok(all)) => String::from_utf8(all.to_bytes().into())
                .map_err(|_| (StatusCode::BAD_REQUEST, "the body is not UTF-8\n")),
        }
    }
}

/// An answer that may take a while. Nothing of it may block the thread.
pub type Slow = Pin<Box<dyn Future<Output = Answer>>>;

enum Handler {
    Page(Box<dyn Fn(&Parts) -> Answer>),
    Slow(Box<dyn Fn(Asked) -> Slow>),
}

struct Route {
    path: &'static str,
    /// Everything below the path, too.
    is_tree: bool,
    is_listed: bool,
    handler: Handler,
}

/// Routes in the order in which they are tried.
#[derive(Default)]
pub struct Router(Vec<Route>);

impl Router {
    pub fn page(self, path: &'static str, page: impl Fn(&Parts) -> Answer + 'static) -> Router {
        self.with(Route { path, is_tree: false, is_listed: true, handler: Handler::Page(Box::new(page)) })
    }

    /// A page that the index does not name.
    pub fn unlisted(self, path: &'static str, page: impl Fn(&Parts) -> Answer + 'static) -> Router {
        self.with(Route { path, is_tree: false, is_listed: false, handler: Handler::Page(Box::new(page)) })
    }

    /// One that takes its time; the index does not name it.
    pub fn slow(self, path: &'static str, page: impl Fn(Asked) -> Slow + 'static) -> Router {
        self.with(Route { path, is_tree: false, is_listed: false, handler: Handler::Slow(Box::new(page)) })
    }

    /// The index names the last page, too.
    pub fn listed(mut self) -> Router {
        if let Some(last) = self.0.last_mut() {
            last.is_listed = true;
        }
        self
    }

    /// `path` ends with a slash; it and everything below it.
    pub fn tree(self, path: &'static str, page: impl Fn(Asked) -> Slow + 'static) -> Router {
        self.with(Route { path, is_tree: true, is_listed: true, handler: Handler::Slow(Box::new(page)) })
    }

    /// The same on every path.
    pub fn everywhere(self, page: impl Fn(&Parts) -> Answer + 'static) -> Router {
        self.with(Route {
            path: "/",
            is_tree: true,
            is_listed: false,
            handler: Handler::Page(Box::new(page)),
        })
    }

    fn with(mut self, route: Route) -> Router {
        self.0.push(route);
        self
    }

    /// The paths that are worth naming.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter(|route| route.is_listed).map(|route| route.path)
    }

    /// Every path, with those that the index leaves out.
    #[cfg(any(test, feature = "reading"))]
    pub fn all_paths(&self) -> Vec<&'static str> {
        self.0.iter().map(|route| route.path).collect()
    }

    fn find(&self, path: &str) -> Option<&Handler> {
        let serves = |route: &&Route| route.path == path || (route.is_tree && path.starts_with(route.path));
        self.0.iter().find(serves).map(|route| &route.handler)
    }

    /// What answers on this path, if it takes its time.
    pub fn slow_page(&self, path: &str) -> Option<&dyn Fn(Asked) -> Slow> {
        match self.find(path) {
            Some(Handler::Slow(page)) => Some(page),
            _ => None,
        }
    }

    pub fn answer(&self, parts: &Parts) -> Answer {
        match self.find(parts.uri.path()) {
            Some(Handler::Page(page)) => page(parts),
            _ => self.not_found(),
        }
    }

    fn not_found(&self) -> Answer {
        let paths: Vec<&str> = self.paths().collect();
        answer::text(StatusCode::NOT_FOUND, format!("404 page not found; there is {}\n", paths.join(" ")))
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|route| route.path)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exact_but_for_trees() {
        let page = |_: &Parts| answer::text(StatusCode::OK, "page");
        let slow = |_: Asked| -> Slow { Box::pin(async { answer::text(StatusCode::OK, "slow") }) };
        let router = Router::default().page("/a", page).slow("/b", slow).slow("/c", slow).listed();
        let router = router.tree("/debug/", slow).unlisted("/", page);
        let found = |path| router.find(path).is_some();
        let wanted = [("/a", true), ("/", true), ("/debug/", true), ("/debug/x/y", true)];
        for (path, there) in wanted.into_iter().chain([("/a/", false), ("/debug", false), ("/ab", false)]) {
            assert_eq!(found(path), there, "{path}");
        }
        assert_eq!(router.paths().collect::<Vec<_>>(), ["/a", "/c", "/debug/"]);
    }
}
