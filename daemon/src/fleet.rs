//! Hearing what a fleet says through etcd: the task that reads, watches, keeps what is good, and tells the loop.
//!
//! What to make of what is heard is decided by [`sluice_fleet::view`]; whose mode holds, by the loop (`core::fleet`).
//! Here are the connection, the files and the waiting. The task runs on the thread of HTTP. It never ends, and nothing
//! waits for it: an etcd that is away, slow or wrong costs news and nothing else.

mod disk;
mod tls;

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use sluice_etcd::{Client, Endpoint, Error, News, Reading};
use sluice_fleet::Revision;
use sluice_fleet::contact::Contact;
use sluice_fleet::key::{MAX_KEYS, Name, Space};
use sluice_fleet::view::{Change, Heard, Raw, View};
use sluice_wire::audit::{self, Entry, Way};
use sluice_wire::snapshot::{Command, Mode};
use tokio::sync::mpsc;

use crate::audit::Audit;
use crate::clock;
use crate::config::{Config, Loaded};
use crate::control::Request;
use crate::core::fleet::FleetWord;
use crate::exchange::backoff::random;
use disk::Disk;
use tls::Certificates;

/// etcd is asked this often how far it is.
const ASK: Duration = Duration::from_secs(10);
/// A connection that has said nothing for so long is given up: etcd answers at once when it is asked.
const DEAF: Duration = Duration::from_secs(35);
/// Waits between tries to connect, at random below these, so that a thousand hosts do not come back in one moment.
const WAITS: [Duration; 6] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];
/// The loop takes a new network within this time, or has refused it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host in a fleet, as the shell knows it.
#[derive(Debug)]
pub struct Member {
    endpoints: Vec<Endpoint>,
    certificates: Certificates,
    hosts: String,
    view: View,
    disk: Disk,
    contact: Contact,
    /// When etcd was last heard, ns since 1970.
    heard_unix_ns: Option<u64>,
    /// The network of the fleet is to be tried.
    network_due: bool,
    /// Something is to be written or told.
    news_due: bool,
    told: FleetWord,
    /// The mode of the group that the audit log has, or that was kept from before.
    noted: Option<Mode>,
}

impl Member {
    /// What a host is in by its configuration, and as its last good state has it; `None`: in no fleet.
    pub fn of(loaded: &Loaded) -> Option<Member> {
        let config = &loaded.config;
        if config.fleet.etcd.is_empty() {
            return None;
        }
        // A name that is none was refused with the configuration.
        let group = Name::parse(&config.fleet.group)?;
        let space = Space::new(&config.fleet.prefix.to_string_lossy(), &config.node.cluster);
        let disk = Disk::new(config.fleet_dir());
        let hosts = space.hosts();
        let view = disk.read(space.clone(), group.clone()).unwrap_or_else(|problems| {
            tracing::warn!(
                event = "fleet-kept",
                cost = "until etcd is heard the mode and the network are those of this host's own files",
                next = "none if etcd is heard; the file is written anew then",
                "the last good state of the fleet cannot be read: {}",
                problems.all().first().map(|problem| problem.message.as_str()).unwrap_or_default()
            );
            View::new(space, group)
        });
        let noted = view.mode();
        Some(Member {
            endpoints: config.fleet.etcd.clone(),
            certificates: Certificates::of(config),
            hosts,
            view,
            disk,
            contact: Contact::new(monotonic()),
            heard_unix_ns: None,
            // What was kept may not be in force: the daemon starts without what its files refuse.
            network_due: true,
            news_due: true,
            told: FleetWord::default(),
            noted,
        })
    }

    /// What the loop is told of it.
    pub fn word(&self) -> FleetWord {
        FleetWord {
            group: self.view.group().to_string(),
            mode: self.view.mode(),
            revision: self.view.revision().0,
            connected: self.contact.connected(),
            heard_unix_ns: self.heard_unix_ns,
            silence: self.contact.told(monotonic()),
            faults: self.view.faults(),
        }
    }

    /// Listens for ever. What the fleet commands stands in the audit log.
    pub async fn follow(mut self, requests: mpsc::Sender<Request>, audit: Audit) {
        let mut tries = 0_usize;
        loop {
            self.settle(&requests, &audit).await;
            let before = self.heard_unix_ns;
            let Err(error) = self.listen(&requests, &audit, tries).await;
            if self.heard_unix_ns != before {
                tries = 0;
            }
            tracing::debug!(event = "fleet-lost", %error, "etcd is not heard");
            self.contact.lost(error.to_string());
            let most = WAITS.get(tries).or(WAITS.last()).copied().unwrap_or(ASK);
            tries += 1;
            let wait = Duration::from_nanos(random() % u64::try_from(most.as_nanos()).unwrap_or(1).max(1));
            self.settle(&requests, &audit).await;
            tokio::time::sleep(wait).await;
        }
    }

