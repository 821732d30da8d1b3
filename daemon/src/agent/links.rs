//! This host's links and RDMA devices, looked at beside the loop: now and then, and when the kernel says that one has changed.
//!
//! The kernel's answers wait for locks that others hold, and a real-time thread that became an ordinary one for a look waited
//! for its turn among all that ran, until orders had run out. So a thread of its own looks, and the loop takes what is there.

use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use sluice_schedule::Nanos;

use super::Agent;
use crate::fabric::{Fabric, OwnLink};
use crate::interfaces::{self, Interface};
use crate::rdma;

/// They are looked at this often, and a slot after the kernel says that one has changed.
const EVERY: Nanos = Nanos::from_millis(10_000);

/// What was seen.
#[derive(Debug)]
struct Seen {
    interfaces: Vec<Interface>,
    rdma: Vec<rdma::Device>,
}

impl Seen {
    fn now() -> Seen {
        Seen { interfaces: interfaces::list(), rdma: rdma::devices(Path::new(rdma::DEVICES)) }
    }
}

/// The thread that looks.
#[derive(Debug)]
struct Looker {
    asks: SyncSender<()>,
    answers: Receiver<Seen>,
}

impl Looker {
    /// `None`: there is no room for a thread.
    fn start() -> Option<Looker> {
        let (asks, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let body = move || {
            while let Ok(()) = asked.recv() {
                if answer.send(Seen::now()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("links".into()).spawn(body).ok()?;
        Some(Looker { asks, answers })
    }
}

/// When this host's links were looked at, and by whom.
#[derive(Debug)]
pub(super) struct Links {
    asked: Nanos,
    /// An answer is awaited.
    waits: bool,
    /// The kernel's word of links; `None`: it gives none, and they are looked at now and then.
    news: Option<interfaces::News>,
    changed: bool,
    looker: Option<Looker>,
}

impl Links {
    /// Of the caller's network namespace; news come on the caller's runtime.
    pub(super) fn new() -> Links {
        let news = interfaces::News::listen().ok();
        Links { asked: Nanos::ZERO, waits: false, news, changed: false, looker: None }
    }

    /// Waits until links have changed; for ever if nobody says so.
    pub(super) async fn change(&self) {
        match &self.news {
            Some(news) => news.come().await,
            None => std::future::pending().await,
        }
    }

    /// The kernel says that some have.
    pub(super) fn have_changed(&mut self) {
        self.changed = true;
    }

    /// What the thread has seen since the last call. However often links change, it looks once in a `slot`.
    fn look(&mut self, now: Nanos, slot: Nanos) -> Option<Seen> {
        if self.waits {
            let answer =
                self.looker.as_ref().map_or(Err(TryRecvError::Disconnected), |looker| looker.answers.try_recv());
            self.waits = matches!(answer, Err(TryRecvError::Empty));
            return answer.ok();
        }
        if now.minus(self.asked) < if self.changed { slot } else { EVERY } {
            return None;
        }
        (self.asked, self.changed) = (now, false);
        self.looker = self.looker.take().or_else(Looker::start);
        match &self.looker {
            Some(looker) if looker.asks.try_send(()).is_ok() => {
                self.waits = true;
                None
            }
            // Late is better than never.
            _ => Some(Seen::now()),
        }
    }
}

impl Agent {
    /// Takes over what has become of this host's links: another speed, another address, a card that came.
    pub(super) fn look_at_links(&mut self) {
        let now = self.core.now();
        let Some(seen) = self.links.look(now.mono, self.core.config().slot_length()) else { return };
        self.core.note_rdma(now.wall.0, &seen.rdma);
        let before = self.core.monitor().fabric.clone();
        let after = before.with_interfaces(self.core.config(), &seen.interfaces);
        if !after.follows(&before) {
            return;
        }
        let links = |fabric: &Fabric| fabric.links.iter().map(OwnLink::to_string).collect::<Vec<_>>().join(", ");
        tracing::info!(
            event = "links-changed",
            before = links(&before),
            now = links(&after),
            "this host's links have changed"
        );
        self.realtime.pause();
        let fabric = Rc::new(after);
        self.core.reload(self.core.loaded().clone(), fabric.clone());
        self.exchange.reconfigure(self.core.config(), fabric);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn a_thread_looks_and_the_loop_goes_on_meanwhile() {
        let (mut links, slot) = (Links::new(), Nanos::from_millis(60));
        assert!(links.look(EVERY.minus(Nanos(1)), slot).is_none() && !links.waits, "it is not time yet");
        assert!(links.look(EVERY, slot).is_none() && links.waits, "somebody else looks");
        let began = Instant::now();
        let seen = loop {
            if let Some(seen) = links.look(EVERY, slot) {
                break seen;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "nobody answers");
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(seen.interfaces.iter().any(|interface| interface.name == "lo"), "{seen:?}");
        links.have_changed();
        assert!(links.look(EVERY.plus(slot).minus(Nanos(1)), slot).is_none() && !links.waits, "once in a slot");
        assert!(links.look(EVERY.plus(slot), slot).is_none() && links.waits);
        // A thread that has ended leaves the loop to look by itself.
        let (asks, _) = sync_channel(1);
        let (_, answers) = sync_channel(1);
        links.looker = Some(Looker { asks, answers });
        assert!(links.look(EVERY.times(3), slot).is_none() && !links.waits, "what was asked is lost");
        assert!(links.look(EVERY.times(3), slot).is_some_and(|seen| !seen.interfaces.is_empty()));
        // For one that hangs in the kernel nobody waits, and nobody follows it there.
        let (asks, _asked) = sync_channel(1);
        let (_answer, answers) = sync_channel(1);
        links.looker = Some(Looker { asks, answers });
        for times in [5, 50, 500] {
            assert!(links.look(EVERY.times(times), slot).is_none() && links.waits, "{times}");
        }
    }
}
