//! When a holder is told of what has changed.

use super::*;
use crate::clock::SELDOM_SLOTS;
use crate::event::ClockTrust;

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

/// A host whose flow shares the holder's link, and another that has promised so much there, until then.
fn beside(host: &mut Host, ms: u64, mbps: u64, until: u64) -> bool {
    let other = crate::FlowPromise {
        flow: FlowId(7),
        job: JobId::of("b"),
        key: Nanos(1),
        until: Nanos::from_millis(until),
        rates: vec![Rate::mbps(mbps)],
        ..Default::default()
    };
    let link = LinkId::new(HOLDER.0, 0);
    let flows = if mbps > 0 { vec![other] } else { Vec::new() };
    let view = crate::LinkView { link, capacity: Rate::mbps(1000), flows, ..crate::LinkView::default() };
    let feedback = Feedback { warm: true, slot: at(ms).slot, links: vec![view], ..Feedback::default() };
    host.handle(at(ms), Event::Feedback { holder: HOLDER, feedback });
    host.has_news()
}

#[test]
fn what_moves_a_tenth_of_a_link_is_acted_on_at_once_and_less_with_the_next_look() {
    let mut host = lone_host();
    let flow = sends_to(&mut host, 1, HOLDER, at(0));
    tells(&mut host, 0);
    assert!(beside(&mut host, 1, 400, 900), "somebody came");
    tells(&mut host, 1);
    assert!(!beside(&mut host, 2, 440, 900) && !beside(&mut host, 3, 400, 900), "40 and again 40 of 1000");
    assert!(beside(&mut host, 4, 440, 900), "three times 40, whichever way");
    tells(&mut host, 4);
    assert!(!beside(&mut host, 5, 450, 900));
    // A look for whatever reason takes it in.
    keep_up(&mut host, &mut 4, 6);
    orders(&mut host, at(6));
    assert_eq!(host.flows().find(|f| f.spec.flow == flow).map(|f| f.order), Some(Rate::mbps(550)));
    assert!(!beside(&mut host, 7, 450, 800), "an end that is far away");
    assert!(beside(&mut host, 8, 450, 20), "and one that is near");
    tells(&mut host, 8);
    assert!(!beside(&mut host, 21, 0, 0), "it ended when it was to");
}

#[test]
fn which_flow_of_a_job_has_how_much_is_nobodys_concern() {
    let mut host = lone_host();
    let flows: Vec<FlowId> = (0..12).map(|n| sends_to(&mut host, n, HOLDER, at(0))).collect();
    let (job, round) = (JobId::of("job"), flows.iter().map(|flow| (*flow, Bytes(1 << 30))).collect());
    host.handle(at(0), Event::RoundBegan { job, flows: round });
    assert!(tells(&mut host, 1));
    let sum = |host: &Host| host.flows().fold(Rate::ZERO, |sum, f| sum.plus(f.order)).0.div_ceil(1_000_000);
    let order = |host: &Host| host.flows().last().map(|f| f.order.0.div_ceil(1_000_000));
    assert_eq!((sum(&host), order(&host)), (1000, Some(84)), "the same to each");
    // One is over and leaves 83 to the others: 166 have moved, and in all nothing has.
    host.handle(at(8), Event::DemandChanged { flow: flows[0], demand: Bytes::ZERO });
    assert!(!tells(&mut host, 8));
    assert_eq!(order(&host), Some(91));
}

#[test]
fn a_round_of_which_less_is_sent_than_was_said_is_no_news_slot_after_slot() {
    // Under a policy that heeds nothing of what a flow takes.
    let mut host = Host::new(HostConfig { policy: PolicyName::Fair, ..lone_host().config });
    let flow = sends_to(&mut host, 1, HOLDER, at(0));
    // Whatever it is ordered, it would be through within a millisecond, and nothing of it ever moves.
    host.handle(at(0), Event::DemandChanged { flow, demand: Bytes(1000) });
    let mut said = [0; 10];
    for ms in 0..600 {
        if ms % 60 == 0 {
            host.handle(at(ms), Event::SlotEdge);
        }
        // Something else happens, so that there is a plan.
        host.handle(at(ms), Event::Clock(ClockTrust::Trusted));
        said[(ms / 60) as usize] += usize::from(tells(&mut host, ms));
    }
    assert!(said[1..].iter().all(|said| (1..=2).contains(said)), "{said:?}");
}

