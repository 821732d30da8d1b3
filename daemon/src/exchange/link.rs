//! One connection to a process that holds tables: connect, hello, exchange until it ends, and again after a pause.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use sluice_schedule::{Announcement, Feedback, HolderId, Nanos};
use sluice_wire::dial::Dial;
use sluice_wire::hello::{Hello, Mismatch};
use sluice_wire::outbox::Outbox;
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::{
    PeerClient, PeerReceiver, PeerSender, SessionClient, SessionError, SessionReceiver, SessionSender,
};
use tokio::sync::{Notify, mpsc};

use super::backoff::{Backoff, random};
use super::book::{Ground, Said};
use super::quota::{Quota, Reading};
use super::{Identity, datagrams, unary};
use crate::clock::monotonic;
use crate::core::{Ends, Inbound};

/// A connection on which nothing came for so long, although something was said, is dead.
pub(super) const DEAD: Nanos = Nanos::from_millis(2_000);
/// How often that is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// What is at the other end, and how it is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A process with the tables of switches, by one stream.
    Switch,
    /// The same, by two calls a slot.
    Unary,
    /// The same, by datagrams.
    Datagrams(Arc<Ground>),
    /// Programmable switches, by datagrams along the paths of flows to the hosts that receive them.
    Inband(Arc<Inband>),
    /// A host with the table of its own ingress.
    Peer,
}

/// What datagrams along paths have to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Inband {
    pub ground: Arc<Ground>,
    /// Whose datagrams are sent back; empty: everybody's.
    pub peers: Vec<IpNet>,
}

/// Where announcements are put.
pub(super) enum Sender {
    Switch(SessionSender),
    Unary(Outbox<HolderId, Announcement>),
    Datagrams(Outbox<HolderId, Said>),
    Peer(PeerSender),
}

enum Receiver {
    Switch(SessionReceiver),
    Peer(PeerReceiver),
}

#[derive(Default)]
struct State {
    sender: Option<Sender>,
    /// CLOCK_MONOTONIC of the first announcement since something was heard.
    unanswered: Option<Nanos>,
    /// Of how many links each holder was asked last.
    asked: BTreeMap<HolderId, usize>,
}

/// The loop's end of a connection.
pub struct Connection {
    uri: String,
    kind: Kind,
    holders: Vec<HolderId>,
    dial: Dial,
    state: Mutex<State>,
    closed: AtomicBool,
    close: Notify,
}

