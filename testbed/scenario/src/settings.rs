//! The small tables of a scenario: time, placement, defaults, cross traffic, control, faults, output, testbed.

use crate::quantities::{GIGA, Quantity};
use sluice_formats::document::{Item, Table};
use sluice_formats::problem::{E_ARCH, E_RANGE, E_REF};
use sluice_formats::quantity::Rational;
use sluice_schedule::units::fnv1a32;
use sluice_schedule::{Nanos, Rate};

use super::network::{Network, NodeIx};
use super::scheduler::{TCPS, Tcp};

/// When the simulator's scheduler may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeMode {
    /// Whenever anything happens: an arrival, an end, a message.
    #[default]
    Event,
    /// Only at slot edges.
    Slot,
    /// At slot edges, and everything else rounded up to slots too.
    PaperSlot,
}

/// `[time]`: the slots, and where a run ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// When the simulator's scheduler may speak.
    pub mode: TimeMode,
    /// Slot length, 1–1000 ms.
    pub slot: Nanos,
    /// Slots planned ahead, 4–32.
    pub horizon: u32,
    /// No run goes on beyond this time; `None`: until its jobs have ended.
    pub end: Option<Nanos>,
    /// Events after which the simulator gives up.
    pub max_events: u64,
}

impl Default for Time {
    fn default() -> Time {
        Time { mode: TimeMode::Event, slot: Nanos::from_millis(60), horizon: 10, end: None, max_events: 10 * GIGA }
    }
}

pub(crate) fn time(t: Table<'_>) -> Time {
    let d = Time::default();
    let modes = [("event", TimeMode::Event), ("slot", TimeMode::Slot), ("paper-slot", TimeMode::PaperSlot)];
    let slot = t.get("slot_ms").and_then(|i| i.number_in(&Rational::ONE, &Rational::from(1000), "1 to 1000 ms"));
    let time = Time {
        mode: t.choice("mode", &modes).unwrap_or_default(),
        slot: slot.and_then(|r| r.to_units(1_000_000)).map_or(d.slot, Nanos),
        horizon: t.int32("horizon", 4..=32).unwrap_or(d.horizon),
        end: t.get("end_s").and_then(|i| i.seconds()),
        max_events: t.int("max_events", 1..=u64::MAX >> 1).unwrap_or(d.max_events),
    };
    t.finish();
    time
}

/// How hosts are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacePolicy {
    /// As few racks as possible.
    #[default]
    Packed,
    /// The host with the most free GPUs each time.
    Spread,
    /// At random.
    Random,
    /// Every job names its hosts.
    Explicit,
}

/// `[placement]`: which hosts a job gets, and whom it may overtake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementRules {
    /// How hosts are chosen.
    pub policy: PlacePolicy,
    /// A parameter server occupies a GPU.
    pub server_gpu: bool,
    /// No two members of a job on one host.
    pub one_per_host: bool,
    /// A later job may start when the head of the queue does not fit.
    pub backfill: bool,
    /// Ranks are shuffled instead of sorted by host.
    pub shuffled_ranks: bool,
    /// Hosts are assigned as if every job ended at its isolated run time (simulator).
    pub freeze: bool,
    /// Placements proposed to `cassini`.
    pub candidates: u32,
}

impl PlacementRules {
    /// What holds where the file has no `[placement]`.
    pub fn standard() -> PlacementRules {
        PlacementRules { server_gpu: true, candidates: 1, ..PlacementRules::default() }
    }
}

pub(crate) fn placement(t: Table<'_>) -> PlacementRules {
    use PlacePolicy::{Explicit, Packed, Random, Spread};
    let words = [("packed", Packed), ("spread", Spread), ("random", Random), ("explicit", Explicit)];
    let placement = PlacementRules {
        policy: t.choice("policy", &words).unwrap_or_default(),
        server_gpu: t.int("server_gpus", 0..=1).unwrap_or(1) == 1,
        one_per_host: t.flag("one_per_host").unwrap_or(false),
        backfill: t.flag("backfill").unwrap_or(false),
        shuffled_ranks: t.choice("ring_order", &[("host", false), ("random", true)]).unwrap_or(false),
        freeze: t.flag("freeze").unwrap_or(false),
        candidates: t.int32("candidates", 1..=10).unwrap_or(1),
    };
    t.finish();
    placement
}

/// An unmanaged flow with given ends and times.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossFlow {
    /// The host that sends.
    pub src: NodeIx,
    /// The host that receives.
    pub dst: NodeIx,
    /// Start, from the scenario's time 0.
    pub start: Nanos,
    /// End, after `start`, from the scenario's time 0.
    pub end: Nanos,
    /// Its rate; `None`: as much as it gets.
    pub rate: Option<Rate>,
}

