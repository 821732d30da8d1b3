//! C5: a host and its switch do not hear each other, in several ways, and hear each other again.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_impairment::Dropper;
use sluice_schedule::Rate;
use sluice_wire::snapshot::{Flow, FlowState, Snapshot, View};

use crate::chaos::figure::{Figure, Unit, worst};
use crate::chaos::ground::{Ground, Setting, Size, Stage, Unrun, also, ms, silence_bound};
use crate::chaos::proxy::{Proxy, Way};
use crate::chaos::streams::{PORT, Streams, TOLD};
use crate::fabric::{Fabric, NetNs};
use crate::run::RunError;

pub(super) const SLOT_MS: f64 = 60.0;
/// A daemon that is asked shows something new after so long at the latest.
pub(super) const SHOWN_MS: f64 = 250.0;
/// The longest pause before a connection is tried again.
const RECONNECT_MS: f64 = 5_000.0;
/// How long a host is cut off: past the horizon of ten slots, and past what a connection bears.
const CUT: Duration = Duration::from_millis(3_000);
/// A flow keeps this part of its order in the first two slots, and no slot's order is this many times another's.
const KEPT: f64 = 0.9;
const STEP: f64 = 2.0;
/// Of every link.
const RATE: Rate = Rate::mbps(100);
/// A round is so many times as long as usual: flows that meet nobody get most of the link, and are to have something to send.
const LONGER: u64 = 2;
/// Flows of the host that is cut off: two go to host 1, one to each other.
const FLOWS: usize = 4;
/// In one case, connections from host 2 to host 1, of another job: only from the switch does host 0 know of them, ...
const RIVALS: usize = 6;
const MET: usize = 1;
/// ... so that before anything is cut its flows to that host have at most this part of an equal share of its own link. Once it
/// knows of itself alone it orders them more than that link carries, and the loss guard gives them back to plain TCP.
const TAKEN: f64 = 0.75;

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

    /// Is there a time without an answer, whatever the dice say?
    fn silences(self) -> bool {
        self != Cut::Half
    }
}

/// A cut under way; most end with this value.
enum Held {
    Link,
    Loss { droppers: Vec<Dropper> },
    Late,
}

/// Packets that leave by a device of a namespace are lost at random until this is dropped.
pub(super) fn dropper(ns: &NetNs, device: &str, probability: f64) -> Result<Dropper, Unrun> {
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

fn long_rounds(ground: &Ground<'_>, setting: &Setting) -> Result<Stage, Unrun> {
    ground.stage_with(setting, |plan| plan.jobs.iter_mut().for_each(|job| job.bytes.0 *= LONGER))
}

/// A relay in front of the switch for host 0 alone.
fn relayed(ground: &Ground<'_>, setting: &Setting) -> Result<(Stage, Proxy), Unrun> {
    // Its port must be known before the daemon starts, so the relay listens on the host's own loopback, once there is a host.
    let mut stage = long_rounds(ground, setting)?;
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
pub(super) fn is_fresh(seen: &Snapshot) -> bool {
    !seen.switches.is_empty() && seen.switches.iter().all(|switch| switch.view == View::Fresh)
}

/// An order of one of host 0's flows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Order {
    /// What is planned for it.
    bps: f64,
    /// With what nobody else was heard to need, which is ordered on a fresh view only.
    filled_bps: f64,
    /// An equal share of the path among all flows that the switch spoke of.
    equal_bps: f64,
}

/// What host 0's daemon shows of itself.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// When it was so, ns since 1970. It is asked more often than it shows something new.
    taken_ns: u64,
    /// By flow.
    orders: BTreeMap<String, Order>,
    managed: usize,
    /// Times that a flow's loss guard tripped or gave it back.
    guarded: u64,
    is_fresh: bool,
}

impl Seen {
    fn of(snapshot: &Snapshot, stage: &Stage, rivals: usize) -> Seen {
        let link = stage.plan.fabric.payload(RATE).0 as f64;
        let met = stage.live.fabric.hosts[MET].address;
        let order = |flow: &Flow| {
            let to = flow.to.parse::<SocketAddrV4>().ok()?;
            let meets = *to.ip() == met;
            let flows = if meets { FLOWS / 2 + rivals } else { FLOWS };
            let filled = flow.ordered_bps?;
            let planned = flow.next_bps.first().map_or(filled, |planned| filled.min(*planned));
            let order = Order { bps: planned as f64, filled_bps: filled as f64, equal_bps: link / flows as f64 };
            Some((flow.id.clone(), order))
        };
        Seen {
            taken_ns: snapshot.taken_unix_ns,
            orders: snapshot.flows.iter().filter_map(order).collect(),
            managed: snapshot.flows_in(FlowState::Managed),
            guarded: snapshot.counters.loss_guards,
            is_fresh: is_fresh(snapshot),
        }
    }

