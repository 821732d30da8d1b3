//! A rollout at this terminal: looks at its hosts again and again, and takes the steps that `sluice_fleet` says.
//!
//! Everything a rollout is lies in etcd. This process only looks, and writes each step under the condition that nobody
//! else has; it may end at any moment, and another may go on.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluice_etcd::Written;
use sluice_fleet::judge::{self, Judge, Seen};
use sluice_fleet::key::Name;
use sluice_fleet::rollout::{Order, Rollout, Status, Step, Turn};

use super::args::{FleetDriveArgs, FleetRolloutArgs};
use super::desk::{Desk, HeldRollout, unheard};
use super::status::told;
use super::{alerts, hosts, now, operator};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::{self, INTERRUPTED};
use crate::output;

/// Signals are looked for this often.
const NAP: Duration = Duration::from_millis(100);

pub fn begin(global: &Global, desk: &mut Desk, args: &FleetRolloutArgs) -> Result<ExitCode, Failure> {
    let HeldRollout { rollout, revision } = desk.rollout()?;
    if let Some(rollout) = rollout.filter(|rollout| !rollout.status.over()) {
        let help = "sluice fleet resume goes on with it, sluice fleet abort ends it";
        return Err(Failure::no(format!("there is one already: {}\n  help: {help}", told(&rollout))));
    }
    let known = desk.groups()?;
    let modes = desk.modes()?;
    let mut groups = Vec::new();
    for group in &args.groups {
        if !known.iter().any(|(name, _)| name == group) {
            let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Failure::input(format!("no group {group}\n  groups: {}", names.join(", "))));
        }
        if groups.iter().any(|(name, _)| name == group) {
            return Err(Failure::input(format!("--groups names {group} twice")));
        }
        let Some((_, mode)) = modes.iter().find(|(name, _)| name == group) else {
            let help = format!("sluice fleet set mode {group} observe");
            return Err(Failure::input(format!("group {group} has no mode yet to return to\n  help: {help}")));
        };
        groups.push((group.clone(), *mode));
    }
    let seconds = |time: sluice_schedule::Nanos| Duration::from_secs(time.0.div_ceil(1_000_000_000));
    let order = Order {
        to: args.to,
        pause: seconds(args.pause),
        patience: seconds(args.patience),
        unanswered: args.unanswered,
        by: operator(),
        reason: args.reason.clone(),
    };
    let rollout = Rollout::new(order, groups, now());
    let turn = Turn { rollout, modes: Vec::new() };
    match desk.turn(&turn, revision).map_err(unheard)? {
        Written::At(_) => drive(global, desk, &args.drive),
        Written::Overtaken => Err(Failure::no("somebody else began a rollout at the same moment: sluice fleet status")),
    }
}

pub fn resume(global: &Global, desk: &mut Desk, args: &FleetDriveArgs) -> Result<ExitCode, Failure> {
    let HeldRollout { rollout, .. } = desk.rollout()?;
    match rollout.map(|rollout| rollout.status) {
        Some(Status::Paused) => drop(change(desk, |rollout| rollout.resume(now(), &operator()))?),
        Some(Status::Running) => {}
        _ => return Err(Failure::no("no rollout is on its way: sluice fleet status")),
    }
    drive(global, desk, args)
}

pub fn pause(global: &Global, desk: &mut Desk) -> Result<ExitCode, Failure> {
    let rollout = change(desk, |rollout| rollout.pause(now(), &operator()))?;
    shown(global, rollout.as_ref(), "no rollout runs")
}

pub fn abort(global: &Global, desk: &mut Desk, keep: bool) -> Result<ExitCode, Failure> {
    let rollout = change(desk, |rollout| rollout.abort(now(), &operator(), keep))?;
    shown(global, rollout.as_ref(), "no rollout is on its way")
}

