//! A load generator in band: many hosts, each with an announcement per flow and slot and its echo, through a data plane.
//!
//! Half of the hosts send to the other half, behind two ports of one switch, in a network namespace that this makes for itself
//! (root is needed). A host announces its flows at its place in the slot; the frames go through the switch, are echoed behind it,
//! and come back through it. The data plane runs in a thread of its own, whose processor time is counted, as is what the kernel does
//! for it. Prints one line of JSON:
//!
//! | key | is |
//! | --- | --- |
//! | `exchange_ms` | from a host's first announcement in a slot to its last echo: p50, p90, p99, max |
//! | `missed_slots` | part of the slots in which a host had not all echoes before its next ones |
//! | `cpu_us_per_host_slot` | processor time of the data plane's thread per host and slot |
//! | `announced` | announcements sent |
//! | `counted` | of them, those that came back counted by the switch and with the sum of the link |
//! | `lost` | frames that a socket or a queue of the switch did not take |
//!
//! `cargo run --release -p sluice-data-plane --example inband_load -- 1000 8 20` (hosts, flows of a host, seconds)

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sched::{CloneFlags, unshare};
use nix::time::{ClockId, clock_gettime};
use sluice_data_plane::packet_socket::{OFFLOAD, PacketSocket};
use sluice_data_plane::{DataPlane, Settings, Tally};
use sluice_pipeline::frame::{SLUICE_FRAME, checksum, datagram};
use sluice_schedule::{FlowId, Nanos, Slot};
use sluice_wire::udp::{Kind, LANES, LENGTH, Lane, NO_HOP_YET, Packet, Tuple};

const PORT: u16 = 9604;
const SLOT: Nanos = Nanos::from_millis(60);
/// Where the payload of a frame begins.
const PAYLOAD: usize = 42;
const TABLES: &str = "route 10.0.0.0/16 via 0 02:00:00:00:00:a0 02:00:00:00:00:10
route 10.1.0.0/16 via 1 02:00:00:00:00:a1 02:00:00:00:00:11
link 1 capacity 60000 unit 4 signature 0x000abcde
";

/// What one host waits for.
#[derive(Clone, Copy, Default)]
struct Waiting {
    slot: u32,
    since: Nanos,
    echoes: u32,
}

fn main() {
    let number = |at: usize, other: u32| std::env::args().nth(at).map_or(other, |word| word.parse().expect("a number"));
    let (hosts, flows, seconds) = (number(1, 1000).clamp(1, 65_000), number(2, 8).clamp(1, 200), number(3, 20));
    unshare(CloneFlags::CLONE_NEWNET).expect("root, for a network of its own");
    for line in [
        "link set lo up",
        "link add p0 type veth peer name a0",
        "link add p1 type veth peer name a1",
        "link set a0 address 02:00:00:00:00:a0 txqueuelen 100000 up",
        "link set a1 address 02:00:00:00:00:a1 txqueuelen 100000 up",
        "link set p0 txqueuelen 100000 up",
        "link set p1 txqueuelen 100000 up",
    ] {
        assert!(Command::new("ip").args(line.split(' ')).status().expect("ip").success(), "ip {line}");
    }
    let tables = std::env::temp_dir().join(format!("sluice-inband-load-{}.tables", std::process::id()));
    std::fs::write(&tables, TABLES).expect("a file");
    let interfaces = ["p0", "p1"].map(String::from).to_vec();
    let settings = Settings { interfaces, tables: tables.clone(), udp_port: PORT, slot: SLOT, boot: 1, kernel: true };
    let mut plane = DataPlane::open(&settings).expect("a data plane");
    std::fs::remove_file(&tables).expect("it is there");
    let (stop, tally, spent) = (AtomicBool::new(false), Tally::default(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let used = || {
                let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
                spent.store(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64, Ordering::Relaxed);
            };
            plane.run(&stop, &tally, wall, used).expect("ports that can be waited for");
        });
        generate(hosts, flows, seconds.into(), &tally, &spent);
        stop.store(true, Ordering::Relaxed);
    });
}

fn wall() -> Nanos {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Nanos(u64::try_from(now.as_nanos()).expect("before 2554"))
}

fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + host + 1)
}

fn announcement(host: u32, flow: u32, slot: u32) -> Packet {
    let to = Ipv4Addr::from(0x0a01_0000 + (host + flow) % 60_000 + 1);
    let tuple = Tuple {
        source: address(host),
        destination: to,
        source_port: 1000 + flow as u16,
        destination_port: 5000,
        protocol: 6,
        cookie: 0,
    };
    let id = FlowId(u64::from(host) << 32 | u64::from(flow));
    let lanes = [Lane { new: 1, previous: 1, load_sum: 0, headroom: NO_HOP_YET }; LANES];
    Packet { unit: 4, seq: flow as u16, lanes, ..Packet::new(Kind::Announce, id, Slot(slot), tuple) }
}

