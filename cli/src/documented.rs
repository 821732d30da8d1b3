//! What the pages tell people to type is what the programs take: lines of shell in fenced blocks, spans of code that begin with a
//! program's name, and the examples of every `--help`. Each is read by the program's own definitions, and nothing of it is run.

use std::path::Path;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory};

use crate::args::Args;

/// Pages of the repository that are read beside those of docs.
const PAGES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "deploy/README.md", "testbed/scenarios/README.md"];
/// Blocks of these languages have lines of a shell.
const LANGUAGES: [&str; 4] = ["", "console", "sh", "text"];
/// Commands that there are at least: where fewer are found, pages are not read as they were meant.
const LEAST: usize = 300;
/// Definitions of hundreds of options are deep where nothing is optimised.
const STACK: usize = 64 << 20;

/// A line that somebody may type, and where it stands.
#[derive(Debug)]
struct Line {
    place: String,
    text: String,
    /// It has to be whole; a span in a sentence may name a command alone.
    whole: bool,
}

fn program(name: &str) -> Option<Command> {
    match name {
        "sluice" => Some(Args::command()),
        "sluiced" => Some(sluiced::args::Arguments::command()),
        "sluice-switch" => Some(sluice_switch::args::Arguments::command()),
        "sluice-experiment" => Some(sluice_testbed::experiment::args::Arguments::command()),
        _ => None,
    }
}

/// The lines of a page.
fn lines(page: &str, text: &str) -> Vec<Line> {
    let (mut found, mut prose) = (Vec::<Line>::new(), String::new());
    let mut block: Option<Vec<(usize, &str)>> = None;
    let mut shell = false;
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            match block.take() {
                Some(lines) if shell => found.extend(typed(page, &lines)),
                Some(_) => {}
                None => (block, shell) = (Some(Vec::new()), LANGUAGES.contains(&language.trim())),
            }
        } else if let Some(lines) = &mut block {
            lines.push((at + 1, line));
        } else {
            prose.push_str(line);
        }
        prose.push('\n');
    }
    // A span may go on in the next line, and stands between two back quotes.
    let mut at = 1;
    for (part, span) in prose.split('`').enumerate() {
        if part % 2 == 1 {
            // In a table a bar is written so.
            let text = span.split_whitespace().collect::<Vec<&str>>().join(" ").replace("\\|", "|");
            found.push(Line { place: format!("{page}:{at}"), text, whole: false });
        }
        at += span.matches('\n').count();
    }
    found
}

/// What is typed in a block: all of it, or what stands behind prompts where there are any.
fn typed(page: &str, block: &[(usize, &str)]) -> Vec<Line> {
    let prompts = block.iter().any(|(_, line)| line.starts_with("$ "));
    let mut found = Vec::new();
    let mut rest = block.iter();
    while let Some((at, line)) = rest.next() {
        let line = if prompts { line.strip_prefix("$ ") } else { Some(*line) };
        let Some(line) = line else { continue };
        let mut text = line.to_owned();
        while let Some(begun) = text.strip_suffix('\\') {
            let more = rest.next().map_or("", |(_, line)| *line);
            text = format!("{} {}", begun.trim_end(), more.trim_start());
        }
        found.push(Line { place: format!("{page}:{at}"), text, whole: true });
    }
    found
}

/// Parts a line as a shell would, as far as pages go.
#[derive(Default)]
struct Parted {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// The next word is a file that something is written to or read from.
    redirected: bool,
}

impl Parted {
    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.redirected)
        {
            self.words.push(word);
        }
    }
    fn end_command(&mut self) {
        self.end_word();
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }
}

/// The commands of a line, each as words. An aside in brackets is left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut parted = Parted::default();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => parted.end_word(),
            '#' if parted.word.is_none() => break,
            '|' | '&' | ';' => parted.end_command(),
            '(' if parted.word.is_none() => {
                letters.by_ref().find(|letter| *letter == ')');
            }
            // A file to be named, as in <file>.
            '<' if letters.peek().is_some_and(|next| next.is_alphabetic()) => {
                let name: String = letters.by_ref().take_while(|letter| *letter != '>').collect();
                parted.word.get_or_insert_default().push_str(&name.to_uppercase());
            }
            '<' | '>' => {
                // The number of what is redirected is no argument.
                parted.word = parted.word.take().filter(|word| word.parse::<u8>().is_err());
                parted.end_word();
                parted.redirected = true;
                while letters.next_if(|next| matches!(next, '<' | '>' | '&')).is_some() {}
            }
            '\'' | '"' => {
                let quoted: String = letters.by_ref().take_while(|next| *next != letter).collect();
                parted.word.get_or_insert_default().push_str(&quoted);
            }
            other => parted.word.get_or_insert_default().push(other),
        }
    }
    parted.end_command();
    parted.commands
}

/// Something that whoever types it puts another word for.
fn stands_for_something(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || matches!(c, '-' | '_'))
}

