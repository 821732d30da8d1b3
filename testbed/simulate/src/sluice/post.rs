//! The road between daemons and holders: delay, jitter, loss, order per pair, partitions, and what it all weighs.

use std::collections::{BTreeMap, HashMap};

use prost::Message;
use sluice_scenario::Control;
use sluice_scenario::random::Stream;
use sluice_schedule::{Announcement, Feedback, Nanos};
use sluice_wire::convert;

use super::fabric::holder_id;

/// Bytes around a message on its stream: gRPC's prefix (5) and the HTTP/2 frame header (9).
const FRAMING: usize = 5 + 9;
/// Bytes around each segment: Ethernet 14, IPv4 20, TCP with timestamps 32.
const HEADERS: usize = 66;
const SEGMENT: usize = 1448;

/// What went over one holder's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Messages to and from it.
    pub messages: u64,
    /// Their bytes on the wire, headers included, acknowledgements not.
    pub bytes: u64,
}

/// The way of messages between daemons and holders.
#[derive(Debug)]
pub(super) struct Post {
    control: Control,
    rng: Stream,
    /// Last arrival per (from, to); only kept with jitter, since without it order keeps itself.
    last: HashMap<(usize, usize), Nanos>,
    /// Nodes whose messages are lost, and how many faults say so.
    cut: BTreeMap<usize, u32>,
    /// What was sent to each holder.
    pub sums: BTreeMap<usize, Sum>,
    /// Messages lost on the way.
    pub lost: u64,
    announcements: Scale,
    feedback: Scale,
}

/// One message in so many is encoded to be weighed; the others weigh as much per item as the last one that was.
const WEIGHED: u64 = 16;

/// What messages of one kind weigh.
#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    seen: u64,
    per_item: f64,
}

impl Scale {
    fn weigh(&mut self, items: usize, exact: impl FnOnce() -> usize) -> usize {
        self.seen += 1;
        if self.seen % WEIGHED == 1 {
            let bytes = exact();
            self.per_item = bytes as f64 / items as f64;
            return bytes;
        }
        (self.per_item * items as f64) as usize
    }
}

impl Post {
    /// A road as the scenario's `control` says.
    pub fn new(control: &Control, seed: u64) -> Post {
        Post {
            control: control.clone(),
            rng: Stream::new(seed, "control"),
            last: HashMap::new(),
            cut: BTreeMap::new(),
            sums: BTreeMap::new(),
            lost: 0,
            announcements: Scale::default(),
            feedback: Scale::default(),
        }
    }

    /// Bytes of an announcement as it is encoded.
    pub fn weigh_announcement(&mut self, holder: usize, said: &Announcement) -> usize {
        let items = 1 + said.flows.len() + said.jobs.len() + said.routes.len();
        self.announcements.weigh(items, || convert::from_announcement(holder_id(holder), said).encoded_len())
    }

    /// Bytes of feedback as it is encoded.
    pub fn weigh_feedback(&mut self, holder: usize, said: &Feedback) -> usize {
        let items =
            1 + said.jobs.len() + said.routes.len() + said.links.iter().map(|view| 1 + view.flows.len()).sum::<usize>();
        self.feedback.weigh(items, || convert::from_feedback(holder_id(holder), said).encoded_len())
    }

    /// Sends `payload` bytes between a host and a holder; returns when they arrive, `None` if they do not.
    pub fn send(&mut self, at: Nanos, from: usize, to: usize, holder: usize, payload: usize) -> Option<Nanos> {
        let whole = payload + FRAMING;
        let sum = self.sums.entry(holder).or_default();
        sum.messages += 1;
        sum.bytes += (whole + whole.div_ceil(SEGMENT) * HEADERS) as u64;
        let unlucky = self.control.loss > 0.0 && self.rng.uniform() < self.control.loss;
        if unlucky || self.cut.contains_key(&from) || self.cut.contains_key(&to) {
            self.lost += 1;
            return None;
        }
        let mut arrives = at.plus(self.control.delay);
        if self.control.jitter > Nanos::ZERO {
            arrives = arrives.plus(self.control.jitter.scaled(self.rng.uniform()));
            let last = self.last.entry((from, to)).or_default();
            arrives = arrives.max(*last);
            *last = arrives;
        }
        Some(arrives)
    }

    /// Messages of this node are lost from here on.
    pub fn cut(&mut self, node: usize) {
        *self.cut.entry(node).or_default() += 1;
    }

    /// One fault less; true if the node is reached again.
    pub fn heal(&mut self, node: usize) -> bool {
        match self.cut.get_mut(&node) {
            Some(1) => self.cut.remove(&node).is_some(),
            Some(faults) => {
                *faults -= 1;
                false
            }
            None => false,
        }
    }

    /// Are this node's messages lost?
    pub fn is_cut(&self, node: usize) -> bool {
        self.cut.contains_key(&node)
    }

    /// A number in [0, 1) for pauses between tries to connect.
    pub fn uniform(&mut self) -> f64 {
        self.rng.uniform()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(jitter_us: u64, loss: f64) -> Post {
        let control = Control { delay: Nanos(500_000), jitter: Nanos(jitter_us * 1000), loss };
        Post::new(&control, 7)
    }

    #[test]
    fn messages_of_a_pair_keep_their_order_under_jitter() {
        let mut post = post(5_000, 0.0);
        let mut last = Nanos::ZERO;
        for n in 0..1000 {
            let arrives = post.send(Nanos(n * 1000), 1, 2, 2, 100).expect("nothing is lost");
            assert!(arrives >= last && arrives >= Nanos(n * 1000 + 500_000));
            last = arrives;
        }
    }

    #[test]
    fn the_asked_for_part_is_lost_and_a_cut_loses_all() {
        let mut post = post(0, 0.1);
        let arrived = (0..10_000).filter(|_| post.send(Nanos(0), 1, 2, 2, 100).is_some()).count();
        assert!((8_800..9_200).contains(&arrived), "{arrived}");
        assert_eq!(post.lost, 10_000 - arrived as u64);
        post.cut(1);
        post.cut(1);
        assert!((0..100).all(|_| post.send(Nanos(0), 2, 1, 2, 1).is_none()));
        assert!(!post.heal(1) && post.is_cut(1) && post.heal(1) && !post.is_cut(1));
    }

    #[test]
    fn bytes_are_counted_with_headers_lost_or_not() {
        let mut post = post(0, 1.0);
        post.send(Nanos(0), 1, 2, 2, 100);
        post.send(Nanos(0), 2, 1, 2, 2000);
        let bytes = 100 + 14 + 66 + 2000 + 14 + 2 * 66;
        assert_eq!(post.sums.get(&2), Some(&Sum { messages: 2, bytes }));
    }
}
