//! When a holder is told of what has changed.

use super::*;

const HOLDER: HolderId = HolderId(5);

/// Is the holder told something by the decision that is made now?
fn tells(host: &mut Host, ms: u64) -> bool {
    let mut actions = Vec::new();
    host.decide(at(ms), &mut actions);
    actions.iter().any(|action| matches!(action, Action::Announce { holder, .. } if *holder == HOLDER))
}

#[test]
fn a_small_change_waits_and_a_large_one_goes_as_soon_as_it_may() {
    let mut host = lone_host();
    let (flow, job) = (FlowId(u64::from(HostId::of("h0").0) << 32 | 1), JobId::of("a"));
    let hop = |link, holder| crate::Hop { link, capacity: Rate::mbps(1000), holder };
    let path = vec![hop(LinkId::egress(HostId::of("h0")), None), hop(LinkId::new(HOLDER.0, 3), Some(HOLDER))];
    host.handle(at(1), Event::JobSeen(JobSpec { job, pattern: Pattern::Ring }));
    host.handle(at(1), Event::FlowOpened(FlowSpec { flow, job, path, ..FlowSpec::default() }));
    host.handle(at(1), Event::RoundBegan { job, flows: vec![(flow, Bytes(90_000_000))] });
    assert!(tells(&mut host, 1), "it knows nothing yet");
    // The end is a third later than was said, and far away: nobody acts on it now.
    host.handle(at(4), Event::DemandChanged { flow, demand: Bytes(120_000_000) });
    assert!(host.has_news());
    assert!(!tells(&mut host, 4) && !tells(&mut host, 15));
    assert!(!host.has_news());
    assert!(tells(&mut host, 16), "15 ms after the last word");
    // All that it takes becomes free.
    host.handle(at(18), Event::DemandChanged { flow, demand: Bytes::ZERO });
    assert!(tells(&mut host, 18), "2 ms after the last word");
    host.handle(at(19), Event::RoundBegan { job, flows: vec![(flow, Bytes(90_000_000))] });
    assert!(!tells(&mut host, 19));
    assert_eq!(host.due_in(at(19)), Some(Nanos::from_millis(1)), "the shell is told until when it waits");
    assert!(tells(&mut host, 20));
    assert_eq!(host.due_in(at(20)), None);
}
