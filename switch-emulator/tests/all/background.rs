//! Switches' counters become unmanaged load of links, by sFlow and by gNMI.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sluice_telemetry::testing::{Agent, Target};

use crate::support::{PATIENCE, Switch};

/// Bytes that leave in a second: 500 Mbit/s.
const RATE: u64 = 62_500_000;
const LOAD: &str = "sluice_switchd_link_background_bytes_per_second{link=\"0:h0\",switch=\"s0\"}";

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Payload of the load, within a tenth: 1448 of 1514 bytes.
fn is_seen(switch: &Switch) -> bool {
    let expected = RATE as f64 * 1448.0 / 1514.0;
    switch.metric(LOAD).is_some_and(|load| (load - expected).abs() < expected / 10.0)
}

fn octets(elapsed: Duration) -> u64 {
    RATE * elapsed.as_millis() as u64 / 1000
}

fn start(keys: &str) -> Switch {
    Switch::start_with(keys, "127.0.0.1:0".parse().unwrap())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn an_sflow_agent_is_heard_and_garbage_is_counted() {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let switch = start(&format!(
        "background.source = \"sflow\"\nbackground.listen = \"{free}\"\nbackground.interval_s = 1\n\
         background.links = [{{ switch = \"s0\", port = 0, agent = \"127.0.0.1\", interface = 7 }}]\n"
    ));
    assert_eq!(switch.metric(LOAD), Some(0.0));
    let runtime = runtime();
    let agent = Agent { address: Ipv4Addr::LOCALHOST.into(), to: free, interval: Duration::from_millis(300) };
    runtime.spawn(agent.run(|elapsed| vec![(7, octets(elapsed)), (8, 5)]));
    until("is the load seen", || is_seen(&switch));
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    stranger.send_to(&[0xff; 64], free).unwrap();
    let malformed = "sluice_switchd_background_readings_total{result=\"malformed\",source=\"sflow\"}";
    until("is garbage counted", || switch.metric(malformed) == Some(1.0));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(is_seen(&switch), "and stops nothing");
}

#[test]
fn a_gnmi_target_is_asked() {
    let runtime = runtime();
    let anywhere: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let counters = |elapsed| vec![("Ethernet1".to_owned(), octets(elapsed)), ("Ethernet2".to_owned(), 9)];
    let target = runtime.block_on(Target::start(anywhere, counters)).unwrap();
    let switch = start(&format!(
        "background.source = \"gnmi\"\nbackground.interval_s = 1\n\
         background.links = [{{ switch = \"s0\", port = 0, target = \"{}\", interface = \"Ethernet1\" }}]\n",
        target.address()
    ));
    until("is the load seen", || is_seen(&switch));
    let accepted = "sluice_switchd_background_readings_total{result=\"accepted\",source=\"gnmi\"}";
    assert!(switch.metric(accepted).is_some_and(|count| count >= 2.0));
}
