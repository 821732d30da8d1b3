//! Who is let in, over loopback.

use sluice_identity::authority::{Authority, Issued, Subject, subject};
use sluice_identity::{Expected, Files, Kind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::dial::{Dial, DialError};

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

/// Files of an identity in a directory of their own.
struct Held {
    _directory: tempfile::TempDir,
    credentials: Arc<Credentials>,
}

fn held(issued: &Issued) -> Held {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let files = Files { authorities: path("ca"), certificate: path("cert"), key: path("key") };
    issued.write(&files).expect("written");
    Held { credentials: Credentials::open(files), _directory: directory }
}

fn named(kind: Kind, id: &str) -> Subject {
    subject("c", kind, id).expect("a name")
}

fn count(gate: &Gate, reason: Reason) -> u64 {
    gate.refusals.counts().into_iter().find(|(known, _)| *known == reason).map_or(0, |(_, count)| count)
}

/// Dials a gate and says what became of it on both sides.
async fn meet(gate: &Gate, dial: &Dial) -> (Result<(), DialError>, Option<Peer>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    let (ready, mut incoming) = mpsc::channel(1);
    let task = tokio::spawn(serve(listener, gate.clone(), ready));
    let met = async {
        let mut dialled = match dial.stream(&address).await {
            Ok(stream) => stream,
            Err(error) => return (Err(error), None),
        };
        let _ = dialled.write_all(PREFACE).await;
        let _ = dialled.flush().await;
        // In TLS 1.3 who connects knows only by reading whether it was let in.
        tokio::select! {
            came = incoming.recv() => (Ok(()), came.and_then(Result::ok).map(|connection| tonic::transport::server::Connected::connect_info(&connection))),
            read = dialled.read_u8() => (read.map(drop).map_err(|error| DialError::Handshake(error.to_string())), None),
        }
    };
    let met = tokio::time::timeout(Duration::from_secs(20), met).await.expect("in time");
    task.abort();
    met
}

#[tokio::test]
async fn only_a_certificate_of_the_authority_with_a_name_in_time_is_let_in_and_each_refusal_is_named() {
    let authority = Authority::new("c", 10).expect("made");
    let foreign = Authority::new("c", 10).expect("made");
    let own = held(&authority.issue(&named(Kind::Switch, "s0"), 1).expect("issued"));
    let places = Places::new(16);
    let gate = Gate { credentials: Some(own.credentials.clone()), ..Gate::plain(Vec::new(), places) };
    let expected = Expected { cluster: "c".into(), kind: Kind::Switch, ids: vec!["s0".into()] };
    let dial = |held: &Held| Dial::Tls { credentials: held.credentials.clone(), expected: expected.clone() };

    let good = held(&authority.issue(&named(Kind::Host, "h0"), 1).expect("issued"));
    let (dialled, came) = meet(&gate, &dial(&good)).await;
    assert!(dialled.is_ok());
    let peer = came.expect("let in");
    assert!(peer.speaks_for("c", "h0").is_ok());
    let refused = peer.speaks_for("c", "h1").expect_err("another");
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert!(refused.message().starts_with("identity-not-host: "), "{}", refused.message());

    // Whoever believes this side's authority and is signed by another: only this side can tell.
    let mut stranger = foreign.issue(&named(Kind::Host, "h0"), 1).expect("issued");
    stranger.authorities = authority.certificate();
    let now = unix_now();
    let over = authority.issue_between(&named(Kind::Host, "h0"), now - 1000, now - 10).expect("issued");
    let early = authority.issue_between(&named(Kind::Host, "h0"), now + 1000, now + 2000).expect("issued");
    let nobody = authority.issue(&Subject::Uris(vec!["https://c/host/h0".into()]), 1).expect("issued");
    for (issued, reason) in
        [(stranger, Reason::UnknownAuthority), (over, Reason::Expired), (early, Reason::NotYetValid)]
    {
        let held = held(&issued);
        let (_, came) = meet(&gate, &dial(&held)).await;
        assert!(came.is_none(), "{reason:?}");
        assert_eq!(count(&gate, reason), 1, "{reason:?}");
    }
    // A certificate that names nobody is no identity of its own either.
    assert!(held(&nobody).credentials.sides().is_none());

    // Plain bytes, silence, and a certificate that is not shown.
    let (_, came) = meet(&gate, &Dial::Plain).await;
    assert!(came.is_none());
    assert_eq!(count(&gate, Reason::Protocol), 1);
}

/// A gate that asks for certificates of this authority, and what became of a client that believes it and shows this one, or
/// none: the gate, once it has turned the client away.
async fn turned_away(authority: &Authority, shown: Option<&Issued>) -> Gate {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    let own = held(&authority.issue(&Subject::Dns("s0".into()), 1).expect("issued"));
    let gate = Gate { credentials: Some(own.credentials.clone()), ..Gate::plain(Vec::new(), Places::new(16)) };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let (ready, mut incoming) = mpsc::channel(1);
    let task = tokio::spawn(serve(listener, gate.clone(), ready));
    let certificate = |pem: &str| sluice_identity::files::first_certificate(pem.as_bytes()).expect("PEM");
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&authority.certificate()).into()).expect("an authority");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some(issued) => {
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("PEM");
            config.with_client_auth_cert(vec![certificate(&issued.certificate).into()], key).expect("they go together")
        }
    };
    config.alpn_protocols = vec![tls::ALPN.to_vec()];
    let name = ServerName::try_from("s0").expect("a name");
    let stream = TcpStream::connect(address).await.expect("loopback");
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("its side");
    let ended = async {
        tokio::select! {
            came = incoming.recv() => came.is_none(),
            read = stream.read_u8() => read.is_err(),
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), ended).await.expect("in time"), "it was let in");
    task.abort();
    gate
}

