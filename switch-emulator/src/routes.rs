//! By which port a switch sends a flow on, where this machine is the switch: its kernel is asked, on a thread of its own.
//!
//! The kernel chooses among equal routes by a hash of what a packet shows, and says what it would choose. One answer holds
//! for a second, and in a second 10,000 connections are asked for at most; hosts that ask share them by turns, and ask again
//! for what nobody answered.

mod turns;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::Context;
use sluice_route::{Forwarded, Kernel};
use sluice_schedule::{Connection, HolderId, HostId, LinkId, Route, RouteQuestion};

use crate::config::Config;
use crate::tables::Tables;
use turns::{Allowance, Asked, Turns};

/// Answers that are told together at most.
const TOLD: usize = 64;
/// An answer holds so long.
const HOLDS: Duration = Duration::from_secs(1);
/// How the kernel chooses among equal routes.
const HASH_POLICY: &str = "/proc/sys/net/ipv4/fib_multipath_hash_policy";

/// What waits for the thread.
#[derive(Debug, Default)]
struct Queue {
    turns: Mutex<Open>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    turns: Turns,
    /// Nobody asks any more.
    over: bool,
}

/// Where questions go to.
#[derive(Debug)]
pub struct Questions {
    holder: HolderId,
    queue: Arc<Queue>,
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
    allowance: Allowance,
    queue: Arc<Queue>,
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
    let queue = Arc::new(Queue::default());
    let ports = switch.interfaces.iter().cloned().zip(switch.ports.iter().map(|port| switch.link(port))).collect();
    let holder = switch.holder();
    let questions = Questions { holder, queue: queue.clone() };
    let (links, known, since) = (HashMap::new(), HashMap::new(), Instant::now());
    let answers = Answers { holder, kernel, ports, links, known, since, allowance: Allowance::default(), queue };
    Ok(Some((questions, answers)))
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
        let mut own =
            questions.iter().filter(|question| holder == self.holder && question.flow.sender() == host).peekable();
        if own.peek().is_none() {
            return;
        }
        let mut open = self.queue.open();
        for &question in own {
            if !open.turns.add(Asked { host, question }) {
                break;
            }
        }
        drop(open);
        self.queue.news.notify_one();
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        self.queue.open().over = true;
        self.queue.news.notify_one();
    }
}

impl Queue {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next question, as soon as there is one; `None`: nobody asks any more.
    fn next(&self) -> Option<Asked> {
        let waits = |open: &mut Open| open.turns.is_empty() && !open.over;
        let mut open = self.news.wait_while(self.open(), waits).unwrap_or_else(PoisonError::into_inner);
        open.turns.take()
    }

    /// The next question, if there is one.
    fn more(&self) -> Option<Asked> {
        self.open().turns.take()
    }
}

impl Answers {
    /// Answers until the tables are gone.
    pub fn run(mut self, tables: &Weak<Tables>) {
        while let Some(first) = self.queue.next() {
            let queue = self.queue.clone();
            let more = std::iter::from_fn(|| queue.more());
            let asked = std::iter::once(first).chain(more).take(TOLD);
            let routes: Vec<(HostId, Route)> = asked.filter_map(|asked| self.answer(asked)).collect();
            let Some(tables) = tables.upgrade() else { return };
            tables.routes_known(self.holder, &routes);
        }
    }

    fn answer(
        &mut self,
        Asked { host, question: RouteQuestion { flow, connection } }: Asked,
    ) -> Option<(HostId, Route)> {
        if self.since.elapsed() >= HOLDS {
            self.known.clear();
            self.links.clear();
            self.since = Instant::now();
        }
        let link = match self.known.get(&connection) {
            Some(known) => *known,
            None => {
                while let Err(pause) = self.allowance.take(sluice_clock::monotonic()) {
                    std::thread::sleep(Duration::from_nanos(pause.0));
                }
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
