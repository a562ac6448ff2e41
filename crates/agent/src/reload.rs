//! A configuration that changes while the agent runs: what can be used is taken on, what cannot is reported, and the
//! old one stays in force. No rule is removed in between: the sync loop writes only what differs.

use config::settings::OnChange;
use config::{Difference, Resolved};
use tokio::signal::unix::Signal;

use crate::config_watch::{ConfigChange, ConfigWatch};
use crate::events;
use crate::run::Agent;

/// Take on what the file asks for, whenever it changes or SIGHUP comes; for ever.
pub(crate) async fn follow(mut config: Option<ConfigWatch>, mut hang_up: Signal, agent: &mut Agent) {
    loop {
        let change = tokio::select! {
            _ = hang_up.recv() => asked_for(config.as_mut()),
            change = changed(config.as_mut()) => Some(change),
        };
        if let (Some(change), Some(config)) = (change, &mut config) {
            take(change, config, agent).await;
        }
    }
}

async fn changed(config: Option<&mut ConfigWatch>) -> ConfigChange {
    match config {
        Some(config) => config.next().await,
        None => std::future::pending().await,
    }
}

/// SIGHUP: its sender expects an answer, even about a text that was judged before.
fn asked_for(config: Option<&mut ConfigWatch>) -> Option<ConfigChange> {
    let Some(config) = config else {
        tracing::info!("Received SIGHUP, but there is no configuration file to reload; see --config");
        return None;
    };
    let file = config.path().display().to_string();
    match config.reread() {
        Ok(Some(change)) => return Some(change),
        Ok(None) => tracing::info!(%file, "Received SIGHUP; the configuration file has no changes"),
        Err(error) => tracing::error!(
            %file, %error, "Received SIGHUP, but failed to read the configuration file; keeping the previous settings"
        ),
    }
    None
}

/// Carry a change out, or say why not.
async fn take(change: ConfigChange, config: &mut ConfigWatch, agent: &mut Agent) {
    let file = config.path().display().to_string();
    let located = |problem: String| format!("{file}: {problem}");
    match change {
        ConfigChange::Unusable(problems) => refuse(&problems, agent),
        ConfigChange::Usable(resolved) => {
            let Resolved { options, configuration } = *resolved;
            let node = options.node_name.clone();
            let differences = config::differences(config.current(), &configuration);
            let steps = match Steps::of(&differences) {
                Ok(steps) => steps,
                Err(problems) => {
                    return refuse(&problems.into_iter().map(located).collect::<Vec<_>>(), agent);
                }
            };
            match agent.reconfigure(options, &steps).await {
                Err(error) => refuse(&[located(error.to_string())], agent),
                Ok(()) => {
                    config.accept(configuration);
                    let changes =
                        differences.iter().map(Difference::to_string).collect::<Vec<_>>().join(", ");
                    tracing::info!(%file, %changes, "Applied the changed configuration");
                    agent.recorder().record(events::reconfigured(&node, &changes));
                }
            }
        }
    }
}

/// What a changed configuration needs beside its options, which every part of the agent is given anyway.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Open another connection to the apiserver.
    pub(crate) reconnect: bool,
    /// Take other addresses to serve on.
    pub(crate) rebind: bool,
}

impl Steps {
    /// An error names every setting that cannot change while the agent runs.
    fn of(differences: &[Difference]) -> Result<Steps, Vec<String>> {
        let mut steps = Steps::default();
        let mut problems = Vec::new();
        for Difference { setting, old, new } in differences {
            match setting.on_change {
                // The sync loop compares the options, and rewrites the rules that differ.
                OnChange::Live | OnChange::Rewrite => {}
                OnChange::Rebind => steps.rebind = true,
                OnChange::Reconnect => steps.reconnect = true,
                OnChange::Restart => {
                    problems.push(format!("{}: a change from {old} to {new} needs a restart", setting.path));
                }
            }
        }
        if problems.is_empty() { Ok(steps) } else { Err(problems) }
    }
}

fn refuse(problems: &[String], agent: &Agent) {
    for problem in problems {
        tracing::error!("Refused the changed configuration; keeping the previous one: {problem}");
    }
    let event = events::configuration_refused(&agent.options().node_name, &problems.join("; "));
    agent.recorder().record(event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::flags::{Command, parse};
    use config::{Configuration, DefaultMode, differences};

    fn configuration(flags: &[&str]) -> Configuration {
        let arguments = ["--hostname-override=n"].iter().chain(flags).map(Into::into);
        match parse(arguments, DefaultMode::nftables).unwrap().command {
            Command::Run(resolved) => resolved.configuration,
            other => panic!("{other:?}"),
        }
    }

    fn steps(flags: &[&str]) -> Result<Steps, Vec<String>> {
        Steps::of(&differences(&configuration(&[]), &configuration(flags)))
    }

    #[test]
    fn another_mode_needs_a_restart_whatever_else_changes() {
        let problem = "mode: a change from nftables to iptables needs a restart";
        for flags in [&["--proxy-mode=iptables"][..], &["--proxy-mode=iptables", "--kube-api-qps=9"]] {
            assert_eq!(steps(flags), Err(vec![problem.to_owned()]), "{flags:?}");
        }
        assert_eq!(steps(&["--proxy-mode=nftables"]), Ok(Steps::default()));
    }

    #[test]
    fn only_what_a_change_needs_is_done() {
        for (flags, reconnect, rebind) in [
            (&["--masquerade-all", "--oom-score-adj=5", "--v=4"][..], false, false),
            (&["--healthz-bind-address=127.0.0.1:1"], false, true),
            (&["--hostname-override=m"], true, false),
            (&["--kube-api-qps=9", "--metrics-bind-address=127.0.0.1:1"], true, true),
        ] {
            assert_eq!(steps(flags), Ok(Steps { reconnect, rebind }), "{flags:?}");
        }
    }
}
