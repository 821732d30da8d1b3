//! What other threads may ask of the deciding loop, and what it shows them without being asked.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use sluice_schedule::FlowId;
use sluice_wire::audit::{self, Entry};
use sluice_wire::snapshot::{Command, Explanation, LogRequest, Outcome, Refused, Snapshot};
use sluice_wire::timeline::Timeline;
use tokio::sync::{mpsc, watch};

use crate::audit::Audit;
use crate::clock::monotonic;
use crate::config::value::LogFilter;
use crate::core::fleet::FleetWord;
use crate::http::{Control, Lack, Rules, TurnedAway};
use crate::logging::Filter;

/// The loop answers a request within this time, or it is stuck.
const PATIENCE: Duration = Duration::from_secs(3);

/// A request to the deciding loop.
#[derive(Debug)]
pub enum Request {
    Command(Command, SyncSender<Result<Outcome, Refused>>),
    /// Why has this flow its rate?
    Explain(FlowId, SyncSender<Option<Explanation>>),
    Config(SyncSender<Value>),
    /// The fleet's word has changed, or how well it is heard.
    Fleet(Box<FleetWord>),
    /// Where the flight record is.
    Flight(SyncSender<Option<PathBuf>>),
    /// Read the configuration again, nobody waits for the answer (SIGHUP).
    Reload,
    Stop,
}

#[derive(Debug)]
pub struct Shared {
    /// CLOCK_MONOTONIC of the last turn; 0 before the first.
    pub turned: AtomicU64,
    /// CLOCK_MONOTONIC when somebody last looked at the state; 0: nobody did.
    pub asked: AtomicU64,
    pub timeline: Arc<Mutex<Timeline>>,
    /// Commands that could not be written to the audit file.
    pub unrecorded: Arc<AtomicU64>,
    /// Who asked over HTTP and was turned away.
    pub turned_away: TurnedAway,
    /// Who may ask for what over HTTP, as the configuration has it that holds.
    pub rules: watch::Sender<Arc<Rules>>,
}

/// The handle that HTTP and signals use.
#[derive(Debug)]
pub struct Handle {
    pub shared: Arc<Shared>,
    /// The state, published a few times per second.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    pub requests: mpsc::Sender<Request>,
    pub filter: Arc<Filter>,
    pub audit: Audit,
    /// Runs tasks that outlast a request.
    pub runtime: tokio::runtime::Handle,
}

impl Handle {
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Option<T> {
        let (answer, wait) = sync_channel(1);
        self.requests.try_send(request(answer)).ok()?;
        wait.recv_timeout(PATIENCE).ok()
    }

    fn log(&self, request: &LogRequest) -> Result<Outcome, Refused> {
        let before = self.filter.present();
        let Some(text) = &request.filter else {
            return Ok(self.outcome(format!("log filter: {before}")));
        };
        let refused = |why: String| {
            Refused::new("invalid", format!("log filter: {why}"), "for example: info,sluiced::monitor=debug")
        };
        let filter = LogFilter::parse(text).map_err(|why| refused(why.to_string()))?;
        self.filter.set(&filter).map_err(refused)?;
        if let Some(time) = request.for_ns.map(Duration::from_nanos) {
            let (keeper, filter) = (self.filter.clone(), filter.clone());
            self.runtime.spawn(async move {
                tokio::time::sleep(time).await;
                // Somebody may have set another one meanwhile.
                if keeper.present() == filter {
                    let _ = keeper.set(&before);
                }
            });
        }
        Ok(self.outcome(format!("log filter: {filter}")))
    }

    fn outcome(&self, message: String) -> Outcome {
        let snapshot = self.snapshot();
        let (mode, state) = (snapshot.daemon.mode, snapshot.daemon.state);
        Outcome { schema: sluice_wire::snapshot::SCHEMA, mode, state, message, ..Outcome::default() }
    }
}

impl Control for Handle {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.asked.store(monotonic().0, Ordering::Relaxed);
        self.snapshots.borrow().clone()
    }
    fn published(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }
    fn loop_age(&self) -> Option<Duration> {
        let turned = self.shared.turned.load(Ordering::Relaxed);
        (turned > 0).then(|| Duration::from_nanos(monotonic().0.saturating_sub(turned)))
    }
    fn timeline(&self) -> Timeline {
        self.shared.timeline.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn explain(&self, flow: FlowId) -> Option<Explanation> {
        self.ask(|answer| Request::Explain(flow, answer)).flatten()
    }
    fn flight(&self) -> Option<PathBuf> {
        self.ask(Request::Flight).flatten()
    }
    fn config(&self) -> Value {
        self.ask(Request::Config).unwrap_or(Value::Null)
    }
    fn command(&self, command: Command) -> Result<Outcome, Refused> {
        if let Command::Log(request) = &command {
            return self.log(request);
        }
        let help = "sluice status; if it does not change: journalctl -u sluiced";
        let stuck = || Err(Refused::new("unavailable", "the slot loop does not answer", help));
        self.ask(|answer| Request::Command(command, answer)).unwrap_or_else(stuck)
    }
    fn note(&self, entry: Entry) {
        self.audit.note(entry);
    }
    fn audit(&self, last: usize) -> audit::Audit {
        self.audit.last(last)
    }
    fn turned_away(&self, lack: Lack) {
        self.shared.turned_away.add(lack);
    }
}
