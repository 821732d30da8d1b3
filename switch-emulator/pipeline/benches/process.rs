//! One packet through the pipeline, two thousand flows of sixteen ports by turns: an announcement, a probe, and a plain
//! segment, each copied into place first.

use std::net::Ipv4Addr;

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_pipeline::egress::Link;
use sluice_pipeline::routes::{Action, NextHop};
use sluice_pipeline::{Switch, UDP_PORT, frame};
use sluice_schedule::{FlowId, Slot};
use sluice_wire::udp::{Kind, LANES, Lane, NO_HOP_YET, Packet, Tuple};

const FLOWS: u32 = 2000;
const PORTS: u16 = 16;
const SLOT: u32 = 29_000_000;
/// Where a frame has the packet's slot; the wrap lane is seven bytes further on.
const SLOT_AT: usize = 42 + 16;

fn switch() -> Switch {
    let mut switch = Switch::new(UDP_PORT);
    for port in 0..PORTS {
        let hop = NextHop { port, destination: [2; 6], source: [4; 6] };
        switch.set_route(format!("10.0.{port}.0/24").parse().unwrap(), Action::Hop(hop));
        switch.set_link(port, Some(Link { capacity: 25_000, unit: 0, signature: u32::from(port) }));
    }
    switch.set_guard(Some(Slot(SLOT)));
    switch
}

fn frames(kind: Kind, slot: Slot) -> Vec<Vec<u8>> {
    let frame = |flow: u32| {
        let destination = Ipv4Addr::new(10, 0, (flow % u32::from(PORTS)) as u8, 1);
        let source = Ipv4Addr::new(10, 1, 0, 1);
        let packet = Packet {
            kind,
            flags: 0,
            unit: 0,
            hops: 0,
            counted: 0,
            flow: FlowId(u64::from(flow) << 32 | 7),
            slot,
            seq: 0,
            had_previous: 0,
            wrap: ((slot.0 + 9) % 10) as u8,
            path_sig: 0,
            tuple: Tuple { source, destination, source_port: 1, destination_port: 2, protocol: 6, cookie: 0 },
            lanes: [Lane { new: 12, previous: 12, load_sum: 0, headroom: NO_HOP_YET }; LANES],
        };
        frame::datagram(source, destination, UDP_PORT, &packet)
    };
    (0..FLOWS).map(frame).collect()
}

fn process(c: &mut Criterion) {
    let mut switch = switch();
    let mut segments = frames(Kind::Probe, Slot(SLOT));
    for segment in &mut segments {
        segment[23] = 6;
        segment[24..26].fill(0);
        let sum = frame::checksum(&segment[14..34]);
        segment[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let announced = frames(Kind::Announce, Slot(SLOT));
    let probes = frames(Kind::Probe, Slot(SLOT));
    let mut place = [0; frame::SLUICE_FRAME];
    let mut run = |name: &str, frames: &[Vec<u8>]| {
        let mut at = 0;
        c.bench_function(&format!("pipeline/{name}"), |b| {
            b.iter(|| {
                place.copy_from_slice(&frames[at % FLOWS as usize]);
                // All flows speak once in a period, so that announcements are counted and not taken for copies.
                let slot = SLOT + (at / FLOWS as usize) as u32;
                switch.set_guard(Some(Slot(slot)));
                if name != "segment" {
                    place[SLOT_AT..SLOT_AT + 4].copy_from_slice(&slot.to_be_bytes());
                    place[SLOT_AT + 7] = ((slot + 9) % 10) as u8;
                }
                at += 1;
                switch.process(0, &mut place)
            });
        });
    };
    run("announcement", &announced);
    run("probe", &probes);
    run("segment", &segments);
    let counted: u64 = (0..PORTS).map(|port| switch.counters().of_port(port).announcements).sum();
    let copies: u64 = (0..PORTS).map(|port| switch.counters().of_port(port).duplicates).sum();
    assert!(counted > copies, "what is timed is counting");
}

criterion_group!(benches, process);
criterion_main!(benches);
