//! The kernel and the cables: orders that expire, pacing, and fluid TCP sharing of links.
//!
//! A flow with a live order is paced at it; one whose order expired is plain TCP again. Where more is asked of a link
//! than it carries, its flows share it max-min, as TCP roughly would.

use std::collections::BTreeMap;

use sluice_schedule::units::{FlowId, HostId, LinkId, Nanos, Rate};

use crate::rows::{Place, Rows};

/// Bytes that a flow may send at once, beyond what its order lets through.
pub const BURST: f64 = 65_536.0;

/// A rate with its dead man.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub rate: Rate,
    pub expires: Nanos,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Flow {
    pub id: FlowId,
    pub from: HostId,
    /// Number of the host that sends it.
    pub host: usize,
    /// Places of its links, the own egress first.
    pub path: Vec<usize>,
    /// Its row in its host's table; `None`: closed, or the table was full.
    pub row: Option<Place>,
    pub order: Option<Order>,
    /// The order that has to be there again before it is woken (a mutant).
    pub asleep: Option<Rate>,
    pub open: bool,
    /// Bytes of the round, and how many of them arrived.
    pub demand: f64,
    pub delivered: f64,
    /// Bytes that its orders have let through since it was last plain.
    pub granted: f64,
    /// Flows whose bytes it passes on, and bytes it may be ahead of them.
    pub feeds: Vec<usize>,
    pub lead: f64,
    /// Nothing before the feeding flows are through.
    pub after: bool,
    /// Present rate in bit/s.
    pub rate: f64,
    /// The highest since its host looked last.
    pub peak: f64,
    /// Since when it has had bytes to send and got nothing through.
    pub stalled_since: Option<Nanos>,
    /// Since when only its order holds it back, while every link of its path has room.
    pub throttled_since: Option<Nanos>,
    /// When a flow that feeds it had bytes to send last.
    pub fed: Option<Nanos>,
}

/// A cable in one direction.
#[derive(Clone, Debug)]
pub struct Cable {
    pub link: LinkId,
    pub capacity: Rate,
}

pub struct Kernel {
    pub flows: Vec<Flow>,
    pub cables: Vec<Cable>,
    /// By host.
    pub rows: Vec<Rows>,
    pub by_id: BTreeMap<FlowId, usize>,
    pub now: Nanos,
    /// Orders outlive their expiry (a mutant).
    pub orders_for_ever: bool,
}

impl Flow {
    /// Its order, if that counts at `now`.
    pub fn live_order(&self, now: Nanos) -> Option<Rate> {
        self.order.filter(|order| order.expires > now).map(|order| order.rate)
    }
    pub fn has_demand(&self) -> bool {
        self.open && self.demand - self.delivered >= 1.0
    }
}