    /// Of a flow without an order it is nothing.
    fn order(&self, flow: &str) -> f64 {
        self.orders.get(flow).map_or(0.0, |order| order.bps)
    }

    /// Of all flows, with what nobody else was heard to need.
    fn filled(&self) -> f64 {
        self.orders.values().map(|order| order.filled_bps).sum()
    }
}

/// Everything that host 0's daemon shows for so long, each once.
fn watch(stage: &mut Stage, time: Duration, rivals: usize) -> Result<Vec<Seen>, RunError> {
    let began = Instant::now();
    let mut all: Vec<Seen> = Vec::new();
    while began.elapsed() < time {
        let seen = stage.snapshot(0).map(|snapshot| Seen::of(&snapshot, stage, rivals));
        all.extend(seen.filter(|seen| all.last().is_none_or(|last| last.taken_ns < seen.taken_ns)));
        stage.live.run_for(Duration::from_millis(30))?;
    }
    Ok(all)
}

/// Time now, as snapshots have it.
fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// What a flow's order is on average.
fn mean(seen: &[Seen], flow: &str) -> f64 {
    seen.iter().map(|seen| seen.order(flow)).sum::<f64>() / seen.len() as f64
}

/// The largest order before a cut of a flow that meets others', over an equal share of host 0's own link. NaN: there is none.
fn taken(before: &[Seen], own: f64) -> f64 {
    let Some(last) = before.last() else { return f64::NAN };
    let meets = last.orders.iter().filter(|(_, order)| order.equal_bps < own);
    worst(meets.map(|(flow, _)| mean(before, flow) / own), f64::max)
}

/// Least order of a flow in the first two slots after a cut, over what it was before; where nothing was shown in them, that of
/// the first look after. The flow that kept least. NaN: there was none before or after.
fn kept(before: &[Seen], after: &[Seen], cut_ns: u64) -> f64 {
    let slots = after.iter().take_while(|seen| seen.taken_ns as f64 <= cut_ns as f64 + 2.0 * SLOT_MS * 1e6).count();
    let Some(last) = before.last() else { return f64::NAN };
    let of = |flow: &String| {
        let least = worst(after.iter().take(slots.max(1)).map(|seen| seen.order(flow)), f64::min);
        let mean = mean(before, flow);
        if mean > 0.0 { least / mean } else { f64::NAN }
    };
    worst(last.orders.keys().map(of), f64::min)
}

/// The most that a flow's order is of the one before or after it, a slot: between two looks that are several slots apart there
/// may have been as many steps. Up to an equal share of the path it may go at once. NaN: there are no two looks, or nothing
/// is ordered any more.
fn largest_step(seen: &[Seen]) -> f64 {
    let step = |pair: &[Seen]| {
        let slots = (ms(pair[0].taken_ns, pair[1].taken_ns) / SLOT_MS).ceil().max(1.0);
        let of = |(flow, one): (&String, &Order)| {
            // Of one that was given back there is no order any more.
            let other = pair[1].orders.get(flow)?.bps;
            // NaN of nothing and nothing, which no maximum may hide.
            let step =
                if other > one.equal_bps.max(one.bps) { other / one.bps.max(one.equal_bps) } else { one.bps / other };
            Some(step.powf(1.0 / slots))
        };
        worst(pair[0].orders.iter().filter_map(of), f64::max)
    };
    worst(seen.windows(2).map(step), f64::max)
}

/// Flows of host 2, by which flows of host 0 have less.
fn meet(stage: &mut Stage, rivals: usize) -> Result<Streams, Unrun> {
    let (from, to) = (&stage.live.fabric.hosts[2].ns, &stage.live.fabric.hosts[MET]);
    let streams = Streams::open(from, &to.ns, to.address, PORT, rivals)?;
    if stage.until(2, Duration::from_secs(20), |seen| seen.flows_in(FlowState::Managed) >= rivals)?.is_none() {
        return Err(RunError::Plan("the flows of h2 are not managed before anything is cut".into()).into());
    }
    // Until they had heard of each other some of host 0's may have been given back.
    if stage.until(0, Duration::from_secs(30), |seen| seen.flows_in(FlowState::Managed) >= FLOWS)?.is_none() {
        return Err(RunError::Plan("the flows of h0 are not managed beside those of h2".into()).into());
    }
    stage.live.run_for(Duration::from_secs(1))?;
    Ok(streams)
}

