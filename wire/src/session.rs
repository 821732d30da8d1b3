//! Typed clients of both services: one stream per peer, newest message per holder, every limit set.
//!
//! [`SessionClient`] is a host's connection to a process that holds tables; [`PeerClient`] its connection to another
//! host. Both hand out a sender that never waits and a receiver that checks what it reads. Reconnecting, with back-off,
//! is the caller's.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_schedule::{Announcement, Feedback, HolderId};
use tonic::{Status, Streaming};

use crate::convert::{self, Malformed};
use crate::dial::Dial;
use crate::hello::{self, Hello, Welcome};
use crate::limits;
use crate::outbox::{Drain, Outbox, outbox};
use crate::pb::{self, peer_client, switch_client};
use crate::refusal::RefusalId;

/// Why a session could not begin or went on no longer.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No connection, or it broke.
    #[error("{uri}: {source}")]
    Transport {
        /// Address that was called.
        uri: String,
        /// What the transport says.
        source: tonic::transport::Error,
    },
    /// The other end refused, as [`SessionError::refusal_id`] says, or failed.
    #[error("{uri}: {}", status.message())]
    Status {
        /// Address that was called.
        uri: String,
        /// What the other end says.
        status: Box<Status>,
    },
    /// The other end said nothing in time.
    #[error("{uri}: no answer to the hello within {} s; is it a Sluice process of this version?", limit.as_secs_f64())]
    Silent {
        /// Address that was called.
        uri: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The other end sent what no correct one sends.
    #[error("{uri}: {source}")]
    Malformed {
        /// Address that was called.
        uri: String,
        /// Which field has which value, and what is allowed.
        source: Malformed,
    },
}

impl SessionError {
    /// Why the other end refused; `None` for anything else.
    pub fn refusal_id(&self) -> Option<RefusalId> {
        match self {
            SessionError::Status { status, .. } => RefusalId::of(status),
            _ => None,
        }
    }
}

/// A host's connection to a process that holds tables.
#[derive(Debug)]
pub struct SessionClient {
    /// What the other end said to the hello.
    pub welcome: Welcome,
    /// The half that sends announcements.
    pub sender: SessionSender,
    /// The half that receives feedback.
    pub receiver: SessionReceiver,
}

/// Announces to holders; cheap to clone, never waits.
#[derive(Clone, Debug)]
pub struct SessionSender(Outbox<HolderId, Announcement>);

/// The receiving half of a session with a holder.
#[derive(Debug)]
pub struct SessionReceiver {
    uri: String,
    stream: Streaming<pb::HolderMessage>,
}

fn host_message(pending: BTreeMap<HolderId, Announcement>) -> pb::HostMessage {
    let announcements = pending.iter().map(|(holder, a)| convert::from_announcement(*holder, a)).collect();
    pb::HostMessage { hello: None, announcements }
}

impl SessionClient {
    /// Connects to `uri` (`http://address:port`) and exchanges hellos, within [`limits::HANDSHAKE`] each.
    pub async fn connect(uri: &str, hello: &Hello) -> Result<SessionClient, SessionError> {
        SessionClient::connect_by(&Dial::Plain, uri, hello).await
    }

    /// The same by this kind of connection.
    pub async fn connect_by(dial: &Dial, uri: &str, hello: &Hello) -> Result<SessionClient, SessionError> {
        let transport = |source| SessionError::Transport { uri: uri.into(), source };
        let channel = dial.channel(uri).await.map_err(transport)?;
        let mut client = switch_client::SwitchClient::new(channel).max_decoding_message_size(limits::MESSAGE);
        let first = pb::HostMessage { hello: Some(hello.into()), announcements: Vec::new() };
        let (outbox, drain): (_, Drain<_, _, _>) = outbox(Some(first), host_message);
        let (welcome, stream) = in_time(uri, async {
            let mut stream = client.session(drain).await?.into_inner();
            let first = stream.message().await?.unwrap_or_default();
            Ok((hello::read_welcome(first.welcome)?, stream))
        })
        .await?;
        let receiver = SessionReceiver { uri: uri.into(), stream };
        Ok(SessionClient { welcome, sender: SessionSender(outbox), receiver })
    }
}

