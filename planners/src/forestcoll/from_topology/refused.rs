//! What the planner refuses, said with the names and pointers of the topology file.

use super::Instance;
use crate::forestcoll::Refusal;
use serde_json::json;
use sluice_formats::problem::{Problem, Problems};

/// The refusal as an error of the file, or of the parameter that is to blame.
pub fn errors(instance: &Instance<'_>, refusal: &Refusal) -> Problems {
    let error = |key: &str| Problem::new(refusal.code(), key, refusal.to_string());
    let node =
        |name: &str| instance.asked.topology.node(name).map_or("/nodes".to_owned(), |node| format!("/nodes/{node}"));
    let in_file = |error: Problem| instance.asked.in_file(error);
    match refusal {
        Refusal::TooFewCompute { found } => {
            let error = error("/nodes").found(format!("{found} participant(s)")).allowed("2 or more");
            in_file(error.help("nodes of kind gpu, host and site take part unless --participants says otherwise"))
        }
        Refusal::BadWeights { .. } => in_file(error("/nodes")),
        Refusal::NotEulerian { nodes } => {
            let each: Vec<_> = nodes
                .iter()
                .map(|(id, into, out)| json!({"node": id, "in": into.to_string(), "out": out.to_string()}))
                .collect();
            let key = nodes.first().map_or("/nodes".to_owned(), |(name, ..)| node(name));
            let found = nodes.first().map(|(_, into, out)| format!("{into} in, {out} out")).unwrap_or_default();
            let error =
                error(&key).found(found).allowed("as much bandwidth out as in, at every node").detail("nodes", each);
            in_file(error.help("give every link an equal one back, for instance with \"duplex\": true"))
        }
        Refusal::NotConnected { from, to } => {
            let error = error(&node(from)).detail("from", from.as_str()).detail("to", to.as_str());
            in_file(
                error
                    .found(format!("no way from {from} to {to}"))
                    .allowed("a way from every participant to every other one"),
            )
        }
        Refusal::KTooLarge { k, limit } => {
            let error = error("most_k").found(k.to_string()).allowed(format!("up to {limit}"));
            error.detail("k", *k).help(format!("--fixed-k {limit} plans with that many trees per root")).into()
        }
        Refusal::BadK { k } => error("fixed_k").found(k.to_string()).allowed("1 or more").into(),
        Refusal::FixedKNotEulerian { k, name } => in_file(error(&node(name)).detail("k", *k)),
        Refusal::ProgramTooLarge { found, allowed, .. } => {
            let error = error("all_reduce").found(found.to_string()).allowed(format!("up to {allowed}"));
            let other = "`sluice plan fluid-lp` solves the program for hundreds of GPUs";
            error.help(format!("--all-reduce phases plans a reduce-scatter and an all-gather; {other}")).into()
        }
        Refusal::Overflow { .. } => in_file(error("/links")),
        // What the file's own checks refuse before the planner sees it, and what is no fault of the file.
        _ => in_file(error("")),
    }
}
