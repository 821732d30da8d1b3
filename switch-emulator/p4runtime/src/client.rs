//! A controller's session with a switch: a stream that says whether it is primary, and calls.
//!
//! Everything has a deadline ([`Deadlines`]). One task reads the stream; it ends with the session, and the session ends
//! with the value that holds it. Reconnecting is the caller's: each [`ClientError`] says what would help.
//!
//! | file | is |
//! | --- | --- |
//! | `calls.rs` | loading the program, writing tables, reading them |
//! | [`counts`] | what the switch counted |
//! | [`error`] | why something failed, and what to do next |
//! | [`program`] | the compiled program that is loaded |
//! | `stream.rs` | arbitration and packets |

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::client::error::ClientError;
use crate::client::program::Program;
use crate::client::stream::{Stream, arbitration};
use crate::limits;
use crate::pb::p4::v1::p4_runtime_client::P4RuntimeClient;
use crate::pb::p4::v1::{PacketOut, StreamMessageRequest, stream_message_request};

mod calls;
pub mod counts;
pub mod error;
pub mod program;
mod stream;

/// An idle connection is probed by TCP this often. Not by HTTP/2: servers of P4Runtime made with gRPC's C++ library
/// close connections that ping them more often than every five minutes.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// Probes without an answer before a connection is given up.
const PROBES: u32 = 2;

/// How long a switch may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// To take a connection in.
    pub connect: Duration,
    /// To answer a call, or arbitration.
    pub call: Duration,
    /// To load a program; hardware takes seconds.
    pub program: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        let second = Duration::from_secs(1);
        Deadlines { connect: 2 * second, call: 2 * second, program: 30 * second }
    }
}

/// Which switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where its P4Runtime server listens, as `http://address:port`.
    pub uri: String,
    /// Its number at that server.
    pub device: u64,
    /// How long it may take.
    pub deadlines: Deadlines,
}

/// What the switch says of this controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing yet.
    Unknown,
    /// It alone may write.
    Primary,
    /// Another one is primary.
    Backup {
        /// The highest election id that the switch has seen.
        highest: Option<u128>,
    },
    /// Nobody is primary. Who stands with an election id that is no lower than the highest will be.
    Vacant {
        /// The highest election id that the switch has seen.
        highest: Option<u128>,
    },
    /// The stream is over, and with it the session.
    Ended {
        /// How the switch ended it.
        code: tonic::Code,
        /// What it said.
        text: String,
    },
}

/// What came by the stream, beside arbitration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A frame that left the switch by the port of its processor.
    Packet(Vec<u8>),
    /// The switch did not take a message of this stream.
    Refused {
        /// Why, as a code of gRPC.
        code: tonic::Code,
        /// Why, as a sentence.
        text: String,
    },
}

/// A session with a switch.
#[derive(Debug)]
pub struct Session {
    target: Target,
    program: Arc<Program>,
    election: u128,
    client: P4RuntimeClient<Channel>,
    stream: Stream,
    heard: mpsc::Receiver<Heard>,
}

impl Session {
    /// Connects, opens the stream, stands for election with `election`, and waits for what the switch says to it.
    ///
    /// # Errors
    /// No connection, silence, or a refusal of the stream, such as of an election id that is in use.
    pub async fn open(target: Target, election: u128, program: Arc<Program>) -> Result<Session, ClientError> {
        let uri = || target.uri.clone();
        let endpoint = endpoint(&target).map_err(|source| ClientError::Address { uri: uri(), source })?;
        let limit = target.deadlines.connect;
        let channel = match tokio::time::timeout(limit, endpoint.connect()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(source)) => return Err(ClientError::Transport { uri: uri(), source }),
            Err(_) => return Err(ClientError::Silent { uri: uri(), call: "a connection", limit }),
        };
        let client = P4RuntimeClient::new(channel).max_decoding_message_size(limits::MESSAGE);
        let (stream, heard) = Stream::open(&target, client.clone(), election).await?;
        Ok(Session { target, program, election, client, stream, heard })
    }

    /// What the switch says of this controller, as far as is known now.
    pub fn standing(&self) -> Standing {
        self.stream.standing.borrow().clone()
    }

    /// Waits until the switch says something else of this controller than when this was last asked.
    pub async fn changed(&mut self) -> Standing {
        match self.stream.standing.changed().await {
            Ok(()) => self.stream.standing.borrow_and_update().clone(),
            Err(_) => stream::unread(),
        }
    }

    /// The election id that this controller last stood with.
    pub fn election(&self) -> u128 {
        self.election
    }

    /// Stands for election again, with another id. [`Session::changed`] tells what came of it.
    ///
    /// # Errors
    /// The stream is over.
    pub async fn stand(&mut self, election: u128) -> Result<(), ClientError> {
        // What was said before this is no answer to it.
        self.stream.standing.borrow_and_update();
        self.election = election;
        self.say(arbitration(self.target.device, election)).await
    }

    /// Waits until this controller is primary no longer, for whatever reason.
    pub async fn lost(&self) -> ClientError {
        let mut standing = self.stream.standing.clone();
        let now = standing.wait_for(|standing| *standing != Standing::Primary).await.map(|now| now.clone());
        self.lost_by(now.unwrap_or_else(|_| stream::unread()))
    }

    /// The error that a standing other than primary is.
    pub(crate) fn lost_by(&self, standing: Standing) -> ClientError {
        let uri = self.target.uri.clone();
        match standing {
            Standing::Ended { code, text } => ClientError::StreamEnded { uri, code, text },
            Standing::Backup { highest } | Standing::Vacant { highest } => ClientError::NotPrimary { uri, highest },
            Standing::Unknown | Standing::Primary => ClientError::NotPrimary { uri, highest: None },
        }
    }

    /// Gives the switch a frame, as if it came in by the port of its processor. What becomes of it is not answered, but
    /// a refusal is [`Heard`].
    ///
    /// # Errors
    /// The stream is over.
    pub async fn send_packet(&self, frame: Vec<u8>) -> Result<(), ClientError> {
        let packet = PacketOut { payload: frame, metadata: Vec::new() };
        self.say(StreamMessageRequest { update: Some(stream_message_request::Update::Packet(packet)) }).await
    }

    /// The next frame or refusal. `None`: the stream is over. Of what nobody asks for, [`limits::QUEUE`] are kept.
    pub async fn heard(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }

    async fn say(&self, message: StreamMessageRequest) -> Result<(), ClientError> {
        let limit = self.target.deadlines.call;
        match tokio::time::timeout(limit, self.stream.outgoing.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.lost_by(match self.standing() {
                ended @ Standing::Ended { .. } => ended,
                _ => stream::unread(),
            })),
            Err(_) => {
                let uri = self.target.uri.clone();
                Err(ClientError::Silent { uri, call: "a message of the stream", limit })
            }
        }
    }
}

fn endpoint(target: &Target) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(target.uri.clone())?
        .connect_timeout(target.deadlines.connect)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE))
        .tcp_keepalive_interval(Some(KEEPALIVE))
        .tcp_keepalive_retries(Some(PROBES))
        .http2_max_header_list_size(limits::HEADERS))
}

/// A call's answer, or why there is none within `limit`.
async fn in_time<T>(
    target: &Target,
    call: &'static str,
    limit: Duration,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, ClientError> {
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => Err(ClientError::Refused { uri: target.uri.clone(), call, status }),
        Err(_) => Err(ClientError::Silent { uri: target.uri.clone(), call, limit }),
    }
}
