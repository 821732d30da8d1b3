//! C5 and C8: a host and its switch do not hear each other, in several ways, and hear each other again.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use sluice_impairment::Dropper;
use sluice_schedule::Rate;
use sluice_wire::snapshot::{Snapshot, View};

use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Setting, Size, Stage, Unrun, also, ms, silence_bound};
use crate::chaos::proxy::{Proxy, Way};
use crate::fabric::{Fabric, FabricError};
use crate::run::RunError;

const SLOT_MS: f64 = 60.0;
/// A daemon that is asked shows something new after so long at the latest.
const SHOWN_MS: f64 = 250.0;
/// The longest pause before a connection is tried again.
const RECONNECT_MS: f64 = 5_000.0;
/// How long a host is cut off: past the horizon of ten slots, and past what a connection bears.
const CUT: Duration = Duration::from_millis(3_000);
/// A flow keeps this part of its order in the first two slots, and no slot's order is this many times another's.
const KEPT: f64 = 0.9;
const STEP: f64 = 2.0;

/// How a host is cut off from its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Both,
    FromHost,
    ToHost,
    Half,
    Late,
}

impl Cut {
    const ALL: [Cut; 5] = [Cut::Both, Cut::FromHost, Cut::ToHost, Cut::Half, Cut::Late];

    fn name(self) -> &'static str {
        match self {
            Cut::Both => "both ways",
            Cut::FromHost => "only what the host says is lost",
            Cut::ToHost => "only what the switch says is lost",
            Cut::Half => "half of all packets lost",
            Cut::Late => "answers 500 ms late",
        }
    }
}

/// A cut under way; most end with this value.
enum Held {
    Link,
    Loss { droppers: Vec<Dropper> },
    Late,
}

fn dropper(ns: &crate::fabric::NetNs, device: &str, probability: f64) -> Result<Dropper, Unrun> {
    let device = device.to_owned();
    let attached = ns.run(move || Dropper::attach(&device, probability))?;
    attached.map_err(|why| Unrun::Lacks(format!("packets cannot be dropped here: {why}")))
}

/// Packets of host 0's management cable are lost.
fn lose(fabric: &Fabric, from_host: f64, to_host: f64) -> Result<Held, Unrun> {
    let mut droppers = Vec::new();
    if from_host > 0.0 {
        droppers.push(dropper(&fabric.hosts[0].ns, "mgmt0", from_host)?);
    }
    if to_host > 0.0 {
        // Its end in the bridge.
        droppers.push(dropper(&fabric.management, "m0", to_host)?);
    }
    Ok(Held::Loss { droppers })
}

/// A relay in front of the switch for host 0 alone.
fn relayed(ground: &Ground<'_>, setting: &Setting) -> Result<(Stage, Proxy), Unrun> {
    // Its port must be known before the daemon starts, so the relay listens on the host's own loopback, once there is a host.
    let mut stage = ground.stage(setting)?;
    let to = SocketAddrV4::new(stage.live.fabric.management_address, 9604);
    let proxy = Proxy::start(&stage.live.fabric.hosts[0].ns, std::net::Ipv4Addr::LOCALHOST, to)?;
    let text = format!("[[switches]]\nname = \"s0\"\naddress = \"{}\"\n", proxy.address);
    also(&stage.dir, "h0", &text)?;
    stage.live.daemons.end(0)?;
    stage.restart(0)?;
    stage.captured()?;
    if stage.until(0, Duration::from_secs(10), is_fresh)?.is_none() {
        return Err(RunError::Plan(format!(
            "the daemon does not hear the switch through a relay at {}",
            proxy.address
        ))
        .into());
    }
    stage.live.run_for(Duration::from_secs(1))?;
    Ok((stage, proxy))
}

/// All holders that a host asks count fully.
fn is_fresh(seen: &Snapshot) -> bool {
    !seen.switches.is_empty() && seen.switches.iter().all(|switch| switch.view == View::Fresh)
}

/// Orders of host 0's flows together, and since when, over time.
fn orders(stage: &mut Stage, time: Duration) -> Result<Vec<(f64, f64)>, RunError> {
    let began = Instant::now();
    let mut seen = Vec::new();
    while began.elapsed() < time {
        let at = began.elapsed().as_secs_f64() * 1e3;
        if let Some(snapshot) = stage.snapshot(0) {
            seen.push((at, snapshot.flows.iter().filter_map(|flow| flow.ordered_bps).sum::<u64>() as f64));
        }
        stage.live.run_for(Duration::from_millis(30))?;
    }
    Ok(seen)
}

