//! Paths found by probes: real daemons, real routers with two equal ways on, and nobody who tells. What is found is what the
//! kernel of the leaf does, no probe comes to the other end, and the job notices nothing. Needs root, BPF and the built
//! daemons.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, connect, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::Value;
use sluice_route::{Forwarded, Kernel};
use sluice_schedule::{Bytes, Rate};
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::{Cable, Fabric, FabricSpec};
use sluice_testbed::job::Arch;
use sluice_testbed::run::{JobPlan, Placement, Policy, RunPlan};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};

/// Nothing but a probe has so few hops left when it arrives: the fabric has four.
const FEW_HOPS: u8 = 32;
/// Servers, and so flows of the host that is watched.
const FLOWS: usize = 6;
/// Longer than all of them take at one probe a second, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts TCP packets that come to a host with few hops left.
struct Arrivals {
    few: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Arrivals {
    fn at(fabric: &Fabric, host: usize) -> Arrivals {
        let [few, all] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let over = Arc::new(AtomicBool::new(false));
        let (counts, end) = ((few.clone(), all.clone()), over.clone());
        let open = || {
            let flags = SockFlag::SOCK_CLOEXEC;
            let fd = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Tcp).expect("a raw socket");
            setsockopt(&fd, sockopt::RcvBufForce, &(16 << 20)).expect("room");
            setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(50)).expect("a timeout");
            fd
        };
        let fd = fabric.hosts[host].ns.run(open).expect("in the namespace");
        let count = move || {
            // The rest of a packet is cut off.
            let mut header = [0_u8; 20];
            while !end.load(Ordering::Relaxed) {
                if recv(fd.as_raw_fd(), &mut header, MsgFlags::empty()).is_ok() {
                    counts.1.fetch_add(1, Ordering::Relaxed);
                    counts.0.fetch_add(u64::from(header[8] < FEW_HOPS), Ordering::Relaxed);
                }
            }
            // What found no room was not counted.
            let sockets = std::fs::read_to_string("/proc/thread-self/net/raw").expect("readable");
            let dropped = sockets.lines().skip(1).filter_map(|line| line.split_whitespace().next_back());
            assert!(dropped.clone().count() > 0 && dropped.clone().all(|drops| drops == "0"), "{sockets}");
        };
        let thread = fabric.hosts[host].ns.thread("arrivals", count).expect("a thread");
        Arrivals { few, all, over, thread: Some(thread) }
    }

    fn few(&self) -> u64 {
        self.few.load(Ordering::Relaxed)
    }

    /// Ends the counting; it was of everything.
    fn end(mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().expect("there").join().expect("nothing was dropped");
    }
}

fn leaf_spine() -> FabricSpec {
    let cable = |a: &str, b: &str| Cable::plain(a, b, Rate::mbps(100), Bytes(250_000));
    let ups = ["leaf0", "leaf1"].into_iter().flat_map(|leaf| ["spine0", "spine1"].map(|spine| (leaf, spine)));
    let cables = [("h0", "leaf0"), ("h1", "leaf1"), ("h2", "leaf1")].into_iter().chain(ups);
    FabricSpec {
        hosts: ["h0", "h1", "h2"].map(String::from).into(),
        switches: ["leaf0", "leaf1", "spine0", "spine1"].map(String::from).into(),
        cables: cables.map(|(a, b)| cable(a, b)).collect(),
        ..FabricSpec::default()
    }
}

fn ask(live: &Live, route: &str) -> Value {
    let text = live.daemons.get(0, route).unwrap_or_else(|| panic!("{route}"));
    serde_json::from_str(&text).expect("JSON")
}

/// The paths of host 0's flows as its daemon has them, by both ends; those that probes have found.
fn found(live: &Live) -> BTreeMap<(SocketAddr, SocketAddr), Vec<String>> {
    let snapshot = ask(live, "/api/v1/snapshot");
    let mut paths = BTreeMap::new();
    for flow in snapshot["flows"].as_array().expect("a list").iter().filter(|flow| flow["path"] == "probe") {
        let text = |key: &str| flow[key].as_str().expect("a text").to_owned();
        let why = ask(live, &format!("/api/v1/explain/{}", text("id")));
        let path = why["path"].as_array().expect("a list").iter().map(|link| link.as_str().expect("a name").into());
        let ends = (text("local").parse().expect("an address"), text("to").parse().expect("an address"));
        paths.insert(ends, path.collect());
    }
    paths
}