#[test]
fn a_host_that_distrusts_its_clock_promises_nothing_and_asks_once_in_a_slot() {
    let mut host = lone_host();
    sends_to(&mut host, 1, HOLDER, at(0));
    // When something is said within this time, and of how many flows.
    let said = |host: &mut Host, times: std::ops::Range<u64>| -> Vec<[u64; 2]> {
        let mut all = Vec::new();
        for ms in times {
            let mut actions = Vec::new();
            host.decide(at(ms), &mut actions);
            all.extend(actions.iter().filter_map(|action| match action {
                Action::Announce { announcement, .. } => Some([ms, announcement.flows.len() as u64]),
                _ => None,
            }));
        }
        all
    };
    assert_eq!(said(&mut host, 0..2), [[0, 1]]);
    host.handle(at(2), Event::Clock(ClockTrust::Untrusted));
    assert_eq!(said(&mut host, 2..150), [[60, 0], [120, 0]]);
    // One that cannot be reached is not asked, and one that is back at the next chance.
    host.handle(at(150), Event::HolderLost(HOLDER));
    assert_eq!(said(&mut host, 150..450), [[0; 2]; 0]);
    host.handle(at(450), Event::HolderBack(HOLDER));
    assert_eq!(said(&mut host, 450..500), [[450, 0]]);
    host.handle(at(500), Event::Clock(ClockTrust::Trusted));
    assert_eq!(said(&mut host, 500..560).first(), Some(&[500, 1]), "everything is told again");
}

/// Promises: P-20
#[test]
fn a_host_that_somebody_contradicts_asks_the_others_now_and_then() {
    let other = HolderId::of("s1");
    for (trust, asked) in [(ClockTrust::Trusted, 0), (ClockTrust::Contradicted, 2)] {
        let mut host = lone_host();
        sends_to(&mut host, 1, HOLDER, at(0));
        host.handle(at(0), Event::HolderBack(other));
        host.handle(at(0), Event::Clock(trust));
        let (mut promises, mut questions) = (0, 0);
        for ms in 0..2 * u64::from(SELDOM_SLOTS) * 60 {
            let mut actions = Vec::new();
            host.decide(at(ms), &mut actions);
            for action in actions {
                let Action::Announce { holder, announcement } = action else { continue };
                match holder == other {
                    true if announcement.flows.is_empty() => questions += 1,
                    _ => promises += usize::from(holder == HOLDER && announcement.flows.len() == 1),
                }
            }
        }
        assert_eq!(questions, asked, "{trust:?}");
        assert!(promises >= 2 * SELDOM_SLOTS as usize, "{trust:?}: {promises}");
        // One that cannot be reached is not asked.
        let end = 2 * u64::from(SELDOM_SLOTS) * 60;
        host.handle(at(end), Event::HolderLost(other));
        for ms in end..2 * end {
            let mut actions = Vec::new();
            host.decide(at(ms), &mut actions);
            assert!(!actions.iter().any(|a| matches!(a, Action::Announce { holder, .. } if *holder == other)));
        }
    }
}

#[test]
fn an_answer_to_whoever_asked_for_a_slot_says_nothing_of_links() {
    let mut host = lone_host();
    sends_to(&mut host, 1, HOLDER, at(0));
    let said = |host: &mut Host, ms: u64| {
        let mut actions = Vec::new();
        host.decide(at(ms), &mut actions);
        actions.iter().find_map(|action| match action {
            Action::Announce { announcement, .. } => Some(announcement.seq),
            _ => None,
        })
    };
    let answers = |host: &mut Host, ms: u64, seq: u64| {
        let feedback = Feedback { warm: true, seq, slot: at(ms).slot, ..Feedback::default() };
        host.handle(at(ms), Event::Feedback { holder: HOLDER, feedback });
        host.decide(at(ms), &mut Vec::new());
        host.views().next().map(|view| view.1)
    };
    host.handle(at(0), Event::Clock(ClockTrust::Untrusted));
    let question = said(&mut host, 0).expect("it asks");
    assert_eq!(answers(&mut host, 1, question), Some(ViewState::Local));
    host.handle(at(2), Event::Clock(ClockTrust::Trusted));
    let promise = said(&mut host, 2).expect("it announces");
    assert_eq!(answers(&mut host, 3, question), Some(ViewState::Local), "the answer came late");
    assert_eq!(answers(&mut host, 4, promise), Some(ViewState::Fresh));
}
