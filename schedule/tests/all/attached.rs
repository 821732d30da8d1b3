//! What one host can reserve where the holder knows how it is attached: never more than its own cables carry.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sluice_schedule::message::{Announcement, FlowPromise, Refusal};
use sluice_schedule::switch::{Attached, Attachment, Limits, LinkConfig, Switch};
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, FlowId, HostId, LinkId, Rate, Slot};

const HORIZON: usize = 4;
const LINKS: [LinkId; 4] = [LinkId::new(9, 1), LinkId::new(9, 2), LinkId::new(9, 3), LinkId::new(8, 1)];
const CAPACITY: Rate = Rate::mbps(10_000);
const ACCESS: Rate = Rate::mbps(1_000);
const HOST: HostId = HostId(1);

/// The host reaches the first two links and the last, which another switch has; nobody else is known.
fn holder(kind: TableKind) -> Switch {
    let link = |link| LinkConfig { link, capacity: CAPACITY, ..LinkConfig::default() };
    let limits = Limits { horizon: HORIZON, ..Limits::default() };
    let mut switch = Switch::with_table(BootId(1), limits, &LINKS.map(link), kind);
    let mut reach = vec![LINKS[0], LINKS[1], LINKS[3]];
    reach.sort_unstable();
    let place = Attachment { access: ACCESS, reach: Some(reach.into()) };
    switch.attach(Attached { hosts: BTreeMap::from([(HOST, place)]), others: false });
    switch
}

fn flow(host: HostId, n: u32, rates: Vec<Rate>, links: Vec<LinkId>) -> FlowPromise {
    let takes = rates.first().copied().unwrap_or_default();
    FlowPromise { flow: FlowId(u64::from(host.0) << 32 | u64::from(n)), takes, rates, links, ..FlowPromise::default() }
}

fn says(host: HostId, seq: u64, flows: Vec<FlowPromise>) -> Announcement {
    let (boot, slot) = (BootId(5), Slot(100));
    Announcement { host, boot, seq, slot, flows, watch: LINKS.to_vec(), ..Announcement::default() }
}

fn promised(switch: &Switch) -> u64 {
    switch.links().map(|link| link.load.first().copied().unwrap_or_default().0).sum()
}

#[test]
fn what_fits_is_taken_a_little_more_is_scaled_down_and_more_than_that_is_refused() {
    let mut switch = holder(TableKind::Exact);
    let ask = |switch: &mut Switch, seq, mbps| {
        switch
            .announce(Slot(100), &says(HOST, seq, vec![flow(HOST, 1, vec![Rate::mbps(mbps)], vec![LINKS[0]])]))
            .refused
    };
    assert_eq!(ask(&mut switch, 1, 900), None);
    assert_eq!((promised(&switch), switch.counters().clipped), (Rate::mbps(900).0, 0));
    assert_eq!(ask(&mut switch, 2, 1_100), None);
    assert_eq!((promised(&switch), switch.counters().clipped), (ACCESS.0, 1));
    assert_eq!(ask(&mut switch, 3, 5_000), Some(Refusal::Quota));
    assert_eq!(promised(&switch), ACCESS.0, "the last that was accepted stays");
    assert_eq!(switch.lease(HOST).map(|lease| lease.seq), Some(2));
    // Many flows that each fit and together do not.
    let many = (0..20).map(|n| flow(HOST, n, vec![Rate::mbps(100)], vec![LINKS[n as usize % 2]])).collect();
    assert_eq!(switch.announce(Slot(100), &says(HOST, 4, many)).refused, Some(Refusal::Quota));
    assert_eq!(switch.counters().quota_refusals, 2);
}

#[test]
fn links_beyond_its_ways_and_hosts_that_are_attached_nowhere_are_refused() {
    let mut switch = holder(TableKind::Exact);
    let one = vec![Rate::mbps(1)];
    let mut ask = |host: HostId, seq, links: &[LinkId]| {
        switch.announce(Slot(100), &says(host, seq, vec![flow(host, 1, one.clone(), links.to_vec())])).refused
    };
    assert_eq!(ask(HOST, 1, &[LINKS[2]]), Some(Refusal::LinkNotYours));
    assert_eq!(ask(HOST, 2, &[LINKS[0], LINKS[1]]), Some(Refusal::LinkNotYours), "one switch is left by one link");
    assert_eq!(ask(HOST, 3, &[LINKS[0], LINKS[3]]), None);
    assert_eq!(ask(HostId(2), 1, &[LINKS[0]]), Some(Refusal::UnknownHost));
    let counters = switch.counters();
    assert_eq!((counters.foreign_links, counters.unknown_hosts), (2, 1));
    switch.attach(Attached::default());
    let free = switch.announce(Slot(100), &says(HostId(2), 2, vec![flow(HostId(2), 1, one, vec![LINKS[2]])]));
    assert_eq!(free.refused, None, "where nothing is known nothing is bounded");
}

