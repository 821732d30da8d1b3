//! A9: forged datagrams. No cryptography stands in a switch's data plane: what is asserted is what stands instead.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sluice_schedule::{FlowId, HostId, Rate, Slot};
use sluice_wire::dial::Dial;
use sluice_wire::udp::{GUARD, Kind, LANES, LENGTH, Packet, Tuple};

use crate::attacker::{PATIENCE, turn, until};
use crate::programs::Switch;
use crate::speaker::{Speaker, admitted, s0, slot};
use crate::wire::runtime;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
    socket
}

/// A flow of this host to the second port of `s0`.
fn packet(kind: Kind, host: &str, slot: Slot, rate: u16) -> Packet {
    let tuple = Tuple {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        source_port: 1,
        destination_port: 2,
        protocol: 6,
        cookie: 0,
    };
    let flow = FlowId(u64::from(HostId::of(host).0) << 32 | 1);
    let mut packet = Packet { seq: 7, ..Packet::new(kind, flow, slot, tuple) };
    for lane in 0..LANES {
        packet.lanes[lane].new = rate;
    }
    packet
}

fn answer(socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> Option<Packet> {
    socket.send_to(bytes, to).expect("sent");
    let mut answer = [0; LENGTH + 1];
    let length = socket.recv(&mut answer).ok()?;
    Packet::decode(&answer[..length]).ok()
}

/// How many datagrams were counted at `s0`. What one of them promises is over after a second; this only grows.
fn applied(switch: &Switch) -> f64 {
    std::thread::sleep(Duration::from_millis(1_100)); // The page of metrics is a second old at most.
    switch.metric("sluice_switchd_updates_total", "result=\"applied\",switch=\"s0\",transport=\"udp\"")
}

/// How many had no answer for this reason.
fn unanswered(switch: &Switch, reason: &str) -> f64 {
    switch.metric("sluice_switchd_datagrams_unanswered_total", &format!("reason=\"{reason}\""))
}

/// An honest datagram of this host is counted, and seen in what [`applied`] reads: nothing else kept the others out.
fn counts_an_honest_one(switch: &Switch, host: &str) {
    let (socket, before) = (socket(), applied(switch));
    until("an honest datagram is counted", || {
        let honest = packet(Kind::Announce, host, slot(), 9_000).encode();
        answer(&socket, switch.udp, &honest).is_some_and(|answer| answer.counted == 1)
    });
    assert!(applied(switch) > before, "what is counted is not seen");
}

/// what is no packet, a packet that is an answer, and answers that nobody asked for.
#[test]
fn what_is_no_question_has_no_answer_and_no_effect() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    let socket = socket();
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let good = packet(Kind::Announce, "h0", slot(), 9_000).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        bytes
    };
    let echo = packet(Kind::Echo, "h0", slot(), 9_000).encode().to_vec();
    let long = [good.as_slice(), &[0]].concat();
    for (what, bytes) in [
        ("nothing", vec![]),
        ("a byte less", good[..LENGTH - 1].to_vec()),
        ("a byte more", long),
        ("another magic", with(0, 0)),
        ("another version", with(2, 0x22)),
        ("another kind", with(2, 0x1f)),
        ("other lanes", with(4, 255)),
        ("an echo", echo),
    ] {
        assert!(answer(&socket, switch.udp, &bytes).is_none(), "{what} is answered");
    }
    assert_eq!(applied(&switch), 0.0);
    counts_an_honest_one(&switch, "h0");
}

/// from an address that is not listed.
#[test]
fn a_stranger_gets_no_answer() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("peers = [\"10.0.0.0/8\"]");
    let socket = socket();
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    assert_eq!(unanswered(&switch, "network"), 0.0);
    assert!(answer(&socket, switch.udp, &packet(Kind::Announce, "h0", slot(), 9_000).encode()).is_none());
    until("it is counted, and as what it is", || unanswered(&switch, "network") == 1.0);
    assert_eq!(applied(&switch), 0.0);
}

