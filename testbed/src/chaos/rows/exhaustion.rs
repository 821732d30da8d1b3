//! R1 to R4: tables, descriptors, memory, processes, directories and processors run out.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use sluice_schedule::Rate;

use crate::chaos::bare::Bare;
use crate::chaos::confined::{Confined, Limit};
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Setting, Stage, Unrun, silence_bound};
use crate::chaos::rows::deciding::deciding;
use crate::chaos::streams::{PORT, Streams, TOLD};
use crate::run::{KillOnDrop, RunError};

const RATE: Rate = Rate::mbps(200);
const NOBODY: u32 = 65_534;
/// Part of a user's rows whose flows are managed at any moment.
const MANAGED: f64 = 0.9;

/// R1: one user fills what it may of the table; another still gets rows.
pub fn quota(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let rows = 64_usize;
    let told = format!("{TOLD}[enforce]\nmax_flows = {rows}\nfloor_mbps = 1.0\n");
    let bare = Bare::start(ground, "quota", 2, RATE, &told)?;
    let to = &bare.fabric.hosts[1];
    let streams = Streams::open(&bare.fabric.hosts[0].ns, &to.ns, to.address, PORT, 2 * rows)?;
    // The last eighth is for users with less than an equal share.
    let share = rows * 7 / 8;
    let filled = bare.until(Duration::from_secs(20), |bare| bare.used() >= share);
    if filled.is_none() && bare.lacks() {
        return Err(Unrun::Lacks("nothing is enforced here".into()));
    }
    std::thread::sleep(Duration::from_secs(2));
    let (used, managed, before) = (bare.used(), streams.managed(), streams.acked());
    let mut other = Command::new("bash");
    other.args(["-c", &format!("exec cat /dev/zero > /dev/tcp/{}/{PORT}", to.address)]).uid(NOBODY).gid(NOBODY);
    other.stdin(Stdio::null()).stderr(Stdio::null());
    let other = KillOnDrop(bare.fabric.hosts[0].ns.spawn(other, None)?);
    // One row more than the first user may have is the other's.
    let beyond = bare.until(Duration::from_secs(15), |bare| bare.used() > share);
    std::thread::sleep(Duration::from_secs(3));
    let still = streams.acked().iter().zip(&before).filter(|(after, before)| after <= before).count();
    drop(other);
    Ok(vec![
        Figure::holds("one user gets all the rows that it may have", filled.is_some()),
        Figure::at_most(format!("rows that one user has, of {rows}"), used as f64, Unit::Count, share as f64),
        // One that is given back for a loss has its row for a moment longer, or is about to have one.
        Figure::at_least("its flows that are managed", managed as f64, Unit::Count, MANAGED * share as f64),
        Figure::holds("another user's flow gets one", beyond.is_some()),
        Figure::exactly("flows that did not move", still, 0),
    ])
}

/// Something that a daemon runs out of.
struct Lack {
    name: &'static str,
    /// As arguments of `prlimit` or lines of `ulimit`; empty: by its cgroup.
    prlimit: &'static str,
    ulimit: &'static str,
    cgroup: Option<Limit>,
}

const LACKS: [Lack; 4] = [
    Lack { name: "64 descriptors", prlimit: "--nofile=64:64", ulimit: "ulimit -n 64", cgroup: None },
    // More than what is mapped, less than what a growing heap would take.
    Lack {
        name: "1 GiB of address space",
        prlimit: "--as=1073741824:1073741824",
        ulimit: "ulimit -v 1048576",
        cgroup: None,
    },
    Lack { name: "48 MiB of memory", prlimit: "", ulimit: "", cgroup: Some(Limit::Memory(48 << 20)) },
    Lack { name: "16 tasks", prlimit: "", ulimit: "", cgroup: Some(Limit::Tasks(16)) },
];

