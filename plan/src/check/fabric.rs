//! The topology as the checker sees it: who takes part with which share, and what goes from node to node.

use std::collections::HashMap;

use super::violation::{Code, Violation};
use crate::plan::{Certificate, Collective, ContentKind, NodeId, Plan};
use sluice_formats::quantity::{Capacity, Rational};
use sluice_formats::topology::{Kind, Topology};

/// All parallel links from one node to another.
pub struct Cable {
    /// Index of the node they leave.
    pub from: usize,
    /// Index of the node they enter.
    pub to: usize,
    /// Their sum.
    pub capacity: Capacity,
    pub links: Vec<usize>,
}

/// A topology with a plan's participants.
pub struct Fabric<'a> {
    pub topology: &'a Topology,
    /// Node indices of the participants, by rank.
    pub participants: Vec<usize>,
    /// For each node its share of the data; `None`: takes no part.
    pub shares: Vec<Option<u64>>,
    /// Sum of all shares.
    pub total: u128,
    /// Node index of the root of a rooted collective.
    pub root: Option<usize>,
    pub cables: Vec<Cable>,
    /// For each place in the plan's names the node it means.
    nodes: Vec<Option<usize>>,
    between: HashMap<(usize, usize), usize>,
    ignores_groups: bool,
    /// Do capacities stay what they are?
    pub ignores_epochs: bool,
    /// Are buffers unlimited?
    pub ignores_buffers: bool,
}