impl SessionSender {
    /// Sends, in place of an unsent announcement to the same holder. False: the session is over.
    pub fn announce(&self, holder: HolderId, announcement: Announcement) -> bool {
        self.0.put(holder, announcement)
    }
    /// Ends the session after what is pending.
    pub fn close(&self) {
        self.0.close();
    }
}

impl SessionReceiver {
    /// The next message: feedback of one or several holders. `None`: the other end closed the session.
    pub async fn next(&mut self) -> Result<Option<Vec<(HolderId, Feedback)>>, SessionError> {
        match self.stream.message().await {
            Ok(None) => Ok(None),
            Ok(Some(message)) => read_feedback(message.feedback).map(Some).map_err(|source| self.malformed(source)),
            Err(status) => Err(SessionError::Status { uri: self.uri.clone(), status: Box::new(status) }),
        }
    }

    fn malformed(&self, source: Malformed) -> SessionError {
        SessionError::Malformed { uri: self.uri.clone(), source }
    }
}

/// What one host says to another, whichever side connected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerNews {
    /// For tables the receiver holds.
    pub announcements: Vec<(HolderId, Announcement)>,
    /// Of tables the sender holds.
    pub feedback: Vec<(HolderId, Feedback)>,
}

/// What is newest per key in a peer's outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerKey {
    /// An announcement to this holder.
    Announcement(HolderId),
    /// Feedback of this holder.
    Feedback(HolderId),
}

/// The value for a [`PeerKey`].
#[derive(Clone, Debug, PartialEq)]
pub enum PeerValue {
    /// An announcement; what it replaces is said at [`PeerKey::Announcement`].
    Announcement(Announcement),
    /// Feedback; what it replaces is said at [`PeerKey::Feedback`].
    Feedback(Feedback),
}

/// The sending half of a peer session, on either side; never waits.
#[derive(Clone, Debug)]
pub struct PeerSender(Outbox<PeerKey, PeerValue>);

/// The stream that a peer session writes.
pub type PeerDrain = Drain<PeerKey, PeerValue, pb::PeerMessage>;

/// The receiving half of a peer session, on either side.
#[derive(Debug)]
pub struct PeerReceiver {
    uri: String,
    stream: Streaming<pb::PeerMessage>,
}

/// A host's connection to another host.
#[derive(Debug)]
pub struct PeerClient {
    /// What the other host said of itself.
    pub hello: Hello,
    /// The half that sends to the other host.
    pub sender: PeerSender,
    /// The half that receives from it.
    pub receiver: PeerReceiver,
}

/// Both ends of an outbox for a peer session that begins with this hello.
pub fn peer_outbox(hello: &Hello) -> (PeerSender, PeerDrain) {
    let first = pb::PeerMessage { hello: Some(hello.into()), ..Default::default() };
    let (outbox, drain) = outbox(Some(first), peer_message);
    (PeerSender(outbox), drain)
}

fn peer_message(pending: BTreeMap<PeerKey, PeerValue>) -> pb::PeerMessage {
    let mut message = pb::PeerMessage::default();
    for (key, value) in pending {
        match (key, value) {
            (PeerKey::Announcement(holder), PeerValue::Announcement(a)) => {
                message.announcements.push(convert::from_announcement(holder, &a));
            }
            (PeerKey::Feedback(holder), PeerValue::Feedback(f)) => {
                message.feedback.push(convert::from_feedback(holder, &f));
            }
            // The senders below pair every key with its own kind of value.
            _ => {}
        }
    }
    message
}

impl PeerClient {
    /// Connects to `uri` and exchanges hellos, within [`limits::HANDSHAKE`] each.
    pub async fn connect(uri: &str, hello: &Hello) -> Result<PeerClient, SessionError> {
        PeerClient::connect_by(&Dial::Plain, uri, hello).await
    }

