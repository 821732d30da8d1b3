//! The whole cluster: is Sluice at work everywhere, is it any use, and which host stands out?

use super::{here, mode_changes, quantile, rate};
use crate::dashboard::{Dashboard, Kind, Panel, Unit, query};
use crate::variables;

/// The dashboard.
pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "cluster",
        title: super::NAMES[0].title,
        description: "Is Sluice at work on every host, does it keep jobs apart on shared links, and which host stands out?",
        variables: vec![variables::clusters("sluice_cluster_info")],
        annotation: mode_changes(""),
        panels: [state(), work(), health()].concat(),
    }
}

fn state() -> Vec<Panel> {
    vec![
        Panel::new(
            "Hosts by mode",
            Kind::Stacked,
            Unit::Count,
            "Hosts in observe look and change nothing. Good: all in the mode you rolled out. A host in bypass was put there by hand or \
             by its own restart-loop: sluice status on it.",
            vec![query(format!("sum by (mode) {}", here("sluice_mode")), "{{mode}}")],
        )
        .wide(8),
        Panel::new(
            "Conditions, hosts each",
            Kind::Table,
            Unit::Count,
            "How many hosts each condition holds on, worst first. Good: zeros. The code says what to do: docs/operating.md, \
             Conditions; sluice status on a host says it with the host's own facts.",
            vec![query(format!("sum by (code) {}", here("sluice_condition")), "{{code}}")],
        )
        .wide(8),
        Panel::new(
            "Versions",
            Kind::Table,
            Unit::Count,
            "Hosts by what runs. Good: one line, or two during an upgrade. An old line that stays is hosts that the upgrade missed.",
            vec![query(format!("count by (version, revision) {}", here("sluice_build_info")), "{{version}}")],
        )
        .wide(4),
        Panel::new(
            "Configurations",
            Kind::Table,
            Unit::Count,
            "Hosts by the hash of their configuration; what differs by nature (name, addresses, mode) is left out. Good: one line. \
             sluiced --check on a host of the smaller group shows its files.",
            vec![query(format!("count_values(\"config_hash\", {})", here("sluice_config_hash")), "{{config_hash}}")],
        )
        .wide(4),
    ]
}

fn work() -> Vec<Panel> {
    let sent =
        |managed: &str| format!("8 * sum{}", rate(&format!("sluice_flow_acked_bytes_total{{managed=\"{managed}\"}}")));
    let overlap =
        format!("sum{} / sum{}", rate("sluice_link_overlap_seconds_total"), rate("sluice_link_busy_seconds_total"));
    let round = |part| quantile(part, "sluice_round_duration_seconds");
    let missed = format!("sum by (reason) {}", rate("sluice_slots_missed_total"));
    let guarded = here("increase(sluice_loss_guard_activations_total[$__range])");
    vec![
        Panel::new(
            "Bits that jobs send",
            Kind::Stacked,
            Unit::Bits,
            "Payload of known jobs that was acknowledged: what Sluice paces, and what it only sees. Good in active: nearly all is \
             managed. What is not: sluice flows on the host says why.",
            vec![query(sent("true"), "managed"), query(sent("false"), "not managed")],
        )
        .wide(8),
        Panel::new(
            "Overlap of jobs on links",
            Kind::Lines,
            Unit::Ratio,
            "Of the time in which a link is in use by jobs, the part in which two or more send at once. Good: well below what it was \
             in observe. Near 1 while links are shared: jobs do not take turns; see the alert SluiceNoStagger.",
            vec![query(overlap, "overlap / busy")],
        )
        .wide(8),
        Panel::new(
            "Round time, all jobs",
            Kind::Lines,
            Unit::Seconds,
            "How long jobs wait for their rounds of communication. Good: falls, or stays, when hosts become active. Compare across a \
             mode change, which is marked; the job dashboard says which job and why.",
            vec![query(round(0.5), "median"), query(round(0.99), "99th percentile")],
        )
        .wide(8),
        Panel::new(
            "Jobs running, per host summed",
            Kind::Stacked,
            Unit::Count,
            "Jobs with processes, by how their ranks exchange tensors; a job counts once on each of its hosts. unknown: nobody has said \
             it, so Sluice plans less well; give those jobs a progress page (docs/integrations.md).",
            vec![query(format!("sum by (pattern) {}", here("sluice_jobs")), "{{pattern}}")],
        )
        .wide(8),
        Panel::new(
            "Slots missed",
            Kind::Lines,
            Unit::PerSecond,
            "Slots without a decision in time, per second over all hosts. Good: 0. late: a host's processors are busy, see \
             sluice_realtime; stopped: the process stood still; clock: the clock was set.",
            vec![query(missed, "{{reason}}")],
        )
        .wide(8),
        Panel::new(
            "Hosts with most activations of the loss guard",
            Kind::Table,
            Unit::Count,
            "How often flows were capped because of loss, over the time shown. Good: 0. One host far above the others has a bad link: \
             sluice flows there, then its cable and switch port.",
            vec![query(format!("topk(10, sum by (instance) {guarded})"), "{{instance}}")],
        )
        .wide(8),
    ]
}

fn health() -> Vec<Panel> {
    let error = |part| quantile(part, "sluice_order_error_ratio");
    let slots = here("sluice_slot_length_seconds");
    vec![
        Panel::new(
            "Order error",
            Kind::Lines,
            Unit::Ratio,
            "How far flows are from their orders. Good: the median under 2 %, the 99th percentile under 20 %. More: a fallback backend, \
             or links slower than configured; sluice doctor on a host with the error.",
            vec![query(error(0.5), "median"), query(error(0.99), "99th percentile")],
        )
        .wide(6)
        .bad_from(0.2),
        Panel::new(
            "Clock error, worst host",
            Kind::Lines,
            Unit::Seconds,
            "The largest bound of a clock's error, and half a slot, above which a host plans alone. Good: far below. Otherwise: start \
             chrony on the host, sluice clock.",
            vec![
                query(format!("max{}", here("sluice_clock_max_error_seconds")), "worst host"),
                query(format!("0.5 * min{slots}"), "half a slot"),
            ],
        )
        .wide(6),
        Panel::new(
            "Switches, part of hosts that reach them",
            Kind::Lines,
            Unit::Ratio,
            "Of the hosts that know a switch, the part that it answers. Good: 1 for each, in active. One switch at 0: its process; one \
             host missing everywhere: that host's network; sluice switches.",
            vec![query(format!("avg by (switch) {}", here("sluice_switch_up")), "{{switch}}")],
        )
        .wide(6),
        Panel::new(
            "Processor time of sluiced",
            Kind::Lines,
            Unit::Ratio,
            "Of one core, the host that takes most and the mean. Good: under 5 % with tens of flows. Above 15 % for long: sluice top \
             there; see the alert SluiceCostHigh.",
            vec![
                query(format!("max{}", rate("process_cpu_seconds_total")), "most"),
                query(format!("avg{}", rate("process_cpu_seconds_total")), "mean"),
            ],
        )
        .wide(6)
        .bad_from(0.15),
    ]
}