/// The frame back: an echo of what came.
fn turned(buffer: &mut [u8]) {
    let frame = &mut buffer[OFFLOAD..];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x11]);
    let ip = &mut frame[14..34];
    let source: [u8; 4] = ip[12..16].try_into().expect("four");
    ip.copy_within(16..20, 12);
    ip[16..20].copy_from_slice(&source);
    ip[8] = 64;
    ip[10..12].fill(0);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    // Version 1, an echo.
    frame[PAYLOAD + 2] = 0x13;
}

fn generate(hosts: u32, flows: u32, seconds: u64, tally: &Tally, spent: &AtomicU64) {
    let [near, far] = ["a0", "a1"].map(|name| PacketSocket::open(name).expect("an interface"));
    std::thread::sleep(Duration::from_millis(500));
    let mut waiting = vec![Waiting::default(); hosts as usize];
    let (mut took, mut missed, mut turns) = (Vec::new(), 0_u64, 0_u64);
    let (mut announced, mut counted) = (0_u64, 0_u64);
    let mut buffer = vec![0; OFFLOAD + 2 * SLUICE_FRAME];
    // Hosts speak one after another, evenly over the slot.
    let place = |host: u32| Nanos(SLOT.0 * u64::from(host) / u64::from(hosts));
    let mut slot = wall().0 / SLOT.0 + 1;
    let mut next = 0;
    let (begun, mut warm) = (Instant::now(), None);
    while begun.elapsed() < Duration::from_secs(seconds + 1) {
        if warm.is_none() && begun.elapsed() > Duration::from_secs(1) {
            warm = Some(spent.load(Ordering::Relaxed));
            (missed, turns, announced, counted) = (0, 0, 0, 0);
            took.clear();
        }
        let now = wall();
        while now.0 >= slot * SLOT.0 + place(next).0 {
            let host = &mut waiting[next as usize];
            turns += u64::from(host.slot != 0);
            missed += u64::from(host.slot != 0 && host.echoes < flows);
            *host = Waiting { slot: slot as u32, since: now, echoes: 0 };
            for flow in 0..flows {
                let packet = announcement(next, flow, slot as u32);
                let mut frame = vec![0; OFFLOAD];
                frame.extend(datagram(packet.tuple.source, packet.tuple.destination, PORT, &packet));
                near.send(&frame);
                announced += 1;
            }
            (next, slot) = if next + 1 == hosts { (0, slot + 1) } else { (next + 1, slot) };
        }
        let mut idle = true;
        for _ in 0..64 {
            let Ok(Some(length)) = far.receive(&mut buffer) else { break };
            idle = false;
            if length == OFFLOAD + SLUICE_FRAME {
                turned(&mut buffer[..length]);
                far.send(&buffer[..length]);
            }
        }
        for _ in 0..64 {
            let Ok(Some(length)) = near.receive(&mut buffer) else { break };
            idle = false;
            let Some(payload) = buffer[..length].get(OFFLOAD + PAYLOAD..OFFLOAD + PAYLOAD + LENGTH) else { continue };
            let Ok(packet) = Packet::decode(payload) else { continue };
            let Some(host) = waiting.get_mut((packet.flow.0 >> 32) as usize) else { continue };
            counted += u64::from(packet.counted == 1 && packet.lanes[0].load_sum > 0);
            if host.slot == packet.slot.0 {
                host.echoes += 1;
                if host.echoes == flows {
                    took.push(wall().minus(host.since));
                }
            }
        }
        if idle {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    let used = spent.load(Ordering::Relaxed) - warm.unwrap_or(0);
    took.sort_unstable();
    let part = |per_mille: usize| {
        took.get((took.len() * per_mille / 1000).min(took.len().saturating_sub(1)))
            .map_or(0.0, |took| took.0 as f64 / 1e6)
    };
    let ports = tally.read().ports;
    let lost: u64 = ports.iter().map(|port| port.refused + port.missed).sum();
    println!(
        "{{\"hosts\":{hosts},\"flows\":{flows},\"exchange_ms\":[{:.3},{:.3},{:.3},{:.3}],\"missed_slots\":{:.5},\"cpu_us_per_host_slot\":{:.2},\"announced\":{announced},\"counted\":{counted},\"lost\":{lost}}}",
        part(500),
        part(900),
        part(990),
        part(1000),
        missed as f64 / turns.max(1) as f64,
        used as f64 / 1000.0 / turns.max(1) as f64,
    );
}