/// another time, and more than the link carries.
#[test]
fn a_datagram_of_another_time_is_marked_and_a_huge_one_is_clipped() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    let socket = socket();
    for off in [5_u32, 1_000, u32::MAX / 2, u32::MAX - 10] {
        let far = Slot(slot().0.wrapping_add(off));
        let answer = answer(&socket, switch.udp, &packet(Kind::Announce, "h0", far, 9_000).encode()).expect("an echo");
        assert!(answer.flags & GUARD != 0 && answer.counted == 0, "{answer:?}");
    }
    assert_eq!(applied(&switch), 0.0);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let huge = packet(Kind::Announce, "h0", slot(), u16::MAX).encode();
        let counted = answer(&socket, switch.udp, &huge).is_some_and(|answer| answer.counted == 1);
        std::thread::sleep(Duration::from_millis(50));
        let page = switch.get("/metrics").expect("it answers").1;
        let of =
            |line: &&str| line.starts_with("sluice_switchd_link_scheduled_bytes_per_second") && line.contains("s0");
        let most =
            page.lines().filter(of).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).fold(0.0, f64::max);
        assert!(most <= 10e9 / 8.0, "{most}");
        if counted && most > 0.0 {
            break;
        }
        assert!(Instant::now() < deadline, "it was never counted");
    }
}

/// in the name of a host that has a session: there it speaks, and here it only reads.
#[test]
fn nobody_speaks_by_datagrams_for_a_host_that_has_a_session() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    let runtime = runtime();
    let session = runtime.block_on(admitted(&Dial::Plain, &switch.uri(), "h0", 1)).expect("let in");
    assert!(session.welcome.holders.iter().any(|holder| holder.id == s0()));
    let forged = packet(Kind::Announce, "h0", slot(), 9_000).encode();
    let answer = answer(&socket(), switch.udp, &forged).expect("an echo");
    assert_eq!(answer.counted, 0, "{answer:?}");
    assert_eq!(applied(&switch), 0.0);
    // Of a host without a session the same is counted.
    counts_an_honest_one(&switch, "h3");
    drop(session);
}

/// How many hosts the table of the next test has room for, and as many more with a session.
const HOSTS: f64 = 64.0;

/// a flood of them, in the names of hosts that are made up, and the honest host beside it.
#[test]
fn a_flood_is_metered_and_a_session_goes_on_beside_it() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start(&format!("max_hosts = {HOSTS}"));
    let (flooder, to) = (socket(), switch.udp);
    flooder.set_nonblocking(true).expect("set");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flood = {
        let stop = stop.clone();
        std::thread::spawn(move || {
            let (mut sent, mut answered, mut n) = (0_u64, 0_u64, 0_u32);
            let mut buffer = [0; LENGTH];
            let began = Instant::now();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                n = n.wrapping_add(1);
                let mut forged = packet(Kind::Announce, "h0", slot(), 1);
                forged.flow = FlowId(u64::from(n) << 32 | u64::from(n));
                sent += u64::from(flooder.send_to(&forged.encode(), to).is_ok());
                while flooder.recv(&mut buffer).is_ok() {
                    answered += 1;
                }
            }
            (sent, answered, began.elapsed())
        })
    };
    until("hosts that are made up fill the table", || switch.metric("sluice_switchd_hosts", "s0") >= HOSTS);
    std::thread::sleep(Duration::from_secs(2));
    // What the honest host promises counts, on a link that the flood does not go by, and another one sees it.
    let began = Instant::now();
    let load = runtime().block_on(async {
        let mut honest = Speaker::new(&switch, "h1").await;
        let mut other = Speaker::new(&switch, "h2").await;
        let search = async {
            loop {
                assert_eq!(honest.ask(Rate::mbps(3_000), 0).await.refused, None);
                // Where its lease was over before this was seen, it is another try.
                let load = other.load(0).await;
                if load > Rate::ZERO {
                    return load;
                }
            }
        };
        tokio::time::timeout(PATIENCE, search).await.expect("what it promises is seen")
    });
    let took = began.elapsed();
    let hosts = switch.metric("sluice_switchd_hosts", "s0");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let (sent, answered, elapsed) = flood.join().expect("the flood ends");
    println!("{sent} sent, {answered} answered in {elapsed:?}; a promise beside it was seen after {took:?}");
    assert!(answered > 0, "the flood never arrived: {sent} sent");
    assert_eq!(load, Rate::mbps(3_000), "it is the honest host's, and whole");
    assert!(answered as f64 <= 20_000.0 * (elapsed.as_secs_f64() + 1.0), "{answered} of {sent} in {elapsed:?}");
    assert!(hosts <= HOSTS + 2.0, "{hosts} hosts");
}
