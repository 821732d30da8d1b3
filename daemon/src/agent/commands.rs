//! What an operator asks of the running loop.

use std::rc::Rc;
use std::sync::Arc;

use sluice_formats::problem::{Problem, Problems};
use sluice_logs::NotifyState;
use sluice_schedule::{JobId, Nanos};
use sluice_wire::snapshot::{
    Command, DrainRequest, FileProblem, Mode as WireMode, ModeRequest, Outcome, Refused, SCHEMA,
};

use super::Agent;
use super::kept::Wish;
use crate::config::{self, ChangedKeys, Mode};
use crate::control::Request;
use crate::http::Rules;

/// The mode of a request.
pub(super) const fn mode(mode: WireMode) -> Mode {
    match mode {
        WireMode::Observe => Mode::Observe,
        WireMode::Active => Mode::Active,
        WireMode::Bypass => Mode::Bypass,
    }
}

impl Agent {
    /// Answers one request. A caller that has gone away is not told.
    pub(super) fn answer(&mut self, request: Request) {
        match request {
            Request::Command(command, answer) => {
                let wish = Wish::of(&command);
                match (wish, self.command(command)) {
                    (Some(wish), Ok(outcome)) => {
                        wish.carry_out(&mut self.keeper, self.core.config(), self.core.mode(), outcome, answer);
                    }
                    (_, answered) => drop(answer.try_send(answered)),
                }
            }
            Request::Explain(flow, answer) => drop(answer.try_send(crate::snapshot::explain(&self.core, flow))),
            Request::Flight(answer) => {
                drop(answer.try_send(self.core.flight_path().map(std::path::Path::to_owned)));
            }
            Request::Config(answer) => drop(answer.try_send(self.config_document())),
            Request::Fleet(word) => {
                self.realtime.pause();
                self.core.hear_fleet(self.clock.now(), *word);
            }
            Request::Reload => {
                self.realtime.pause();
                if let Err(refused) = self.reload() {
                    tracing::warn!(
                        event = "config-rejected",
                        cost = "the earlier configuration stays",
                        next = refused.help,
                        "at a signal: {}",
                        refused.message
                    );
                }
            }
            Request::Stop => self.stop = true,
        }
    }

    fn command(&mut self, command: Command) -> Result<Outcome, Refused> {
        self.realtime.pause();
        match command {
            Command::Mode(request) => self.mode(&request),
            Command::Reload => self.reload(),
            Command::Drain(request) => self.drain(&request),
            Command::Log(_) => Err(Refused::new("invalid", "the log filter is not the loop's", "sluice log")),
        }
    }

    fn mode(&mut self, request: &ModeRequest) -> Result<Outcome, Refused> {
        if let Some(job) = &request.job {
            if request.mode != WireMode::Bypass {
                let help = "sluice mode bypass --job ID";
                return Err(Refused::new("invalid", "only bypass may be asked of one job", help));
            }
            return self.drain(&DrainRequest { job: Some(job.clone()), reason: request.reason.clone() });
        }
        if request.fleet {
            return self.give_back_to_fleet();
        }
        let mode = mode(request.mode);
        let before = self.core.mode();
        self.core.set_mode(self.clock.now(), mode, request.for_ns.map(Nanos));
        self.core.mode_set_by_hand(self.clock.now(), request.for_ns.is_some());
        self.publish(true);
        Ok(self.outcome(format!("{} -> {}", before.word(), mode.word())))
    }

    /// The fleet's mode holds again, also after a restart.
    fn give_back_to_fleet(&mut self) -> Result<Outcome, Refused> {
        if self.core.fleet_status().is_none() {
            return Err(Refused::new(
                "invalid",
                "this host is in no fleet",
                "set fleet.etcd in sluiced.toml and restart",
            ));
        }
        let before = self.core.mode();
        self.core.give_back_to_fleet(self.clock.now());
        self.publish(true);
        Ok(self.outcome(format!("given back to the fleet: {} -> {}", before.word(), self.core.mode().word())))
    }

    fn drain(&mut self, request: &DrainRequest) -> Result<Outcome, Refused> {
        let message = match &request.job {
            Some(name) => {
                let named: Vec<JobId> = self.core.monitor().jobs_named(name).collect();
                if named.is_empty() {
                    let message = format!("no job {} on this host", crate::monitor::environ::label(name.as_bytes()));
                    return Err(Refused::new("not-found", message, "sluice jobs"));
                }
                let flows: usize = named.into_iter().map(|job| self.core.drain(Some(job))).sum();
                format!("gave {flows} sockets of the job back; it stays plain until the mode is set again")
            }
            None => {
                let flows = self.core.drain(None);
                self.core.set_mode(self.clock.now(), Mode::Bypass, None);
                self.core.mode_set_by_hand(self.clock.now(), false);
                format!("gave {flows} sockets back; the mode is bypass")
            }
        };
        self.publish(true);
        Ok(self.outcome(message))
    }

