//! Every alert has a heading in docs/runbooks.md, and every heading is an alert's.

use std::path::Path;

use sluice_monitoring::alerts::alerts;

/// What stands under every heading.
const PARTS: [&str; 4] = ["**Means.**", "**Costs.**", "**First.**", "**Ignore it**"];

#[test]
fn alerts_and_runbooks_are_the_same_and_each_says_all() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks.md");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let sections: Vec<(&str, &str)> =
        text.split("\n## ").skip(1).map(|part| part.split_once('\n').unwrap_or((part, ""))).collect();
    let headings: Vec<&str> = sections.iter().map(|(heading, _)| *heading).collect();
    let names: Vec<&str> = alerts().iter().map(|alert| alert.name).collect();
    assert_eq!(headings, names, "in the order of the alerts");
    for (heading, body) in sections {
        for part in PARTS {
            assert_eq!(body.matches(part).count(), 1, "{heading} lacks {part}");
        }
    }
}
