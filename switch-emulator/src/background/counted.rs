//! Unmanaged load per link by the counters of the switches: what a link carries less what managed flows take of it.
//!
//! Readings come every few seconds, so this says what is there for longer, not what bursts. Both sides are averaged over
//! the same time. What a switch says nothing of any more is first held, then taken for nothing; what flows take is what
//! their hosts announce, the fill included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sluice_schedule::{Nanos, Rate};
use sluice_telemetry::gnmi::client::{self, Client};
use sluice_telemetry::meter::{Load, Meter, Settings, background};
use sluice_telemetry::receiver::{self, Receiver};
use sluice_telemetry::{counts::Counts, pb};
use tokio::sync::mpsc;

use super::PortLoad;
use crate::config::{Counter, Telemetry};
use crate::metrics::Metrics;
use crate::tables::Tables;

/// What managed flows take is looked at this often.
const LOOK: Duration = Duration::from_millis(250);
/// Looks between two times that the loads are set.
const LOOKS: u32 = 4;
/// Averages are over this many intervals between readings.
const SMOOTH: u64 = 2;
/// Readings that wait; more are dropped and counted, as the next ones make up for them.
const WAITING: usize = 4096;

/// Sources that are bound and checked, and not read yet.
pub struct Watch {
    settings: Telemetry,
    sflow: Option<Receiver>,
    gnmi: Vec<Client>,
}

impl Watch {
    /// Binds what is to be bound, and checks what is to be asked.
    pub async fn open(settings: &Telemetry) -> anyhow::Result<Watch> {
        let sflow = match settings.listen {
            Some(address) => {
                let bound = Receiver::bind(address, settings.peers.clone()).await;
                Some(bound.with_context(|| format!("E_ENV: background.listen = \"{address}\" cannot be bound"))?)
            }
            None => None,
        };
        let interval = Duration::from_nanos(settings.interval.0);
        let mut asked: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for link in &settings.links {
            if let Counter::Gnmi { uri, interface } = &link.counter {
                asked.entry(uri).or_default().insert(interface.clone());
            }
        }
        let client = |(uri, interfaces): (&str, BTreeSet<String>)| {
            let interfaces = interfaces.into_iter().collect();
            Client::new(&client::Settings { uri: uri.into(), interfaces, interval, encoding: pb::Encoding::Proto })
        };
        let gnmi = asked.into_iter().map(client).collect::<Result<_, _>>().context("background.links")?;
        Ok(Watch { settings: settings.clone(), sflow, gnmi })
    }

    /// How much was heard by each source.
    fn counts(&self) -> Vec<(&'static str, Arc<Counts>)> {
        let sflow = self.sflow.iter().map(|receiver| ("sflow", receiver.counts()));
        sflow.chain(self.gnmi.iter().map(|client| ("gnmi", client.counts()))).collect()
    }

    /// Reads, and sets the links' loads, for as long as the process serves.
    pub async fn run(self, tables: Arc<Tables>, metrics: Arc<Metrics>) {
        metrics.watches(self.counts());
        let (to_sflow, mut by_sflow) = mpsc::channel::<receiver::Heard>(WAITING);
        let (to_gnmi, mut by_gnmi) = mpsc::channel::<client::Heard>(WAITING);
        let mut tasks = tokio::task::JoinSet::new();
        if let Some(receiver) = self.sflow {
            tasks.spawn(receiver.run(to_sflow.clone()));
        }
        for client in self.gnmi {
            let to_gnmi = to_gnmi.clone();
            tasks.spawn(async move {
                client.run(to_gnmi).await;
            });
        }
        let mut judge = Judge::new(&self.settings, tables.fastest());
        let mut look = tokio::time::interval(LOOK);
        let mut looks = 0;
        loop {
            tokio::select! {
                Some(heard) = by_sflow.recv() => {
                    let counter = Counter::Sflow { agent: heard.agent, interface: heard.interface };
                    judge.meter.record(counter, heard.sample);
                }
                Some(heard) = by_gnmi.recv() => {
                    let counter = Counter::Gnmi { uri: heard.target.to_string(), interface: heard.interface };
                    judge.meter.record(counter, heard.sample);
                }
                _ = look.tick() => {
                    judge.look(|switch, port| tables.taken(switch, port));
                    looks += 1;
                    if looks % LOOKS == 0 {
                        tables.set_background(&judge.loads(sluice_clock::monotonic()));
                    }
                }
            }
        }
    }
}

