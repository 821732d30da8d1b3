//! What an operator's Grafana and Prometheus are given: four dashboards, recording rules and alerts, and the unit tests of those.
//!
//! They are data here ([`dashboards`], [`alerts`]) and text in [`files`], which is what stands in this folder; a test compares the
//! two. What the programs really export they say themselves: their own tests hold every expression against their pages
//! ([`faults`]). Nothing here talks to a Prometheus.

#![forbid(unsafe_code)]

pub mod alerts;
mod cases;
pub mod dashboard;
pub mod dashboards;
pub mod exported;
pub mod promql;
pub mod promtool;
pub mod reference;
pub mod rules;
pub mod variables;
mod yaml;

use exported::Exported;

/// A file of this folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below the folder.
    pub path: String,
    /// All that it says.
    pub text: String,
}

/// An expression, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The dashboard and panel, or the rule.
    pub place: String,
    /// PromQL, with Grafana's variables.
    pub text: String,
}

/// Everything that is made.
pub fn files() -> Vec<File> {
    let boards = dashboards::all().into_iter().map(|board| File {
        path: format!("dashboards/{}.json", board.name),
        text: format!("{:#}\n", board.to_json()),
    });
    let rules = File { path: "sluice.rules.yml".into(), text: rules::text(&rules::records(), &alerts::alerts()) };
    let tests = File { path: "sluice.rules.test.yml".into(), text: cases::text(&alerts::alerts()) };
    boards.chain([rules, tests]).collect()
}

/// Every expression of every panel, annotation, variable and rule, and every series of a rule's unit test.
pub fn expressions() -> Vec<Expression> {
    let boards = dashboards::all();
    let shown = boards.iter().flat_map(|board| {
        let place = |what: &str| format!("dashboard {}, {what}", board.name);
        let panels = board.panels.iter().flat_map(move |panel| {
            panel.queries.iter().map(move |query| Expression { place: place(panel.title), text: query.expr.clone() })
        });
        let variables = board.variables.iter();
        let variables =
            variables.map(move |variable| Expression { place: place(variable.name), text: variable.selector.clone() });
        panels.chain(variables).chain([Expression { place: place("annotation"), text: board.annotation.clone() }])
    });
    let records = rules::records();
    let records = records.iter().map(|r| Expression { place: r.name.into(), text: r.expr.into() });
    let alerts = alerts::alerts();
    let tested = alerts.iter().flat_map(|alert| {
        let series = alert.case.firing.iter().chain(&alert.case.quiet);
        series.map(|series| Expression { place: format!("test of {}", alert.name), text: series.series.into() })
    });
    let alerts = alerts.iter().map(|a| Expression { place: a.name.into(), text: a.expr.into() });
    shown.chain(records).chain(alerts).chain(tested).collect()
}

/// What expressions say of the metrics of one program that it does not export: names, labels and values of labels. `mine`:
/// is a metric of this name one of that program's?
pub fn faults(exported: &Exported, mine: impl Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for expression in expressions() {
        match promql::read(&expression.text) {
            Ok(read) => {
                let said = exported.faults(&read, &mine);
                faults.extend(said.into_iter().map(|fault| format!("{}: {fault}", expression.place)));
            }
            Err(why) => faults.push(format!("{}: {why}: {}", expression.place, expression.text)),
        }
    }
    faults
}
