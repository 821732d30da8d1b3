//! Everything that only counts up, and the distributions: what `/metrics` needs beside the present state.
//!
//! The deciding loop owns one [`Counters`], adds to it as things happen, and copies it into each snapshot.

use serde::{Deserialize, Serialize};
use sluice_identity::Reason;

/// Upper bounds of buckets, in the unit of the field.
pub mod bounds {
    /// Seconds after a slot's edge, as `/metrics` has them.
    pub const LATENESS: [f64; 9] = [0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06];
    /// Seconds of one decision, as `/metrics` has them.
    pub const DECISION: [f64; 10] = [0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01];
    /// Seconds from 10 µs to a second, each at most an eighth above the one before, so that a quantile may be compared with
    /// another one. All of [`LATENESS`], [`DECISION`] and [`EXCHANGE`] are among them.
    pub(super) fn fine() -> Vec<f64> {
        // From one of 1, 2, 5 to the next in so many equal steps.
        let parts = [(1, 2, 8), (2, 5, 12), (5, 10, 10)];
        let decades = [10_000_u64, 100_000, 1_000_000, 10_000_000, 100_000_000].into_iter();
        let ns = decades.flat_map(|decade| {
            parts.into_iter().flat_map(move |(low, high, steps)| {
                (0..steps).map(move |step| decade * low + decade * (high - low) * step / steps)
            })
        });
        ns.chain([1_000_000_000]).map(|ns| ns as f64 / 1e9).collect()
    }
    /// Bytes per second of one flow.
    pub(super) const FLOW_RATE: [f64; 11] = [1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10, 3e10, 1e11];
    /// |delivered − ordered| / ordered.
    pub(super) const ORDER_ERROR: [f64; 9] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
    /// Seconds of one round.
    pub(super) const ROUND: [f64; 12] = [0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 30.0, 60.0];
    /// Seconds from announcement to answer, as `/metrics` has them.
    pub const EXCHANGE: [f64; 11] = [0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0];
}

/// A distribution: counts per bucket of fixed bounds, sum and number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// Upper bounds, ascending; one more bucket above the last.
    pub bounds: Vec<f64>,
    /// Observations per bucket, not cumulative; one more than bounds.
    pub counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new(&[])
    }
}

impl Histogram {
    /// A distribution with these upper bounds of its buckets and no observation yet.
    pub fn new(bounds: &[f64]) -> Histogram {
        Histogram { bounds: bounds.to_vec(), counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Adds one observation; NaN is left out, what is below zero counts as zero.
    pub fn observe(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let value = value.max(0.0);
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(1);
            self.sum += value;
        }
    }

    /// The same observations in wider buckets: those of `bounds` that are bounds of its own.
    #[must_use]
    pub fn coarser(&self, bounds: &[f64]) -> Histogram {
        let mut wide = Histogram { sum: self.sum, ..Histogram::new(bounds) };
        let own = self.bounds.iter().copied().chain(std::iter::once(f64::INFINITY));
        for (own, count) in own.zip(&self.counts) {
            let bucket = wide.bounds.partition_point(|&bound| bound < own);
            if let Some(into) = wide.counts.get_mut(bucket) {
                *into = into.saturating_add(*count);
            }
        }
        wide
    }

    /// How many observations there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// The upper bound of the bucket in which this part of the observations ends; `None` if there are none.
    /// Above the last bound the last bound is given.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let wanted = (part.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        let bucket = self.counts.iter().position(|&count| {
            seen = seen.saturating_add(count);
            seen >= wanted
        })?;
        self.bounds.get(bucket).or(self.bounds.last()).copied()
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $start:expr,)*) => {
        /// Everything that only counts up since the start of the daemon.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counters { $($(#[$doc])* pub $name: $type,)* }
        impl Default for Counters {
            fn default() -> Self {
                Counters { $($name: $start,)* }
            }
        }
    };
}

