//! Recording rules, what an alert is, and both as a file of rules.

use crate::yaml::Lines;

/// Where the page of runbooks lies on a host that has the package. `runbook_url` is this with the alert's heading; whoever keeps
/// the page elsewhere replaces it in the file.
pub const RUNBOOKS: &str = "file:///usr/share/doc/sluice/runbooks.md";

/// A series that Prometheus computes and keeps.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// `level:metric:operation`.
    pub name: &'static str,
    /// PromQL.
    pub expr: &'static str,
}

/// How urgent an alert is. Nobody is woken: whatever fails, training goes on without Sluice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something should be mended in working hours.
    Warning,
    /// Worth knowing.
    Info,
}

impl Severity {
    /// The value of the label.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// A series of a unit test, in promtool's notation: one value a minute from minute 0 on.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Name and labels.
    pub series: &'static str,
    /// `1x60`, `0+3x60`, …
    pub values: &'static str,
}

/// What an alert is tested with.
#[derive(Clone, Debug)]
pub struct Case {
    /// With these it fires.
    pub firing: Vec<Series>,
    /// The minute in which its expression holds for the first time.
    pub onset: u32,
    /// With these it never does.
    pub quiet: Vec<Series>,
    /// The labels that it then has, beside its severity.
    pub labels: Vec<(&'static str, &'static str)>,
    /// What stands where its texts show the value.
    pub value: &'static str,
}

/// An alert.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Its name, and the heading of its runbook.
    pub name: &'static str,
    /// PromQL: holds where there is something to tell.
    pub expr: &'static str,
    /// So many minutes it has to hold.
    pub minutes: u32,
    /// How urgent it is.
    pub severity: Severity,
    /// What and where, in one line.
    pub summary: &'static str,
    /// What it costs, and the first command.
    pub description: &'static str,
    /// Its unit test.
    pub case: Case,
}

impl Alert {
    /// Where to read on.
    pub fn runbook(&self) -> String {
        format!("{RUNBOOKS}#{}", self.name.to_lowercase())
    }
}

/// What alerts and people ask for often.
pub fn records() -> Vec<Record> {
    vec![
        Record {
            name: "instance:sluice_slots_missed:ratio_rate5m",
            expr: "sum by (instance) (rate(sluice_slots_missed_total[5m]))\n  / sum by (instance) (rate(sluice_slots_total[5m]))",
        },
        Record {
            name: "instance:sluice_order_error_ratio:p99_rate5m",
            expr: "histogram_quantile(0.99, sum by (instance, le) (rate(sluice_order_error_ratio_bucket[5m])))",
        },
        Record {
            name: "instance_link:sluice_link_overlap:ratio_rate5m",
            expr: "sum by (instance, link) (rate(sluice_link_overlap_seconds_total[5m]))\n  \
                   / sum by (instance, link) (rate(sluice_link_busy_seconds_total[5m]))",
        },
        Record {
            name: "cluster:sluice_link_overlap:ratio_rate5m",
            expr: "sum by (cluster) (rate(sluice_link_overlap_seconds_total[5m])\n    \
                     * on (instance) group_left (cluster) sluice_cluster_info)\n  \
                   / sum by (cluster) (rate(sluice_link_busy_seconds_total[5m])\n    \
                     * on (instance) group_left (cluster) sluice_cluster_info)",
        },
        Record {
            name: "job_id:sluice_job_round_seconds:mean_rate5m",
            expr: "sum by (job_id) (rate(sluice_job_round_seconds_total[5m]))\n  / sum by (job_id) (rate(sluice_job_rounds_total[5m]))",
        },
    ]
}

/// `sluice.rules.yml`.
pub fn text(records: &[Record], alerts: &[Alert]) -> String {
    let mut lines = Lines::default();
    lines.line(
        0,
        "# Made from deploy/monitoring/src; `SLUICE_UPDATE_EXPECTED=1 cargo test -p sluice-monitoring` writes it anew.",
    );
    lines.line(0, "# Scrape jobs are to be called sluiced and sluice-switch (prometheus.example.yml).");
    lines.line(0, "groups:");
    // One group: its rules are evaluated in their order, so that alerts see what was recorded in the same moment.
    lines.line(2, "- name: sluice");
    lines.line(4, "rules:");
    for Record { name, expr } in records {
        lines.line(6, &format!("- record: {name}"));
        lines.text(8, "expr", expr);
    }
    for alert in alerts {
        lines.line(6, &format!("- alert: {}", alert.name));
        lines.text(8, "expr", alert.expr);
        lines.line(8, &format!("for: {}m", alert.minutes));
        lines.line(8, "labels:");
        lines.text(10, "severity", alert.severity.word());
        lines.line(8, "annotations:");
        lines.text(10, "summary", alert.summary);
        lines.text(10, "description", alert.description);
        lines.text(10, "runbook_url", &alert.runbook());
    }
    lines.done()
}
