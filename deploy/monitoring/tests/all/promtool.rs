//! What Prometheus itself says of the rules, of their unit tests, of every dashboard's expressions, and of the example.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_monitoring::{dashboards, promtool};
use sluice_skip::skip;

/// The program, where it is.
fn found() -> Option<PathBuf> {
    match promtool::find("promtool") {
        Ok(program) => Some(program),
        Err(why) => {
            skip!(Thing, "{why}");
            None
        }
    }
}

/// Runs it in a folder; panics with what it says unless it is content.
fn content(program: &Path, folder: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "promtool {args:?}:\n{said}");
    said
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_rules_are_valid() {
    let Some(promtool) = found() else { return };
    let said = content(&promtool, folder(), &["check", "rules", "sluice.rules.yml"]);
    assert!(said.contains("24 rules found"), "{said}");
}

#[test]
fn every_alert_fires_when_it_should_not_before_and_not_otherwise() {
    let Some(promtool) = found() else { return };
    content(&promtool, folder(), &["test", "rules", "sluice.rules.test.yml"]);
    // The same tests notice a rule that is not as it should be.
    let dir = tempfile::tempdir().unwrap();
    let copy = |name: &str| std::fs::read_to_string(folder().join(name)).unwrap();
    std::fs::write(dir.path().join("sluice.rules.test.yml"), copy("sluice.rules.test.yml")).unwrap();
    for (good, bad) in [
        ("== 0\n        for: 2m", "== 1\n        for: 2m"),
        ("for: 30m", "for: 29m"),
        ("does not answer", "is down"),
        ("> 0.9", "> 0.96"),
    ] {
        let rules = copy("sluice.rules.yml");
        assert!(rules.contains(good), "{good}");
        std::fs::write(dir.path().join("sluice.rules.yml"), rules.replace(good, bad)).unwrap();
        let status =
            Command::new(&promtool).args(["test", "rules", "sluice.rules.test.yml"]).current_dir(dir.path()).output();
        assert!(!status.unwrap().status.success(), "{bad:?} in place of {good:?} is not noticed");
    }
}

#[test]
fn every_expression_of_a_dashboard_is_valid() {
    let Some(promtool) = found() else { return };
    let mut rules = String::from("groups:\n- name: dashboards\n  rules:\n");
    let mut count = 0;
    for board in dashboards::all() {
        let queries = board.panels.iter().flat_map(|panel| &panel.queries).map(|query| &query.expr);
        let variables = board.variables.iter().map(|variable| &variable.selector);
        for expr in queries.chain(variables).chain([&board.annotation]) {
            let expr = promtool::with_values(expr, "5m", "h1:9605", "a");
            assert!(!expr.contains('$'), "{expr}");
            writeln!(rules, "  - record: r:n{count}\n    expr: |-\n      {expr}").unwrap();
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("dashboards.yml"), rules).unwrap();
    let said = content(&promtool, dir.path(), &["check", "rules", "dashboards.yml"]);
    assert!(said.contains(&format!("{count} rules found")), "{said}");
}

#[test]
fn the_example_of_a_scrape_configuration_is_valid_with_and_without_jobs() {
    let Some(promtool) = found() else { return };
    content(&promtool, folder(), &["check", "config", "prometheus.example.yml"]);
    let text = std::fs::read_to_string(folder().join("prometheus.example.yml")).unwrap();
    // Alerts go by these names.
    for part in ["job_name: sluiced\n", "job_name: sluice-switch\n", "sluice.rules.yml"] {
        assert!(text.contains(part), "{part}");
    }
    // What drops jobs is commented out, and has to be valid as well.
    let (whole, commented) = uncommented(&text, "    # metric_relabel_configs:");
    assert!(commented.contains("action: drop\n") && commented.contains("regex: job_id"), "{commented}");
    valid(&promtool, &whole);
}

#[test]
fn the_example_finds_the_pods_of_the_manifests_and_what_it_makes_of_their_labels_is_valid() {
    let read = |file: &str| std::fs::read_to_string(folder().join(file)).unwrap();
    let text = read("prometheus.example.yml");
    // Debian's promtool knows nothing of Kubernetes: how pods are found is read here, and only what follows is tried.
    let (_, pods) = uncommented(&text, "    # kubernetes_sd_configs:");
    for part in ["role: pod\n", "names: [sluice]\n", "pod_label_app_kubernetes_io_name]\n        regex: sluiced\n"] {
        assert!(pods.contains(part), "{part}: {pods}");
    }
    let set = read("../kubernetes/daemonset.yaml");
    assert!(set.contains("namespace: sluice\n") && set.contains("app.kubernetes.io/name: sluiced\n"), "{set}");
    let Some(promtool) = found() else { return };
    let (whole, labels) = uncommented(&text, "    # relabel_configs:");
    assert!(labels.contains("target_label: instance\n"), "{labels}");
    valid(&promtool, &whole);
}

/// The text with the lines from this one on that are commented out as lines that hold, and these lines alone.
fn uncommented(text: &str, from: &str) -> (String, String) {
    let (before, after) = text.split_at(text.find(from).unwrap());
    let is = |line: &&str| line.starts_with("    #");
    let commented: String = after.lines().take_while(is).map(|line| line.replacen("# ", "", 1) + "\n").collect();
    let rest: String = after.lines().skip_while(is).map(|line| format!("{line}\n")).collect();
    ([before, &commented, &rest].concat(), commented)
}

/// promtool takes this configuration, beside the rules.
fn valid(promtool: &Path, configuration: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("prometheus.yml"), configuration).unwrap();
    std::fs::copy(folder().join("sluice.rules.yml"), dir.path().join("sluice.rules.yml")).unwrap();
    content(promtool, dir.path(), &["check", "config", "prometheus.yml"]);
}
