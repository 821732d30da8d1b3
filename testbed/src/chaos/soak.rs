//! The soak: the same for hours. Brains in virtual time, fifty real daemons under faults, one daemon with four thousand flows;
//! what grows, what is held, what counts backwards.

mod page;
mod real;
mod slope;
mod virtual_time;

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::figure::Figure;
use super::ground::{Ground, Size, Unrun};
use crate::experiment::Bench;
use crate::run::{RunError, write};

pub use slope::Series;

/// Options of `sluice-experiment soak`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// How long each of the two real parts takes, hours.
    #[arg(long, default_value_t = 1.0)]
    pub hours: f64,
    /// Daemons of the first, each in a namespace of its own; faults hit the first four, and the others are measured.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(5..=60))]
    pub daemons: u8,
    /// Flows on one daemon of the second.
    #[arg(long, default_value_t = 4096)]
    pub flows: usize,
    /// Of the faults.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Parts to run, in this order.
    #[arg(long, value_delimiter = ',', default_value = "day,thousand,daemons,flows")]
    pub parts: Vec<Part>,
    /// Virtual time of the two parts in virtual time as a part of ten minutes and a day.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
}

/// A part of the soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A thousand hosts for ten virtual minutes.
    Thousand,
    /// Eight hosts for a virtual day, with faults.
    Day,
    /// Real daemons under faults.
    Daemons,
    /// Thousands of flows on one real daemon.
    Flows,
}

/// What a part showed.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Which part.
    pub part: Part,
    /// Its figures against their bars.
    pub figures: Vec<Figure>,
    /// Memory and so on over time, by process; over virtual time where that is what passes.
    pub series: Vec<Series>,
    /// Why it was not run, or what broke; empty: neither.
    pub why: String,
}

impl Shown {
    /// Is all of it as it must be?
    pub fn passes(&self) -> bool {
        self.why.is_empty() && !self.figures.is_empty() && self.figures.iter().all(|figure| figure.passes(0.0))
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Hours of each real part.
    pub hours: f64,
    /// Of the faults.
    pub seed: u64,
    /// The machine's load over a minute at the end.
    pub load: f64,
    /// Part by part.
    pub parts: Vec<Shown>,
    /// Did all pass? Of a part that was not reached, since somebody stopped the soak, nothing is known.
    pub pass: bool,
    /// Where the page for people is.
    pub page: std::path::PathBuf,
}

/// Runs the parts, and writes `soak.json` and `soak.html` into the directory of the bench after each, so that a soak that is
/// stopped early has shown something.
///
/// # Errors
/// The page cannot be written.
pub fn soak(bench: &Bench<'_>, settings: &Settings) -> Result<Report, RunError> {
    let ground = Ground {
        bench,
        seed: settings.seed,
        size: Size::Full,
        others: &[],
        cells: &[],
        minutes: settings.hours * 60.0,
    };
    let page = bench.dir.join("soak.html");
    let mut report =
        Report { hours: settings.hours, seed: settings.seed, load: 0.0, parts: Vec::new(), pass: false, page };
    for part in &settings.parts {
        if bench.stop.load(Ordering::Relaxed) {
            break;
        }
        tracing::info!("soak: {part:?}");
        let shown = match part {
            Part::Thousand => virtual_time::thousand(settings.scale, settings.seed, bench.stop),
            Part::Day => virtual_time::day(settings.scale, settings.seed, bench.stop),
            Part::Daemons => real::daemons(&ground, usize::from(settings.daemons)),
            Part::Flows => real::flows(&ground, settings.flows),
        };
        let shown = shown.unwrap_or_else(|why: Unrun| Shown {
            part: *part,
            figures: Vec::new(),
            series: Vec::new(),
            why: why.to_string(),
        });
        report.parts.push(shown);
        report.pass = report.parts.len() == settings.parts.len() && report.parts.iter().all(Shown::passes);
        report.load = super::canary::load();
        let text = serde_json::to_vec_pretty(&report).map_err(|error| RunError::Plan(error.to_string()))?;
        write(&bench.dir.join("soak.json"), text)?;
        write(&report.page, page::of(&report))?;
    }
    Ok(report)
}
