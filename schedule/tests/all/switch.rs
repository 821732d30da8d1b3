//! What hosts can rely on from a table holder, seen through its public face.

use sluice_schedule::message::{Announcement, FlowPromise, JobStatus, LinkView, Refusal};
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, FlowId, HostId, JobId, LinkId, Nanos, Rate, Slot};

const LINK: LinkId = LinkId::new(9, 1);
const OTHER: LinkId = LinkId::new(9, 2);
const CAPACITY: Rate = Rate::mbps(1000);

fn switch_with(limits: Limits) -> Switch {
    let link = |link| LinkConfig { link, capacity: CAPACITY, cross: Rate::ZERO, attached: Some(HostId(1)) };
    Switch::new(BootId(1), limits, &[link(LINK), link(OTHER)])
}

fn switch() -> Switch {
    switch_with(Limits { horizon: 4, ..Limits::default() })
}

fn promise(host: u32, local: u32, mbps: &[u64]) -> FlowPromise {
    FlowPromise {
        flow: FlowId((u64::from(host) << 32) | u64::from(local)),
        job: JobId(u64::from(host)),
        key: Nanos::from_millis(u64::from(local) + 1),
        takes: Rate::mbps(500),
        rates: mbps.iter().map(|&mbps| Rate::mbps(mbps)).collect(),
        links: vec![LINK],
        ..FlowPromise::default()
    }
}

fn says(host: u32, seq: u64, slot: u32, flows: Vec<FlowPromise>) -> Announcement {
    Announcement {
        host: HostId(host),
        boot: BootId(u64::from(host)),
        seq,
        slot: Slot(slot),
        flows,
        jobs: Vec::new(),
        watch: vec![LINK],
        ..Announcement::default()
    }
}

fn mbps(view: &LinkView) -> Vec<u64> {
    view.load.iter().map(|rate| rate.0 / 1_000_000).collect()
}

#[test]
fn a_view_shows_the_others_from_the_holders_slot_on() {
    let mut switch = switch();
    let first = switch.announce(Slot(100), &says(1, 1, 100, vec![promise(1, 1, &[100, 200])]));
    assert_eq!(first.seq, 1);
    assert_eq!(mbps(&first.links[0]), [0; 4], "its own promises are not load to it");
    let second = switch.announce(Slot(101), &says(2, 1, 101, vec![promise(2, 1, &[300])]));
    assert_eq!(mbps(&second.links[0]), [200, 200, 200, 0], "shifted by one; beyond its K-th slot nothing is promised");
    assert_eq!(second.links[0].flows.len(), 1);
    assert_eq!(second.links[0].flows[0].rates, [Rate::mbps(200)]);
    let back = switch.feedback(Slot(101), HostId(1)).expect("has a lease");
    assert_eq!(mbps(&back.links[0]), [300; 4]);
    assert!(!back.warm && switch.feedback(Slot(102), HostId(2)).expect("has a lease").warm);
}

#[test]
fn an_announcement_replaces_and_absence_withdraws() {
    let mut switch = switch();
    switch.announce(Slot(5), &says(1, 1, 5, vec![promise(1, 1, &[100]), promise(1, 2, &[50])]));
    switch.announce(Slot(5), &says(1, 2, 5, vec![promise(1, 2, &[70])]));
    let view = &switch.announce(Slot(5), &says(2, 1, 5, vec![])).links[0];
    assert_eq!((mbps(view), view.flows.len()), (vec![70; 4], 1));
}

