//! The last mile in exact numbers: a mixture of a few columns, with the time, the cost and the prices as fractions.
//!
//! The floats' optimum says which columns matter. Among those the exact simplex finds the same optimum again, now without
//! tolerance, where the programs are small; else the floats stand.

use crate::run::Run;
use crate::simplex::Program;
use sluice_formats::quantity::Rational;

/// Rows times columns at most; beyond that exact arithmetic takes too long.
const MAX_ENTRIES: usize = 60_000;
/// How far the exact optimum may be from that of the floats.
const TOLERANCE: f64 = 1e-6;

/// A column in exact numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactColumn {
    /// Which row it fills.
    pub job: usize,
    /// How much of that row a unit of it fills.
    pub fills: Rational,
    /// By class of limits what a unit of it loads.
    pub loads: Vec<(u32, Rational)>,
    /// What a unit of it costs.
    pub cost: Rational,
}

/// The least time, or the least cost within a time, of a mixture.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// The time or the cost.
    pub value: Rational,
    /// By column its part, zero or more.
    pub parts: Vec<Rational>,
    /// By class of limits what its rate is worth; zero where it has none.
    pub prices: Vec<Rational>,
}

/// The least time of a mixture that fills every job once; `rates` by class of limits, `None` where there is no limit.
/// `expected` is what floats found. `None` where that takes too long or comes out differently.
pub fn least_time(
    rates: &[Option<Rational>],
    columns: &[ExactColumn],
    jobs: usize,
    expected: f64,
    run: &Run<'_>,
) -> Option<Mixture> {
    let gain = std::iter::once(-&Rational::ONE).chain(columns.iter().map(|_| Rational::ZERO));
    solve(rates, columns, jobs, gain.collect(), None, expected, run)
}

/// The least cost of a mixture that takes no longer than `time`; else as [`least_time`].
pub fn least_cost(
    rates: &[Option<Rational>],
    columns: &[ExactColumn],
    jobs: usize,
    time: &Rational,
    expected: f64,
    run: &Run<'_>,
) -> Option<Mixture> {
    let gain = std::iter::once(Rational::ZERO).chain(columns.iter().map(|column| -&column.cost));
    solve(rates, columns, jobs, gain.collect(), Some(time), expected, run)
}

fn solve(
    rates: &[Option<Rational>],
    columns: &[ExactColumn],
    jobs: usize,
    gain: Vec<Rational>,
    within: Option<&Rational>,
    expected: f64,
    run: &Run<'_>,
) -> Option<Mixture> {
    // Rows that no column loads say nothing.
    let loaded: Vec<usize> = (0..rates.len())
        .filter(|class| {
            rates[*class].is_some()
                && columns.iter().any(|column| column.loads.iter().any(|load| load.0 as usize == *class))
        })
        .collect();
    if (loaded.len() + jobs).checked_mul(columns.len() + 1)? > MAX_ENTRIES {
        return None;
    }
    let mut program = Program::new(gain);
    for class in &loaded {
        let rate = rates[*class].as_ref()?;
        let load = |column: &ExactColumn| {
            column.loads.iter().find(|load| load.0 as usize == *class).map(|load| load.1.clone())
        };
        let mut row: Vec<(usize, Rational)> =
            columns.iter().zip(1..).filter_map(|(column, place)| Some((place, load(column)?))).collect();
        match within {
            Some(time) => program.add(&row, time * rate),
            None => {
                row.push((0, -rate));
                program.add(&row, Rational::ZERO);
            }
        }
    }
    for job in 0..jobs {
        let own = columns.iter().zip(1..).filter(|(column, _)| column.job == job);
        let row: Vec<(usize, Rational)> = own.map(|(column, place)| (place, -&column.fills)).collect();
        program.add(&row, -&Rational::ONE);
    }
    program.solve(run).ok()?;
    let value = -&program.objective();
    let found = value.to_f64();
    if (found - expected).abs() > TOLERANCE * expected.abs() {
        return None;
    }
    let mut prices = vec![Rational::ZERO; rates.len()];
    loaded.iter().zip(0..).for_each(|(class, row)| prices[*class] = program.price(row));
    let mut parts = program.values().split_off(1);
    for job in 0..jobs {
        let own = || columns.iter().enumerate().filter(|(_, column)| column.job == job).map(|(place, _)| place);
        // Where more costs nothing a job may be filled more than once.
        let filled =
            own().map(|place| &columns[place].fills * &parts[place]).fold(Rational::ZERO, |sum, part| &sum + &part);
        let once = filled.recip()?;
        own().for_each(|place| parts[place] = &parts[place] * &once);
    }
    Some(Mixture { value, parts, prices })
}
