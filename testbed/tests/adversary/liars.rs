//! A2: what a tenant gains by pages that lie, on the whole system: real daemons that enforce, a real switch, real flows.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluice_progress::{Page, Peer, PeerKind, State};
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::{FabricSpec, NetNs};
use sluice_testbed::run::{JobPlan, Placement, Policy, RunPlan};

use crate::attacker::{Local, PATIENCE, Who, ident, turn};
use crate::programs::{binaries, jobs, value};

/// Nobody interrupts a test.
pub static NEVER: AtomicBool = AtomicBool::new(false);
/// Where the liar's bytes go.
const PORT: u16 = 39_990;

/// A fabric of two hosts under daemons, with one honest job, a ring, of rounds of 4 MB.
pub fn fabric(dir: &Path, rate: Rate) -> Live {
    fabric_of(dir, rate, Bytes(4_000_000), "")
}

/// The same with rounds of this size, and further keys of the daemons' `[schedule]`.
pub fn fabric_of(dir: &Path, rate: Rate, round: Bytes, schedule: &str) -> Live {
    let programs = binaries();
    let fabric = FabricSpec::star(2, rate, Bytes(250_000));
    let honest = JobPlan { compute: vec![Nanos::from_millis(5)], ..JobPlan::ring("honest", 2, round, 100_000) };
    let schedule = schedule.to_owned();
    let plan = RunPlan { name: "adversary".into(), fabric, jobs: vec![honest], schedule, ..RunPlan::default() };
    let place = Placement { workers: vec![0, 1], servers: Vec::new() };
    let bench = Bench { binaries: &programs, dir: dir.to_owned(), stop: &NEVER };
    let mut live =
        Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().expect("a policy"), 20).expect("a run");
    live.until(0, true, Duration::from_secs(20)).expect("flows are managed");
    // As a daemon makes it where there is none: everybody may publish there.
    live.daemons.progress_dirs().iter().for_each(|dir| crate::attacker::allow(dir, 0o1777));
    live
}

pub fn snapshot(live: &Live) -> serde_json::Value {
    serde_json::from_str(&live.daemons.get(0, "/api/v1/snapshot").expect("it answers")).expect("JSON")
}

fn metrics(live: &Live) -> String {
    live.daemons.get(0, "/metrics").expect("it answers")
}

/// Lets the run go on until it is so.
pub fn until(live: &mut Live, what: &str, mut so: impl FnMut(&Live) -> bool) {
    let began = std::time::Instant::now();
    while !so(live) {
        assert!(began.elapsed() < PATIENCE, "never happened: {what}");
        live.run_for(Duration::from_millis(100)).expect("the job goes on");
    }
}

/// Somebody in the cgroup and the network namespace of host 0's jobs, as a container with the host's network is.
fn tenant(live: &Live, uid: u32) -> Who {
    let cgroup = Some(live.fabric.cgroups.jobs(0).path().to_owned());
    Who { uid, net_of: Some(live.fabric.hosts[0].ns.tid()), cgroup }
}

