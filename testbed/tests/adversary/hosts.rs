//! A6: what a host of the cluster can do that speaks every protocol as itself.

use std::time::Duration;

use sluice_schedule::{
    Announcement, BootId, Bytes, FlowId, FlowPromise, HostId, JobId, JobStatus, Nanos, Rate, Refusal, Slot,
};
use sluice_wire::hello::{ClockSource, Hello};
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::SessionClient;

use crate::attacker::{PATIENCE, turn};
use crate::programs::Switch;
use crate::speaker::{Speaker, announcement, ending, hello, port};
use crate::wire::{Proven, runtime};

/// Waits for what a counter comes to; pages of metrics are a second old at most.
fn counted(what: &str, mut so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "{what} was not counted");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// schedules far above what any cable carries, to have the fabric for itself.
#[test]
fn a_host_reserves_no_more_than_a_link_carries() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    let cable = Rate::mbps(10_000).payload();
    runtime().block_on(async {
        let mut greedy = Speaker::new(&switch, "h1").await;
        let mut honest = Speaker::new(&switch, "h2").await;
        // A port leads to it, so that it is known how much it can send: what is far above that is refused.
        for _ in 0..2 {
            assert_eq!(greedy.ask(Rate(u64::MAX), 0).await.refused, Some(Refusal::Quota));
            assert_eq!(honest.load(0).await, Rate::ZERO);
        }
        // A little above is scaled down to that; of a host whose cable nobody knows, what the link carries counts.
        let mut unknown = Speaker::new(&switch, "h7").await;
        for (speaker, rate, to) in [(&mut greedy, Rate::mbps(10_400), 0), (&mut unknown, Rate(u64::MAX), 1)] {
            let search = async {
                loop {
                    // What was refused before may be told twice.
                    let taken = speaker.ask(rate, to).await.refused.is_none();
                    // Where its lease was over before this was seen, it is another try.
                    let load = honest.load(to).await;
                    if taken && load > Rate::ZERO {
                        return load;
                    }
                }
            };
            let load = tokio::time::timeout(PATIENCE, search).await.expect("what it promises is seen");
            assert!(load > cable.times(0.9) && load <= cable, "{load} of {cable} on port {to}");
        }
    });
    counted("what was scaled down", || switch.metric("sluice_switchd_clipped_total", "s0") >= 2.0);
    counted("what was refused", || switch.metric("sluice_switchd_updates_total", "quota") >= 2.0);
}

/// more than its own cable, links that nothing of it crosses, and a host that the network does not have.
#[test]
fn a_host_promises_what_fits_its_cable_on_its_own_ways_only() {
    let Some(_turn) = turn() else { return };
    let proven = Proven::in_topology();
    runtime().block_on(async {
        let mut rogue = Speaker::proven(&proven, "h0").await;
        // Within what it has, and on its way to h1: that is taken.
        let good = rogue.says(Rate::mbps(5_000), 1);
        rogue.announce(good);
        rogue.hear(|f| f.seq == 1 && f.refused.is_none()).await;
        // Twice its cable, by two flows on two ways.
        let mut much = rogue.says(Rate::mbps(9_000), 1);
        let mut other = much.flows[0].clone();
        (other.flow, other.links) = (FlowId(other.flow.0 + 1), vec![port(2)]);
        much.flows.push(other);
        rogue.announce(much);
        let heard = rogue.hear(|f| f.refused == Some(Refusal::Quota)).await;
        assert_eq!(heard.seq, 1, "what was taken before stays");
        // Nothing that it sends comes back to itself.
        let own = rogue.says(Rate::mbps(5_000), 0);
        rogue.announce(own);
        rogue.hear(|f| f.refused == Some(Refusal::LinkNotYours)).await;
        // A little more than its cable, by two flows on two ways: both are scaled down to what the cable carries.
        let mut honest = Speaker::proven(&proven, "h1").await;
        let cable = Rate::mbps(10_000).payload();
        let search = async {
            loop {
                let mut little = rogue.says(Rate::mbps(5_200), 1);
                let mut other = little.flows[0].clone();
                (other.flow, other.links) = (FlowId(other.flow.0 + 1), vec![port(2)]);
                little.flows.push(other);
                let taken = rogue.insist(little).await.refused.is_none();
                let mut asks = honest.says(Rate::ZERO, 1);
                asks.watch = vec![port(1), port(2)];
                let loads = honest.insist(asks).await.links.into_iter().filter_map(|view| view.load.first().copied());
                let load = loads.fold(Rate::ZERO, Rate::plus);
                // Where its lease was over before this was seen, it is another try.
                if taken && load > Rate::ZERO {
                    return load;
                }
            }
        };
        let load = tokio::time::timeout(PATIENCE, search).await.expect("what it promises is seen");
        assert!(load > cable.times(0.9) && load <= cable, "{load} of {cable}");
        let mut nobody = Speaker::proven(&proven, "h9").await;
        let word = nobody.says(Rate::mbps(5_000), 1);
        nobody.announce(word);
        nobody.hear(|f| f.refused == Some(Refusal::UnknownHost)).await;
    });
    for result in ["quota", "link-not-yours", "unknown-host"] {
        counted(result, || proven.switch.metric("sluice_switchd_updates_total", result) >= 1.0);
    }
}

