//! Which shards a step schedule has, who has them at first and who is owed them.

use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Collective, Content, Plan, Shard};

/// Which shards there are, where they begin and how large they are.
pub struct Shards {
    collective: Collective,
    pub n: usize,
    /// Rank of the root.
    root: usize,
    /// Per rank its share of the data.
    shares: Vec<u64>,
    /// What all shares of M are parts of.
    pub total: u128,
}

impl Shards {
    /// The shards of a plan of steps.
    pub fn new(plan: &Plan, fabric: &Fabric<'_>) -> Result<Shards, Violation> {
        let collective = plan.body.collective;
        let n = fabric.participants.len();
        let refuse = |message: String| Err(Violation::new(Code::UnsupportedField, "/topology/inline/nodes", message));
        for node in &fabric.participants {
            if !fabric.topology.nodes()[*node].can.store {
                return refuse(format!("{} takes part and cannot store", fabric.id(*node)));
            }
        }
        let shares: Vec<u64> = fabric.participants.iter().map(|node| fabric.share(*node)).collect();
        let chosen = match &plan.body.content {
            Content::Steps(steps) => steps.shares.as_ref().zip(Some(steps.step_length.is_some())),
            _ => None,
        };
        let (shares, total) = match collective {
            _ if chosen.is_some_and(|(_, timed)| !timed || collective != Collective::AllReduce) => {
                let message = "only an all-reduce in steps of a given length chooses how much each rank adds up";
                return Err(Violation::new(Code::UnsupportedField, "/content/shares", message));
            }
            Collective::AllReduce if let Some((shares, _)) = chosen => {
                let total = shares.iter().map(|share| u128::from(*share)).sum();
                if shares.len() != n || total == 0 {
                    let message = format!("{} shares, of {total} in all; each of {n} ranks has one", shares.len());
                    return Err(Violation::new(Code::WrongShard, "/content/shares", message));
                }
                (shares.clone(), total)
            }
            Collective::Custom => return Err(Fabric::unserved(collective, "steps")),
            Collective::AllToAll if shares.iter().any(|share| *share != 1) => {
                return refuse(
                    "an all-to-all gives every pair the same amount; other node weights mean nothing".into(),
                );
            }
            Collective::AllToAll | Collective::Scatter | Collective::Gather => (vec![1; n], n as u128),
            _ => (shares, fabric.total),
        };
        let root = fabric.root.and_then(|root| fabric.participants.iter().position(|node| *node == root)).unwrap_or(0);
        Ok(Shards { collective, n, root, shares, total })
    }

    /// The item of a shard, if the collective has it.
    pub fn item(&self, shard: Shard) -> Option<u64> {
        let n = self.n as u64;
        match (self.collective, shard) {
            (Collective::AllToAll, Shard::Between(from, to)) => {
                let (from, to) = (u64::from(from), u64::from(to));
                (from < n && to < n && from != to).then_some(from * n + to)
            }
            (Collective::AllToAll, Shard::Of(_)) | (_, Shard::Between(..)) => None,
            (Collective::Scatter | Collective::Gather, Shard::Of(rank)) => {
                (u64::from(rank) < n && rank as usize != self.root).then_some(rank.into())
            }
            (_, Shard::Of(rank)) => self.shares.get(rank as usize).filter(|share| **share > 0).map(|_| rank.into()),
        }
    }
    /// An item's size, in parts of `total`.
    pub fn share(&self, item: u64) -> u128 {
        match self.collective {
            Collective::AllToAll => 1,
            _ => self.shares.get(item as usize).copied().unwrap_or(0).into(),
        }
    }
    /// Are all shards equally large?
    pub fn is_even(&self) -> bool {
        let mut shares = self.shares.iter().filter(|share| **share > 0);
        let first = shares.next();
        shares.all(|share| Some(share) == first)
    }
    pub fn largest(&self) -> u128 {
        self.shares.iter().copied().max().unwrap_or(0).into()
    }
    /// The rank that owns an item: that has it when copying begins, or is to have its sum.
    pub fn owner(&self, item: u64) -> usize {
        match self.collective {
            Collective::AllToAll => (item / self.n as u64) as usize,
            Collective::Scatter => self.root,
            _ => item as usize,
        }
    }
    /// Items are below this.
    pub fn items(&self) -> u64 {
        let n = self.n as u64;
        if self.collective == Collective::AllToAll { n * n } else { n }
    }
    pub fn all(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        let n = self.n as u64;
        match self.collective {
            Collective::AllToAll => Box::new((0..n * n).filter(move |item| item / n != item % n)),
            Collective::Scatter | Collective::Gather => Box::new((0..n).filter(|rank| *rank != self.root as u64)),
            _ => Box::new((0..n).filter(|rank| self.shares.get(*rank as usize).is_some_and(|share| *share > 0))),
        }
    }
    /// The ranks that are owed an item.
    pub fn wanted_by(&self, item: u64) -> std::ops::Range<usize> {
        let only = |rank: usize| rank..rank + 1;
        match self.collective {
            Collective::AllToAll => only((item % self.n as u64) as usize),
            Collective::Scatter => only(item as usize),
            Collective::Gather => only(self.root),
            _ => 0..self.n,
        }
    }
    /// An item in words.
    pub fn name(&self, item: u64) -> String {
        match self.collective {
            Collective::AllToAll => format!("[{}, {}]", item / self.n as u64, item % self.n as u64),
            _ => item.to_string(),
        }
    }
}
