//! One host: what it does with its links and flows, and how well.

use super::mode_changes;
use crate::dashboard::{Dashboard, Kind, Panel, Query, Unit, query};
use crate::variables;

/// The condition that a series is the chosen host's.
const HOST: &str = "instance=\"$instance\"";

/// The dashboard.
pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "host",
        title: super::NAMES[1].title,
        description: "What one host does with its links and flows, how well flows follow, and what it costs.",
        variables: vec![
            variables::clusters("sluice_cluster_info"),
            variables::instances("sluice_cluster_info", "Host", false),
        ],
        annotation: mode_changes(&format!("{{{HOST}}}")),
        panels: [state(), traffic(), health()].concat(),
    }
}

fn rate(metric: &str, more: &str) -> String {
    format!("rate({metric}{{{HOST}{more}}}[$__rate_interval])")
}

fn quantile(part: f64, histogram: &str) -> String {
    format!("histogram_quantile({part}, sum by (le) ({}))", rate(&format!("{histogram}_bucket"), ""))
}

fn apart(query: Query) -> Query {
    Query { apart: true, ..query }
}

fn state() -> Vec<Panel> {
    vec![
        Panel::new(
            "Mode and backend",
            Kind::Stat,
            Unit::Count,
            "What the operator asked for, and how rates are enforced. observe looks only, with backend none; active paces flows, by \
             struct_ops where all is well (otherwise: sluice doctor); bypass gives every flow back. sluice mode changes it.",
            vec![
                query(format!("sluice_mode{{{HOST}}} == 1"), "mode {{mode}}"),
                query(format!("sluice_enforcement_backend{{{HOST}}} == 1"), "backend {{backend}}"),
            ],
        )
        .wide(8),
        Panel::new(
            "Conditions",
            Kind::Table,
            Unit::Count,
            "1 where a condition holds. Good: all 0. sluice status says each with its cost and what to do.",
            vec![query(format!("max by (code) (sluice_condition{{{HOST}}})"), "{{code}}")],
        )
        .wide(8),
        Panel::new(
            "Flows",
            Kind::Stacked,
            Unit::Count,
            "Flows of jobs by who moves their rate. Good in active: managed. released: given back, by mode, loss, drain or because \
             Sluice did not help; other: of no known job; sluice flows tells each.",
            vec![query(format!("sluice_flows{{{HOST}}}"), "{{state}}")],
        )
        .wide(8),
    ]
}

fn traffic() -> Vec<Panel> {
    let link = |metric: &str| format!("8 * {metric}{{{HOST}}}");
    let sent = |class: &str| format!("8 * {}", rate("sluice_link_sent_bytes_total", &format!(",class=\"{class}\"")));
    let rates = |kind: &str| {
        format!("sum by (le) ({})", rate("sluice_flow_rate_bytes_per_second_bucket", &format!(",kind=\"{kind}\"")))
    };
    let overlap = format!(
        "sum by (link) ({}) / sum by (link) ({})",
        rate("sluice_link_overlap_seconds_total", ""),
        rate("sluice_link_busy_seconds_total", "")
    );
    vec![
        Panel::new(
            "Links",
            Kind::Stacked,
            Unit::Bits,
            "What managed flows and others sent on this host's links, against what is promised and what the link carries; of other \
             nodes' links, what is promised. Good: promises near the capacity while jobs have something to send. Sent far above promised: \
             flows that nobody manages.",
            vec![
                query(sent("managed"), "{{link}} managed"),
                query(sent("other"), "{{link}} other"),
                apart(query(link("sluice_link_scheduled_bytes_per_second"), "{{link}} promised")),
                apart(query(link("sluice_link_capacity_bytes_per_second"), "{{link}} capacity")),
            ],
        ),
        Panel::new(
            "Rates of jobs, and of flows",
            Kind::Lines,
            Unit::Bits,
            "What each job sends from here; and of each flow its order and what was delivered, where metrics.flows = \"index\". Good: \
             delivered follows ordered. A flow that stays below: its receiver, or its path; sluice explain.",
            vec![
                query(format!("8 * {}", rate("sluice_job_acked_bytes_total", "")), "{{job_id}}"),
                query(link("sluice_flow_ordered_rate_bytes_per_second"), "{{job_id}} flow {{flow}} ordered"),
                query(link("sluice_flow_delivered_rate_bytes_per_second"), "{{job_id}} flow {{flow}} delivered"),
            ],
        ),
        Panel::new(
            "Rates ordered",
            Kind::Heatmap,
            Unit::Bytes,
            "How often flows with demand had an order of which size, slot by slot. Good: few sizes. A band at the lowest bound is flows \
             that wait at their floor for their turn.",
            vec![query(rates("ordered"), "{{le}}")],
        )
        .wide(8),
        Panel::new(
            "Rates delivered",
            Kind::Heatmap,
            Unit::Bytes,
            "How often they delivered so much. Good: the picture of the orders. Much lower: the network or the receiver holds flows \
             back; compare order error and retransmits.",
            vec![query(rates("delivered"), "{{le}}")],
        )
        .wide(8),
        Panel::new(
            "Overlap of jobs, by link",
            Kind::Lines,
            Unit::Ratio,
            "Of the time in which jobs use a link, the part in which two or more do. Good: low, where jobs share the link. Near 1: they \
             do not take turns; sluice timeline shows how they lie.",
            vec![query(overlap, "{{link}}")],
        )
        .wide(8),
    ]
}

