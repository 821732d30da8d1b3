//! A connection that was let in: plain or inside TLS, with what is known of whoever opened it.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_formats::label::Label;
use sluice_identity::{Expected, Kind, Proven};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use tonic::{Code, Extensions, Status};

use super::Place;
use crate::refusal::RefusalId;

/// Who is at the other end of a connection, in the extensions of every request that came by it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it comes from; `None`: the transport has no addresses.
    pub address: Option<SocketAddr>,
    /// Who it proved to be; `None`: nobody asked, the connection is a plain one.
    pub proven: Option<Arc<Proven>>,
}

impl Peer {
    /// Of a request that came by a connection of [`super`].
    pub fn of(extensions: &Extensions) -> Peer {
        extensions.get::<Peer>().cloned().unwrap_or(Peer { address: None, proven: None })
    }

    /// Where it comes from, an IPv4 address as such; the unspecified address where the transport has none.
    pub fn ip(&self) -> IpAddr {
        self.address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip().to_canonical())
    }

    /// May it speak in the name of this host? Over a plain connection nobody can tell, and it may.
    ///
    /// # Errors
    /// `PermissionDenied` with both names.
    pub fn speaks_for(&self, cluster: &str, host: &str) -> Result<(), Status> {
        let Some(proven) = &self.proven else { return Ok(()) };
        let expected =
            Expected { cluster: cluster.to_owned(), kind: Kind::Host, ids: vec![Label::new(host).to_string()] };
        proven
            .check(&expected)
            .map_err(|other| RefusalId::IdentityNotHost.status(Code::PermissionDenied, other.to_string()))
    }
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that counts as one as long as it lives, and ends at its deadline if it has one.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    peer: Peer,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Resolves when a newer connection of the same identity takes its place.
    replaced: Option<oneshot::Receiver<Infallible>>,
    _place: Place,
}

impl Connection {
    /// A plain one; it ends by itself at its deadline.
    pub(super) fn plain(stream: TcpStream, deadline: Option<Pin<Box<Sleep>>>, place: Place) -> Connection {
        let peer = Peer { address: stream.peer_addr().ok(), proven: None };
        Connection { stream: Stream::Plain(stream), peer, deadline, replaced: None, _place: place }
    }

    /// One inside TLS, whose other end has proven who it is; it ends when that proof does, or when it is replaced.
    pub(super) fn tls(
        stream: TlsStream<TcpStream>,
        proven: Arc<Proven>,
        deadline: Pin<Box<Sleep>>,
        replaced: oneshot::Receiver<Infallible>,
        place: Place,
    ) -> Connection {
        let peer = Peer { address: stream.get_ref().0.peer_addr().ok(), proven: Some(proven) };
        let stream = Stream::Tls(Box::new(stream));
        Connection { stream, peer, deadline: Some(deadline), replaced: Some(replaced), _place: place }
    }

    /// The socket below, before anything was said on it.
    pub(super) fn socket(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Is it over, for a reason of this side's?
    fn over(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Some(io::ErrorKind::TimedOut.into());
        }
        if let Some(replaced) = &mut self.replaced
            && Pin::new(replaced).poll(cx).is_ready()
        {
            return Some(io::ErrorKind::ConnectionAborted.into());
        }
        None
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.over(cx) {
            return Poll::Ready(Err(error));
        }
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }
    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