counters! {
    /// Commands that were carried out and could not be written to the audit file.
    commands_unrecorded: u64 = 0,
    /// Slots that began.
    slots: u64 = 0,
    /// Slots whose decision at the edge was ready only after their end.
    slots_late: u64 = 0,
    /// Slots that passed while the process stood still.
    slots_stopped: u64 = 0,
    /// Slots left out because the clock stepped.
    slots_clock: u64 = 0,
    /// Wake-ups after the edge.
    lateness_s: Histogram = Histogram::new(&bounds::fine()),
    /// Time each decision took, in seconds.
    decision_s: Histogram = Histogram::new(&bounds::fine()),
    /// Decisions at a slot's edge.
    decisions_slot: u64 = 0,
    /// Decisions because a round began.
    decisions_start: u64 = 0,
    /// Decisions because a flow or round ended.
    decisions_end: u64 = 0,
    /// Decisions because demand changed.
    decisions_demand: u64 = 0,
    /// Decisions because feedback came.
    decisions_feedback: u64 = 0,
    /// Times the clock was set forward.
    clock_steps_forward: u64 = 0,
    /// Times the clock was set back.
    clock_steps_backward: u64 = 0,
    /// Flows that were opened.
    flows_opened: u64 = 0,
    /// Flows that were closed.
    flows_closed: u64 = 0,
    /// Sockets that found no free row.
    flow_table_full: u64 = 0,
    /// Payload bytes acknowledged on managed flows.
    acked_managed_bytes: u64 = 0,
    /// Payload bytes acknowledged on other flows of jobs.
    acked_other_bytes: u64 = 0,
    /// Integral of the orders.
    ordered_bytes: u64 = 0,
    /// Payload acknowledged beyond the orders, slot by slot, where orders are floors.
    surplus_bytes: u64 = 0,
    /// Losses, and queues to yield to, that halved what a flow took beyond its order.
    surplus_cuts: u64 = 0,
    /// Orders per managed flow with demand and slot, in bytes per second.
    ordered_rate: Histogram = Histogram::new(&bounds::FLOW_RATE),
    /// Delivered rates per managed flow with demand and slot, in bytes per second.
    delivered_rate: Histogram = Histogram::new(&bounds::FLOW_RATE),
    /// Order errors per flow and slot; demand-limited slots, and what is beyond an order that is a floor, left out.
    order_error: Histogram = Histogram::new(&bounds::ORDER_ERROR),
    /// Segments retransmitted on managed flows.
    retransmitted_managed: u64 = 0,
    /// Segments retransmitted on other flows of jobs.
    retransmitted_other: u64 = 0,
    /// Activations of the kernel's loss guard.
    loss_guards: u64 = 0,
    /// Flows given back because their order expired.
    released_deadline: u64 = 0,
    /// Flows given back because of loss.
    released_loss: u64 = 0,
    /// Flows given back because of the mode.
    released_mode: u64 = 0,
    /// Flows given back by `sluice drain`.
    released_drain: u64 = 0,
    /// Flows given back because something failed.
    released_error: u64 = 0,
    /// Flows given back because their job was slower with Sluice.
    released_benefit: u64 = 0,
    /// Changes of congestion control that worked.
    cc_ok: u64 = 0,
    /// Changes that failed.
    cc_error: u64 = 0,
    /// Kernel events lost (a scan follows).
    events_lost: u64 = 0,
    /// Rounds of all jobs.
    round_s: Histogram = Histogram::new(&bounds::ROUND),
    /// Time from announcement to answer, all switches.
    exchange_s: Histogram = Histogram::new(&bounds::fine()),
    /// Announcements refused: for a slot too far from the holder's.
    rejects_slot_guard: u64 = 0,
    /// Announcements refused: older than one that was applied.
    rejects_old: u64 = 0,
    /// Announcements refused: more promises than the holder takes.
    rejects_quota: u64 = 0,
    /// Announcements refused: a link that the holder does not keep.
    rejects_unknown_link: u64 = 0,
    /// Announcements refused: a flow of another host.
    rejects_foreign_flow: u64 = 0,
    /// Announcements refused: a link that nothing this host sends can cross.
    rejects_link_not_yours: u64 = 0,
    /// Announcements refused: the topology there does not have this host.
    rejects_unknown_host: u64 = 0,
    /// Connections of others refused: from outside the listed networks.
    connections_refused_network: u64 = 0,
    /// Connections of others refused: too many, silent, or something else than was expected.
    connections_refused_protocol: u64 = 0,
    /// Connections of others refused: they show no certificate.
    connections_refused_no_certificate: u64 = 0,
    /// Connections of others refused: nobody who is believed signed their certificate.
    connections_refused_unknown_authority: u64 = 0,
    /// Connections of others refused: their certificate is over, or not yet good.
    connections_refused_cert_expired: u64 = 0,
    /// Connections of others refused: their certificate names nobody.
    connections_refused_identity_unknown: u64 = 0,
    /// Connections of others refused: they speak in another's name.
    connections_refused_identity_not_host: u64 = 0,
    /// Connections of others refused by them: they do not believe this host's certificate.
    connections_refused_disbelieved: u64 = 0,
    /// Connections of others refused: this host's own certificate cannot be used.
    connections_refused_certificates_unusable: u64 = 0,
    /// Who asked over HTTP and was turned away: no place among connections, of all or of the user.
    askers_refused_connections: u64 = 0,
    /// Who asked over HTTP and was turned away: too few file descriptors were free.
    askers_refused_descriptors: u64 = 0,
    /// Who asked over HTTP and was turned away: no place among streams of the page.
    askers_refused_streams: u64 = 0,
    /// Who asked over HTTP and was turned away: no place among readings of the timeline and of the flight record.
    askers_refused_readings: u64 = 0,
    /// Who asked over HTTP and was turned away: no place among readers of the metrics.
    askers_refused_metrics: u64 = 0,
    /// Files of the progress directory that are no page, or one too many of their user.
    refused_pages: u64 = 0,
    /// Connections that a page names and another user has.
    refused_sockets: u64 = 0,
    /// Times that a page was ignored for a while because the kernel counted otherwise.
    ignored_pages: u64 = 0,
    /// Jobs that found no place among those of all users.
    crowded_jobs: u64 = 0,
    /// Flows that found none.
    crowded_flows: u64 = 0,
    /// Jobs that gave their places to those of who has fewer.
    given_jobs: u64 = 0,
    /// Flows that did.
    given_flows: u64 = 0,
    /// Progress pages that did.
    given_pages: u64 = 0,
    /// Pages none of whose connections has existed for long.
    forgotten_pages: u64 = 0,
    /// Links that a holder told of without being asked.
    refused_views: u64 = 0,
    /// Words of holders that are not believed.
    refused_feedback: u64 = 0,
    /// Datagrams sent to switches.
    datagrams_sent: u64 = 0,
    /// Of them, those that repeat one without an echo.
    datagrams_repeated: u64 = 0,
    /// Echoes of them.
    datagrams_answered: u64 = 0,
    /// Datagrams without an echo.
    datagrams_lost: u64 = 0,
    /// What came and is no echo of anything: late, twice, or no datagram of ours.
    datagrams_unexpected: u64 = 0,
    /// Echoes of datagrams that some switch did not count, as of another slot.
    datagrams_guarded: u64 = 0,
    /// In band: flows found on another path, or a switch on it begun anew.
    paths_moved: u64 = 0,
    /// Questions to switches by which link a flow goes on.
    route_asked_switch: u64 = 0,
    /// Answers to them.
    route_answered_switch: u64 = 0,
    /// Questions asked again because no answer came.
    route_unanswered_switch: u64 = 0,
    /// Probes sent to find by which switches a flow goes.
    route_asked_probe: u64 = 0,
    /// Probes that a switch sent back.
    route_answered_probe: u64 = 0,
    /// Probes that nobody sent back in time.
    route_unanswered_probe: u64 = 0,
    /// Processor time of looking at processes, sockets and links, in nanoseconds.
    cpu_stats_ns: u64 = 0,
    /// Processor time of deciding, in nanoseconds.
    cpu_schedule_ns: u64 = 0,
}

