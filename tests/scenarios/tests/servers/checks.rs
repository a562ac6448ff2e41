//! The health checks of services that load balancers ask for.

use model::Family;
use test_support::{Case, SOON, wait_until};

use crate::ask::Reply;
use crate::case;
use crate::site::Site;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("a health check follows endpoints, ports and the service, each family apart", followed),
        case("health checks are served where node ports are", places),
        case("two services that want one port have it in turn", contested),
    ]
}

const ALL: &str = "--nodeport-addresses=all";
const V4: &str = "127.0.0.1:32000";
const V6: &str = "[::1]:32000";

fn weighs(weight: &str) -> impl Fn(&Reply) -> bool {
    move |reply| reply.header("X-Load-Balancing-Endpoint-Weight") == Some(weight)
}

fn followed() {
    let site = Site::start(&[ALL]);
    site.put_checked("web", 32000);
    let reply = site.await_reply(V4, "/", weighs("0"));
    assert_eq!(reply.code, 503);
    site.put_endpoints("web", Family::V4, 2);
    site.put_endpoints("web", Family::V6, 1);
    let reply = site.await_reply(V4, "/any/path", weighs("2"));
    assert_eq!(reply.code, 200);
    assert_eq!(reply.header("Content-Type"), Some("application/json"));
    assert_eq!(reply.header("X-Content-Type-Options"), Some("nosniff"));
    let wanted = "{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"web\"\n\t},\n\
                  \t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}";
    assert_eq!(reply.body, wanted);
    assert_eq!(site.await_reply(V6, "/", weighs("1")).code, 200);
    site.put_endpoints("web", Family::V4, 0);
    assert_eq!(site.await_reply(V4, "/", weighs("0")).code, 503);
    assert_eq!(site.get(V6, "/").code, 200, "the other family is as it was");
    site.put_checked("web", 32001);
    site.await_reply("127.0.0.1:32001", "/", weighs("0"));
    site.await_silence(V4);
    site.folder.remove("service-web");
    site.await_silence("127.0.0.1:32001");
    site.await_silence("[::1]:32001");
    // A restart finds everything again.
    site.put_checked("web", 32000);
    site.put_endpoints("web", Family::V4, 3);
    let mut site = site;
    site.agent.stop().unwrap();
    site.agent.restart().unwrap_or_else(|why| panic!("{why}"));
    site.await_reply(V4, "/", weighs("3"));
}

fn places() {
    // Mode nftables: on the node's primary address, where nothing else is said.
    let site = Site::start(&[]);
    site.put_checked("web", 32000);
    site.await_reply("127.0.0.5:32000", "/", |reply| reply.code == 503);
    assert!(site.try_get(V4, "/").is_err() && site.try_get(V6, "/").is_err());
    let site = Site::start(&["--nodeport-addresses=127.0.0.1/32,::1/128"]);
    site.put_checked("web", 32000);
    site.await_reply(V4, "/", |reply| reply.code == 503);
    site.await_reply(V6, "/", |reply| reply.code == 503);
    assert!(site.try_get("127.0.0.5:32000", "/").is_err());
}

fn contested() {
    let site = Site::start(&[ALL]);
    site.put_checked("first", 32000);
    for at in [V4, V6] {
        site.await_reply(at, "/", |reply| reply.body.contains("\"first\""));
    }
    site.put_checked("second", 32000);
    let refused = || site.agent.log().matches("Failed to open the health check port of a service").count();
    assert!(wait_until(SOON, || refused() == 2), "once a family:\n{}", site.agent.log());
    assert!(site.get(V4, "/").body.contains("\"first\""));
    site.folder.remove("service-first");
    for at in [V4, V6] {
        site.await_reply(at, "/", |reply| reply.body.contains("\"second\""));
    }
    assert_eq!(refused(), 2, "said again:\n{}", site.agent.log());
}
