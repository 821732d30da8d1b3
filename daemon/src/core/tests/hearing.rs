//! What of all that comes in is a reason for a turn, and what is not believed.

use sluice_ebpf::SocketEventKind;
use sluice_schedule::LinkView;

use super::*;
use crate::conditions::ConditionCode;
use crate::monitor::Haste;

#[test]
fn an_answer_without_news_is_no_reason_for_a_turn() {
    let mut star = Star::new(vec![Site::new(0, 2, "a"), Site::new(1, 2, "b")]);
    star.run(0, 300);
    star.sites[0].begin(2_000_000);
    star.sites[1].begin(8_000_000);
    star.run(300, 420);
    let mut feedback = star.switch.feedback(now(420).slot, HostId::of("h0")).expect("has a lease");
    let site = &mut star.sites[0];
    site.turn(420);
    let mut hears = |feedback: &Feedback| {
        let (holder, feedback, at) = (HolderId::of("s"), feedback.clone(), now(421).mono);
        site.core.hear(now(421), &mut vec![Inbound::Feedback { holder, feedback, at }])
    };
    assert!(!hears(&feedback), "it is known");
    let mut listed = feedback.links.iter_mut().flat_map(|link| &mut link.flows);
    listed.next().expect("the other host promises something").rates[0] = Rate::mbps(700);
    assert!(hears(&feedback), "another rate");
}

#[test]
fn the_kernel_is_in_haste_when_a_round_begins_and_when_one_of_few_flows_ends() {
    let mut site = Site::new(0, 2, "a");
    site.turn(5);
    let tells = |site: &mut Site, kind| {
        site.kernel.tell(site.row, kind);
        let haste = site.core.hear_kernel(now(6));
        site.turn(6);
        haste
    };
    assert_eq!(tells(&mut site, SocketEventKind::Started), Haste::Much, "something begins that no page has told of");
    site.begin(8_000_000);
    site.turn(10);
    assert_eq!(tells(&mut site, SocketEventKind::Started), Haste::None, "it ran dry for a moment, and has its order");
    assert_eq!(tells(&mut site, SocketEventKind::Finished), Haste::Much);
    site.core.active = FEW + 1;
    site.kernel.tell(site.row, SocketEventKind::Finished);
    assert_eq!(site.core.hear_kernel(now(7)), Haste::Some, "one of many");
    assert_eq!(site.core.hear_kernel(now(8)), Haste::Some, "until there was a turn");
    site.turn(8);
    assert_eq!(site.core.hear_kernel(now(9)), Haste::None);
    site.kernel.tell(site.row, SocketEventKind::Closed);
    assert_eq!(site.core.hear_kernel(now(9)), Haste::Much);
}

#[test]
fn where_looks_are_dear_only_an_edge_or_the_end_of_the_rest_is_reason_for_one() {
    let mut site = Site::new(0, 2, "a");
    let turn = |site: &mut Site, ms| site.core.step(now(ms), &mut site.inbox, &mut site.said);
    assert!(turn(&mut site, 60));
    site.begin(8_000_000);
    assert!(turn(&mut site, 61), "nothing has said that looks are dear");
    site.core.rest(Nanos::from_millis(40));
    let delivered = |site: &Site| site.core.host().flows().next().expect("a flow").delivered;
    site.kernel.rows().stats.get_mut(&site.row).expect("a row").acked = Bytes(500_000);
    site.kernel.tell(site.row, SocketEventKind::Finished);
    let (order, before) = (site.order(), delivered(&site));
    assert!(!turn(&mut site, 80) && delivered(&site) == before);
    assert_eq!((site.core.haste(), site.order()), (Haste::Much, order), "what the kernel said waits, orders live on");
    assert!(!turn(&mut site, 100));
    assert!(turn(&mut site, 101) && delivered(&site) == Bytes(500_000));
    assert_eq!(site.core.haste(), Haste::None);
    assert!(!turn(&mut site, 119) && turn(&mut site, 120), "an edge comes first");
    assert!(site.order().is_some_and(|(_, expires)| expires > now(180).mono), "and renews orders");
}

/// A switch says that others have all of its links, and a flow fills its path all the same, as it may beyond its order.
#[test]
fn a_switch_that_says_full_where_a_flow_fills_the_link_is_doubted_until_nothing_contradicts_it() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 300);
    star.sites[0].begin(60_000_000);
    star.run(300, 480);
    let doubted = |star: &Star| star.sites[0].core.conditions.holds(ConditionCode::FeedbackDoubted);
    let order = |star: &Star| star.sites[0].order().expect("ordered").0;
    assert!(!doubted(&star) && order(&star) > LINK.times(0.8), "{}", order(&star));
    let mut least = order(&star);
    for ms in (480..1_500).step_by(5) {
        let site = &mut star.sites[0];
        site.turn(ms);
        let said: Vec<_> = site.said.0.borrow_mut().drain(..).collect();
        for (holder, Announcement { seq, slot, watch, .. }) in said {
            let full = |link: &LinkId| LinkView {
                link: *link,
                capacity: LINK.payload(),
                load: vec![LINK.payload(); 10],
                ..LinkView::default()
            };
            let links = watch.iter().map(full).collect();
            let feedback = Feedback { boot: BootId(99), seq, slot, warm: true, links, ..Feedback::default() };
            site.inbox.push(Inbound::Feedback { holder, feedback, at: now(ms).mono });
        }
        {
            let mut rows = site.kernel.rows();
            let stats = rows.stats.get_mut(&site.row).expect("open");
            let moved = LINK.payload().over(Nanos::from_millis(5));
            (stats.acked, stats.queued) = (stats.acked.plus(moved), stats.queued.minus(moved));
            (stats.delivery_rate, stats.updated) = (LINK.payload(), Nanos::from_millis(ms));
        }
        least = least.min(order(&star));
    }
    assert!(least < LINK.times(0.5), "the lie was not heard: {least}");
    assert!(doubted(&star) && star.sites[0].core.counters.refused_feedback > 0);
    // The view has grown old: what is left is an equal share, which is paced as before.
    assert!(order(&star) > LINK.times(0.8), "{}", order(&star));
    star.run(1_500, 2_700);
    assert!(!doubted(&star), "an honest switch is believed again");
}