impl Counters {
    /// Takes over how many connections of others were refused so far.
    pub fn refused_connections(&mut self, counts: &[(Reason, u64)]) {
        self.connections_refused_protocol = 0;
        self.connections_refused_cert_expired = 0;
        for (reason, count) in counts {
            match reason {
                Reason::Network => self.connections_refused_network = *count,
                Reason::Places | Reason::Silent | Reason::Protocol => self.connections_refused_protocol += count,
                Reason::NoCertificate => self.connections_refused_no_certificate = *count,
                Reason::UnknownAuthority => self.connections_refused_unknown_authority = *count,
                Reason::Expired | Reason::NotYetValid => self.connections_refused_cert_expired += count,
                Reason::Unnamed => self.connections_refused_identity_unknown = *count,
                Reason::Other => self.connections_refused_identity_not_host = *count,
                Reason::Disbelieved => self.connections_refused_disbelieved = *count,
                Reason::Unready => self.connections_refused_certificates_unusable = *count,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_land_in_the_bucket_whose_bound_they_do_not_exceed() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 3.0, -1.0, f64::NAN] {
            histogram.observe(value);
        }
        assert_eq!(histogram.counts, [3, 1, 1]);
        assert_eq!((histogram.count(), histogram.sum), (5, 6.0));
        assert_eq!((histogram.quantile(0.5), histogram.quantile(0.99)), (Some(1.0), Some(2.0)));
        assert_eq!(Histogram::new(&[1.0]).quantile(0.5), None);
    }

    #[test]
    fn fine_buckets_are_close_together_and_add_up_to_those_of_metrics() {
        let fine = bounds::fine();
        assert!(fine.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= pair[0] * 1.1251), "{fine:?}");
        for wide in bounds::LATENESS.iter().chain(&bounds::DECISION).chain(&bounds::EXCHANGE) {
            assert!(fine.contains(wide), "{wide}");
        }
        let values = [0.000_003, 0.000_05, 0.000_051, 0.000_99, 0.0021, 0.09, 7.0];
        let (mut all, mut wide) = (Histogram::new(&fine), Histogram::new(&bounds::DECISION));
        values.iter().for_each(|value| (all.observe(*value), wide.observe(*value)).0);
        assert_eq!(all.coarser(&bounds::DECISION), wide);
        let odd = Histogram { bounds: vec![f64::NAN, 2.0], counts: vec![1, 2, 3, 4], sum: 1.0 };
        assert!(odd.coarser(&[1.0]).count() <= 10);
    }

