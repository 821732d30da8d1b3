//! Opens connections: plain, or inside TLS with both ends' certificates, of which the other end's must have the name that is
//! expected there.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use sluice_identity::{Credentials, Expected, Proven};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

use crate::accept::left;
use crate::limits;

/// How connections are opened.
#[derive(Clone, Debug, Default)]
pub enum Dial {
    /// Whoever answers is believed.
    #[default]
    Plain,
    /// Both sides prove who they are.
    Tls {
        /// This side's certificate and whom it believes.
        credentials: Arc<Credentials>,
        /// Who has to answer.
        expected: Expected,
    },
}

impl PartialEq for Dial {
    /// The same files and the same name; what is in them may change.
    fn eq(&self, other: &Dial) -> bool {
        match (self, other) {
            (Dial::Plain, Dial::Plain) => true,
            (Dial::Tls { credentials, expected }, Dial::Tls { credentials: other, expected: others }) => {
                Arc::ptr_eq(credentials, other) && expected == others
            }
            (Dial::Plain, Dial::Tls { .. }) | (Dial::Tls { .. }, Dial::Plain) => false,
        }
    }
}

/// Why no connection was opened.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody answers there.
    #[error("{0}")]
    Connect(#[from] std::io::Error),
    /// This side has nothing to prove itself with.
    #[error("{0}")]
    Unready(String),
    /// One of the two does not believe the other.
    #[error("the other end is not believed, or does not believe this one: {0}")]
    Handshake(String),
    /// The other end is somebody else, or nobody.
    #[error("{0}")]
    Identity(String),
}

/// An opened connection.
#[derive(Debug)]
pub enum Dialled {
    /// Plain.
    Plain(TcpStream),
    /// Inside TLS; it ends when what the other end proved does.
    Tls(Box<TlsStream<TcpStream>>, Pin<Box<Sleep>>),
}

impl Dial {
    /// A channel to `uri` (`http://address:port`) within [`limits::HANDSHAKE`].
    ///
    /// # Errors
    /// No connection; the reason is the last of the error's sources.
    pub async fn channel(&self, uri: &str) -> Result<Channel, tonic::transport::Error> {
        let endpoint = limits::endpoint(uri)?;
        if *self == Dial::Plain {
            return endpoint.connect().await;
        }
        let dial = self.clone();
        let connect = move |uri: Uri| {
            let dial = dial.clone();
            async move {
                let address = uri.authority().map(|authority| authority.to_string()).unwrap_or_default();
                dial.stream(&address).await.map(TokioIo::new)
            }
        };
        endpoint.connect_with_connector(service_fn(connect)).await
    }

    /// A connection to `address` (`host:port`).
    ///
    /// # Errors
    /// Why there is none.
    pub async fn stream(&self, address: &str) -> Result<Dialled, DialError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Dial::Tls { credentials, expected } = self else { return Ok(Dialled::Plain(stream)) };
        let unready = || {
            let fault = credentials.standing().fault.map(|fault| fault.to_string());
            DialError::Unready(fault.unwrap_or_else(|| "certificates-unusable: none was read yet".to_owned()))
        };
        let sides = credentials.sides().ok_or_else(unready)?;
        // The address proves nothing and is not asked for; the name in the certificate is looked at below.
        let called: ServerName<'static> = ServerName::from(std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED));
        let handshake = TlsConnector::from(sides.client.clone()).connect(called, stream);
        let stream = handshake.await.map_err(|error| DialError::Handshake(named(&error)))?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let nobody = || DialError::Identity("identity-unknown: the other end shows no certificate".to_owned());
        let proven = Proven::of(certificate.ok_or_else(nobody)?).map_err(|e| DialError::Identity(e.to_string()))?;
        proven.check(expected).map_err(|other| DialError::Identity(other.to_string()))?;
        let ends = Box::pin(tokio::time::sleep(left(proven.not_after)));
        Ok(Dialled::Tls(Box::new(stream), ends))
    }
}

/// A failed handshake by its id and what the library says.
fn named(error: &std::io::Error) -> String {
    format!("{}: {error}", sluice_identity::Reason::of(error).word())
}

impl Dialled {
    fn over(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Dialled::Plain(_) => false,
            Dialled::Tls(_, ends) => ends.as_mut().poll(cx).is_ready(),
        }
    }
}

impl AsyncRead for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.over(cx) {
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
        }
        match &mut *self {
            Dialled::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Dialled::Tls(stream, _) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Dialled {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        match &mut *self {
            Dialled::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Dialled::Tls(stream, _) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut *self {
            Dialled::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Dialled::Tls(stream, _) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut *self {
            Dialled::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Dialled::Tls(stream, _) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
