//! One job over all its hosts: how fast it communicates, and what it waits for.

use super::{here, mode_changes, rate};
use crate::dashboard::{Dashboard, Kind, Panel, Unit, query};
use crate::variables;

/// The condition that a series is the chosen job's.
const JOB: &str = "{job_id=\"$job_id\"}";

/// The dashboard.
pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "job",
        title: super::NAMES[2].title,
        description: "Why is my job slow? What it sends from which host, how long its rounds take, and what they wait for.",
        variables: vec![variables::clusters("sluice_cluster_info"), variables::job_id()],
        annotation: mode_changes(""),
        panels: panels(),
    }
}

fn panels() -> Vec<Panel> {
    let mean = |over: &str| {
        let grown = |metric: &str| format!("sum{}", here(&format!("rate({metric}{JOB}[{over}])")));
        format!("{} / {}", grown("sluice_job_round_seconds_total"), grown("sluice_job_rounds_total"))
    };
    let of_job = |metric: &str| format!("{metric}{JOB}");
    let acked = rate(&of_job("sluice_job_acked_bytes_total"));
    let ordered = here(&of_job("sluice_job_ordered_bytes_per_second"));
    let stalls = rate(&of_job("sluice_job_stall_seconds_total"));
    vec![
        Panel::new(
            "Sent, by host",
            Kind::Stacked,
            Unit::Bits,
            "Payload that was acknowledged. Good: bursts of like height on all hosts. One host far below the others holds the job back; \
             its own dashboard says why.",
            vec![query(format!("8 * sum by (instance) {acked}"), "{{instance}}")],
        ),
        Panel::new(
            "Mean time of a round",
            Kind::Lines,
            Unit::Seconds,
            "Now, and over the last hour. Good: level, or falling once hosts are active (marked). Rising: look at what it waits for, \
             beside this.",
            vec![query(mean("$__rate_interval"), "now"), query(mean("1h"), "over an hour")],
        ),
        Panel::new(
            "What its flows wait for",
            Kind::Stacked,
            Unit::Count,
            "Flows that are below their demand, by cause, on average. headroom: jobs of better rank have the links, this one's turn \
             comes; predecessor: what feeds it has not arrived, look at other hosts; sender: its own process wrote too little. Good: \
             little, and mostly headroom.",
            vec![query(format!("sum by (cause) {stalls}"), "{{cause}}")],
        ),
        Panel::new(
            "Progress of the round, by host",
            Kind::Lines,
            Unit::Ratio,
            "Part of the round that is delivered. Good: hosts go together. One that stays behind each time is a straggler: its link, its \
             processors or its GPU.",
            vec![query(here(&of_job("sluice_job_progress_ratio")), "{{instance}}")],
        ),
        Panel::new(
            "Ordered and delivered",
            Kind::Lines,
            Unit::Bits,
            "Orders of all its flows, and what was acknowledged. Good: delivered at or above ordered while it sends. Below for long: the \
             path carries less than is believed, or the job has nothing to send.",
            vec![query(format!("8 * sum{ordered}"), "ordered"), query(format!("8 * sum{acked}"), "delivered")],
        ),
        Panel::new(
            "Rounds per second",
            Kind::Lines,
            Unit::PerSecond,
            "Rounds that ended, by host: the speed of training, where a step has one round. Good: level and equal on all hosts.",
            vec![query(rate(&of_job("sluice_job_rounds_total")), "{{instance}}")],
        ),
        Panel::new(
            "Flows, by host",
            Kind::Stacked,
            Unit::Count,
            "Connections by which it sends. Good: the same on like hosts, and constant. Changes: processes that came or went.",
            vec![query(here(&of_job("sluice_job_flows")), "{{instance}}")],
        ),
        Panel::new(
            "Where it runs",
            Kind::Table,
            Unit::Count,
            "Its hosts, how its ranks exchange tensors, and who says so. Good: a progress page (nccl, pslite, env) as source. inferred: \
             Sluice guesses rounds from bytes; docs/integrations.md says how to tell it.",
            vec![query(here(&of_job("sluice_job_info")), "{{instance}}")],
        ),
    ]
}
