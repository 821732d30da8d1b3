//! The linear program, aggregated by source, and what HiGHS makes of it.
//!
//! Variables y(s,e) ≥ 0, what source s sends over link e, and f, the rate of every pair:
//! maximise f; Σ_s y(s,e) ≤ 1 for every link e; f + Σ_out y(s,·) ≤ Σ_in y(s,·) at every vertex but s (eq. A.1 of Zhao
//! 2026). Where translations carry every vertex onto every other, one source suffices: the links of a class share
//! what their sum takes, since over all translations each link of it carries that sum.
//!
//! Rates are about d/(N·hops), too small for a solver's tolerances, so capacities are N instead of 1.
//!
//! HiGHS cannot be called off through its Rust interface. It therefore works on a thread of its own; who calls off gets
//! his answer at once, and the thread ends when HiGHS does, at the latest at the time limit.
//!
//! Neither its values nor its dual values are trusted: [`super::certified`] says what the flow is worth and
//! [`super::lengths`] what the prices of the links prove.

use super::links::Links;
use super::{Limits, Refusal, certified, lengths};
use highs::{ColProblem, HighsModelStatus, Row, Sense};
use sluice_formats::quantity::Rational;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often somebody may call the work off.
const LOOK: Duration = Duration::from_millis(20);

/// A proved rate and a proved bound on it.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    pub rate: f64,
    pub bound: Option<Rational>,
}

/// Solves for the sources `0..sources`; `share` is the group of links, of `groups`, to which each link belongs.
pub(super) fn solve(
    links: &Links,
    sources: usize,
    share: &[u32],
    groups: usize,
    limits: &Limits<'_>,
) -> Result<Solved, Refusal> {
    let answer = ask(problem(links, sources, share, groups), limits)?;
    let flow = answer.columns.get(1..).unwrap_or_default();
    let prices = answer.prices.get(..groups).unwrap_or_default();
    if flow.len() != sources * links.len() || prices.len() != groups {
        return Err(Refusal::Solver { status: format!("{} and no solution", answer.status) });
    }
    let flow: Vec<f64> = flow.iter().map(|amount| amount / links.n as f64).collect();
    let rate = certified::rate(links, &flow, sources, share, groups);
    let prices: Vec<f64> = share.iter().map(|&group| prices[group as usize].abs()).collect();
    let bound = lengths::bound(links, &lengths::whole(&prices), sources);
    // What is proved holds, whatever the solver thinks of it.
    match (rate > 0.0, answer.late) {
        (true, _) => Ok(Solved { rate, bound }),
        (false, true) => Err(Refusal::TimeLimit),
        (false, false) => Err(Refusal::Solver { status: answer.status }),
    }
}

fn problem(links: &Links, sources: usize, share: &[u32], groups: usize) -> ColProblem {
    let mut problem = ColProblem::new();
    let capacities: Vec<Row> = (0..groups).map(|_| problem.add_row(..=links.n as f64)).collect();
    // Row of each source and vertex; the source's own stays without entries.
    let balances: Vec<Row> = (0..sources * links.n).map(|_| problem.add_row(..=0.0)).collect();
    let others = (0..sources).flat_map(|s| (0..links.n).map(move |v| (s, v))).filter(|(s, v)| s != v);
    problem.add_column(1.0, 0.0.., others.map(|(s, v)| (balances[s * links.n + v], 1.0)));
    for source in 0..sources {
        for link in 0..links.len() {
            let (tail, head) = (links.tail[link] as usize, links.head[link] as usize);
            let leaves = (tail != source).then(|| (balances[source * links.n + tail], 1.0));
            let arrives = (head != source).then(|| (balances[source * links.n + head], -1.0));
            let takes = Some((capacities[share[link] as usize], 1.0));
            problem.add_column(0.0, 0.0.., [takes, leaves, arrives].into_iter().flatten());
        }
    }
    problem
}

/// What HiGHS said.
struct Answer {
    columns: Vec<f64>,
    prices: Vec<f64>,
    status: String,
    late: bool,
}

fn ask(problem: ColProblem, limits: &Limits<'_>) -> Result<Answer, Refusal> {
    let left = limits.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).as_secs_f64());
    let (tell, hear) = mpsc::channel();
    let thread = std::thread::Builder::new().name("highs".into());
    // Nobody listens any more after the work was called off.
    let work = move || drop(tell.send(answer(problem, left)));
    thread.spawn(work).map_err(|e| Refusal::Solver { status: format!("no thread: {e}") })?;
    loop {
        match hear.recv_timeout(LOOK) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) => limits.check()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Refusal::Solver { status: "a crash".into() }),
        }
    }
}

fn answer(problem: ColProblem, left: Option<f64>) -> Result<Answer, Refusal> {
    let refused = |status| Refusal::Solver { status: format!("{status:?}") };
    let mut model = problem.try_optimise(Sense::Maximise).map_err(refused)?;
    model.make_quiet();
    model.set_option("threads", 1);
    model.set_option("parallel", "off");
    model.set_option("solver", "ipm");
    // A vertex of the optimum is of no use here: any optimal flow and prices serve.
    model.set_option("run_crossover", "off");
    if let Some(left) = left {
        model.set_option("time_limit", left.max(1e-3));
    }
    let solved = model.try_solve().map_err(refused)?;
    let (status, solution) = (solved.status(), solved.get_solution());
    Ok(Answer {
        columns: solution.columns().to_vec(),
        prices: solution.dual_rows().to_vec(),
        status: format!("{status:?}"),
        late: status == HighsModelStatus::ReachedTimeLimit,
    })
}
