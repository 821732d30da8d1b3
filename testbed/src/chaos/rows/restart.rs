//! C10 to C12: restarts in order and by crash, other builds of the programs, and a daemon that crashes on its input.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sluice_ebpf::Options;
use sluice_ebpf::traces;
use sluice_schedule::Rate;
use sluice_wire::snapshot::{ConditionCode, Mode, Snapshot, View};

use crate::chaos::figure::{Figure, Unit, quantile, worst};
use crate::chaos::ground::{Ground, Setting, Stage, Unrun, ms, silence_bound};
use crate::run::RunError;
use crate::run::daemons::own_instance;

const RATE: Rate = Rate::mbps(200);
const FLOWS: usize = 8;
/// P-22.
const LEAST_BIN: f64 = 0.5;
const SILENCE_MS: f64 = 20.0;
/// P-23, across another major version of the kernel interface.
const PLAIN_MS: f64 = 1_000.0;
/// Between two restarts, so that the second begins from a steady state.
const STEADY: Duration = Duration::from_secs(2);
/// For what flows do to each other before one, ns.
const STEADY_NS: u64 = 1_500_000_000;

/// What flows did around one restart.
#[derive(Clone, Copy, Debug)]
struct Around {
    least_bin: f64,
    undisturbed: f64,
    silence_ms: f64,
    /// The same flows' before it, under what it begins from.
    silent_before_ms: f64,
    /// In all, so long some flow was not managed.
    plain_ms: f64,
    ready_ms: f64,
    managed: usize,
    rows: (u64, u64),
}

/// Ends host 0's daemon in one way, which says from when on what its flows do counts, starts its successor, and looks.
fn around(
    stage: &mut Stage,
    end: impl FnOnce(&mut Stage) -> Result<u64, RunError>,
    replace: Option<std::path::PathBuf>,
) -> Result<Around, Unrun> {
    stage.live.run_for(STEADY)?;
    let rows = |seen: Option<Snapshot>| seen.map_or(0, |seen| seen.enforcement.rows_used);
    let before = rows(stage.snapshot(0));
    let began = Stage::now();
    let base = (began.saturating_sub(STEADY_NS), began);
    let undisturbed = stage.least_bin(base, base);
    let at = end(stage)?;
    // What counts from plain flows is compared with what plain flows do to each other.
    let (from, to) = if at.saturating_sub(began) > STEADY_NS { (at - STEADY_NS, at) } else { base };
    let silent_before_ms = stage.silence(from, to);
    if let Some(program) = replace {
        stage.live.daemons.replace(0, program);
    }
    stage.restart(0)?;
    let ready_ms = ms(at, Stage::now());
    stage.captured()?;
    stage.live.run_for(Duration::from_millis(1_000))?;
    let end = Stage::now();
    let mine = stage.live.samples.iter().filter(|s| s.rank == 0 && s.t_ns >= at && s.t_ns <= end);
    let mine: Vec<(u64, bool)> = mine.map(|s| (s.t_ns, s.flows.iter().all(|f| f.1))).collect();
    let plain = mine.windows(2).filter(|pair| !pair[0].1).map(|pair| ms(pair[0].0, pair[1].0)).sum();
    Ok(Around {
        least_bin: stage.least_bin((at, end), base),
        undisturbed,
        silence_ms: stage.silence(at, end),
        silent_before_ms,
        plain_ms: plain,
        ready_ms,
        managed: stage.managed(0),
        rows: (before, rows(stage.snapshot(0))),
    })
}

/// Figures of many restarts of one kind.
fn figures(what: &str, all: &[Around]) -> Vec<Figure> {
    let least = |of: fn(&Around) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Around) -> f64| all.iter().map(of).fold(0.0, f64::max);
    // One restart around which nothing was measured is none that was as it must be.
    let (bin, silence) =
        (worst(all.iter().map(|one| one.least_bin), f64::min), worst(all.iter().map(|one| one.silence_ms), f64::max));
    let mut bins: Vec<f64> = all.iter().map(|one| one.least_bin).collect();
    let lost = all.iter().filter(|one| one.managed != FLOWS).count();
    let doubled = all.iter().filter(|one| one.rows.1 > one.rows.0).count();
    vec![
        Figure::at_least(format!("{what}: least 10 ms over the rate before"), bin, Unit::Ratio, LEAST_BIN).noted(
            format!(
                "median of {} {:.2}; undisturbed at least {:.2}",
                all.len(),
                quantile(&mut bins, 0.5),
                least(|one| one.undisturbed)
            ),
        ),
        Figure::at_most(
            format!("{what}: longest silence of a flow"),
            silence,
            Unit::Ms,
            SILENCE_MS.max(most(|one| one.silent_before_ms)),
        )
        .noted(format!("the same flows before it {:.0} ms", most(|one| one.silent_before_ms))),
        Figure::exactly(format!("{what}: times that a flow was not managed afterwards"), lost, 0),
        Figure::exactly(format!("{what}: times that a flow had two rows"), doubled, 0),
        Figure::shown(format!("{what}: until the successor is ready, most"), most(|one| one.ready_ms), Unit::Ms),
        Figure::shown(format!("{what}: some flow under plain TCP, most"), most(|one| one.plain_ms), Unit::Ms),
    ]
}

