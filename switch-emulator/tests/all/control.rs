//! `sluice-switch control` as a program: it fills a switch by its file, tells the guard each slot, and when it is killed hosts
//! hear it from every packet, all of which are forwarded, until another one is there.

use sluice_pipeline::{Reason, UDP_PORT, Verdict, frame};
use sluice_schedule::Slot;
use sluice_wire::udp::{GUARD, Packet};

use crate::support::slot;
use crate::twin::{Fates, HOST_B, HOST_C, Load, TABLES, Twin, announcement, probe};

/// Another way to [`HOST_B`], less of the first link, and nobody who is kept to his address.
const CHANGED: &[&str] = &[
    "link 1 capacity 300 unit 0 signature 0x00c0ffee",
    "link 2 capacity 500 unit 0 signature 0x000dabba",
    "route 10.0.1.0/24 via 2 02:00:00:00:02:01 02:00:00:00:00:02 # from now on",
    "route 10.0.2.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_switch_does_what_the_file_says_and_its_guard_follows_the_clock() {
    let twin = Twin::start().await;
    assert_eq!(twin.pass(HOST_B, &probe(slot())).0, Err(Reason::NoRoute), "it begins empty");
    let agent = twin.agent(&twin.file(TABLES));
    let counted = || {
        let (left, packet) = twin.pass(HOST_B, &announcement(slot(), 100));
        (packet.counted == 1).then_some((left, packet))
    };
    let (left, packet) = agent.until("is an announcement counted", counted).await;
    assert_eq!((left, packet.hops, packet.flags), (Ok(1), 1, 0));
    let lane = packet.lanes[packet.lane_of(0)];
    assert_eq!((lane.load_sum, lane.headroom), (100, 400), "of 500 units");
    assert_ne!(packet.path_sig, 0);
    assert_eq!(twin.mock.entries(), TABLES.len());
    let mut spoofed = frame::datagram(HOST_B, HOST_B, UDP_PORT, &probe(slot()));
    assert_eq!(twin.mock.frame(0, &mut spoofed), Verdict::Drop(Reason::Spoofed));

    let mut told: Vec<Slot> = Vec::new();
    let six_slots = || {
        let guard = twin.mock.guard()?;
        let ahead = guard.since(slot());
        assert!(ahead <= 1, "{guard:?} is {ahead} slots ahead of its time");
        // Where this machine was too busy the guard is late, which is nobody's fault.
        if ahead >= -1 && told.last() != Some(&guard) {
            assert!(told.last().is_none_or(|last| guard.since(*last) > 0), "{told:?}, then {guard:?}");
            told.push(guard);
        }
        (told.len() >= 6).then_some(())
    };
    agent.until("has the guard six slots in their time", six_slots).await;
    assert!(agent.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_next_agent_takes_a_changed_file_over_and_links_keep_their_signatures() {
    let twin = Twin::start().await;
    let first = twin.agent(&twin.file(TABLES));
    let (port, before) = first.until("is a probe answered", || twin.answered(HOST_B)).await;
    assert_eq!(port, 1);
    assert_eq!(twin.pass(HOST_C, &probe(slot())).0, Err(Reason::NoRoute));
    assert!(first.terminate().await.success());

    let second = twin.agent(&twin.file(CHANGED));
    let changed = || {
        let (to_b, to_c) = (twin.answered(HOST_B)?, twin.answered(HOST_C)?);
        (to_b.0 == 2 && twin.mock.entries() == CHANGED.len()).then_some((to_b.1, to_c))
    };
    let (other, (port, same)) = second.until("is the changed file in force", changed).await;
    assert_eq!((port, same.path_sig), (1, before.path_sig), "the link was there all the time");
    assert_ne!(other.path_sig, before.path_sig);
    let room = |packet: &Packet| packet.lanes[packet.lane_of(0)].headroom;
    assert_eq!([room(&before), room(&same), room(&other)], [500, 300, 500]);
    // The edge is gone, and with it the source that it bound.
    let mut foreign = frame::datagram(HOST_B, HOST_B, UDP_PORT, &probe(slot()));
    assert!(matches!(twin.mock.frame(0, &mut foreign), Verdict::Forward { port: 2, .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn when_its_agent_is_killed_a_switch_marks_later_slots_and_forwards_all_until_another_takes_over() {
    let twin = Twin::start().await;
    let tables = twin.file(TABLES);
    let mut first = twin.agent(&tables);
    let (_, before) = first.until("is a probe answered", || twin.answered(HOST_B)).await;
    let load = Load::start(&twin);
    let began = slot();
    first.until("is the load counted in three slots", || (load.counted_in(began) >= 3).then_some(())).await;
    first.kill();
    // Nobody writes any more: the guard is late, and later with every slot.
    first.until("is the guard eight slots late", || twin.ahead().filter(|ahead| *ahead <= -8)).await;
    let last = twin.mock.guard().unwrap();
    assert!(twin.answered(HOST_B).is_none(), "nothing passes the guard");
    assert_eq!(twin.mock.guard(), Some(last), "it stays what it was");

    let back = slot();
    let second = twin.agent(&tables);
    second.until("is the load counted in three slots again", || (load.counted_in(back) >= 3).then_some(())).await;
    let in_time = || twin.ahead().filter(|ahead| (-1..=1).contains(ahead)).and_then(|_| twin.answered(HOST_B));
    let (port, after) = second.until("is the guard in time again", in_time).await;
    assert_eq!((port, after.path_sig), (1, before.path_sig), "the switch is the same, and says so");

    let fates = load.end();
    let sum = |of: fn(&Fates) -> u64| fates.values().map(of).sum::<u64>();
    assert_eq!(sum(|fates| fates.lost), 0, "{fates:?}");
    assert!(sum(|fates| fates.forwarded) > 1000, "{fates:?}");
    // What a slot's packets were told does not depend on when in the slot they came, but for the two around a write.
    let dead = |slot: &u32| Slot(*slot).since(last) >= 2 && back.since(Slot(*slot)) >= 2;
    let dead: Vec<&Fates> = fates.iter().filter(|(slot, _)| dead(slot)).map(|(_, fates)| fates).collect();
    assert!(dead.len() >= 2, "{last:?} to {back:?}: {fates:?}");
    assert!(dead.iter().all(|fates| fates.forwarded > 0 && fates.marked == fates.forwarded), "{dead:?}");
    assert!(dead.iter().all(|fates| fates.counted == 0), "{dead:?}");
    let rejected = twin.mock.with_switch(|switch| switch.counters().of_port(1).rejected);
    assert!(rejected >= sum(|fates| fates.marked), "the switch counts {rejected} of them");
    assert_eq!(GUARD, 0x08, "the flag of the documents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_no_further_try_can_change_is_named_and_ends_it() {
    let twin = Twin::start().await;
    let wrong = twin.file(&[TABLES[0], "link 1 capacity much unit 0 signature 0x1"]);
    let missing = wrong.with_file_name("missing.tables");
    for (tables, says) in [
        (&wrong, format!("error: {}, line 2: the capacity is `much`", wrong.display())),
        (&missing, format!("error: {}: ", missing.display())),
    ] {
        let mut agent = twin.agent(tables);
        assert_eq!(agent.ended().await.code(), Some(1));
        assert!(agent.log().starts_with(&says), "{}", agent.log());
    }
    let mut agent = twin.agent_at("no address", &twin.file(TABLES));
    assert_eq!(agent.ended().await.code(), Some(1));
    let says = "error: the agent ends: `no address` is no address of a switch";
    assert!(agent.log().contains(says), "{}", agent.log());
    assert_eq!((twin.mock.entries(), twin.mock.guard()), (0, None), "nothing was written");
}
