//! Plans side by side: one JSON document, or a table with a column per plan.

use serde::Serialize;
use sluice_formats::quantity::{Rational, Unit};
use sluice_plan::check::{Proof, Quantity};
use sluice_plan::compare::{Comparison, Row};

use crate::plan::shown::{seconds, short};
use crate::table::Table;

/// The results, under their fixed names.
#[derive(Debug, Serialize)]
pub struct Shown {
    schema: u32,
    collective: &'static str,
    topology: Fabric,
    participants: usize,
    /// Bytes, exactly.
    sizes: Vec<String>,
    plans: Vec<Column>,
    /// Why there is no ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_ring: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    svg: Option<String>,
}

#[derive(Debug, Serialize)]
struct Fabric {
    name: String,
    sha256: String,
}

/// A plan. Latency and times are in seconds, or abstract as the capacities are.
#[derive(Debug, Serialize)]
struct Column {
    plan: String,
    planner: Option<String>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<f64>,
    time_per_byte: String,
    /// M/T of very much data in the input's unit.
    algbw: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times_s: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<Vec<f64>>,
    /// For which sizes no other plan is faster.
    best: Vec<bool>,
    proof: Option<Proved>,
    /// That it took to make, if the plan says so.
    seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Proved {
    certificate: &'static str,
    quantity: &'static str,
    optimal: bool,
    rechecked: bool,
    /// How far the plan is above its bound, as a part of that.
    gap: Option<f64>,
}

impl Shown {
    /// `no_ring`: why there is none; `svg`: where the picture was written.
    pub fn new(comparison: &Comparison<'_>, no_ring: Option<String>, svg: Option<String>) -> Shown {
        let topology = comparison.topology();
        Shown {
            schema: 1,
            collective: comparison.collective().map_or("", |collective| collective.word()),
            topology: Fabric { name: topology.name().to_owned(), sha256: topology.digest() },
            participants: comparison.participants(),
            sizes: comparison.sizes.iter().map(Rational::to_string).collect(),
            plans: comparison.rows.iter().map(|row| Column::new(comparison, row)).collect(),
            no_ring,
            svg,
        }
    }

    /// A table; `sizes` are the words of the command line.
    pub fn text(&self, comparison: &Comparison<'_>, sizes: &[String]) -> String {
        let name = if self.topology.name.is_empty() { "this fabric" } else { &self.topology.name };
        let mut text = format!("{} on {name}, {} participants\n\n", self.collective, self.participants);
        let heads = std::iter::once(String::new()).chain(self.plans.iter().map(|plan| format!(">{}", plan.plan)));
        let mut table = Table::new(heads);
        let units = comparison.has_units();
        let time = |time: &Rational| if units { seconds(time.to_f64()) } else { short(time.to_f64()) };
        let mut line = |what: &str, cell: &dyn Fn(&Row, &Column) -> String| {
            let cells = comparison.rows.iter().zip(&self.plans).map(|(row, column)| cell(row, column) + "  ");
            table.row(std::iter::once(what.to_owned()).chain(cells).collect());
        };
        line("planner", &|_, column| column.planner.clone().unwrap_or_else(|| "-".into()));
        line("kind", &|_, column| column.kind.into());
        line("latency", &|row, _| time(&row.latency));
        let unit = match comparison.topology().unit() {
            Unit::Abstract => String::new(),
            Unit::Bytes(unit) => format!(" {}", unit.word()),
        };
        line("bandwidth", &|_, column| column.algbw.map_or("no limit".into(), |algbw| short(algbw) + &unit));
        line("proof", &|_, column| column.proof.as_ref().map_or("none".into(), Proved::words));
        line("made in", &|_, column| column.seconds.map_or("-".into(), seconds));
        for (place, size) in sizes.iter().enumerate() {
            let mut cells = vec![size.trim().to_owned()];
            for row in &comparison.rows {
                let mark = if comparison.is_best(row, place) { " *" } else { "  " };
                cells.push(row.times.get(place).map(&time).unwrap_or_default() + mark);
            }
            table.row(cells);
        }
        text += &table.render(None);
        if let Some(svg) = &self.svg {
            text += &format!("wrote {svg}\n");
        }
        text
    }
}

impl Column {
    fn new(comparison: &Comparison<'_>, row: &Row) -> Column {
        let units = comparison.has_units();
        let times: Vec<f64> = row.times.iter().map(Rational::to_f64).collect();
        let best = (0..times.len()).map(|place| comparison.is_best(row, place)).collect();
        let (times_s, times) = if units { (Some(times), None) } else { (None, Some(times)) };
        let latency = row.latency.to_f64();
        let rate = row.per_byte.recip().map(|rate| comparison.topology().unit().express(&rate).to_f64());
        Column {
            plan: row.name.clone(),
            planner: row.planner.clone(),
            kind: row.kind.word(),
            latency_s: Some(latency).filter(|_| units),
            latency: Some(latency).filter(|_| !units),
            time_per_byte: row.per_byte.to_string(),
            algbw: rate,
            times_s,
            times,
            best,
            proof: row.proof.as_ref().map(Proved::new),
            seconds: row.seconds.as_ref().map(Rational::to_f64),
        }
    }
}

impl Proved {
    fn new(proof: &Proof) -> Proved {
        let above = proof.bound.as_ref().and_then(|bound| (&proof.value - bound).checked_div(bound));
        Proved {
            certificate: proof.kind.word(),
            quantity: match proof.quantity {
                Quantity::TimePerByte => "bandwidth",
                Quantity::Steps => "steps",
                Quantity::Epochs => "epochs",
                Quantity::MeanSeconds => "seconds",
            },
            optimal: proof.optimal,
            rechecked: proof.rechecked,
            gap: above.map(|gap| gap.to_f64()),
        }
    }

    /// `best epochs (gateway)`, `epochs within 4.5 % (distance)`.
    fn words(&self) -> String {
        let trust = if self.rechecked { "" } else { ", not rechecked" };
        let how = match (self.optimal, self.gap) {
            (true, _) => format!("best {}", self.quantity),
            (false, Some(gap)) => format!("{} within {} %", self.quantity, short((gap * 1000.0).ceil() / 10.0)),
            (false, None) => self.quantity.to_owned(),
        };
        format!("{how} ({}{trust})", self.certificate)
    }
}