fn in_order(stage: &mut Stage) -> Result<u64, RunError> {
    let at = Stage::now();
    stage.live.daemons.end(0)?;
    Ok(at)
}

fn crash(stage: &mut Stage) -> Result<u64, RunError> {
    stage.live.daemons.kill(0);
    // The successor of a crash finds plain flows: what P-22 counts from, once they have found their rates.
    stage.plain()?;
    stage.live.run_for(Duration::from_nanos(STEADY_NS) + Duration::from_millis(100))?;
    Ok(Stage::now())
}

/// C10: twenty restarts of each kind under load.
/// Promises: P-22
pub fn restarts(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let times = ground.core_sized(20, 5, 1);
    let mut stage = ground.stage(&Setting { sample_ms: 2, ..Setting::of("restart", FLOWS, RATE) })?;
    let mut result = Vec::new();
    type End = fn(&mut Stage) -> Result<u64, RunError>;
    for (what, end) in [("in order", in_order as End), ("by crash", crash)] {
        let all = (0..times).map(|_| around(&mut stage, end, None)).collect::<Result<Vec<_>, _>>()?;
        result.extend(figures(what, &all));
    }
    Ok(result)
}

/// Versions of the kernel interface under which this process's daemons have pins.
fn versions() -> Vec<u32> {
    let own = traces::pinned(&Options::default().pin_root).into_iter().filter(|place| own_instance(&place.instance));
    let mut all: Vec<u32> = own.filter_map(|place| place.abi).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn is_heard(seen: &Snapshot) -> bool {
    seen.switches.iter().any(|switch| switch.view == View::Fresh)
}

/// C11: hosts and switches of two builds beside each other, and one host that goes to the other and back under load.
/// Promises: P-23
pub fn builds(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    if ground.others.is_empty() {
        let why =
            "no other build was given: --old DIR, a directory with its sluiced and sluice-switch; once for each build";
        return Err(Unrun::Lacks(why.into()));
    }
    let mut result = Vec::new();
    for (at, other) in ground.others.iter().enumerate() {
        let own = ground.bench.binaries;
        let setting = Setting { sample_ms: 2, own_switches: true, ..Setting::of(&format!("builds-{at}"), FLOWS, RATE) };
        let mut stage = ground.stage(&setting)?;
        let name = format!("build {}", at + 1);
        // A rollout half way: hosts 2 and 3 have the other daemon.
        for host in [2, 3] {
            stage.live.daemons.end(host)?;
            stage.live.daemons.replace(host, other.daemon()?);
            stage.restart(host)?;
        }
        let mut heard = 0;
        for host in 0..4 {
            heard += usize::from(stage.until(host, Duration::from_secs(15), is_heard)?.is_some());
        }
        result.push(Figure::exactly(format!("{name}: hosts of both builds that hear this build's switch"), heard, 4));
        stage.live.daemons.end_switch(0)?;
        stage.live.daemons.replace_switch(0, other.switch()?);
        stage.live.daemons.start_switch_again(&stage.live.fabric, 0)?;
        // None may count a view of before.
        stage.live.run_for(Duration::from_secs(2))?;
        let mut heard = 0;
        for host in 0..4 {
            heard += usize::from(stage.until(host, Duration::from_secs(15), is_heard)?.is_some());
        }
        result.push(Figure::exactly(format!("{name}: hosts of both builds that hear its switch"), heard, 4));
        let same = versions().len() == 1;
        let there = around(&mut stage, in_order, Some(other.daemon()?))?;
        let back = around(&mut stage, in_order, Some(own.daemon()?))?;
        let all = [there, back];
        if same {
            result.extend(figures(&format!("{name}, there and back"), &all));
        } else {
            let plain = all.iter().map(|one| one.plain_ms).fold(0.0, f64::max);
            let what = format!("{name}, another version of the kernel interface: some flow under plain TCP");
            result.push(Figure::at_most(what, plain, Unit::Ms, PLAIN_MS));
            let lost = all.iter().filter(|one| one.managed != FLOWS).count();
            result.push(Figure::exactly(format!("{name}: times that a flow was not managed afterwards"), lost, 0));
            let silence = worst(all.iter().map(|one| one.silence_ms), f64::max);
            result.push(Figure::at_most(
                format!("{name}: longest silence of a flow"),
                silence,
                Unit::Ms,
                silence_bound(Rate::mbps(10)),
            ));
        }
        let left = versions().len();
        result.push(Figure::exactly(
            format!("{name}: versions of the kernel interface with pins while both run"),
            left,
            if same { 1 } else { 2 },
        ));
    }
    Ok(result)
}

/// C12: six inputs that it dies of.
/// Promises: P-24
pub fn crash_loop(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut stage = ground.stage(&Setting::of("crash-loop", 4, RATE))?;
    let poison = stage.live.daemons.hosts[0].run_dir.join("poison");
    let first = Stage::now();
    let (mut by_input, mut aborted, mut died) = (0, 0, 0);
    for _ in 0..6 {
        std::fs::write(&poison, "").map_err(RunError::io(format!("writing {}", poison.display())))?;
        let mut status = None;
        let patience = Instant::now() + Duration::from_secs(2);
        while status.is_none() && Instant::now() < patience {
            stage.live.run_for(Duration::from_millis(10))?;
            status = stage.live.daemons.ended(0);
        }
        by_input += usize::from(status.is_some());
        if status.is_none() {
            // A build without the input: dies as a panic would have it die.
            stage.live.daemons.signal(0, Signal::SIGABRT);
            let patience = Instant::now() + Duration::from_secs(5);
            while status.is_none() && Instant::now() < patience {
                stage.live.run_for(Duration::from_millis(10))?;
                status = stage.live.daemons.ended(0);
            }
        }
        died += usize::from(status.is_some());
        aborted += usize::from(status.is_some_and(|status| status.signal() == Some(Signal::SIGABRT as i32)));
        // As a service manager would.
        stage.live.run_for(Duration::from_millis(100))?;
        stage.live.daemons.restart(&stage.live.fabric, 0)?;
    }
    let _ = std::fs::remove_file(&poison);
    let plain = stage.plain()?;
    let silence = stage.silence(first, Stage::now());
    stage.live.run_for(Duration::from_secs(3))?;
    // What the same flows do to each other without Sluice is not because of it.
    let without = stage.silence(plain, Stage::now());
    let seen = stage.snapshot(0).unwrap_or_default();
    let condition = seen.conditions.iter().find(|condition| condition.code == ConditionCode::RestartLoop);
    let (exit, said) = status(ground, &stage)?;
    let mut figures = vec![
        Figure::exactly("inputs that it died of", died, 6).noted(if by_input == 6 {
            "panics of the deciding loop".to_owned()
        } else {
            format!("{by_input} panics; the rest by SIGABRT, since a build without debug assertions has no such input")
        }),
        Figure::exactly("of them, deaths by SIGABRT: a panic leaves no half-dead process", aborted, 6),
        Figure::holds("it stays out of the way: mode bypass", seen.daemon.mode == Mode::Bypass),
        Figure::holds("condition restart-loop holds", condition.is_some())
            .noted(condition.map_or(String::new(), |condition| condition.sentence.clone())),
        Figure::exactly("flows that it manages", stage.managed(0), 0),
        Figure::exactly("exit status of sluice status --check", usize::try_from(exit).unwrap_or(usize::MAX), 3),
        Figure::holds("sluice status says restart-loop", said.contains("restart-loop")),
        // What one death costs is held by C1; here six of them follow each other while programs start and panic.
        Figure::shown("longest silence of a flow through all of it", silence, Unit::Ms)
            .noted(format!("under plain TCP afterwards {without:.0} ms")),
    ];
    // An end in order is no crash: the next start manages again.
    stage.live.daemons.end(0)?;
    stage.live.daemons.restart(&stage.live.fabric, 0)?;
    figures.push(Figure::holds("after an end in order it manages again", stage.captured().is_ok()));
    Ok(figures)
}

/// What `sluice status --check` says of host 0's daemon, and its exit status.
fn status(ground: &Ground<'_>, stage: &Stage) -> Result<(i32, String), Unrun> {
    let program = ground.bench.binaries.sluice().map_err(|why| Unrun::Lacks(why.to_string()))?;
    let mut command = Command::new(program);
    command.arg("--socket").arg(stage.live.daemons.socket(0)).args(["status", "--check"]).stdin(Stdio::null());
    let output = command.output().map_err(RunError::io("running sluice status"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.code().unwrap_or(-1), said))
}
