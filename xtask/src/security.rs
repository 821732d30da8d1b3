//! The table of attacks in docs/security.md is held against the tests that it names, both ways: a row without a test, a test that
//! is not there, and a test of the adversary suite without a row are all red. So are events, conditions and metrics that nobody has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::shell::root;

/// The page with the table.
const PAGE: &str = "docs/security.md";
/// Where functions that are named without a file are.
const SUITE: &str = "testbed/tests/adversary";
/// The last attack.
const LAST: u32 = 29;

/// A test as the table names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    file: String,
    function: String,
}

/// A row: its number, what it is seen as, its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    number: u32,
    seen: Vec<String>,
    tests: Vec<Test>,
}

/// What stands between back quotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// `module::function` of the suite, or `path/of/a/file.rs::function`.
fn test(name: &str) -> Result<Test, String> {
    let wrong = || format!("`{name}`; allowed: module::function of {SUITE}, or FILE.rs::function");
    let (place, function) = name.rsplit_once("::").ok_or_else(wrong)?;
    let file = match place.split_once(".rs") {
        Some((_, "")) => place.to_owned(),
        None if place.bytes().all(|b| b.is_ascii_lowercase()) => format!("{SUITE}/{place}.rs"),
        _ => return Err(wrong()),
    };
    Ok(Test { file, function: function.to_owned() })
}

/// All rows of the page's table of attacks, in order.
fn rows(page: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| A-")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, _, _, seen, tests] = cells.as_slice() else {
            return Err(format!("{} cells instead of 6: {line}", cells.len()));
        };
        let number = number.strip_prefix("A-").and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| format!("no number: {line}"))?;
        let tests = quoted(tests).iter().map(|name| test(name)).collect::<Result<Vec<Test>, String>>();
        let tests = tests.map_err(|error| format!("A-{number}: {error}"))?;
        if tests.is_empty() {
            return Err(format!("A-{number} names no test"));
        }
        rows.push(Row { number, seen: quoted(seen), tests });
    }
    Ok(rows)
}

/// Test functions of a file that run by themselves: those that are not left out.
fn functions(source: &str) -> BTreeSet<String> {
    let (mut found, mut pending, mut left_out) = (BTreeSet::new(), false, false);
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            (pending, left_out) = (true, false);
        } else if line.starts_with("#[ignore") {
            left_out = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|(before, _)| matches!(*before, "" | "async ")) {
            let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
            if std::mem::take(&mut pending) && !left_out {
                found.insert(name);
            }
        }
    }
    found
}

/// Everything that is wrong between the rows and the sources.
fn faults(rows: &[Row], sources: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    if numbers != (1..=LAST).collect::<Vec<u32>>() {
        faults.push(format!("the rows are {numbers:?}; allowed: A-1 to A-{LAST}, in order"));
    }
    let mut named = BTreeSet::new();
    for row in rows {
        for test in &row.tests {
            let there = sources.get(&test.file).is_some_and(|source| functions(source).contains(&test.function));
            if !there {
                faults.push(format!("A-{}: {} has no test {}", row.number, test.file, test.function));
            }
            named.insert(test.clone());
        }
    }
    for (file, source) in sources.iter().filter(|(file, _)| file.starts_with(SUITE)) {
        let unnamed = functions(source).into_iter().map(|function| Test { file: file.clone(), function });
        faults.extend(
            unnamed
                .filter(|test| !named.contains(test))
                .map(|test| format!("{}: {} stands in no row of {PAGE}", test.file, test.function)),
        );
    }
    faults
}

/// The page, and the sources that it names and those of the suite.
fn read() -> Result<(Vec<Row>, BTreeMap<String, String>), String> {
    let text = |file: &str| fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"));
    let rows = rows(&text(PAGE)?)?;
    let mut files: BTreeSet<String> = rows.iter().flat_map(|row| &row.tests).map(|test| test.file.clone()).collect();
    let suite = fs::read_dir(root().join(SUITE)).map_err(|error| format!("{SUITE}: {error}"))?;
    for entry in suite.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rs") {
            files.insert(format!("{SUITE}/{name}"));
        }
    }
    let sources = files.into_iter().filter_map(|file| Some((file.clone(), text(&file).ok()?))).collect();
    Ok((rows, sources))
}

#[test]
fn every_attack_has_its_tests_and_every_test_of_the_suite_its_attack() {
    let (rows, sources) = read().unwrap_or_else(|fault| panic!("{PAGE}: {fault}"));
    let faults = faults(&rows, &sources);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_an_attack_is_seen_as_exists() {
    let (rows, _) = read().unwrap_or_else(|fault| panic!("{PAGE}: {fault}"));
    let pages = ["docs/metrics.md", "docs/events.md", "docs/operating.md"];
    let text: String = pages
        .iter()
        .map(|page| fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}")))
        .collect();
    for row in rows {
        for word in row.seen.iter().filter(|word| !word.contains(' ') && word.contains(['-', '_'])) {
            // An id of an error stands in the answer to who tries, and is in no table.
            let known = text.contains(&format!("| `{word}` |")) || word == "identity-not-host";
            assert!(known, "A-{}: `{word}` is no metric, event or condition", row.number);
        }
    }
}

#[test]
fn a_row_without_a_test_and_a_test_without_a_row_are_found() {
    let page = |tests: &str| format!("| # |\n| A-1 | T | a | b | `x` | {tests} |\n");
    assert!(rows(&page("-")).is_err_and(|error| error.contains("A-1 names no test")));
    assert!(rows(&page("`a b`")).is_err() && rows("| A-2 | T | a |").is_err());
    let row = rows(&page("`pages::one`, `wire/src/x.rs::two`")).expect("good");
    let expected = [("testbed/tests/adversary/pages.rs", "one"), ("wire/src/x.rs", "two")];
    assert_eq!(row[0].tests, expected.map(|(file, function)| Test { file: file.into(), function: function.into() }));
    let source = "#[test]\nfn one() {\n}\n#[test]\n#[ignore = \"x\"]\nfn not_run() {}\n    #[tokio::test]\n    async fn two() {}\nfn no_test() {}\n";
    assert_eq!(functions(source), ["one", "two"].map(str::to_owned).into());
    let sources = |suite: &str, other: &str| -> BTreeMap<String, String> {
        [("testbed/tests/adversary/pages.rs", suite), ("wire/src/x.rs", other)]
            .map(|(file, text)| (file.to_owned(), text.to_owned()))
            .into()
    };
    let wrong = |suite: &str, other: &str| faults(&row, &sources(suite, other)).split_off(1);
    let test = |name: &str| format!("#[test]\nfn {name}() {{}}\n");
    assert_eq!(wrong(&test("one"), &test("two")), [""; 0]);
    assert_eq!(wrong(&test("one"), "fn two() {}"), ["A-1: wire/src/x.rs has no test two"]);
    let more = test("one") + &test("three");
    assert_eq!(
        wrong(&more, &test("two")),
        ["testbed/tests/adversary/pages.rs: three stands in no row of docs/security.md"]
    );
}