/// ten thousand promises in one word, ten times.
#[test]
fn a_host_over_its_quota_is_not_heard_for_a_while_and_nobody_else_suffers() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    runtime().block_on(async {
        let mut greedy = Speaker::new(&switch, "h1").await;
        let mut honest = Speaker::new(&switch, "h2").await;
        for _ in 0..10 {
            let template = greedy.says(Rate::mbps(1), 0);
            let flow = |n: u64| FlowPromise {
                flow: FlowId(u64::from(template.host.0) << 32 | n),
                links: vec![port(0), port(1)],
                rates: vec![Rate(1); 10],
                demand: Bytes::ZERO,
                takes: Rate::ZERO,
                ..template.flows[0].clone()
            };
            let much = Announcement { flows: (0..4_097).map(flow).collect(), ..template };
            greedy.announce(much);
            greedy.hear(|f| f.refused == Some(Refusal::Quota)).await;
        }
        let modest = greedy.says(Rate::mbps(1), 0);
        greedy.announce(modest);
        greedy.hear(|f| f.refused == Some(Refusal::Quota)).await;
        assert_eq!(honest.load(0).await, Rate::ZERO);
    });
    assert!(switch.log().contains("host-over-quota"));
    counted("the quota", || switch.metric("sluice_switchd_updates_total", "quota") >= 10.0);
}

/// other hosts' flows, and links that are not this switch's.
#[test]
fn a_host_speaks_of_its_own_flows_and_of_links_that_are_there() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    runtime().block_on(async {
        let mut rogue = Speaker::new(&switch, "h1").await;
        let mut honest = Speaker::new(&switch, "h2").await;
        let mut foreign = rogue.says(Rate::mbps(9_000), 0);
        foreign.flows[0].flow = FlowId(u64::from(HostId::of("h0").0) << 32 | 1);
        rogue.announce(foreign);
        rogue.hear(|f| f.refused == Some(Refusal::ForeignFlow)).await;
        let mut elsewhere = rogue.says(Rate::mbps(9_000), 0);
        elsewhere.flows[0].links = vec![port(0), port(77)];
        rogue.announce(elsewhere);
        rogue.hear(|f| f.refused == Some(Refusal::UnknownLink)).await;
        // What it claims to measure on a link that does not lead to it holds nobody at the floor.
        let mut measured = rogue.says(Rate::ZERO, 0);
        measured.measured = vec![(port(0), Rate(u64::MAX))];
        assert_eq!(rogue.insist(measured).await.refused, None);
        let heard = honest.ask(Rate::ZERO, 0).await;
        assert_eq!(heard.links.len(), 2, "it watches both ports");
        assert!(heard.links.iter().all(|view| view.cross == Rate::ZERO), "{:?}", heard.links);
        assert_eq!(honest.load(0).await, Rate::ZERO);
        // Of the link that leads to it the same word counts.
        let mut measured = rogue.says(Rate::ZERO, 0);
        measured.measured = vec![(port(1), Rate::mbps(5_000))];
        assert_eq!(rogue.insist(measured).await.refused, None);
        let heard = honest.ask(Rate::ZERO, 0).await;
        assert!(heard.links.iter().any(|view| view.link == port(1) && view.cross > Rate::ZERO), "{:?}", heard.links);
    });
    counted("a foreign flow", || switch.metric("sluice_switchd_updates_total", "foreign") >= 1.0);
    counted("an unknown link", || switch.metric("sluice_switchd_updates_total", "unknown") >= 1.0);
}

