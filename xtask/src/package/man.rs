//! Manual pages of programs that `sluice man` does not know: what their `--help` says, as groff takes it.

/// A page of this section from what a program says of itself. `None`: it says nothing.
pub(super) fn page(program: &str, section: u8, help: &str, version: &str, date: &str) -> Option<String> {
    let (about, rest) = help.split_once('\n')?;
    let about = about.trim().trim_end_matches('.');
    let title = program.to_uppercase();
    let mut page = format!(
        ".TH {title} {section} \"{date}\" \"sluice {version}\" \"Sluice\"\n.SH NAME\n{program} \\- {}\n.SH DESCRIPTION\n.nf\n",
        escaped(&lower(about))
    );
    for line in rest.trim_matches('\n').lines() {
        page.push_str(&escaped(line));
        page.push('\n');
    }
    page.push_str(".fi\n.SH SEE ALSO\n.BR sluice (1),\n.BR sluiced (8),\n.BR sluice\\-switch (8)\n");
    (!about.is_empty()).then_some(page)
}

/// As it stands after a dash.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Signs that groff would take for its own.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    // A request begins with one of these.
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_name_and_what_the_program_says() {
        let help = "Schedules traffic.\n\nUsage: sluiced [--check]\n.hidden\n'x\na\\b\n";
        let page = page("sluiced", 8, help, "0.1.0", "2026-01-01").expect("a page");
        assert!(page.starts_with(".TH SLUICED 8 \"2026-01-01\""), "{page}");
        assert!(page.contains("sluiced \\- schedules traffic\n"), "{page}");
        assert!(page.contains("\nUsage: sluiced [\\-\\-check]\n\\&.hidden\n\\&'x\na\\eb\n.fi"), "{page}");
        assert_eq!(super::page("x", 1, "", "0", "0"), None);
    }
}