    #[test]
    fn refused_connections_are_taken_over_and_never_added_up() {
        let mut counters = Counters::default();
        let counts: Vec<(Reason, u64)> = Reason::ALL.into_iter().zip(1..).collect();
        counters.refused_connections(&counts);
        counters.refused_connections(&counts);
        let by_word = [
            counters.connections_refused_network,
            counters.connections_refused_protocol,
            counters.connections_refused_no_certificate,
            counters.connections_refused_unknown_authority,
            counters.connections_refused_cert_expired,
            counters.connections_refused_identity_unknown,
            counters.connections_refused_identity_not_host,
            counters.connections_refused_disbelieved,
            counters.connections_refused_certificates_unusable,
        ];
        assert_eq!(by_word, [1, 2 + 3 + 4, 5, 6, 7 + 8, 9, 10, 11, 12]);
    }

    #[test]
    fn a_foreign_document_cannot_make_a_histogram_panic() {
        let mut odd = Histogram { bounds: vec![1.0, 2.0, 3.0], counts: vec![7], sum: f64::NAN };
        odd.observe(2.5);
        assert_eq!(odd.quantile(1.0), Some(1.0));
        assert_eq!(Histogram { bounds: vec![], counts: vec![3], sum: 0.0 }.quantile(0.5), None);
    }
}