/// The path that the kernels of the routers give a connection, as a daemon writes it.
fn taken(fabric: &Fabric, (source, destination): (SocketAddr, SocketAddr)) -> Vec<String> {
    let (layout, hosts) = (&fabric.layout, fabric.hosts.len());
    let mut path = vec!["eth0".to_owned()];
    let mut at = hosts; // leaf0
    while at >= hosts {
        let packet = Forwarded {
            source: (source.ip(), source.port()),
            destination: (destination.ip(), destination.port()),
            protocol: 6,
        };
        let ask = move || {
            let index = Kernel::open().expect("netlink").forwards(&packet).expect("a route");
            nix::net::if_::if_indextoname(index).expect("a device").into_string().expect("a name")
        };
        let device = fabric.switches[at - hosts].ns.run(ask).expect("in the namespace");
        let link = layout.links.iter().find(|l| l.from.node == at && l.from.device == device).expect("a cable");
        path.push(format!("{}:{}", layout.nodes[at], link.from.port));
        at = link.to.node;
    }
    path
}

/// Lets the job run until the daemon of host 0 has found the paths of all flows, and they are what the kernel does.
fn until_true(live: &mut Live, what: &str) -> BTreeMap<(SocketAddr, SocketAddr), Vec<String>> {
    let began = Instant::now();
    loop {
        live.run_for(Duration::from_millis(250)).expect("the job runs");
        let found = found(live);
        let real: BTreeMap<_, _> = found.keys().map(|ends| (*ends, taken(&live.fabric, *ends))).collect();
        if found.len() == FLOWS && found == real {
            return found;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{what}: {found:?}, in truth {real:?}; {}",
            ask(live, "/api/v1/conditions")
        );
    }
}

#[test]
fn probes_find_the_paths_that_the_kernel_takes_and_nobody_else_sees_them() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (programs, (_keep, dir)) = (daemons(), dir());
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let fabric = leaf_spine();
    let job = JobPlan { arch: Arch::Ps, servers: FLOWS, ..JobPlan::ring("a", 1, Bytes(6_000_000), 60) };
    let place = Placement { workers: vec![0], servers: (0..FLOWS).map(|i| 1 + i % 2).collect() };
    let daemon_extra = "[probe]\nroutes = true\nrepeat_s = 5\n".to_owned();
    let plan = RunPlan { name: "probes".into(), fabric, jobs: vec![job], daemon_extra, ..RunPlan::default() };
    let mut live =
        Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().expect("one"), 50).expect("it starts");
    let arrivals: Vec<Arrivals> = [1, 2].map(|host| Arrivals::at(&live.fabric, host)).into();
    let began = Instant::now();
    if let Err(why) = live.until(0, true, Duration::from_secs(10)) {
        return skip!(Kernel, "nothing is enforced here: {why}");
    }
    let first = until_true(&mut live, "at first");
    let ways = |paths: &BTreeMap<_, Vec<String>>| paths.values().map(|path| path[1].clone()).collect::<Vec<_>>();
    println!("after {:?}: {:?}", began.elapsed(), ways(&first));
    // The leaf sends everything by the spine from now on by which the first flow does not go.
    let other = if ways(&first)[0] == "leaf0:1" { 2 } else { 1 };
    let route = |address: std::net::Ipv4Addr, via: &str, device: &str| {
        let args =
            ["route", "replace", &format!("{address}/32"), "via", via, "dev", device, "onlink"].map(String::from);
        move || Command::new("ip").args(args).status()
    };
    let (spine, addresses) =
        (live.fabric.switches[1 + other].address.to_string(), [1, 2].map(|h| live.fabric.hosts[h].address));
    for address in addresses {
        let status =
            live.fabric.switches[0].ns.run(route(address, &spine, &format!("p{other}"))).expect("in the namespace");
        assert!(status.is_ok_and(|status| status.success()));
    }
    let second = until_true(&mut live, "redrawn");
    assert!(ways(&second).iter().all(|way| *way == format!("leaf0:{other}")), "{second:?}");
    let asked = &ask(&live, "/api/v1/snapshot")["counters"];
    let count = |name: &str| asked[name].as_u64().unwrap_or_else(|| panic!("{name}"));
    println!(
        "after {:?}: {} probes, {} answers",
        began.elapsed(),
        count("route_asked_probe"),
        count("route_answered_probe")
    );
    assert!(count("route_asked_probe") <= began.elapsed().as_secs() + 5, "one a second; connecting took some");
    assert!(count("route_answered_probe") > FLOWS as u64, "one to see the leaf, and one each");
    live.until_done(Duration::from_secs(120)).expect("every byte of the job is right");
    for (arrivals, address) in arrivals.into_iter().zip(addresses) {
        let all = arrivals.all.load(Ordering::Relaxed);
        assert!(all > 500, "the job's packets are counted: {all}");
        assert_eq!(arrivals.few(), 0, "of {all}");
        // And a packet with few hops left that does arrive is seen.
        let arrive = move || {
            let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
            setsockopt(&fd, sockopt::Ipv4Ttl, &4).expect("a hop limit");
            connect(fd.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(address, 9)))
        };
        let refused = live.fabric.hosts[0].ns.run(arrive).expect("in the namespace");
        assert_eq!(refused, Err(nix::errno::Errno::ECONNREFUSED));
        let began = Instant::now();
        while arrivals.few() == 0 && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(arrivals.few(), 1);
        arrivals.end();
    }
}
