//! The loop in virtual time: two hosts, a fake kernel each, the very switch brain between them.

use std::rc::Rc;

use sluice_ebpf::Row;
use sluice_progress::{PageView, Pattern as PagePattern, Peer, PeerKind, State};
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::{BootId, Bytes, HolderId, HostId, LinkId, Rate};

use super::*;
use crate::config::Loaded;
use crate::monitor::ProcessKey;
use crate::testing::{Announced, Fake, at, config, fabric, now};

mod benefit;
mod clock;
mod conditions;
mod fleet;
mod flight;
mod keys;
mod routes;
mod series;
mod surplus;

const LINK: Rate = Rate::mbps(100);

struct Site {
    index: usize,
    kernel: Fake,
    core: Core,
    said: Announced,
    inbox: Vec<Inbound>,
    row: Row,
    to: usize,
    iteration: u64,
}

impl Site {
    /// Host `index` runs a process of job `job` that sends to host `to`.
    fn new(index: usize, to: usize, job: &str) -> Site {
        let config = config(index, true);
        let fabric = fabric(index, &config);
        Site::on(config, fabric, (index, to), job)
    }

    /// The same on another network.
    fn on(config: Config, fabric: Rc<Fabric>, (index, to): (usize, usize), job: &str) -> Site {
        let host = Host::new(settings::brain(&config, &fabric, BootId(index as u64 + 1)));
        let kernel = Fake::default();
        let loaded = Loaded { config, ..Loaded::default() };
        let mut core = Core::new(loaded, host, fabric, Box::new(kernel.clone()));
        let view = PageView {
            job_id: job.into(),
            rank: Some(0),
            nranks: 2,
            pattern: PagePattern::Unknown,
            peers: vec![Peer {
                rank: Some(1),
                kind: PeerKind::Connected,
                local: at(index, 4000),
                remote: at(to, 5000),
                cookie: 0,
                tx_bytes: 0,
            }],
            state: State::Compute,
            ..PageView::default()
        };
        core.monitor.add_for_test(7, view);
        let row = kernel.open(at(index, 4000), at(to, 5000));
        Site { index, kernel, core, said: Announced::default(), inbox: Vec::new(), row, to, iteration: 0 }
    }

    fn begin(&mut self, bytes: u64) {
        self.iteration += 1;
        let iteration = self.iteration;
        self.kernel.write(self.row, Bytes(bytes));
        self.page(|view| {
            view.iteration.count = iteration;
            view.iteration.base_bytes = view.enq_bytes;
            view.enq_bytes += bytes;
            view.enq_wire_bytes += bytes;
            view.state = State::OnWire;
        });
    }

    fn page(&mut self, change: impl FnOnce(&mut PageView)) {
        let process = self.core.monitor.processes.get_mut(&ProcessKey::Pid(7)).expect("known");
        change(process.view.as_mut().expect("has a page"));
    }

    fn turn(&mut self, ms: u64) {
        self.core.step(now(ms), &mut self.inbox, &mut self.said);
    }

    fn order(&self) -> Option<(Rate, Nanos)> {
        self.kernel.rows().orders.get(&self.row).copied()
    }
}

/// The switch of the star with all its ports, and the hosts around it.
struct Star {
    switch: Switch,
    sites: Vec<Site>,
}

impl Star {
    fn new(sites: Vec<Site>) -> Star {
        let links: Vec<LinkConfig> = (0..4)
            .map(|port| LinkConfig {
                link: LinkId::new(HolderId::of("s").0, port),
                capacity: LINK.payload(),
                ..LinkConfig::default()
            })
            .collect();
        Star { switch: Switch::new(BootId(99), Limits::default(), &links), sites }
    }

    /// One turn everywhere, then what was announced is carried there and back.
    fn turn(&mut self, ms: u64) {
        for site in &mut self.sites {
            site.turn(ms);
            let said: Vec<_> = site.said.0.borrow_mut().drain(..).collect();
            for (holder, announcement) in said {
                assert_eq!(holder, HolderId::of("s"));
                let feedback = self.switch.announce(now(ms).slot, &announcement);
                assert_eq!(feedback.refused, None);
                site.inbox.push(Inbound::Feedback { holder, feedback, at: now(ms).mono });
            }
        }
        for host in self.switch.take_stale() {
            let site = self.sites.iter_mut().find(|site| HostId::of(&format!("h{}", site.index)) == host);
            if let (Some(site), Some(feedback)) = (site, self.switch.feedback(now(ms).slot, host)) {
                site.inbox.push(Inbound::Feedback { holder: HolderId::of("s"), feedback, at: now(ms).mono });
            }
        }
    }

