//! Whether a fabric hangs together, and says what daemons need of it: beyond what makes a file readable.

use super::{Kind, Topology};

/// Names that are listed of each kind.
const LISTED: usize = 8;

/// What is missing in a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Nodes that hold data: hosts, GPUs.
    pub ends: usize,
    /// Switches.
    pub switches: usize,
    /// Nodes that hold data and that the first of them cannot reach, or that cannot reach it.
    pub apart: Names,
    /// Hosts without an address: no flow is known to be theirs.
    pub unaddressed: Names,
    /// Switches that do not say where they answer.
    pub unanswering: Names,
}

/// Some names, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The first few.
    pub first: Vec<String>,
    /// All of them.
    pub count: usize,
}

impl Names {
    fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < LISTED {
            self.first.push(name.to_owned());
        }
    }
    /// As in `a, b and 7 more`.
    pub fn told(&self) -> String {
        let more = self.count - self.first.len().min(self.count);
        let first = self.first.join(", ");
        if more == 0 { first } else { format!("{first} and {more} more") }
    }
}

/// Looks at a whole fabric; costs as much as reading it.
pub fn check(topology: &Topology) -> Checked {
    let mut checked = Checked::default();
    let ends: Vec<usize> = (0..topology.nodes().len()).filter(|node| topology.nodes()[*node].is_compute()).collect();
    checked.ends = ends.len();
    let reached = |forward: bool| {
        let mut next = vec![Vec::new(); topology.nodes().len()];
        for link in topology.links() {
            let (from, to) = if forward { (link.from, link.to) } else { (link.to, link.from) };
            if let Some(list) = next.get_mut(from) {
                list.push(to);
            }
        }
        let mut seen = vec![false; next.len()];
        let mut open: Vec<usize> = ends.first().copied().into_iter().collect();
        while let Some(node) = open.pop() {
            if seen.get(node).copied().unwrap_or(true) {
                continue;
            }
            seen[node] = true;
            open.extend(next.get(node).into_iter().flatten());
        }
        seen
    };
    let (there, back) = (reached(true), reached(false));
    for node in ends {
        if !(there[node] && back[node]) {
            checked.apart.add(&topology.nodes()[node].id);
        }
    }
    for node in topology.nodes() {
        match node.kind {
            Kind::Host if node.networks.is_empty() => checked.unaddressed.add(&node.id),
            Kind::Switch => {
                checked.switches += 1;
                if node.exchange.is_none() {
                    checked.unanswering.add(&node.id);
                }
            }
            _ => {}
        }
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Checked {
        check(&Topology::read(text.as_bytes(), "t.json").unwrap_or_else(|problems| panic!("{problems}")))
    }

    #[test]
    fn what_hangs_together_and_what_does_not() {
        let whole = r#"{"sluice_topology":1,"nodes":[
            {"id":"h0","kind":"host","addresses":["10.0.0.1"]},{"id":"h1","kind":"host","addresses":["10.0.0.2"]},
            {"id":"s0","kind":"switch","addresses":["10.0.0.9:9604"]}],
            "links":[{"from":"h0","to":"s0","capacity":"10Gbit/s","duplex":true},{"from":"h1","to":"s0","capacity":"10Gbit/s","duplex":true}]}"#;
        let checked = of(whole);
        assert_eq!((checked.ends, checked.switches), (2, 1));
        assert_eq!((checked.apart.count, checked.unaddressed.count, checked.unanswering.count), (0, 0, 0));
        let broken = whole
            .replace(r#""addresses":["10.0.0.2"]"#, r#""weight":1"#)
            .replace(r#","addresses":["10.0.0.9:9604"]"#, "")
            .replace(
                r#"{"from":"h1","to":"s0","capacity":"10Gbit/s","duplex":true}"#,
                r#"{"from":"h0","to":"s0","capacity":"1Gbit/s","duplex":true}"#,
            );
        let checked = of(&broken);
        assert_eq!(
            (checked.apart.told(), checked.unaddressed.told(), checked.unanswering.told()),
            ("h1".into(), "h1".into(), "s0".into())
        );
        let mut many = Names::default();
        (0..10).for_each(|n| many.add(&format!("h{n}")));
        assert!(many.told().ends_with("h7 and 2 more"), "{}", many.told());
    }
}
