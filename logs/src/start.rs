//! Where lines go and how they look: to journald with fields of their own, as JSON in containers, as text on a terminal.
//! Never to a file: whoever runs the program keeps its lines.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::json::Json;
use crate::limited::Limits;

/// Stands before every field's name in the journal: `SLUICE_EVENT`, `SLUICE_JOB`.
const PREFIX: &str = "SLUICE";

/// Form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// journald's if stderr leads there, text on a terminal, else JSON.
    #[default]
    Auto,
    /// Text, in colour on a terminal.
    Text,
    /// A JSON object a line.
    Json,
    /// With fields to journald; text without a time if it does not take them.
    Journald,
}

/// The longest text of directives, bytes.
pub const MAX_FILTER: usize = 4096;

/// Why a text says nothing about which lines are written.
#[derive(Debug, thiserror::Error)]
pub enum NotAFilter {
    /// The library that reads directives panics of some of these, and no target or level has one.
    #[error("{0:?} stands in no target and no level")]
    Character(char),
    /// Nobody writes so much by hand.
    #[error("{0} bytes, where {MAX_FILTER} are allowed")]
    Long(usize),
    /// As the library says it.
    #[error(transparent)]
    Directive(#[from] ParseError),
}

/// Reads which lines are to be written: directives `target=level` with commas between them. The library that reads them knows
/// spans and fields in brackets as well. Their values are regular expressions, some of which take seconds and any memory to be
/// read, and two that are alike make it panic.
///
/// # Errors
/// What is wrong with the text.
pub fn filter(text: &str) -> Result<EnvFilter, NotAFilter> {
    if text.len() > MAX_FILTER {
        return Err(NotAFilter::Long(text.len()));
    }
    match text.chars().find(|c| !c.is_ascii() || "[]{}".contains(*c)) {
        Some(foreign) => Err(NotAFilter::Character(foreign)),
        None => Ok(EnvFilter::try_new(text)?),
    }
}

/// Lines that are being written.
#[derive(Debug)]
pub struct Started {
    /// None: another part of this process began first.
    handle: Option<Handle<EnvFilter, Registry>>,
    limits: Limits,
}

impl Started {
    /// Puts another filter in force.
    ///
    /// # Errors
    /// Why it cannot be; the present one stays.
    pub fn filter(&self, wanted: EnvFilter) -> Result<(), String> {
        let handle = self.handle.as_ref().ok_or("logging belongs to another part of this process")?;
        handle.reload(wanted).map_err(|error| error.to_string())
    }

    /// Says what was left out and not yet told of. Called when a program ends.
    pub fn finish(&self) {
        self.limits.finish();
    }
}

/// Begins to write lines to stderr or journald, under the name of a program. A second call in one process changes nothing.
pub fn start(form: Form, filter: EnvFilter, program: &str) -> Started {
    let terminal = io::stderr().is_terminal();
    let form = match form {
        Form::Auto if terminal => Form::Text,
        Form::Auto if stderr_is_the_journal() => Form::Journald,
        Form::Auto => Form::Json,
        given => given,
    };
    let (filter, handle) = reload::Layer::new(filter);
    let limits = Limits::new();
    let to_stderr = fmt::layer().with_writer(io::stderr).with_target(false);
    let mut refused = None;
    let layer = match form {
        Form::Json => to_stderr.event_format(Json).boxed(),
        Form::Journald => match journald(program) {
            Ok(layer) => layer.boxed(),
            Err(error) => {
                refused = Some(error);
                // journald stamps the time itself.
                to_stderr.with_ansi(false).without_time().boxed()
            }
        },
        Form::Auto | Form::Text => to_stderr.with_ansi(terminal && std::env::var_os("NO_COLOR").is_none()).boxed(),
    };
    let started = tracing_subscriber::registry().with(filter).with(limits.clone()).with(layer).try_init().is_ok();
    if started {
        limits.speak();
    }
    if let Some(error) = refused {
        tracing::warn!(
            event = "log-fallback",
            %error,
            cost = "lines in the journal have no fields to search by",
            next = "look whether systemd-journald runs; log.format = \"json\" keeps fields in the text",
            "journald's socket does not take lines"
        );
    }
    Started { handle: started.then_some(handle), limits }
}

fn journald(program: &str) -> io::Result<tracing_journald::Layer> {
    use tracing_journald::{Priority, PriorityMappings};
    let layer = tracing_journald::layer()?.with_field_prefix(Some(PREFIX.to_owned()));
    let priorities = PriorityMappings {
        info: Priority::Informational,
        debug: Priority::Debug,
        trace: Priority::Debug,
        ..PriorityMappings::new()
    };
    Ok(layer.with_priority_mappings(priorities).with_syslog_identifier(program.to_owned()))
}

/// Is stderr the stream that systemd connected to the journal? It says which by device and inode; a variable that was merely
/// inherited names another.
fn stderr_is_the_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() else { return false };
    std::fs::File::from(stderr).metadata().is_ok_and(|meta| stream == format!("{}:{}", meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_target_has_is_refused_before_the_library_reads_it() {
        assert!(matches!(filter("\t\u{e9}["), Err(NotAFilter::Character('\u{e9}'))));
        assert!(matches!(filter("a=loud"), Err(NotAFilter::Directive(_))));
        assert!(filter("info,sluiced=debug").is_ok());
    }

    #[test]
    fn there_are_no_spans_and_fields_and_there_is_an_end() {
        // An automaton of 2^24 states, and what the library takes for a broken promise.
        let value = format!("info[{{a=(x|y)*x{}}}]=debug", "(x|y)".repeat(24));
        for refused in [&value, "[{=}],[{=}]", "a[b]=info", "a{=info"] {
            assert!(matches!(filter(refused), Err(NotAFilter::Character('[' | '{'))), "{refused}");
        }
        assert!(filter(&"a=info,".repeat(MAX_FILTER / 7)).is_ok());
        assert!(matches!(filter(&"a=info,".repeat(MAX_FILTER / 7 + 1)), Err(NotAFilter::Long(_))));
    }
}