    fn run(&mut self, from: u64, to: u64) {
        for ms in (from..to).step_by(5) {
            self.turn(ms);
            for site in &self.sites {
                site.kernel.run(Nanos::from_millis(ms), Nanos::from_millis(5));
            }
        }
    }
}

/// Promises: P-1
#[test]
fn a_lone_round_gets_the_link_and_every_order_expires() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 300);
    star.sites[0].begin(6_000_000);
    star.run(300, 400);
    let (rate, expires) = star.sites[0].order().expect("ordered");
    assert!(rate > LINK.times(0.8) && rate <= LINK, "{rate}");
    let life = expires.minus(Nanos::from_millis(395));
    assert!(life > Nanos::from_millis(120) && life <= Nanos::from_millis(180), "{life}");
    // The kernel tells when the round has arrived; nobody has to look for it.
    let marks: Vec<Bytes> = star.sites[0].kernel.rows().marks.values().copied().collect();
    assert_eq!(marks, [Bytes(6_000_000)]);
    star.run(400, 1200);
    assert_eq!(star.sites[0].core.counters.acked_managed_bytes, 6_000_000);
}

#[test]
fn two_jobs_into_one_port_take_turns() {
    let mut star = Star::new(vec![Site::new(0, 2, "a"), Site::new(1, 2, "b")]);
    star.run(0, 300);
    star.sites[0].begin(2_000_000);
    star.sites[1].begin(8_000_000);
    star.run(300, 420);
    let orders: Vec<Rate> = star.sites.iter().map(|site| site.order().expect("ordered").0).collect();
    assert!(orders[0] > orders[1].times(2.0), "the shorter round goes first: {orders:?}");
    assert!(orders[0].plus(orders[1]) <= LINK.times(1.05), "{orders:?}");
    star.run(420, 2000);
    for (site, bytes) in star.sites.iter().zip([2_000_000, 8_000_000]) {
        assert_eq!(site.core.counters.acked_managed_bytes, bytes);
        assert_eq!(site.to, 2);
    }
}

#[test]
fn observe_plans_and_tells_nobody() {
    let mut site = Site::new(0, 1, "a");
    site.core.set_mode(now(0), Mode::Observe, None);
    // A data path that enforces nothing still reports sockets; this one stands for it.
    site.core.mode = Mode::Active;
    site.turn(0);
    site.core.mode = Mode::Observe;
    site.begin(1_000_000);
    for ms in (5..400).step_by(5) {
        site.turn(ms);
    }
    assert!(site.core.host.flows().any(|flow| flow.order > Rate::ZERO), "it plans");
    let before = site.order().map(|(_, expires)| expires);
    assert!(before.is_none_or(|expires| expires < Nanos::from_millis(211)), "nothing is renewed: {before:?}");
    assert!(site.said.0.borrow().iter().all(|(_, announcement)| announcement.slot == now(0).slot));
}

#[test]
fn bypass_gives_everything_back_and_returns_by_itself() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 120);
    let row = star.sites[0].row;
    star.sites[0].core.set_mode(now(120), Mode::Bypass, Some(Nanos::from_millis(500)));
    assert_eq!(star.sites[0].kernel.rows().released, [row]);
    star.run(120, 600);
    assert_eq!(star.sites[0].core.mode, Mode::Bypass);
    star.run(600, 700);
    assert_eq!(star.sites[0].core.mode, Mode::Active);
}

/// Promises: P-22
#[test]
fn at_the_end_orders_live_on_for_the_coast() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 300);
    star.sites[0].begin(6_000_000);
    star.run(300, 400);
    assert_eq!(star.sites[0].core.coast(Nanos::from_millis(400)), 1);
    let (rate, expires) = star.sites[0].order().expect("ordered");
    assert_eq!(expires, Nanos::from_millis(2400));
    assert!(rate >= LINK.payload().times(0.9) && rate <= LINK.payload(), "{rate}");
    let core = &mut star.sites[0].core;
    core.config.enforce.coast_ms = 5_000;
    assert_eq!(core.coast(Nanos::from_millis(400)), 1);
    assert_eq!(star.sites[0].order().map(|(_, expires)| expires), Some(Nanos::from_millis(5_400)));
}

/// Promises: P-15
#[test]
fn a_lost_switch_ages_and_is_said() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 600);
    let holder = HolderId::of("s");
    let site = &mut star.sites[0];
    assert!(!site.core.conditions.holds(crate::conditions::ConditionCode::FeedbackLocalOnly));
    site.inbox.push(Inbound::Lost { holder, why: "gone".into(), mismatch: false });
    for ms in (600..2400).step_by(5) {
        site.turn(ms);
    }
    let codes: Vec<_> = site.core.conditions.iter().map(|condition| condition.code.as_str()).collect();
    assert!(codes.contains(&"switch-unreachable") && codes.contains(&"feedback-local-only"), "{codes:?}");
    let snapshot = crate::snapshot::take(&site.core, &crate::facts::Facts::new(&site.core));
    assert_eq!(snapshot.switches[0].last_error, "gone");
}

