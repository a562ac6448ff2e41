//! A configuration that changes while the agent runs: what can be used is taken on, what cannot is reported, and the
//! old one stays in force. No rule is removed in between: the sync loop writes only what differs.

use config::{Options, Resolved};
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
    match change {
        ConfigChange::Unusable(problems) => refuse(&problems, agent),
        ConfigChange::Usable(resolved) => {
            let Resolved { options, configuration } = *resolved;
            let node = options.node_name.clone();
            let changes = config::differences(config.current(), &configuration).join(", ");
            if let Some(problem) = other_mode(agent.options(), &options) {
                return refuse(&[format!("{file}: {problem}")], agent);
            }
            match agent.reconfigure(options).await {
                Err(error) => refuse(&[format!("{file}: {error}")], agent),
                Ok(()) => {
                    config.accept(configuration);
                    tracing::info!(%file, %changes, "Applied the changed configuration");
                    agent.recorder().record(events::reconfigured(&node, &changes));
                }
            }
        }
    }
}

/// Rules of another mode are another agent's work.
fn other_mode(old: &Options, new: &Options) -> Option<String> {
    (old.mode != new.mode).then(|| {
        format!("mode: this agent runs in mode {}; mode {} takes a restart", old.mode.word(), new.mode.word())
    })
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
    use config::DefaultMode;
    use config::flags::{Command, parse};

    fn options(mode: &str) -> Options {
        let arguments = ["--manifests=x", "--hostname-override=n", mode].map(Into::into);
        match parse(arguments.into_iter(), DefaultMode::nftables).unwrap().command {
            Command::Run(resolved) => resolved.options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_mode_takes_a_restart() {
        let [nftables, iptables] = ["--proxy-mode=nftables", "--proxy-mode=iptables"].map(options);
        assert_eq!(other_mode(&nftables, &nftables), None);
        let problem = other_mode(&nftables, &iptables).unwrap();
        assert_eq!(problem, "mode: this agent runs in mode nftables; mode iptables takes a restart");
    }
}
