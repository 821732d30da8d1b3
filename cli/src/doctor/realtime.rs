//! May a thread of ours be a real-time one here, and is the daemon's?

use sluice_realtime::{Bound, Realtime, Refusal, Standing};
use sluice_wire::snapshot::{ConditionCode, Snapshot};

use super::Check;

const COST: &str = ConditionCode::RealtimeRefused.cost();

/// Tries it with this thread, and gives it back.
pub fn realtime() -> Check {
    judge(Realtime::new(Bound::DECIDING).look(true, sluice_clock::monotonic(), sluice_clock::thread_cpu()))
}

fn judge(standing: Standing) -> Check {
    let Standing::Refused(why) = standing else {
        return Check::ok("realtime", "a thread may be real-time: SCHED_RR, priority 1 (tried, given back)");
    };
    let fix = match why {
        Refusal::Permission => {
            "sudo sluice doctor; sluiced.service has LimitRTPRIO=1, which a drop-in may have taken away"
        }
        Refusal::Elsewhere => {
            "with CONFIG_RT_GROUP_SCHED: rt_group_sched=0 on the kernel's command line, or no CPUQuota and no CPUWeight in any service"
        }
        Refusal::Deadly { .. } => "LimitRTTIME=100ms:infinity, as in sluiced.service",
        Refusal::Taken | Refusal::Other(_) => "schedule.realtime = false, to do without",
    };
    Check::info("realtime", format!("this process has no real-time thread: {why}")).cost(COST).fix(fix)
}

/// What the daemon says of its own thread; nothing where it does not want it otherwise.
pub fn of_daemon(snapshot: &Snapshot) -> Option<Check> {
    if snapshot.daemon.realtime {
        return Some(Check::ok("realtime-daemon", "the deciding loop of sluiced is a real-time thread"));
    }
    let codes = [ConditionCode::RealtimeRefused, ConditionCode::RealtimeOverrun];
    let condition = snapshot.conditions.iter().find(|condition| codes.contains(&condition.code))?;
    let check = Check::info("realtime-daemon", format!("sluiced: {}", condition.sentence));
    Some(check.cost(&condition.cost).fix(&condition.next))
}

#[cfg(test)]
mod tests {
    use sluice_wire::snapshot::Condition;

    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_refusal_is_worth_knowing_and_says_what_to_do() {
        assert_eq!(judge(Standing::Realtime).state, State::Ok);
        for why in [Refusal::Permission, Refusal::Elsewhere, Refusal::Deadly { hard_us: 7 }, Refusal::Taken] {
            let check = judge(Standing::Refused(why));
            assert_eq!((check.state, check.cost.as_str()), (State::Info, COST));
            assert!(check.found.contains(&why.to_string()) && !check.fix.is_empty(), "{check:?}");
        }
    }

    #[test]
    fn the_daemons_own_word_is_told() {
        let mut snapshot = Snapshot::default();
        assert_eq!(of_daemon(&snapshot), None, "it only looks, or it shall not be");
        snapshot.conditions = vec![Condition::new(ConditionCode::RealtimeRefused, "", "no, since it is so")];
        let check = of_daemon(&snapshot).expect("a condition");
        assert_eq!((check.state, check.found.as_str()), (State::Info, "sluiced: no, since it is so"));
        snapshot.daemon.realtime = true;
        assert_eq!(of_daemon(&snapshot).map(|check| check.state), Some(State::Ok));
    }
}