fn shown(global: &Global, rollout: Option<&Rollout>, none: &str) -> Result<ExitCode, Failure> {
    let Some(rollout) = rollout else { return Err(Failure::no(format!("{none}: sluice fleet status"))) };
    if !global.quiet {
        output::one(global, &rollout.to_json(), || format!("{}\n", told(rollout)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks something of the rollout, again if somebody else writes at the same moment; `None`: it is not in that state.
fn change(desk: &mut Desk, ask: impl Fn(&Rollout) -> Option<Turn>) -> Result<Option<Rollout>, Failure> {
    loop {
        let HeldRollout { rollout, revision } = desk.rollout()?;
        let Some(turn) = rollout.as_ref().and_then(&ask) else { return Ok(None) };
        if let Written::At(_) = desk.turn(&turn, revision).map_err(unheard)? {
            return Ok(Some(turn.rollout));
        }
    }
}

fn drive(global: &Global, desk: &mut Desk, args: &FleetDriveArgs) -> Result<ExitCode, Failure> {
    let screen = Screen::new(global.quiet);
    let mut judge = Judge::default();
    let mut notes = 0;
    loop {
        let held = match desk.rollout() {
            Ok(held) => held,
            Err(failure) if failure.code == 4 => {
                // Hosts keep what they have, and so does the rollout.
                screen.now(&format!("waiting for etcd: {failure}"));
                if nap(args) { continue } else { return Ok(interrupted(None)) }
            }
            Err(failure) => return Err(failure),
        };
        let Some(rollout) = held.rollout else { return Err(Failure::failed("the rollout is gone from etcd")) };
        rollout.notes.iter().skip(notes).for_each(|note| screen.line(&note.text));
        notes = rollout.notes.len();
        if rollout.status.over() {
            screen.end();
            if !global.quiet {
                output::one(global, &rollout.to_json(), || format!("{}\n", told(&rollout)))?;
            }
            return Ok(if rollout.status == Status::Done { ExitCode::SUCCESS } else { ExitCode::from(3) });
        }
        match step(desk, args, &rollout, &mut judge, &screen) {
            Ok(Step::Turn(turn)) => match desk.turn(&turn, held.revision) {
                // Whoever was first has written it: it is read again at once.
                Ok(Written::At(_) | Written::Overtaken) => continue,
                Err(error) => screen.now(&format!("waiting for etcd: {error}")),
            },
            Ok(Step::Wait(_) | Step::WaitFor(_) | Step::Over) => {}
            Err(failure) if failure.code == 4 => screen.now(&format!("waiting for etcd: {failure}")),
            Err(failure) => return Err(failure),
        }
        if !nap(args) {
            screen.end();
            return Ok(interrupted(Some(&rollout)));
        }
    }
}

/// Looks, judges, and says what is next.
fn step(
    desk: &mut Desk,
    args: &FleetDriveArgs,
    rollout: &Rollout,
    judge: &mut Judge,
    screen: &Screen,
) -> Result<Step, Failure> {
    let seen = look(desk, args, rollout)?;
    let alerts = args.alerts.as_ref().map(|at| desk.runtime.block_on(alerts::firing(at, &args.alerts_named)));
    let now = now();
    let verdict = judge.look(rollout, now, &seen, alerts.as_ref());
    let next = rollout.next().map(|stage| stage.group.clone());
    let hosts = next.as_ref().and_then(|group| seen.get(group)).map(Vec::as_slice).unwrap_or_default();
    let step = rollout.step(now, &verdict, &judge::before(hosts));
    // A group is touched only when its hosts are there to say how they take it.
    let step = match (step, &next) {
        (Step::Turn(turn), Some(group)) if turn.rollout.touched > rollout.touched => {
            let unready = judge::unready(group, hosts, rollout.order.unanswered);
            if unready.is_empty() { Step::Turn(turn) } else { Step::WaitFor(unready) }
        }
        (step, _) => step,
    };
    let mut text = told(rollout);
    if let Step::WaitFor(why) = &step {
        text.push_str(&format!("; waiting: {}", why.join("; ")));
    }
    if let Some(fault) = verdict.suspected.first() {
        text.push_str(&format!("; looking again: {fault}"));
    }
    if !verdict.by_hand.is_empty() {
        let names: Vec<&str> = verdict.by_hand.iter().map(Name::as_str).collect();
        text.push_str(&format!("; set by hand, left alone: {}", names.join(", ")));
    }
    screen.now(&text);
    Ok(step)
}

/// The hosts of the groups that were touched, and of the next one when it is due.
fn look(desk: &mut Desk, args: &FleetDriveArgs, rollout: &Rollout) -> Result<BTreeMap<Name, Vec<Seen>>, Failure> {
    let asked = rollout.touched + usize::from(rollout.due(now()));
    let names: Vec<&Name> = rollout.stages.iter().take(asked).map(|stage| &stage.group).collect();
    let mut groups = desk.groups()?;
    groups.retain(|(group, _)| names.contains(&group));
    Ok(hosts::ask(desk, &groups, args.parallel))
}

/// Waits for the next look; `false`: somebody wants it to end.
fn nap(args: &FleetDriveArgs) -> bool {
    let stop = interrupt::flag();
    let until = std::time::Instant::now() + Duration::from_nanos(args.look.0);
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
    false
}

fn interrupted(rollout: Option<&Rollout>) -> ExitCode {
    if let Some(rollout) = rollout {
        eprintln!(
            "interrupted: {}; nobody judges it now\n  help: sluice fleet resume goes on, sluice fleet abort gives the groups their earlier mode",
            told(rollout)
        );
    }
    ExitCode::from(INTERRUPTED)
}

/// What goes on: lines that stay, and on a terminal one that changes.
struct Screen {
    bar: ProgressBar,
    quiet: bool,
}

impl Screen {
    fn new(quiet: bool) -> Screen {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(4) };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Screen { bar, quiet }
    }
    fn now(&self, text: &str) {
        self.bar.set_message(text.lines().next().unwrap_or_default().to_owned());
        self.bar.tick();
    }
    fn line(&self, text: &str) {
        if self.quiet {
            return;
        }
        if std::io::stderr().is_terminal() { self.bar.println(text) } else { eprintln!("{text}") }
    }
    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
