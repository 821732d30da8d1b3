//! Hosts and a switch process: sessions, calls, UDP, leases, restarts.

use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Switch, announcement, connect, hear, hello, next_slot, slot, too_late, until};
use sluice_schedule::{FlowId, HolderId, HostId, LinkId, Rate};
use sluice_wire::convert;
use sluice_wire::pb::{self, switch_client::SwitchClient};
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::SessionClient;
use sluice_wire::udp::{Kind, LANES, Lane, NO_HOP_YET, Packet, Tuple};

/// A machine that is busy for a moment gets other tries.
const TRIES: usize = 5;

fn s0() -> HolderId {
    HolderId::of("s0")
}

#[tokio::test]
async fn a_host_hears_what_another_announces_without_asking() {
    let switch = Switch::start();
    let (one, two) = (connect(&switch, "h0").await, connect(&switch, "h1").await);
    let names: Vec<_> = one.welcome.holders.iter().map(|holder| holder.name.as_str()).collect();
    assert_eq!(names, ["s0", "s1"]);
    assert_eq!(one.welcome.hello.boot.to_string(), switch.boot);

    let (mut first, mut second) = (one.receiver, two.receiver);
    one.sender.announce(s0(), announcement("h0", 1, 1, Rate::mbps(100)));
    let own = hear(&mut first, |f| f.seq == 1).await;
    assert_eq!(own.links.len(), 2);
    assert_eq!(own.links[1].capacity, Rate::mbps(10_000).payload());
    assert!(own.links[1].flows.is_empty(), "the own promise is not listed");

    two.sender.announce(s0(), announcement("h1", 1, 1, Rate::mbps(300)));
    let others = hear(&mut second, |f| f.seq == 1).await;
    assert_eq!(others.links[1].load[0], Rate::mbps(100));
    assert_eq!(others.links[1].flows[0].flow.sender(), HostId::of("h0"));
    // Nothing was asked by the first host since.
    let pushed = hear(&mut first, |f| f.links[1].load.contains(&Rate::mbps(300))).await;
    assert_eq!(pushed.links[1].flows[0].flow.sender(), HostId::of("h1"));

    assert_eq!(switch.metric("sluice_switchd_hosts{switch=\"s0\"}"), Some(2.0));
    assert!(switch.get("/livez").starts_with("HTTP/1.1 200"));
    assert!(switch.get("/readyz").contains("tables: "));
}

#[tokio::test]
async fn the_two_calls_do_the_same() {
    let switch = Switch::start();
    let channel = sluice_wire::limits::endpoint(&switch.uri()).unwrap().connect().await.unwrap();
    let mut client = SwitchClient::new(channel);
    let update = |name: &str, rate| pb::HostMessage {
        hello: Some((&hello(name)).into()),
        announcements: vec![convert::from_announcement(s0(), &announcement(name, 1, 0, rate))],
    };
    let began = Instant::now();
    let mut updated = async |name: &str, rate| loop {
        match client.update_schedule(update(name, rate)).await {
            Err(status) if too_late(RefusalId::of(&status), began) => {}
            answer => break answer.unwrap().into_inner(),
        }
    };
    updated("h0", Rate::mbps(70)).await;
    let answer = updated("h1", Rate::mbps(30)).await;
    let (holder, feedback) = convert::feedback(answer.feedback[0].clone()).unwrap();
    assert_eq!((holder, feedback.seq, feedback.refused), (s0(), 1, None));
    let fetch = |name: &str| pb::FetchRequest { hello: Some((&hello(name)).into()), holders: vec![] };
    let mut fetched = async |name: &str| loop {
        match client.fetch_feedback(fetch(name)).await {
            Err(status) if too_late(RefusalId::of(&status), began) => {}
            answer => break answer.unwrap().into_inner(),
        }
    };
    assert!(fetched("h0").await.welcome.is_some());
    // A host that never announced has nothing to see.
    assert!(fetched("h9").await.feedback.is_empty());
}

/// Promises: P-11
#[tokio::test]
async fn what_is_not_repeated_is_gone() {
    let switch = Switch::start();
    let (one, mut two) = (connect(&switch, "h0").await, connect(&switch, "h1").await);
    one.sender.announce(s0(), announcement("h0", 1, 1, Rate::mbps(100)));
    let mut receiver = one.receiver;
    hear(&mut receiver, |f| f.seq == 1).await;
    drop((one.sender, receiver));
    let mut seq = 0;
    until(async || {
        seq += 1;
        next_slot().await;
        two.sender.announce(s0(), announcement("h1", seq, 0, Rate::mbps(1)));
        let heard = hear(&mut two.receiver, |f| f.seq == seq).await;
        heard.links[1].load.iter().all(|load| *load == Rate::ZERO)
    })
    .await;
    until(async || switch.metric("sluice_switchd_lease_expirations_total{switch=\"s0\"}") >= Some(1.0)).await;
}

