//! The two sides of a TLS 1.3 connection in which each shows its certificate, and why one was refused.
//!
//! No session is resumed and nothing is sent before the handshake ends: every connection proves anew who is there. Which
//! name a certificate must have is not asked here; the address that was called proves nothing of it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, PeerIncompatible, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::files::{Fault, Files, Held};
use crate::name::Proven;

/// What is spoken inside.
pub const ALPN: &[u8] = b"h2";

/// Why a connection was refused before anything was said in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It comes from outside the listed networks.
    Network,
    /// There are as many connections as may be.
    Places,
    /// It said nothing, or not enough, in time.
    Silent,
    /// It does not begin as it should: no TLS, another version, no HTTP/2.
    Protocol,
    /// It shows no certificate.
    NoCertificate,
    /// Nobody who is believed signed its certificate.
    UnknownAuthority,
    /// Its certificate is over.
    Expired,
    /// Its certificate is not yet good.
    NotYetValid,
    /// Its certificate is broken, or names nobody.
    Unnamed,
    /// Its certificate is that of another than it says it is, or its address is.
    Other,
    /// It does not believe this side's certificate.
    Disbelieved,
    /// This side has no certificate that can be used.
    Unready,
}

impl Reason {
    /// All of them, in this order.
    pub const ALL: [Reason; 12] = [
        Reason::Network,
        Reason::Places,
        Reason::Silent,
        Reason::Protocol,
        Reason::NoCertificate,
        Reason::UnknownAuthority,
        Reason::Expired,
        Reason::NotYetValid,
        Reason::Unnamed,
        Reason::Other,
        Reason::Disbelieved,
        Reason::Unready,
    ];

    /// As in metrics and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Network => "network",
            Reason::Places => "places",
            Reason::Silent => "silent",
            Reason::Protocol => "protocol",
            Reason::NoCertificate => "no-certificate",
            Reason::UnknownAuthority => "unknown-authority",
            Reason::Expired => "cert-expired",
            Reason::NotYetValid => "cert-not-yet-valid",
            Reason::Unnamed => "identity-unknown",
            Reason::Other => "identity-not-host",
            Reason::Disbelieved => "disbelieved",
            Reason::Unready => "certificates-unusable",
        }
    }

    /// Of a handshake that failed.
    pub fn of(error: &std::io::Error) -> Reason {
        let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
            return Reason::Protocol;
        };
        match error {
            Error::NoCertificatesPresented
            | Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
                Reason::NoCertificate
            }
            Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
                Reason::Expired
            }
            Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
                Reason::NotYetValid
            }
            Error::InvalidCertificate(CertificateError::BadEncoding) => Reason::Unnamed,
            Error::InvalidCertificate(_) => Reason::UnknownAuthority,
            Error::AlertReceived(_) => Reason::Disbelieved,
            _ => Reason::Protocol,
        }
    }
}

/// Both sides' settings, made of the same files.
#[derive(Clone, Debug)]
pub struct Sides {
    /// For connections that come.
    pub server: Arc<ServerConfig>,
    /// For connections that are opened.
    pub client: Arc<ClientConfig>,
    /// Whose certificate it is, and how long it is good.
    pub own: Proven,
}

impl Sides {
    /// Reads the files and puts them together.
    ///
    /// # Errors
    /// A file cannot be used, or they do not go together. A certificate that is over is none: peers refuse it.
    pub fn read(files: &Files) -> Result<Sides, Fault> {
        let Held { authorities, chain, key } = files.read()?;
        let provider = Arc::new(ring::default_provider());
        let at = |path: &std::path::Path, why: String| Fault::Together { path: path.display().to_string(), why };
        let own = chain.first().map(|certificate| Proven::of(certificate));
        let own = own.transpose().map_err(|unnamed| at(&files.certificate, unnamed.to_string()))?;
        let own = own.ok_or_else(|| at(&files.certificate, "has no certificate".to_owned()))?;
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| at(&files.authorities, format!("no authority: {error}")))?;
        }
        let roots = Arc::new(roots);
        let broken = |error: Error| at(&files.certificate, error.to_string());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let verifier = verifier.build().map_err(|error| at(&files.authorities, error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(broken)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(broken)?;
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.max_early_data_size = 0;
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(broken)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName { roots, provider }))
            .with_client_auth_cert(chain, key)
            .map_err(broken)?;
        client.alpn_protocols = vec![ALPN.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_early_data = false;
        client.enable_sni = false;
        Ok(Sides { server: Arc::new(server), client: Arc::new(client), own })
    }
}

