//! What an observer hears, of Services only.

use std::collections::HashMap;
use std::sync::Mutex;

use cluster::Kind;
use cluster::apiserver::{Extent, Observer, Phase, RequestSeen};

#[derive(Debug, Default)]
pub(crate) struct Observed(Mutex<Heard>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) phases: Vec<Phase>,
    /// `None`: without an answer.
    pub(crate) codes: Vec<Option<u16>>,
    pub(crate) host: String,
    pub(crate) chunks: usize,
    /// Of all kinds: objects that were passed over, in whole and in part.
    pub(crate) passed_over: [usize; 2],
    /// How many are so now.
    pub(crate) unusable: HashMap<Kind, [usize; 2]>,
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

    fn passed_over(&self, _: Kind, extent: Extent) {
        self.0.lock().unwrap().passed_over[extent as usize] += 1;
    }

    fn unusable(&self, kind: Kind, extent: Extent, count: usize) {
        self.0.lock().unwrap().unusable.entry(kind).or_default()[extent as usize] = count;
    }
}
