use std::time::Duration;

use sluice_wire::snapshot::{Benefit, BriefJob, Condition, FleetStatus, Label};

use super::*;
use crate::rollout::{Order, Step};

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

/// A rollout to active whose first group, with one condition known on gpu-1, was touched at 1000 s.
fn touched(unanswered: usize) -> Rollout {
    let order = Order {
        to: Mode::Active,
        pause: Duration::from_secs(600),
        patience: Duration::from_secs(60),
        unanswered,
        by: String::new(),
        reason: String::new(),
    };
    let rollout = Rollout::new(order, vec![(name("rack1"), Mode::Observe)], UnixTime(1000));
    let before = before(&[seen("gpu-1", with_condition(ConditionCode::FeedbackStale)), seen("gpu-2", active())]);
    match rollout.step(UnixTime(1000), &Verdict::default(), &before) {
        Step::Turn(turn) => turn.rollout,
        other => panic!("{other:?}"),
    }
}

fn active() -> Brief {
    Brief { mode: Mode::Active, ..Brief::default() }
}

fn with_condition(code: ConditionCode) -> Brief {
    Brief { conditions: vec![Condition::new(code, "leaf-1", "a sentence")], ..active() }
}

fn seen(host: &str, brief: Brief) -> Seen {
    Seen { host: name(host), http: format!("{host}:9605"), answer: Ok(Box::new(brief)) }
}

fn silent(host: &str) -> Seen {
    Seen { host: name(host), http: format!("{host}:9605"), answer: Err("connection refused".into()) }
}

fn look(judge: &mut Judge, rollout: &Rollout, at: u64, hosts: Vec<Seen>) -> Verdict {
    judge.look(rollout, UnixTime(at), &BTreeMap::from([(name("rack1"), hosts)]), None)
}

#[test]
fn what_is_new_and_lasts_is_a_fault() {
    let (rollout, mut judge) = (touched(0), Judge::default());
    let bad = || vec![seen("gpu-1", with_condition(ConditionCode::SwitchUnreachable))];
    for _ in 1..LOOKS {
        let verdict = look(&mut judge, &rollout, 1010, bad());
        assert_eq!((verdict.faults.len(), verdict.suspected.len()), (0, 1));
    }
    let verdict = look(&mut judge, &rollout, 1010, bad());
    assert_eq!(verdict.faults[0].to_string(), "gpu-1: switch-unreachable leaf-1: a sentence");
    // One good look, and it has to be seen again from the beginning.
    look(&mut judge, &rollout, 1010, vec![seen("gpu-1", active())]);
    assert_eq!(look(&mut judge, &rollout, 1010, bad()).faults, []);
}

#[test]
fn what_was_there_before_what_is_only_told_and_etcd_itself_are_none() {
    let (rollout, mut judge) = (touched(0), Judge::default());
    for _ in 0..2 * LOOKS {
        let hosts = vec![
            seen("gpu-1", with_condition(ConditionCode::FeedbackStale)),
            seen("gpu-2", with_condition(ConditionCode::RdmaUnmanaged)),
            seen("gpu-2", with_condition(ConditionCode::FleetUnreachable)),
            // Nobody knows what was wrong with it before.
            seen("gpu-3", with_condition(ConditionCode::FeedbackStale)),
        ];
        assert_eq!(look(&mut judge, &rollout, 2000, hosts), Verdict::default());
    }
    let mut judge = Judge::default();
    let looks = (0..LOOKS)
        .map(|_| look(&mut judge, &rollout, 1010, vec![seen("gpu-2", with_condition(ConditionCode::FeedbackStale))]));
    assert_eq!(looks.last().expect("some").faults.len(), 1);
}

#[test]
fn a_job_that_is_slower_is_a_fault_at_once() {
    let benefit = Benefit { state: BenefitState::Released, ..Benefit::default() };
    let brief = Brief { jobs: vec![BriefJob { id: Label::new("4711"), benefit }], ..active() };
    let verdict = look(&mut Judge::default(), &touched(0), 1001, vec![seen("gpu-1", brief)]);
    assert_eq!(verdict.faults, [Fault::Slower { host: name("gpu-1"), job: "4711".into() }]);
}

#[test]
fn hosts_that_do_not_follow_or_answer_are_waited_for_and_then_a_fault() {
    let (rollout, mut judge) = (touched(1), Judge::default());
    let hosts = || vec![seen("gpu-1", Brief::default()), silent("gpu-2"), silent("gpu-3")];
    for at in [1000, 1020, 1040, 1059] {
        let verdict = look(&mut judge, &rollout, at, hosts());
        assert_eq!((verdict.faults.len(), verdict.waiting.len()), (0, 2), "{verdict:?}");
    }
    let verdicts: Vec<Verdict> = (0..LOOKS).map(|i| look(&mut judge, &rollout, 1060 + u64::from(i), hosts())).collect();
    let faults = &verdicts.last().expect("some").faults;
    assert!(matches!(faults[..], [Fault::NotFollowing { .. }, Fault::Unanswered { hosts: 2, .. }]), "{faults:?}");
    // One that may be missing is missed by nobody.
    assert_eq!(look(&mut judge, &rollout, 2000, vec![seen("gpu-1", active()), silent("gpu-2")]), Verdict::default());
}

