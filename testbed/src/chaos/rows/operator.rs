//! C19: a host that was given other numbers than the rest of its cluster, and a file that says ten times the capacity.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sluice_schedule::Rate;
use sluice_wire::snapshot::ConditionCode;

use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, HOSTS, Setting, Stage, Unrun, also, silence_bound};
use crate::run::{RunError, write};

/// What one host's file says otherwise, and the values that a refusal must name.
const OTHERWISE: [(&str, &str, [&str; 2]); 4] = [
    ("slot length", "[slot]\nlength_ms = 50\n", ["50", "60"]),
    ("horizon", "[slot]\nhorizon = 12\n", ["12", "10"]),
    ("clock of slots", "[clock]\nsource = \"tai\"\ntai_offset_s = 37\n", ["tai", "realtime"]),
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
        stage.restart(wrong)?;
        let (mut told, mut condition) = (String::new(), false);
        stage.until(wrong, Duration::from_secs(10), |seen| {
            let mismatch = |code| matches!(code, ConditionCode::ClusterMismatch | ConditionCode::ClockTaiUnset);
            let sentences = seen.conditions.iter().filter(|c| mismatch(c.code)).map(|c| c.sentence.clone());
            let sentences: Vec<String> = sentences.collect();
            condition |= !sentences.is_empty();
            let refused = seen.switches.iter().map(|switch| switch.last_error.clone());
            told = sentences.into_iter().chain(refused).collect::<Vec<_>>().join(" ");
            condition && values.iter().all(|value| told.contains(value))
        })?;
        figures.push(Figure::holds(format!("another {what}: refused, and told as a condition"), condition));
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

/// Ten times what the card says of itself: a virtual one says 10 Gbit/s.
fn capacity(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let rate = Rate::mbps(200);
    let mut stage = ground.stage(&Setting::of("ten-times", 3, rate))?;
    also(&stage.dir, "h0", "[[links]]\nname = \"eth0\"\ngbps = 100.0\n")?;
    // What a driver says stands in /sys, which here shows the cards of the machine and not those of the host: the daemon is
    // given one of its own, as it would have in a container.
    let cards = stage.dir.join("sys");
    std::fs::create_dir_all(&cards).map_err(RunError::io(format!("creating {}", cards.display())))?;
    let (program, wrapper) = (ground.bench.binaries.daemon()?, stage.dir.join("with-cards"));
    let script = format!(
        "#!/bin/sh\nset -e\nmount -t sysfs none {cards:?}\nmount --bind {cards:?}/class/net /sys/class/net\n\
         mount --bind {cards:?}/devices /sys/devices\nexec {:?} \"$@\"\n",
        program.display().to_string()
    );
    let with_mounts =
        format!("#!/bin/sh\nexec unshare --mount --propagation private sh {:?} \"$@\"\n", stage.dir.join("cards.sh"));
    write(&stage.dir.join("cards.sh"), script)?;
    write(&wrapper, with_mounts)?;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&wrapper, mode).map_err(RunError::io("writing a script"))?;
    stage.live.daemons.end(0)?;
    stage.live.daemons.replace(0, wrapper);
    stage.restart(0)?;
    stage.captured()?;
    let at = Stage::now();
    stage.live.run_for(Duration::from_secs(2))?;
    let seen = stage.snapshot(0).unwrap_or_default();
    let differs = seen.conditions.iter().find(|condition| condition.code == ConditionCode::LinkSpeedDiffers);
    let said = differs.map(|condition| condition.sentence.clone()).unwrap_or_default();
    let both = said.contains(&Rate::mbps(100_000).to_string()) && said.contains(&Rate::mbps(10_000).to_string());
    let silence = stage.silence(at, Stage::now());
    Ok(vec![
        Figure::holds("a file with ten times the card's speed: a warning that names both", both).noted(said),
        Figure::at_most(
            "a file with ten times the card's speed: longest silence",
            silence,
            Unit::Ms,
            silence_bound(Rate::mbps(10)),
        ),
    ])
}
