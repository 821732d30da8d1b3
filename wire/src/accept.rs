//! Takes connections of a gRPC service in: from listed networks, so many at a time and a second, only those that talk in
//! time, and where there are certificates only those that prove who they are.
//!
//! | module | is |
//! | --- | --- |
//! | [`stream`] | a connection that was let in |
//! | [`newest`] | how many one identity has |
//! | [`refused`] | how many were not let in, and why |
//! | `turns` | how many at once and a second |

pub mod newest;
pub mod refused;
pub mod stream;
mod turns;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use sluice_formats::network;
use sluice_identity::credentials::unix_now;
use sluice_identity::{Credentials, Proven, Reason, tls};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use crate::limits;
use newest::Newest;
use refused::Refusals;
pub use stream::{Connection, Peer};
use turns::Turns;

/// What every HTTP/2 client says first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often it is looked for, once some of it came.
const LOOK: Duration = Duration::from_millis(5);
/// Connections that are looked at without a pause, whoever comes.
const BURST: u32 = 1000;
/// Their distance after that: those that wait behind a thousand of strangers are let in a second later.
const SPACING: Duration = Duration::from_millis(1);

/// How many connections there are and may be.
#[derive(Clone, Debug)]
pub struct Places {
    taken: Arc<AtomicUsize>,
    most: usize,
}

#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Places {
    /// `most` connections at a time.
    pub fn new(most: usize) -> Places {
        Places { taken: Arc::default(), most }
    }

    fn take(&self) -> Option<Place> {
        let place = Place(self.taken.clone());
        (place.0.fetch_add(1, Ordering::Relaxed) < self.most).then_some(place)
    }

    /// Makes a connection of `stream` if there is a place; it ends by itself after `life`.
    pub fn admit(&self, stream: TcpStream, life: Option<Duration>) -> Option<Connection> {
        let deadline = life.map(|life| Box::pin(sleep(life)));
        Some(Connection::plain(stream, deadline, self.take()?))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// May this address speak? With no network listed, everybody may.
pub fn allowed(peers: &[IpNet], address: IpAddr) -> bool {
    peers.is_empty() || peers.iter().any(|network| network::contains(network, address))
}

/// Who is let in.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Connections from elsewhere are closed before a byte of them is read; empty: there is no elsewhere.
    pub peers: Vec<IpNet>,
    /// How many at a time.
    pub places: Places,
    /// Whoever connects has to prove who it is to these; `None`: connections are plain.
    pub credentials: Option<Arc<Credentials>>,
    /// What was refused.
    pub refusals: Refusals,
    /// What each identity has.
    pub newest: Newest,
}

impl Gate {
    /// Everybody from these networks, by plain connections.
    pub fn plain(peers: Vec<IpNet>, places: Places) -> Gate {
        Gate { peers, places, credentials: None, refusals: Refusals::default(), newest: Newest::default() }
    }
}

/// Accepts plain connections that begin like HTTP/2; see [`serve`].
pub async fn http2(
    listener: TcpListener,
    peers: Vec<IpNet>,
    places: Places,
    ready: mpsc::Sender<io::Result<Connection>>,
) {
    serve(listener, Gate::plain(peers, places), ready).await;
}