/// Established connections of this network namespace, as anybody can read them.
fn connections() -> Vec<(SocketAddr, SocketAddr)> {
    let text = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("readable");
    let address = |word: &str| -> Option<SocketAddr> {
        let (ip, port) = word.split_once(':')?;
        let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.swap_bytes());
        Some(SocketAddrV4::new(ip, u16::from_str_radix(port, 16).ok()?).into())
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let established = words.get(3) == Some(&"01");
        Some((address(words.get(1)?)?, address(words.get(2)?)?)).filter(|_| established)
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// a page that names another user's connections as its own.
#[test]
fn a_page_speaks_for_its_own_users_connections_only() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let mut live = fabric(dir.path(), Rate::mbps(200));
    let pages = live.daemons.progress_dirs()[0].clone();
    let flows_of = |live: &Live, job: &str| {
        let snapshot = snapshot(live);
        let all = snapshot["flows"].as_array().expect("a list").iter();
        (all.filter(|flow| flow["job"] == job).count(), jobs(&snapshot))
    };
    // A snapshot is of a moment before.
    until(&mut live, "its flows are told", |live| flows_of(live, "honest").0 > 0);
    let (before, _) = flows_of(&live, "honest");
    let (_attacker, named) = Local::start(tenant(&live, crate::attacker::ATTACKER), || {
        let theirs: Vec<_> =
            connections().into_iter().filter(|(_, to)| to.ip().to_string().starts_with("10.")).collect();
        let mut thief = ident("thief");
        thief.hint_iter_bytes = 1;
        let page = Page::create(&pages, thief).expect("a page");
        for (local, remote) in &theirs {
            let kind = PeerKind::Connected;
            let _ = page.peer(&Peer { rank: None, kind, local: *local, remote: *remote, cookie: 0, tx_bytes: 0 });
        }
        page.iteration();
        page.enqueue(1, 1);
        page.net_begin();
        std::mem::forget(page);
        theirs.len()
    });
    assert!(named > 0, "connections of others can be seen");
    until(&mut live, "the claim was refused", |live| {
        value(&metrics(live), "sluice_refused_total{what=\"connection\"}") >= 1.0
    });
    live.run_for(Duration::from_secs(1)).expect("the job goes on");
    let (of_thief, known) = flows_of(&live, "thief");
    assert_eq!(of_thief, 0, "{known:?}");
    assert_eq!(flows_of(&live, "honest").0, before, "the job whose connections they are keeps them");
}

/// Takes all that comes to it, in a host's namespace, until the test ends.
fn sink(ns: &NetNs, at: SocketAddr) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let body = move || {
        let listener = TcpListener::bind(at).expect("bound");
        ready.send(()).expect("the test waits");
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut buffer = vec![0; 1 << 18];
                while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
            });
        }
    };
    drop(ns.thread("sink", body).expect("a thread"));
    is_ready.recv().expect("it listens");
}

/// What a tenant says of the bytes that it sends without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    /// Rounds of 4 MB, which is so.
    Truth,
    /// Rounds of 64 kB, one after the other: always the one with the least left.
    Short,
    /// Rounds of a tebibyte.
    Huge,
    /// A new iteration with every write, and rounds that end before they begin.
    Nonsense,
    /// Rounds of 64 kB, each of which claims to have a thousand times that.
    Padded,
}

/// Sends without a pause and says something of that; what was acknowledged is in the file.
fn send(says: Says, to: SocketAddr, pages: &Path, report: &Path) {
    let mut stream = TcpStream::connect(to).expect("connected");
    let page = Page::create(pages, ident(&format!("{says:?}").to_lowercase())).expect("a page");
    let (local, remote) = (stream.local_addr().expect("an address"), stream.peer_addr().expect("an address"));
    let _ = page.peer(&Peer { rank: Some(1), kind: PeerKind::Connected, local, remote, cookie: 0, tx_bytes: 0 });
    let report = report.to_owned();
    let sent = std::sync::Arc::new(AtomicU64::new(0));
    let counted = sent.clone();
    let socket = stream.try_clone().expect("a copy");
    std::thread::spawn(move || {
        loop {
            let acked = acknowledged(&socket).unwrap_or(counted.load(Ordering::Relaxed));
            let _ = std::fs::write(&report, acked.to_string());
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    std::thread::spawn(move || {
        let chunk = vec![0; 64 << 10];
        let round: u64 = 4_000_000;
        let mut left = 0_u64;
        loop {
            if left == 0 {
                page.iteration();
                left = match says {
                    Says::Truth | Says::Nonsense => round,
                    Says::Short | Says::Padded => chunk.len() as u64,
                    Says::Huge => 1 << 40,
                };
                let claim = if says == Says::Padded { 1_000 * left } else { left };
                page.enqueue(claim, claim);
                page.net_begin();
            }
            if stream.write_all(&chunk).is_err() {
                return;
            }
            sent.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            left = left.saturating_sub(chunk.len() as u64);
            if says == Says::Nonsense {
                page.iteration();
                page.enqueue(u64::MAX / 8, 1);
                page.state(State::Compute);
                page.state(State::OnWire);
            }
            if left == 0 {
                page.net_end();
            }
        }
    });
}

fn acknowledged(socket: &TcpStream) -> Option<u64> {
    let mut raw = [0_u8; 256];
    let mut length = raw.len() as libc::socklen_t;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket.as_fd());
    // SAFETY: buffer and length belong together; the kernel writes at most so many bytes.
    let got =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), &raw mut length) };
    // tcpi_bytes_acked, include/uapi/linux/tcp.h.
    (got == 0).then(|| u64::from_ne_bytes(raw[120..128].try_into().expect("eight bytes")))
}