impl<'a> Fabric<'a> {
    /// Who takes part, and in what.
    pub fn new(plan: &Plan, topology: &'a Topology) -> Result<Fabric<'a>, Violation> {
        let ignored = |key: &str| plan.body.ignored.iter().flatten().any(|ignored| &**ignored == key);
        let nodes: Vec<Option<usize>> = plan.names.all().iter().map(|id| topology.node(id)).collect();
        let mut fabric = Fabric {
            topology,
            participants: Vec::new(),
            shares: vec![None; topology.nodes().len()],
            total: 0,
            root: None,
            cables: Vec::new(),
            nodes,
            between: HashMap::new(),
            ignores_groups: ignored("groups"),
            ignores_epochs: ignored("capacity_per_epoch"),
            ignores_buffers: ignored("buffer"),
        };
        // Only sends have epochs.
        let varies = topology.links().iter().any(|link| link.per_epoch.is_some());
        if varies && !ignored("capacity_per_epoch") && plan.body.content.kind() != ContentKind::Sends {
            let message = "links whose capacity changes with the epoch: this kind of plan has no epochs";
            return Err(Violation::new(Code::UnsupportedField, "/topology/inline/links", message));
        }
        fabric.take_part(plan)?;
        for (i, link) in topology.links().iter().enumerate().filter(|(_, link)| link.from != link.to) {
            let next = fabric.cables.len();
            let place = *fabric.between.entry((link.from, link.to)).or_insert(next);
            if place == next {
                let (from, to, capacity) = (link.from, link.to, link.capacity.clone());
                fabric.cables.push(Cable { from, to, capacity, links: vec![i] });
            } else {
                let cable = &mut fabric.cables[place];
                cable.capacity = cable.capacity.plus(&link.capacity);
                cable.links.push(i);
            }
        }
        Ok(fabric)
    }

    fn take_part(&mut self, plan: &Plan) -> Result<(), Violation> {
        self.participants = match &plan.body.participants {
            None => self.topology.compute(),
            Some(list) => {
                let mut participants = Vec::with_capacity(list.len());
                for (i, node) in list.iter().enumerate() {
                    participants.push(self.node(plan, *node, || format!("/participants/{i}"))?);
                }
                participants
            }
        };
        let bad = |at: String, message: &str| Violation::new(Code::BadParticipants, at, message);
        if self.participants.len() < 2 {
            return Err(bad("/participants".into(), "a collective has at least two participants"));
        }
        let rooted = plan.body.collective.is_rooted();
        self.root = match (plan.body.root, rooted) {
            (Some(root), true) => Some(self.node(plan, root, || "/root".into())?),
            (None, false) => None,
            (Some(_), false) => {
                return Err(Violation::new(Code::BadRoot, "/root", "this collective has no root"));
            }
            (None, true) => return Err(Violation::new(Code::BadRoot, "/root", "this collective needs a root")),
        };
        for (i, node) in self.participants.iter().enumerate() {
            // In a rooted collective the root holds everything, whatever the weights of the file are.
            let share = if rooted { u64::from(self.root == Some(*node)) } else { self.topology.nodes()[*node].weight };
            if self.shares[*node].replace(share).is_some() {
                return Err(bad(format!("/participants/{i}"), "a participant stands twice"));
            }
            self.total += u128::from(share);
        }
        if rooted && self.root.is_none_or(|root| self.shares[root].is_none()) {
            return Err(Violation::new(Code::BadRoot, "/root", "the root takes no part"));
        }
        if self.total == 0 {
            return Err(bad("/participants".into(), "no participant holds any data: all weights are zero"));
        }
        Ok(())
    }

    /// The index of a node that the plan names.
    pub fn node(&self, plan: &Plan, node: NodeId, at: impl FnOnce() -> String) -> Result<usize, Violation> {
        self.nodes.get(node.0 as usize).copied().flatten().ok_or_else(|| {
            let message = format!("the topology has no node `{}`", super::quoted(plan.id(node)));
            Violation::new(Code::UnknownNode, at(), message)
        })
    }
    /// Which nodes are on the named side of a certificate's cut, by node.
    pub fn side_of_cut(&self, plan: &Plan, certificate: &Certificate) -> Result<Vec<bool>, Violation> {
        let bad = |message: String| Violation::new(Code::BadCertificate, "/claim/certificate/nodes", message);
        let Some(list) = &certificate.nodes else { return Err(bad("a cut without nodes".into())) };
        let mut inside = vec![false; self.topology.nodes().len()];
        for (i, node) in list.iter().enumerate() {
            let node = self.node(plan, *node, || format!("/claim/certificate/nodes/{i}"))?;
            if std::mem::replace(&mut inside[node], true) {
                return Err(bad(format!("{} stands twice", self.id(node))));
            }
        }
        Ok(inside)
    }
    /// The cable from one node to another.
    pub fn cable(&self, from: usize, to: usize) -> Option<usize> {
        self.between.get(&(from, to)).copied()
    }
    /// Does the node take part?
    pub fn takes_part(&self, node: usize) -> bool {
        self.shares[node].is_some()
    }
    /// The id of a node.
    pub fn id(&self, node: usize) -> &str {
        &self.topology.nodes()[node].id
    }
    /// The share of a node, of a total of [`Fabric::total`]; 0 if it takes no part.
    pub fn share(&self, node: usize) -> u64 {
        self.shares[node].unwrap_or(0)
    }
    /// Can data pass a node on a path, without ending there?
    pub fn lets_pass(&self, node: usize) -> bool {
        let of = &self.topology.nodes()[node];
        let forwards = matches!(of.kind, Kind::Switch | Kind::Nic | Kind::Memory);
        !self.takes_part(node) && (forwards || !(of.can.copy || of.can.reduce))
    }
    /// The groups whose limit counts.
    pub fn groups(&self) -> &[sluice_formats::topology::Group] {
        if self.ignores_groups { &[] } else { self.topology.groups() }
    }
    /// The total as a fraction.
    pub fn whole(&self) -> Rational {
        Rational::from_big(self.total.into(), 1.into()).unwrap_or(Rational::ONE)
    }
    /// For errors: a kind of plan that does not serve a collective.
    pub fn unserved(collective: Collective, kind: &str) -> Violation {
        let message = format!("plans of kind `{kind}` do not serve `{}`", collective.word());
        Violation::new(Code::UnsupportedCollective, "/collective", message)
    }
}
