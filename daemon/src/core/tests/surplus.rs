//! What flows take beyond their orders: allowed, counted and shown.

use super::*;
use crate::config::{CrossSource, Surplus};

/// A job's host with a round under way.
fn sending(surplus: Surplus) -> Star {
    let mut config = config(0, true);
    config.schedule.surplus = surplus;
    config.cross_traffic.source = CrossSource::File;
    let fabric = fabric(0, &config);
    let mut star = Star::new(vec![Site::on(config, fabric, (0, 1), "a")]);
    star.run(0, 300);
    star.sites[0].begin(60_000_000);
    star.run(300, 480);
    star
}

impl Star {
    /// Half a second in which the one flow takes half as much again as it is ordered, and sends a segment anew in every turn.
    fn exceed(&mut self) {
        for ms in (480..980).step_by(5) {
            self.turn(ms);
            let site = &self.sites[0];
            let order = site.order().expect("ordered").0;
            let mut rows = site.kernel.rows();
            let stats = rows.stats.get_mut(&site.row).expect("open");
            let moved = order.times(1.5).over(Nanos::from_millis(5));
            (stats.acked, stats.queued) = (stats.acked.plus(moved), stats.queued.minus(moved));
            (stats.delivery_rate, stats.surplus) = (order.times(1.5), order.times(0.5));
            (stats.retransmitted, stats.segment) = (stats.retransmitted + 1, Bytes(1448));
            stats.updated = Nanos::from_millis(ms);
        }
    }
}

#[test]
fn what_may_be_taken_in_all_reaches_the_kernel_with_the_order() {
    let told = |surplus| {
        let star = sending(surplus);
        let site = &star.sites[0];
        site.kernel.rows().surplus.get(&site.row).copied()
    };
    assert_eq!(told(Surplus::Always), Some(Some(LINK.payload())));
    assert_eq!(told(Surplus::Never), Some(None));
    assert_eq!(told(Surplus::Auto), Some(None), "nobody has seen unmanaged traffic");
}

#[test]
fn what_is_beyond_an_order_is_counted_and_shown_and_is_no_error() {
    let exceeding = |surplus| {
        let mut star = sending(surplus);
        star.exceed();
        star
    };
    let star = exceeding(Surplus::Always);
    let core = &star.sites[0].core;
    assert!(core.counters.surplus_bytes > core.counters.ordered_bytes / 10, "{}", core.counters.surplus_bytes);
    let order = star.sites[0].order().expect("ordered").0;
    let snapshot = crate::snapshot::take(core, &crate::facts::Facts::new(core));
    let flow = &snapshot.flows[0];
    assert_eq!((flow.ordered_bps, flow.surplus_bps), (Some(order.0), Some(order.times(0.5).0)));
    assert_eq!(flow.error_ratio, Some(0.0));
    assert_eq!(snapshot.daemon.surplus, "always");
    let id = core.host.flows().next().expect("one").spec.flow;
    let why = crate::snapshot::explain(core, id).expect("known").surplus.expect("it may take more");
    assert_eq!((why.ordered_bps, why.extra_bps), (order.0, order.times(0.5).0));
    assert_eq!(why.up_to_bps, LINK.payload().0);
    // The same where an order is all that a flow may send.
    let strict = exceeding(Surplus::Never);
    let core = &strict.sites[0].core;
    let snapshot = crate::snapshot::take(core, &crate::facts::Facts::new(core));
    assert_eq!((core.counters.surplus_bytes, snapshot.flows[0].surplus_bps), (0, None));
    assert!(snapshot.flows[0].error_ratio > Some(0.4), "{:?}", snapshot.flows[0].error_ratio);
    assert_eq!(crate::snapshot::explain(core, id).map(|why| why.surplus), Some(None));
    let errors = [&star, &strict].map(|star| star.sites[0].core.counters.order_error.sum);
    assert!(errors[0] < errors[1] / 4.0, "{errors:?}");
}

#[test]
fn the_kernels_count_of_cuts_is_passed_on() {
    let mut star = sending(Surplus::Always);
    star.sites[0].kernel.rows().counters.surplus_cuts = 9;
    star.run(480, 600);
    assert_eq!(star.sites[0].core.counters.surplus_cuts, 9);
}

#[test]
fn neither_a_surplus_nor_what_is_sent_again_is_taken_for_strangers_traffic() {
    let mut star = sending(Surplus::Always);
    let before = star.sites[0].core.traffic.loads[0].managed_bytes;
    let acked = |star: &Star| star.sites[0].kernel.rows().stats[&star.sites[0].row].acked;
    let from = acked(&star);
    star.exceed();
    star.turn(980);
    star.turn(1_020); // The last slot edge.
    let load = star.sites[0].core.traffic.loads[0];
    let counted = load.managed_bytes.minus(before);
    let sent = acked(&star).minus(from);
    assert!(counted >= sent.plus(Bytes(99 * 1448)), "{counted} of {sent} and what was sent again");
    assert_eq!(load.other_bytes, Bytes::ZERO);
    assert_eq!(star.sites[0].core.promised_here(now(1_020)), [Rate::MAX], "all that comes may be a surplus");
    let strict = sending(Surplus::Never);
    assert!(strict.sites[0].core.promised_here(now(480))[0] < Rate::MAX);
}