/// What both got beside each other, Mbit/s: the honest job, and the one that says this.
fn beside(live: &mut Live, says: Says, report: &Path) -> (f64, f64) {
    let to = SocketAddr::from((live.fabric.layout.rail_address(1, 0), PORT));
    let pages: PathBuf = live.daemons.progress_dirs()[0].clone();
    let _ = std::fs::write(report, "0");
    crate::attacker::allow(report, 0o666);
    let (liar, ()) = Local::start(tenant(live, crate::attacker::ATTACKER), || send(says, to, &pages, report));
    let job = format!("{says:?}").to_lowercase();
    until(live, "what it says is read", |live| jobs(&snapshot(live)).contains(&job));
    live.run_for(Duration::from_millis(1_500)).expect("the job goes on");
    // While it is written anew it is empty for a moment.
    let once = || std::fs::read_to_string(report).ok().and_then(|text| text.parse::<u64>().ok());
    let again = |_| {
        once().or_else(|| {
            std::thread::sleep(Duration::from_millis(1));
            None
        })
    };
    let read = || (0..1000).find_map(again).expect("it says what was acknowledged");
    let (from, began) = (sluice_testbed::job::now(), read());
    live.run_for(Duration::from_secs(3)).expect("the job goes on");
    let (to, ended) = (sluice_testbed::job::now(), read());
    let liar_rate = ended.saturating_sub(began) as f64 * 8e3 / (to - from) as f64;
    let honest = live.rate(0, from, to);
    drop(liar);
    (honest, liar_rate)
}

/// claims of huge rounds, of rounds without end of the least size, of nonsense, and of far more than is sent,
/// beside an honest job on one link. What the kernel's counts contradict is ignored, and counted.
/// Promises: P-13
#[test]
fn a_lie_buys_no_more_than_a_bounded_advantage() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let mut live = fabric(dir.path(), Rate::mbps(200));
    sink(&live.fabric.hosts[1].ns, (live.fabric.layout.rail_address(1, 0), PORT).into());
    let report = dir.path().join("acknowledged");
    let mut got = BTreeMap::new();
    let ignored = |live: &Live| value(&metrics(live), "sluice_refused_total{what=\"page_claim\"}");
    for says in [Says::Truth, Says::Huge, Says::Short, Says::Nonsense, Says::Padded] {
        let before = ignored(&live);
        let (honest, liar) = beside(&mut live, says, &report);
        match says {
            Says::Truth => assert_eq!(ignored(&live), before, "an honest page is ignored"),
            Says::Padded => until(&mut live, "its page is ignored", |live| ignored(live) > before),
            Says::Huge | Says::Short | Says::Nonsense => {}
        }
        println!("{says:?}: the honest job {honest:.1} Mbit/s, the other {liar:.1} Mbit/s");
        got.insert(says, (honest, liar));
    }
    let fair = got[&Says::Truth];
    assert!(fair.0 > 40.0 && fair.1 > 40.0, "both are honest, and one has nothing: {got:?}");
    for (says, (honest, liar)) in &got {
        // Half of nothing is nothing: the link is used, and the liar takes part.
        assert!(honest + liar > 100.0 && *liar > 1.0, "{says:?}: {got:?}");
        // P-13, in a short window: half of what both would have of the link.
        assert!(*honest >= 0.5 * 0.5 * (honest + liar), "{says:?}: {got:?}");
    }
}