#[tokio::test]
async fn who_shows_no_certificate_is_refused() {
    let authority = Authority::new("c", 10).expect("made");
    let gate = turned_away(&authority, None).await;
    assert_eq!(count(&gate, Reason::NoCertificate), 1);
}

#[tokio::test]
async fn a_certificate_that_is_believed_and_names_nobody_is_refused() {
    let authority = Authority::new("c", 10).expect("made");
    let uris = |all: &[&str]| Subject::Uris(all.iter().map(|uri| (*uri).to_owned()).collect());
    for subject in [
        uris(&[]),
        uris(&["https://c/host/h0"]),
        uris(&["spiffe://c/host/h0", "spiffe://c/host/h1"]),
        uris(&["spiffe://c/router/h0"]),
    ] {
        let issued = authority.issue(&subject, 1).expect("issued");
        let gate = turned_away(&authority, Some(&issued)).await;
        let counted: Vec<_> = gate.refusals.counts().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Reason::Unnamed, 1)], "{subject:?}");
    }
}

#[tokio::test]
async fn who_connects_refuses_another_than_it_called() {
    let authority = Authority::new("c", 10).expect("made");
    let own = held(&authority.issue(&named(Kind::Switch, "s1"), 1).expect("issued"));
    let host = held(&authority.issue(&named(Kind::Host, "h0"), 1).expect("issued"));
    let gate = Gate { credentials: Some(own.credentials.clone()), ..Gate::plain(Vec::new(), Places::new(16)) };
    let expected = Expected { cluster: "c".into(), kind: Kind::Switch, ids: vec!["s0".into()] };
    let dial = Dial::Tls { credentials: host.credentials.clone(), expected };
    let (dialled, _) = meet(&gate, &dial).await;
    let text = dialled.expect_err("another switch").to_string();
    assert!(text.contains("identity-not-host") && text.contains("spiffe://c/switch/s1"), "{text}");
}

#[tokio::test]
async fn a_third_connection_of_one_identity_ends_its_first() {
    let authority = Authority::new("c", 10).expect("made");
    let own = held(&authority.issue(&named(Kind::Switch, "s0"), 1).expect("issued"));
    let host = held(&authority.issue(&named(Kind::Host, "h0"), 1).expect("issued"));
    let gate = Gate { credentials: Some(own.credentials.clone()), ..Gate::plain(Vec::new(), Places::new(16)) };
    let expected = Expected { cluster: "c".into(), kind: Kind::Switch, ids: vec!["s0".into()] };
    let dial = Dial::Tls { credentials: host.credentials.clone(), expected };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    let (ready, mut incoming) = mpsc::channel(4);
    let task = tokio::spawn(serve(listener, gate, ready));
    let mut came = Vec::new();
    let mut dialled = Vec::new();
    for _ in 0..3 {
        dialled.push(dial.stream(&address).await.expect("dialled"));
        came.push(incoming.recv().await.expect("open").expect("let in"));
    }
    let mut byte = [0; 1];
    let ended = tokio::time::timeout(Duration::from_secs(5), came[0].read(&mut byte)).await.expect("in time");
    assert_eq!(ended.expect_err("replaced").kind(), io::ErrorKind::ConnectionAborted);
    for connection in &mut came[1..] {
        assert!(tokio::time::timeout(Duration::from_millis(50), connection.read(&mut byte)).await.is_err());
    }
    task.abort();
}