/// What is wrong with a command; `None`: nothing, or it is of another program. And whether it is one of ours.
fn judged(words: &[String], whole: bool) -> (bool, Option<String>) {
    let prefix = |word: &&String| *word == "sudo" || word.split_once('=').is_some_and(|(name, _)| is_variable(name));
    let words: Vec<&str> = words.iter().skip_while(prefix).map(String::as_str).collect();
    let name = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let Some(command) = program(name).filter(|_| whole || words.len() > 1) else { return (false, None) };
    let words: Vec<&str> = words.into_iter().filter(|word| !matches!(*word, "…" | "...")).collect();
    let Err(error) = command.try_get_matches_from(words.iter().copied()) else { return (true, None) };
    let open = words.iter().any(|word| stands_for_something(word));
    let unfinished = !whole && words.last().is_some_and(|word| word.starts_with("--"));
    let fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !whole,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => open || unfinished,
        ErrorKind::InvalidSubcommand => open,
        _ => false,
    };
    (true, (!fine).then(|| format!("{}: {error}", words.join(" "))))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The examples in the help of a command and of those below it.
fn examples(command: &Command, found: &mut Vec<Line>) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    for text in about.lines().filter_map(|line| line.trim().strip_prefix("Example: ")) {
        found.push(Line { place: format!("{} --help", command.get_name()), text: text.to_owned(), whole: true });
    }
    command.get_subcommands().for_each(|below| examples(below, found));
}

fn every_line() -> Vec<Line> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs = std::fs::read_dir(root.join("docs")).expect("the pages").flatten();
    let docs = docs.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(".md"));
    let mut pages: Vec<String> = docs.map(|name| format!("docs/{name}")).collect();
    pages.sort();
    pages.extend(PAGES.map(str::to_owned));
    let mut found = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(root.join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        found.extend(lines(&page, &text));
    }
    for name in ["sluice", "sluiced", "sluice-switch", "sluice-experiment"] {
        examples(&program(name).expect("ours"), &mut found);
    }
    found
}

/// Where definitions have room.
fn with_room(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(test).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn every_command_in_the_pages_and_in_helps_is_taken_by_its_program() {
    with_room(|| {
        let (mut count, mut wrong) = (0, Vec::new());
        for line in every_line() {
            for words in commands(&line.text) {
                let (ours, fault) = judged(&words, line.whole);
                count += usize::from(ours);
                wrong.extend(fault.map(|fault| format!("{}: {fault}", line.place)));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count >= LEAST, "{count} commands are found");
    });
}

#[test]
fn a_line_is_parted_as_a_shell_does() {
    for (line, parts) in [
        ("sudo target/release/sluice doctor   # what works", vec!["sudo target/release/sluice doctor"]),
        ("sluice status --check && echo scheduling", vec!["sluice status --check", "echo scheduling"]),
        (
            "sluice plan check a.json --json > /dev/null 2>&1 | grep -oE 'x|y'",
            vec!["sluice plan check a.json --json", "grep -oE x|y"],
        ),
        ("cat >/etc/x <<'TOML'", vec!["cat"]),
        ("sluice wan (or sim) --scale 3", vec!["sluice wan --scale 3"]),
        ("sluice plan check <file>", vec!["sluice plan check FILE"]),
    ] {
        let found: Vec<String> = commands(line).iter().map(|words| words.join(" ")).collect();
        assert_eq!(found, parts, "{line}");
    }
    let page = "Say `sluice\nstatus`:\n\n```console\n$ sluice jobs \\\n  --all\nJOB\n```\n```toml\na = 1\n```\n```sh\nsluice top\n```\n";
    let found: Vec<(String, String, bool)> =
        lines("p", page).into_iter().map(|line| (line.place, line.text, line.whole)).collect();
    let expected = [("p:5", "sluice jobs --all", true), ("p:13", "sluice top", true), ("p:1", "sluice status", false)];
    assert_eq!(found, expected.map(|(place, text, whole)| (place.to_owned(), text.to_owned(), whole)));
}

#[test]
fn what_a_program_does_not_take_is_told() {
    with_room(|| {
        let fault = |line: &str, whole| commands(line).iter().find_map(|words| judged(words, whole).1);
        for line in [
            "sluice statsu",
            "sluice flows --stte managed",
            "sluiced --offlin",
            "sluice mode fast",
            "sluice-experiment capacitie",
            "sluice plan check",
        ] {
            assert!(fault(line, true).is_some(), "{line}");
        }
        for line in
            ["sluice plan check FILE", "sluice COMMAND --help", "A=1 sudo target/release/sluiced", "ls --nobody"]
        {
            assert_eq!(fault(line, true), None, "{line}");
        }
        for line in ["sluice plan check", "sluice tls init --days", "sluice mode …"] {
            assert_eq!(fault(line, false), None, "{line}");
        }
    });
}
