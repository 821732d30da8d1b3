//! What a flow takes beyond its order: the program's rule against its twin, and on real TCP.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use sluice_clock::monotonic;
use sluice_ebpf::Row;
use sluice_schedule::event::Allowance;
use sluice_schedule::path::{Signs, Surplus};
use sluice_schedule::{Nanos, Rate};

use crate::common;
use crate::draws::Draws;

/// Runs the header's function on one look per line: `order link now rtt queue lost app_limited yields`. A line of zeros begins anew.
const HARNESS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <linux/types.h>
#define INLINE static inline
#include "sluice_surplus.h"
int main(void)
{
	struct sluice_surplus s = {0};
	unsigned long long order, link, now, rtt, queue;
	unsigned lost, limited, yields;

	while (scanf("%llu %llu %llu %llu %llu %u %u %u", &order, &link, &now, &rtt, &queue, &lost, &limited, &yields) == 8) {
		struct surplus_signs signs = { now, rtt, queue, lost, limited, yields };

		if (!now)
			memset(&s, 0, sizeof(s));
		printf("%llu\n", (unsigned long long)surplus_look(&s, order, link, &signs));
	}
	return 0;
}
"#;

/// One look of a trace.
struct Look {
    order: Rate,
    link: Rate,
    signs: Signs,
}

/// A connection's looks: one link, orders that change now and then, losses now and then.
fn trace(draws: &mut Draws) -> Vec<Look> {
    let bits = 10 + draws.below(30);
    let link = 1 + draws.below(1 << bits);
    let losses = 2 + draws.below(40);
    let yields = draws.below(3) == 0;
    let (mut order, mut now, mut lost) = (draws.below(link + 2), 0, draws.below(3) as u32);
    let look = |_| {
        let forbidden = draws.below(50) == 0;
        if draws.below(30) == 0 {
            order = draws.below(link + 2);
        }
        if draws.below(losses) == 0 {
            lost = lost.wrapping_add(draws.below(50) as u32);
        }
        let rtt = Nanos(draws.below(5_000_000));
        let app_limited = draws.below(10) == 0;
        let queue = Nanos(draws.below(1_500_000));
        let signs = Signs { now: Nanos(now), rtt, queue, lost, app_limited, yields };
        now += 1 + draws.below(4_000_000);
        Look { order: Rate(order), link: Rate(if forbidden { 0 } else { link }), signs }
    };
    (0..300).map(look).collect()
}

#[test]
fn the_program_and_its_twin_take_the_same() {
    let mut draws = Draws(7);
    let traces: Vec<Vec<Look>> = (0..300).map(|_| trace(&mut draws)).collect();
    let dir = tempfile::tempdir().expect("a directory");
    let (source, binary) = (dir.path().join("surplus.c"), dir.path().join("surplus"));
    std::fs::write(&source, HARNESS).expect("written");
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/bpf");
    let built = Command::new("cc").args([include, "-O1", "-o"]).arg(&binary).arg(&source).status().expect("cc");
    assert!(built.success(), "the header does not compile as user-space C");
    let mut input = String::new();
    for Look { order, link, signs } in traces.iter().flatten() {
        let Signs { now, rtt, queue, lost, app_limited, yields } = signs;
        let (limited, yields) = (u32::from(*app_limited), u32::from(*yields));
        writeln!(input, "{} {} {} {} {} {lost} {limited} {yields}", order.0, link.0, now.0, rtt.0, queue.0)
            .expect("a string takes it");
    }
    let mut harness = Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = harness.stdin.take().expect("piped");
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = harness.wait_with_output().expect("it ends");
    feeder.join().expect("no panic").expect("it reads all");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut of_program = text.lines().map(|line| Rate(line.parse().expect("a number")));
    let (mut taken, mut cuts) = (0, 0);
    for (number, trace) in traces.iter().enumerate() {
        let (mut twin, mut before) = (Surplus::default(), Rate::ZERO);
        for (at, look) in trace.iter().enumerate() {
            let extra = twin.look(look.order, look.link, look.signs);
            assert_eq!(of_program.next(), Some(extra), "trace {number}, look {at}, after {before}");
            taken += u32::from(extra > before);
            cuts += u32::from(extra < before);
            before = extra;
        }
    }
    assert!(taken > 1_000 && cuts > 1_000, "the traces show too little: {taken} {cuts}");
    assert_eq!(of_program.next(), None);
}

