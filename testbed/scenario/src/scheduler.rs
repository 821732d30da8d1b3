//! Which schedulers a scenario asks for, and their options (`simulation.md` sections 2.9 and 7).

use crate::quantities::Quantity;
use sluice_formats::document::{Item, Table};
use sluice_formats::problem::{E_MISSING, E_REF, hint};
use sluice_formats::quantity::Rational;
use std::fmt;
use std::str::FromStr;

use sluice_schedule::Nanos;

/// The schedulers a scenario may name.
pub const NAMES: [&str; 14] = [
    "fair",
    "static",
    "sluice",
    "mcs",
    "ccml",
    "cassini",
    "mltcp",
    "sincronia",
    "varys",
    "oracle",
    "aalo",
    "echelonflow",
    "crux",
    "bound",
];

/// A scheduler as it was asked for: `fair`, `fair:cubic`, `sluice`, `sluice:primal-dual` …
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Policy {
    /// What stands before the colon, one of [`NAMES`].
    pub name: String,
    /// What stands after the colon: TCP's congestion control for `fair`, a policy of the brain for `sluice`.
    pub variant: Option<String>,
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let (name, variant) = match text.split_once(':') {
            Some((name, variant)) => (name, Some(variant)),
            None => (text, None),
        };
        if !NAMES.contains(&name) {
            let hint = hint(name, NAMES).map(|hint| format!("; {hint}")).unwrap_or_default();
            return Err(format!("no scheduler {name:?}{hint}"));
        }
        let variants: &[&str] = match name {
            "fair" => &["cubic", "reno", "bbr", "mltcp"],
            "sluice" => &["srpt-p", "primal-dual", "primal-dual-literal", "fair"],
            _ => &[],
        };
        if let Some(v) = variant
            && !variants.contains(&v)
        {
            let allowed = if variants.is_empty() { "none".to_owned() } else { variants.join(", ") };
            return Err(format!("{name} has no variant {v:?} (it has: {allowed})"));
        }
        Ok(Policy { name: name.to_owned(), variant: variant.map(str::to_owned) })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.variant.as_ref().map_or(Ok(()), |v| write!(f, ":{v}"))
    }
}

impl Policy {
    /// The name as part of a file name: a colon becomes `-`.
    pub fn file_part(&self) -> String {
        self.to_string().replace(':', "-")
    }
}

/// A TCP congestion control of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tcp {
    /// The default of Linux.
    #[default]
    Cubic,
    /// NewReno: half the window at a loss, one segment more each round trip.
    Reno,
    /// Bottleneck bandwidth and round-trip time.
    Bbr,
    /// With ECN marks; only in the simulator's loss model.
    Dctcp,
}

impl Tcp {
    /// Its name in a scenario, which is also the kernel's.
    pub const fn as_str(self) -> &'static str {
        TCPS[self as usize].0
    }
}

/// The format's words, in the order of the enum; the kernel of the testbed has no DCTCP.
pub(crate) const TCPS: [(&str, Tcp); 4] =
    [("cubic", Tcp::Cubic), ("reno", Tcp::Reno), ("bbr", Tcp::Bbr), ("dctcp", Tcp::Dctcp)];

/// Who keeps load tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tables {
    /// Every switch has one.
    #[default]
    Switch,
    /// Each host keeps those of its own links: no help from switches.
    Nic,
    /// None: each host knows what it sends itself (simulator only).
    Own,
}

