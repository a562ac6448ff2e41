//! What questions to the real agent cost: how soon they are answered, whether a sync waits for them, what stays in memory,
//! and what a page costs that somebody left open.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kernel::netns::Namespace;
use model::Family;
use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::results::Limit;
use crate::scrape::{self, METRICS};
use crate::scratch::Scratch;
use crate::{Failure, giants, manifests, report, world};
use bench_support::gauge::{Resident, quantile};
use bench_support::table::{self, row, time};

const SERVICES: u32 = 10_000;
/// How often the script of the page asks, see `page.js`.
const PERIOD: Duration = Duration::from_secs(3);
const SYNC_DEADLINE: Duration = Duration::from_secs(30);
/// More than any pause that a sync before leaves.
const BETWEEN_CHANGES: Duration = Duration::from_millis(120);

/// The agent gives memory back five seconds after the last question.
const TIDIED: Duration = Duration::from_secs(7);

const ANSWER_MS: f64 = 50.0;
const DELAY_MS: f64 = 1.0;
const GROWTH_KIB: u64 = 1000;
const PAGE_PERCENT: f64 = 1.0;

/// Questions, and how the table names them.
fn questions() -> Vec<(&'static str, String)> {
    let nobodys = world::cluster_ip(Family::V4, 2 * SERVICES);
    let (asked, ip) = (SERVICES / 2, world::cluster_ip(Family::V4, SERVICES / 2));
    let (to, from) = (format!("{ip}:{}", world::SERVICE_PORT), world::pod_ip(Family::V4, 1));
    let ordinary = [
        ("explain an address", format!("/pointsman/v1/explain?to={to}&from={from}")),
        ("explain an address that nobody has", format!("/pointsman/v1/explain?to={nobodys}:80&from={from}")),
        ("a page of 500 services", "/pointsman/v1/services?limit=500".to_owned()),
        ("services with problems", "/pointsman/v1/services?problems=true".to_owned()),
        ("the page", "/".to_owned()),
        ("the page with one service", format!("/?service={}", world::key(asked))),
    ];
    ordinary.into_iter().chain(giants::questions()).collect()
}

#[derive(Debug, Serialize)]
pub(crate) struct QuestionsResult {
    services: u32,
    answers: Vec<AnswerResult>,
    /// From a change of a manifest until its sync is done: alone, and while questions are asked without a pause.
    change_ms: [Vec<f64>; 2],
    before: Resident,
    after: Resident,
    /// Of one core, by a page that nothing changes on, and by one that is another each time.
    idle_percent: f64,
    changing_percent: f64,
}

#[derive(Debug, Serialize)]
struct AnswerResult {
    what: &'static str,
    bytes: usize,
    wall_ms: Vec<f64>,
    /// Of all threads of the agent, and of the sync thread alone.
    cpu_ms: f64,
    sync_cpu_ms: f64,
}

pub(crate) fn measure(kube_proxy: &Path, quick: bool) -> Result<QuestionsResult, Failure> {
    report::note("questions to the agent");
    let times = if quick { 10 } else { 60 };
    let scratch = Scratch::new("questions")?;
    let folder = scratch.path().join("manifests");
    std::fs::create_dir_all(&folder)?;
    manifests::write(&folder, SERVICES)?;
    giants::write(&folder)?;
    put_change(&folder, 0)?;
    let (namespace, log) = (Namespace::new()?, scratch.path().join("log"));
    let started = Instant::now();
    let mut agent = Agent::start(kube_proxy, &folder, &log, &namespace)?;
    namespace.try_run(|| agent.wait_until_ready(started, &log))??;
    agent.wait_until_quiet()?;
    namespace.try_run(|| ask_everything(&agent, &namespace, &folder, times))?
}

fn ask_everything(
    agent: &Agent,
    namespace: &Namespace,
    folder: &Path,
    times: usize,
) -> Result<QuestionsResult, Failure> {
    let resident = || Resident::of(&agent.id()).ok_or("kube-proxy has ended");
    let before = resident()?;
    let mut answers = Vec::new();
    for (what, path) in questions() {
        answers.push(answer(agent, what, &path, times)?);
    }
    std::thread::sleep(TIDIED);
    let after = resident()?;
    let idle_percent = share(agent, times, &tag()?)?;
    let changing_percent = share(agent, times, "")?;
    let change_ms = changes(namespace, folder, times)?;
    Ok(QuestionsResult {
        services: SERVICES,
        answers,
        change_ms,
        before,
        after,
        idle_percent,
        changing_percent,
    })
}