/// Promises: P-16
#[tokio::test]
async fn a_restart_shows_in_boot_id_and_warmth() {
    let mut switch = Switch::start();
    // A machine too busy to ask within two slots of a start sees only the end of it, and tries again.
    for _ in 0..TRIES {
        let (address, boot) = (switch.grpc, switch.boot.clone());
        let before = connect(&switch, "h0").await;
        drop(before);
        assert!(switch.terminate().success());
        switch = Switch::start_with("", address);
        assert_ne!(switch.boot, boot);
        let mut session = connect(&switch, "h0").await;
        let (mut seq, mut warmth) = (0, Vec::new());
        until(async || {
            seq += 1;
            // Each answer is the one to this announcement, at once and not at the next slot's edge.
            session.sender.announce(s0(), announcement("h0", seq, 1, Rate::mbps(100)));
            let heard = hear(&mut session.receiver, |f| f.seq == seq).await;
            assert_eq!(heard.boot.to_string(), switch.boot);
            warmth.push(heard.warm);
            next_slot().await;
            heard.warm
        })
        .await;
        assert!(warmth.is_sorted(), "{warmth:?}");
        if warmth.first() == Some(&false) {
            return;
        }
    }
    panic!("{TRIES} times the first answer of a switch that had just begun was warm");
}

#[tokio::test]
async fn a_session_ends_with_a_reason_when_the_process_does() {
    let switch = Switch::start();
    let mut session = connect(&switch, "h0").await;
    let end = async {
        loop {
            match session.receiver.next().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        }
    };
    let (ended, status) = tokio::join!(tokio::time::timeout(PATIENCE, end), async {
        tokio::task::spawn_blocking(|| switch.terminate()).await.unwrap()
    });
    assert!(status.success());
    assert_eq!(ended.unwrap().unwrap_err().refusal_id(), Some(RefusalId::ShuttingDown));
}

/// Promises: P-16
#[tokio::test]
async fn fifty_hosts_come_back_at_once() {
    let switch = Switch::start();
    let address = switch.grpc;
    let names: Vec<String> = (0..50).map(|n| format!("herd{n}")).collect();
    let mut sessions = Vec::new();
    for name in &names {
        sessions.push(connect(&switch, name).await);
    }
    assert!(switch.terminate().success());
    drop(sessions);
    let switch = Switch::start_with("", address);
    let mut herd = tokio::task::JoinSet::new();
    for name in names {
        let uri = switch.uri();
        herd.spawn(async move {
            let mut session = loop {
                match SessionClient::connect(&uri, &hello(&name)).await {
                    Ok(session) => break session,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            };
            session.sender.announce(s0(), announcement(&name, 1, 1, Rate::mbps(10)));
            hear(&mut session.receiver, |f| f.seq == 1 && f.refused.is_none()).await;
        });
    }
    let all = async { while herd.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

#[tokio::test]
async fn udp_packets_come_back_with_what_the_switch_knows() {
    let switch = Switch::start();
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(switch.udp).await.unwrap();
    let exchange = async |kind, host: &str, value| {
        let at = slot();
        let tuple = Tuple {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            source_port: 1,
            destination_port: 2,
            protocol: 6,
            cookie: 0,
        };
        let packet = Packet {
            kind,
            flags: 0,
            unit: 0,
            hops: 0,
            counted: 0,
            flow: FlowId(u64::from(HostId::of(host).0) << 32 | 1),
            slot: at,
            seq: 3,
            had_previous: 0,
            wrap: ((at.0 + 9) % 10) as u8,
            path_sig: 0,
            tuple,
            lanes: [Lane { new: value, headroom: NO_HOP_YET, ..Lane::default() }; LANES],
        };
        socket.send(&packet.encode()).await.unwrap();
        let mut bytes = [0; 200];
        let length = tokio::time::timeout(PATIENCE, socket.recv(&mut bytes)).await.unwrap().unwrap();
        Packet::decode(&bytes[..length]).unwrap()
    };
    // Under load a slot may pass between two packets and the first promise with it: then it is announced again.
    until(async || {
        let first = exchange(Kind::Announce, "h0", 100).await;
        assert_eq!((first.kind, first.hops, first.seq), (Kind::Echo, 1, 3));
        let second = exchange(Kind::Announce, "h9", 50).await;
        second.lanes[second.lane_of(1)].load_sum == 150
    })
    .await;
    // The other transport sees the same table.
    let mut session = connect(&switch, "h5").await;
    let mut seq = 0;
    until(async || {
        exchange(Kind::Announce, "h0", 100).await;
        seq += 1;
        next_slot().await;
        session.sender.announce(s0(), announcement("h5", seq, 0, Rate::mbps(1)));
        let heard = hear(&mut session.receiver, |f| f.seq == seq).await;
        heard.links.iter().any(|view| view.link == LinkId::new(s0().0, 1) && view.load.contains(&Rate::mbps(100)))
    })
    .await;
}