/// `[scheduler.sluice]`, with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct SluiceOptions {
    /// Re-run at events inside a slot; false is the paper's rhythm.
    pub events: bool,
    /// Who keeps load tables.
    pub tables: Tables,
    /// Virtual time a decision costs in the simulator.
    pub charge_decision: Nanos,
    /// Share of each link left free, 0 to 0.5; `None`: what the runner takes. It keeps queues short, so the testbed takes
    /// the daemon's default, and the simulator, which has no queues, nothing.
    pub reserve: Option<f64>,
    /// The daemon's `schedule.fair_floor` (φ); here and in the next seven, `None` is the daemon's default.
    pub fair_floor: Option<f64>,
    /// The daemon's `schedule.fair_floor_alone`: φ on links without unmanaged traffic.
    pub fair_floor_alone: Option<f64>,
    /// The daemon's `schedule.fair_floor_brief`: φ behind rounds that are over within two slots; the simulator takes 0.
    pub fair_floor_brief: Option<f64>,
    /// The daemon's `schedule.newcomer_share`: what unmanaged traffic is left of a full link as soon as it comes.
    pub newcomer_share: Option<f64>,
    /// The daemon's `schedule.promote_kappa` (κ): how old a round is that goes first.
    pub promote_kappa: Option<f64>,
    /// The daemon's `schedule.max_wait_ms`: no round is deferred longer.
    pub max_wait: Option<Nanos>,
    /// The daemon's `schedule.work_conserving`: fill what nobody uses.
    pub work_conserving: Option<bool>,
    /// The daemon's `schedule.chunk_lead`: the fill stops at a flow's lead over what feeds it.
    pub chunk_lead: Option<bool>,
    /// The daemon's `schedule.surplus`: what flows take beyond their orders (testbed only: in the simulator an order is a cap).
    pub surplus: Option<Surplus>,
    /// Least time between two announcements to one holder (simulator only).
    pub announce_gap: Option<Nanos>,
    /// Hosts know from the start by which of several equal paths each of their flows goes (simulator only).
    pub known_routes: bool,
    /// Where switches keep the tables, hosts ask them for it, unless they know it. On the testbed each switch then has a `sluice-switch` of its own, which asks its kernel.
    pub learned_routes: bool,
    /// How daemons speak to switches (testbed only: a simulated message is a message).
    pub transport: Transport,
}

/// The daemon's `schedule.surplus`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surplus {
    /// What is idle.
    #[default]
    Idle,
    /// As ordinary TCP on paths with unmanaged traffic.
    Greedy,
    /// Nothing.
    Never,
    /// As ordinary TCP everywhere.
    Always,
}

impl Surplus {
    /// Each with its word.
    const ALL: [(&str, Surplus); 4] =
        [("idle", Surplus::Idle), ("greedy", Surplus::Greedy), ("never", Surplus::Never), ("always", Surplus::Always)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Surplus::ALL[self as usize].0
    }
}

/// The daemon's `switches[].transport`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// One stream.
    #[default]
    Session,
    /// Two calls a slot.
    Unary,
    /// Datagrams, which carry sums of rates only.
    Udp,
    /// Datagrams along the paths of flows, to which switches that forward in the programs' place write.
    Inband,
}

impl Transport {
    /// Every transport with its word.
    const ALL: [(&str, Transport); 4] = [
        ("session", Transport::Session),
        ("unary", Transport::Unary),
        ("udp", Transport::Udp),
        ("inband", Transport::Inband),
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Transport::ALL[self as usize].0
    }
}

impl std::str::FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Transport, String> {
        let known = Transport::ALL.iter().find(|(word, _)| *word == text);
        known
            .map(|(_, transport)| *transport)
            .ok_or_else(|| format!("no transport {text:?}; write session, unary, udp or inband"))
    }
}

impl Default for SluiceOptions {
    fn default() -> SluiceOptions {
        SluiceOptions {
            events: true,
            tables: Tables::Switch,
            charge_decision: Nanos::ZERO,
            reserve: None,
            fair_floor: None,
            fair_floor_alone: None,
            fair_floor_brief: None,
            newcomer_share: None,
            promote_kappa: None,
            max_wait: None,
            work_conserving: None,
            chunk_lead: None,
            surplus: None,
            announce_gap: None,
            known_routes: false,
            learned_routes: false,
            transport: Transport::Session,
        }
    }
}

/// `[scheduler.fair]`: sharing as TCP does it.
#[derive(Clone, Debug, PartialEq)]
pub struct FairOptions {
    /// Factor on link capacity for managed flows.
    pub efficiency: f64,
    /// Congestion control of the loss model; `None`: no cap by loss.
    pub tcp: Option<Tcp>,
    /// Queueing delay of the loss model.
    pub queue: Nanos,
}

