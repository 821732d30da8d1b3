//! C16: `sluiced cleanup` under load, beside a daemon that runs and after one that is dead.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sluice_ebpf::Options;
use sluice_ebpf::traces;
use sluice_schedule::Rate;

use crate::chaos::back::Back;
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Setting, Stage, Unrun, ms};
use crate::fabric::Node;
use crate::run::RunError;
use crate::run::daemons::instance_of;

/// P-8.
const OFF_MS: f64 = 1_000.0;
/// Flows that were given back find their rates within this.
const SETTLE: Duration = Duration::from_millis(2_000);
/// What a daemon sets of a namespace.
const SYSCTLS: [&str; 2] = ["tcp_tso_rtt_log", "tcp_wmem"];

/// Settings and what they are.
type Sysctls = BTreeMap<&'static str, String>;

/// The settings of a node's namespace that a daemon may change.
fn sysctls(node: &Node) -> Result<Sysctls, Unrun> {
    let read = || {
        let value = |key: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{key}")).unwrap_or_default();
        SYSCTLS.map(|key| (key, value(key).trim().to_owned())).into_iter().collect()
    };
    Ok(node.ns.run(read)?)
}

/// How many settings are not what they are elsewhere.
fn changed(settings: &Sysctls, reference: &Sysctls) -> usize {
    reference.iter().filter(|(key, value)| settings.get(*key) != Some(*value)).count()
}

/// Pins and names of host 0's daemon.
fn traces_of_host_0() -> Vec<String> {
    let instance = instance_of(0);
    let pinned = traces::pinned(&Options::default().pin_root).into_iter().filter(|place| place.instance == instance);
    let mut left: Vec<String> = pinned
        .flat_map(|place| place.names.iter().map(|name| place.dir.join(name).display().to_string()).collect::<Vec<_>>())
        .collect();
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    left.extend(names.split_whitespace().filter(|name| name.contains(&instance)).map(str::to_owned));
    left
}

/// Runs `sluiced cleanup` on host 0; its exit status and what it said.
fn cleanup(ground: &Ground<'_>, stage: &Stage, more: &[&str]) -> Result<(Option<i32>, String), Unrun> {
    let mut command = Command::new(ground.bench.binaries.daemon()?);
    command.arg("--config").arg(stage.live.daemons.config(0)).arg("cleanup").args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = stage.live.fabric.hosts[0].ns.spawn(command, None)?;
    let output = child.wait_with_output().map_err(RunError::io("waiting for sluiced cleanup"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.code(), said))
}

/// C16: both, with flows that send all the time.
/// Promises: P-8
pub fn cleanups(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut figures = Vec::new();
    for (what, dead) in [("beside a daemon", false), ("after a dead one", true)] {
        let flows = ground.sized(64, 4);
        let setting =
            Setting { more: "[enforce]\nsysctls = true\n".into(), ..Setting::of("off", flows, Rate::mbps(200)) };
        let mut stage = ground.stage(&setting)?;
        // What was there before any daemon is what the fabric gave its namespace. It gives a switch the same, where none runs.
        let switch = stage.live.fabric.switches.first();
        let reference = sysctls(switch.ok_or_else(|| RunError::Plan("the fabric has no switch".into()))?)?;
        let set = changed(&sysctls(&stage.live.fabric.hosts[0])?, &reference);
        let pinned = traces_of_host_0().len();
        if dead {
            stage.live.daemons.kill(0);
        } else {
            // One that is not forced must not pull the ground from under a daemon.
            let (exit, said) = cleanup(ground, &stage, &[])?;
            let ran = exit.map_or(usize::MAX, |code| usize::try_from(code).unwrap_or(usize::MAX));
            figures
                .push(Figure::exactly(format!("{what}: exit status without --force"), ran, 4).noted(last_line(&said)));
        }
        let (at, began) = (Stage::now(), Instant::now());
        let (exit, said) = cleanup(ground, &stage, if dead { &[] } else { &["--force"] })?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        let plain = stage.plain()?;
        stage.live.run_for(SETTLE)?;
        let settled = Stage::now();
        let left = traces_of_host_0();
        let stays = changed(&sysctls(&stage.live.fabric.hosts[0])?, &reference);
        if !dead {
            stage.live.daemons.end(0)?;
        }
        let after = traces_of_host_0();
        let stays_after = changed(&sysctls(&stage.live.fabric.hosts[0])?, &reference);
        figures.push(Figure::at_least(format!("{what}: pins and names before"), pinned as f64, Unit::Count, 1.0));
        figures.push(Figure::at_least(
            format!("{what}: settings of the kernel that a daemon had changed"),
            set as f64,
            Unit::Count,
            1.0,
        ));
        figures.push(
            Figure::exactly(
                format!("{what}: exit status"),
                exit.map_or(usize::MAX, |code| usize::try_from(code).unwrap_or(usize::MAX)),
                0,
            )
            .noted(last_line(&said)),
        );
        figures.push(Figure::at_most(format!("{what}: how long it took"), took, Unit::Ms, OFF_MS));
        figures.push(Figure::at_most(
            format!("{what}: until all {flows} flows are plain"),
            ms(at, plain),
            Unit::Ms,
            OFF_MS,
        ));
        figures.push(Figure::exactly(format!("{what}: pins and names left"), left.len(), 0).noted(left.join(", ")));
        figures.push(Figure::exactly(format!("{what}: pins and names once the daemon has ended too"), after.len(), 0));
        figures.push(Figure::exactly(format!("{what}: settings of the kernel that stay changed"), stays, 0));
        figures.push(Figure::exactly(format!("{what}: the same once the daemon has ended too"), stays_after, 0));
        stage.live.run_for(SETTLE)?;
        let due = at + Duration::from_secs_f64(OFF_MS / 1e3).as_nanos() as u64;
        figures.push(Back::of(&stage, at, due, settled).figure(what));
    }
    Ok(figures)
}

fn last_line(said: &str) -> String {
    said.lines().last().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_differs_or_is_gone_is_changed() {
        let settings = |values: &[(&'static str, &str)]| -> Sysctls {
            values.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
        };
        let reference = settings(&[("tcp_tso_rtt_log", "0"), ("tcp_wmem", "4096 65536 8388608")]);
        assert_eq!(changed(&reference, &reference), 0);
        let one = settings(&[("tcp_tso_rtt_log", "0"), ("tcp_wmem", "4096 65536 67108864")]);
        assert_eq!(changed(&one, &reference), 1);
        assert_eq!(changed(&Sysctls::new(), &reference), 2);
    }
}