/// C5: cut off in each way, and healed.
/// Promises: P-2, P-15
pub fn cut(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut figures = Vec::new();
    let floor = Rate::mbps(10);
    let beside = std::iter::once((Cut::Both, RIVALS));
    for (cut, rivals) in Cut::ALL.into_iter().map(|cut| (cut, 0)).chain(beside) {
        let left_out = match ground.size {
            Size::Full => false,
            Size::Core => cut == Cut::Late || cut == Cut::ToHost,
            Size::Small => cut != Cut::Both || rivals > 0,
        };
        if left_out {
            continue;
        }
        let setting = Setting { more: TOLD.into(), ..Setting::of("partition", FLOWS, RATE) };
        let (mut stage, proxy) = match cut {
            Cut::Late => relayed(ground, &setting).map(|(stage, proxy)| (stage, Some(proxy)))?,
            _ => (long_rounds(ground, &setting)?, None),
        };
        if stage.until(0, Duration::from_secs(10), is_fresh)?.is_none() {
            return Err(RunError::Plan("the switch is not heard before anything is cut".into()).into());
        }
        let others = if rivals > 0 { Some(meet(&mut stage, rivals)?) } else { None };
        let before = watch(&mut stage, Duration::from_millis(600), rivals)?;
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
        let cut_ns = unix_ns();
        let during = watch(&mut stage, CUT, rivals)?;
        let (healed, healed_ns) = (Stage::now(), unix_ns());
        match held {
            Held::Link => stage.live.fabric.set_link("h0", "mgmt0", true)?,
            Held::Loss { droppers } => drop(droppers),
            Held::Late => proxy.iter().for_each(|proxy| proxy.set(Way::Open)),
        }
        let shown_fresh = |seen: &Snapshot| seen.taken_unix_ns > healed_ns && is_fresh(seen);
        let fresh = stage.until(0, Duration::from_secs(15), shown_fresh)?;
        stage.live.run_for(Duration::from_millis(500))?;
        let name = if rivals > 0 { "both ways, beside flows of another host" } else { cut.name() };
        // What the daemon shows first may be from before the cut: a step from it counts, and nothing else of it.
        let after = &during[during.iter().take_while(|seen| seen.taken_ns <= cut_ns).count()..];
        if rivals > 0 {
            let own = stage.plan.fabric.payload(RATE).0 as f64 / FLOWS as f64;
            let what = "order of a flow that meets them, before, over an equal share of its own link";
            figures.push(Figure::at_most(format!("{name}: {what}"), taken(&before, own), Unit::Ratio, TAKEN));
        }
        figures.push(
            Figure::at_least(
                format!("{name}: what each flow keeps of what is planned for it, in the first two slots, or at the first look after them"),
                kept(&before, after, cut_ns),
                Unit::Ratio,
                KEPT,
            )
            .noted(match after.first() {
                Some(first) => format!("first look {:.0} ms after the cut", ms(cut_ns, first.taken_ns)),
                None => "nothing was shown while cut".into(),
            }),
        );
        figures.push(Figure::at_most(
            format!("{name}: largest step of a flow's order, a slot"),
            largest_step(&during),
            Unit::Ratio,
            STEP,
        ));
        let (looks, stale) = (after.len(), after.iter().filter(|seen| !seen.is_fresh).count());
        let noticed = format!("{name}: looks at which the view is not fresh, of {looks}");
        figures.push(if cut.silences() {
            Figure::at_least(noticed, stale as f64, Unit::Count, 1.0)
        } else {
            Figure::shown(noticed, stale as f64, Unit::Count)
        });
        let least = after.iter().map(|seen| seen.managed).min().unwrap_or(0);
        let silence = stage.silence(at, healed);
        if rivals > 0 {
            let guarded = |seen: &[Seen]| seen.last().map_or(0, |seen| seen.guarded);
            let trips = guarded(&during).saturating_sub(guarded(&before)) as f64;
            let left = format!("{name}: flows that are not managed at some look, over trips of the loss guard");
            figures.push(Figure::at_most(left, (FLOWS - least.min(FLOWS)) as f64 / trips.max(1.0), Unit::Ratio, 1.0));
            let silent = format!("{name}: longest time without an acknowledgement, plain or not");
            figures.push(Figure::shown(silent, silence, Unit::Ms));
            let filled = |seen: Option<&Seen>| seen.map_or(f64::NAN, Seen::filled);
            let least = worst(after.iter().map(Seen::filled), f64::min) / filled(before.last());
            let fill = format!("{name}: least order of all, with what nobody else was heard to need, over that before");
            figures.push(Figure::shown(fill, least, Unit::Ratio));
        } else {
            figures.push(Figure::exactly(format!("{name}: flows managed all along"), least, FLOWS));
            let silent = format!("{name}: longest silence of a flow");
            figures.push(Figure::at_most(silent, silence, Unit::Ms, silence_bound(floor)));
        }
        figures.push(Figure::at_most(
            format!("{name}: from the heal until the view is fresh"),
            fresh.unwrap_or(f64::INFINITY),
            Unit::Ms,
            2.0 * SLOT_MS + RECONNECT_MS,
        ));
        drop(others);
        let rate = stage.live.rate(0, at, healed) / stage.live.rate(0, at.saturating_sub(500_000_000), at).max(1e-9);
        figures.push(Figure::shown(format!("{name}: rate while cut, over before"), rate, Unit::Ratio));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn order(bps: f64) -> Order {
        Order { bps, filled_bps: bps, equal_bps: 50.0 }
    }

    /// Looks at one flow, (ms, Mbit/s), whose equal share is 50.
    fn orders(all: &[(u64, u64)]) -> Vec<Seen> {
        let seen = |(t, mbps): &(u64, u64)| Seen {
            taken_ns: t * MS,
            orders: BTreeMap::from([("f".to_owned(), order(*mbps as f64))]),
            ..Seen::default()
        };
        all.iter().map(seen).collect()
    }

    #[test]
    fn what_is_kept_is_of_the_first_two_slots_or_the_first_look_after() {
        let before = orders(&[(600, 90), (850, 110)]);
        let kept = |after: &[(u64, u64)]| kept(&before, &orders(after), 1_000 * MS);
        assert!((kept(&[(1_010, 100), (1_100, 95), (1_150, 20)]) - 0.95).abs() < 1e-9);
        assert!((kept(&[(1_150, 50), (1_400, 20)]) - 0.5).abs() < 1e-9, "nothing was shown in two slots");
        assert!(kept(&[]).is_nan());
        assert!(super::kept(&[], &orders(&[(1_010, 100)]), 1_000 * MS).is_nan());
        assert!(super::kept(&orders(&[(850, 0)]), &orders(&[(1_010, 100)]), 1_000 * MS).is_nan());
    }

    #[test]
    fn the_flow_that_kept_least_counts_and_one_without_an_order_kept_nothing() {
        let two = |mbps: [f64; 2]| Seen {
            taken_ns: 1_010 * MS,
            orders: ["f", "g"].map(String::from).into_iter().zip(mbps.map(order)).collect(),
            ..Seen::default()
        };
        assert!((kept(&[two([60.0, 40.0])], &[two([60.0, 30.0])], 1_000 * MS) - 0.75).abs() < 1e-9);
        assert!(kept(&[two([60.0, 40.0])], &orders(&[(1_010, 60)]), 1_000 * MS).abs() < 1e-9);
    }

    #[test]
    fn a_step_counts_in_both_directions_by_the_slot_and_no_step_is_none() {
        let step = |all: &[(u64, u64)]| largest_step(&orders(all));
        assert!((step(&[(0, 100), (60, 80), (120, 200)]) - 2.5).abs() < 1e-9);
        assert!((step(&[(0, 100), (60, 25)]) - 4.0).abs() < 1e-9);
        assert!((step(&[(0, 100), (110, 25)]) - 2.0).abs() < 1e-9, "two slots apart");
        assert!((step(&[(0, 10), (60, 50)]) - 0.2).abs() < 1e-9, "up to an equal share at once");
        assert!((step(&[(0, 10), (60, 125)]) - 2.5).abs() < 1e-9, "and no further than twice that");
        assert!(step(&[(0, 100)]).is_nan() && step(&[]).is_nan());
        assert!(step(&[(0, 0), (60, 0)]).is_nan(), "nothing is ordered");
        assert!(step(&[(0, 100), (60, 0)]).is_infinite());
    }
}
