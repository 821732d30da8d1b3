//! Expansions: larger graphs from smaller ones, and their schedules from those of the smaller ones.
//!
//! Each file has one expansion, its graph first, then its all-gather schedule. What a schedule costs is known from the
//! base's cost alone (`cost.rs`), so a search need not build anything. Reduce-scatters are turned-around all-gathers.

mod bidirectional;
pub mod cost;
mod degree;
mod line;
mod product;

pub use bidirectional::{bidirectional, bidirectional_schedule, edge_map};
pub use degree::{degree, degree_schedule};
pub use line::{line, line_schedule};
pub use product::{power, power_schedule, power_sends, product};

use super::bfb::{MAX_SENDS, MAX_UNITS};
use super::{Graph, Refusal, Schedule, Send, Shape};

/// Refuses what is no all-gather, and sends that name no edge, vertex, unit or step of it.
fn gather(graph: &Graph, schedule: &Schedule) -> Result<(), Refusal> {
    let wrong = |reason: String| Err(Refusal::Internal { reason });
    if schedule.shape != Shape::AllGather {
        return wrong("only an all-gather is expanded".into());
    }
    let fits = |send: &Send| {
        (send.edge as usize) < graph.edges().len()
            && send.shard < graph.n()
            && send.lo < send.hi
            && send.hi <= schedule.units
            && (1..=schedule.steps).contains(&send.step)
    };
    match schedule.sends.iter().find(|send| !fits(send)) {
        Some(send) => wrong(format!("{send:?} is no send of this graph and schedule")),
        None => Ok(()),
    }
}

/// An all-gather from its sends in any order.
fn ordered(units: u32, steps: u32, mut sends: Vec<Send>) -> Schedule {
    sends.sort_unstable();
    Schedule { shape: Shape::AllGather, units, steps, sends }
}

/// So many times as many units per shard, if there may be so many.
fn units(units: u32, times: u32) -> Result<u32, Refusal> {
    match units.checked_mul(times).filter(|units| (1..=MAX_UNITS).contains(units)) {
        Some(units) => Ok(units),
        None => {
            let reason = format!("{units} times {times} units per shard; 1 to {MAX_UNITS} are allowed");
            Err(Refusal::InvalidChunking { reason })
        }
    }
}

/// Refuses more sends than memory should hold, before they are made.
fn room(sends: u64) -> Result<(), Refusal> {
    if sends <= MAX_SENDS {
        return Ok(());
    }
    Err(Refusal::InvalidChunking { reason: format!("the schedule would have {sends} sends; at most {MAX_SENDS}") })
}

/// Ids of edges by vertex: those whose `end` is the vertex, ascending.
fn edges_by(graph: &Graph, end: impl Fn(&super::Edge) -> u32) -> Vec<Vec<u32>> {
    let mut by = vec![Vec::new(); graph.n() as usize];
    for (id, edge) in graph.edges().iter().enumerate() {
        by[end(edge) as usize].push(id as u32);
    }
    by
}

#[cfg(test)]
mod tests;
