//! C8: a switch that is gone without a word, so that its connection stays half open.

use std::time::Duration;

use sluice_schedule::Rate;
use sluice_wire::snapshot::View;

use super::partition::{SHOWN_MS, SLOT_MS, is_fresh};
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Setting, Stage, Unrun, ms, silence_bound};
use crate::fabric::{Fabric, FabricError};
use crate::run::RunError;

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