impl Kernel {
    pub fn find(&self, id: FlowId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Opens a connection, with a row if there is one.
    pub fn open(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        flow.open = true;
        flow.order = None;
        flow.row = self.rows[flow.host].open(at);
    }

    pub fn close(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        flow.open = false;
        flow.order = None;
        if let Some(place) = flow.row.take() {
            self.rows[flow.host].close(place);
        }
    }

    /// Bytes of the round the application could have written by now.
    pub fn available(&self, at: usize) -> f64 {
        let flow = &self.flows[at];
        let fed = flow.feeds.iter().map(|&by| {
            let feed = &self.flows[by];
            let part = if feed.demand > 0.0 { feed.delivered / feed.demand } else { 1.0 };
            if flow.after && feed.has_demand() { 0.0 } else { flow.lead + part * flow.demand }
        });
        fed.fold(flow.demand, f64::min)
    }

    /// Has the application bytes in the socket?
    pub fn sending(&self, at: usize) -> bool {
        self.flows[at].open && self.available(at) - self.flows[at].delivered >= 1.0
    }

    /// Moves bytes up to `now` at the present rates.
    pub fn advance(&mut self, now: Nanos) {
        let passed = now.minus(self.now).as_secs_f64();
        if passed > 0.0 {
            for at in 0..self.flows.len() {
                if !self.flows[at].open {
                    continue;
                }
                let limit = self.available(at);
                let flow = &mut self.flows[at];
                let before = flow.delivered;
                flow.delivered = (flow.delivered + flow.rate * passed / 8.0).min(limit.max(flow.delivered));
                // A part of a byte is never left over: nobody would ever send it, and its host would wait for it.
                flow.delivered = if flow.has_demand() { flow.delivered } else { flow.delivered.max(flow.demand) };
                flow.granted = match flow.live_order(self.now) {
                    Some(order) => flow.granted.min(before + BURST) + order.0 as f64 * passed / 8.0,
                    None => flow.delivered,
                };
            }
        }
        self.now = now;
    }

    /// Shares the links anew; call it when orders, demands or flows changed.
    pub fn share(&mut self) {
        let sending: Vec<usize> = (0..self.flows.len()).filter(|&at| self.sending(at)).collect();
        let caps: Vec<f64> = sending.iter().map(|&at| self.pace(at)).collect();
        let rates = self.max_min(&sending, &caps);
        let mut next = sending.iter().zip(rates).peekable();
        for (at, flow) in self.flows.iter_mut().enumerate() {
            let rate = next.next_if(|(of, _)| **of == at).map(|(_, rate)| rate);
            flow.rate = rate.unwrap_or(0.0);
            flow.peak = flow.peak.max(flow.rate);
            let stuck = rate.is_some_and(|rate| rate < 1_000.0);
            flow.stalled_since = if stuck { flow.stalled_since.or(Some(self.now)) } else { None };
        }
        self.note_room();
    }

    /// Notes which flows are held back by nothing but their order: a fifth of every link of their path is neither used
    /// nor ordered (twice the reserve and a floor or two).
    fn note_room(&mut self) {
        let mut used = vec![0.0; self.cables.len()];
        for flow in &self.flows {
            let uses = match flow.live_order(self.now) {
                Some(order) if flow.has_demand() => (order.0 as f64).max(flow.rate),
                _ => flow.rate,
            };
            flow.path.iter().for_each(|&link| used[link] += uses);
        }
        let has_room: Vec<bool> =
            used.iter().zip(&self.cables).map(|(used, cable)| *used <= 0.8 * cable.capacity.0 as f64).collect();
        for at in 0..self.flows.len() {
            let flow = &self.flows[at];
            let order = flow.live_order(self.now).map_or(f64::INFINITY, |rate| rate.0 as f64);
            let held = flow.rate > 0.0 && flow.rate >= 0.98 * order && flow.path.iter().all(|&link| has_room[link]);
            let fed = flow.feeds.iter().any(|&by| self.flows[by].has_demand());
            let flow = &mut self.flows[at];
            flow.fed = if fed { Some(self.now) } else { flow.fed };
            flow.throttled_since = if held { flow.throttled_since.or(Some(self.now)) } else { None };
        }
    }

    fn pace(&self, at: usize) -> f64 {
        let flow = &self.flows[at];
        if flow.asleep.is_some() && flow.live_order(self.now).is_some() {
            return 0.0;
        }
        let order = if self.orders_for_ever { flow.order.map(|order| order.rate) } else { flow.live_order(self.now) };
        order.map_or(f64::INFINITY, |rate| rate.0 as f64)
    }

    /// What plain TCP would give to each of the flows that are sending, as (place, bit/s).
    pub fn fair_shares(&self) -> Vec<(usize, f64)> {
        let sending: Vec<usize> = (0..self.flows.len()).filter(|&at| self.sending(at)).collect();
        let caps = vec![f64::INFINITY; sending.len()];
        let rates = self.max_min(&sending, &caps);
        sending.into_iter().zip(rates).collect()
    }

    fn max_min(&self, flows: &[usize], caps: &[f64]) -> Vec<f64> {
        let mut rates = vec![0.0; flows.len()];
        let mut left: Vec<f64> = self.cables.iter().map(|cable| cable.capacity.0 as f64).collect();
        let mut on = vec![0_u32; left.len()];
        let mut rising: Vec<usize> = (0..flows.len()).collect();
        while !rising.is_empty() {
            on.fill(0);
            rising.iter().flat_map(|&n| &self.flows[flows[n]].path).for_each(|&link| on[link] += 1);
            let shares = left.iter().zip(&on).filter(|(_, on)| **on > 0).map(|(left, on)| left / f64::from(*on));
            let room = rising.iter().map(|&n| caps[n] - rates[n]);
            let step = shares.chain(room).fold(f64::INFINITY, f64::min).max(0.0);
            for &n in &rising {
                rates[n] += step;
                self.flows[flows[n]].path.iter().for_each(|&link| left[link] -= step);
            }
            let full = |link: &usize| left[*link] <= 1.0;
            rising.retain(|&n| caps[n] - rates[n] > 1.0 && !self.flows[flows[n]].path.iter().any(full));
        }
        rates
    }
}