/// Accepts connections that the gate lets in, at most 333 a second after a first burst, and passes on those that begin as
/// they should within [`limits::HANDSHAKE`] from their turn on.
pub async fn serve(listener: TcpListener, gate: Gate, ready: mpsc::Sender<io::Result<Connection>>) {
    let mut next = Instant::now();
    let mut turns = Turns::new(next);
    while !ready.is_closed() {
        // The bucket: `next` runs ahead of the present by what was taken out of it.
        let now = Instant::now();
        next = next.max(now);
        sleep(next.duration_since(now).saturating_sub(SPACING * BURST)).await;
        let Ok((stream, from)) = listener.accept().await else {
            // Out of file descriptors, most likely: they come back when connections end.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        next += SPACING;
        if !allowed(&gate.peers, from.ip()) {
            gate.refusals.add(Reason::Network, &from.ip().to_canonical(), "");
            continue;
        }
        let Some(place) = gate.places.take() else {
            gate.refusals.add(Reason::Places, &from.ip().to_canonical(), "there are as many connections as may be");
            continue;
        };
        let Some(wait) = turns.take(Instant::now()) else {
            gate.refusals.add(Reason::Places, &from.ip().to_canonical(), "more come at once than can be let in");
            continue;
        };
        let (gate, ready) = (gate.clone(), ready.clone());
        tokio::spawn(async move {
            sleep(wait).await;
            let opened = tokio::time::timeout(limits::HANDSHAKE, open(stream, &gate, place)).await;
            match opened.unwrap_or_else(|_| Err(Refused::new(Reason::Silent, "it said nothing, or too little, in 2 s")))
            {
                Ok(connection) => {
                    let _ = connection.socket().set_nodelay(true);
                    let _ = ready.send(Ok(connection)).await;
                }
                Err(Refused { reason, why }) => refuse(&gate, from, reason, &why),
            }
        });
    }
}

struct Refused {
    reason: Reason,
    why: String,
}

impl Refused {
    fn new(reason: Reason, why: impl Into<String>) -> Refused {
        Refused { reason, why: why.into() }
    }
}

/// Whoever only looks whether somebody listens says nothing, or something else: where nobody proves anything that is worth a
/// count and no line. Where everybody does, it may be a host without a certificate.
fn refuse(gate: &Gate, from: SocketAddr, reason: Reason, why: &str) {
    if gate.credentials.is_none() && matches!(reason, Reason::Silent | Reason::Protocol) {
        gate.refusals.count(reason);
    } else {
        gate.refusals.add(reason, &from.ip().to_canonical(), why);
    }
}

async fn open(stream: TcpStream, gate: &Gate, place: Place) -> Result<Connection, Refused> {
    let Some(credentials) = &gate.credentials else {
        let connection = Connection::plain(stream, None, place);
        return match speaks_http2(connection.socket()).await {
            true => Ok(connection),
            false => Err(Refused::new(Reason::Protocol, "a connection does not begin as HTTP/2 does")),
        };
    };
    let unready = || Refused::new(Reason::Unready, "this side has no certificate that can be used");
    let sides = credentials.sides().ok_or_else(unready)?;
    let acceptor = TlsAcceptor::from(sides.server.clone());
    let stream = acceptor
        .accept(stream)
        .await
        .map_err(|error| Refused::new(Reason::of(&error), format!("a connection proves nothing: {error}")))?;
    let (_, session) = stream.get_ref();
    if session.alpn_protocol() != Some(tls::ALPN) {
        return Err(Refused::new(Reason::Protocol, "a connection is not for HTTP/2"));
    }
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let certificate =
        certificate.ok_or_else(|| Refused::new(Reason::NoCertificate, "a connection shows no certificate"))?;
    let proven = Proven::of(certificate).map_err(|unnamed| Refused::new(Reason::Unnamed, unnamed.to_string()))?;
    let replaced = gate.newest.join(proven.to_string());
    let deadline = Box::pin(sleep(left(proven.not_after)));
    Ok(Connection::tls(stream, Arc::new(proven), deadline, replaced, place))
}

/// Until a second since 1970 is over.
pub(crate) fn left(until: i64) -> Duration {
    /// A timer's longest run.
    const MOST: u64 = 365 * 86_400;
    Duration::from_secs(u64::try_from(until.saturating_add(1).saturating_sub(unix_now())).unwrap_or(0).min(MOST))
}

async fn speaks_http2(stream: &TcpStream) -> bool {
    let mut start = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut start).await {
            Ok(0) | Err(_) => return false,
            Ok(n) if start[..n] != PREFACE[..n] => return false,
            Ok(n) if n == PREFACE.len() => return true,
            Ok(_) => sleep(LOOK).await,
        }
    }
}

#[cfg(test)]
mod tests;
