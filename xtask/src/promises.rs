//! Which test shows which promise: a marker beside the test, a column of docs/verification.md made from all of them.
//!
//! A marker is a line of a comment, `Promises: P-1, P-2`. In the comment at the head of a file it speaks of the whole file,
//! anywhere else of the next function. One that no `#[test]` shows is a fault, whatever else shows it: nobody would notice that it
//! is broken. The promises themselves, with their bounds, are rows of the page, by hand.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::shell::{output, root};

/// The page with the table.
pub(crate) const PAGE: &str = "docs/verification.md";
/// How a marker begins, behind the slashes.
const MARKER: &str = "Promises: ";
/// Lines between a marker and the function that it speaks of, at most.
const NEAR: usize = 12;

/// Where a promise is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    file: String,
    /// `None`: the whole file.
    test: Option<String>,
    /// It is a test, or has some: `cargo xtask test` runs it.
    runs: bool,
}

/// Markers of one file's text, or what is wrong with one.
fn markers(file: &str, text: &str) -> Result<Vec<(u32, Shown)>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim_start();
        let whole = line.strip_prefix("//! ").and_then(|rest| rest.strip_prefix(MARKER));
        let one = ["/// ", "// "].iter().find_map(|slashes| line.strip_prefix(slashes)?.strip_prefix(MARKER));
        let Some(list) = whole.or(one) else { continue };
        let place = format!("{file}:{}", at + 1);
        let is_test =
            |line: &&str| ["#[test]", "#[tokio::test"].iter().any(|begin| line.trim_start().starts_with(begin));
        let (test, runs) = match whole {
            Some(_) => (None, lines.iter().any(is_test)),
            None => {
                let behind = || lines.iter().skip(at + 1).take(NEAR);
                let name = behind().find_map(|line| function(line));
                let name = name.ok_or_else(|| format!("{place}: no function in the {NEAR} lines behind the marker"))?;
                (Some(name.to_owned()), behind().take_while(|line| function(line).is_none()).any(is_test))
            }
        };
        for word in list.split(", ") {
            let number = word.strip_prefix("P-").and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| format!("{place}: {word:?}; allowed: as P-1, P-2"))?;
            found.push((number, Shown { file: file.to_owned(), test: test.clone(), runs }));
        }
    }
    Ok(found)
}

/// The name of a function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let words = ["pub", "pub(crate)", "pub(super)", "async", "unsafe"];
    let is_item = before.split_whitespace().all(|word| words.contains(&word));
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_item && !name.is_empty()).then_some(name)
}