#[test]
fn a_host_under_somebodys_hand_is_named_and_stops_nothing() {
    let fleet = Some(FleetStatus { by_hand: true, ..FleetStatus::default() });
    let brief = Brief { mode: Mode::Bypass, fleet, ..with_condition(ConditionCode::EnforcementNone) };
    let (rollout, mut judge) = (touched(0), Judge::default());
    for _ in 0..2 * LOOKS {
        let verdict = look(&mut judge, &rollout, 5000, vec![seen("gpu-2", brief.clone())]);
        assert_eq!(verdict, Verdict { by_hand: vec![name("gpu-2")], ..Verdict::default() });
    }
}

#[test]
fn alerts_that_begin_to_fire_are_faults_and_so_is_their_silence() {
    let (rollout, mut judge) = (touched(0), Judge::default());
    let alert = |name: &str| Alert { name: name.into(), instance: "gpu-1:9605".into() };
    let old: BTreeSet<Alert> = [alert("Old")].into();
    let both: BTreeSet<Alert> = [alert("Old"), alert("SluiceSlotsLate")].into();
    let mut ask = |alerts: Result<BTreeSet<Alert>, String>| {
        judge.look(&rollout, UnixTime(1010), &BTreeMap::new(), Some(&alerts)).faults
    };
    assert_eq!(ask(Ok(old.clone())), []);
    assert_eq!((ask(Ok(both.clone())), ask(Ok(both.clone()))), (vec![], vec![]));
    assert_eq!(ask(Ok(both)), [Fault::Alert(alert("SluiceSlotsLate"))]);
    for i in 0..3 {
        assert_eq!(ask(Err(format!("try {i}"))).len(), usize::from(i == 2));
    }
}

#[test]
fn what_no_mode_can_cause_stops_no_rollout_and_what_one_can_does() {
    let known = sluice_monitoring::alerts::alerts();
    assert!(
        NO_MODES_DOING.iter().all(|name| known.iter().any(|alert| alert.name == *name)),
        "an alert has another name now"
    );
    for alert in &known {
        let (rollout, mut judge) = (touched(0), Judge::default());
        let fires = Ok([Alert { name: alert.name.into(), instance: "gpu-1:9605".into() }].into());
        let mut ask = |alerts: &Result<BTreeSet<Alert>, String>| {
            judge.look(&rollout, UnixTime(1010), &BTreeMap::new(), Some(alerts))
        };
        ask(&Ok(BTreeSet::new()));
        let looks: Vec<Verdict> = (0..LOOKS).map(|_| ask(&fires)).collect();
        let can = !NO_MODES_DOING.contains(&alert.name);
        assert_eq!(looks.iter().any(|verdict| !verdict.faults.is_empty()), can, "{}", alert.name);
        assert_eq!(looks.iter().any(|verdict| !verdict.suspected.is_empty()), can, "{}", alert.name);
    }
    for (code, can) in [
        (ConditionCode::CertExpired, false),
        (ConditionCode::CertificatesUnusable, false),
        (ConditionCode::ClockUnsafe, false),
        (ConditionCode::ConfigRejected, false),
        (ConditionCode::LossGuard, true),
        (ConditionCode::EnforcementNone, true),
        (ConditionCode::SwitchUnreachable, true),
    ] {
        assert_eq!(!wrong_with(&with_condition(code)).is_empty(), can, "{}", code.as_str());
    }
}

#[test]
fn a_group_is_touched_when_its_hosts_answer_and_are_of_it() {
    let of = |group: &str| Some(FleetStatus { group: group.into(), ..FleetStatus::default() });
    let good = || seen("gpu-1", Brief { fleet: of("rack1"), ..Brief::default() });
    let rack = name("rack1");
    assert_eq!(unready(&rack, &[good(), silent("gpu-2")], 1), Vec::<String>::new());
    for (hosts, why) in [
        (vec![], "no hosts"),
        (vec![good(), silent("gpu-2")], "gpu-2 (gpu-2:9605): connection refused"),
        (vec![good(), seen("gpu-2", Brief::default())], "in no fleet"),
        (vec![seen("gpu-2", Brief { fleet: of("rack2"), ..Brief::default() })], "of group rack2"),
    ] {
        let said = unready(&rack, &hosts, 0);
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
    }
}