/// Promises: P-25, P-37
#[test]
fn messages_are_ordered_by_boot_and_sequence() {
    let mut switch = switch();
    switch.announce(Slot(5), &says(1, 7, 5, vec![promise(1, 1, &[100])]));
    let twice = switch.announce(Slot(5), &says(1, 7, 5, vec![]));
    assert_eq!((twice.refused, twice.seq), (None, 7), "a repeat is harmless and no fault");
    let late = switch.announce(Slot(5), &says(1, 6, 5, vec![]));
    assert_eq!(late.refused, Some(Refusal::Old));
    let reborn = Announcement { boot: BootId(77), ..says(1, 1, 6, vec![promise(1, 1, &[30])]) };
    assert_eq!(switch.announce(Slot(6), &reborn).refused, None);
    assert_eq!(switch.announce(Slot(6), &says(1, 8, 6, vec![])).refused, Some(Refusal::Old), "the old boot stays gone");
    assert_eq!(mbps(&switch.announce(Slot(6), &says(2, 1, 6, vec![])).links[0]), [30; 4]);
    let counters = switch.counters();
    assert_eq!((counters.duplicates, counters.old, counters.restarts), (1, 2, 1));
}

/// The lease of a process ends just before its last word comes, which then takes the place of its successor's first.
#[test]
fn whoever_speaks_for_a_later_slot_than_a_late_word_lives() {
    let mut switch = switch();
    let of_next = |seq, slot| Announcement { boot: BootId(77), ..says(1, seq, slot, vec![promise(1, 1, &[30])]) };
    assert_eq!(switch.announce(Slot(6), &of_next(2, 5)).refused, None);
    assert_eq!(
        switch.announce(Slot(6), &says(1, 9, 5, vec![])).refused,
        None,
        "of two for one slot nobody knows which lives"
    );
    assert_eq!(switch.announce(Slot(6), &of_next(3, 5)).refused, Some(Refusal::Old));
    assert_eq!(switch.announce(Slot(6), &of_next(4, 6)).refused, None);
    assert_eq!(switch.announce(Slot(6), &says(1, 10, 6, vec![])).refused, Some(Refusal::Old));
}

/// Promises: P-11
#[test]
fn leases_end_and_watchers_hear_of_it() {
    let mut switch = switch();
    switch.announce(Slot(u32::MAX), &says(1, 1, u32::MAX, vec![promise(1, 1, &[100])]));
    switch.announce(Slot(0), &says(2, 1, 0, vec![]));
    assert_eq!(switch.take_stale(), [], "the only watcher of the change has just been answered");
    switch.expire(Slot(1));
    assert_eq!(switch.take_stale(), [HostId(2)]);
    assert_eq!(switch.hosts().collect::<Vec<_>>(), [HostId(2)]);
    assert_eq!(switch.links().next().map(|link| link.load.iter().any(|rate| *rate > Rate::ZERO)), Some(false));
    assert_eq!(switch.feedback(Slot(1), HostId(1)), None);
    assert_eq!(switch.counters().expirations, 1);
}

#[test]
fn only_what_others_changed_makes_a_host_stale() {
    let mut switch = switch();
    for host in 1..=3 {
        switch.announce(Slot(9), &says(host, 1, 9, vec![promise(host, 1, &[100])]));
    }
    assert_eq!(switch.take_stale(), [HostId(1), HostId(2)]);
    for host in 1..=3 {
        switch.feedback(Slot(9), HostId(host));
    }
    switch.announce(Slot(9), &says(2, 2, 9, vec![promise(2, 1, &[105])]));
    assert_eq!(switch.take_stale(), [], "half a percent of the link is no news");
    switch.announce(Slot(9), &says(2, 3, 9, vec![promise(2, 1, &[120])]));
    assert_eq!(switch.take_stale(), [HostId(1), HostId(3)]);
    assert_eq!(switch.take_stale(), [], "drained");
    switch.announce(Slot(10), &says(1, 2, 10, vec![promise(1, 1, &[100])]));
    assert_eq!(switch.take_stale(), [], "a renewal is no news");
}