/// words in another host's name, to withdraw or overwrite what it promised.
#[test]
fn nobody_withdraws_or_overwrites_what_another_promised() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    runtime().block_on(async {
        let mut victim = Speaker::new(&switch, "h0").await;
        let mut third = Speaker::new(&switch, "h2").await;
        let mut seen = std::collections::BTreeSet::new();
        for names_itself in [false, true].repeat(10) {
            if seen.contains(&names_itself) {
                continue;
            }
            let said = std::time::Instant::now();
            victim.ask(Rate::mbps(3_000), 1).await;
            // In its own session, in the victim's name; and in the name that both agree on.
            let mut rogue = Speaker::new(&switch, "h1").await;
            let mut theirs = announcement("h0", 1_000, 1, Rate::ZERO);
            if names_itself {
                theirs.flows = announcement("h0", 1_000, 1, Rate::mbps(1)).flows;
            }
            rogue.announce(theirs);
            let error = ending(&mut rogue.client.receiver).await;
            assert_eq!(error.refusal_id(), Some(RefusalId::IdentityNotHost), "{error}");
            // Looked at before the victim says it again, which would heal what was done; where that took so long that its lease
            // may be over, nothing was seen, and it is another try.
            let load = third.load(1).await;
            if said.elapsed() < Duration::from_millis(600) {
                assert!(load >= Rate::mbps(2_999), "{load}");
                seen.insert(names_itself);
            }
        }
        assert_eq!(seen.len(), 2, "never within the lease: {seen:?}");
    });
}

/// statuses of jobs in another host's name, also of a job that the host has no part in. What it says of itself counts;
/// what that costs a job is in `schedule/src/host/tests/strangers.rs`.
#[test]
fn nobody_speaks_of_another_hosts_progress() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    runtime().block_on(async {
        let mut victim = Speaker::new(&switch, "h0").await;
        let mut rogue = Speaker::new(&switch, "h1").await;
        let status = |origin: &str, seq, offer| JobStatus {
            job: JobId::of("job"),
            origin: HostId::of(origin),
            boot: BootId(1),
            seq,
            round: 1,
            key: Nanos::from_millis(10),
            offer,
            ..JobStatus::default()
        };
        let elsewhere = |status: JobStatus| JobStatus { job: JobId::of("elsewhere"), ..status };
        // The third has a part in the job, and hears of all that have.
        let mut third = Speaker::new(&switch, "h2").await;
        let with = |mut announcement: Announcement, jobs: Vec<JobStatus>| {
            announcement.jobs = jobs;
            announcement
        };
        let said = victim.says(Rate::mbps(100), 1);
        victim.announce(with(said, vec![status("h0", 1, Rate::mbps(100))]));
        victim.hear(|f| f.seq == 1).await;
        // Nothing on the way, of the victim's word: what the origin says here beats what others relay.
        let said = rogue.says(Rate::ZERO, 1);
        let relayed = elsewhere(status("h9", 1, Rate::ZERO));
        rogue.announce(with(said, vec![status("h1", 1, Rate::ZERO), status("h0", 99, Rate::ZERO), relayed]));
        rogue.hear(|f| f.seq == 1).await;
        let said = third.says(Rate::ZERO, 1);
        let seq = said.seq;
        let own = status("h2", 1, Rate::mbps(100));
        third.announce(with(said, vec![own.clone(), elsewhere(own)]));
        let heard = third.hear(|f| f.seq >= seq && !f.jobs.is_empty()).await;
        let of_victim: Vec<_> = heard.jobs.iter().filter(|told| told.origin == HostId::of("h0")).collect();
        assert!(of_victim.iter().all(|told| told.offer == Rate::mbps(100) && told.seq == 1), "{of_victim:?}");
        assert!(!of_victim.is_empty(), "{heard:?}");
        assert!(heard.jobs.iter().all(|told| told.job == JobId::of("job")), "{heard:?}");
    });
}

