//! Traces of arrivals and lists of hosts: streams a CSV file row by row, with its line numbers.

use sluice_formats::document::{Collector, Item};
use sluice_formats::problem::{E_TRACE, Problem};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Most bytes of a trace file.
const MAX_BYTES: u64 = 1 << 30;
/// Most bytes of one line.
const MAX_LINE: u64 = 4096;

/// A CSV file being read.
pub(crate) struct Csv {
    path: PathBuf,
    reader: BufReader<File>,
    columns: usize,
    line: u32,
}

pub(crate) struct Row {
    pub(crate) line: u32,
    pub(crate) fields: Vec<String>,
}

/// A job of a trace of arrivals, read or made up, before scaling.
pub(crate) struct Arrival {
    /// Seconds from the start of the window; the minute's start where `minute` is set.
    pub(crate) at_s: f64,
    /// Place k of n in its minute, where only the minute is known.
    pub(crate) minute: Option<(u64, u64)>,
    pub(crate) gpus: Option<u32>,
    pub(crate) duration_s: Option<f64>,
}

impl Csv {
    /// Opens a file and checks its header; what is wrong is reported at `item`, the key that names the file.
    pub(crate) fn open(path: &Path, header: &[&str], item: &Item<'_>) -> Option<Csv> {
        let file = match open_regular(path, MAX_BYTES) {
            Ok(file) => file,
            Err(e) => {
                item.fail(E_TRACE, format!("{}: {e}", path.display()), "a readable CSV file of at most 1 GiB");
                return None;
            }
        };
        let mut csv = Csv { path: path.to_owned(), reader: BufReader::new(file), columns: header.len(), line: 0 };
        let want = header.join(",");
        match csv.line_text() {
            Ok(Some(line)) if line == want || line.starts_with(&format!("{want},")) => {
                csv.columns = line.split(',').count();
                Some(csv)
            }
            Ok(line) => {
                let seen = line.unwrap_or_default();
                item.collector.push(csv.problem(format!("the header is {seen:?}"), &want));
                None
            }
            Err(e) => {
                item.collector.push(csv.problem(e.to_string(), "UTF-8 text"));
                None
            }
        }
    }

    /// The next row; `Some(None)` at the end, `None` after an error, which the collector then has.
    pub(crate) fn next_row(&mut self, collector: &Collector<'_>) -> Option<Option<Row>> {
        match self.line_text() {
            Ok(None) => Some(None),
            Ok(Some(line)) => {
                let fields: Vec<String> = line.split(',').map(|f| f.trim().to_owned()).collect();
                if fields.len() == self.columns {
                    return Some(Some(Row { line: self.line, fields }));
                }
                collector.push(self.problem(format!("{} fields", fields.len()), &format!("{} fields", self.columns)));
                None
            }
            Err(e) => {
                collector.push(self.problem(e.to_string(), "UTF-8 text, lines of at most 4096 bytes"));
                None
            }
        }
    }

    /// A problem at the line read last.
    pub(crate) fn problem(&self, what: String, allowed: &str) -> Problem {
        let problem = Problem::new(E_TRACE, "", what).allowed(allowed).in_file(self.path.display().to_string());
        Problem { line: self.line as usize, column: 1, ..problem }
    }

    fn line_text(&mut self) -> io::Result<Option<String>> {
        let mut text = String::new();
        let read = self.reader.by_ref().take(MAX_LINE).read_line(&mut text)?;
        self.line = self.line.saturating_add(1);
        if read == 0 {
            return Ok(None);
        }
        if !text.ends_with('\n') && read as u64 == MAX_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line of more than 4096 bytes"));
        }
        Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
    }
}

fn open_regular(path: &Path, most: u64) -> io::Result<File> {
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if meta.len() > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} bytes, at most {most} are read", meta.len()),
        ));
    }
    File::open(path)
}