fn answer(agent: &Agent, what: &'static str, path: &str, times: usize) -> Result<AnswerResult, Failure> {
    let mut bytes = 0;
    let mut wall_ms = Vec::with_capacity(times);
    let (cpu, sync_cpu) = (agent.scheduled_us(), agent.scheduled_us_of("sync"));
    for _ in 0..times {
        let asked = Instant::now();
        bytes = get(path)?.len();
        wall_ms.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let each = |us: f64| us / 1e3 / times as f64;
    Ok(AnswerResult {
        what,
        bytes,
        wall_ms,
        cpu_ms: each(agent.scheduled_us() - cpu),
        sync_cpu_ms: each(agent.scheduled_us_of("sync") - sync_cpu),
    })
}

fn get(path: &str) -> Result<String, Failure> {
    let (good, body) = scrape::get(METRICS, path)?;
    if good { Ok(body) } else { Err(format!("{path}: {body}").into()) }
}

/// What the script has of the page it shows.
fn tag() -> Result<String, Failure> {
    let page = get("/")?;
    let tag = page.split("data-tag=\"&quot;").nth(1).and_then(|rest| rest.split("&quot;").next());
    Ok(tag.map(|tag| format!("If-None-Match: \"{tag}\"\r\n")).ok_or("the page has no tag")?)
}

/// The share of a core that a page costs, asked for at the pace of its script. Many are asked for at once, as what one costs
/// does not depend on when.
fn share(agent: &Agent, times: usize, header: &str) -> Result<f64, Failure> {
    let before = agent.scheduled_us();
    for _ in 0..times {
        scrape::get_with(METRICS, "/", header)?;
    }
    let each = (agent.scheduled_us() - before) / times as f64;
    Ok(each / PERIOD.as_micros() as f64 * 100.0)
}

/// In turns, because a machine's mood lasts longer than a round.
fn changes(namespace: &Namespace, folder: &Path, times: usize) -> Result<[Vec<f64>; 2], Failure> {
    let mut measured = [Vec::new(), Vec::new()];
    for turn in 1..=2 * times {
        let is_asked = turn % 2;
        let is_over = AtomicBool::new(false);
        let ask = || -> Result<(), Failure> {
            while is_asked == 1 && !is_over.load(Ordering::Relaxed) {
                questions().iter().try_for_each(|(_, path)| get(path).map(drop))?;
            }
            Ok(())
        };
        let took = std::thread::scope(|scope| {
            let asker = scope.spawn(|| namespace.try_run(ask));
            std::thread::sleep(BETWEEN_CHANGES);
            let took = change(folder, turn);
            is_over.store(true, Ordering::Relaxed);
            asker.join().map_err(|_| "the asker panicked")???;
            took
        })?;
        measured[is_asked].push(took);
    }
    Ok(measured)
}

/// Milliseconds from a change until its sync was done, by the agent's own notes.
fn change(folder: &Path, turn: usize) -> Result<f64, Failure> {
    let changed = SystemTime::now().duration_since(UNIX_EPOCH)?;
    put_change(folder, turn)?;
    let deadline = Instant::now() + SYNC_DEADLINE;
    while Instant::now() < deadline {
        let status: Value = serde_json::from_str(&get("/pointsman/v1/status")?)?;
        let syncs = status["syncs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ended = syncs.last().and_then(|sync| sync["unixMicroseconds"].as_u64()).unwrap_or_default();
        let changed = u64::try_from(changed.as_micros())?;
        if ended > changed {
            return Ok((ended - changed) as f64 / 1e3);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("the agent did not follow a change".into())
}

/// A service with one endpoint, another one each time.
fn put_change(folder: &Path, turn: usize) -> Result<(), Failure> {
    let ip = world::cluster_ip(Family::V4, SERVICES);
    let pod = world::pod_ip(Family::V4, u32::try_from(turn % 2)?);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Service", "metadata": { "name": "changing" },
          "spec": { "clusterIP": ip, "ports": [{ "port": 80 }] } },
        { "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
          "metadata": { "name": "changing-1", "labels": { "kubernetes.io/service-name": "changing" } },
          "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": [pod] }] },
    ]});
    let hidden = folder.join(".changing");
    std::fs::write(&hidden, list.to_string())?;
    std::fs::rename(hidden, folder.join("changing.json"))?;
    Ok(())
}

