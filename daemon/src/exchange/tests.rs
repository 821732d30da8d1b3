//! Two hosts over loopback: the client task, the service and the table between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::{Announcement, BootId, FlowId, FlowPromise, HostId, JobId, LinkId, Rate, Slot};

use super::link::{Connection, Kind};
use super::service::Service;
use super::*;
use crate::own_table::OwnTable;

mod identity;
mod transports;

fn identity(name: &str, cluster: &str) -> Arc<Identity> {
    let mut config = Config::default();
    config.node.name = name.into();
    config.node.cluster = cluster.into();
    Arc::new(Identity::new(&config, BootId(7), crate::clock::Wall::new(&config)))
}

fn table(name: &str) -> Arc<Mutex<OwnTable>> {
    let host = HostId::of(name);
    let link = LinkConfig { link: LinkId::ingress(host), capacity: Rate::mbps(100), ..LinkConfig::default() };
    Arc::new(Mutex::new(OwnTable::new(host, Switch::new(BootId(1), Limits::default(), &[link]))))
}

fn promise(identity: &Identity, to: &str, seq: u64) -> Announcement {
    let (host, to) = (HostId::of(&identity.name), HostId::of(to));
    let slot: Slot = identity.hello().slot;
    let flow = FlowPromise {
        flow: FlowId(u64::from(host.0) << 32 | 1),
        job: JobId(1),
        rates: vec![Rate::mbps(40)],
        demand: sluice_schedule::Bytes(1 << 20),
        links: vec![LinkId::ingress(to)],
        ..FlowPromise::default()
    };
    let watch = vec![LinkId::ingress(to)];
    Announcement { host, boot: identity.boot, seq, slot, flows: vec![flow], watch, ..Announcement::default() }
}

async fn serve(
    table: Arc<Mutex<OwnTable>>,
    name: &str,
    cluster: &str,
    listener: tokio::net::TcpListener,
    peers: Vec<ipnet::IpNet>,
) -> Result<(), tonic::transport::Error> {
    let service = Service::new(table, identity(name, cluster));
    let gate = service.gate(peers);
    service.serve(listener, gate).await
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("an answer in time")
}

#[tokio::test]
async fn a_promise_reaches_the_receiver_and_comes_back_as_feedback() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let uri = format!("http://{}", listener.local_addr().expect("bound"));
    let own = table("h1");
    tokio::spawn(serve(own.clone(), "h1", "c", listener, Vec::new()));
    let holder = HostId::of("h1").holder();
    let me = identity("h0", "c");
    let (inbound, mut inbox) = mpsc::channel(INBOX);
    let connection = Arc::new(Connection::new(uri, Kind::Peer, vec![holder]));
    tokio::spawn(link::run(connection.clone(), me.clone(), inbound));
    let back = within(inbox.recv()).await.expect("a message");
    assert!(matches!(back, Inbound::Back { holder: seen, slot_diff: -1..=1, .. } if seen == holder), "{back:?}");
    let mut seq = 0;
    let feedback = within(async {
        loop {
            seq += 1;
            connection.announce(holder, promise(&me, "h1", seq), &|_| None);
            match tokio::time::timeout(Duration::from_millis(200), inbox.recv()).await {
                Ok(Some(Inbound::Feedback { feedback, .. })) if feedback.refused.is_none() => break feedback,
                _ => {}
            }
        }
    })
    .await;
    assert_eq!(feedback.links.len(), 1);
    assert_eq!(feedback.links[0].capacity, Rate::mbps(100));
    assert_eq!(own.lock().expect("not poisoned").promised(), Rate::mbps(40));
    connection.close();
}

#[tokio::test]
async fn another_cluster_is_refused_with_both_names() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let uri = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(serve(table("h1"), "h1", "blue", listener, Vec::new()));
    let (inbound, mut inbox) = mpsc::channel(INBOX);
    let holder = HostId::of("h1").holder();
    let connection = Arc::new(Connection::new(uri, Kind::Peer, vec![holder]));
    tokio::spawn(link::run(connection.clone(), identity("h0", "green"), inbound));
    match within(inbox.recv()).await {
        Some(Inbound::Lost { why, mismatch: true, .. }) => {
            assert!(why.contains("blue") && why.contains("green"), "{why}")
        }
        other => panic!("{other:?}"),
    }
    connection.close();
}

#[tokio::test]
async fn a_stranger_is_not_listened_to_and_a_listed_peer_is() {
    for (peers, admitted) in [("10.0.0.0/8", false), ("127.0.0.0/8", true)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let uri = format!("http://{}", listener.local_addr().expect("bound"));
        let peers = vec![peers.parse().expect("a network")];
        tokio::spawn(serve(table("h1"), "h1", "c", listener, peers));
        let (inbound, mut inbox) = mpsc::channel(INBOX);
        let connection = Arc::new(Connection::new(uri, Kind::Peer, vec![HostId::of("h1").holder()]));
        tokio::spawn(link::run(connection.clone(), identity("h0", "c"), inbound));
        let heard = within(inbox.recv()).await.expect("a message");
        assert_eq!(matches!(heard, Inbound::Back { .. }), admitted, "{heard:?}");
        assert_eq!(matches!(heard, Inbound::Lost { mismatch: false, .. }), !admitted, "{heard:?}");
        connection.close();
    }
}

/// Promises: P-26
#[tokio::test]
async fn nobody_there_is_said_and_tried_again() {
    // Bound and dropped: nobody listens on this port now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback").port();
    let (inbound, mut inbox) = mpsc::channel(INBOX);
    let connection = Arc::new(Connection::new(format!("http://127.0.0.1:{port}"), Kind::Switch, vec![HolderId(1)]));
    let task = tokio::spawn(link::run(connection.clone(), identity("h0", "c"), inbound));
    for _ in 0..2 {
        match within(inbox.recv()).await {
            Some(Inbound::Lost { why, mismatch: false, .. }) => assert!(why.contains("refused"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    connection.close();
    within(task).await.expect("ends");
}