impl Connection {
    /// Not connected yet; [`run`] does that.
    pub fn new(uri: String, kind: Kind, holders: Vec<HolderId>) -> Connection {
        let (closed, close) = (AtomicBool::new(false), Notify::new());
        Connection { uri, kind, holders, dial: Dial::Plain, state: Mutex::default(), closed, close }
    }
    /// The same, opened by this.
    pub fn by(self, dial: Dial) -> Connection {
        Connection { dial, ..self }
    }
    pub(super) fn dial(&self) -> &Dial {
        &self.dial
    }
    pub fn uri(&self) -> &str {
        &self.uri
    }
    pub fn kind(&self) -> &Kind {
        &self.kind
    }
    pub fn holders(&self) -> &[HolderId] {
        &self.holders
    }
    /// Queues an announcement, in place of an unsent one. Without a connection it is dropped: the brain repeats it.
    pub fn announce(&self, holder: HolderId, announcement: Announcement, ends: Ends<'_>) {
        let mut state = self.state();
        state.asked.insert(holder, announcement.watch.len());
        let queued = match &state.sender {
            Some(Sender::Switch(sender)) => sender.announce(holder, announcement),
            Some(Sender::Unary(sender)) => sender.put(holder, announcement),
            Some(Sender::Datagrams(sender)) => sender.put(holder, Said::new(announcement, ends)),
            Some(Sender::Peer(sender)) => sender.announce(holder, announcement),
            None => return,
        };
        if queued {
            state.unanswered.get_or_insert_with(monotonic);
        }
    }
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.close.notify_one();
    }

    /// From now on announcements go there.
    pub(super) fn opened(&self, sender: Sender) {
        self.state().sender = Some(sender);
    }
    /// Hands over what a holder said, if it is one of those that are asked here. A full inbox loses the news, not the
    /// connection: it is repeated in the next slot.
    pub(super) fn hear(&self, inbound: &mpsc::Sender<Inbound>, heard: Vec<(HolderId, Feedback)>) {
        for (holder, feedback) in heard {
            if self.holders.contains(&holder) {
                let _ = inbound.try_send(Inbound::Feedback { holder, feedback, at: monotonic() });
            }
        }
    }

    /// Links of which holders speak here beyond as many as they were asked of.
    fn unasked(&self, heard: &[(HolderId, Feedback)]) -> usize {
        let state = self.state();
        let asked = |holder| state.asked.get(holder).copied().unwrap_or_default();
        heard.iter().map(|(holder, feedback)| feedback.links.len().saturating_sub(asked(holder))).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a connection up until it is closed.
pub async fn run(connection: Arc<Connection>, identity: Arc<Identity>, inbound: mpsc::Sender<Inbound>) {
    let mut backoff = Backoff::default();
    while !connection.closed.load(Ordering::Relaxed) {
        let Ended { why, mismatch } = tokio::select! {
            ended = exchange(&connection, &identity, &inbound, &mut backoff) => ended,
            () = connection.close.notified() => break,
        };
        *connection.state() = State::default();
        for holder in &connection.holders {
            // Lost feedback is repeated, a lost "lost" is not: wait for room.
            let lost = Inbound::Lost { holder: *holder, why: why.clone(), mismatch };
            if inbound.send(lost).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next(random())) => {}
            () = connection.close.notified() => break,
        }
    }
    *connection.state() = State::default();
}

/// Why an exchange ended.
pub(super) struct Ended {
    pub why: String,
    /// The two ends live on different grids, or in different clusters.
    pub mismatch: bool,
}

impl Ended {
    /// What the other end says of itself does not fit.
    pub fn unfit(mismatch: &Mismatch) -> Ended {
        Ended { why: mismatch.to_string(), mismatch: mismatch.id.is_of_grid() }
    }
    /// Not for want of fitting.
    pub fn because(why: String) -> Ended {
        Ended { why, mismatch: false }
    }
}

/// From dial to end, by whatever transport.
async fn exchange(
    connection: &Connection,
    identity: &Identity,
    inbound: &mpsc::Sender<Inbound>,
    backoff: &mut Backoff,
) -> Ended {
    match &connection.kind {
        Kind::Switch | Kind::Peer => session(connection, identity, inbound, backoff).await,
        Kind::Unary => unary::exchange(connection, identity, inbound, backoff).await,
        Kind::Datagrams(ground) => datagrams::exchange(connection, ground, identity, inbound, backoff).await,
        Kind::Inband(inband) => datagrams::along_paths(connection, inband, identity, inbound, backoff).await,
    }
}