    /// One connection, until it fails.
    async fn listen(
        &mut self,
        requests: &mpsc::Sender<Request>,
        audit: &Audit,
        tries: usize,
    ) -> Result<std::convert::Infallible, Error> {
        let tls = self.certificates.read().await?;
        let client = Client::connect(&self.endpoints, tls.as_ref(), tries).await?;
        let reading = client.read(&self.hosts, limit()).await?;
        let from = reading.revision.saturating_add(1);
        let first = self.read(reading);
        self.heard(first);
        let mut watch = client.watch(&self.hosts, from).await?;
        tracing::info!(event = "fleet-heard", etcd = %client.endpoint(), revision = from - 1, "etcd is heard");
        self.settle(requests, audit).await;
        let mut ask = tokio::time::interval(ASK);
        ask.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = watch.next() => {
                    let change = self.changed(news?);
                    let reread = change.reread;
                    self.heard(change);
                    if reread {
                        let change = self.read(client.read(&self.hosts, limit()).await?);
                        self.heard(change);
                    }
                }
                _ = ask.tick() => {
                    if self.contact.silence(monotonic()) > DEAF {
                        return Err(Error::Late);
                    }
                    watch.ask();
                }
            }
            self.settle(requests, audit).await;
        }
    }

    fn read(&mut self, reading: Reading) -> Change {
        let Reading { etcd, revision, keys, more } = reading;
        self.view.hear(Heard::Whole { etcd, revision: Revision(revision), keys: raw(keys), more })
    }

    fn changed(&mut self, news: News) -> Change {
        self.view.hear(Heard::Changes { revision: Revision(news.revision), keys: raw(news.keys) })
    }

    fn heard(&mut self, change: Change) {
        self.contact.heard(monotonic());
        self.heard_unix_ns = Some(clock::wall(crate::config::ClockSource::Realtime).0);
        self.network_due |= change.network;
        self.news_due |= change.any();
    }

    /// Files, then the loop: what it is told is on the disk already, so that a restart forgets nothing of it.
    async fn settle(&mut self, requests: &mpsc::Sender<Request>, audit: &Audit) {
        if self.news_due {
            self.news_due = false;
            self.disk.keep(&self.view).await;
        }
        if self.network_due {
            self.network_due = !self.try_network(requests).await;
        }
        let word = self.word();
        // When it was last heard is no news by itself.
        let same = FleetWord { heard_unix_ns: self.told.heard_unix_ns, ..word.clone() } == self.told;
        let aged = word.heard_unix_ns != self.told.heard_unix_ns;
        if (!same || aged) && requests.try_send(Request::Fleet(Box::new(word.clone()))).is_ok() {
            if word.mode != self.noted {
                self.noted = word.mode;
                audit.note(commanded(&word));
            }
            self.told = word;
        }
    }

    /// Puts the fleet's network in force, or leaves the one that is. `false`: the loop has not answered.
    async fn try_network(&mut self, requests: &mpsc::Sender<Request>) -> bool {
        let undo = match self.disk.lay(&self.view).await {
            Ok(None) => return true,
            Ok(Some(undo)) => undo,
            Err(why) => {
                self.view.network_used(Some(why));
                return true;
            }
        };
        match reload(requests).await {
            Some(Ok(())) => {
                tracing::info!(event = "fleet-network", revision = %self.view.revision(), "the fleet's network is in force");
                self.view.network_used(None);
                self.disk.sweep().await;
                true
            }
            answer => {
                self.disk.undo(undo).await;
                // The earlier files again, so that nothing that was refused stays told as such.
                let answered = answer.is_some();
                let _ = reload(requests).await;
                if let Some(Err(why)) = answer {
                    self.view.network_used(Some(why));
                }
                answered
            }
        }
    }
}

/// A mode that the fleet's word gives this host's group, as the audit log has it. Whether the host follows is told by the loop.
fn commanded(word: &FleetWord) -> Entry {
    Entry {
        unix_ns: clock::wall(crate::config::ClockSource::Realtime).0,
        way: Way::Fleet,
        command: "mode".into(),
        asked: word.mode.map_or("none any more", Mode::as_str).into(),
        reason: format!("for the group {}", word.group),
        result: audit::Result::Asked,
        message: format!("etcd's revision {}", word.revision),
        ..Entry::default()
    }
}

/// Asks the loop to read the configuration again; `None`: it does not answer.
async fn reload(requests: &mpsc::Sender<Request>) -> Option<Result<(), String>> {
    let (answer, wait) = sync_channel(1);
    requests.try_send(Request::Command(Command::Reload, answer)).ok()?;
    let answer = tokio::task::spawn_blocking(move || wait.recv_timeout(PATIENCE).ok()).await.ok()??;
    Some(match answer {
        Ok(_) => Ok(()),
        Err(refused) => {
            let first = refused.problems.first().map(|problem| format!(": {}: {}", problem.code, problem.message));
            Err(format!("{}{}", refused.message, first.unwrap_or_default()))
        }
    })
}

fn raw(keys: Vec<sluice_etcd::Key>) -> Vec<Raw> {
    let raw = |key: sluice_etcd::Key| Raw { name: key.name, value: key.value, revision: Revision(key.revision) };
    keys.into_iter().map(raw).collect()
}

/// One more than may be there, so that more are noticed.
fn limit() -> u32 {
    u32::try_from(MAX_KEYS).unwrap_or(u32::MAX)
}

fn monotonic() -> Duration {
    Duration::from_nanos(clock::monotonic().0)
}

impl Config {
    /// Where the last good state of the fleet is kept.
    pub fn fleet_dir(&self) -> PathBuf {
        self.node.state_dir.join("fleet")
    }
    /// Topology and switches as the fleet has them: a file of settings below this host's own, if it is in a fleet.
    pub fn fleet_layer(&self) -> Option<PathBuf> {
        (!self.fleet.etcd.is_empty()).then(|| self.fleet_dir().join(disk::LAYER))
    }
}
