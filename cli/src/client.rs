//! HTTP to the daemon: over its Unix socket, or read-only over TCP to another host.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_wire::snapshot::{Refused, SCHEMA, Snapshot};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::failure::Failure;
use crate::global::Global;

/// Largest answer that is taken.
const MAX_BYTES: usize = 256 << 20;
/// For one request and its answer.
const TIME: Duration = Duration::from_secs(20);
/// Port of the daemon's HTTP.
const PORT: u16 = 9605;

pub struct Client<'a> {
    global: &'a Global,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Client<'a> {
    /// A client for the daemon that the flags name.
    ///
    /// # Errors
    /// No runtime could be started.
    pub fn new(global: &'a Global) -> Result<Client<'a>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { global, runtime })
    }

    /// The snapshot.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub fn snapshot(&self) -> Result<Snapshot, Failure> {
        let snapshot: Snapshot = self.json("/api/v1/snapshot")?;
        if snapshot.schema != SCHEMA {
            let found = snapshot.schema;
            let message = format!(
                "the daemon's snapshot has schema {found}, this version reads {SCHEMA}; compare: sluice version"
            );
            return Err(Failure::failed(message));
        }
        Ok(snapshot)
    }

    /// One JSON document.
    ///
    /// # Errors
    /// See [`Client::get`]; an answer of another shape.
    pub fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        parse(&self.get(path)?)
    }

    /// The bytes at a path.
    ///
    /// # Errors
    /// The daemon is not reachable, or refuses.
    pub fn get(&self, path: &str) -> Result<Bytes, Failure> {
        self.request(Method::GET, path, Bytes::new())
    }

    /// A command.
    ///
    /// # Errors
    /// As [`Client::get`]; or the command was not taken.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        if self.global.host.is_some() {
            return Err(Failure::input("commands are taken on the Unix socket only; run this on the host itself"));
        }
        let body = serde_json::to_vec(body).map_err(Failure::failed)?;
        parse(&self.request(Method::POST, path, body.into())?)
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let (status, answer) = self.runtime.block_on(async {
            let exchange = async {
                match &self.global.host {
                    None => {
                        let stream = UnixStream::connect(&self.global.socket).await;
                        send(stream.map_err(|error| self.unreachable(&error))?, "localhost", method, path, body).await
                    }
                    Some(host) => {
                        let address = with_port(host);
                        let stream = TcpStream::connect(&address).await;
                        send(stream.map_err(|error| self.unreachable(&error))?, &address, method, path, body).await
                    }
                }
            };
            match tokio::time::timeout(TIME, exchange).await {
                Ok(answer) => answer,
                Err(_) => Err(Failure::daemon(format!("the daemon did not answer within {} s", TIME.as_secs()))),
            }
        })?;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        match serde_json::from_slice::<Refused>(&answer) {
            Ok(refused) if !refused.message.is_empty() => Err(Failure::refused(status, &refused)),
            _ => Err(Failure::failed(format!("the daemon answered {status}: {}", String::from_utf8_lossy(&answer)))),
        }
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        if let Some(host) = &self.global.host {
            let address = with_port(host);
            return Failure::daemon(format!(
                "{address}: {error}\n  help: is sluiced running there, with http.listen on that address?"
            ));
        }
        let socket = self.global.socket.display();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Failure::daemon(format!(
                "{socket}: permission refused\n  help: run as root, or join the group `sluice`"
            )),
            io::ErrorKind::NotFound => Failure::daemon(format!(
                "sluiced is not running: there is no {socket}\n  help: systemctl start sluiced, or name its socket with --socket; `sluice doctor` needs no daemon"
            )),
            _ => Failure::daemon(format!(
                "sluiced does not answer on {socket}: {error}\n  help: systemctl status sluiced"
            )),
        }
    }
}

fn with_port(host: &str) -> String {
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(name, port)| port.parse::<u16>().is_ok() && (!name.contains(':') || name.ends_with(']')));
    match (has_port, host.contains(':') && !host.starts_with('[')) {
        (true, _) => host.to_owned(),
        (false, true) => format!("[{host}]:{PORT}"),
        (false, false) => format!("{host}:{PORT}"),
    }
}

async fn send<S>(stream: S, host: &str, method: Method, path: &str, body: Bytes) -> Result<(u16, Bytes), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| Failure::daemon(format!("the connection to the daemon broke: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let driver = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::HOST, host)
        .header(hyper::header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(Failure::input)?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
    let body = body.map_err(|error| Failure::daemon(format!("the daemon's answer broke off: {error}")))?;
    driver.abort();
    Ok((status, body.to_bytes()))
}

/// The body at a path of somebody who speaks HTTP at `host:port`, of at most so many bytes.
///
/// # Errors
/// Why there is none, in few words.
pub async fn fetch(address: &str, path: &str, time: Duration, most: usize) -> Result<Bytes, String> {
    let exchange = async {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let driver = tokio::spawn(connection);
        let request = Request::get(path).header(hyper::header::HOST, address).body(Full::new(Bytes::new()));
        let response = sender.send_request(request.map_err(|error| error.to_string())?).await;
        let response = response.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), most).collect().await.map_err(|error| error.to_string());
        driver.abort();
        let body = body?.to_bytes();
        match serde_json::from_slice::<Refused>(&body) {
            _ if status.is_success() => Ok(body),
            Ok(refused) if !refused.help.is_empty() => Err(format!("{status}: {}; {}", refused.message, refused.help)),
            _ => Err(format!("it answered {status}")),
        }
    };
    let late = || Err(format!("no answer within {} s", time.as_secs()));
    tokio::time::timeout(time, exchange).await.unwrap_or_else(|_| late())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::failed(format!(
            "the daemon's answer is not what this version expects: {error}; compare: sluice version"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn hosts_get_the_default_port_where_none_is_given() {
        for (host, address) in [
            ("gpu-17", "gpu-17:9605"),
            ("gpu-17:80", "gpu-17:80"),
            ("10.0.0.1", "10.0.0.1:9605"),
            ("fd00::1", "[fd00::1]:9605"),
            ("[fd00::1]", "[fd00::1]:9605"),
            ("[fd00::1]:80", "[fd00::1]:80"),
        ] {
            assert_eq!(with_port(host), address);
        }
    }
}