/// R2: each under load, then from the start.
/// Promises: P-34, P-36
pub fn limits(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let (mut figures, mut untried) = (Vec::new(), Vec::new());
    for lack in LACKS {
        // Goes after what is in it.
        let mut confined = None;
        let mut stage = ground.stage(&Setting::of("limits", 8, RATE))?;
        let (name, pid) = (lack.name, stage.live.daemons.pid(0));
        let at = Stage::now();
        match lack.cgroup {
            Some(limit) => {
                confined = Confined::new(stage.live.fabric.cgroups.daemon(0).path(), limit);
                if confined.is_none() {
                    untried.push(name);
                    continue;
                }
            }
            None => {
                let status = Command::new("prlimit")
                    .args(["--pid", &pid.to_string(), lack.prlimit])
                    .stdin(Stdio::null())
                    .status();
                let done = status.map_err(RunError::io("running prlimit"))?.success();
                if !done {
                    return Err(Unrun::Lacks(format!("prlimit {} was refused", lack.prlimit)));
                }
            }
        }
        stage.live.run_for(Duration::from_secs(4))?;
        let ended = stage.live.daemons.ended(0);
        let under = Stage::now();
        figures.push(Figure::at_most(
            format!("{name}, under load: longest silence"),
            stage.silence(at, under),
            Unit::Ms,
            silence_bound(Rate::mbps(10)),
        ));
        figures.push(
            Figure::shown(format!("{name}, under load: flows managed"), stage.managed(0) as f64, Unit::Count)
                .noted(ended.map_or("the daemon runs".to_owned(), |status| format!("the daemon ended with {status}"))),
        );
        // From the start.
        if ended.is_none() {
            stage.live.daemons.end(0)?;
        }
        let entry = confined.as_ref().map_or_else(|| lack.ulimit.to_owned(), Confined::entry);
        if !entry.is_empty() {
            let wrapper = stage.dir.join("limited");
            let program = ground.bench.binaries.daemon()?;
            write_script(&wrapper, &format!("{entry}\nexec {:?} \"$@\"", program.display().to_string()))?;
            stage.live.daemons.replace(0, wrapper);
        }
        let again = Stage::now();
        let started = stage.restart(0);
        stage.live.run_for(Duration::from_secs(3))?;
        let note = started.map_or_else(
            |why| why.to_string().lines().last().unwrap_or_default().to_owned(),
            |()| "it runs".to_owned(),
        );
        let rate = stage.live.rate(0, again, Stage::now());
        figures.push(
            Figure::at_least(format!("{name}, from the start: rate of the flows"), rate, Unit::Mbps, 50.0).noted(note),
        );
        figures.push(Figure::at_most(
            format!("{name}, from the start: longest silence"),
            stage.silence(again, Stage::now()),
            Unit::Ms,
            silence_bound(Rate::mbps(10)),
        ));
    }
    with_untried(figures, &untried)
}

/// The figures of what was tried. What was not is no pass: if all else is within its bars the row was not run, and otherwise
/// it is told of beside what is beyond them.
fn with_untried(mut figures: Vec<Figure>, untried: &[&str]) -> Result<Vec<Figure>, Unrun> {
    const WHY: &str = "no such controller of cgroups here";
    if !untried.is_empty() && figures.iter().all(|figure| figure.passes(0.0)) {
        return Err(Unrun::Lacks(format!("{WHY}: {}; all else is within its bars", untried.join(", "))));
    }
    figures.extend(untried.iter().map(|name| Figure::holds(format!("{name}: tried"), false).noted(WHY)));
    Ok(figures)
}

fn write_script(path: &Path, body: &str) -> Result<(), Unrun> {
    let io = || RunError::io(format!("writing {}", path.display()));
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).map_err(io())?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(io())?;
    Ok(())
}

/// Fills a directory of pages with what is none.
fn hostile(dir: &Path, entries: usize) -> Result<(), Unrun> {
    for at in 0..entries {
        let path = dir.join(format!("hostile-{at}"));
        let made = match at % 6 {
            0 => std::fs::write(&path, [0xa5; 4096]),
            1 => std::fs::write(&path, ""),
            2 => symlink("/dev/zero", &path),
            3 => std::fs::DirBuilder::new().mode(0o700).create(&path),
            4 => nix::unistd::mkfifo(&path, Mode::S_IRWXU).map_err(std::io::Error::from),
            _ => std::fs::File::create(&path).and_then(|file| file.set_len(1 << 30)),
        };
        made.map_err(RunError::io(format!("making {}", path.display())))?;
    }
    Ok(())
}