#[test]
fn lost_events_are_said_for_a_minute() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    let said = |star: &Star| star.sites[0].core.conditions.holds(crate::conditions::ConditionCode::EventsLost);
    star.sites[0].kernel.rows().counters.events_lost = 7;
    star.run(0, 600);
    assert!(!said(&star), "an earlier process lost those");
    star.sites[0].kernel.rows().counters.events_lost = 9;
    star.run(600, 700);
    assert!(said(&star));
    star.run(60_000, 60_200);
    assert!(said(&star), "not a minute ago");
    star.run(60_800, 61_000);
    assert!(!said(&star));
}

/// Promises: P-28, P-35
#[test]
fn a_full_table_and_foreign_hands_are_said_for_a_minute() {
    use crate::conditions::ConditionCode::{FlowTableFull, ForeignChange};
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    let said = |star: &Star| [FlowTableFull, ForeignChange].map(|code| star.sites[0].core.conditions.holds(code));
    star.run(0, 300);
    assert_eq!(said(&star), [false; 2]);
    star.sites[0].kernel.rows().counters.table_full = 1;
    star.run(300, 400);
    assert_eq!(said(&star), [true, false]);
    star.sites[0].kernel.rows().counters.foreign = 1;
    star.run(400, 500);
    assert_eq!(said(&star), [true; 2]);
    star.run(60_600, 60_800);
    assert_eq!(said(&star), [false; 2], "what was a minute ago is no trouble of now");
}

/// The daemon asks the kernel for no row that it knows not to be there, so that the kernel counts nothing.
///
/// Promises: P-28
#[test]
fn flows_without_a_place_are_said_as_long_as_there_are_any() {
    use crate::conditions::ConditionCode::FlowTableFull;
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    let said = |star: &Star| star.sites[0].core.conditions.holds(FlowTableFull);
    star.run(0, 300);
    assert!(!said(&star));
    let crowd = |star: &mut Star, out| star.sites[0].core.monitor.sockets.iter_mut().for_each(|s| s.crowded_out = out);
    crowd(&mut star, true);
    star.run(300, 400);
    assert!(said(&star));
    star.run(61_000, 61_200);
    assert!(said(&star), "a minute later they are plain still");
    crowd(&mut star, false);
    star.run(61_200, 61_400);
    assert!(!said(&star));
}

#[test]
fn namespaces_that_may_not_be_entered_are_said_while_that_is_so() {
    use crate::monitor::namespaces::Uncovered;
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    let said = |star: &Star| star.sites[0].core.conditions.holds(crate::conditions::ConditionCode::NetnsUncovered);
    star.run(0, 100);
    assert!(!said(&star));
    star.sites[0].core.monitor.uncovered = Uncovered { count: 2, why: "Operation not permitted".into() };
    star.run(100, 200);
    assert!(said(&star));
    star.sites[0].core.monitor.uncovered = Uncovered::default();
    star.run(200, 300);
    assert!(!said(&star));
}

#[test]
fn a_host_that_does_not_know_what_its_flows_cross_says_so() {
    use crate::conditions::ConditionCode::{LinkSpeedUnknown, PathsUnknown};
    let card = crate::interfaces::Interface {
        name: "eth0".into(),
        card: "eth0".into(),
        addresses: vec![std::net::Ipv4Addr::new(10, 0, 0, 1).into()],
        speed: None,
        up: true,
    };
    let judged = |name: &str, topology: bool, speed| {
        let mut site = Site::new(0, 1, "a");
        let mut loaded = site.core.loaded.clone();
        loaded.config.node.name = name.into();
        let topology = topology.then(|| std::sync::Arc::new(crate::testing::star()));
        let card = crate::interfaces::Interface { speed, ..card.clone() };
        let fabric = Rc::new(crate::fabric::Fabric::new(&loaded.config, topology, &[card]));
        let mut core = Core::new(
            loaded.clone(),
            Host::new(crate::core::settings::brain(&loaded.config, &fabric, BootId(7))),
            fabric,
            Box::new(site.kernel.clone()),
        );
        core.step(now(60), &mut site.inbox, &mut site.said);
        [PathsUnknown, LinkSpeedUnknown].map(|code| core.conditions.holds(code))
    };
    assert_eq!(judged("h0", true, None), [false, false]);
    assert_eq!(judged("h0", false, Some(Rate::mbps(100))), [true, false], "there are switches, and no topology");
    assert_eq!(judged("h9", true, Some(Rate::mbps(100))), [true, false], "the topology has no such node");
    assert_eq!(judged("h0", false, None), [true, true]);
    // Who only looks loses nothing by it.
    let mut site = Site::new(0, 1, "a");
    let mut loaded = site.core.loaded.clone();
    loaded.config.mode = crate::config::Mode::Observe;
    let fabric = Rc::new(crate::fabric::Fabric::new(&loaded.config, None, &[card]));
    let brain = crate::core::settings::brain(&loaded.config, &fabric, BootId(7));
    let mut core = Core::new(loaded, Host::new(brain), fabric, Box::new(site.kernel.clone()));
    core.step(now(60), &mut site.inbox, &mut site.said);
    let condition = core.conditions.iter().find(|c| c.code == PathsUnknown).expect("it is said");
    assert_eq!(condition.severity, crate::conditions::Severity::Info);
}

