//! Graphs looked for at random before the finder begins: what is found stands beside the families.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use sluice_planners::direct::search::{Progress, Request, bases, search};
use sluice_planners::direct::{Expr, Refusal};

use super::refused;
use crate::plan::Stop;
use crate::plan::args::FindTopologyArgs;

/// What a search of `--search` seconds per size finds; the time is shared by the sizes whose graphs bear on it.
pub fn graphs(
    args: &FindTopologyArgs,
    threads: usize,
    cancel: &AtomicBool,
    bar: &ProgressBar,
) -> Result<Vec<Expr>, Stop> {
    let Some(seconds) = args.search else { return Ok(Vec::new()) };
    let mut graphs = Vec::new();
    for &size in &args.nodes.0 {
        let bases = bases(size, args.degree);
        let share = Duration::from_secs(seconds.into()) / bases.len().max(1) as u32;
        for (n, d) in bases {
            let ends = Instant::now() + share;
            let go_on = |progress: Progress| {
                bar.set_message(format!("looking at {n} of {d} ports, {} graphs", progress.evaluations));
                Instant::now() < ends && !cancel.load(Ordering::Relaxed)
            };
            let request = Request { n, d, bidirectional: args.bidirectional, seed: args.seed, threads, known: &[] };
            let found = search(&request, go_on).map_err(|refusal| refused(&refusal, n, d))?;
            if cancel.load(Ordering::Relaxed) {
                return Err(refused(&Refusal::Cancelled, n, d).into());
            }
            for found in found {
                let unread = |_| Refusal::Internal { reason: format!("{} cannot be read back", found.expression) };
                graphs.push(Expr::parse(&found.expression).map_err(unread).map_err(|r| refused(&r, n, d))?);
            }
        }
    }
    Ok(graphs)
}
