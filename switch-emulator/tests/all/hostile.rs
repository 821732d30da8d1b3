//! What must not work: wrong grids, foreign identities, too much, garbage, silence.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;

use crate::support::{PATIENCE, Switch, admitted, announcement, connect, hear, hello, next_slot, until};
use sluice_schedule::{FlowId, HolderId, HostId, LinkId, Nanos, Rate, Refusal};
use sluice_wire::dial::Dial;
use sluice_wire::hello::ClockSource;
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::SessionClient;

fn s0() -> HolderId {
    HolderId::of("s0")
}

#[tokio::test]
async fn a_hello_that_does_not_fit_is_refused_with_both_values() {
    let switch = Switch::start();
    let refused = async |change: fn(&mut sluice_wire::hello::Hello)| {
        let mut hello = hello("h0");
        change(&mut hello);
        let error = SessionClient::connect(&switch.uri(), &hello).await.unwrap_err();
        (error.refusal_id(), error.to_string())
    };
    let (id, text) = refused(|hello| hello.grid.slot_length = Nanos::from_millis(50)).await;
    assert_eq!(id, Some(RefusalId::SlotLengthMismatch));
    assert!(
        text.contains("slots of 50 ms") && text.contains("slots of 200 ms") && text.contains("slot.length_ms"),
        "{text}"
    );
    assert_eq!(refused(|hello| hello.grid.horizon = 12).await.0, Some(RefusalId::HorizonMismatch));
    assert_eq!(refused(|hello| hello.grid.cluster = "other".into()).await.0, Some(RefusalId::ClusterMismatch));
    assert_eq!(refused(|hello| hello.grid.clock = ClockSource::Tai).await.0, Some(RefusalId::EpochMismatch));
    assert_eq!(refused(|hello| hello.host = HostId(7)).await.0, Some(RefusalId::IdentityNotHost));
    assert_eq!(refused(|hello| hello.slot = hello.slot.offset(617)).await.0, Some(RefusalId::SlotOffsetTooLarge));
    assert_eq!(refused(|hello| hello.name = String::new()).await.0, Some(RefusalId::MessageMalformed));
    until(async || switch.metric("sluice_switchd_hellos_refused_total") >= Some(6.0)).await;
}