/// Orders the same again and again, as a daemon does, while `look` runs.
fn held<T>(
    kernel: &mut common::Kernelled,
    row: Row,
    rate: u64,
    surplus: Option<Allowance>,
    look: impl FnOnce() -> T,
) -> T {
    let expires = monotonic().plus(Nanos::from_millis(9_000));
    kernel.path().order_with(row, Rate::mbps(rate), surplus, expires);
    look()
}

/// Of a bottleneck of 100 Mbit/s, what a flow takes that is ordered 20: alone, with a surplus, and without it again; and the
/// retransmissions with it.
struct Alone {
    without: f64,
    with: f64,
    again: f64,
    retransmits: u64,
}

fn allowed(yields: bool) -> Option<Allowance> {
    Some(Allowance { up_to: Rate::mbps(100), yields })
}

fn alone(net: &common::Net, yields: bool) -> Option<Alone> {
    if !net.limit(100, 250_000) {
        return None;
    }
    let port = common::port();
    let mut kernel = common::open(net, common::options()?)?;
    let flow = common::Flow::start(net, port);
    let row = kernel.take(net, &flow.stream).expect("an Opened event");
    let look = |time| {
        std::thread::sleep(Duration::from_millis(200));
        flow.rate_over(Duration::from_millis(time))
    };
    let without = held(&mut kernel, row, 20, None, || look(500));
    let with = held(&mut kernel, row, 20, allowed(yields), || look(2_000));
    let surplus = kernel.path().stats(row).expect("a live row").surplus;
    let retransmits = flow.retransmits();
    let again = held(&mut kernel, row, 20, None, || look(500));
    let after = kernel.path().stats(row).expect("a live row");
    eprintln!("{without:.1}, with a surplus {with:.1} ({surplus}), without {again:.1}; {retransmits} retransmits");
    assert!(surplus > Rate::ZERO && surplus <= Rate::mbps(80), "{surplus}");
    assert_eq!((after.surplus, after.pacing_rate), (Rate::ZERO, Rate::mbps(20)), "it is gone with the permission");
    Some(Alone { without, with, again, retransmits })
}

#[test]
fn a_flow_takes_what_its_link_has_left_and_gives_it_back_when_told() {
    for yields in [false, true] {
        let Some(alone) = common::quiet(|net| alone(net, yields)) else { return };
        assert!((15.0..23.0).contains(&alone.without) && (15.0..23.0).contains(&alone.again));
        assert!(alone.with > 50.0, "{}", alone.with);
        assert!(alone.retransmits < 3_000, "{}", alone.retransmits);
    }
}

/// Mbit/s of a flow ordered 20 of 100 with a surplus, and of CUBIC beside it; and the first one's control at the end.
fn beside_cubic(net: &common::Net, yields: bool) -> Option<(f64, f64, String)> {
    if !net.limit(100, 250_000) {
        return None;
    }
    let port = common::port();
    let mut kernel = common::open(net, common::options()?)?;
    let flow = common::Flow::start(net, port);
    let row = kernel.take(net, &flow.stream).expect("an Opened event");
    let cubic = common::Flow::start(net, port + 1);
    setsockopt(&cubic.stream, TcpCongestion, &"cubic".into()).expect("cubic");
    let look = || {
        std::thread::sleep(Duration::from_millis(500));
        let before = cubic.received.load(std::sync::atomic::Ordering::Relaxed);
        let ours = flow.rate_over(Duration::from_secs(3));
        (ours, (cubic.received.load(std::sync::atomic::Ordering::Relaxed) - before) as f64 * 8e-6 / 3.0)
    };
    let (ours, theirs) = held(&mut kernel, row, 20, allowed(yields), look);
    let counters = kernel.path().counters();
    eprintln!("ordered 20 and a surplus: {ours:.1}; cubic beside it {theirs:.1} Mbit/s; {counters:?}");
    assert!(yields || counters.surplus_cuts > 0, "a loss cuts it");
    Some((ours, theirs, flow.control()))
}

/// Promises: P-14
#[test]
fn beside_ordinary_tcp_it_keeps_its_order_and_starves_nobody() {
    for (yields, least) in [(false, 15.0), (true, 55.0)] {
        let Some((ours, theirs, control)) = common::quiet(|net| beside_cubic(net, yields)) else { return };
        assert!(ours > 17.0, "{ours}");
        assert!(theirs > least, "{theirs}, where it yields {yields}");
        assert!(control.starts_with("sluice"), "the losses of the surplus are none of the order's");
    }
}
