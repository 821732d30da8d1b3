//! From a socket to a rate, over loopback: an agent or a target that says what it is given, and a meter behind it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sluice_schedule::{Nanos, Rate};
use sluice_telemetry::counts::{Counts, Totals};
use sluice_telemetry::gnmi::client::{self, Client};
use sluice_telemetry::meter::{self, Meter, Outcome};
use sluice_telemetry::receiver::{self, Receiver};
use sluice_telemetry::testing::{Agent, Target};
use sluice_telemetry::{pb, sflow};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two samples.
const INTERVAL: Duration = Duration::from_millis(20);
/// What the one interface that is looked at carries.
const RATE: Rate = Rate::mbps(800);
/// Any port of this machine.
const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The work, unless it takes too long.
async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("done in time")
}

/// Octets that [`RATE`] moved in this time.
fn octets(elapsed: Duration) -> u64 {
    RATE.over(Nanos(elapsed.as_nanos() as u64)).0
}

fn meter<K: Ord>() -> Meter<K> {
    Meter::new(meter::Settings {
        // Far above what the samples are apart, so that a busy machine loses none of them.
        interval: Nanos::from_millis(1000),
        time_constant: Nanos::from_millis(100),
        ceiling: Rate::mbps(100_000),
        interfaces: 64,
    })
}

/// The load of an interface once so many rates of it were measured.
async fn load<K: Ord + Clone, H>(
    heard: &mut mpsc::Receiver<H>,
    meter: &mut Meter<K>,
    interface: &K,
    rates: usize,
    parts: impl Fn(H) -> (K, meter::Sample),
) -> Rate {
    let mut measured = 0;
    loop {
        let (from, sample) = parts(heard.recv().await.expect("a reading"));
        let outcome = meter.record(from.clone(), sample);
        measured += usize::from(from == *interface && matches!(outcome, Outcome::Measured(_)));
        if measured == rates {
            return meter.load(interface, sample.heard).rate();
        }
    }
}

fn assert_near(found: Rate, expected: Rate) {
    assert!(found.0.abs_diff(expected.0) <= expected.0 / 1000, "{found} is not {expected}");
}