#[tokio::test]
async fn a_host_speaks_for_itself_only() {
    let switch = Switch::start();
    let mut session = connect(&switch, "h0").await;
    session.sender.announce(s0(), announcement("h1", 1, 1, Rate::mbps(100)));
    let error = loop {
        match session.receiver.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended without a reason"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.refusal_id(), Some(RefusalId::IdentityNotHost));

    let mut session = connect(&switch, "h0").await;
    let mut foreign = announcement("h0", 1, 1, Rate::mbps(100));
    foreign.flows[0].flow = FlowId(u64::from(HostId::of("h1").0) << 32);
    session.sender.announce(s0(), foreign);
    hear(&mut session.receiver, |f| f.refused == Some(Refusal::ForeignFlow)).await;
    let mut unknown = announcement("h0", 2, 1, Rate::mbps(100));
    unknown.flows[0].links = vec![LinkId(1)];
    session.sender.announce(s0(), unknown);
    hear(&mut session.receiver, |f| f.refused == Some(Refusal::UnknownLink)).await;
    let mut far = announcement("h0", 3, 1, Rate::mbps(100));
    far.slot = far.slot.offset(40);
    session.sender.announce(s0(), far);
    hear(&mut session.receiver, |f| f.refused == Some(Refusal::SlotGuard)).await;
}

#[tokio::test]
async fn a_host_over_its_quota_is_not_listened_to_after_ten_times() {
    let switch = Switch::start();
    let mut session = connect(&switch, "greedy").await;
    let mut bystander = connect(&switch, "h1").await;
    let template = announcement("greedy", 0, 1, Rate::mbps(1));
    for seq in 1..=10 {
        let mut much = announcement("greedy", seq, 1, Rate::mbps(1));
        let flow = |n: u64| {
            let mut flow = template.flows[0].clone();
            flow.flow = FlowId(u64::from(template.host.0) << 32 | n);
            flow.links = vec![LinkId::new(s0().0, 0), LinkId::new(s0().0, 1)];
            flow.rates = vec![Rate(1); 10];
            (flow.demand, flow.takes) = (Default::default(), Rate::ZERO);
            flow
        };
        much.flows = (0..4097).map(flow).collect();
        session.sender.announce(s0(), much);
        hear(&mut session.receiver, |f| f.refused == Some(Refusal::Quota)).await;
    }
    session.sender.announce(s0(), announcement("greedy", 11, 1, Rate::mbps(1)));
    hear(&mut session.receiver, |f| f.refused == Some(Refusal::Quota)).await;
    bystander.sender.announce(s0(), announcement("h1", 1, 1, Rate::mbps(1)));
    let heard = hear(&mut bystander.receiver, |f| f.seq == 1).await;
    assert!(heard.refused.is_none() && heard.links[1].load.iter().all(|load| *load == Rate::ZERO));
}

#[tokio::test]
async fn garbage_and_silence_harm_nobody() {
    let switch = Switch::start();
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut noise = move |length: usize| -> Vec<u8> {
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..length).map(next).collect()
    };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut silent = Vec::new();
    for round in 0..40 {
        let mut stream = TcpStream::connect(switch.grpc).unwrap();
        let mut bytes = noise(300);
        if round % 2 == 0 {
            // A good beginning, then noise where frames should be.
            bytes.splice(..24, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".iter().copied());
        }
        let _ = stream.write_all(&bytes);
        let mut stream = TcpStream::connect(switch.http).unwrap();
        let _ = stream.write_all(&noise(300));
        socket.send_to(&noise(144), switch.udp).unwrap();
        socket.send_to(&noise(round * 30), switch.udp).unwrap();
        silent.push(TcpStream::connect(switch.grpc).unwrap());
    }
    let mut session = connect(&switch, "h0").await;
    session.sender.announce(s0(), announcement("h0", 1, 1, Rate::mbps(1)));
    hear(&mut session.receiver, |f| f.seq == 1).await;
    // Who says nothing is hung up on.
    let mut first = silent.remove(0);
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(first.read(&mut [0; 16]).unwrap_or(0), 0);
    assert!(switch.get("/livez").starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn there_are_no_more_hosts_and_promises_than_was_said() {
    let switch = Switch::start_with("max_hosts = 2\nmax_flows = 1", "127.0.0.1:0".parse().unwrap());
    let (mut one, _two) = (connect(&switch, "h0").await, connect(&switch, "h1").await);
    let error = admitted(&Dial::Plain, &switch.uri(), "h2").await.unwrap_err();
    assert_eq!(error.refusal_id(), Some(RefusalId::HostOverQuota), "{error}");
    assert!(error.to_string().contains("max_hosts"), "{error}");
    let mut two = announcement("h0", 1, 1, Rate::mbps(1));
    two.flows.push(two.flows[0].clone());
    two.flows[1].flow = FlowId(two.flows[1].flow.0 + 1);
    one.sender.announce(s0(), two);
    hear(&mut one.receiver, |f| f.refused == Some(Refusal::Quota)).await;
    next_slot().await;
    one.sender.announce(s0(), announcement("h0", 2, 1, Rate::mbps(1)));
    hear(&mut one.receiver, |f| f.seq == 2 && f.refused.is_none()).await;
}

#[tokio::test]
async fn strangers_are_turned_away() {
    let switch = Switch::start_with("peers = [\"10.0.0.0/8\"]", "127.0.0.1:0".parse().unwrap());
    // Hung up on before it could say hello, so that there is no refusal to read.
    let error = SessionClient::connect(&switch.uri(), &hello("h0")).await.unwrap_err();
    assert_eq!(error.refusal_id(), None, "{error}");
    let switch = Switch::start_with("peers = [\"127.0.0.0/8\"]", "127.0.0.1:0".parse().unwrap());
    connect(&switch, "h0").await;
}

#[tokio::test]
async fn who_lets_everybody_speak_is_told_so_for_ever() {
    let open = Switch::start_with("open = true\nunauthenticated = true", "0.0.0.0:0".parse().unwrap());
    admitted(&Dial::Plain, &format!("http://127.0.0.1:{}", open.grpc.port()), "h0").await.unwrap();
    assert_eq!(open.metric("sluice_switchd_peers_open"), Some(1.0));
    assert_eq!(open.metric("sluice_switchd_unauthenticated"), Some(1.0));
    assert!(open.get("/readyz").contains("peers-open"));
    let closed = Switch::start();
    assert_eq!(closed.metric("sluice_switchd_peers_open"), Some(0.0));
    assert_eq!(closed.metric("sluice_switchd_unauthenticated"), Some(0.0));
    assert!(!closed.get("/readyz").contains("peers-open"));
}

#[test]
fn a_bad_configuration_is_told_and_exits_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.toml");
    std::fs::write(&path, "slot.length_ms = 1\nlisten.grcp = \"x\"\n").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_sluice-switch")).args(["--check", "--config"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("slot.length_ms is out of range") && text.contains("did you mean `grpc`"), "{text}");
    assert!(text.contains("nothing says who may speak") && text.contains("4 errors"), "{text}");
    std::fs::write(
        &path,
        "peers = [\"10.0.0.0/8\"]\nunauthenticated = true\n[[switches]]\nname = \"s0\"\nports = [{ id = 0, to = \"h\", gbps = 1 }]\n",
    )
    .unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_sluice-switch")).args(["--check", "--config"]).arg(&path).output().unwrap();
    assert!(output.status.success());
}
