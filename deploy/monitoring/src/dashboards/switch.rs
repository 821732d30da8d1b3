//! The load tables of `sluice-switch`: are they complete, what do they hold, and what does keeping them cost?

use super::mode_changes;
use crate::dashboard::{Dashboard, Kind, Panel, Unit, query};
use crate::variables;

/// The condition that a series is a chosen process's.
const OF: &str = "{instance=~\"$instance\"}";

/// The dashboard.
pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "switch",
        title: super::NAMES[3].title,
        description: "The load tables of switches: are they complete, what is promised on which link, and what does it cost?",
        variables: vec![
            variables::clusters("sluice_switchd_cluster_info"),
            variables::instances("sluice_switchd_cluster_info", "Process", true),
        ],
        annotation: mode_changes(""),
        panels: [tables(), links(), cost()].concat(),
    }
}

fn rate(metric: &str) -> String {
    format!("rate(sluice_switchd_{metric}{OF}[$__rate_interval])")
}

fn tables() -> Vec<Panel> {
    let now = |metric: &str| format!("sum by (switch) (sluice_switchd_{metric}{OF})");
    let refused = "rate(sluice_switchd_updates_total{instance=~\"$instance\",result!=\"applied\"}[$__rate_interval])";
    vec![
        Panel::new(
            "Tables warm",
            Kind::Stat,
            Unit::Count,
            "1 once zero load means zero: two slots after a start. Good: 1 everywhere. 0 for long: the slot loop stands; /livez, and the \
             log of sluice-switch.",
            vec![query(now("warm"), "{{switch}}")],
        )
        .wide(8),
        Panel::new(
            "Sessions",
            Kind::Stat,
            Unit::Count,
            "Hosts connected by a session. Good: all hosts in active whose transport is session. Fewer: sluice switches on a host that \
             is missing.",
            vec![query(format!("sluice_switchd_sessions{OF}"), "{{instance}}")],
        )
        .wide(8),
        Panel::new(
            "Versions",
            Kind::Table,
            Unit::Count,
            "Processes by what runs. Good: one line, or two during an upgrade; switches go first.",
            vec![query(format!("count by (version, revision) (sluice_switchd_build_info{OF})"), "{{version}}")],
        )
        .wide(8),
        Panel::new(
            "Hosts with a lease, and promises",
            Kind::Lines,
            Unit::Count,
            "Whose promises count now, and how many there are. Good: the hosts that send across the switch. A fall while jobs run: \
             hosts lost the way to this process.",
            vec![query(now("hosts"), "{{switch}} hosts"), query(now("leases"), "{{switch}} promises")],
        )
        .wide(8),
        Panel::new(
            "Announcements",
            Kind::Lines,
            Unit::PerSecond,
            "What hosts tell, by transport. Good: about as many a second as hosts have news, up to some per slot and host.",
            vec![query(format!("sum by (transport) ({})", rate("updates_total")), "{{transport}}")],
        )
        .wide(8),
        Panel::new(
            "Refused",
            Kind::Lines,
            Unit::PerSecond,
            "Announcements that were refused, by why, and those scaled down to what the link carries. Good: 0. slot-guard: a host's \
             clock; unknown-link: another topology there; quota, foreign-flow: a host that misbehaves.",
            vec![
                query(format!("sum by (result) ({refused})"), "{{result}}"),
                query(format!("sum({})", rate("clipped_total")), "scaled down"),
            ],
        )
        .wide(8),
        Panel::new(
            "Leases that ended",
            Kind::Lines,
            Unit::PerSecond,
            "Hosts that stopped announcing while they had promises. Good: only when jobs end. Otherwise hosts die, or the way to them \
             loses messages.",
            vec![query(format!("sum by (switch) ({})", rate("lease_expirations_total")), "{{switch}}")],
        )
        .wide(8),
    ]
}

fn links() -> Vec<Panel> {
    let scheduled = format!("sluice_switchd_link_scheduled_bytes_per_second{OF}");
    let capacity = format!("sluice_switchd_link_capacity_bytes_per_second{OF}");
    vec![
        Panel::new(
            "Links, promised now",
            Kind::Lines,
            Unit::Ratio,
            "Of what each link carries, the part that is promised for this slot. Good: near 1 while jobs share it, not above.",
            vec![query(format!("{scheduled} / ({capacity} > 0)"), "{{switch}} {{link}}")],
        )
        .wide(8)
        .bad_from(1.01),
        Panel::new(
            "Links, peak over the horizon",
            Kind::Spread,
            Unit::Ratio,
            "How many links have which largest promised load. Good: none above 1. A crowd near 1 is a fabric that is full: jobs there \
             wait for each other.",
            vec![query(format!("sluice_switchd_link_peak_load_ratio{OF}"), "{{switch}} {{link}}")],
        )
        .wide(8),
        Panel::new(
            "Links, unmanaged",
            Kind::Lines,
            Unit::Bits,
            "What traffic that nobody manages takes, as the configuration or switches' counters tell. Good: what you expect of storage \
             and the like; more leaves less for jobs.",
            vec![query(
                format!("8 * sum by (switch, link) (sluice_switchd_link_background_bytes_per_second{OF})"),
                "{{switch}} {{link}}",
            )],
        )
        .wide(8),
    ]
}

fn cost() -> Vec<Panel> {
    let quantile =
        |part: f64| format!("histogram_quantile({part}, sum by (le) ({}))", rate("exchange_duration_seconds_bucket"));
    let per_update = format!(
        "sum by (instance) (rate(sluice_switchd_stage_cpu_seconds_total{{instance=~\"$instance\",stage=\"tables\"}}[$__rate_interval])) \
         / sum by (instance) ({})",
        rate("updates_total")
    );
    vec![
        Panel::new(
            "Time of an answer",
            Kind::Lines,
            Unit::Seconds,
            "From a host's message read to its answer queued. Good: under 1 ms. More: the process has no processor to itself; is \
             sluice_switchd_realtime 1?",
            vec![query(quantile(0.5), "median"), query(quantile(0.99), "99th percentile")],
        )
        .wide(8)
        .bad_from(0.001),
        Panel::new(
            "Processor time of an announcement",
            Kind::Lines,
            Unit::Seconds,
            "In the tables, on average. Good: tens of microseconds. It grows with links and promises; spread switches over processes \
             when the next panel nears a core.",
            vec![query(per_update, "{{instance}}")],
        )
        .wide(8),
        Panel::new(
            "Processor time",
            Kind::Lines,
            Unit::Ratio,
            "Of one core: the process, its tables, and what it tells unasked. Good: under 50 %; past 75 % the real-time thread steps \
             back.",
            vec![query(rate("stage_cpu_seconds_total"), "{{instance}} {{stage}}")],
        )
        .wide(8)
        .bad_from(0.5),
    ]
}
