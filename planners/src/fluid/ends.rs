//! Collectives in which some have data for others, as a form of a fabric says it: the same as demands.

use crate::teccl::demand::{MAX_TRIPLES, Wanted};
use sluice_formats::problem::{E_LIMIT, E_MISSING, E_RANGE, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::topology::Topology;
use sluice_formats::topology::import::Ends;
use sluice_plan::plan::{Collective, Demands, Names, NodeId, Tenant, Version};

/// What a collective asks for where not everybody has data, or not everybody ends with it; `None` where everybody does.
///
/// Origins have a unit each for all destinations (all-gather), or one for each of them (all-to-all); a broadcast and a
/// scatter begin at the root, or at the only origin, and a gather ends at the root, or at the only destination.
///
/// # Errors
/// `UNSUPPORTED_FIELD` for sums, `E_MISSING` and `E_RANGE` for a root, `E_LIMIT`.
pub fn wanted(
    topology: &Topology,
    ends: &Ends,
    collective: Collective,
    root: Option<&str>,
    file: &str,
) -> Result<Option<Wanted>, Problems> {
    if ends.are_all_of(topology) {
        return Ok(None);
    }
    let all = topology.compute();
    let side = |list: &Option<Vec<usize>>| list.clone().unwrap_or_else(|| all.clone());
    let (mut origins, mut destinations) = (side(&ends.origins), side(&ends.destinations));
    // One of them alone, and how the problem calls it.
    let only = |list: &mut Vec<usize>, key: &str| -> Result<(), Problems> {
        let of = |id: &str| list.iter().copied().find(|node| *topology.nodes()[*node].id == *id);
        let one = match root {
            Some(id) => of(id).ok_or_else(|| {
                let error = Problem::new(E_RANGE, "root", format!("not in the form's {key}")).found(id);
                Problems::from(error.allowed(format!("a vertex of /{key}")))
            })?,
            None if list.len() == 1 => list[0],
            None => {
                let error = Problem::new(E_MISSING, "root", format!("there are {} {key}", list.len()));
                return Err(error.allowed(format!("a vertex of /{key}")).into());
            }
        };
        *list = vec![one];
        Ok(())
    };
    match collective {
        Collective::AllGather | Collective::AllToAll => {}
        Collective::Broadcast | Collective::Scatter => only(&mut origins, "origins")?,
        Collective::Gather => only(&mut destinations, "destinations")?,
        _ => {
            let message = "origins and destinations differ, and sums are of all for all";
            let error = Problem::new(UNSUPPORTED_FIELD, "/destinations", message).found(collective.word());
            return Err(Problems::from(error.allowed("the same vertices as in /origins")).in_file(file));
        }
    }
    let count = origins.len() as u64 * destinations.len() as u64;
    if count > MAX_TRIPLES {
        let error = Problem::new(E_LIMIT, "/destinations", "too many pairs of origins and destinations");
        return Err(Problems::from(error.found(count.to_string()).allowed(format!("{MAX_TRIPLES}"))).in_file(file));
    }
    let mut names = Names::default();
    let ids: Vec<NodeId> = topology.nodes().iter().map(|node| names.intern(&node.id)).collect();
    // What is the same for all ends is one chunk, what is for each of them one chunk for each.
    let apart = matches!(collective, Collective::AllToAll | Collective::Scatter);
    let pairs = origins.iter().flat_map(|origin| destinations.iter().zip(0..).map(move |pair| (*origin, pair)));
    let pairs = pairs.filter(|(origin, (destination, _))| origin != *destination);
    let triple =
        |(origin, (end, number)): (usize, (&usize, u64))| (ids[origin], if apart { number } else { 0 }, ids[*end]);
    let tenant = Tenant {
        chunks: None,
        collective: None,
        name: collective.word().into(),
        participants: None,
        root: None,
        triples: Some(pairs.map(triple).collect()),
        weight: None,
    };
    Ok(Some(Wanted { demands: Demands { version: Version, tenants: vec![tenant] }, names, file: file.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_formats::topology::import;

    /// Three vertices in a ring; `g0` and `g1` have data, `g2` and `g1` end with it.
    fn ring(collective: Collective, root: Option<&str>) -> Result<Option<Wanted>, Problems> {
        let vertex = |id: &str| serde_json::json!({"id": id, "copy": true, "reduce": true, "store": true});
        let form = serde_json::json!({
            "vertices": [vertex("g0"), vertex("g1"), vertex("g2")],
            "edges": [["g0", "g1"], ["g1", "g2"], ["g2", "g0"]],
            "origins": ["g0", "g1"], "destinations": ["g2", "g1"],
        });
        let (topology, ends) = import::fluid(form.to_string().as_bytes(), "form", None).expect("valid");
        wanted(&topology, &ends, collective, root, "form")
    }

    fn triples(collective: Collective, root: Option<&str>) -> Vec<(u32, u64, u32)> {
        let wanted = ring(collective, root).expect("served").expect("not everybody");
        let triples = wanted.demands.tenants[0].triples.clone().expect("triples");
        triples.into_iter().map(|(from, number, to)| (from.0, number, to.0)).collect()
    }

    #[test]
    fn collectives_of_some_are_demands() {
        assert_eq!(triples(Collective::AllGather, None), [(0, 0, 2), (0, 0, 1), (1, 0, 2)]);
        assert_eq!(triples(Collective::AllToAll, None), [(0, 0, 2), (0, 1, 1), (1, 0, 2)]);
        assert_eq!(triples(Collective::Broadcast, Some("g1")), [(1, 0, 2)]);
        assert_eq!(triples(Collective::Scatter, Some("g0")), [(0, 0, 2), (0, 1, 1)]);
        assert_eq!(triples(Collective::Gather, Some("g2")), [(0, 0, 2), (1, 0, 2)]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let code = |collective, root| ring(collective, root).expect_err("refused").code();
        assert_eq!(code(Collective::AllReduce, None), "UNSUPPORTED_FIELD");
        assert_eq!(code(Collective::Broadcast, None), "E_MISSING");
        assert_eq!(code(Collective::Broadcast, Some("g2")), "E_RANGE");
        assert_eq!(code(Collective::Gather, Some("g0")), "E_RANGE");
    }
}