async fn until(counts: &Counts, reached: impl Fn(Totals) -> bool) {
    while !reached(counts.totals()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Tasks that end with the test.
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// A receiver that listens to `peers`: where it is, what it counts, what it hears.
async fn receive(
    peers: &str,
    room: usize,
    tasks: &mut Tasks,
) -> (SocketAddr, Arc<Counts>, mpsc::Receiver<receiver::Heard>) {
    let receiver = Receiver::bind(HERE, vec![peers.parse().unwrap()]).await.unwrap();
    let (address, counts) = (receiver.local_addr().unwrap(), receiver.counts());
    let (sender, heard) = mpsc::channel(room);
    tasks.0.push(tokio::spawn(receiver.run(sender)));
    (address, counts, heard)
}

/// Interface 7 carries [`RATE`], 29 others nothing.
fn counters_by_index(elapsed: Duration) -> Vec<(u32, u64)> {
    (0..30).map(|index| (index, if index == 7 { octets(elapsed) } else { 1 << 40 })).collect()
}

/// Interface `swp1` carries [`RATE`], `swp2` nothing.
fn counters_by_name(elapsed: Duration) -> Vec<(String, u64)> {
    vec![("swp1".to_owned(), octets(elapsed)), ("swp2".to_owned(), 5)]
}

/// An agent with this address.
fn send(address: &str, to: SocketAddr, tasks: &mut Tasks) {
    let agent = Agent { address: address.parse().unwrap(), to, interval: INTERVAL };
    tasks.0.push(tokio::spawn(async move {
        let Err(error) = agent.run(counters_by_index).await;
        panic!("{error}");
    }));
}

fn index_of(heard: receiver::Heard) -> ((IpAddr, u32), meter::Sample) {
    ((heard.agent, heard.interface), heard.sample)
}

fn name_of(heard: client::Heard) -> (String, meter::Sample) {
    (heard.interface, heard.sample)
}

#[tokio::test]
async fn an_agent_is_heard_and_its_rates_measured() {
    within(async {
        let mut tasks = Tasks(vec![]);
        let (address, counts, mut heard) = receive("127.0.0.0/8", 1024, &mut tasks).await;
        send("127.0.0.1", address, &mut tasks);
        let (mut meter, agent) = (meter(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_near(load(&mut heard, &mut meter, &(agent, 7), 20, index_of).await, RATE);
        let quiet = load(&mut heard, &mut meter, &(agent, 8), 1, index_of).await;
        assert_eq!(quiet, Rate::ZERO);
        let totals = counts.totals();
        assert!(totals.accepted >= 60, "{totals:?}");
        assert_eq!((totals.malformed, totals.refused, totals.sessions), (0, 0, 0));
    })
    .await;
}

#[tokio::test]
async fn what_is_no_datagram_is_counted_and_stops_nothing() {
    within(async {
        let mut tasks = Tasks(vec![]);
        let (address, counts, mut heard) = receive("127.0.0.1/32", 1024, &mut tasks).await;
        let socket = UdpSocket::bind(HERE).await.unwrap();
        let samples = vec![sflow::Sample::Other { format: 2, body: vec![0; 7] }];
        let agent = Ipv4Addr::LOCALHOST.into();
        let broken = sflow::encode(&sflow::Datagram { agent, sub_agent: 0, sequence: 0, uptime_ms: 0, samples });
        let wrong: [&[u8]; 5] = [b"", b"what", &[0; 1400], &[0xff; 9000], &broken];
        for bytes in wrong {
            socket.send_to(bytes, address).await.unwrap();
        }
        until(&counts, |totals| totals.malformed == 5).await;
        send("127.0.0.1", address, &mut tasks);
        let rate = load(&mut heard, &mut meter(), &(agent, 7), 3, index_of).await;
        assert_near(rate, RATE);
        assert_eq!(counts.totals().malformed, 5);
    })
    .await;
}

#[tokio::test]
async fn a_source_that_may_not_speak_is_counted_and_not_read() {
    within(async {
        let mut tasks = Tasks(vec![]);
        let (address, counts, mut heard) = receive("127.0.0.1/32", 1024, &mut tasks).await;
        send("127.0.0.2", address, &mut tasks);
        until(&counts, |totals| totals.refused >= 6).await;
        assert_eq!(counts.totals().accepted, 0);
        assert!(heard.try_recv().is_err());
    })
    .await;
}

#[tokio::test]
async fn what_nobody_takes_is_dropped_and_counted() {
    within(async {
        let mut tasks = Tasks(vec![]);
        let (address, counts, mut heard) = receive("127.0.0.0/8", 2, &mut tasks).await;
        send("127.0.0.1", address, &mut tasks);
        until(&counts, |totals| totals.accepted >= 6).await;
        assert!(counts.totals().dropped > 0);
        assert!(heard.recv().await.is_some());
    })
    .await;
}

/// A target at `address`, as soon as that is free.
async fn target(address: SocketAddr) -> Target {
    loop {
        match Target::start(address, counters_by_name).await {
            Ok(target) => return target,
            // Somebody may hold the port for a moment.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn follow(
    uri: String,
    interfaces: &[&str],
    encoding: pb::Encoding,
    tasks: &mut Tasks,
) -> (Arc<Counts>, mpsc::Receiver<client::Heard>) {
    let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
    let client = Client::new(&client::Settings { uri, interfaces, interval: INTERVAL, encoding }).unwrap();
    let counts = client.counts();
    let (sender, heard) = mpsc::channel(1024);
    tasks.0.push(tokio::spawn(client.run(sender)));
    (counts, heard)
}

#[tokio::test]
async fn a_target_is_subscribed_to_and_its_rates_measured() {
    within(async {
        for encoding in [pb::Encoding::Proto, pb::Encoding::Json, pb::Encoding::JsonIetf] {
            let mut tasks = Tasks(vec![]);
            let target = target(HERE).await;
            let (counts, mut heard) = follow(target.uri(), &[], encoding, &mut tasks);
            let mut meter = meter();
            assert_near(load(&mut heard, &mut meter, &"swp1".to_owned(), 15, name_of).await, RATE);
            assert_eq!(load(&mut heard, &mut meter, &"swp2".to_owned(), 1, name_of).await, Rate::ZERO);
            let totals = counts.totals();
            assert_eq!((totals.malformed, totals.refused), (0, 0), "{totals:?}");
            assert!(totals.accepted >= 15 && totals.sessions >= 1, "{totals:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn only_what_was_asked_for_comes() {
    within(async {
        let mut tasks = Tasks(vec![]);
        let target = target(HERE).await;
        let (_, mut heard) = follow(target.uri(), &["swp2"], pb::Encoding::Proto, &mut tasks);
        for _ in 0..5 {
            let heard = heard.recv().await.unwrap();
            assert_eq!((heard.interface.as_str(), heard.sample.octets), ("swp2", 5));
            assert_eq!(&*heard.target, target.uri());
        }
    })
    .await;
}

#[tokio::test]
async fn a_target_that_goes_away_is_found_again() {
    within(async {
        let mut tasks = Tasks(vec![]);
        let first = target(HERE).await;
        let address = first.address();
        let (counts, mut heard) = follow(first.uri(), &["swp1"], pb::Encoding::Proto, &mut tasks);
        let (mut meter, interface) = (meter(), "swp1".to_owned());
        assert_near(load(&mut heard, &mut meter, &interface, 5, name_of).await, RATE);
        let sessions = counts.totals().sessions;
        first.stop().await;
        // What it counts begins at zero again; what the meter makes of that is forgotten after twelve time constants.
        let _second = target(address).await;
        until(&counts, |totals| totals.sessions > sessions).await;
        assert_near(load(&mut heard, &mut meter, &interface, 60, name_of).await, RATE);
    })
    .await;
}

#[tokio::test]
async fn a_client_ends_when_nobody_reads() {
    within(async {
        let target = target(HERE).await;
        for uri in [target.uri(), "http://127.0.0.1:1".to_owned()] {
            let (interfaces, encoding) = (vec![], pb::Encoding::Proto);
            let settings = client::Settings { uri, interfaces, interval: INTERVAL, encoding };
            let (sender, heard) = mpsc::channel(1);
            let running = tokio::spawn(Client::new(&settings).unwrap().run(sender));
            tokio::time::sleep(INTERVAL * 3).await;
            drop(heard);
            running.await.unwrap();
        }
        target.stop().await;
    })
    .await;
}
