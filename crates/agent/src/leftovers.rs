//! What an earlier kube-proxy of another mode left would go on steering traffic beside our rules. It is removed in the
//! background, once ours are in place; what cannot be removed is reported.

use cluster::apiserver::Recorder;
use dataplane::Leftovers;

use crate::events;

pub(crate) fn remove(leftovers: Leftovers, node: String, recorder: Recorder) {
    let remove = move || {
        for left in leftovers.remove() {
            if left.steers() {
                tracing::error!("Rules of another mode may still steer traffic: {left}");
                recorder.record(events::other_rules(&node, &left));
            } else {
                tracing::warn!("{left}");
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("leftovers".into()).spawn(remove) {
        tracing::error!(%error, "Failed to look for rules of other modes; run kube-proxy --cleanup before the next start");
    }
}