#[test]
fn a_promise_that_differs_in_one_thing_that_ranks_it_is_news_to_the_others() {
    let base = promise(2, 1, &[100]);
    let cases: [(&str, FlowPromise, bool); 7] = [
        ("promoted", FlowPromise { promoted: true, ..base.clone() }, true),
        ("job", FlowPromise { job: JobId(77), ..base.clone() }, true),
        ("t0", FlowPromise { t0: Nanos(5), ..base.clone() }, true),
        ("key, by half", FlowPromise { key: Nanos(base.key.0 * 3 / 2), ..base.clone() }, true),
        ("until", FlowPromise { until: Nanos(9), ..base.clone() }, true),
        ("takes, by a tenth of the link", FlowPromise { takes: Rate::mbps(600), ..base.clone() }, true),
        ("key, by a tenth", FlowPromise { key: Nanos(base.key.0 * 11 / 10), ..base.clone() }, false),
    ];
    for (what, changed, is_news) in cases {
        let mut switch = switch();
        switch.announce(Slot(9), &says(2, 1, 9, vec![base.clone()]));
        switch.announce(Slot(9), &says(3, 1, 9, vec![]));
        switch.take_stale();
        switch.announce(Slot(9), &says(2, 2, 9, vec![changed]));
        assert_eq!(switch.take_stale() == [HostId(3)], is_news, "{what}");
    }
}

#[test]
fn what_would_say_nothing_new_is_not_answered() {
    let mut switch = switch();
    let mut seq = [0; 3];
    let mut hears = |switch: &mut Switch, host: u32, slot, mbps, watch: &[LinkId]| {
        seq[host as usize] += 1;
        let said = says(host, seq[host as usize], slot, vec![promise(host, 1, &[mbps])]);
        switch.hear(Slot(slot), &Announcement { watch: watch.to_vec(), ..said })
    };
    let first = hears(&mut switch, 1, 9, 100, &[LINK]).expect("the first of all");
    assert_eq!((first.seq, first.links.len()), (1, 1));
    assert_eq!(hears(&mut switch, 1, 9, 300, &[LINK]), None, "nobody else has said anything");
    assert_eq!(switch.counters().updates, 2, "it counts all the same");
    let two = hears(&mut switch, 1, 9, 300, &[LINK, OTHER]).expect("it asks for another link");
    assert_eq!(two.links.len(), 2);
    let other = hears(&mut switch, 2, 9, 200, &[LINK]).expect("the first of another host");
    assert_eq!(mbps(&other.links[0]), [300; 4]);
    let news = hears(&mut switch, 1, 9, 300, &[LINK, OTHER]).expect("somebody came");
    assert_eq!(mbps(&news.links[0]), [200; 4]);
    assert_eq!(hears(&mut switch, 1, 9, 310, &[LINK, OTHER]), None, "which it has heard by now");
    let renewed = hears(&mut switch, 1, 10, 310, &[LINK, OTHER]).expect("the first of a slot renews all views");
    assert_eq!((renewed.slot, mbps(&renewed.links[0])), (Slot(10), vec![200, 200, 200, 0]));
    let early = switch.hear(Slot(10), &says(1, 9, 20, Vec::new())).expect("a refused one is answered");
    assert_eq!(early.refused, Some(Refusal::SlotGuard));
}

proptest::proptest! {
    /// Who is answered only where that says something new, and pushed to like everybody, knows what who is always answered does.
    #[test]
    fn fewer_answers_leave_nobody_knowing_less(said in proptest::collection::vec((1_u32..4, 0_u32..2, 1_u64..9), 1..60)) {
        let (mut all, mut some) = (switch(), switch());
        let (mut slot, mut seq) = (9, 0);
        let mut known: std::collections::BTreeMap<HostId, [Vec<LinkView>; 2]> = std::collections::BTreeMap::new();
        for (host, passes, tenths) in said {
            (slot, seq) = (slot + passes, seq + 1);
            let said = says(host, seq, slot, vec![promise(host, 1, &[100 * tenths])]);
            let full = all.announce(Slot(slot), &said);
            let heard = some.hear(Slot(slot), &said);
            let views = known.entry(HostId(host)).or_default();
            views[0] = full.links;
            if let Some(answer) = heard {
                views[1] = answer.links;
            }
            for (at, switch) in [&mut all, &mut some].into_iter().enumerate() {
                for stale in switch.take_stale() {
                    let news = switch.feedback(Slot(slot), stale).expect("who is stale has a lease");
                    known.entry(stale).or_default()[at] = news.links;
                }
            }
            // The far end of a view moves on with each slot, for which nobody is told anew.
            let now = |views: &[LinkView]| -> Vec<_> {
                let flows = |view: &LinkView| view.flows.iter().map(|flow| (flow.flow, flow.rate(0), flow.rank())).collect::<Vec<_>>();
                views.iter().map(|view| (view.link, view.load[0], flows(view))).collect()
            };
            let [full, some] = &known[&HostId(host)];
            proptest::prop_assert_eq!(now(full), now(some));
        }
    }
}

