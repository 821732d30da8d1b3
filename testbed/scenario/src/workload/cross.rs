//! Cross traffic as a stream of events: every host starts a flow to another host now and then.

use std::collections::VecDeque;

use sluice_schedule::Nanos;

use crate::network::NodeIx;
use crate::random::Stream;
use crate::scenario::Scenario;
use crate::settings::{CrossFlow, CrossTraffic};

/// The unmanaged flows of a scenario in order of start. Endless where the scenario has `cross_traffic`.
///
/// Draws, in order: one offset per host; then, period after period and host after host, the other end and the life.
#[derive(Clone, Debug)]
pub struct CrossEvents {
    rule: Option<CrossTraffic>,
    offsets: Vec<Nanos>,
    stream: Stream,
    period: u64,
    /// Those of the present period, sorted.
    ready: VecDeque<CrossFlow>,
    /// The scenario's explicit ones, sorted.
    listed: VecDeque<CrossFlow>,
}

impl CrossEvents {
    /// The events of this scenario.
    pub fn new(scenario: &Scenario) -> CrossEvents {
        let mut stream = Stream::new(scenario.seed, "cross");
        let hosts = scenario.network.hosts.len();
        let rule = scenario.cross_traffic.clone().filter(|_| hosts > 1);
        let every = rule.as_ref().map_or(Nanos::ZERO, |r| r.every);
        let offsets =
            if rule.is_some() { (0..hosts).map(|_| every.scaled(stream.uniform())).collect() } else { Vec::new() };
        let mut listed = scenario.cross_flows.clone();
        listed.sort_by_key(|f| (f.start, f.src, f.dst));
        CrossEvents { rule, offsets, stream, period: 0, ready: VecDeque::new(), listed: listed.into() }
    }

    fn refill(&mut self) {
        let Some(rule) = &self.rule else { return };
        let others = self.offsets.len().saturating_sub(1);
        while self.ready.is_empty() {
            let base = rule.start.plus(rule.every.times(self.period));
            if base == Nanos::MAX {
                return;
            }
            self.period += 1;
            let mut flows = Vec::with_capacity(self.offsets.len());
            for (host, offset) in self.offsets.iter().enumerate() {
                let other = self.stream.index(others);
                let dst = if other >= host { other + 1 } else { other };
                let life = rule.min.plus(rule.max.minus(rule.min).scaled(self.stream.uniform()));
                let start = base.plus(*offset);
                let flow =
                    CrossFlow { src: NodeIx(host), dst: NodeIx(dst), start, end: start.plus(life), rate: rule.rate };
                flows.push(flow);
            }
            flows.sort_by_key(|f| (f.start, f.src));
            self.ready = flows.into();
        }
    }
}

impl Iterator for CrossEvents {
    type Item = CrossFlow;

    fn next(&mut self) -> Option<CrossFlow> {
        self.refill();
        match (self.ready.front(), self.listed.front()) {
            (Some(a), Some(b)) if b.start <= a.start => self.listed.pop_front(),
            (Some(_), _) => self.ready.pop_front(),
            (None, _) => self.listed.pop_front(),
        }
    }
}
