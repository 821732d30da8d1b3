//! C9: the clock that slots are counted on goes wrong on one host.

use std::time::{Duration, Instant};

use sluice_schedule::Rate;
use sluice_wire::snapshot::ConditionCode;

use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{Ground, Setting, Size, Stage, Unrun, silence_bound};
use crate::chaos::rows::partition::is_fresh;
use crate::run::RunError;

const SLOT_MS: f64 = 60.0;
/// P-22: no 10 ms below half of what was before.
const LEAST_BIN: f64 = 0.5;
/// Of the times that a clock is set this part is taken over, at least: two that come at once may be taken as one.
const TAKEN: f64 = 0.5;

/// A host whose clock is right again asks within a slot, and judges its clock each second.
const HEARD_MS: f64 = 2_000.0;

/// How a clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    /// At once, by so many ms.
    Step(f64),
    /// More by so much each second, ms, for so many seconds.
    Drift { ms_each_second: f64, seconds: u64 },
    /// It stands for so long and then goes on where it stood.
    Frozen(Duration),
}

impl Wrong {
    fn name(self) -> String {
        match self {
            Wrong::Step(ms) if ms.abs() < 1000.0 => format!("{ms:+} ms"),
            Wrong::Step(ms) => format!("{:+} s", ms / 1e3),
            Wrong::Drift { ms_each_second, seconds } => format!("{:.0} ppm for {seconds} s", ms_each_second * 1e3),
            Wrong::Frozen(time) => format!("frozen for {} s", time.as_secs()),
        }
    }
}

/// What was seen of slots while a clock was wrong.
#[derive(Debug, Default)]
struct Slots {
    last: Option<u32>,
    back: usize,
    looks: usize,
}

impl Slots {
    fn look(&mut self, stage: &Stage) {
        let Some(seen) = stage.snapshot(0) else { return };
        let now = seen.clock.slot;
        // Serial arithmetic: slots wrap.
        if self.last.is_some_and(|last| (now.wrapping_sub(last) as i32) < 0) {
            self.back += 1;
        }
        self.last = Some(now);
        self.looks += 1;
    }
}

/// Lets the job run and looks at the slots.
fn watch(stage: &mut Stage, slots: &mut Slots, time: Duration) -> Result<(), RunError> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        slots.look(stage);
        stage.live.run_for(Duration::from_millis(30))?;
    }
    Ok(())
}