    fn reload(&mut self) -> Result<Outcome, Refused> {
        self.manager.tell(&NotifyState::Reloading);
        let unix = self.core.now().wall.0;
        let read = config::load(self.file.as_deref(), false).map_err(|problems| refused(&problems));
        let loaded = read.and_then(|loaded| match super::fabric(&loaded) {
            Ok(fabric) => Ok((loaded, fabric)),
            Err(why) => Err(Refused::new("E_NET", why.to_string(), "sluiced --check")),
        });
        self.manager.tell(&NotifyState::Ready);
        let (loaded, fabric) = match loaded {
            Ok(read) => read,
            Err(refused) => {
                let text = format!("the configuration was not taken: {}", refused.message);
                self.core.config_rejected(unix, Some(text));
                self.facts.reload_ok = false;
                self.publish(true);
                return Err(refused);
            }
        };
        let fabric = Rc::new(fabric);
        let ChangedKeys { taken: changed, waiting } = self.core.reload(loaded, fabric.clone());
        self.exchange.reconfigure(self.core.config(), fabric);
        self.wall.reconfigure(self.core.config());
        self.shared.rules.send_replace(Arc::new(Rules::of(self.core.config())));
        if changed.contains(&"enforce.sysctls") {
            self.sysctls_as_configured();
        }
        if changed.contains(&"log.level") {
            self.filter_as_configured();
        }
        let waits = (!waiting.is_empty()).then(|| format!("changed keys wait for a restart: {}", waiting.join(", ")));
        self.core.config_rejected(unix, waits);
        self.facts.reloaded(unix, &self.core);
        tracing::info!(
            event = "config-reloaded",
            changed = changed.join(","),
            waiting = waiting.join(","),
            "the configuration was read again"
        );
        self.publish(true);
        let texts = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let message = format!("{} keys changed, {} wait for a restart", changed.len(), waiting.len());
        Ok(Outcome { changed: texts(&changed), waiting: texts(&waiting), ..self.outcome(message) })
    }

    /// The environment stands above the file.
    fn filter_as_configured(&self) {
        let level = &self.core.config().log.level;
        if !crate::logging::is_asked_for()
            && let Err(why) = self.filter.set(level)
        {
            tracing::warn!(
                event = "log-filter",
                %why,
                cost = "the earlier filter stays",
                next = "sluice log FILTER, or start the daemon again",
                "log.level = \"{level}\" cannot be put in force"
            );
        }
    }

    fn outcome(&self, message: String) -> Outcome {
        let snapshot = self.snapshots.borrow();
        let mode = crate::snapshot::mode(self.core.mode());
        Outcome { schema: SCHEMA, mode, state: snapshot.daemon.state, message, ..Outcome::default() }
    }

    fn config_document(&self) -> serde_json::Value {
        let config = self.core.config();
        let mut document = serde_json::Map::new();
        for key in config::KEYS {
            let origin = self.core.loaded().origins.get(key.path);
            let from = origin.map(|origin| format!("{}:{}", origin.file.display(), origin.line));
            document.insert(key.path.into(), serde_json::json!({ "value": (key.get)(config), "from": from }));
        }
        let entry = |text: Vec<(&str, String)>| {
            serde_json::json!(text.into_iter().collect::<std::collections::BTreeMap<_, _>>())
        };
        let links =
            config.links.iter().map(|l| entry(config::LINK_KEYS.iter().map(|k| (k.path, (k.get)(l))).collect()));
        let switches =
            config.switches.iter().map(|s| entry(config::SWITCH_KEYS.iter().map(|k| (k.path, (k.get)(s))).collect()));
        serde_json::json!({
            "schema": SCHEMA,
            "keys": document,
            "links": links.collect::<Vec<_>>(),
            "switches": switches.collect::<Vec<_>>(),
        })
    }
}

fn refused(problems: &Problems) -> Refused {
    let problem = |p: &Problem| FileProblem {
        code: p.code.to_owned(),
        file: (!p.file.is_empty()).then(|| p.file.clone()),
        line: p.line,
        column: p.column,
        key: p.key.clone(),
        found: p.found.clone(),
        allowed: p.allowed.clone(),
        message: p.message.clone(),
        help: p.help.clone(),
    };
    let message = format!("{} problems; the configuration stays as it was", problems.all().len());
    let all = problems.all().iter().map(problem).collect();
    Refused { problems: all, ..Refused::new(problems.code(), message, "sluiced --check") }
}
