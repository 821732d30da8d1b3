//! What `sluice plan fluid-lp --steps` shows of its steps.

use serde::Serialize;
use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::stepped::StepFigures;

use crate::plan::args::{FluidLpArgs, FluidStrength};
use crate::plan::shown::short;

/// Refuses steps of what has no plan.
pub fn fitting(args: &FluidLpArgs) -> Result<(), Problems> {
    match (args.steps, args.strength) {
        (Some(chunks), Some(FluidStrength::Relax)) => {
            let error = Problem::new(E_RANGE, "--steps", "a relaxation has no plan that could go in steps");
            Err(error.found(chunks.to_string()).allowed("with --strength dup or tree").into())
        }
        _ => Ok(()),
    }
}

/// Steps in the unit of R, under their fixed names.
#[derive(Clone, Debug, Serialize)]
pub struct Steps {
    chunks: u64,
    steps: u64,
    depth: u64,
    step_length: f64,
    step_length_exact: String,
    latency: f64,
    latency_exact: String,
    busy: f64,
    rounded: bool,
}

impl Steps {
    pub fn new(instance: &Instance<'_>, figures: &StepFigures) -> Steps {
        let unit = &instance.units() * &instance.unit();
        let length = &figures.length * &unit;
        let latency = &length * &Rational::from(figures.steps);
        Steps {
            chunks: figures.chunks,
            steps: figures.steps,
            depth: figures.depth,
            step_length: length.to_f64(),
            step_length_exact: length.to_string(),
            latency: latency.to_f64(),
            latency_exact: latency.to_string(),
            busy: (&figures.busy * &unit).to_f64(),
            rounded: figures.is_rounded,
        }
    }

    /// For people: how many steps there are, and what they take together; `unit` stands behind times.
    pub fn said(&self, unit: &str) -> [(&'static str, String); 2] {
        let rounded = if self.rounded { ", rounded to whole units" } else { "" };
        let deep = if self.depth == 1 { "step" } else { "steps" };
        let chunks = if self.chunks == 1 { "1 chunk".into() } else { format!("{} chunks", self.chunks) };
        let steps = format!(
            "{} of {}{unit}: every part{rounded} in {chunks}, under way for {} {deep} at most",
            self.steps,
            exactly(&self.step_length_exact, self.step_length),
            self.depth
        );
        let mut latency = format!("{}{unit}", exactly(&self.latency_exact, self.latency));
        if self.busy < self.latency * (1.0 - 1e-9) {
            latency += &format!(", {}{unit} with every step as long as it needs", short(self.busy));
        }
        [("steps", steps), ("latency", latency)]
    }
}

/// A fraction with its value, a long one without it.
fn exactly(exact: &str, value: f64) -> String {
    match exact.contains('/') && exact.len() <= 20 {
        true => format!("{exact} ({})", short(value)),
        false => short(value),
    }
}