/// Believes a certificate by who signed it and when, whatever address was called; whoever connects looks at the name.
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _called: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use super::*;
    use crate::authority::{Authority, Subject};
    use crate::name::{Kind, Name};

    /// The first record of a client of TLS 1.2 (RFC 5246, section 7.4.1.2), with this extension.
    fn client_hello(extension: &[u8]) -> Vec<u8> {
        let sized = |body: &[u8]| [(body.len() as u16).to_be_bytes().as_slice(), body].concat();
        // The signatures it takes, its groups, and its forms of points.
        let mut extensions = vec![0_u8, 13, 0, 4, 0, 2, 4, 3, 0, 10, 0, 4, 0, 2, 0, 29, 0, 11, 0, 2, 1, 0];
        extensions.extend(extension);
        let (ciphers, extensions) = (sized(&[0xc0, 0x2b, 0xc0, 0x2f]), sized(&extensions));
        // Its version, a number that it drew, no session, ciphers, no compression.
        let mut body = vec![3_u8, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend(ciphers);
        body.extend([1, 0]);
        body.extend(extensions);
        let mut handshake = vec![1_u8, 0];
        handshake.extend(sized(&body));
        let mut record = vec![22, 3, 1];
        record.extend(sized(&handshake));
        record
    }

    #[test]
    fn a_client_that_speaks_no_tls_1_3_is_refused_for_its_version() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let files = Files { authorities: path("ca.pem"), certificate: path("cert.pem"), key: path("key.pem") };
        let authority = Authority::new("c", 1).expect("made");
        let name = Subject::Named(Name::new("c", Kind::Host, "h0").expect("a name"));
        authority.issue(&name, 1).and_then(|issued| issued.write(&files)).expect("written");
        let sides = Sides::read(&files).expect("they go together");
        // What becomes of it, and what is answered.
        let answer = |mut hello: &[u8]| {
            let mut server = ServerConnection::new(sides.server.clone()).expect("a connection");
            server.read_tls(&mut hello).expect("read");
            let outcome = server.process_new_packets().map(drop);
            let mut said = Vec::new();
            server.write_tls(&mut said).expect("written");
            (outcome, said)
        };
        // Who knows of no other version says none; who does may list this one alone.
        let tls12_alone = [0_u8, 43, 0, 3, 2, 3, 3];
        for extension in [&tls12_alone[..0], &tls12_alone] {
            let (outcome, said) = answer(&client_hello(extension));
            let error = outcome.expect_err("refused");
            assert!(matches!(error, Error::PeerIncompatible(_)), "{error}");
            // An alert that ends the connection: protocol_version.
            assert!(said.starts_with(&[21]) && said.ends_with(&[2, 70]), "{said:?}");
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
            assert_eq!(Reason::of(&error), Reason::Protocol);
        }
        // The other side of our own is answered by a hello.
        let called = ServerName::try_from("h0").expect("a name");
        let mut client = ClientConnection::new(sides.client.clone(), called).expect("a connection");
        let mut hello = Vec::new();
        client.write_tls(&mut hello).expect("written");
        let (outcome, said) = answer(&hello);
        assert_eq!(outcome, Ok(()));
        assert!(said.starts_with(&[22]), "{said:?}");
    }

    #[test]
    fn every_reason_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.word()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        let io = |error: Error| std::io::Error::new(std::io::ErrorKind::InvalidData, error);
        for (error, reason) in [
            (Error::NoCertificatesPresented, Reason::NoCertificate),
            (Error::InvalidCertificate(CertificateError::Expired), Reason::Expired),
            (Error::InvalidCertificate(CertificateError::NotValidYet), Reason::NotYetValid),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), Reason::UnknownAuthority),
            (Error::HandshakeNotComplete, Reason::Protocol),
        ] {
            assert_eq!(Reason::of(&io(error)), reason);
        }
        assert_eq!(Reason::of(&std::io::ErrorKind::UnexpectedEof.into()), Reason::Protocol);
    }
}