/// Options of every scheduler, defaults where the file says nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Of `fair`, the sharing of TCP.
    pub fair: FairOptions,
    /// `[scheduler.static]`: order of job ids.
    pub static_order: Vec<String>,
    /// `[scheduler.static]`: try all orders.
    pub static_search: bool,
    /// Of `sluice`, this project's own.
    pub sluice: SluiceOptions,
    /// `[scheduler.mcs]` stages per server instead of per job.
    pub mcs_per_server: bool,
    /// `[scheduler.mcs]` a ring's stages are chunks instead of a chain of whole flows.
    pub mcs_ring_chunks: bool,
    /// `[scheduler.mcs]` order by the linear program.
    pub mcs_lp: bool,
    /// `[scheduler.mcs]` new rates apply that much later.
    pub mcs_delay: Nanos,
    /// `[scheduler.ccml]` unequal weights instead of shifts.
    pub ccml_unfair: bool,
    /// `[scheduler.ccml]` ratio of weights.
    pub ccml_ratio: f64,
    /// `[scheduler.mltcp]` slope, intercept, exponent.
    pub mltcp: [f64; 3],
    /// `[scheduler.aalo]` weights instead of strict priority between queues.
    pub aalo_weighted: bool,
    /// `[scheduler.crux]` chooses among equal paths, too.
    pub crux_paths: bool,
    /// `[scheduler.crux]` corrects priorities by two-job simulations.
    pub crux_correction: bool,
    /// `[scheduler.crux]`: priority levels there are.
    pub crux_levels: u32,
    /// `[scheduler.crux]` topological orders tried.
    pub crux_orders: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            fair: FairOptions { efficiency: 1.0, tcp: None, queue: Nanos(200_000) },
            static_order: Vec::new(),
            static_search: false,
            sluice: SluiceOptions::default(),
            mcs_per_server: false,
            mcs_ring_chunks: false,
            mcs_lp: false,
            mcs_delay: Nanos::ZERO,
            ccml_unfair: false,
            ccml_ratio: 2.0,
            mltcp: [1.75, 0.25, 1.0],
            aalo_weighted: false,
            crux_paths: true,
            crux_correction: false,
            crux_levels: 8,
            crux_orders: 10,
        }
    }
}

/// `[scheduler]`: the runs to make, and with which options.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedulers {
    /// The runs to make, in order: the sweep, or the one name.
    pub policies: Vec<Policy>,
    /// Options of every scheduler.
    pub options: Options,
}

impl Default for Schedulers {
    fn default() -> Schedulers {
        Schedulers { policies: vec![Policy { name: "sluice".into(), variant: None }], options: Options::default() }
    }
}

pub(crate) fn read(t: Table<'_>) -> Schedulers {
    let policy = |item: &Item<'_>| match item.text()?.parse::<Policy>() {
        Ok(p) => Some(p),
        Err(e) => {
            item.fail(E_REF, e, &NAMES.join(", "));
            None
        }
    };
    let name = t.get("name").and_then(|i| policy(&i));
    let sweep: Vec<Policy> = t.list("sweep").unwrap_or_default().iter().filter_map(policy).collect();
    if !t.has("name") && !t.has("sweep") {
        t.fail(E_MISSING, "name is missing", "name or sweep");
    }
    let mut options = Options::default();
    for part in NAMES {
        if let Some(table) = t.table(part) {
            read_options(part, table, &mut options);
        }
    }
    t.finish();
    let policies = if sweep.is_empty() { name.into_iter().collect() } else { sweep };
    Schedulers { policies, options }
}