/// slots far ahead and far behind, by which lanes would be filled or wiped.
#[test]
fn a_slot_far_off_is_refused_and_counted() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    let error = runtime().block_on(async {
        let mut rogue = Speaker::new(&switch, "h1").await;
        let mut honest = Speaker::new(&switch, "h2").await;
        for off in [3, 1_000, i32::MAX as u32, u32::MAX - 40] {
            let mut far = rogue.says(Rate::mbps(9_000), 0);
            far.slot = Slot(far.slot.0.wrapping_add(off));
            rogue.announce(far);
            rogue.hear(|f| f.refused == Some(Refusal::SlotGuard)).await;
        }
        assert_eq!(honest.load(0).await, Rate::ZERO);
        // Who says hello from another time is not let in at all.
        let mut late = hello("h3", 1);
        late.slot = late.slot.offset(1_000);
        SessionClient::connect(&switch.uri(), &late).await.expect_err("refused")
    });
    assert_eq!(error.refusal_id(), Some(RefusalId::SlotOffsetTooLarge), "{error}");
    counted("the guard", || switch.metric("sluice_switchd_slot_guard_rejects_total", "s0") >= 4.0);
    counted("the hello", || switch.metric("sluice_switchd_hellos_refused_total", "") >= 1.0);
}

/// another boot id with every word, by which what was promised before would never be withdrawn.
#[test]
fn a_host_that_is_another_process_with_every_word_has_one_promise() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    runtime().block_on(async {
        let mut honest = Speaker::new(&switch, "h2").await;
        let mut rogue = Speaker::new(&switch, "h1").await;
        let mut most = Rate::ZERO;
        for boot in 1..=20 {
            let mut anew = rogue.says(Rate::mbps(1_000), 0);
            anew.boot = BootId(boot);
            assert_eq!(rogue.insist(anew).await.refused, None);
            let load = honest.load(0).await;
            assert!(load <= Rate::mbps(1_001), "boot {boot}: {load}");
            most = most.max(load);
        }
        assert!(most >= Rate::mbps(999), "nothing was ever promised: {most}");
    });
}

/// a host of another slot length, horizon, epoch or cluster, by mistake.
#[test]
fn a_host_on_another_grid_is_refused_with_both_values() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    let refused = |change: fn(&mut Hello)| {
        let mut hello = hello("h1", 1);
        change(&mut hello);
        let error = runtime().block_on(SessionClient::connect(&switch.uri(), &hello)).expect_err("refused");
        (error.refusal_id(), error.to_string())
    };
    let (id, text) = refused(|hello| hello.grid.slot_length = Nanos::from_millis(50));
    assert!(id == Some(RefusalId::SlotLengthMismatch) && text.contains("50 ms") && text.contains("200 ms"), "{text}");
    let (id, text) = refused(|hello| hello.grid.horizon = 12);
    assert!(id == Some(RefusalId::HorizonMismatch) && text.contains("12") && text.contains("10"), "{text}");
    assert_eq!(refused(|hello| hello.grid.epoch = Nanos(7)).0, Some(RefusalId::EpochMismatch));
    assert_eq!(refused(|hello| hello.grid.clock = ClockSource::Tai).0, Some(RefusalId::EpochMismatch));
    assert_eq!(refused(|hello| hello.grid.cluster = "other".into()).0, Some(RefusalId::ClusterMismatch));
    counted("the hellos", || switch.metric("sluice_switchd_hellos_refused_total", "") >= 5.0);
    assert!(switch.log().contains("hello-refused"));
}