/// What is known of each watched link.
struct Judge {
    meter: Meter<Counter>,
    links: Vec<Watched>,
    /// The part of an average that a look leaves.
    kept: f64,
}

struct Watched {
    counter: Counter,
    load: PortLoad,
    /// What managed flows take on the wire, averaged.
    managed: f64,
}

impl Judge {
    fn new(settings: &Telemetry, fastest: Rate) -> Judge {
        let time_constant = settings.interval.times(SMOOTH);
        let meter = Meter::new(Settings {
            interval: settings.interval,
            time_constant,
            // A counter that moves faster than any link can has begun anew.
            ceiling: fastest.times(2.0),
            interfaces: 2 * settings.links.len() + 64,
        });
        let watched = |link: &crate::config::CountedLink| Watched {
            counter: link.counter.clone(),
            load: PortLoad { switch: link.switch.clone(), port: link.port, rate: Rate::ZERO },
            managed: 0.0,
        };
        let links = settings.links.iter().map(watched).collect();
        Judge { meter, links, kept: (-LOOK.as_secs_f64() / time_constant.as_secs_f64()).exp() }
    }

    /// Takes in what managed flows take now, in payload.
    fn look(&mut self, taken: impl Fn(&str, u32) -> Rate) {
        for link in &mut self.links {
            let wire = taken(&link.load.switch, link.load.port).0 as f64 * 1514.0 / 1448.0;
            link.managed = wire + (link.managed - wire) * self.kept;
        }
    }

    /// What is left of each link's load without them.
    fn loads(&mut self, now: Nanos) -> Vec<PortLoad> {
        let Judge { meter, links, .. } = self;
        let load = |link: &mut Watched| {
            link.load.rate = match meter.load(&link.counter, now) {
                Load::Fresh(total) | Load::Held(total) => background(total, Rate(link.managed as u64)),
                Load::Unknown | Load::Lost => Rate::ZERO,
            };
            link.load.clone()
        };
        links.iter_mut().map(load).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CountedLink;
    use sluice_telemetry::meter::Sample;

    #[test]
    fn what_managed_flows_take_is_no_background() {
        let counter = Counter::Sflow { agent: [10, 0, 0, 1].into(), interface: 7 };
        let settings = Telemetry {
            listen: None,
            peers: Vec::new(),
            interval: Nanos::from_millis(1000),
            links: vec![CountedLink { switch: "s0".into(), port: 3, counter: counter.clone() }],
        };
        let mut judge = Judge::new(&settings, Rate::mbps(1000));
        // 500 Mbit/s in all, of which flows take 300 of payload.
        for second in 0..30_u64 {
            let at = Nanos::from_millis(1000 * second);
            judge.meter.record(counter.clone(), Sample { octets: second * 62_500_000, taken: at, heard: at });
            for _ in 0..4 {
                judge.look(|switch, port| if (switch, port) == ("s0", 3) { Rate::mbps(300) } else { Rate::ZERO });
            }
        }
        let left = |judge: &mut Judge, ms| judge.loads(Nanos::from_millis(ms))[0].rate;
        let expected = 500e6 - 300e6 * 1514.0 / 1448.0;
        let got = left(&mut judge, 29_500).0 as f64;
        assert!((got - expected).abs() < 1e6, "{got}");
        assert_eq!(left(&mut judge, 60_000), Rate::ZERO, "nothing is known any more");
        // Flows that take all of it leave nothing, and not less.
        for second in 30..60_u64 {
            let at = Nanos::from_millis(1000 * second);
            judge.meter.record(counter.clone(), Sample { octets: second * 62_500_000, taken: at, heard: at });
            (0..4).for_each(|_| judge.look(|_, _| Rate::mbps(600)));
        }
        assert_eq!(left(&mut judge, 59_500), Rate::ZERO);
    }
}
