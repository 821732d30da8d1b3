//! A UDP socket on which sFlow agents are heard: who may speak, what became of it, readings handed on.
//!
//! A single future does all of it and ends when nobody wants readings any more; dropped, it leaves nothing behind. It
//! never waits for whoever reads: what finds no room is dropped and counted, as the next datagram makes up for it. A
//! source address in UDP can be forged, so the list of networks keeps strangers out only where the network does too.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use sluice_schedule::Nanos;
use sluice_wire::accept::allowed;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::counts::{Counts, one};
use crate::meter::Sample;
use crate::quiet::Quiet;
use crate::sflow;

/// The port that agents send to unless they are told otherwise.
pub const PORT: u16 = 6343;
/// A socket that gives an error is left alone for so long.
const PAUSE: Duration = Duration::from_millis(50);

/// One reading, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Address by which the agent names itself; the datagram may have come from another.
    pub agent: IpAddr,
    /// The interface's index at that agent.
    pub interface: u32,
    /// The counter, with the agent's uptime as its time stamp and CLOCK_MONOTONIC here.
    pub sample: Sample,
}

/// A socket that is bound, and not read yet.
#[derive(Debug)]
pub struct Receiver {
    socket: UdpSocket,
    peers: Vec<IpNet>,
    counts: Arc<Counts>,
}

impl Receiver {
    /// Binds to `address`. Only datagrams from `peers` will be read; with no network listed, all are.
    ///
    /// # Errors
    /// What the kernel says, of an address in use for instance.
    pub async fn bind(address: SocketAddr, peers: Vec<IpNet>) -> io::Result<Receiver> {
        Ok(Receiver { socket: UdpSocket::bind(address).await?, peers, counts: Arc::default() })
    }

    /// Where it is bound, with the port that the kernel chose where `bind` was given 0.
    ///
    /// # Errors
    /// What the kernel says; none is known.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What came in and what became of it, for whoever watches.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Reads datagrams and passes their readings on, until the other end of `heard` is gone.
    pub async fn run(self, heard: mpsc::Sender<Heard>) {
        let mut quiet = Quiets::default();
        let mut bytes = vec![0; sflow::LONGEST];
        loop {
            let received = tokio::select! {
                received = self.socket.recv_from(&mut bytes) => received,
                () = heard.closed() => return,
            };
            match received {
                Ok((length, from)) => {
                    self.take(bytes.get(..length).unwrap_or_default(), from.ip(), &heard, &mut quiet);
                }
                Err(why) => {
                    quiet.failed.say(|count| {
                        tracing::warn!(
                            event = "sflow-socket",
                            %why,
                            count,
                            cost = "what passes beside Sluice is not known meanwhile",
                            next = "nothing if it passes; else start sluice-switch again",
                            "sFlow is read again soon"
                        );
                    });
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(&self, bytes: &[u8], from: IpAddr, heard: &mpsc::Sender<Heard>, quiet: &mut Quiets) {
        let from = from.to_canonical();
        if !allowed(&self.peers, from) {
            one(&self.counts.refused);
            quiet.refused.say(|count| {
                tracing::warn!(
                    event = "sflow-refused",
                    count,
                    cost = "what the sender tells is not read",
                    next = "add its network to the telemetry's peers; log.level = \"debug\" says from where it came",
                    "sFlow from outside the allowed networks"
                );
                tracing::debug!(event = "sflow-refused", %from, "it came from there");
            });
            return;
        }
        let readings = match sflow::decode(bytes) {
            Ok(readings) => readings,
            Err(why) => {
                one(&self.counts.malformed);
                quiet.malformed.say(|count| {
                    tracing::warn!(
                        event = "sflow-malformed",
                        %why,
                        count,
                        cost = "nothing of the datagram is used",
                        next = "make the switch send sFlow version 5; log.level = \"debug\" says from where it came",
                        "an sFlow datagram cannot be read"
                    );
                    tracing::debug!(event = "sflow-malformed", %from, "it came from there");
                });
                return;
            }
        };
        one(&self.counts.accepted);
        let now = sluice_clock::monotonic();
        for reading in readings {
            let taken = Nanos::from_millis(reading.uptime_ms.into());
            let sample = Sample { octets: reading.out_octets, taken, heard: now };
            let news = Heard { agent: reading.agent, interface: reading.interface, sample };
            if let Err(TrySendError::Full(_)) = heard.try_send(news) {
                one(&self.counts.dropped);
            }
        }
    }
}

/// One cause each.
#[derive(Default)]
struct Quiets {
    failed: Quiet,
    refused: Quiet,
    malformed: Quiet,
}
