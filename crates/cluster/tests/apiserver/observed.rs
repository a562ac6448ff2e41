//! What an observer hears, of Services only.

use std::sync::Mutex;

use cluster::Kind;
use cluster::apiserver::{Observer, Phase, RequestSeen};

#[derive(Debug, Default)]
pub(crate) struct Observed(Mutex<Heard>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) phases: Vec<Phase>,
    /// `None`: without an answer.
    pub(crate) codes: Vec<Option<u16>>,
    pub(crate) host: String,
    pub(crate) chunks: usize,
}

impl Observed {
    pub(crate) fn heard(&self) -> Heard {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Observed {
    fn request(&self, request: &RequestSeen<'_>) {
        let mut heard = self.0.lock().unwrap();
        heard.codes.push(request.code);
        heard.host = request.host.to_owned();
    }

    fn phase(&self, kind: Kind, phase: Phase) {
        if kind == Kind::Service {
            self.0.lock().unwrap().phases.push(phase);
        }
    }

    fn heard(&self, kind: Kind) {
        if kind == Kind::Service {
            self.0.lock().unwrap().chunks += 1;
        }
    }
}
