//! Small networks with flows whose times are known for every way to share: the examples that the literature on wide-area
//! collectives draws, and others as small.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;

use super::{code, naive, plan};

/// A flow: collective, order in its chain, MB, links.
type Hop = (u64, u64, u64, &'static [usize]);

/// Sites in a line or a ring with these links, in MB/s, and one chain of flows for each group.
struct Example {
    links: &'static [(usize, usize, u64)],
    flows: &'static [Hop],
}

/// Three links of 9 MB/s in a ring; the chunk of a ring of three, and a chain of two hops.
const CHUNK: Example = Example {
    links: &[(0, 1, 9), (1, 2, 9), (2, 0, 9)],
    flows: &[(0, 0, 9, &[0]), (0, 1, 9, &[1]), (0, 2, 9, &[2]), (0, 3, 9, &[0]), (1, 0, 9, &[2]), (1, 1, 9, &[0])],
};
/// One link, two chains of two flows.
const TWICE: Example =
    Example { links: &[(0, 1, 1)], flows: &[(0, 0, 1, &[0]), (0, 1, 1, &[0]), (1, 0, 1, &[0]), (1, 1, 1, &[0])] };
/// A wide link and a thin one behind it.
const THIN: Example = Example { links: &[(0, 1, 10), (1, 2, 1)], flows: &[(0, 0, 5, &[0, 1]), (1, 0, 20, &[0])] };
/// A chain that comes back to its first link.
const BACK: Example = Example {
    links: &[(0, 1, 10), (1, 2, 4), (2, 0, 8)],
    flows: &[(0, 0, 5, &[0]), (0, 1, 5, &[1]), (0, 2, 5, &[2]), (0, 3, 1, &[0]), (1, 0, 6, &[0, 1])],
};
/// Three collectives on one link.
const CHAINS: Example = Example {
    links: &[(0, 1, 2)],
    flows: &[(0, 0, 2, &[0]), (0, 1, 4, &[0]), (1, 0, 1, &[0]), (2, 0, 3, &[0]), (2, 1, 3, &[0]), (2, 2, 3, &[0])],
};

impl Example {
    /// A plan for it that claims this mean time.
    fn plan(&self, kind: &str, execution: &str, each: impl Fn(usize, &mut Value), mean: f64) -> Value {
        let nodes: Vec<Value> = (0..3).map(|i| json!({"id": format!("n{i}"), "kind": "site"})).collect();
        let link = |(from, to, capacity): &(usize, usize, u64)| {
            let (from, to) = (format!("n{from}"), format!("n{to}"));
            json!({"from": from, "to": to, "capacity": format!("{capacity}MB/s")})
        };
        let links: Vec<Value> = self.links.iter().map(link).collect();
        let file = json!({"sluice_topology": 1, "nodes": nodes, "links": links});
        let topology = Topology::read(file.to_string().as_bytes(), "t").expect("valid");
        let mut flows = Vec::new();
        for (id, (collective, order, size, path)) in self.flows.iter().enumerate() {
            let (src, dst) = (self.links[path[0]].0, self.links[path[path.len() - 1]].1);
            let mut flow = json!({"id": id, "collective": collective, "group": 0, "order": order, "src": format!("n{src}"),
                "dst": format!("n{dst}"), "size": format!("{size}MB"), "path": path});
            each(id, &mut flow);
            flows.push(flow);
        }
        let mut content = json!({"kind": kind, "execution": execution, "flows": flows});
        if kind == "weights" {
            let last = self.flows.iter().map(|flow| flow.0).max().expect("flows");
            content["groups"] = (0..=last).map(|k| json!({"collective": k, "group": 0, "weight": 1})).collect();
        }
        plan(&topology, content, json!({"T_mean_s": mean}))
    }

    fn proves(&self, kind: &str, execution: &str, each: impl Fn(usize, &mut Value), mean: f64) {
        let plan = self.plan(kind, execution, each, mean);
        let times = naive::times(&plan);
        assert_eq!(code(&plan), None, "{kind} {execution}: not {mean}, plainly {times:?}");
    }
}

#[test]
fn every_way_to_share_has_its_known_time() {
    let no = |_: usize, _: &mut Value| {};
    // Equal weights: the static share, and plain max-min among the ready flows.
    for (example, fixed, shared, first) in [
        (CHUNK, 5.5, 3.0, 3.0),
        (TWICE, 4.0, 4.0, 3.0),
        (THIN, 4.5, 65.0 / 18.0, 4.5),
        (BACK, 3.6625, 2.820_833_333_333_333, 2.4875),
        (CHAINS, 8.0, 16.0 / 3.0, 4.0),
    ] {
        example.proves("weights", "static", no, fixed);
        example.proves("weights", "max_min", no, shared);
        example.proves("order", "priority_recomputed", no, first);
    }
    // All flows of a link share it for ever: 9, 3 and 4.5 MB/s, by the links' three, one and two flows.
    let rate = |id: usize, flow: &mut Value| {
        flow["rate"] = json!(["3MB/s", "9MB/s", "4.5MB/s", "3MB/s", "4.5MB/s", "3MB/s"][id])
    };
    CHUNK.proves("rates", "static", rate, 7.0);
    // The best constant rates, 4 + √2 s on average, and what reserve and fill make of them.
    let x = 9.0 * 2.0_f64.sqrt() / (1.0 + 2.0_f64.sqrt());
    let rate = |id: usize, flow: &mut Value| {
        let rate = match id {
            0 | 3 => x,
            1 => 9.0,
            2 | 4 => 4.5,
            _ => 9.0 - x,
        };
        flow["rate"] = json!(format!("{rate}MB/s"));
    };
    CHUNK.proves("rates", "static", rate, 4.0 + 2.0_f64.sqrt());
    CHUNK.proves("rates", "work_conserving", rate, 3.0);
    // One after the other: shorter collectives first, and the orders of single flows that end one chain early.
    let starts = |list: &'static [f64]| move |id: usize, flow: &mut Value| flow["start_s"] = json!(list[id]);
    CHUNK.proves("order", "order_preserving", starts(&[0.0, 1.0, 2.0, 3.0, 0.0, 1.0]), 3.0);
    TWICE.proves("order", "order_preserving", starts(&[0.0, 1.0, 2.0, 3.0]), 3.0);
    TWICE.proves("order", "order_preserving", starts(&[0.0, 2.0, 1.0, 3.0]), 3.5);
    BACK.proves("order", "order_preserving", starts(&[1.5, 2.0, 3.25, 3.875, 0.0]), 2.7375);
    BACK.proves("order", "order_preserving", starts(&[0.0, 0.5, 1.75, 3.25, 1.75]), 3.3);
    CHAINS.proves("order", "order_preserving", starts(&[0.5, 1.5, 0.0, 3.5, 5.0, 6.5]), 4.0);
    // By rank: the second collective of the thin link first.
    let ranks = |list: &'static [u64]| move |id: usize, flow: &mut Value| flow["rank"] = json!(list[id]);
    THIN.proves("order", "priority", ranks(&[1, 0]), 4.5);
    THIN.proves("order", "priority", ranks(&[0, 1]), (5.0 + 20.0 / 9.0) / 2.0);
}