/// Promises: P-37
#[test]
fn refusals_change_nothing_and_are_answered() {
    let mut switch = switch_with(Limits { hosts: 1, promises_per_host: 2, lease_slots: 2, horizon: 4 });
    switch.announce(Slot(50), &says(1, 1, 50, vec![promise(1, 1, &[100])]));
    let ahead = switch.announce(Slot(50), &says(1, 2, 52, vec![]));
    assert_eq!((ahead.refused, ahead.seq, ahead.links.len()), (Some(Refusal::SlotGuard), 1, 1));
    let foreign = switch.announce(Slot(50), &says(1, 2, 50, vec![promise(2, 1, &[1])]));
    assert_eq!(foreign.refused, Some(Refusal::ForeignFlow));
    let elsewhere = FlowPromise { links: vec![LinkId::new(1, 1)], ..promise(1, 1, &[1]) };
    assert_eq!(switch.announce(Slot(50), &says(1, 2, 50, vec![elsewhere])).refused, Some(Refusal::UnknownLink));
    let many = (1..=3).map(|local| promise(1, local, &[1])).collect();
    assert_eq!(switch.announce(Slot(50), &says(1, 2, 50, many)).refused, Some(Refusal::Quota));
    let second = switch.announce(Slot(50), &says(2, 1, 50, vec![]));
    assert_eq!((second.refused, second.seq), (Some(Refusal::Quota), 0));
    assert_eq!(mbps(&second.links[0]), [100; 4], "it may look all the same");
    let counters = switch.counters();
    assert_eq!((counters.updates, counters.quota_refusals, counters.guard_rejects), (1, 2, 1));
    assert_eq!(counters.feedbacks, 6, "every one of them was answered");
}

/// Promises: P-36
#[test]
fn one_host_reserves_at_most_what_the_link_carries() {
    let mut switch = switch();
    let greedy = vec![promise(1, 1, &[3000, 500]), promise(1, 2, &[1000, 400])];
    switch.announce(Slot(1), &says(1, 1, 1, greedy));
    let view = &switch.announce(Slot(1), &says(2, 1, 1, vec![])).links[0];
    assert_eq!(mbps(view), [1000, 900, 900, 900]);
    let shares: Vec<u64> = view.flows.iter().map(|flow| flow.rates[0].0 / 1_000_000).collect();
    assert_eq!(shares, [750, 250], "scaled in proportion, not refused");
    let largest = vec![promise(1, 1, &[u64::MAX]), promise(1, 2, &[u64::MAX])];
    switch.announce(Slot(1), &says(1, 2, 1, largest));
    let view = &switch.feedback(Slot(1), HostId(2)).expect("has a lease").links[0];
    assert!(view.load.iter().all(|&sum| sum <= CAPACITY));
}

#[test]
fn views_list_the_best_ranks_first_and_stop_at_their_limit() {
    let mut switch = switch();
    let mut flows: Vec<FlowPromise> = (1..=80).rev().map(|local| promise(1, local, &[1])).collect();
    flows[0].promoted = true;
    flows[0].t0 = Nanos::from_millis(1);
    let best = flows[0].flow;
    switch.announce(Slot(1), &says(1, 1, 1, flows));
    let view = &switch.announce(Slot(1), &says(2, 1, 1, vec![])).links[0];
    assert_eq!(view.flows.len(), LinkView::MAX_FLOWS);
    assert_eq!(view.flows[0].flow, best);
    assert!(view.flows.is_sorted_by_key(FlowPromise::rank));
    assert_eq!(mbps(view), [80; 4], "what is not listed is in the sums");
    assert!(view.flows.iter().all(|flow| flow.links.is_empty() && flow.rates.len() == 1));
}

