//! The papers of the repository, and a test that every link from one to another, or to a file here, leads somewhere.

/// Lines outside fenced examples.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// What stands in round brackets behind square ones.
pub(crate) fn links(text: &str) -> Vec<&str> {
    let of = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split_once(')'));
    prose(text).flat_map(of).map(|(link, _)| link).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::shell::{output, root};

    /// The anchor that a heading gets: lower case, what is neither letter nor digit left out, spaces as hyphens.
    fn anchor(heading: &str) -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    }

    fn anchors(text: &str) -> Vec<String> {
        let headings = prose(text).filter_map(|line| line.strip_prefix('#'));
        headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
    }

    #[test]
    fn every_link_in_a_paper_leads_somewhere() {
        let files = output("git", &["ls-files", "*.md"]).expect("the papers");
        let mut dead = Vec::new();
        let mut seen = 0;
        for file in files.lines() {
            let text = fs::read_to_string(root().join(file)).expect("a paper");
            for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
                seen += 1;
                let (path, part) = link.split_once('#').unwrap_or((link, ""));
                let dir = Path::new(file).parent().unwrap_or(Path::new(""));
                let target = if path.is_empty() { root().join(file) } else { root().join(dir).join(path) };
                let found = match fs::read_to_string(&target) {
                    Ok(other) => part.is_empty() || anchors(&other).iter().any(|anchor| anchor == part),
                    // A folder, or a picture.
                    Err(_) => part.is_empty() && target.exists(),
                };
                if !found {
                    dead.push(format!("{file}: {link}"));
                }
            }
        }
        assert!(dead.is_empty(), "{dead:#?}");
        assert!(seen > 20, "{seen} links");
    }

    #[test]
    fn anchors_are_those_of_the_pages_that_show_them() {
        for (heading, is) in [
            ("Simulator: does it agree with the testbed?", "simulator-does-it-agree-with-the-testbed"),
            ("`srpt-p`, the default", "srpt-p-the-default"),
            ("`primal-dual`, the paper's allocator", "primal-dual-the-papers-allocator"),
        ] {
            assert_eq!(anchor(heading), is);
        }
    }
}