/// The host that `key` names.
pub(crate) fn host(item: &Item<'_>, network: &Network) -> Option<NodeIx> {
    let name = item.text()?;
    if network.is_unknown() {
        return Some(NodeIx(fnv1a32(name.as_bytes()) as usize));
    }
    let node = network.find(name).filter(|&n| network.is_host(n));
    if node.is_none() {
        item.fail(E_REF, format!("no host {name:?}"), "an id of a host");
    }
    node
}

pub(crate) fn cross_flows(items: &[Item<'_>], network: &Network) -> Vec<CrossFlow> {
    let mut flows = Vec::new();
    for item in items {
        let Some(t) = item.table() else { continue };
        let end = |key| t.require(key).and_then(|i| host(&i, network));
        let (src, dst) = (end("src"), end("dst"));
        let when = |key| t.require(key).and_then(|i| i.seconds());
        let (start, stop) = (when("start_s"), when("end_s"));
        let rate = t.get("gbps").and_then(|i| i.gbps());
        t.finish();
        let (Some(src), Some(dst), Some(start), Some(end)) = (src, dst, start, stop) else { continue };
        if src == dst {
            item.fail(E_ARCH, "src and dst are one host", "two hosts");
        } else if end <= start {
            item.fail(E_RANGE, "end_s is not after start_s", "start_s < end_s");
        } else {
            flows.push(CrossFlow { src, dst, start, end, rate });
        }
    }
    flows
}

/// Cross traffic at random: the other end and the life of each flow are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossTraffic {
    /// Every host starts a flow this often.
    pub every: Nanos,
    /// Shortest life of a flow.
    pub min: Nanos,
    /// Longest life of a flow; lives are drawn uniformly in between.
    pub max: Nanos,
    /// Rate of each; `None`: as much as it gets.
    pub rate: Option<Rate>,
    /// No flow starts before this, from the scenario's time 0.
    pub start: Nanos,
}

pub(crate) fn cross_traffic(t: Table<'_>) -> Option<CrossTraffic> {
    let or = |v: Option<Nanos>, ms| v.unwrap_or(Nanos::from_millis(ms));
    let cross = CrossTraffic {
        every: or(t.get("every_s").and_then(|i| i.seconds()), 2000),
        min: or(t.get("min_s").and_then(|i| i.seconds()), 200),
        max: or(t.get("max_s").and_then(|i| i.seconds()), 2000),
        rate: t.get("gbps").and_then(|i| i.gbps()),
        start: t.get("start_s").and_then(|i| i.seconds()).unwrap_or_default(),
    };
    if cross.every < Nanos::from_millis(1) {
        t.fail(E_RANGE, "every_s is too short", "at least 0.001 s");
    }
    if cross.min > cross.max || cross.max == Nanos::ZERO {
        t.fail(E_RANGE, "min_s is longer than max_s, or both are 0", "0 ≤ min_s ≤ max_s, max_s > 0");
    }
    t.finish();
    Some(cross)
}

/// Messages of the scheduler under test, in the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Time from one end to the other, without jitter.
    pub delay: Nanos,
    /// Most that is added to the delay, drawn uniformly from 0.
    pub jitter: Nanos,
    /// Probability that a message is lost.
    pub loss: f64,
}

impl Default for Control {
    fn default() -> Control {
        Control { delay: Nanos(500_000), jitter: Nanos::ZERO, loss: 0.0 }
    }
}

pub(crate) fn control(t: Table<'_>) -> Control {
    let d = Control::default();
    let control = Control {
        delay: t.get("delay_us").and_then(|i| i.micros()).unwrap_or(d.delay),
        jitter: t.get("jitter_us").and_then(|i| i.micros()).unwrap_or(d.jitter),
        loss: t.chance("loss").unwrap_or(0.0),
    };
    t.finish();
    control
}

/// The kinds of planned faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The host disappears with its daemon.
    HostDeath,
    /// Its daemon is killed.
    DaemonKill,
    /// Its daemon stands still, as by SIGSTOP, and goes on where it was.
    DaemonStop,
    /// The switch's table starts empty.
    SwitchRestart,
    /// Control messages of the target are lost.
    Partition,
    /// The target's clock is off by some slots.
    ClockSkew,
}

impl FaultKind {
    /// Its word in a scenario.
    pub const fn as_str(self) -> &'static str {
        FAULTS[self as usize].0
    }
}

/// The format's words, in the order of the enum.
const FAULTS: [(&str, FaultKind); 6] = [
    ("host-death", FaultKind::HostDeath),
    ("daemon-kill", FaultKind::DaemonKill),
    ("daemon-stop", FaultKind::DaemonStop),
    ("switch-restart", FaultKind::SwitchRestart),
    ("partition", FaultKind::Partition),
    ("clock-skew", FaultKind::ClockSkew),
];

