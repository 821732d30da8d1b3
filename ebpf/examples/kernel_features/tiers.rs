//! One way of enforcing after the other: opened, made to pace, to give back, and to let go when its process is killed.

use std::time::{Duration, Instant};

use sluice_clock::monotonic;
use sluice_ebpf::{Feature, Kernel, Options, SocketEventKind, Tier};
use sluice_schedule::{Nanos, Rate};

use super::{HOLDER, common, holder, of, row};
use common::{Flow, Kernelled, Net};

/// How long a rate is measured, and what is left away of it before.
const MEASURED: Duration = Duration::from_secs(4);
const SETTLES: Duration = Duration::from_millis(500);
/// A rate that is as near as this is not measured again.
const NEAR: f64 = 0.02;
/// What is ordered, in Mbit/s.
const ORDERED: [u32; 2] = [10, 100];
/// Longer than a rate is measured.
const LIFE: Nanos = Nanos::from_millis(9_000);

fn options(tiers: &[Tier], missing: &[Feature]) -> Option<Options> {
    let options = common::options()?;
    Some(Options { tiers: tiers.to_vec(), pretend_missing: missing.to_vec(), floor: Rate::mbps(1), ..options })
}

/// Which way is found where all are allowed, and why none that is better.
pub fn found(missing: &[Feature]) {
    let Some((net, options)) = common::net_alone().zip(options(&holder::TIERS, missing)) else { return };
    match net.in_a(|| Kernel::open(&options)) {
        Ok(opened) => {
            row("what is found", opened.tier.name());
            let reasons = if opened.reasons.is_empty() { "none".to_owned() } else { opened.reasons.join("; ") };
            row("why not better", &reasons);
            drop(Kernelled { options, opened: Some(opened), seen: Vec::new() });
        }
        Err(why) => row("what is found", &format!("nothing: {why}")),
    }
}

/// All rows of one tier.
pub fn tier(tier: Tier, missing: &[Feature]) {
    let Some((net, options)) = common::net_alone().zip(options(&[tier], missing)) else { return };
    let opened = match net.in_a(|| Kernel::open(&options)) {
        Ok(opened) => opened,
        Err(why) => return row(&of(tier, "opens"), &format!("no: {why}")),
    };
    row(&of(tier, "opens"), "yes");
    if !opened.reasons.is_empty() {
        row(&of(tier, "but"), &opened.reasons.join("; "));
    }
    let mut kernel = Kernelled { options, opened: Some(opened), seen: Vec::new() };
    if tier == Tier::None {
        left_alone(&net, &mut kernel, tier);
    } else {
        paces(&net, &mut kernel, tier);
    }
    let_go(&net, &mut kernel, tier);
}

/// Nothing is captured, nothing is slower.
fn left_alone(net: &Net, kernel: &mut Kernelled, tier: Tier) {
    let flow = Flow::start(net, common::port());
    let taken = kernel.try_to_take(net, common::wanted(&flow.stream, Rate::mbps(10)));
    let rate = flow.rate_over(SETTLES);
    let value = match taken {
        Err(_) if !holder::is_held(&flow) && rate > 20.0 => "yes".to_owned(),
        other => format!("no: {other:?}, {rate:.1} Mbit/s"),
    };
    row(&of(tier, "leaves a flow alone"), &value);
}

fn paces(net: &Net, kernel: &mut Kernelled, tier: Tier) {
    let flow = Flow::start(net, common::port());
    let wanted = common::wanted(&flow.stream, Rate::mbps(50));
    if let Err(refused) = kernel.try_to_take(net, wanted) {
        return row(&of(tier, "takes a connection"), &format!("no: {refused:?}"));
    }
    let opened = kernel.wait_for(|e| e.kind == SocketEventKind::Opened && e.cookie == wanted.cookie);
    let Some(taken) = opened.map(|event| event.row) else {
        return row(&of(tier, "takes a connection"), "no: it was taken, and nobody was told");
    };
    row(&of(tier, "takes a connection"), "yes");
    for mbps in ORDERED {
        let rate = nearest(f64::from(mbps), || {
            kernel.path().order(taken, Rate::mbps(mbps.into()), monotonic().plus(LIFE));
            std::thread::sleep(SETTLES);
            flow.rate_over(MEASURED)
        });
        row(&of(tier, &format!("ordered {mbps} Mbit/s")), &format!("{rate:.2} Mbit/s"));
    }
    kernel.path().release(taken);
    let value = match holder::plain_after(&flow, Instant::now()) {
        Some(_) => format!("yes, to {}", flow.control()),
        None => format!("no: it stays under {}", flow.control()),
    };
    row(&of(tier, "gives back when told"), &value);
}

/// The nearest to what is wanted of as many tries as it takes, three at most: a machine that is busy elsewhere sends late.
fn nearest(wanted: f64, mut measure: impl FnMut() -> f64) -> f64 {
    let mut best = measure();
    for _ in 1..3 {
        if (best / wanted - 1.0).abs() <= NEAR {
            break;
        }
        let again = measure();
        if (again - wanted).abs() < (best - wanted).abs() {
            best = again;
        }
    }
    best
}

/// A process holds a flow and is killed.
fn let_go(net: &Net, kernel: &mut Kernelled, tier: Tier) {
    // Its pins keep what was found; the process takes it over. Connections are made while it is in force, as those of jobs
    // are on kernels that pace no others.
    drop(kernel.opened.take());
    let flows = [Flow::start(net, common::port())];
    let [flow] = &flows;
    let mut process = holder::Holder::of(&[HOLDER], net, &kernel.options, &flows, 20);
    let began = Instant::now();
    let patience = if tier == Tier::None { Duration::from_secs(1) } else { Duration::from_secs(20) };
    while !holder::is_held(flow) && began.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    let held = holder::is_held(flow);
    std::thread::sleep(Duration::from_millis(400));
    let lived = process.lives();
    let killed = Instant::now();
    process.kill();
    let after = holder::plain_after(flow, killed);
    let rate = flow.rate_over(SETTLES);
    let value = match (tier, held, after) {
        _ if !lived => "no: its process ended by itself".to_owned(),
        (Tier::None, false, _) if rate > 20.0 => format!("never held, {rate:.0} Mbit/s"),
        (Tier::None, ..) => format!("no: held {held}, {rate:.1} Mbit/s"),
        (_, false, _) => "no: it was never held".to_owned(),
        (_, true, None) => format!("no: still under {} after 5 s", flow.control()),
        (_, true, Some(took)) => format!("{} ms, then {rate:.0} Mbit/s", took.as_millis()),
    };
    row(&of(tier, "plain after kill -9"), &value);
}