/// C5: cut off in each way, and healed.
/// Promises: P-2, P-15
pub fn cut(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut figures = Vec::new();
    let floor = Rate::mbps(10);
    for cut in Cut::ALL {
        let left_out = match ground.size {
            Size::Full => false,
            Size::Core => cut == Cut::Late || cut == Cut::ToHost,
            Size::Small => cut != Cut::Both,
        };
        if left_out {
            continue;
        }
        let setting = Setting::of("partition", 4, Rate::mbps(200));
        let (mut stage, proxy) = match cut {
            Cut::Late => relayed(ground, &setting).map(|(stage, proxy)| (stage, Some(proxy)))?,
            _ => (ground.stage(&setting)?, None),
        };
        if stage.until(0, Duration::from_secs(10), is_fresh)?.is_none() {
            return Err(RunError::Plan("the switch is not heard before anything is cut".into()).into());
        }
        let before = orders(&mut stage, Duration::from_millis(600))?;
        let before = before.iter().map(|(_, order)| order).sum::<f64>() / before.len().max(1) as f64;
        let at = Stage::now();
        let held = match cut {
            Cut::Both => {
                stage.live.fabric.set_link("h0", "mgmt0", false)?;
                Held::Link
            }
            Cut::FromHost => lose(&stage.live.fabric, 1.0, 0.0)?,
            Cut::ToHost => lose(&stage.live.fabric, 0.0, 1.0)?,
            Cut::Half => lose(&stage.live.fabric, 0.5, 0.5)?,
            Cut::Late => {
                proxy.iter().for_each(|proxy| proxy.delay(Duration::from_millis(500)));
                Held::Late
            }
        };
        let during = orders(&mut stage, CUT)?;
        let healed = Stage::now();
        match held {
            Held::Link => stage.live.fabric.set_link("h0", "mgmt0", true)?,
            Held::Loss { droppers } => drop(droppers),
            Held::Late => proxy.iter().for_each(|proxy| proxy.set(Way::Open)),
        }
        let fresh = stage.until(0, Duration::from_secs(15), is_fresh)?;
        stage.live.run_for(Duration::from_millis(500))?;
        let name = cut.name();
        let first = during.iter().filter(|(t, _)| *t <= 2.0 * SLOT_MS).map(|(_, order)| order / before);
        let first = first.fold(f64::INFINITY, f64::min);
        figures.push(Figure::at_least(format!("{name}: order kept in the first two slots"), first, Unit::Ratio, KEPT));
        let steps = during.windows(2).map(|pair| (pair[1].1 / pair[0].1).max(pair[0].1 / pair[1].1));
        let step = steps.fold(1.0, f64::max);
        figures.push(Figure::at_most(format!("{name}: largest step of the order"), step, Unit::Ratio, STEP));
        let silence = stage.silence(at, healed);
        figures.push(Figure::at_most(
            format!("{name}: longest silence of a flow"),
            silence,
            Unit::Ms,
            silence_bound(floor),
        ));
        figures.push(Figure::at_most(
            format!("{name}: from the heal until the view is fresh"),
            fresh.unwrap_or(f64::INFINITY),
            Unit::Ms,
            2.0 * SLOT_MS + RECONNECT_MS,
        ));
        let rate = stage.live.rate(0, at, healed) / stage.live.rate(0, at.saturating_sub(500_000_000), at).max(1e-9);
        figures.push(Figure::shown(format!("{name}: rate while cut, over before"), rate, Unit::Ratio));
    }
    Ok(figures)
}

/// Connections of host 0 to switches that the kernel still has.
fn connections(fabric: &Fabric) -> Result<usize, FabricError> {
    fabric.hosts[0].ns.run(|| {
        // The namespace is the thread's.
        let text = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
        // 2584 in hexadecimal: port 9604; 01: established, 02: being opened.
        let to_switch = |line: &&str| {
            let mut words = line.split_whitespace().skip(2);
            words.next().is_some_and(|remote| remote.ends_with(":2584")) && words.next() == Some("01")
        };
        text.lines().filter(to_switch).count()
    })
}

/// C8: the switch is gone without a word: its cable first, then its process and its namespace.
/// Promises: P-18
pub fn half_open(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let setting = Setting { own_switches: true, ..Setting::of("half-open", 4, Rate::mbps(200)) };
    let mut stage = ground.stage(&setting)?;
    if stage.until(0, Duration::from_secs(10), is_fresh)?.is_none() {
        return Err(RunError::Plan("the switch is not heard before it goes".into()).into());
    }
    let open = connections(&stage.live.fabric)?;
    let at = Stage::now();
    stage.live.fabric.set_link("s0", "mgmt0", false)?;
    let mut oldest = 0.0_f64;
    let noticed = stage.until(0, Duration::from_secs(5), |seen| {
        let fresh = seen.switches.iter().filter(|switch| switch.view == View::Fresh);
        oldest = fresh.filter_map(|switch| switch.age_ns).fold(oldest, |oldest, age| oldest.max(age as f64 / 1e6));
        !is_fresh(seen)
    })?;
    let mut closed = None;
    while closed.is_none() && ms(at, Stage::now()) < 10_000.0 {
        stage.live.run_for(Duration::from_millis(10))?;
        if connections(&stage.live.fabric)? == 0 {
            closed = Some(ms(at, Stage::now()));
        }
    }
    stage.live.daemons.kill_switch(0);
    stage.live.run_for(Duration::from_secs(1))?;
    let silence = stage.silence(at, Stage::now());
    Ok(vec![
        Figure::at_least("connections to the switch before", open as f64, Unit::Count, 1.0),
        // The daemon knows at once, and shows what it knows a few times a second: what it promises is measured by its own account.
        Figure::at_most("oldest answer of a view that counted fully", oldest, Unit::Ms, 3.0 * SLOT_MS),
        Figure::at_most(
            "until it shows that its view is not fresh any more",
            noticed.unwrap_or(f64::INFINITY),
            Unit::Ms,
            3.0 * SLOT_MS + SHOWN_MS,
        )
        .noted(format!("3 slots, and {SHOWN_MS} ms until it shows anything anew")),
        Figure::at_most("until the connection is closed", closed.unwrap_or(f64::INFINITY), Unit::Ms, 2_000.0 + SLOT_MS)
            .noted("2 s without an answer, told at a slot's edge"),
        Figure::at_most("longest silence of a flow", silence, Unit::Ms, silence_bound(Rate::mbps(10))),
    ])
}
