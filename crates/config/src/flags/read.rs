//! Arguments into flags and values: `--flag=value`, `--flag value`, one dash or two, bare switches, `-v4`.

use super::orders::{ORDERS, Order, Orders};

use crate::origin::Given;
use crate::settings::{self, Setting, Usage};
use crate::suggest::closest;
use crate::value::is_number;
use crate::{Configuration, Refusal, Value, duration};

/// A command line, flag by flag, but not checked against each other.
pub(super) struct Line {
    pub(super) orders: Orders,
    pub(super) configuration: Configuration,
    /// The settings among the flags, with their values.
    pub(super) given: Vec<(&'static Setting, String)>,
    pub(super) problems: Vec<Problem>,
    /// As they came.
    pub(super) arguments: Vec<String>,
}

/// What is wrong with an argument.
pub(super) struct Problem {
    pub(super) text: String,
    /// Beside a file the flag does not count, and its value is at least of the right kind: then upstream does not mind.
    pub(super) is_moot_beside_file: bool,
}

enum Flag {
    Order(&'static Order),
    Setting(&'static Setting),
}

impl Flag {
    fn find(name: &str) -> Option<Flag> {
        let name = name.replace('_', "-");
        let name = if name == "h" { "help" } else { &name };
        let order = ORDERS.iter().find(|order| order.usage.name == name).map(Flag::Order);
        let is_named = |setting: &&Setting| setting.flag.is_some_and(|usage| usage.name == name);
        order.or_else(|| settings::all().find(is_named).map(Flag::Setting))
    }

    /// What the flag means without a value.
    fn alone(&self) -> Option<&'static str> {
        match self {
            Flag::Order(order) => order.alone,
            Flag::Setting(setting) => setting.flag.filter(|usage| usage.value.is_empty()).map(|_| "true"),
        }
    }

    fn is_moot_beside_file(&self, value: &str) -> bool {
        match self {
            Flag::Order(_) => false,
            Flag::Setting(setting) => {
                !setting.counts_beside_file()
                    && setting.flag.is_some_and(|usage| is_of_kind(usage.value, value))
            }
        }
    }
}

/// Whether Go would read the value, whatever it means. The kind of a flag is what stands for its value in the help.
fn is_of_kind(kind: &str, value: &str) -> bool {
    match kind {
        "" => bool::default().read_flag(value).is_ok(),
        "NUMBER" | "BIT" => is_number(value),
        "DURATION" => duration::parse(value.strip_prefix('-').unwrap_or(value)).is_ok(),
        "IP" | "IP:PORT" => false,
        "GATE=BOOL[,...]" => value.split(',').all(|pair| {
            pair.split_once('=').is_some_and(|(_, value)| bool::default().read_flag(value.trim()).is_ok())
        }),
        _ => true,
    }
}

/// Every flag there is, as `--help` shows it.
pub fn usages() -> impl Iterator<Item = Usage> {
    ORDERS.iter().map(|order| order.usage).chain(settings::all().filter_map(|setting| setting.flag))
}

pub(super) fn read(arguments: Vec<String>) -> Line {
    let mut line = Line {
        orders: Orders::default(),
        configuration: Configuration::default(),
        given: Vec::new(),
        problems: Vec::new(),
        arguments: arguments.clone(),
    };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if let Err(problems) = take(&argument, &mut arguments, &mut line) {
            line.problems.extend(problems);
        }
    }
    line
}

fn take(
    argument: &str,
    others: &mut impl Iterator<Item = String>,
    line: &mut Line,
) -> Result<(), Vec<Problem>> {
    let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).unwrap_or_default();
    if body.is_empty() {
        // Kubernetes' own does not mind an empty argument: templates leave some behind.
        return match argument {
            "" => Ok(()),
            _ => {
                let text =
                    format!("unexpected argument {argument:?}; kube-proxy takes flags only, see --help");
                Err(only(text))
            }
        };
    }
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (body, None),
    };
    let (flag, value) = match (Flag::find(name), short_level(argument)) {
        (Some(flag), _) => (flag, value),
        (None, Some(level)) => (Flag::find("v").ok_or_else(|| only(unknown("v")))?, Some(level)),
        (None, None) => return Err(only(unknown(name))),
    };
    let value = match (value, flag.alone()) {
        (Some(value), _) => Some(value.to_owned()),
        (None, Some(alone)) => Some(alone.to_owned()),
        (None, None) => others.next(),
    };
    let value = value.ok_or_else(|| only(format!("--{name}: a value is missing")))?;
    let value = value.trim();
    set(&flag, value, line).map_err(|refusal| {
        let is_moot_beside_file = flag.is_moot_beside_file(value);
        let problem = |text| Problem { text, is_moot_beside_file };
        refusal.lines(&format!("--{name}")).map(problem).collect()
    })
}

fn only(text: String) -> Vec<Problem> {
    vec![Problem { text, is_moot_beside_file: false }]
}

fn unknown(name: &str) -> String {
    let names = usages().map(|usage| usage.name);
    match closest(&name.replace('_', "-"), names) {
        Some(meant) => format!("unknown flag --{name}; did you mean --{meant}?"),
        None => format!("unknown flag --{name}; see --help"),
    }
}

/// `-v4`
fn short_level(argument: &str) -> Option<&str> {
    argument.strip_prefix("-v").filter(|level| level.starts_with(|c: char| c.is_ascii_digit()))
}

fn set(flag: &Flag, value: &str, line: &mut Line) -> Result<(), Refusal> {
    match flag {
        Flag::Order(order) => (order.read)(&mut line.orders, value),
        Flag::Setting(setting) => {
            line.given.push((setting, value.to_owned()));
            setting.value(&mut line.configuration).read_flag(value)
        }
    }
}

/// Lay over a file the few flags that count beside it; the answer is a word about the others.
pub(super) fn apply_beside_file(
    line: &Line,
    configuration: &mut Configuration,
    given: &mut Given,
) -> Option<String> {
    let mut ignored = Vec::new();
    let mut seen = Given::new();
    // The last word counts, also if it is an empty one.
    for (setting, value) in line.given.iter().rev().filter(|(setting, _)| seen.insert(setting.path)) {
        match setting.flag {
            Some(usage) if !setting.counts_beside_file() => ignored.push(usage.name),
            // An empty value says nothing: `--hostname-override=` leaves what the file says.
            _ if value.is_empty() => {}
            _ => {
                // It was read once already: a refused value is known as a problem.
                let _ = setting.value(configuration).read_flag(value);
                given.insert(setting.path);
            }
        }
    }
    ignored.reverse();
    ignored.extend(line.orders.healthz_port.map(|_| "healthz-port"));
    ignored.extend(line.orders.metrics_port.map(|_| "metrics-port"));
    let ignored: Vec<String> = ignored.into_iter().map(|name| format!("--{name}")).collect();
    (!ignored.is_empty()).then(|| format!("Ignored because --config is set: {}", ignored.join(", ")))
}
