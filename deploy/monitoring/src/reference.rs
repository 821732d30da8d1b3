//! The tables of docs/metrics.md: each program's tests make theirs, and compare it with what stands between two marks on the page.

use std::fmt::Write as _;

/// A metric, as the page tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// `gauge`, `counter` or `histogram`.
    pub kind: &'static str,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// What it is, in one sentence.
    pub help: String,
}

/// The table of these metrics, in the order in which they are given.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from("| metric | type | labels | is |\n| --- | --- | --- | --- |\n");
    for Row { name, kind, labels, help } in rows {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        // A bar would end the cell.
        let help = help.replace('|', "\\|");
        let _ = writeln!(text, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")); // A text takes everything.
    }
    text
}

/// The page with this table between the marks of a section; `None`: the page lacks them.
pub fn with_table(page: &str, section: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(&format!("<!-- {section} -->\n"))?;
    let (_, after) = rest.split_once(&format!("<!-- end of {section} -->\n"))?;
    Some(format!("{before}<!-- {section} -->\n{table}<!-- end of {section} -->\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_one_before() {
        let row =
            |name: &str| Row { name: name.into(), kind: "gauge", labels: vec!["x".into()], help: "|a| / b.".into() };
        let page = "# P\n<!-- s -->\nold\n<!-- end of s -->\nrest\n";
        let made = with_table(page, "s", &table(&[row("m")])).expect("it has marks");
        assert!(
            made.contains("| `m` | gauge | `x` | \\|a\\| / b. |\n<!-- end of s -->\nrest\n") && !made.contains("old"),
            "{made}"
        );
        assert_eq!(with_table(&made, "s", &table(&[row("m")])).as_ref(), Some(&made));
        assert_eq!(with_table(page, "t", ""), None);
    }
}