    /// The same by this kind of connection.
    pub async fn connect_by(dial: &Dial, uri: &str, hello: &Hello) -> Result<PeerClient, SessionError> {
        let transport = |source| SessionError::Transport { uri: uri.into(), source };
        let channel = dial.channel(uri).await.map_err(transport)?;
        let mut client = peer_client::PeerClient::new(channel).max_decoding_message_size(limits::MESSAGE);
        let (sender, drain) = peer_outbox(hello);
        let (hello, stream) = in_time(uri, async {
            let mut stream = client.session(drain).await?.into_inner();
            let first = stream.message().await?.unwrap_or_default();
            Ok((hello::read(first.hello)?, stream))
        })
        .await?;
        Ok(PeerClient { hello, sender, receiver: PeerReceiver { uri: uri.into(), stream } })
    }
}

impl PeerSender {
    /// Announces to a table the other host holds.
    pub fn announce(&self, holder: HolderId, announcement: Announcement) -> bool {
        self.0.put(PeerKey::Announcement(holder), PeerValue::Announcement(announcement))
    }
    /// Tells what an own table holds.
    pub fn feedback(&self, holder: HolderId, feedback: Feedback) -> bool {
        self.0.put(PeerKey::Feedback(holder), PeerValue::Feedback(feedback))
    }
    /// Ends the session after what is pending.
    pub fn close(&self) {
        self.0.close();
    }
}

impl PeerReceiver {
    /// The receiving half on the side that was connected to; `peer` names the other end in errors.
    pub fn new(peer: String, stream: Streaming<pb::PeerMessage>) -> PeerReceiver {
        PeerReceiver { uri: peer, stream }
    }

    /// Reads the other end's hello: the first message of the side that was connected to.
    pub async fn hello(&mut self) -> Result<Hello, Status> {
        let first = tokio::time::timeout(limits::HANDSHAKE, self.stream.message());
        let first = first.await.map_err(|_| hello::late())??;
        hello::read(first.unwrap_or_default().hello)
    }

    /// The next message. `None`: the other end closed the session.
    pub async fn next(&mut self) -> Result<Option<PeerNews>, SessionError> {
        match self.stream.message().await {
            Ok(None) => Ok(None),
            Ok(Some(message)) => match read_peer(message) {
                Ok(news) => Ok(Some(news)),
                Err(source) => Err(SessionError::Malformed { uri: self.uri.clone(), source }),
            },
            Err(status) => Err(SessionError::Status { uri: self.uri.clone(), status: Box::new(status) }),
        }
    }
}

/// Reads the announcements of one message: at most one per holder, [`limits::HOLDERS`] holders.
pub fn read_announcements(wire: Vec<pb::Announcement>) -> Result<Vec<(HolderId, Announcement)>, Malformed> {
    holders("announcements", wire.len())?;
    wire.into_iter().map(convert::announcement).collect()
}

/// Reads the feedback of one message: [`limits::HOLDERS`] holders at most.
pub(crate) fn read_feedback(wire: Vec<pb::Feedback>) -> Result<Vec<(HolderId, Feedback)>, Malformed> {
    holders("feedback", wire.len())?;
    wire.into_iter().map(convert::feedback).collect()
}

fn read_peer(message: pb::PeerMessage) -> Result<PeerNews, Malformed> {
    Ok(PeerNews {
        announcements: read_announcements(message.announcements)?,
        feedback: read_feedback(message.feedback)?,
    })
}

fn holders(field: &'static str, found: usize) -> Result<(), Malformed> {
    let allowed = "0 to 256 holders";
    if found > limits::HOLDERS { Err(Malformed { field, found: found as u64, allowed }) } else { Ok(()) }
}

pub(crate) async fn in_time<T>(uri: &str, work: impl Future<Output = Result<T, Status>>) -> Result<T, SessionError> {
    match tokio::time::timeout(limits::HANDSHAKE, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(status)) => Err(SessionError::Status { uri: uri.into(), status: Box::new(status) }),
        Err(_) => Err(SessionError::Silent { uri: uri.into(), limit: limits::HANDSHAKE }),
    }
}
