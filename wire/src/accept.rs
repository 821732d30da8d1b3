//! Takes connections of a gRPC service in: from listed networks, so many at a time and a second, and only those that
//! talk in time.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ipnet::IpNet;
use sluice_formats::network;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// What every HTTP/2 client says first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long it may take to say it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked for, once some of it came.
const LOOK: Duration = Duration::from_millis(5);
/// Connections that may come at once before they are spread out.
const BURST: u32 = 100;
/// Their distance after that: 100 a second.
const SPACING: Duration = Duration::from_millis(10);
/// What a connection from elsewhere takes of that: those that wait behind a thousand of them are let in a second later.
const STRANGER_SPACING: Duration = Duration::from_millis(1);
/// Refused connections are told of once in this time.
const REFUSED_EVERY: Duration = Duration::from_secs(10);

/// A connection that counts as one as long as it lives, and ends at its deadline if it has one.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    deadline: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

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
        let deadline = life.map(|life| Box::pin(tokio::time::sleep(life)));
        Some(Connection { stream, deadline, _place: self.take()? })
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

/// Accepts connections that begin like HTTP/2, at most 100 a second after a first burst, and passes them on. One that
/// does not come from `peers` is closed before a byte of it is read.
pub async fn http2(
    listener: TcpListener,
    peers: Vec<IpNet>,
    places: Places,
    ready: mpsc::Sender<io::Result<Connection>>,
) {
    let mut next = Instant::now();
    let mut refused = Refused::default();
    while !ready.is_closed() {
        // The bucket: `next` runs ahead of the present by what was taken out of it.
        let now = Instant::now();
        next = next.max(now);
        tokio::time::sleep(next.duration_since(now).saturating_sub(SPACING * BURST)).await;
        let Ok((stream, from)) = listener.accept().await else {
            // Out of file descriptors, most likely: they come back when connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !allowed(&peers, from.ip()) {
            next += STRANGER_SPACING;
            refused.say(from.ip());
            continue;
        }
        next += SPACING;
        let Some(connection) = places.admit(stream, None) else { continue };
        let ready = ready.clone();
        tokio::spawn(async move {
            if let Ok(true) = tokio::time::timeout(PATIENCE, speaks_http2(&connection.stream)).await {
                let _ = connection.stream.set_nodelay(true);
                let _ = ready.send(Ok(connection)).await;
            }
        });
    }
}

/// Connections from outside the listed networks, told of now and then.
#[derive(Default)]
struct Refused {
    told: Option<Instant>,
    since: u64,
}

impl Refused {
    fn say(&mut self, from: IpAddr) {
        self.since += 1;
        if self.told.is_none_or(|told| told.elapsed() >= REFUSED_EVERY) {
            let from = from.to_canonical();
            tracing::warn!(
                event = "peer-refused",
                count = self.since,
                cost = "whoever it is does without what is told here",
                next = "if it is a host of the cluster: add its network to `peers`; log.level = \"debug\" says from where it came",
                "a connection from outside `peers` was closed unread"
            );
            tracing::debug!(event = "peer-refused", %from, "it came from there");
            *self = Refused { told: Some(Instant::now()), since: 0 };
        }
    }
}

async fn speaks_http2(stream: &TcpStream) -> bool {
    let mut start = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut start).await {
            Ok(0) | Err(_) => return false,
            Ok(n) if start[..n] != PREFACE[..n] => return false,
            Ok(n) if n == PREFACE.len() => return true,
            Ok(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn places_come_back() {
        let places = Places::new(1);
        let first = places.take();
        assert!(first.is_some() && places.take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }

    #[tokio::test]
    async fn a_stranger_is_closed_unread_and_a_listed_peer_is_passed_on() {
        let hello = async |peers: &str| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (ready, mut incoming) = mpsc::channel(1);
            let task = tokio::spawn(http2(listener, vec![network::parse(peers).unwrap()], Places::new(1), ready));
            let _ = stream.write_all(PREFACE).await; // A closed one may say so at once.
            let passed_on = tokio::select! {
                connection = incoming.recv() => connection.is_some(),
                read = stream.read_u8() => read.is_ok(),
            };
            task.abort();
            passed_on
        };
        assert!(hello("127.0.0.0/8").await);
        assert!(!hello("10.0.0.0/8").await);
    }
}
