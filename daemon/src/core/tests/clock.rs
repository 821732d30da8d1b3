//! What is made of a clock that the kernel or other hosts' slots do not call right.

use super::*;

/// Promises: P-20
#[test]
fn where_one_holder_contradicts_the_other_is_asked_and_most_of_them_decide() {
    let (wrong, other) = (HolderId::of("s"), HolderId::of("t"));
    let mut asked = [0; 2];
    for (contradicts, asked) in [false, true].into_iter().zip(&mut asked) {
        let mut site = Site::new(0, 1, "a");
        let slot_diff = if contradicts { 5 } else { 0 };
        site.inbox.push(Inbound::Back { holder: wrong, slot_diff, offset_ns: None });
        site.turn(60);
        let alone = site.core.judge_by_peers(now(60));
        assert_eq!(alone.map_err(|differ| differ.median), if contradicts { Err(5) } else { Ok(ClockTrust::Trusted) });
        site.inbox.push(Inbound::Back { holder: other, slot_diff: 0, offset_ns: None });
        site.turn(65);
        let trust = site.core.judge_by_peers(now(65)).expect("of two the own clock is one more");
        assert_eq!(trust, if contradicts { ClockTrust::Contradicted } else { ClockTrust::Trusted });
        site.core.clock_asked(now(65), ClockState { trust, ..site.core.clock.clone() });
        (66..66 + 17 * 60).for_each(|ms| site.turn(ms));
        let said = site.said.0.borrow();
        *asked = said.iter().filter(|(holder, said)| *holder == other && said.flows.is_empty()).count();
    }
    assert_eq!(asked, [0, 1], "once in sixteen slots, and only where somebody contradicts");
}

/// Promises: P-20
#[test]
fn a_clock_that_is_trusted_unsynchronised_is_news_and_one_that_is_not_costs_coordination() {
    use crate::conditions::{ConditionCode, Severity};
    for (trust, expected) in [(ClockTrust::Trusted, Severity::Info), (ClockTrust::Untrusted, Severity::Degraded)] {
        let mut site = Site::new(0, 1, "a");
        (site.core.clock.why, site.core.clock.trust) = (Some("no time service".into()), trust);
        site.core.step(now(60), &mut site.inbox, &mut site.said);
        let condition = site.core.conditions.iter().find(|c| c.code == ConditionCode::ClockUnsafe).expect("it holds");
        assert_eq!(condition.severity, expected);
        assert_eq!(condition.cost.contains("require_sync = false"), trust.is_trusted(), "{}", condition.cost);
    }
}
