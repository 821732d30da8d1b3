//! What came of a suite, as one line of JSON for programs and as a row for people.

use crate::json::quoted;

/// What came of a suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    /// The suite, as docs/verification.md names it.
    pub(super) name: String,
    /// What was seen.
    pub(super) figure: String,
    /// What it must be.
    pub(super) bar: String,
    pub(super) pass: bool,
    /// Tests that could not run here; a skip is not a pass.
    pub(super) skipped: usize,
    pub(super) seconds: f64,
    /// What draws began from, where there were any.
    pub(super) seed: Option<String>,
    /// Milliseconds that 99 of 100 timers were late at most.
    pub(super) lateness_p99_ms: Option<f64>,
    /// Programs that wanted a processor.
    pub(super) load: Option<f64>,
}

impl Line {
    /// One line, without its end.
    pub(super) fn json(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(|| "null".to_owned(), |value| format!("{value:.2}"));
        let seed = self.seed.as_deref().map_or_else(|| "null".to_owned(), quoted);
        format!(
            "{{\"name\":{},\"figure\":{},\"bar\":{},\"pass\":{},\"skipped\":{},\"seconds\":{:.1},\"seed\":{seed},\
             \"lateness_p99_ms\":{},\"load\":{}}}",
            quoted(&self.name),
            quoted(&self.figure),
            quoted(&self.bar),
            self.pass,
            self.skipped,
            self.seconds,
            number(self.lateness_p99_ms),
            number(self.load),
        )
    }

    /// A row of a table in HTML.
    pub(super) fn row(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"));
        let verdict = if self.pass { "pass" } else { "FAIL" };
        let seconds = format!("{:.0}", self.seconds);
        let (late, load) = (number(self.lateness_p99_ms), number(self.load));
        let skipped = self.skipped.to_string();
        let seed = self.seed.clone().unwrap_or_else(|| "–".to_owned());
        let cells: [&str; 9] = [&self.name, &self.figure, &self.bar, verdict, &skipped, &seconds, &seed, &late, &load];
        let cells = cells.map(escaped);
        format!("<tr class=\"{verdict}\"><td>{}</td></tr>\n", cells.join("</td><td>"))
    }
}

/// As HTML takes it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object_on_one_line() {
        let line = Line {
            name: "T-S".into(),
            figure: "0 of 400 \"seeds\"\nfail".into(),
            bar: "0".into(),
            pass: true,
            seconds: 61.25,
            seed: Some("1 to 400".into()),
            load: Some(2.0),
            ..Line::default()
        };
        let made = line.json();
        assert_eq!(
            made,
            r#"{"name":"T-S","figure":"0 of 400 \"seeds\"\nfail","bar":"0","pass":true,"skipped":0,"seconds":61.2,"seed":"1 to 400","lateness_p99_ms":null,"load":2.00}"#
        );
        assert!(!made.contains('\n'));
        assert!(Line { figure: "<b>".into(), ..line }.row().contains("&lt;b&gt;"));
    }
}