impl QuestionsResult {
    fn delay_ms(&self) -> f64 {
        let [alone, asked] = self.change_ms.each_ref().map(|times| quantile(times, 0.5));
        (asked - alone).max(0.0)
    }

    fn growth_kib(&self) -> u64 {
        self.after.now_kib.saturating_sub(self.before.now_kib)
    }
}

pub(crate) fn judge(result: &QuestionsResult) -> Vec<Limit> {
    let limit = |what: &str, measured: f64, most: f64, unit: &str| Limit {
        what: format!("questions: {what}"),
        measured: format!("{measured:.3} {unit}"),
        limit: format!("at most {most} {unit}"),
        kept: measured <= most,
    };
    let answers = result.answers.iter();
    let mut limits: Vec<Limit> =
        answers.map(|answer| limit(answer.what, quantile(&answer.wall_ms, 0.5), ANSWER_MS, "ms")).collect();
    limits.push(limit("a change waits for them", result.delay_ms(), DELAY_MS, "ms"));
    limits.push(limit("memory grows", result.growth_kib() as f64, GROWTH_KIB as f64, "KiB"));
    limits.push(limit("an idle page", result.idle_percent, PAGE_PERCENT, "% of a core"));
    limits
}

pub(crate) fn print(result: &QuestionsResult) {
    let mut rows = vec![row(["question", "bytes", "answered", "slowest", "CPU", "of the sync thread"])];
    for answer in &result.answers {
        let [median, slowest] = [0.5, 1.0].map(|share| time(quantile(&answer.wall_ms, share) * 1e3));
        let (bytes, cpu, sync) = (answer.bytes.to_string(), answer.cpu_ms * 1e3, answer.sync_cpu_ms * 1e3);
        rows.push(vec![answer.what.to_owned(), bytes, median, slowest, time(cpu), time(sync)]);
    }
    table::print(&format!("Questions to an agent with {} services", result.services), &rows);
    let [alone, asked] = result.change_ms.each_ref().map(|times| time(quantile(times, 0.5) * 1e3));
    println!(
        "\nA change until its sync is done: {alone}; while questions are asked without a pause: {asked}"
    );
    println!(
        "Memory: {} KiB before all questions, {} KiB after",
        result.before.now_kib, result.after.now_kib
    );
    println!(
        "A page left open: {:.3} % of a core, {:.3} % if something changes each time",
        result.idle_percent, result.changing_percent
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_missed_by_itself() {
        let result = |wall_ms, asked_ms, now_kib, idle_percent| QuestionsResult {
            services: SERVICES,
            answers: vec![AnswerResult {
                what: "x",
                bytes: 0,
                wall_ms: vec![wall_ms; 3],
                cpu_ms: 0.0,
                sync_cpu_ms: 0.0,
            }],
            change_ms: [vec![5.0; 3], vec![asked_ms; 3]],
            before: Resident { now_kib: 20_000, peak_kib: 0 },
            after: Resident { now_kib, peak_kib: 0 },
            idle_percent,
            changing_percent: 0.5,
        };
        let missed = |result| judge(&result).iter().filter(|limit| !limit.kept).count();
        assert_eq!(missed(result(50.0, 6.0, 21_000, 1.0)), 0);
        assert_eq!(missed(result(51.0, 6.0, 21_000, 1.0)), 1);
        assert_eq!(missed(result(50.0, 6.1, 21_000, 1.0)), 1);
        assert_eq!(missed(result(50.0, 6.0, 21_001, 1.0)), 1);
        assert_eq!(missed(result(50.0, 6.0, 21_000, 1.1)), 1);
    }
}
