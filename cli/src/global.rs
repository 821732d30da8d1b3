//! The flags of every command: whom to ask, and how the answer looks.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use sluice_formats::quantity;

/// Flags of every command.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Socket of the daemon
    #[arg(long, global = true, env = "SLUICE_SOCKET", default_value = "/run/sluice/sluiced.sock", value_name = "PATH")]
    pub socket: PathBuf,
    /// Ask another host over HTTP instead (read-only; it needs http.details = "all")
    #[arg(long, global = true, value_name = "HOST[:PORT]")]
    pub host: Option<String>,
    /// Form of the output
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Same as `-o json`: exactly one JSON document on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Only these keys, in this order (lists only)
    #[arg(long, global = true, value_delimiter = ',', value_name = "A,B,C")]
    pub fields: Vec<String>,
    /// Repeat every SECS seconds until interrupted
    #[arg(short, long, global = true, num_args = 0..=1, default_missing_value = "2", value_name = "SECS", value_parser = watch_seconds)]
    pub watch: Option<f64>,
    /// Colours; they only add to the words
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// More detail
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// No output but the exit status, where a command has one to give
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// One document
    Json,
    /// One object per line
    Jsonl,
    /// With a header line and the same keys as JSON
    Csv,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

fn watch_seconds(text: &str) -> Result<f64, String> {
    match quantity::duration(text).map(|seconds| seconds.to_f64()) {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}` is not a number of seconds from 0.1 to 3600")),
    }
}

impl Global {
    /// The form of the output, `--json` included.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}