/// R3: full of what is no page, and always changing.
/// Promises: P-34, P-36
pub fn hostile_directory(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut stage = ground.stage(&Setting::of("hostile", 8, RATE))?;
    let time = Duration::from_secs(ground.sized(8, 2));
    let [_, before] = deciding(&mut stage, time)?.p99();
    let dir = stage.live.daemons.hosts[0].run_dir.join("progress");
    let entries = ground.sized(8192, 512);
    hostile(&dir, entries)?;
    let (stop, renamed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (halt, count, place) = (Arc::clone(&stop), Arc::clone(&renamed), dir.clone());
    let thread = std::thread::spawn(move || {
        let (one, other) = (place.join("hostile-0"), place.join("renamed-0"));
        while !halt.load(Ordering::Relaxed) {
            let done = std::fs::rename(&one, &other).and_then(|()| std::fs::rename(&other, &one));
            count.fetch_add(2 * u64::from(done.is_ok()), Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(1_800));
        }
    });
    let at = Stage::now();
    let looked = deciding(&mut stage, time);
    stop.store(true, Ordering::Relaxed);
    drop(thread.join());
    let [_, late] = looked?.p99();
    let silence = stage.silence(at, Stage::now());
    Ok(vec![
        Figure::at_least(
            "renames a second",
            renamed.load(Ordering::Relaxed) as f64 / time.as_secs_f64(),
            Unit::Count,
            200.0,
        ),
        Figure::at_most(format!("late at an edge, p99, with {entries} hostile entries"), late, Unit::Ms, before + 5.0)
            .noted(format!("before {before:.2} ms")),
        Figure::exactly("flows managed", stage.managed(0), 8),
        Figure::at_most("longest silence of a flow", silence, Unit::Ms, silence_bound(Rate::mbps(10))),
    ])
}

/// R4: all processors are taken, and somebody reads metrics without a pause.
/// Promises: P-34
pub fn burnt(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut stage = ground.stage(&Setting::of("burnt", 8, RATE))?;
    let out = |stage: &Stage| {
        stage.snapshot(0).map(|seen| (seen.counters.released_deadline, seen.counters.slots_late, seen.counters.slots))
    };
    let gone = || RunError::Plan("the daemon of h0 does not answer".into());
    let before = out(&stage).ok_or_else(gone)?;
    let spin = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        crate::sys::die_with_parent(&mut shell, None);
        shell.spawn().map(KillOnDrop).map_err(RunError::io("starting a process that spins"))
    };
    let spinning = (0..8).map(|_| spin()).collect::<Result<Vec<_>, _>>()?;
    let at = Stage::now();
    let end = Instant::now() + Duration::from_secs(ground.sized(60, 5));
    let (mut scrapes, mut answered) = (0_u32, 0_u32);
    while Instant::now() < end {
        scrapes += 1;
        answered += u32::from(stage.live.daemons.get(0, "/metrics").is_some());
        stage.live.run_for(Duration::from_millis(5))?;
    }
    let until = Stage::now();
    drop(spinning);
    stage.live.run_for(Duration::from_secs(1))?;
    let after = out(&stage).ok_or_else(gone)?;
    let lost = usize::try_from(after.0 - before.0).unwrap_or(usize::MAX);
    Ok(vec![
        Figure::exactly("orders that ran out", lost, 0),
        Figure::shown(
            format!("slots decided after their end, of {}", after.2 - before.2),
            (after.1 - before.1) as f64,
            Unit::Count,
        ),
        Figure::shown(
            format!("readings of metrics that were answered, of {scrapes}"),
            f64::from(answered),
            Unit::Count,
        ),
        Figure::shown("longest silence of a flow, jobs starved too", stage.silence(at, until), Unit::Ms),
        Figure::exactly("flows managed at the end", stage.managed(0), 8),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_tried_is_no_pass() {
        let good = || vec![Figure::exactly("good", 0, 0)];
        let beyond = || vec![Figure::exactly("beyond", 1, 0)];
        assert_eq!(with_untried(good(), &[]).ok(), Some(good()));
        let lacks = with_untried(good(), &["16 tasks"]);
        assert!(matches!(&lacks, Err(Unrun::Lacks(why)) if why.contains("16 tasks")), "{lacks:?}");
        let told = with_untried(beyond(), &["16 tasks"]).unwrap_or_default();
        assert_eq!((told.len(), told.iter().filter(|figure| figure.passes(0.0)).count()), (2, 0));
    }
}
