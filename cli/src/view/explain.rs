//! `sluice explain` and `sluice clock`.

use sluice_wire::snapshot::explain::sentence;
use sluice_wire::snapshot::{Explanation, PathSource, Snapshot};

use crate::format::{bytes, flow_id, grouped, percent, rate, time};
use crate::table::Table;

/// Why a flow has its rate.
pub fn explain(explanation: &Explanation, snapshot: &Snapshot) -> String {
    let job = snapshot.jobs.iter().find(|job| job.id == explanation.job);
    let about = job.map_or(String::new(), |job| format!(" ({}, round {})", job.pattern.as_str(), grouped(job.round)));
    let decided = explanation.decided_ago_ns.map_or(String::new(), |ago| format!(", decided {} ago", time(Some(ago))));
    let mut out = format!(
        "flow {}, job {}{about}, slot {}{decided}\n",
        flow_id(&explanation.flow),
        explanation.job,
        grouped(u64::from(explanation.slot))
    );
    let cap = explanation.cap_bps.map_or(String::new(), |cap| format!("; at most {}", rate(Some(cap))));
    out += &format!(
        "  still to send {} of {} in this round{cap}\n",
        bytes(Some(explanation.remaining_bytes)),
        bytes(Some(explanation.demand_bytes))
    );
    if !explanation.path.is_empty() {
        let source = match explanation.path_source {
            PathSource::Only => "",
            PathSource::Switch => " (as switches say)",
            PathSource::Signature => " (as its announcements were marked on the way)",
            PathSource::Probe => " (as probes found)",
            PathSource::File => " (as a file of routes says)",
            PathSource::Unknown => " (and by one of several equal paths, nobody knows which)",
        };
        out += &format!("  path  {}{source}\n", explanation.path.join(", "));
    }
    let rank = match (explanation.promoted, explanation.key_ns) {
        (true, _) => "its round is old: it goes before younger ones".to_owned(),
        (false, Some(key)) => {
            format!("its job needs {} more on its tightest link; shorter ones go first", time(Some(key)))
        }
        (false, None) => "rank not known".to_owned(),
    };
    out += &format!("  rank  {rank}\n");
    if let Some(surplus) = &explanation.surplus {
        out += &format!(
            "  rate  order {} + surplus {}: the order is a floor, and it takes what is {}, up to {} in all\n",
            rate(Some(surplus.ordered_bps)),
            rate(Some(surplus.extra_bps)),
            if surplus.yields { "idle" } else { "left" },
            rate(Some(surplus.up_to_bps))
        );
    }
    let heads = (0..explanation.slots.len()).map(|slot| format!(">+{slot}"));
    let mut table = Table::new(std::iter::once("slot".to_owned()).chain(heads));
    let gbps = |bps: u64| if bps == 0 { "0".to_owned() } else { format!("{:.2}", bps as f64 / 1e9) };
    let mut row = |name: &str, cells: Vec<String>| table.row(std::iter::once(name.to_owned()).chain(cells).collect());
    row("load", explanation.slots.iter().map(|slot| percent(Some(slot.load_ratio))).collect());
    row("headroom Gbit/s", explanation.slots.iter().map(|slot| gbps(slot.headroom_bps)).collect());
    row("ordered Gbit/s", explanation.slots.iter().map(|slot| gbps(slot.ordered_bps)).collect());
    for line in table.render(crate::output::width().map(|width| width.saturating_sub(2))).lines() {
        out += &format!("  {line}\n");
    }
    if !explanation.link.is_empty() {
        out += &format!("  load is that of other jobs on the tightest link: {}\n", explanation.link);
    }
    out + &format!("  not more because: {} ({})\n", explanation.why, sentence(&explanation.why))
}

/// The slot clock against the system clock.
pub fn clock(snapshot: &Snapshot) -> String {
    let clock = &snapshot.clock;
    let synchronised = if clock.synchronised { "synchronised" } else { "not synchronised" };
    let left = clock.slot_length_ns.saturating_sub(clock.into_slot_ns);
    let lateness = format!("p50 ≤ {} p99 ≤ {}", time(clock.lateness_p50_ns), time(clock.lateness_p99_ns));
    let mut against: Vec<String> = Vec::new();
    for switch in &snapshot.switches {
        if let Some(offset) = switch.offset_ns {
            against.push(format!("{} {:+.2} ms", switch.name, offset as f64 / 1e6));
        }
    }
    let refusal = if clock.last_refusal.is_empty() { "none" } else { &clock.last_refusal };
    format!(
        "source    {} (kernel: {synchronised}, error ≤ {}, estimated {})    TAI offset {} s\n\
         slot      {}, {}, next edge in {}, edge lateness {lateness}\n\
         against   {}\n\
         trusted   {}\n\
         steps     {} since start    last refusal: {refusal}\n",
        clock.source,
        time(clock.max_error_ns),
        time(clock.estimated_error_ns),
        clock.tai_offset_s,
        grouped(u64::from(clock.slot)),
        time(Some(clock.slot_length_ns)),
        time(Some(left)),
        if against.is_empty() { "-".into() } else { against.join("   ") },
        if clock.trusted { "yes" } else { "no: this host schedules by its own links only" },
        clock.steps
    )
}

#[cfg(test)]
mod tests {
    use sluice_wire::snapshot::SurplusReason;

    use super::*;

    #[test]
    fn a_surplus_is_told_beside_the_order() {
        let mut explanation = Explanation::default();
        let text = |explanation: &Explanation| explain(explanation, &Snapshot::default());
        assert!(!text(&explanation).contains("surplus"));
        let (ordered_bps, extra_bps, up_to_bps) = (1_000_000_000, 250_000_000, 9_000_000_000);
        for (yields, how) in [(false, "left"), (true, "idle")] {
            explanation.surplus = Some(SurplusReason { ordered_bps, extra_bps, up_to_bps, yields });
            let rates = [ordered_bps, extra_bps, up_to_bps].map(|bps| rate(Some(bps)));
            let text = text(&explanation);
            assert!(text.contains(&format!("order {} + surplus {}", rates[0], rates[1])), "{text}");
            assert!(text.contains(&format!("what is {how}, up to {} in all", rates[2])), "{text}");
        }
    }
}
