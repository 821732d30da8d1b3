//! What `sluice plan wan` shows of a plan: its times, the bound, and of the portfolio what every method came to.

use serde::Serialize;
use sluice_formats::topology::Topology;
use sluice_plan::plan::Content;
use sluice_planners_wan::method::Method;
use sluice_planners_wan::portfolio::Judged;

use super::Done;
use crate::failure::Failure;
use crate::output;
use crate::plan::shown::{Head, seconds};
use crate::table::Table;

/// Times of collectives that are shown to people at most.
const MAX_TIMES: usize = 10;

/// The results, under their fixed names.
#[derive(Debug, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    head: Head,
    method: &'static str,
    /// Of the portfolio the method whose plan it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<String>,
    execution: &'static str,
    /// The mean time that the method aimed at, as it found it.
    objective: f64,
    /// No plan of this method is below this, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    method_bound: Option<f64>,
    #[serde(rename = "T_mean_s")]
    mean: f64,
    /// `None`: flows end at rates so small that floats do not say when.
    #[serde(rename = "T")]
    times: Option<Vec<f64>>,
    lower_bound: f64,
    proved_optimal: bool,
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Candidate>,
    seconds: f64,
}

/// What a method of the portfolio came to.
#[derive(Debug, Serialize)]
struct Candidate {
    method: String,
    #[serde(rename = "T_mean_s")]
    mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl From<&Judged> for Candidate {
    fn from(judged: &Judged) -> Candidate {
        let mean = judged.mean.as_ref().ok().copied();
        Candidate { method: judged.name.clone(), mean, refused: judged.mean.as_ref().err().map(ToString::to_string) }
    }
}

/// How a plan is carried out, as its file has it.
fn execution(content: &Content) -> &'static str {
    match content {
        Content::Rates(of) => of.execution.word(),
        Content::Weights(of) => of.execution.word(),
        Content::Order(of) => of.execution.word(),
        _ => "",
    }
}

impl Shown {
    pub fn new(method: Method, done: &Done, seconds: f64, out: Option<String>) -> Result<Shown, Failure> {
        let body = &done.made.plan.body;
        let head = Head::new("wan", body.collective, (&body.claim, Some(&done.made.plan.names)), out)?;
        Ok(Shown {
            head,
            method: method.word(),
            taken: done.taken.clone(),
            execution: execution(&body.content),
            objective: done.proposed.objective.unwrap_or(done.made.mean),
            method_bound: done.proposed.bound,
            mean: done.made.mean,
            times: done.made.has_times.then(|| done.outcome.t.clone()),
            lower_bound: done.bound.value,
            proved_optimal: done.made.optimal || done.proposed.proved,
            status: done.made.status.word(),
            candidates: done.table.iter().map(Candidate::from).collect(),
            seconds,
        })
    }

    pub fn text(&self, topology: &Topology, done: &Done) -> String {
        let name = if topology.name().is_empty() { "this network" } else { topology.name() };
        let (flows, chains, collectives) = done.counts;
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let (flows, chains) = (count(flows, "flow"), count(chains, "chain"));
        let mut text = format!(
            "{} on {name}: {flows} in {chains} of {}\n",
            self.head.collective,
            count(collectives, "collective")
        );
        let mut line = |what: &str, said: String| text += &format!("  {what:<12} {said}\n");
        let taken = self.taken.as_ref().map_or(String::new(), |taken| format!(", which takes {taken}"));
        line("method", format!("{}{taken}", self.method));
        line("mean time", format!("{}{}", seconds(self.mean), self.proof(done)));
        line("times", self.said_times());
        line("carried out", self.execution.to_owned());
        text += &self.head.closing(&done.ignored.join(", "), self.seconds);
        if !self.candidates.is_empty() {
            text += &format!("\n{}", self.table());
        }
        text
    }

    /// The times of the first collectives.
    fn said_times(&self) -> String {
        let Some(times) = &self.times else {
            return "not claimed: flows end at rates so small that their times hang on the last digit".into();
        };
        let shown = times.iter().take(MAX_TIMES).map(|time| seconds(*time)).collect::<Vec<_>>().join(", ");
        let more = if times.len() > MAX_TIMES { format!(", … ({})", times.len()) } else { String::new() };
        format!("{shown}{more}")
    }

    /// What is known of other plans.
    fn proof(&self, done: &Done) -> String {
        if done.made.optimal {
            return ", the least there can be".into();
        }
        let bound = seconds(self.lower_bound);
        match (self.proved_optimal, self.method_bound) {
            (true, _) => format!(", the least of this method; no plan is below {bound}"),
            (false, Some(own)) => format!(", of this method none is below {}; no plan is below {bound}", seconds(own)),
            (false, None) => format!("; no plan is below {bound}"),
        }
    }

    /// What every method came to, the best first.
    fn table(&self) -> String {
        let mut table = Table::new(["METHOD", ">MEAN TIME", ">AGAINST THE BEST", ""]);
        let mut sorted: Vec<&Candidate> = self.candidates.iter().collect();
        sorted.sort_by(|a, b| a.mean.unwrap_or(f64::INFINITY).total_cmp(&b.mean.unwrap_or(f64::INFINITY)));
        for candidate in sorted {
            let is_taken = self.taken.as_ref() == Some(&candidate.method);
            let cells = match (candidate.mean, &candidate.refused) {
                (Some(mean), _) => {
                    let more = (mean / self.mean - 1.0) * 100.0;
                    [
                        format!("{mean:.3} s"),
                        format!("{more:+.1} %"),
                        if is_taken { "taken".into() } else { String::new() },
                    ]
                }
                (None, refused) => ["-".into(), "-".into(), refused.clone().unwrap_or_default()],
            };
            table.row([candidate.method.clone()].into_iter().chain(cells).collect());
        }
        table.render(output::width())
    }
}