/// A fault at a given time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When, from the scenario's time 0.
    pub at: Nanos,
    /// What breaks at `target`.
    pub kind: FaultKind,
    /// The host or switch it happens to.
    pub target: NodeIx,
    /// For how long, where it ends.
    pub lasts: Option<Nanos>,
    /// Slots of clock skew.
    pub slots: f64,
    /// How often it came before: one of the file may come many times.
    pub before: u64,
}

/// How often a fault may come.
const MAX_TIMES: u64 = 100_000;

pub(crate) fn faults(items: &[Item<'_>], network: &Network) -> Vec<Fault> {
    let mut faults = Vec::new();
    for item in items {
        let Some(t) = item.table() else { continue };
        let at = t.require("at_s").and_then(|i| i.seconds());
        t.require("kind");
        let kind = t.choice("kind", &FAULTS);
        let target = t.require("target").and_then(|i| {
            let name = i.text()?;
            let node = network.find(name);
            if node.is_none() {
                i.fail(E_REF, format!("no node {name:?}"), "an id of a host or switch");
            }
            node
        });
        let lasts = t.get("for_s").and_then(|i| i.seconds());
        let slots = t.float("slots", &Rational::ZERO, &Rational::from(1_000_000)).unwrap_or(0.0);
        let every = t.get("every_s").and_then(|i| i.seconds());
        let times = t.int("times", 1..=MAX_TIMES);
        if every.is_some() != times.is_some() {
            t.fail(E_RANGE, "one of every_s and times without the other", "both or none");
        }
        let every = every.unwrap_or_default();
        if every.0 > 0 && lasts.is_none_or(|lasts| lasts >= every) {
            t.fail(E_RANGE, "it would come again before it is over", "for_s less than every_s");
        }
        t.finish();
        if let (Some(at), Some(kind), Some(target)) = (at, kind, target) {
            let fault = |before| Fault { at: at.plus(every.times(before)), kind, target, lasts, slots, before };
            faults.extend((0..times.unwrap_or(1)).map(fault));
        }
    }
    faults
}

/// `[output]`: where results are written, and as what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Directory of the result files; none: none are written unless the command line names one.
    pub dir: Option<String>,
    /// Results are written as CSV, too.
    pub csv: bool,
    /// An event log is written, too.
    pub timeline: bool,
}

pub(crate) fn output(t: Table<'_>) -> Output {
    let output = Output {
        dir: t.text("dir").map(str::to_owned),
        csv: t.flag("csv").unwrap_or(false),
        timeline: t.flag("timeline").unwrap_or(false),
    };
    t.finish();
    output
}

/// `[testbed]`: only the runner on real network namespaces looks at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Testbed {
    /// Every rate and byte count is divided by it.
    pub scale: Rational,
    /// Congestion control of unmanaged flows, and of job flows under `fair`.
    pub tcp: Tcp,
    /// MTU of data links.
    pub mtu: u32,
    /// First iterations of each job that metrics leave out.
    pub warmup_iterations: u32,
    /// Sum of host rates, after scaling, that one machine is asked to carry.
    pub max_rate: Rate,
    /// Buffer of each switch port and NIC.
    pub queue_bytes: u64,
    /// The daemon's floor rate, where not its default.
    pub floor: Option<Rate>,
    /// Every switch is a `sluice-switch` that forwards in its kernel's place, whatever the policy.
    pub data_plane: bool,
}

impl Default for Testbed {
    fn default() -> Testbed {
        Testbed {
            scale: Rational::ONE,
            tcp: Tcp::Cubic,
            mtu: 1500,
            warmup_iterations: 1,
            max_rate: Rate(20 * GIGA),
            queue_bytes: 250_000,
            floor: None,
            data_plane: false,
        }
    }
}

pub(crate) fn testbed(t: Table<'_>) -> Testbed {
    let d = Testbed::default();
    let small = Rational::new(1, 1000).unwrap_or(Rational::ONE);
    let floor = t.number("floor_mbps", &small, &Rational::from(1000));
    let testbed = Testbed {
        scale: t.number("scale", &small, &Rational::from(1_000_000)).unwrap_or(d.scale),
        tcp: t.choice("tcp", &TCPS[..3]).unwrap_or_default(),
        mtu: t.int32("mtu", 576..=9000).unwrap_or(d.mtu),
        warmup_iterations: t.int32("warmup_iterations", 0..=1_000_000).unwrap_or(d.warmup_iterations),
        max_rate: t.get("max_gbps").and_then(|i| i.gbps()).unwrap_or(d.max_rate),
        queue_bytes: t.int("queue_bytes", 3_000..=1 << 30).unwrap_or(d.queue_bytes),
        floor: floor.and_then(|r| r.to_units(1_000_000)).map(Rate),
        data_plane: t.flag("data_plane").unwrap_or(d.data_plane),
    };
    t.finish();
    testbed
}
