//! What every dashboard, rule and alert must be like.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_monitoring::alerts::alerts;
use sluice_monitoring::dashboard::{COLUMNS, MAX_PANELS, SCHEMA_VERSION};
use sluice_monitoring::dashboards::{NAMES, all};
use sluice_monitoring::{expressions, promql, rules};

fn boards() -> Vec<Value> {
    all().iter().map(|board| board.to_json()).collect()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[test]
fn dashboards_have_stable_names_and_link_to_each_other() {
    let boards = boards();
    let uids: Vec<&str> = boards.iter().map(|board| text(&board["uid"])).collect();
    assert_eq!(uids, ["sluice-cluster", "sluice-host", "sluice-job", "sluice-switch"]);
    for (board, name) in boards.iter().zip(NAMES) {
        assert_eq!(text(&board["title"]), name.title);
        assert_eq!(board["schemaVersion"], SCHEMA_VERSION);
        assert_eq!(board["refresh"], "10s");
        assert!(board.get("__inputs").is_none() && board.get("id").is_none());
        let links = list(&board["links"]);
        assert_eq!(links.len(), uids.len() - 1);
        for link in links {
            let uid = text(&link["url"]).trim_start_matches("/d/").split('?').next().unwrap_or_default();
            assert!(uids.contains(&uid) && text(&board["uid"]) != uid, "{link}");
        }
    }
}

#[test]
fn panels_lie_side_by_side_and_say_what_is_good_and_what_to_do() {
    for board in boards() {
        let name = text(&board["uid"]);
        let panels = list(&board["panels"]);
        assert!((1..=MAX_PANELS).contains(&panels.len()), "{name} has {} panels", panels.len());
        let (mut ids, mut titles, mut cells) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for panel in panels {
            let title = text(&panel["title"]);
            assert!(ids.insert(panel["id"].as_u64().unwrap()) && titles.insert(title), "{name}, {title}: twice");
            assert!(text(&panel["description"]).len() > 80, "{name}, {title}: its description says too little");
            assert!(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "{name}, {title}: no unit");
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
            assert!(w > 0 && h > 0 && x + w <= u64::from(COLUMNS), "{name}, {title}: off the grid");
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(cells.insert(cell), "{name}, {title}: lies on another panel");
            }
            assert!(!list(&panel["targets"]).is_empty(), "{name}, {title}: asks nothing");
            // A colour of its own only where it is a threshold.
            let defaults = &panel["fieldConfig"]["defaults"];
            let colour = text(&defaults["color"]["mode"]);
            assert!(
                colour != "thresholds" || defaults["thresholds"]["steps"].as_array().unwrap().len() > 1,
                "{name}, {title}"
            );
        }
    }
}

#[test]
fn queries_use_known_variables_and_the_rate_interval() {
    for board in boards() {
        let variables: Vec<&str> = list(&board["templating"]["list"]).iter().map(|v| text(&v["name"])).collect();
        assert_eq!(variables[..2], ["datasource", "cluster"], "{}", board["uid"]);
        assert!(variables.iter().all(|v| ["datasource", "cluster", "instance", "job_id"].contains(v)), "{variables:?}");
        let mut used = BTreeSet::new();
        let queries = list(&board["panels"]).iter().flat_map(|panel| list(&panel["targets"]));
        let annotations = list(&board["annotations"]["list"]);
        for query in queries.chain(annotations) {
            assert_eq!(query["datasource"]["uid"], "${datasource}");
            let expr = text(&query["expr"]);
            for name in expr.split('$').skip(1) {
                let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let built_in = ["__rate_interval", "__interval", "__range"].contains(&name.as_str());
                assert!(built_in || variables.contains(&name.as_str()), "${name} in {expr}");
                used.insert(name);
            }
            for (before, _) in expr.match_indices("rate(") {
                let inside = expr[before..].split(']').next().unwrap_or_default();
                let hour = inside.ends_with("[1h");
                assert!(inside.ends_with("[$__rate_interval") || hour, "{expr}");
            }
        }
        let definitions: String = list(&board["templating"]["list"]).iter().map(|v| v.to_string()).collect();
        for variable in &variables[1..] {
            assert!(
                used.contains(*variable) || definitions.contains(&format!("${variable}")),
                "nothing uses ${variable}"
            );
        }
    }
}

#[test]
fn every_expression_names_a_program_s_metric_or_a_recorded_one() {
    let recorded: Vec<&str> = rules::records().iter().map(|record| record.name).collect();
    for expression in expressions() {
        let read = promql::read(&expression.text).unwrap();
        assert!(!read.metrics.is_empty(), "{}: {} names no metric", expression.place, expression.text);
        for named in read.metrics {
            let name = named.metric.as_str();
            let ours = name.starts_with("sluice_") || name.starts_with("process_") || name == "up";
            assert!(ours || recorded.contains(&name), "{}: {name}", expression.place);
        }
    }
}

#[test]
fn alerts_never_wake_anybody_and_name_host_cost_and_first_step() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = alert.name;
        assert!(names.insert(name) && name.starts_with("Sluice"), "{name}");
        assert!(["warning", "info"].contains(&alert.severity.word()), "{name}");
        assert!(alert.summary.contains("{{ $labels."), "{name}: whose is it?");
        assert!(
            alert.description.contains("First: ") || alert.severity.word() == "info",
            "{name}: what is to be done first?"
        );
        assert!(alert.runbook().ends_with(&format!("runbooks.md#{}", name.to_lowercase())), "{name}");
        // A unit test that sees no series tests nothing.
        assert!(
            !alert.case.firing.is_empty() && !alert.case.quiet.is_empty() && !alert.case.labels.is_empty(),
            "{name}"
        );
    }
    assert_eq!(names.len(), 19);
}