#[test]
fn the_snapshot_shows_jobs_flows_and_links() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 300);
    star.sites[0].begin(6_000_000);
    star.run(300, 500);
    let core = &star.sites[0].core;
    let snapshot = crate::snapshot::take(core, &crate::facts::Facts::new(core));
    assert_eq!((snapshot.jobs.len(), snapshot.flows.len()), (1, 1));
    assert_eq!(snapshot.jobs[0].id.as_str(), "a");
    assert!(snapshot.flows[0].ordered_bps > Some(0) && snapshot.flows[0].delivered_bytes > 0);
    assert!(snapshot.links.iter().any(|link| link.own && link.name == "eth0"));
    assert!(snapshot.links.iter().any(|link| link.name == "s:1"), "{:?}", snapshot.links);
    let flow = core.host.flows().next().expect("one").spec.flow;
    assert!(crate::snapshot::explain(core, flow).is_some_and(|why| why.slots.len() == 10));
    assert_eq!(crate::snapshot::explain(core, sluice_schedule::FlowId(1)), None);
}

#[test]
fn a_reload_keeps_flows_and_tells_the_new_brain_everything() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 300);
    star.sites[0].begin(6_000_000);
    star.run(300, 400);
    let site = &mut star.sites[0];
    let mut loaded = site.core.loaded.clone();
    loaded.config = site.core.config.clone();
    loaded.config.schedule.policy = crate::config::Policy::Fair;
    loaded.config.slot.length_ms = 30;
    let fabric = Rc::clone(&site.core.monitor.fabric);
    let crate::config::ChangedKeys { taken: changed, waiting } = site.core.reload(loaded, fabric);
    assert_eq!((changed, waiting), (vec!["schedule.policy"], vec!["slot.length_ms"]));
    star.run(400, 1400);
    assert_eq!(star.sites[0].core.host.flows().count(), 1);
    assert_eq!(star.sites[0].core.counters.acked_managed_bytes, 6_000_000);
}

/// Promises: P-31
#[test]
fn a_link_that_has_become_slower_is_known_without_a_word_from_anybody() {
    let mut star = Star::new(vec![Site::new(0, 1, "a")]);
    star.run(0, 300);
    star.sites[0].begin(6_000_000);
    star.run(300, 400);
    let site = &mut star.sites[0];
    let capacity = |core: &Core| {
        let egress = sluice_schedule::LinkId::egress(HostId::of("h0"));
        core.host.links().find(|link| link.link == egress).map(|link| link.capacity)
    };
    assert_eq!(capacity(&site.core), Some(LINK.payload()));
    // What the interfaces say is looked at from time to time; a new rate comes as another fabric.
    let loaded = site.core.loaded.clone();
    let mut slower = loaded.config.clone();
    slower.links.push(crate::config::LinkEntry { name: "eth0".into(), gbps: Some(0.04), ..Default::default() });
    let fabric = crate::testing::fabric(0, &slower);
    // A table of this host's own, as it keeps one where there are no switches, is told too.
    slower.switches.clear();
    let kept = crate::testing::fabric(0, &slower).kept();
    // Whether it kept the link before or not.
    for before in [vec![LinkConfig { link: kept[0].link, ..LinkConfig::default() }], vec![]] {
        let table = Switch::new(BootId(5), Limits::default(), &before);
        let mut table = crate::own_table::OwnTable::new(HostId::of("h0"), table);
        table.carry(kept.clone());
        assert_eq!(table.capacity(), kept[0].capacity);
    }
    site.core.reload(loaded, fabric);
    star.run(400, 700);
    let core = &star.sites[0].core;
    assert_eq!(capacity(core), Some(Rate::mbps(40).payload()));
    assert!(core.host.flows().all(|flow| flow.order <= Rate::mbps(40)), "{:?}", core.host.flows().collect::<Vec<_>>());
}

mod floors;
mod hearing;
mod taking;