fn status(job: u64, origin: u32, seq: u64, round: u64) -> JobStatus {
    JobStatus {
        job: JobId(job),
        origin: HostId(origin),
        boot: BootId(u64::from(origin)),
        seq,
        round,
        key: Nanos::from_millis(10),
        ..JobStatus::default()
    }
}

fn tells(host: u32, seq: u64, slot: u32, jobs: Vec<JobStatus>) -> Announcement {
    Announcement { jobs, watch: Vec::new(), ..says(host, seq, slot, vec![]) }
}

#[test]
fn statuses_reach_the_hosts_of_the_job_only() {
    let mut switch = switch();
    switch.announce(Slot(1), &tells(1, 1, 1, vec![status(8, 1, 1, 1)]));
    let peer = switch.announce(Slot(1), &tells(2, 1, 1, vec![status(8, 2, 1, 1), status(8, 1, 9, 5)]));
    assert_eq!(peer.jobs, [status(8, 1, 1, 1)], "what the origin says here beats what is relayed");
    assert!(switch.announce(Slot(1), &tells(3, 1, 1, vec![status(7, 3, 1, 1)])).jobs.is_empty());
    switch.take_stale();
    switch.feedback(Slot(1), HostId(1));
    switch.announce(Slot(1), &tells(1, 2, 1, vec![status(8, 1, 2, 2)]));
    assert_eq!(switch.take_stale(), [HostId(2)]);
    switch.announce(Slot(1), &tells(1, 3, 1, vec![]));
    assert_eq!(switch.take_stale(), [HostId(2)], "leaving the job is news");
    assert!(switch.feedback(Slot(1), HostId(2)).expect("has a lease").jobs.is_empty());
}

#[test]
fn a_host_with_flows_of_a_job_hears_of_it_after_another_has_left() {
    let mut switch = switch();
    let of_job = |host| vec![FlowPromise { job: JobId(8), ..promise(host, 1, &[100]) }];
    switch.announce(Slot(1), &says(2, 1, 1, of_job(2)));
    switch.announce(Slot(1), &says(3, 1, 1, of_job(3)));
    switch.announce(Slot(1), &says(3, 2, 1, vec![]));
    switch.take_stale();
    switch.feedback(Slot(1), HostId(2));
    switch.announce(Slot(1), &tells(1, 1, 1, vec![status(8, 1, 1, 1)]));
    assert_eq!(switch.take_stale(), [HostId(2)]);
    assert_eq!(switch.feedback(Slot(1), HostId(2)).expect("has a lease").jobs, [status(8, 1, 1, 1)]);
}

#[test]
fn relayed_news_ages_and_does_not_come_back() {
    let mut switch = switch();
    let relayed = status(8, 9, 4, 1);
    for slot in 1..=5_u32 {
        let both = vec![status(8, 1, u64::from(slot), 1), relayed.clone()];
        switch.announce(Slot(slot), &tells(1, u64::from(slot), slot, both));
        let seen = switch.announce(Slot(slot), &tells(2, u64::from(slot), slot, vec![status(8, 2, 1, 1)]));
        let origins: Vec<u32> = seen.jobs.iter().map(|status| status.origin.0).collect();
        assert_eq!(origins, if slot <= 2 { vec![1, 9] } else { vec![1] }, "slot {slot}");
    }
    let fresh = vec![status(8, 1, 6, 1), status(8, 9, 5, 1)];
    switch.announce(Slot(5), &tells(1, 6, 5, fresh));
    assert_eq!(switch.statuses(), 3);
}