/// C9: steps, drift and standing still; then a clock that nobody disciplines.
/// Promises: P-19, P-20, P-21
pub fn wrong(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let all = [
        Wrong::Step(37_000.0),
        Wrong::Step(-5_000.0),
        Wrong::Step(SLOT_MS),
        Wrong::Step(-SLOT_MS),
        // Others refuse what it says, and it stays connected: it has to find out by itself that it is right again.
        Wrong::Step(9.0 * SLOT_MS),
        Wrong::Drift { ms_each_second: 0.2, seconds: 20 },
        Wrong::Frozen(Duration::from_secs(10)),
    ];
    let mut figures = Vec::new();
    for wrong in all {
        let step = matches!(wrong, Wrong::Step(ms) if ms.abs() > 1_000.0);
        if ground.size != Size::Full && !step {
            continue;
        }
        let mut stage = ground.stage(&Setting::of("clock", 4, Rate::mbps(200)))?;
        let steps = |stage: &Stage| {
            stage.snapshot(0).map_or(0, |seen| seen.counters.clock_steps_forward + seen.counters.clock_steps_backward)
        };
        let ran_out = |stage: &Stage| stage.snapshot(0).map_or(0, |seen| seen.counters.released_deadline);
        let (before, out_before) = (steps(&stage), ran_out(&stage));
        let base = (Stage::now().saturating_sub(1_500_000_000), Stage::now());
        let undisturbed = stage.least_bin(base, base);
        let (at, mut slots) = (Stage::now(), Slots::default());
        slots.look(&stage);
        let mut counted = None;
        let mut set = 0_usize;
        match wrong {
            Wrong::Step(ms) => {
                stage.live.daemons.set_clock(0, ms)?;
                set += 1;
                counted = stage.until(0, Duration::from_secs(3), |seen| {
                    seen.counters.clock_steps_forward + seen.counters.clock_steps_backward > before
                })?;
                watch(&mut stage, &mut slots, Duration::from_secs(3))?;
            }
            Wrong::Drift { ms_each_second, seconds } => {
                for second in 1..=seconds {
                    stage.live.daemons.set_clock(0, ms_each_second * second as f64)?;
                    set += 1;
                    watch(&mut stage, &mut slots, Duration::from_secs(1))?;
                }
            }
            Wrong::Frozen(time) => {
                let began = Instant::now();
                while began.elapsed() < time {
                    stage.live.daemons.set_clock(0, -began.elapsed().as_secs_f64() * 1e3)?;
                    set += 1;
                    watch(&mut stage, &mut slots, Duration::from_millis(100))?;
                }
            }
        }
        // That nobody disciplines the clock is told by the same code: the sentence must be of the step.
        let alarm = stage.snapshot(0).is_some_and(|seen| {
            let mut conditions = seen.conditions.iter();
            conditions
                .any(|c| c.code == ConditionCode::ClockUnsafe && c.sentence.contains("was set by more than a slot"))
        });
        // Before it is right again, which it is by another reload.
        let taken = stage.logged(0, "config-reloaded").len();
        stage.live.daemons.set_clock(0, 0.0)?;
        // Slots do not go back: a host that was far ahead waits for as long as it was.
        let heard = if step { None } else { Some(stage.until(0, Duration::from_secs(10), is_fresh)?) };
        watch(&mut stage, &mut slots, Duration::from_secs(1))?;
        let end = Stage::now();
        let name = wrong.name();
        figures.push(
            Figure::at_least(
                format!("{name}: times that the daemon takes its clock over"),
                taken as f64,
                Unit::Count,
                TAKEN * set as f64,
            )
            .noted(format!("it was set {set} times")),
        );
        figures.push(
            Figure::exactly(format!("{name}: slots smaller than one before"), slots.back, 0)
                .noted(format!("{} looks", slots.looks)),
        );
        figures.push(Figure::holds(format!("{name}: the daemon answers at the end"), stage.snapshot(0).is_some()));
        if step {
            // Right and wrong are a step each: one is enough to be told of.
            figures.push(Figure::at_most(
                format!("{name}: until the step is counted"),
                counted.unwrap_or(f64::INFINITY),
                Unit::Ms,
                2.0 * SLOT_MS,
            ));
            figures.push(Figure::holds(format!("{name}: the daemon says clock-unsafe, and why"), alarm));
        }
        figures.extend(heard.map(|heard| {
            Figure::at_most(
                format!("{name}: until all switches are heard as before, once it is right again"),
                heard.unwrap_or(f64::INFINITY),
                Unit::Ms,
                HEARD_MS,
            )
        }));
        let out = ran_out(&stage).saturating_sub(out_before);
        figures.push(Figure::exactly(format!("{name}: orders that ran out meanwhile"), out as usize, 0));
        let least = stage.least_bin((at, end), base);
        figures.push(
            Figure::at_least(format!("{name}: least 10 ms, over the rate before"), least, Unit::Ratio, LEAST_BIN)
                .noted(format!("undisturbed {undisturbed:.2}")),
        );
        figures.push(Figure::at_most(
            format!("{name}: longest silence of a flow"),
            stage.silence(at, end),
            Unit::Ms,
            silence_bound(Rate::mbps(10)),
        ));
    }
    figures.extend(unsynchronised(ground)?);
    Ok(figures)
}

/// The kernel says of its clock that nobody disciplines it, and the daemon must mind.
fn unsynchronised(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let setting = Setting {
        more: "[clock]\nrequire_sync = true\nmax_error_ms = 1\n".into(),
        ..Setting::of("unsynchronised", 4, Rate::mbps(200))
    };
    let mut stage = ground.stage(&setting)?;
    let at = Stage::now();
    let synchronised = stage
        .snapshot(0)
        .is_some_and(|seen| seen.clock.synchronised && seen.clock.max_error_ns.is_some_and(|error| error <= 1_000_000));
    let told = stage.until(0, Duration::from_secs(5), |seen| {
        seen.conditions.iter().any(|condition| condition.code == ConditionCode::ClockUnsafe)
    })?;
    stage.live.run_for(Duration::from_secs(2))?;
    let (silence, managed) = (stage.silence(at, Stage::now()), stage.managed(0));
    let figure = if synchronised {
        // Nothing to be found wrong: this machine's clock is better than the bound.
        Figure::holds("a clock that is good is trusted", told.is_none())
    } else {
        Figure::holds("a clock that nobody disciplines is told of as clock-unsafe", told.is_some())
    };
    Ok(vec![
        figure,
        Figure::exactly("flows that are managed all the same, on own links alone", managed, 4),
        Figure::at_most("longest silence of a flow", silence, Unit::Ms, silence_bound(Rate::mbps(10))),
    ])
}