/// One session from dial to end.
async fn session(
    connection: &Connection,
    identity: &Identity,
    inbound: &mpsc::Sender<Inbound>,
    backoff: &mut Backoff,
) -> Ended {
    let dialled = identity.wall.now();
    let opened = match connection.kind {
        Kind::Switch | Kind::Unary | Kind::Datagrams(_) | Kind::Inband(_) => {
            SessionClient::connect_by(&connection.dial, &connection.uri, &identity.hello())
                .await
                .map(|client| (client.welcome.hello, Sender::Switch(client.sender), Receiver::Switch(client.receiver)))
        }
        Kind::Peer => PeerClient::connect_by(&connection.dial, &connection.uri, &identity.hello())
            .await
            .map(|client| (client.hello, Sender::Peer(client.sender), Receiver::Peer(client.receiver))),
    };
    let (hello, sender, mut receiver) = match opened {
        Ok(opened) => opened,
        Err(error) => return failed(&error),
    };
    let now = identity.wall.now();
    if let Err(mismatch) = hello.check(&identity.grid, identity.slot(now)) {
        return Ended::unfit(&mismatch);
    }
    backoff.reset();
    greet(connection, identity, inbound, &hello, (dialled, now)).await;
    connection.opened(sender);
    let mut look = tokio::time::interval(LOOK);
    let (mut quota, mut enough) = (Quota::default(), None);
    loop {
        let resume = enough.unwrap_or_else(tokio::time::Instant::now);
        tokio::select! {
            () = tokio::time::sleep_until(resume), if enough.is_some() => enough = None,
            heard = next(&mut receiver), if enough.is_none() => match heard {
                Ok(Some(feedback)) => {
                    connection.state().unanswered = None;
                    match quota.read(monotonic(), connection.unasked(&feedback)) {
                        Reading::Goes => {}
                        Reading::Waits(time) => enough = Some(tokio::time::Instant::now() + time),
                        Reading::Ends => {
                            return Ended::because(format!("{}: it speaks of what nobody asked for", connection.uri));
                        }
                    }
                    connection.hear(inbound, feedback);
                }
                Ok(None) => return Ended::because(format!("{}: the other end closed the session", connection.uri)),
                Err(error) => return failed(&error),
            },
            _ = look.tick() => {
                let unanswered = connection.state().unanswered;
                if unanswered.is_some_and(|since| monotonic().minus(since) > DEAD) {
                    return Ended::because(format!("{}: no answer for 2 s", connection.uri));
                }
            }
        }
    }
}

/// Tells that a connection stands, with what its hello, sent and answered at these times, says of the other clock.
pub(super) async fn greet(
    connection: &Connection,
    identity: &Identity,
    inbound: &mpsc::Sender<Inbound>,
    hello: &Hello,
    (sent, got): (Nanos, Nanos),
) {
    let slot_diff = hello.slot.since(identity.slot(got));
    let middle = i128::from(sent.0 / 2 + got.0 / 2);
    let offset_ns = i64::try_from(i128::from(hello.now.0) - middle).ok();
    tell_back(connection, inbound, slot_diff, offset_ns).await;
}

/// Tells the same where no hello says anything of a clock.
pub(super) async fn tell_back(
    connection: &Connection,
    inbound: &mpsc::Sender<Inbound>,
    slot_diff: i32,
    offset_ns: Option<i64>,
) {
    for holder in &connection.holders {
        if inbound.send(Inbound::Back { holder: *holder, slot_diff, offset_ns }).await.is_err() {
            return;
        }
    }
}

async fn next(receiver: &mut Receiver) -> Result<Option<Vec<(HolderId, Feedback)>>, SessionError> {
    match receiver {
        Receiver::Switch(receiver) => receiver.next().await,
        Receiver::Peer(receiver) => Ok(receiver.next().await?.map(|news| news.feedback)),
    }
}

pub(super) fn failed(error: &SessionError) -> Ended {
    let mismatch = error.refusal_id().is_some_and(RefusalId::is_of_grid);
    // The transport's own text stops at "transport error"; the cause says what to look for.
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    Ended { why: text, mismatch }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;

    fn ended(status: Status) -> Ended {
        failed(&SessionError::Status { uri: "http://s0:1".into(), status: Box::new(status) })
    }

    /// Promises: P-23
    #[test]
    fn whether_the_ends_fit_is_decided_by_the_id_and_told_by_the_text() {
        // In whatever words it is told.
        let told =
            ended(RefusalId::HorizonMismatch.status(Code::FailedPrecondition, "No schedule of twelve slots here."));
        assert!(told.mismatch && told.why.contains("No schedule of twelve slots here."), "{}", told.why);
        let other = RefusalId::IdentityNotHost.status(Code::PermissionDenied, "cluster-mismatch: is not what it is.");
        assert!(!ended(other).mismatch);
        // A version that says it in the text alone, and somebody who is no Sluice.
        assert!(ended(Status::failed_precondition("epoch-mismatch: host a has another clock.")).mismatch);
        assert!(!ended(Status::unavailable("cluster-mismatch of a load balancer")).mismatch);
    }
}
