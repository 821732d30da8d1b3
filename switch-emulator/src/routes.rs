//! By which port a switch sends a flow on, where this machine is the switch: its kernel is asked, on a thread of its own.
//!
//! The kernel chooses among equal routes by a hash of what a packet shows, and says what it would choose. One answer holds
//! for a second, and in a second so many connections are asked for at most; hosts ask again for what nobody answered.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::Context;
use sluice_route::{Forwarded, Kernel};
use sluice_schedule::{Connection, HolderId, HostId, LinkId, Route, RouteQuestion};

use crate::config::Config;
use crate::tables::Tables;

/// Questions that wait for the thread at most.
const WAITING: usize = 4096;
/// Connections that the kernel is asked for in a second at most.
const ASKED: usize = 10_000;
/// An answer holds so long.
const HOLDS: Duration = Duration::from_secs(1);
/// How the kernel chooses among equal routes.
const HASH_POLICY: &str = "/proc/sys/net/ipv4/fib_multipath_hash_policy";

/// A host's question to the switch that the kernel forwards for.
#[derive(Debug)]
struct Asked {
    host: HostId,
    question: RouteQuestion,
}

/// Where questions go to.
#[derive(Debug)]
pub struct Questions {
    holder: HolderId,
    thread: SyncSender<Asked>,
}

/// What the thread works with.
#[derive(Debug)]
pub struct Answers {
    holder: HolderId,
    kernel: Kernel,
    /// Interface and link of each port.
    ports: Vec<(String, LinkId)>,
    /// The link of each index of an interface, as far as it is known.
    links: HashMap<u32, LinkId>,
    known: HashMap<Connection, Option<LinkId>>,
    since: Instant,
    questions: Receiver<Asked>,
}

/// Both ends, if some switch's routes are the kernel's.
///
/// # Errors
/// When the kernel cannot be asked, or its answers would not be what it does.
pub fn open(config: &Config) -> anyhow::Result<Option<(Questions, Answers)>> {
    let Some(switch) = config.switches.iter().find(|switch| !switch.interfaces.is_empty()) else { return Ok(None) };
    let policy =
        std::fs::read_to_string(HASH_POLICY).with_context(|| format!("E_ENV: {HASH_POLICY} cannot be read"))?;
    check_policy(policy.trim())?;
    let kernel = Kernel::open().context("E_ENV: the kernel's routing table cannot be asked")?;
    let (thread, questions) = sync_channel(WAITING);
    let ports = switch.interfaces.iter().cloned().zip(switch.ports.iter().map(|port| switch.link(port))).collect();
    let holder = switch.holder();
    let (links, known, since) = (HashMap::new(), HashMap::new(), Instant::now());
    Ok(Some((Questions { holder, thread }, Answers { holder, kernel, ports, links, known, since, questions })))
}

/// With policy 1 the kernel takes the hash that a packet brings along, from the card or from a socket of this machine, and
/// does not know that of a packet that it is asked for.
fn check_policy(policy: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        policy != "1",
        "routes-unknowable: net.ipv4.fib_multipath_hash_policy is 1, by which the kernel forwards by a hash that it does not tell; set it to 3 and net.ipv4.fib_multipath_hash_fields to 55 (addresses, protocol and ports), or leave routes = \"kernel\" out"
    );
    Ok(())
}

impl Questions {
    /// Hands a host's questions on. Those for which there is no room are asked again.
    pub fn ask(&self, holder: HolderId, host: HostId, questions: &[RouteQuestion]) {
        let own = questions.iter().filter(|question| holder == self.holder && question.flow.sender() == host);
        for &question in own {
            if self.thread.try_send(Asked { host, question }).is_err() {
                break;
            }
        }
    }
}

impl Answers {
    /// Answers until the tables are gone.
    pub fn run(mut self, tables: &Weak<Tables>) {
        while let Ok(first) = self.questions.recv() {
            let more: Vec<Asked> = std::iter::once(first).chain(self.questions.try_iter().take(WAITING)).collect();
            let routes: Vec<(HostId, Route)> = more.iter().filter_map(|asked| self.answer(asked)).collect();
            let Some(tables) = tables.upgrade() else { return };
            tables.routes_known(self.holder, &routes);
        }
    }

    fn answer(&mut self, asked: &Asked) -> Option<(HostId, Route)> {
        if self.since.elapsed() >= HOLDS {
            self.known.clear();
            self.links.clear();
            self.since = Instant::now();
        }
        let Asked { host, question: RouteQuestion { flow, connection } } = *asked;
        let link = match self.known.get(&connection) {
            Some(known) => *known,
            None if self.known.len() >= ASKED => None,
            None => {
                let link = self.find(&connection);
                self.known.insert(connection, link);
                link
            }
        };
        Some((host, Route { flow, link: link? }))
    }

    fn find(&mut self, connection: &Connection) -> Option<LinkId> {
        let &Connection { source, destination, protocol } = connection;
        let (source, destination) = ((source.ip(), source.port()), (destination.ip(), destination.port()));
        let index = self.kernel.forwards(&Forwarded { source, destination, protocol })?;
        if self.links.is_empty() {
            // Interfaces come and go; those that are there now.
            let there = self.ports.iter().filter_map(|(name, link)| Some((index_of(name)?, *link)));
            self.links = there.collect();
        }
        self.links.get(&index).copied()
    }
}

fn index_of(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

/// Starts the thread that answers.
///
/// # Errors
/// When there is no more room for a thread.
pub fn start(answers: Answers, tables: &Arc<Tables>) -> anyhow::Result<()> {
    let tables = Arc::downgrade(tables);
    std::thread::Builder::new().name("routes".into()).spawn(move || answers.run(&tables)).context("a thread")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_forwards_by_a_hash_nobody_knows_is_refused() {
        assert!(check_policy("1").is_err_and(|error| error.to_string().contains("hash_policy is 1")));
        assert!(["0", "2", "3"].iter().all(|policy| check_policy(policy).is_ok()));
    }
}
