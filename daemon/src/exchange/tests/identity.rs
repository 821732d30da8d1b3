//! Two hosts that prove to each other who they are: the client task and the service over loopback.

use std::path::Path;

use sluice_identity::authority::{Authority, subject};
use sluice_identity::credentials::unix_now;
use sluice_identity::{Files, Reason};

use super::*;

/// A host with a certificate for so many seconds from now.
fn proven(authority: &Authority, dir: &Path, name: &str, of: &str, seconds: i64) -> Arc<Identity> {
    let dir = dir.join(format!("{name}-{of}"));
    std::fs::create_dir_all(&dir).expect("made");
    let files = Files { authorities: dir.join("ca"), certificate: dir.join("cert"), key: dir.join("key") };
    let (subject, now) = (subject("c", Whom::Host, of).expect("a name"), unix_now());
    let issued = authority.issue_between(&subject, now - 1_000, now + seconds).expect("issued");
    issued.write(&files).expect("written");
    let mut config = Config::default();
    (config.node.name, config.node.cluster) = (name.into(), "c".into());
    config.tls.ca = Some(files.authorities);
    (config.tls.cert, config.tls.key) = (Some(files.certificate), Some(files.key));
    Arc::new(Identity::new(&config, BootId(7), crate::clock::Wall::new(&config)))
}

/// What a host first hears of another that it calls `called`.
async fn meet(server: &Arc<Identity>, client: &Arc<Identity>, called: &str) -> Inbound {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let uri = format!("http://{}", listener.local_addr().expect("bound"));
    let service = Service::new(table("h1"), server.clone());
    let gate = service.gate(Vec::new());
    let serving = tokio::spawn(service.serve(listener, gate));
    let (inbound, mut inbox) = mpsc::channel(INBOX);
    let dial = client.dial(Whom::Host, vec![called.to_owned()]);
    let connection = Arc::new(Connection::new(uri, Kind::Peer, vec![HostId::of("h1").holder()]).by(dial));
    let task = tokio::spawn(link::run(connection.clone(), client.clone(), inbound));
    let heard = within(inbox.recv()).await.expect("a message");
    connection.close();
    let _ = within(task).await;
    serving.abort();
    heard
}

fn refused(identity: &Identity, reason: Reason) -> u64 {
    identity.refusals.counts().into_iter().find(|(known, _)| *known == reason).map_or(0, |(_, count)| count)
}

fn lost(heard: &Inbound) -> &str {
    match heard {
        Inbound::Lost { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn hosts_that_prove_who_they_are_exchange_and_nobody_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new("c", 1).expect("made");
    let host = |name: &str, of: &str, seconds| proven(&authority, dir.path(), name, of, seconds);
    let server = host("h1", "h1", 1_000);
    let heard = meet(&server, &host("h0", "h0", 1_000), "h1").await;
    assert!(matches!(heard, Inbound::Back { .. }), "{heard:?}");

    let heard = meet(&server, &host("h0", "h2", 1_000), "h1").await;
    assert!(lost(&heard).contains("identity-not-host"), "{heard:?}");
    assert_eq!(refused(&server, Reason::Other), 1);

    let heard = meet(&server, &host("h0", "h0", -10), "h1").await;
    lost(&heard);
    assert_eq!(refused(&server, Reason::Expired), 1);

    let plain = identity("h0", "c");
    let heard = meet(&server, &plain, "h1").await;
    lost(&heard);
    assert_eq!(refused(&server, Reason::Protocol), 1);

    // Who answers has to be the host that was called.
    let heard = meet(&server, &host("h0", "h0", 1_000), "h3").await;
    assert!(lost(&heard).contains("host h3 of cluster c"), "{heard:?}");
    let foreign = Authority::new("c", 1).expect("made");
    let other = proven(&foreign, dir.path(), "h4", "h4", 1_000);
    let heard = meet(&server, &other, "h1").await;
    assert!(lost(&heard).contains("unknown-authority"), "{heard:?}");
}

#[tokio::test]
async fn an_address_of_the_topology_speaks_for_no_other_host() {
    let text = r#"{ "sluice_topology": 1, "nodes": [
        {"id": "h0", "kind": "host", "addresses": ["10.0.0.1"]}, {"id": "h1", "kind": "host", "addresses": ["10.0.0.2"]},
        {"id": "h2", "kind": "host", "addresses": ["127.0.0.1"]}, {"id": "s", "kind": "switch"}],
        "links": [{"from": "h0", "to": "s", "capacity": "1Gbit/s", "duplex": true},
        {"from": "h1", "to": "s", "capacity": "1Gbit/s", "duplex": true},
        {"from": "h2", "to": "s", "capacity": "1Gbit/s", "duplex": true}] }"#;
    let topology = crate::topology::Topology::of_text(text);
    for (name, admitted) in [("h2", true), ("h0", false)] {
        let (own, server) = (table("h1"), identity("h1", "c"));
        let places = sluice_wire::attach::Places::of(&topology.file);
        own.lock().expect("not poisoned").place(Some(Arc::new(places)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let uri = format!("http://{}", listener.local_addr().expect("bound"));
        let service = Service::new(own, server.clone());
        let gate = service.gate(Vec::new());
        tokio::spawn(service.serve(listener, gate));
        let (inbound, mut inbox) = mpsc::channel(INBOX);
        let connection = Arc::new(Connection::new(uri, Kind::Peer, vec![HostId::of("h1").holder()]));
        tokio::spawn(link::run(connection.clone(), identity(name, "c"), inbound));
        let heard = within(inbox.recv()).await.expect("a message");
        assert_eq!(matches!(heard, Inbound::Back { .. }), admitted, "{heard:?}");
        if !admitted {
            assert!(lost(&heard).contains("identity-not-host"), "{heard:?}");
            assert_eq!(refused(&server, Reason::Other), 1);
        }
        connection.close();
    }
}