/// One message: of each flow its number, its link and its rates. Most of them are taken; some are too much, or on a link beyond
/// the host's ways, which refuses the whole message.
fn message() -> impl Strategy<Value = Vec<(u32, usize, Vec<u64>)>> {
    let link = prop_oneof![24 => prop::sample::select(vec![0_usize, 1, 3]), 1 => Just(2)];
    let rate = prop_oneof![24 => 0..300_000_000_u64, 2 => 0..2_000_000_000_u64, 1 => any::<u64>()];
    prop::collection::vec((0_u32..64, link, prop::collection::vec(rate, 0..6)), 0..12)
}

/// What came of all messages of a run of cases.
#[derive(Default)]
struct Came {
    /// Taken, with two flows or more.
    taken: Cell<u64>,
    /// Of those the ones that were scaled down to what the host can send.
    scaled: Cell<u64>,
    refused: Cell<u64>,
}

fn more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// Whatever a host sends, what is in force of it is never more than it can send at all: over all links together where
/// each flow has one, and what its flows say they take.
fn reserves_no_more_than_its_access_rate(
    messages: Vec<Vec<(u32, usize, Vec<u64>)>>,
    soft: bool,
    came: &Came,
) -> Result<(), TestCaseError> {
    let mut switch = holder(if soft { TableKind::DoubleBuffer } else { TableKind::Exact });
    // A table of sums counts in units, each rate rounded up.
    let slack = if soft { 12 * switch.links().count() as u64 * (CAPACITY.0 >> 12) } else { 0 };
    for (seq, message) in messages.into_iter().enumerate() {
        let several = message.len() >= 2;
        let flows = message
            .into_iter()
            .map(|(n, link, rates)| flow(HOST, n, rates.into_iter().map(Rate).collect(), vec![LINKS[link]]));
        // The double buffer takes one schedule per flow and slot.
        let slot = Slot(100 + 3 * seq as u32 * u32::from(soft));
        let announcement = Announcement { slot, ..says(HOST, 1 + seq as u64, flows.collect()) };
        let clipped = switch.counters().clipped;
        match switch.announce(slot, &announcement).refused {
            Some(_) => more(&came.refused),
            None if several && switch.counters().clipped > clipped => {
                more(&came.taken);
                more(&came.scaled);
            }
            None if several => more(&came.taken),
            None => {}
        }
        for ahead in 0..HORIZON {
            let sum: u64 = switch.links().map(|link| link.load.get(ahead).copied().unwrap_or_default().0).sum();
            prop_assert!(sum <= ACCESS.0 + slack, "{sum} in slot {ahead}");
        }
        if !soft {
            let taken: u64 = LINKS.iter().filter_map(|link| switch.taken(*link)).map(|rate| rate.0).sum();
            prop_assert!(taken <= ACCESS.0, "{taken} taken");
        }
    }
    Ok(())
}

#[test]
fn nothing_that_a_host_sends_reserves_more_than_its_access_rate() {
    let config = ProptestConfig { cases: 256, source_file: Some(file!()), ..ProptestConfig::default() };
    let came = Came::default();
    let messages = (prop::collection::vec(message(), 1..12), any::<bool>());
    let ran = TestRunner::new(config)
        .run(&messages, |(messages, soft)| reserves_no_more_than_its_access_rate(messages, soft, &came));
    ran.unwrap_or_else(|wrong| panic!("{wrong}"));
    let Came { taken, scaled, refused } = came;
    println!(
        "{} messages of several flows taken, {} of them scaled, {} refused",
        taken.get(),
        scaled.get(),
        refused.get()
    );
    assert!(taken.get() > 100 && scaled.get() > 10 && refused.get() > 100, "the bound was hardly tried");
}
