//! Graphs looked for at random before the finder begins: what is found stands beside the families.

use std::time::{Duration, Instant};

use sluice_planners::Run;
use sluice_planners::direct::search::{Request, bases, search};
use sluice_planners::direct::{Expr, Refusal};

use super::refused;
use crate::failure::Failure;
use crate::plan::args::FindTopologyArgs;

/// What a search of `--search` seconds per size finds; the time is shared by the sizes whose graphs bear on it.
pub fn graphs(args: &FindTopologyArgs, run: &Run) -> Result<Vec<Expr>, Failure> {
    let Some(seconds) = args.search else { return Ok(Vec::new()) };
    let mut graphs = Vec::new();
    for &size in &args.nodes.0 {
        let bases = bases(size, args.degree);
        let share = Duration::from_secs(seconds.into()) / bases.len().max(1) as u32;
        for (n, d) in bases {
            let run = Run { deadline: Some(Instant::now() + share), ..*run };
            let bidirectional = args.bidirectional;
            let request = Request { n, d, bidirectional, seed: args.seed, rounds: u64::MAX };
            for found in search(&request, &run).map_err(|refusal| refused(&refusal, n, d))? {
                let unread = |_| Refusal::Internal { reason: format!("{} cannot be read back", found.expression) };
                graphs.push(Expr::parse(&found.expression).map_err(unread).map_err(|r| refused(&r, n, d))?);
            }
        }
    }
    Ok(graphs)
}
