//! Frames that come faster than a data plane reads them: each is forwarded or counted as lost, and none is neither.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_data_plane::packet_socket::{OFFLOAD, PacketSocket, Sent};
use sluice_data_plane::{Counted, DataPlane, Settings, Tally};
use sluice_pipeline::{UDP_PORT, frame};
use sluice_schedule::Nanos;

use crate::support::{PATIENCE, Switch, slot};
use crate::twin::{HOST_A, HOST_B, probe};

/// Bytes of a frame.
const FRAME: usize = 1514;
/// So many are 30 MB: the kernel gives a socket twice the 8 MiB that it asks for, and counts what frames take in memory.
const FRAMES: u64 = 20_000;
/// Some fit for sure, and some do not.
const SOME: u64 = FRAMES / 20;
/// Out of port 1 goes what comes in by port 0.
const TABLES: &str = "route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01\n";

/// Makes this thread's own network that of a switch with two ports, `p0` and `p1`, whose far ends are `far0` and `far1`; false
/// where that may not be. It is gone with the thread.
pub fn become_switch() -> bool {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        return false;
    }
    // Nobody but the test sends. A kernel without IPv6 has no such key.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
    let pairs = ["link add p0 type veth peer name far0", "link add p1 type veth peer name far1"].map(str::to_owned);
    let up = ["lo", "p0", "p1", "far0", "far1"].map(|device| format!("link set {device} up"));
    for line in pairs.into_iter().chain(up) {
        let made = Command::new("ip").args(line.split_whitespace()).status();
        assert!(made.is_ok_and(|status| status.success()), "ip {line}");
    }
    true
}

/// A packet of ours, which nobody but the pipeline forwards, in a frame that is filled up; behind what the kernel is told of it.
fn filled() -> Vec<u8> {
    let mut packet = frame::datagram(HOST_A, HOST_B, UDP_PORT, &probe(slot()));
    packet.resize(FRAME, 0);
    [vec![0; OFFLOAD], packet].concat()
}

/// Packets that a device of this thread's network has sent: those that arrived at its other end.
fn sent_by(device: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines.find(|(name, _)| name.trim() == device).unwrap();
    // Eight numbers of what it received stand first, then bytes.
    numbers.split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// Sends the frames into `p0` from its far end, and says how many arrived there.
fn flood() -> u64 {
    let far = PacketSocket::open("far0").unwrap();
    let (bytes, before) = (filled(), sent_by("far0"));
    let taken = (0..FRAMES).filter(|_| far.send(&bytes) == Sent::Taken).count() as u64;
    let arrived = sent_by("far0") - before;
    assert!(arrived <= taken && arrived > FRAMES / 2, "{arrived} of {taken} taken frames arrived");
    arrived
}

#[test]
fn what_comes_while_nobody_reads_is_lost_beyond_the_buffer_and_the_sum_is_what_was_sent() {
    if !become_switch() {
        return sluice_skip::skip!(Privilege, "no network namespace");
    }
    let dir = tempfile::tempdir().unwrap();
    let tables = dir.path().join("s0.tables");
    std::fs::write(&tables, TABLES).unwrap();
    let interfaces = ["p0", "p1"].map(String::from).to_vec();
    let slot = Nanos::from_millis(5);
    let settings = Settings { interfaces, tables, udp_port: UDP_PORT, slot, boot: 7, kernel: false };
    let mut plane = DataPlane::open(&settings).unwrap();
    let arrived = flood();

    let (stop, tally, began) = (AtomicBool::new(false), Tally::default(), Instant::now());
    let sum = |counted: &Counted| -> u64 {
        let ports = counted.ports.iter().map(|port| port.counters.frames + port.missed);
        ports.chain(counted.drops.iter().map(|(_, drops)| *drops)).sum()
    };
    // Until it has read all that there is, and some slots more: nothing may be counted twice.
    let mut complete = 0;
    let each_slot = || {
        complete += u32::from(sum(&tally.read()) >= arrived);
        if complete > 5 || began.elapsed() > PATIENCE {
            stop.store(true, Ordering::Relaxed);
        }
    };
    plane.run(&stop, &tally, sluice_clock::realtime, each_slot).unwrap();
    let counted = tally.read();
    let [p0, p1] = counted.ports.as_slice() else { panic!("{counted:?}") };
    assert!(p0.missed > SOME && p1.counters.frames > SOME, "{counted:?}");
    assert_eq!(p0.missed + p1.counters.frames, arrived, "{counted:?}");
    assert_eq!((p0.counters.frames, p1.missed), (0, 0), "{counted:?}");
    assert_eq!(p1.counters.bytes, p1.counters.frames * FRAME as u64);
    assert!(counted.drops.iter().all(|(_, drops)| *drops == 0), "{counted:?}");
    assert_eq!(p0.interface, "p0");
}

/// Are all threads of a process stopped?
pub fn is_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default());
    stats.all(|stat| stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('T')))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_that_stood_still_shows_what_it_lost_meanwhile_and_forwards_the_rest() {
    if !become_switch() {
        return sluice_skip::skip!(Privilege, "no network namespace");
    }
    let dir = tempfile::tempdir().unwrap();
    let tables = dir.path().join("s0.tables");
    std::fs::write(&tables, TABLES).unwrap();
    let switch = Switch::of(&format!(
        "clock.require_sync = false\n[listen]\ngrpc = \"127.0.0.1:0\"\nudp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n\
         [data_plane]\ninterfaces = [\"p0\", \"p1\"]\ntables = {:?}\n\
         [[switches]]\nname = \"s0\"\nports = [{{ id = 0, to = \"h0\", gbps = 10 }}, {{ id = 1, to = \"h1\", gbps = 10 }}]\n",
        tables.display().to_string()
    ));
    let pid = Pid::from_raw(switch.pid() as i32);
    let lost = |port: &str, place: &str| {
        let line = format!("sluice_switchd_lost_frames_total{{interface=\"{port}\",where=\"{place}\"}}");
        switch.metric(&line).map(|count| count as u64)
    };
    let forwarded = || {
        let line = "sluice_switchd_forwarded_frames_total{interface=\"p1\"}";
        switch.metric(line).map(|count| count as u64)
    };
    until("is anything shown", || lost("p0", "socket") == Some(0));
    kill(pid, Signal::SIGSTOP).unwrap();
    until("does it stand still", || is_stopped(switch.pid()));
    let arrived = flood();
    kill(pid, Signal::SIGCONT).unwrap();

    let mut seen = (0, 0);
    until("is every frame accounted for", || {
        // What is shown is up to a second old, and the two may be of two moments: never too much.
        seen = (lost("p0", "socket").unwrap_or(0), forwarded().unwrap_or(0));
        assert!(seen.0 + seen.1 <= arrived, "{seen:?} of {arrived}");
        seen.0 + seen.1 == arrived
    });
    assert!(seen.0 > SOME && seen.1 > SOME, "{seen:?} of {arrived}");
    assert_eq!(lost("p1", "socket"), Some(0), "nothing came there");
    let dropped = switch.get("/metrics");
    let dropped: Vec<&str> =
        dropped.lines().filter(|line| line.starts_with("sluice_switchd_dropped_frames_total")).collect();
    assert!(dropped.len() == 5 && dropped.iter().all(|line| line.ends_with(" 0")), "{dropped:?}");
}
