//! L2: the switch goes and returns for many hosts with real daemons at once.

use std::time::{Duration, Instant};

use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_wire::snapshot::Snapshot;

use super::load::SWITCH_MIB;
use super::partition::is_fresh;
use crate::chaos::figure::{Figure, Unit, quantile};
use crate::chaos::ground::{Ground, Unrun, sluice};
use crate::chaos::inventory::rss_mib;
use crate::experiment::capacity::queue;
use crate::experiment::live::Live;
use crate::fabric::FabricSpec;
use crate::run::{JobPlan, Placement, RunError, RunPlan};

/// For all hosts to be back.
const MINUTE: Duration = Duration::from_secs(60);

/// A ring over many hosts that sends little: what makes every host ask the switch.
pub fn wide(hosts: usize, slot: Nanos) -> (RunPlan, Placement) {
    let rate = Rate::mbps(200);
    let job =
        JobPlan { compute: vec![Nanos::from_millis(400)], ..JobPlan::ring("wide", hosts, Bytes(200_000), 1_000_000) };
    let plan = RunPlan {
        name: "wide".into(),
        fabric: FabricSpec::star(hosts, rate, queue(rate)),
        jobs: vec![job],
        slot,
        learned_routes: true,
        ..RunPlan::default()
    };
    (plan, Placement { workers: (0..hosts).collect(), servers: Vec::new() })
}

/// What the daemons of so many hosts say of themselves, by host; those that do not answer are left out.
fn snapshots(live: &Live, hosts: usize) -> impl Iterator<Item = (usize, Snapshot)> {
    let of = move |host| {
        let text = live.daemons.get(host, "/api/v1/snapshot")?;
        Some((host, serde_json::from_str::<Snapshot>(&text).ok()?))
    };
    (0..hosts).filter_map(of)
}

/// How hosts came back to a switch.
#[derive(Debug, Default)]
struct Back {
    /// Until as many as were asked for were fresh in one look; `None`: not within a minute.
    took_s: Option<f64>,
    /// Looks at hosts that had been fresh in an earlier look, and those of them at which one was not.
    looks: u32,
    missed: u32,
    /// The most that the switch held at any look. Infinite: it did not live.
    rss_mib: f64,
}

/// Looks at all hosts until this part of them is fresh.
fn back(live: &mut Live, hosts: usize, part: f64) -> Result<Back, Unrun> {
    let (began, mut back, mut seen) = (Instant::now(), Back::default(), vec![false; hosts]);
    while began.elapsed() < MINUTE {
        let mut now = vec![false; hosts];
        snapshots(live, hosts).for_each(|(host, seen)| now[host] = is_fresh(&seen));
        back.rss_mib = back.rss_mib.max(rss_mib(live.daemons.switch_pid(0)).unwrap_or(f64::INFINITY));
        for (seen, now) in seen.iter_mut().zip(&now) {
            back.looks += u32::from(*seen);
            back.missed += u32::from(*seen && !now);
            *seen |= now;
        }
        if now.iter().filter(|fresh| **fresh).count() as f64 >= hosts as f64 * part {
            back.took_s = Some(began.elapsed().as_secs_f64());
            break;
        }
        live.run_for(Duration::from_millis(100))?;
    }
    Ok(back)
}

/// From one end of a switch to its next: one that is another process more than three times in a minute is not believed.
const APART: Duration = Duration::from_secs(21);

/// L2: the switch is killed and started again; everybody connects anew.
/// Promises: P-16
pub fn herd(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let (hosts, times) = ground.core_sized((50, 5), (20, 1), (8, 1));
    // Long, so that two processors carry fifty daemons.
    let (plan, place) = wide(hosts, Nanos::from_millis(200));
    let bench = ground.bench("herd")?;
    let mut live = Live::start(&bench, &plan, &place, &sluice(), 1000)?;
    back(&mut live, hosts, 1.0)?
        .took_s
        .ok_or_else(|| RunError::Plan("not all hosts hear the switch within a minute".into()))?;
    let (mut took, mut rss, mut noticed) = (Vec::new(), 0.0_f64, hosts);
    let (mut looks, mut missed) = (0, 0);
    let mut began = Instant::now();
    for time in 0..times {
        if time > 0 {
            live.run_for(APART.saturating_sub(began.elapsed()))?;
        }
        began = Instant::now();
        live.daemons.kill_switch(0);
        live.run_for(Duration::from_secs(4))?;
        // Who still counts what it said before would be taken for one that has heard it again.
        let without = snapshots(&live, hosts).filter(|(_, seen)| !seen.switches.is_empty() && !is_fresh(seen)).count();
        noticed = noticed.min(without);
        live.daemons.start_switch_again(&live.fabric, 0)?;
        let back = back(&mut live, hosts, 0.99)?;
        took.push(back.took_s.unwrap_or(f64::INFINITY));
        rss = rss.max(back.rss_mib);
        looks += back.looks;
        missed += back.missed;
    }
    let median = quantile(&mut took, 0.5);
    Ok(vec![
        Figure::exactly("hosts that notice that the switch is gone, fewest", noticed, hosts),
        Figure::at_most(
            format!("until 99 % of {hosts} hosts are fresh, most of {times}"),
            quantile(&mut took, 1.0),
            Unit::Seconds,
            5.0,
        )
        .noted(format!("median {median:.1} s; asking all of them takes part of it")),
        Figure::at_most(
            format!("looks at which a host that was back is not fresh, part of {looks}"),
            f64::from(missed) / f64::from(looks),
            Unit::Ratio,
            0.01,
        ),
        Figure::at_most("memory of the switch, most", rss, Unit::Mib, SWITCH_MIB),
    ])
}
