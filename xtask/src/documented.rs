//! Commands of `cargo xtask` that pages name are ones that there are, with options that their help has. Those of the programs are
//! held to their own definitions where these are linked, in `cli/src/documented.rs`.

use std::fs;

use crate::shell::root;
use crate::{COMMANDS, scoreboard};

/// Pages that are read beside those of docs.
const PAGES: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "SECURITY.md", "deploy/README.md", "testbed/scenarios/README.md"];
/// Commands that there are at least: where fewer are found, pages are not read as they were meant.
const LEAST: usize = 60;

/// What follows each `cargo xtask`, up to what ends a command: the span of code, the line, a comment, a pipe, an aside.
fn commands(page: &str) -> Vec<Vec<&str>> {
    let ends = |c: char| matches!(c, '`' | '\n' | '#' | '|' | '&' | ';' | '(' | ')');
    let rest = page.split("cargo xtask").skip(1).map(|rest| rest.split(ends).next().unwrap_or_default());
    rest.map(words).filter(|words| !words.is_empty()).collect()
}

fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().map(|word| word.trim_end_matches([',', '.', ':', '\\'])).collect()
}

/// What is wrong with a command.
fn fault(words: &[&str]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    // As in COMMAND, which somebody puts another word for.
    if name.chars().all(|c| c.is_ascii_uppercase()) {
        return None;
    }
    let Some((_, _, help)) = COMMANDS.iter().find(|(known, _, _)| known == name) else {
        return Some(format!("no command {name:?}"));
    };
    let help = if *name == "bench" && rest.first() == Some(&"scoreboard") { scoreboard::HELP } else { *help };
    let known = |option: &str| help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == option);
    let unknown = rest.iter().find(|word| word.starts_with('-') && **word != "--help" && !known(word));
    unknown.map(|option| format!("the help of {name} has no {option}"))
}

#[test]
fn every_command_in_the_pages_is_there_with_its_options() {
    let docs = fs::read_dir(root().join("docs")).expect("the pages").flatten();
    let docs = docs.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(".md"));
    let pages = docs.map(|name| format!("docs/{name}")).chain(PAGES.map(str::to_owned));
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages {
        let text = fs::read_to_string(root().join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        for words in commands(&text) {
            count += 1;
            wrong.extend(fault(&words).map(|fault| format!("{page}: cargo xtask {}: {fault}", words.join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= LEAST, "{count} commands are found");
}

#[test]
fn what_is_not_there_is_told() {
    for good in ["verify --long seeds --record", "COMMAND --help", "bench scoreboard --pairs 3", "fuzz F09 --minutes 3"]
    {
        assert_eq!(fault(&good.split(' ').collect::<Vec<&str>>()), None, "{good}");
    }
    for wrong in ["verfy", "verify --longer", "bench --pairs 3"] {
        assert!(fault(&wrong.split(' ').collect::<Vec<&str>>()).is_some(), "{wrong}");
    }
    let page =
        "Say `cargo xtask demo`, or\n```sh\ncargo xtask verify --long x   # slow\n```\n`cargo xtask` lists them.";
    assert_eq!(commands(page), [vec!["demo"], vec!["verify", "--long", "x"]]);
}
