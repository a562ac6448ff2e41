//! Mode ipvs on a kernel that lacks what it needs.

use std::path::Path;

use test_support::{Case, ManifestFolder, Verdict};

use crate::{kube_proxy, run};

const MODE: &str = "--proxy-mode=ipvs";

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![Case::new("mode ipvs on a kernel without IPVS", without_ipvs)]
}

fn without_ipvs() -> Verdict {
    // Asking loads the module where there is one.
    if kernel::ipvs::Connection::open().is_ok() || Path::new("/sys/module/ip_vs").exists() {
        return Verdict::Skipped("this kernel has IPVS".into());
    }
    let folder = ManifestFolder::create();
    let mut command = kube_proxy();
    command.args([MODE, "--manifests"]).arg(folder.path());
    run(command).assert_refused(&["mode ipvs cannot work here", "use mode nftables", "module ip_vs"]);
    Verdict::Passed
}
