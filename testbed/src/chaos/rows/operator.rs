//! C19: a host that was given other numbers than the rest of its cluster, and a file that says ten times the capacity.

use std::time::Duration;

use sluice_schedule::Rate;
use sluice_wire::snapshot::ConditionCode;

use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, HOSTS, Setting, Stage, Unrun, also, silence_bound};
use crate::experiment::capacity::queue;
use crate::fabric::{FabricSpec, Layout};
use crate::run::daemons::topology_json;
use crate::run::{RunError, write};

/// What one host's file says otherwise, and the values that a refusal must name.
const OTHERWISE: [(&str, &str, [&str; 2]); 4] = [
    ("slot length", "[slot]\nlength_ms = 50\n", ["50", "60"]),
    ("horizon", "[slot]\nhorizon = 12\n", ["12", "10"]),
    ("clock of slots", "[clock]\nsource = \"tai\"\ntai_offset_s = 0\n", ["tai", "realtime"]),
    ("cluster", "[node]\ncluster = \"other\"\n", ["other", "testbed"]),
];

/// C19: each on the last host, whose daemon is started anew with it.
pub fn mistaken(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut figures = Vec::new();
    let wrong = HOSTS - 1;
    for (what, text, values) in OTHERWISE {
        let mut stage = ground.stage(&Setting::of("mistaken", 3, Rate::mbps(200)))?;
        let at = Stage::now();
        also(&stage.dir, &format!("h{wrong}"), text)?;
        stage.live.daemons.end(wrong)?;
        let started = stage.restart(wrong);
        let log = stage.live.daemons.config(wrong).with_extension("log");
        let mut told = String::new();
        if started.is_ok() {
            let seen = stage.until(wrong, Duration::from_secs(10), |seen| {
                let mismatch = seen.conditions.iter().find(|condition| {
                    matches!(condition.code, ConditionCode::ClusterMismatch | ConditionCode::ClockTaiUnset)
                });
                told = mismatch.map_or(String::new(), |condition| condition.sentence.clone());
                mismatch.is_some()
            })?;
            let refused = stage
                .snapshot(wrong)
                .unwrap_or_default()
                .switches
                .iter()
                .map(|s| s.last_error.clone())
                .collect::<Vec<_>>();
            told = format!("{told} {}", refused.join(" "));
            figures.push(Figure::holds(format!("another {what}: refused, and told as a condition"), seen.is_some()));
        } else {
            told = std::fs::read_to_string(&log).unwrap_or_default().lines().last().unwrap_or_default().to_owned();
        }
        let named = values.iter().filter(|value| told.contains(**value)).count();
        figures.push(
            Figure::exactly(format!("another {what}: values that are named"), named, 2).noted(told.trim().to_owned()),
        );
        stage.live.run_for(Duration::from_secs(1))?;
        // The rest goes on, and so does the host itself.
        let silence = stage.silence(at, Stage::now());
        figures.push(Figure::exactly(
            format!("another {what}: flows of another host that stay managed"),
            stage.managed(0),
            3,
        ));
        figures.push(Figure::at_most(
            format!("another {what}: longest silence of one"),
            silence,
            Unit::Ms,
            silence_bound(Rate::mbps(10)),
        ));
    }
    figures.extend(capacity(ground)?);
    Ok(figures)
}

/// Ten times what the cable carries.
fn capacity(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let rate = Rate::mbps(200);
    // What veth says of itself is 10 Gbit/s: the file must say more than that for the card to be the smaller one.
    let believed = Rate::mbps(100_000);
    let bench = ground.bench("capacity")?;
    let spec = FabricSpec::star(HOSTS, believed, queue(rate));
    let file = bench.dir.join("ten-times.json");
    write(&file, topology_json(&spec, &Layout::of(&spec)?, false))?;
    let more = format!("topology = {:?}\n[[links]]\nname = \"eth0\"\ngbps = 100.0\n", file.display().to_string());
    let mut stage = ground.stage(&Setting { more, ..Setting::of("ten-times", 3, rate) })?;
    let at = Stage::now();
    stage.live.run_for(Duration::from_secs(2))?;
    let log = stage.live.daemons.config(0).with_extension("log");
    let text = std::fs::read_to_string(&log).map_err(RunError::io("reading a log"))?;
    let named = text
        .lines()
        .find(|line| line.contains("link-speed-differs") || (line.contains("10000") && line.contains("100000")));
    let silence = stage.silence(at, Stage::now());
    Ok(vec![
        Figure::holds("a file with ten times the card's speed: a warning that names both", named.is_some())
            .noted(named.unwrap_or_default().to_owned()),
        Figure::at_most(
            "a file with ten times the card's speed: longest silence",
            silence,
            Unit::Ms,
            silence_bound(Rate::mbps(10)),
        ),
    ])
}
