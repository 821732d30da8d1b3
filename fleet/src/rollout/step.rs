//! The next step of a rollout, from what its hosts say and from the time; and what operators ask of it meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use sluice_wire::snapshot::Mode;

use super::{Rollout, Status};
use crate::UnixTime;
use crate::judge::Verdict;
use crate::key::Name;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before this time, if nothing is found wrong.
    Wait(UnixTime),
    /// Nothing until hosts follow and answer, as this says.
    WaitFor(Vec<String>),
    /// To be written, all of it or nothing.
    Turn(Box<Turn>),
    /// Nothing any more.
    Over,
}

/// What a step writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The rollout as it stands then.
    pub rollout: Rollout,
    /// The groups whose mode is set.
    pub modes: Vec<(Name, Mode)>,
}

impl Rollout {
    /// The next step. `verdict` is of the groups that were touched; `before` is what is wrong now with the hosts of the
    /// next group.
    pub fn step(&self, now: UnixTime, verdict: &Verdict, before: &BTreeMap<Name, BTreeSet<String>>) -> Step {
        if self.status.over() {
            return Step::Over;
        }
        if self.touched > 0
            && let Some(fault) = verdict.faults.first()
        {
            let more = verdict.faults.len() - 1;
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            return self.ended(now, Status::Returned, format!("{fault}{more}"));
        }
        if self.status == Status::Paused {
            return Step::Wait(UnixTime(u64::MAX));
        }
        let mut rollout = self.clone();
        if let Some(last) = self.touched().last() {
            match self.wait_ends() {
                None if verdict.waiting.is_empty() => {
                    rollout.settled_at = Some(now);
                    rollout.note(now, format!("{}: all hosts follow", last.group));
                    return Step::Turn(Box::new(Turn { rollout, modes: Vec::new() }));
                }
                Some(end) if now < end => return Step::Wait(end),
                _ => {}
            }
            let unsettled: Vec<String> =
                verdict.waiting.iter().cloned().chain(verdict.suspected.iter().map(ToString::to_string)).collect();
            if !unsettled.is_empty() {
                return Step::WaitFor(unsettled);
            }
        }
        let Some(stage) = rollout.stages.get_mut(self.touched) else {
            rollout.status = Status::Done;
            rollout.note(now, "all groups have the mode");
            return Step::Turn(Box::new(Turn { rollout, modes: Vec::new() }));
        };
        stage.before.clone_from(before);
        let (group, to) = (stage.group.clone(), self.order.to);
        let earlier = stage.earlier;
        rollout.touched += 1;
        (rollout.touched_at, rollout.settled_at) = (now, None);
        rollout.note(now, format!("{group}: {} -> {}", earlier.as_str(), to.as_str()));
        Step::Turn(Box::new(Turn { rollout, modes: vec![(group, to)] }))
    }

    /// No further group until it is resumed; `None`: it does not run.
    pub fn pause(&self, now: UnixTime, by: &str) -> Option<Turn> {
        self.with(now, Status::Running, Status::Paused, format!("paused by {by}"))
    }

    /// It goes on; `None`: it is not paused.
    pub fn resume(&self, now: UnixTime, by: &str) -> Option<Turn> {
        self.with(now, Status::Paused, Status::Running, format!("resumed by {by}"))
    }

    /// It ends here, and what was touched gets its earlier mode; with `keep` the mode it has. `None`: it is over already.
    pub fn abort(&self, now: UnixTime, by: &str, keep: bool) -> Option<Turn> {
        let kept = if keep { ", the modes stay" } else { "" };
        match self.ended(now, Status::Aborted, format!("aborted by {by}{kept}")) {
            Step::Turn(turn) if !self.status.over() => {
                let modes = if keep { Vec::new() } else { turn.modes };
                Some(Turn { rollout: turn.rollout, modes })
            }
            _ => None,
        }
    }

    fn with(&self, now: UnixTime, from: Status, to: Status, text: String) -> Option<Turn> {
        if self.status != from {
            return None;
        }
        let mut rollout = self.clone();
        rollout.status = to;
        rollout.note(now, text);
        Some(Turn { rollout, modes: Vec::new() })
    }