fn read_options(part: &str, t: Table<'_>, o: &mut Options) {
    let (zero, one) = (Rational::ZERO, Rational::ONE);
    let hundredth = Rational::new(1, 100).unwrap_or(Rational::ONE);
    match part {
        "fair" => {
            o.fair.efficiency = t.float("efficiency", &hundredth, &one).unwrap_or(1.0);
            o.fair.tcp = t.choice("tcp", &TCPS);
            o.fair.queue = t.get("queue_us").and_then(|i| i.micros()).unwrap_or(o.fair.queue);
        }
        "static" => {
            let order = t.list("order").unwrap_or_default();
            o.static_order = order.iter().filter_map(|i| i.text().map(str::to_owned)).collect();
            o.static_search = t.flag("search").unwrap_or(false);
        }
        "sluice" => {
            let half = Rational::new(1, 2).unwrap_or(Rational::ONE);
            o.sluice.events = t.flag("events").unwrap_or(true);
            let tables = [("switch", Tables::Switch), ("nic", Tables::Nic), ("own", Tables::Own)];
            o.sluice.tables = t.choice("tables", &tables).unwrap_or_default();
            o.sluice.charge_decision = t.get("charge_decision_us").and_then(|i| i.micros()).unwrap_or_default();
            o.sluice.reserve = t.float("reserve", &zero, &half);
            o.sluice.fair_floor = t.float("fair_floor", &zero, &one);
            o.sluice.fair_floor_alone = t.float("fair_floor_alone", &zero, &one);
            o.sluice.fair_floor_brief = t.float("fair_floor_brief", &zero, &one);
            o.sluice.newcomer_share = t.float("newcomer_share", &zero, &half);
            o.sluice.promote_kappa = t.float("promote_kappa", &one, &Rational::from(16));
            o.sluice.max_wait = t.int("max_wait_ms", 0..=60_000).map(Nanos::from_millis);
            o.sluice.work_conserving = t.flag("work_conserving");
            o.sluice.chunk_lead = t.flag("chunk_lead");
            o.sluice.surplus = t.choice("surplus", &Surplus::ALL);
            o.sluice.announce_gap = t.int("announce_gap_ms", 0..=1000).map(Nanos::from_millis);
            o.sluice.known_routes = t.flag("known_routes").unwrap_or(false);
            o.sluice.learned_routes = t.flag("learned_routes").unwrap_or(false);
            o.sluice.transport = t.choice("transport", &Transport::ALL).unwrap_or_default();
        }
        "mcs" => {
            o.mcs_per_server = t.choice("scope", &[("job", false), ("server", true)]).unwrap_or(false);
            o.mcs_ring_chunks = t.choice("ring", &[("chain", false), ("chunk", true)]).unwrap_or(false);
            o.mcs_lp = t.choice("order", &[("primal-dual", false), ("lp", true)]).unwrap_or(false);
            o.mcs_delay = Nanos::from_millis(t.int("delay_ms", 0..=60_000).unwrap_or(0));
        }
        "ccml" => {
            o.ccml_unfair = t.choice("variant", &[("interleave", false), ("unfair", true)]).unwrap_or(false);
            o.ccml_ratio = t.float("ratio", &one, &Rational::from(100)).unwrap_or(2.0);
        }
        "mltcp" => {
            let [slope, intercept, gamma] = o.mltcp;
            o.mltcp = [
                t.float("slope", &zero, &Rational::from(100)).unwrap_or(slope),
                t.float("intercept", &hundredth, &Rational::from(100)).unwrap_or(intercept),
                t.float("gamma", &zero, &Rational::from(10)).unwrap_or(gamma),
            ];
        }
        "aalo" => {
            o.aalo_weighted = t.choice("sharing", &[("strict", false), ("weighted", true)]).unwrap_or(false);
        }
        "crux" => {
            o.crux_paths = t.flag("paths").unwrap_or(true);
            o.crux_correction = t.flag("correction").unwrap_or(false);
            o.crux_levels = t.int32("levels", 1..=64).unwrap_or(8);
            o.crux_orders = t.int32("orders", 1..=1000).unwrap_or(10);
        }
        _ => {}
    }
    t.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_variant() {
        for text in ["fair", "fair:bbr", "sluice", "sluice:primal-dual", "mcs"] {
            assert_eq!(text.parse::<Policy>().map(|p| p.to_string()), Ok(text.to_owned()));
        }
        assert!("sluise".parse::<Policy>().is_err_and(|e| e.contains("did you mean `sluice`?")));
        assert!("fair:vegas".parse::<Policy>().is_err());
        assert!("mcs:x".parse::<Policy>().is_err());
    }
}