fn health() -> Vec<Panel> {
    let cores = format!("sum by (stage) ({})", rate("sluice_stage_cpu_seconds_total", ""));
    vec![
        Panel::new(
            "Order error",
            Kind::Lines,
            Unit::Ratio,
            "|delivered - ordered| / ordered, of flows that had enough to send. Good: the median under 2 %, the 99th percentile under \
             20 %. More: sluice doctor, and the rate of the link in the configuration.",
            vec![
                query(quantile(0.5, "sluice_order_error_ratio"), "median"),
                query(quantile(0.99, "sluice_order_error_ratio"), "99th percentile"),
            ],
        )
        .wide(8)
        .bad_from(0.2),
        Panel::new(
            "Time of a decision",
            Kind::Lines,
            Unit::Seconds,
            "How long the deciding loop thinks. Good: under 1.5 ms (the line), of a slot of 60. More: very many flows, or a host that \
             gives the daemon no processor.",
            vec![
                query(quantile(0.5, "sluice_decision_duration_seconds"), "median"),
                query(quantile(0.9, "sluice_decision_duration_seconds"), "90th percentile"),
                query(quantile(0.99, "sluice_decision_duration_seconds"), "99th percentile"),
            ],
        )
        .wide(8)
        .bad_from(0.0015),
        Panel::new(
            "Lateness",
            Kind::Lines,
            Unit::Seconds,
            "How late the loop wakes after a slot's edge. Good: under 2 ms. More: the processors are busy; is sluice_realtime 1? See \
             docs/operating.md, Deciding in time.",
            vec![
                query(quantile(0.5, "sluice_slot_lateness_seconds"), "median"),
                query(quantile(0.99, "sluice_slot_lateness_seconds"), "99th percentile"),
            ],
        )
        .wide(8),
        Panel::new(
            "Segments sent again",
            Kind::Lines,
            Unit::PerSecond,
            "Of managed flows, and of other flows of jobs. Good: managed ones send less again than others did in observe. A jump on one \
             host: a bad link; on many: a switch.",
            vec![
                query(rate("sluice_flow_retransmitted_packets_total", ",managed=\"true\""), "managed"),
                query(rate("sluice_flow_retransmitted_packets_total", ",managed=\"false\""), "not managed"),
            ],
        )
        .wide(8),
        Panel::new(
            "Processor time",
            Kind::Lines,
            Unit::Ratio,
            "Of one core: the whole daemon, and the stages of its deciding loop. Good: under 5 % with tens of flows.",
            vec![query(rate("process_cpu_seconds_total", ""), "all"), query(cores, "{{stage}}")],
        )
        .wide(8)
        .bad_from(0.15),
        Panel::new(
            "Age of switches' views",
            Kind::Lines,
            Unit::Count,
            "Slots since each switch or peer answered last. Good: 0 or 1. From switch.stale_slots on its view counts less with every \
             slot, past the horizon not at all; sluice switches.",
            vec![query(format!("sluice_switch_feedback_age_slots{{{HOST}}}"), "{{switch}}")],
        )
        .wide(8),
    ]
}