    /// All that was touched gets its earlier mode, the last group first.
    fn ended(&self, now: UnixTime, status: Status, why: String) -> Step {
        let mut rollout = self.clone();
        rollout.status = status;
        rollout.note(now, format!("{}: {why}", status.word()));
        rollout.ended_by = why;
        let modes = self.touched().iter().rev().map(|stage| (stage.group.clone(), stage.earlier)).collect();
        Step::Turn(Box::new(Turn { rollout, modes }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::judge::Fault;
    use crate::rollout::Order;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn rollout() -> Rollout {
        let order = Order {
            to: Mode::Active,
            pause: Duration::from_secs(600),
            patience: Duration::from_secs(60),
            unanswered: 0,
            by: "ops".into(),
            reason: String::new(),
        };
        Rollout::new(order, vec![(name("rack1"), Mode::Observe), (name("rack2"), Mode::Bypass)], UnixTime(1000))
    }

    fn good() -> Verdict {
        Verdict::default()
    }

    fn slower() -> Verdict {
        Verdict { faults: vec![Fault::Slower { host: name("gpu-1"), job: "4711".into() }], ..good() }
    }

    fn turn(step: Step) -> Turn {
        match step {
            Step::Turn(turn) => *turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn groups_follow_one_another_with_the_wait_between() {
        let none = BTreeMap::new();
        let first = turn(rollout().step(UnixTime(1000), &good(), &none));
        assert_eq!(first.modes, [(name("rack1"), Mode::Active)]);
        // The wait begins when all hosts follow.
        let late = Verdict { waiting: vec!["gpu-1 is still in observe".into()], ..good() };
        assert_eq!(first.rollout.step(UnixTime(9999), &late, &none), Step::WaitFor(late.waiting.clone()));
        let settled = turn(first.rollout.step(UnixTime(1010), &good(), &none));
        assert_eq!(settled.modes, []);
        assert_eq!(settled.rollout.step(UnixTime(1609), &good(), &none), Step::Wait(UnixTime(1610)));
        assert_eq!(settled.rollout.step(UnixTime(1610), &late, &none), Step::WaitFor(late.waiting.clone()));
        // What may turn out to be a fault is looked at once more first.
        let suspected = Verdict { suspected: slower().faults, ..good() };
        assert!(matches!(settled.rollout.step(UnixTime(1610), &suspected, &none), Step::WaitFor(_)));
        let second = turn(settled.rollout.step(UnixTime(1610), &good(), &none));
        assert_eq!(second.modes, [(name("rack2"), Mode::Active)]);
        let settled = turn(second.rollout.step(UnixTime(1620), &good(), &none));
        assert_eq!(settled.rollout.step(UnixTime(2000), &good(), &none), Step::Wait(UnixTime(2220)));
        let done = turn(settled.rollout.step(UnixTime(2220), &good(), &none));
        assert_eq!((done.modes.len(), done.rollout.status), (0, Status::Done));
        assert_eq!(done.rollout.step(UnixTime(9999), &slower(), &none), Step::Over);
    }

    #[test]
    fn a_fault_gives_every_touched_group_its_earlier_mode() {
        let none = BTreeMap::new();
        // Before the first group is touched nothing can have been done to anybody.
        let first = turn(rollout().step(UnixTime(1000), &slower(), &none)).rollout;
        let settled = turn(first.step(UnixTime(1000), &good(), &none)).rollout;
        let second = turn(settled.step(UnixTime(1600), &good(), &none)).rollout;
        for (rollout, modes) in [
            (&first, vec![(name("rack1"), Mode::Observe)]),
            (&second, vec![(name("rack2"), Mode::Bypass), (name("rack1"), Mode::Observe)]),
        ] {
            let back = turn(rollout.step(UnixTime(1601), &slower(), &none));
            assert_eq!((back.modes, back.rollout.status), (modes, Status::Returned));
            assert!(back.rollout.ended_by.contains("4711"), "{}", back.rollout.ended_by);
        }
    }

    #[test]
    fn operators_pause_resume_and_abort() {
        let none = BTreeMap::new();
        let first = turn(rollout().step(UnixTime(1000), &good(), &none)).rollout;
        let paused = first.pause(UnixTime(1001), "ann").expect("it runs").rollout;
        assert_eq!(paused.pause(UnixTime(1002), "bob"), None);
        assert_eq!(paused.step(UnixTime(9999), &good(), &none), Step::Wait(UnixTime(u64::MAX)));
        // It is judged all the same.
        assert_eq!(turn(paused.step(UnixTime(9999), &slower(), &none)).rollout.status, Status::Returned);
        let resumed = paused.resume(UnixTime(1003), "bob").expect("it is paused").rollout;
        assert_eq!(resumed.resume(UnixTime(1004), "bob"), None);
        let aborted = resumed.abort(UnixTime(1005), "ann", false).expect("it runs");
        assert_eq!(aborted.modes, [(name("rack1"), Mode::Observe)]);
        assert_eq!(aborted.rollout.abort(UnixTime(1006), "ann", false), None);
        assert_eq!(resumed.abort(UnixTime(1005), "ann", true).expect("it runs").modes, []);
    }
}
