//! Where members of etcd answer, and how both sides prove who they are.

use std::fmt;
use std::time::Duration;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use crate::{Error, TIME};

/// An idle connection is tried this often, so that one that is dead is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Where a member answers: `https://host:port`, or `http://host:port` without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    tls: bool,
    authority: String,
}

impl Endpoint {
    /// Reads it; `None`: it is something else.
    pub fn parse(text: &str) -> Option<Endpoint> {
        let (tls, rest) = match text.split_once("://")? {
            ("https", rest) => (true, rest),
            ("http", rest) => (false, rest),
            _ => return None,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = authority.rsplit_once(':')?;
        let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
        let bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        let ok =
            !host.is_empty() && host.len() <= 253 && plain && bare && port.parse::<u16>().is_ok_and(|port| port > 0);
        ok.then(|| Endpoint { tls, authority: authority.to_owned() })
    }
    /// Does it speak TLS?
    pub fn tls(&self) -> bool {
        self.tls
    }
    /// Is it this machine itself?
    pub fn loopback(&self) -> bool {
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
        host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.to_canonical().is_loopback())
    }

    pub(crate) async fn connect(&self, tls: Option<&Tls>) -> Result<Channel, Error> {
        let broken = |error: tonic::transport::Error| Error::Unreachable(format!("{self}: {}", reason(&error)));
        let mut endpoint = Channel::from_shared(self.to_string())
            .map_err(|error| Error::Unreachable(format!("{self}: {error}")))?
            .connect_timeout(TIME)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(TIME)
            .keep_alive_while_idle(true);
        if self.tls {
            let tls = tls.ok_or_else(|| Error::Tls(format!("{self} needs the certificate of its authority")))?;
            endpoint = endpoint.tls_config(tls.config()).map_err(|error| Error::Tls(reason(&error)))?;
        }
        endpoint.connect().await.map_err(broken)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

/// Certificates, each as PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// Who may have signed etcd's certificate.
    pub authority: Vec<u8>,
    /// This side's certificate and its key, where etcd asks for one.
    pub own: Option<Own>,
    /// The name in etcd's certificate, if it is not the host's in the endpoint.
    pub name: Option<String>,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Own {
    /// The certificate, those that signed it after it.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl fmt::Debug for Tls {
    /// No key is ever printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("own", &self.own.is_some()).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tls {
    fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.authority));
        if let Some(own) = &self.own {
            config = config.identity(Identity::from_pem(&own.certificate, &own.key));
        }
        match &self.name {
            Some(name) => config.domain_name(name),
            None => config,
        }
    }
}

/// An error with all that caused it: the outermost says nothing.
fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for text in ["https://etcd-1:2379", "http://127.0.0.1:2379", "https://[fd00::1]:2379"] {
            assert_eq!(Endpoint::parse(text).expect("an endpoint").to_string(), text);
        }
        for text in [
            "etcd:2379",
            "ftp://a:1",
            "https://a",
            "https://a:0",
            "https://:1",
            "https://a b:1",
            "https://fd00::1:1",
            "https://a:1/x",
        ] {
            assert_eq!(Endpoint::parse(text), None, "{text}");
        }
        let loopback = |text| Endpoint::parse(text).expect("an endpoint").loopback();
        assert!(loopback("http://[::1]:1") && loopback("http://localhost:1") && !loopback("http://10.0.0.1:1"));
    }
}