/// Every marker of the sources, by promise.
fn shown() -> Result<BTreeMap<u32, Vec<Shown>>, String> {
    // What is not yet committed counts as well.
    let files = output("git", &["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])?;
    let mut all: BTreeMap<u32, Vec<Shown>> = BTreeMap::new();
    for file in files.lines() {
        // This file has markers as examples; one that was removed has none.
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        if file == "xtask/src/promises.rs" {
            continue;
        }
        for (promise, place) in markers(file, &text)? {
            all.entry(promise).or_default().push(place);
        }
    }
    for places in all.values_mut() {
        places.sort();
        places.dedup();
    }
    Ok(all)
}

/// Links to these places from the page.
fn links(places: &[Shown]) -> String {
    let mut out = String::new();
    let mut by_file: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Shown { file, test, .. } in places {
        by_file.entry(file).or_default().extend(test.as_deref());
    }
    for (file, tests) in by_file {
        let gap = if out.is_empty() { "" } else { "; " };
        // Writing into a string cannot fail.
        let _ = write!(out, "{gap}[{file}](../{file})");
        let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        if !tests.is_empty() {
            let _ = write!(out, " {}", tests.join(", "));
        }
    }
    out
}

/// The page with its last column as the sources have it; or all that is wrong: promises without a test, tests of none.
fn filled(page: &str, mut shown: BTreeMap<u32, Vec<Shown>>) -> Result<String, String> {
    let mut faults = Vec::new();
    let mut out = String::new();
    let mut expected = 1;
    for line in page.lines() {
        let number = line.strip_prefix("| P-").and_then(|rest| rest.split_once(' ')?.0.parse::<u32>().ok());
        let Some(number) = number else {
            out += line;
            out.push('\n');
            continue;
        };
        if number != expected {
            faults.push(format!("{PAGE}: P-{number} where P-{expected} belongs"));
        }
        expected = number + 1;
        let cells: Vec<&str> = line.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let [name, promise, bound, ..] = cells.as_slice() else {
            faults.push(format!("{PAGE}: P-{number}: allowed: a row of four cells"));
            continue;
        };
        let places = shown.remove(&number).unwrap_or_default();
        if !places.iter().any(|place| place.runs) {
            faults.push(format!("P-{number} is shown by no test: mark one by a comment `{MARKER}P-{number}`"));
        }
        let _ = writeln!(out, "{name} | {promise} | {bound} | {} |", links(&places));
    }
    for (number, places) in shown {
        faults.push(format!("P-{number} is no row of {PAGE}, and marked in {}", links(&places)));
    }
    if faults.is_empty() { Ok(out) } else { Err(faults.join("\n")) }
}

/// Writes the column anew.
pub(crate) fn write() -> Result<(), String> {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).map_err(|e| format!("reading {PAGE}: {e}"))?;
    let page = filled(&page, shown()?)?;
    fs::write(&path, page).map_err(|e| format!("writing {PAGE}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_is_shown_and_the_page_says_by_what() {
        let page = fs::read_to_string(root().join(PAGE)).expect(PAGE);
        let made = filled(&page, shown().expect("markers")).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(made == page, "{PAGE} is not what the sources say: `cargo xtask verify --tables` writes it anew");
        assert_eq!(page.lines().filter(|line| line.starts_with("| P-")).count(), 38);
    }

    #[test]
    fn markers_speak_of_their_file_or_of_the_next_function() {
        let text = "//! A file.\n//!\n//! Promises: P-3\n\n/// Promises: P-1, P-22\n#[test]\nfn a_test() {}\n    // Promises: P-2\n    pub(crate) async fn b<T>() {}\n";
        let found = markers("f.rs", text).expect("markers");
        let of = |test: Option<&str>, runs| Shown { file: "f.rs".into(), test: test.map(str::to_owned), runs };
        let (file, test) = (of(None, true), of(Some("a_test"), true));
        assert_eq!(found, [(3, file), (1, test.clone()), (22, test), (2, of(Some("b"), false))]);
        let found = markers("f.rs", "//! Promises: P-3\nfn a() {}\n").expect("markers");
        assert_eq!(found, [(3, of(None, false))], "nobody runs it");
        for bad in ["// Promises: P-1\n", "// Promises: P1\nfn a() {}\n", "/// Promises: P-1,P-2\nfn a() {}\n"] {
            assert!(markers("f.rs", bad).is_err(), "{bad}");
        }
        assert_eq!(function("    if x.fn_ptr { }"), None);
    }

    #[test]
    fn a_promise_without_a_test_and_a_test_without_a_promise_are_faults() {
        let page = "# A\n\n| P-1 | Fail open. | 250 ms | old |\n| P-2 | No stall. | 20 ms |  |\n";
        let place = |test: Option<&str>, runs| Shown { file: "a/b.rs".into(), test: test.map(str::to_owned), runs };
        let with = |numbers: &[u32], runs| {
            numbers.iter().map(|number| (*number, vec![place(None, false), place(Some("t"), runs)])).collect()
        };
        let shown = |numbers: &[u32]| with(numbers, true);
        let made = filled(page, shown(&[1, 2])).expect("whole");
        assert!(made.contains("| P-1 | Fail open. | 250 ms | [a/b.rs](../a/b.rs) `t` |\n"), "{made}");
        assert_eq!(filled(&made, shown(&[1, 2])), Ok(made.clone()));
        assert!(filled(page, shown(&[1])).expect_err("one is missing").contains("P-2 is shown by no test"));
        let never = filled(page, with(&[1, 2], false)).expect_err("no test runs them");
        assert!(never.contains("P-1 is shown by no test") && never.contains("P-2 is shown"), "{never}");
        assert!(filled(page, shown(&[1, 2, 9])).expect_err("one too many").contains("P-9 is no row"));
        assert!(filled(&page.replace("P-2", "P-4"), shown(&[1, 4])).is_err());
    }
}
