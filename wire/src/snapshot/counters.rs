//! Everything that only counts up, and the distributions: what `/metrics` needs beside the present state.
//!
//! The deciding loop owns one [`Counters`], adds to it as things happen, and copies it into each snapshot.

use serde::{Deserialize, Serialize};

/// Upper bounds of buckets, in the unit of the field.
pub mod bounds {
    /// Seconds after a slot's edge.
    pub const LATENESS: [f64; 9] = [0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06];
    /// Seconds of one decision.
    pub const DECISION: [f64; 10] = [0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01];
    /// Bytes per second of one flow.
    pub const FLOW_RATE: [f64; 11] = [1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10, 3e10, 1e11];
    /// |delivered − ordered| / ordered.
    pub const ORDER_ERROR: [f64; 9] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
    /// Seconds of one round.
    pub const ROUND: [f64; 12] = [0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 30.0, 60.0];
    /// Seconds from announcement to answer.
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

/// Everything that only counts up since the start of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Slots that began.
    pub slots: u64,
    /// Slots whose decision came after their end.
    pub slots_late: u64,
    /// Slots that passed while the process stood still.
    pub slots_stopped: u64,
    /// Slots left out because the clock stepped.
    pub slots_clock: u64,
    /// Wake-ups after the edge.
    pub lateness_s: Histogram,
    /// Time each decision took, in seconds.
    pub decision_s: Histogram,
    /// Decisions at a slot's edge.
    pub decisions_slot: u64,
    /// Decisions because a round began.
    pub decisions_start: u64,
    /// Decisions because a flow or round ended.
    pub decisions_end: u64,
    /// Decisions because demand changed.
    pub decisions_demand: u64,
    /// Decisions because feedback came.
    pub decisions_feedback: u64,
    /// Times the clock was set forward.
    pub clock_steps_forward: u64,
    /// Times the clock was set back.
    pub clock_steps_backward: u64,
    /// Flows that were opened.
    pub flows_opened: u64,
    /// Flows that were closed.
    pub flows_closed: u64,
    /// Sockets that found no free row.
    pub flow_table_full: u64,
    /// Payload bytes acknowledged on managed flows.
    pub acked_managed_bytes: u64,
    /// Payload bytes acknowledged on other flows of jobs.
    pub acked_other_bytes: u64,
    /// Integral of the orders.
    pub ordered_bytes: u64,
    /// Orders per managed flow with demand and slot, in bytes per second.
    pub ordered_rate: Histogram,
    /// Delivered rates per managed flow with demand and slot, in bytes per second.
    pub delivered_rate: Histogram,
    /// Order errors per flow and slot, demand-limited slots left out.
    pub order_error: Histogram,
    /// Segments retransmitted on managed flows.
    pub retransmitted_managed: u64,
    /// Segments retransmitted on other flows of jobs.
    pub retransmitted_other: u64,
    /// Activations of the kernel's loss guard.
    pub loss_guards: u64,
    /// Flows given back because their order expired.
    pub released_deadline: u64,
    /// Flows given back because of loss.
    pub released_loss: u64,
    /// Flows given back because of the mode.
    pub released_mode: u64,
    /// Flows given back by `sluice drain`.
    pub released_drain: u64,
    /// Flows given back because something failed, or Sluice did not help.
    pub released_error: u64,
    /// Changes of congestion control that worked.
    pub cc_ok: u64,
    /// Changes that were not permitted.
    pub cc_denied: u64,
    /// Changes whose socket was gone.
    pub cc_gone: u64,
    /// Changes that failed otherwise.
    pub cc_error: u64,
    /// Kernel events lost (a scan follows).
    pub events_lost: u64,
    /// Rounds of all jobs.
    pub round_s: Histogram,
    /// Time from announcement to answer, all switches.
    pub exchange_s: Histogram,
    /// Announcements refused: slot guard.
    pub rejects_slot_guard: u64,
    /// Announcements refused: another cluster or slot grid.
    pub rejects_cluster: u64,
    /// Announcements refused: another version.
    pub rejects_version: u64,
    /// Announcements refused: not permitted.
    pub rejects_auth: u64,
    /// Announcements refused: too many.
    pub rejects_capacity: u64,
    /// CPU of reading statistics.
    pub cpu_stats_ns: u64,
    /// Processor time of deciding, in nanoseconds.
    pub cpu_schedule_ns: u64,
    /// CPU of talking to switches.
    pub cpu_switch_ns: u64,
    /// CPU of finding jobs and flows.
    pub cpu_discovery_ns: u64,
    /// CPU of answering HTTP.
    pub cpu_export_ns: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            slots: 0,
            slots_late: 0,
            slots_stopped: 0,
            slots_clock: 0,
            lateness_s: Histogram::new(&bounds::LATENESS),
            decision_s: Histogram::new(&bounds::DECISION),
            decisions_slot: 0,
            decisions_start: 0,
            decisions_end: 0,
            decisions_demand: 0,
            decisions_feedback: 0,
            clock_steps_forward: 0,
            clock_steps_backward: 0,
            flows_opened: 0,
            flows_closed: 0,
            flow_table_full: 0,
            acked_managed_bytes: 0,
            acked_other_bytes: 0,
            ordered_bytes: 0,
            ordered_rate: Histogram::new(&bounds::FLOW_RATE),
            delivered_rate: Histogram::new(&bounds::FLOW_RATE),
            order_error: Histogram::new(&bounds::ORDER_ERROR),
            retransmitted_managed: 0,
            retransmitted_other: 0,
            loss_guards: 0,
            released_deadline: 0,
            released_loss: 0,
            released_mode: 0,
            released_drain: 0,
            released_error: 0,
            cc_ok: 0,
            cc_denied: 0,
            cc_gone: 0,
            cc_error: 0,
            events_lost: 0,
            round_s: Histogram::new(&bounds::ROUND),
            exchange_s: Histogram::new(&bounds::EXCHANGE),
            rejects_slot_guard: 0,
            rejects_cluster: 0,
            rejects_version: 0,
            rejects_auth: 0,
            rejects_capacity: 0,
            cpu_stats_ns: 0,
            cpu_schedule_ns: 0,
            cpu_switch_ns: 0,
            cpu_discovery_ns: 0,
            cpu_export_ns: 0,
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
    fn a_foreign_document_cannot_make_a_histogram_panic() {
        let mut odd = Histogram { bounds: vec![1.0, 2.0, 3.0], counts: vec![7], sum: f64::NAN };
        odd.observe(2.5);
        assert_eq!(odd.quantile(1.0), Some(1.0));
        assert_eq!(Histogram { bounds: vec![], counts: vec![3], sum: 0.0 }.quantile(0.5), None);
    }
}
