//! The unit tests of the alerts, as promtool runs them: firing, not yet firing, and never firing.

use crate::rules::{Alert, Case, Series};
use crate::yaml::Lines;

/// A quiet case is looked at so many minutes after the alert would have fired.
const LATER: u32 = 15;

/// What an alert says in its unit test, where its templates are filled in.
fn filled(template: &str, case: &Case) -> String {
    let mut text = template.to_owned();
    for (label, value) in &case.labels {
        text = text.replace(&format!("{{{{ $labels.{label} }}}}"), value);
    }
    while let Some(from) = text.find("{{ $value") {
        let to = text[from..].find("}}").map_or(text.len(), |at| from + at + 2);
        text.replace_range(from..to, case.value);
    }
    text
}

/// `sluice.rules.test.yml`.
pub fn text(alerts: &[Alert]) -> String {
    let mut lines = Lines::default();
    lines.line(0, "# Made from deploy/monitoring/src/alerts; run by `promtool test rules sluice.rules.test.yml`.");
    lines.line(0, "rule_files:");
    lines.line(2, "- sluice.rules.yml");
    lines.line(0, "evaluation_interval: 1m");
    lines.line(0, "tests:");
    for alert in alerts {
        let fires = alert.case.onset + alert.minutes;
        begin(&mut lines, alert, "fires, and says so", &alert.case.firing);
        if fires > 0 {
            lines.line(
                6,
                &format!("# A minute before its time: {} has held for less than {} min.", alert.name, alert.minutes),
            );
            asked(&mut lines, alert, fires - 1);
            lines.line(8, "exp_alerts: []");
        }
        asked(&mut lines, alert, fires);
        lines.line(8, "exp_alerts:");
        lines.line(10, "- exp_labels:");
        lines.text(14, "severity", alert.severity.word());
        alert.case.labels.iter().for_each(|(label, value)| lines.text(14, label, value));
        lines.line(12, "exp_annotations:");
        lines.text(14, "summary", &filled(alert.summary, &alert.case));
        lines.text(14, "description", &filled(alert.description, &alert.case));
        lines.text(14, "runbook_url", &alert.runbook());
        begin(&mut lines, alert, "stays quiet", &alert.case.quiet);
        asked(&mut lines, alert, fires + LATER);
        lines.line(8, "exp_alerts: []");
    }
    lines.done()
}

fn begin(lines: &mut Lines, alert: &Alert, what: &str, input: &[Series]) {
    lines.line(2, &format!("- name: {} {what}", alert.name));
    lines.line(4, "interval: 1m");
    lines.line(4, "input_series:");
    for Series { series, values } in input {
        lines.line(6, &format!("- series: '{series}'"));
        lines.text(8, "values", values);
    }
    lines.line(4, "alert_rule_test:");
}

fn asked(lines: &mut Lines, alert: &Alert, minute: u32) {
    lines.line(6, &format!("- eval_time: {minute}m"));
    lines.text(8, "alertname", alert.name);
}
