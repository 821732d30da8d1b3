//! A host of the cluster that says that it has a part in a job of others: what that costs the job, and for how long.

use super::*;
use crate::JobStatus;

const HOLDER: HolderId = HolderId::of("s0");
/// The slots in which the stranger is heard.
const LIES: std::ops::Range<u64> = 5..10;

/// The order of a job's flow at the end of each slot, while a stranger says this of the job. So many Mbit/s of its link
/// are promised to a round that comes later.
fn by_slot(promised: u64, lie: &JobStatus) -> Vec<Rate> {
    let mut host = lone_host();
    sends_to(&mut host, 1, HOLDER, at(0));
    let later = crate::FlowPromise {
        flow: FlowId(7),
        job: JobId::of("later"),
        key: Nanos::from_millis(60_000),
        rates: vec![Rate::mbps(promised)],
        ..crate::FlowPromise::default()
    };
    let (link, capacity) = (LinkId::new(HOLDER.0, 0), Rate::mbps(1000));
    let view = crate::LinkView { link, capacity, flows: vec![later], ..crate::LinkView::default() };
    let (mut seen, mut last) = (Vec::new(), 0);
    for slot in 0..20 {
        host.handle(at(slot * 60), Event::SlotEdge);
        for into in [0, 5, 30] {
            let ms = slot * 60 + into;
            keep_up(&mut host, &mut last, ms);
            if into == 5 {
                let said = LIES.contains(&slot).then(|| JobStatus { seq: slot, ..lie.clone() });
                let (links, jobs) = (vec![view.clone()], said.into_iter().collect());
                let feedback = Feedback { warm: true, slot: at(ms).slot, links, jobs, ..Feedback::default() };
                host.handle(at(ms), Event::Feedback { holder: HOLDER, feedback });
            }
            orders(&mut host, at(ms));
        }
        seen.extend(host.flows().map(|flow| flow.order));
    }
    seen
}

#[test]
fn a_stranger_takes_a_jobs_place_and_no_more_and_is_forgotten_three_slots_after_its_last_word() {
    let (job, origin) = (JobId::of("job"), HostId::of("h9"));
    let part = JobStatus { job, origin, key: Nanos(1), offer: Rate::MAX, ..JobStatus::default() };
    let stuck = JobStatus { offer: Rate::ZERO, ..part.clone() };
    let longest = JobStatus { key: Nanos::from_millis(100_000), ..part };
    for lie in [stuck, longest] {
        // Its floor, or what nobody was promised, if that is more.
        for (promised, left) in [(990, 10), (500, 500)] {
            let seen = by_slot(promised, &lie);
            let (mut lied, mut honest) = (seen[5..13].iter(), seen[..5].iter().chain(&seen[13..]));
            assert!(lied.all(|order| *order == Rate::mbps(left)), "{lie:?} beside {promised}: {seen:?}");
            assert!(honest.all(|order| *order == Rate::mbps(990)), "{lie:?} beside {promised}: {seen:?}");
        }
    }
}