#[test]
fn a_double_buffered_holder_answers_with_sums_only() {
    let links = [LinkConfig { link: LINK, capacity: CAPACITY, ..LinkConfig::default() }];
    let limits = Limits { horizon: 4, ..Limits::default() };
    let mut switch = Switch::with_table(BootId(1), limits, &links, TableKind::DoubleBuffer);
    switch.announce(Slot(10), &says(1, 1, 10, vec![promise(1, 1, &[100])]));
    switch.announce(Slot(10), &says(1, 2, 10, vec![promise(1, 1, &[900])]));
    let view = &switch.announce(Slot(10), &says(2, 1, 10, vec![])).links[0];
    assert_eq!((mbps(view), view.flows.len()), (vec![100; 4], 0), "the first schedule of a slot stands");
    switch.announce(Slot(11), &says(1, 3, 11, vec![]));
    let view = &switch.announce(Slot(11), &says(2, 2, 11, vec![])).links[0];
    assert_eq!(mbps(view), [0; 4]);
}

#[test]
fn capacity_and_cross_traffic_may_change() {
    let mut switch = switch();
    switch.announce(Slot(1), &says(1, 1, 1, vec![]));
    let slower = LinkConfig { link: LINK, capacity: Rate::mbps(100), cross: Rate::mbps(10), attached: None };
    assert!(switch.set_link(slower) && !switch.set_link(LinkConfig { link: LinkId(3), ..slower }));
    assert_eq!(switch.take_stale(), [HostId(1)]);
    let view = &switch.feedback(Slot(1), HostId(1)).expect("has a lease").links[0];
    assert_eq!((view.capacity, view.cross), (slower.capacity, slower.cross));
}

#[test]
fn measured_traffic_counts_while_its_reporter_lives() {
    let mut switch = switch();
    let cross = |switch: &mut Switch, slot| switch.feedback(Slot(slot), HostId(2)).map(|answer| answer.links[0].cross);
    switch.announce(Slot(1), &Announcement { measured: vec![(LINK, Rate::mbps(40))], ..says(1, 1, 1, vec![]) });
    switch.announce(Slot(1), &says(2, 1, 1, vec![]));
    assert_eq!(cross(&mut switch, 1), Some(Rate::mbps(40)));
    switch.announce(Slot(2), &says(2, 2, 2, vec![]));
    switch.announce(Slot(2), &Announcement { measured: vec![(LINK, Rate::MAX)], ..says(1, 2, 2, vec![]) });
    assert_eq!(switch.take_stale(), [HostId(2)]);
    assert_eq!(cross(&mut switch, 2), Some(CAPACITY), "no more than the link");
    switch.announce(Slot(3), &says(2, 3, 3, vec![]));
    assert_eq!(cross(&mut switch, 4), Some(Rate::ZERO));
}

#[test]
fn only_the_host_at_its_end_says_what_others_take_of_a_link() {
    let mut switch = switch();
    let measured = vec![(LINK, CAPACITY)];
    switch.announce(Slot(1), &Announcement { measured, ..says(2, 1, 1, vec![]) });
    let view = &switch.announce(Slot(1), &says(3, 1, 1, vec![])).links[0];
    assert_eq!(view.cross, Rate::ZERO, "host 2 is not attached there, so it cannot hold the others at their floor");
}

#[test]
fn a_host_whose_clock_is_a_little_ahead_does_not_meet_itself_in_a_double_buffer() {
    let link = LinkConfig { link: LINK, capacity: CAPACITY, cross: Rate::ZERO, attached: Some(HostId(1)) };
    let limits = Limits { horizon: 4, ..Limits::default() };
    let mut switch = Switch::with_table(BootId(9), limits, &[link], TableKind::DoubleBuffer);
    let word =
        |host: u32, seq: u64, slot: u32| says(host, seq, slot, vec![promise(host, 1, &[100 * u64::from(host); 4])]);
    for (seq, slot) in (1..).zip(100..103) {
        switch.announce(Slot(slot), &word(1, seq, slot));
        let view = switch.announce(Slot(slot), &word(2, seq, slot));
        assert_eq!(mbps(&view.links[0])[..3], [100; 3], "slot {slot}");
    }
    // Host 1 is in slot 103, the holder is not: what the other promised for 103 and after is shown, and nothing else.
    let early = switch.announce(Slot(102), &word(1, 4, 103));
    assert_eq!((early.slot, mbps(&early.links[0])), (Slot(102), vec![0, 200, 200, 200]));
}
