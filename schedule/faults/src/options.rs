//! What a seed decides before its run: the cluster, its limits, its jobs, and how much of which fault there is.
//!
//! Swarm style: every kind of fault is switched off in half of the seeds, so that no fault always hides another, and limits
//! are so small in some that they are reached. One seed in eight has no faults at all.

use serde::{Deserialize, Serialize};
use sluice_schedule::host::PolicyName;

use crate::rng::Rng;

/// What hosts plan by: every rule there is, and half of the runs by the default.
const POLICIES: [PolicyName; 6] = [
    PolicyName::SrptP,
    PolicyName::SrptP,
    PolicyName::SrptP,
    PolicyName::Fair,
    PolicyName::PrimalDual,
    PolicyName::PrimalDualLiteral,
];

/// What a run is to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Whatever happens, no invariant breaks; then all is healed and the cluster comes to rest.
    #[default]
    Safety,
    /// After the faults a core is healed while the rest stays broken in a fixed way, and the core has to get on.
    Liveness,
}

/// Everything that is fixed before the first event; printed when a run fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The source of all chance.
    pub seed: u64,
    /// What the run is to show.
    pub mode: Mode,
    /// Length of a slot.
    pub slot_ms: u64,
    /// How many slots ahead rates are planned (K).
    pub horizon: usize,
    /// How many hosts there are.
    pub hosts: usize,
    /// Leaf switches; none: every host keeps the table of its own ingress.
    pub leaves: usize,
    /// Rate of a host's links.
    pub capacity_mbps: u64,
    /// Rate of a leaf's up-link in per cent of a host's.
    pub uplink_percent: u64,
    /// Equal up-links of a leaf; with two, hosts have to learn which one a flow takes.
    pub planes: usize,
    /// First slot number of the run.
    pub first_slot: u64,
    /// What hosts plan by.
    pub policy: PolicyName,
    /// Do holders keep sums only, as a P4 switch does?
    pub double_buffer: bool,
    /// Do hosts decide inside slots?
    pub events: bool,
    /// φ in per cent, with and without unmanaged traffic.
    pub fair_floor: u64,
    /// Does the fill heed how far a flow is ahead of what feeds it?
    pub chunk_lead: bool,
    /// How long last orders live.
    pub coast_ms: u64,
    /// The bounds of tables.
    pub limits: Limits,
    /// The jobs, by number.
    pub jobs: Vec<JobOptions>,
    /// What becomes of messages.
    pub network: Network,
    /// How much else goes wrong.
    pub amounts: Amounts,
    /// Drift of every clock at most.
    pub drift_ppm: u64,
    /// What stays broken in the calm: a host that one way or both ways cannot talk to any holder but its own.
    pub lasting: Option<Lasting>,
    /// What is healed in liveness mode, and what becomes of the rest.
    pub core: Option<Core>,
    /// Slots with faults.
    pub fault_slots: u64,
    /// Slots without, counted from when the bounds of the calm hold.
    pub calm_slots: u64,
}

/// The bounds of tables, so small in some runs that they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Flows of a host that its kernel has rows for.
    pub rows: usize,
    /// Hosts that a holder knows.
    pub hosts: usize,
    /// Promises of one host that a holder keeps.
    pub promises: usize,
}

impl Limits {
    /// None of them is ever reached.
    pub const WIDE: Limits = Limits { rows: 64, hosts: 4096, promises: 8192 };
}

/// How a job's hosts talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// Every member sends to the next.
    Ring,
    /// All send to the first, which sends back.
    ParameterServer,
    /// Up to the first and down again.
    Tree,
}

/// A host that stays cut off in the calm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lasting {
    /// The host.
    pub host: usize,
    /// To the holders, from the holders.
    pub ways: [bool; 2],
}

/// What is healed, and what is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Hosts that are healed.
    pub hosts: Vec<usize>,
    /// Leaf switches that are healed; hosts that keep their own tables are so with their tables.
    pub leaves: Vec<usize>,
    /// What becomes of each host that is not, in order.
    pub others: Vec<Broken>,
    /// What becomes of each leaf switch that is not, in order.
    pub other_leaves: Vec<Broken>,
}

/// In which fixed way something stays broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Broken {
    /// It is down.
    Dead,
    /// It is down and up again, over and over.
    Flapping,
    /// It is cut off: to the holders, from the holders.
    Mute([bool; 2]),
    /// Its clock is so many slots off.
    Clock(i64),
    /// Everything it does it does late by so many tenths of a slot.
    Slow(u64),
}

/// A job and its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobOptions {
    /// How its hosts talk.
    pub shape: Shape,
    /// Its hosts.
    pub members: Vec<usize>,
    /// Bytes per flow and round, as slots at the host's rate, in tenths.
    pub tenths: u64,
    /// Slots of computing between rounds, in tenths.
    pub compute_tenths: u64,
    /// Claimed demand in per cent of the real one; 100 is honest.
    pub claim_percent: u64,
    /// Rounds are of very different sizes.
    pub bursty: bool,
    /// The slot in which it comes; 0: it is there from the beginning.
    pub born: u64,
    /// The slot in which it dies, if it does.
    pub dies: Option<u64>,
}

/// What becomes of messages, in per cent of them; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Lost.
    pub loss: u64,
    /// Delivered twice.
    pub copies: u64,
    /// Extra delay of some, in per cent of a slot.
    pub jitter: u64,
}

/// How often what goes wrong; zero is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    /// Cuts of one or both directions between a host and a holder.
    pub cuts: u64,
    /// Connections closed for what came in corrupted.
    pub resets: u64,
    /// Daemons that die.
    pub crashes: u64,
    /// Daemons that end in order.
    pub stops: u64,
    /// Daemons that hang.
    pub hangs: u64,
    /// Daemons that are slow.
    pub slow: u64,
    /// Part of the daemons that come back in another version, in per cent.
    pub other_version: u64,
    /// Holders that restart.
    pub holder_restarts: u64,
    /// Holders that hang.
    pub holder_hangs: u64,
    /// Clock steps, up to `step_tenths` tenths of a slot.
    pub steps: u64,
    /// How far clocks are set at most.
    pub step_tenths: u64,
    /// Machines that stand still, and their clocks with them.
    pub pauses: u64,
    /// Times that a host's flows all connect anew.
    pub reconnects: u64,
    /// How often some flow changes from one equal path to the other.
    pub redraws: u64,
    /// Part of the kernel's words on connections that come late, in per cent.
    pub late_events: u64,
}

impl Options {
    /// What this seed decides. `stretch` makes the time with faults so many times as long, with so many times the faults.
    pub fn from_seed(seed: u64, mode: Mode, stretch: u64) -> Options {
        let liveness = mode == Mode::Liveness;
        let mut rng = Rng::new(seed ^ if liveness { 0x11fe_0f0f_7ab1_e5ee } else { 0x5eed_0f0f_7ab1_e5ee });
        let hosts = rng.range(if liveness { 3 } else { 2 }, 7) as usize;
        let quiet = !liveness && seed % 8 == 7;
        let mut fault = |most: u64| if quiet || rng.chance(50) { 0 } else { rng.range(1, most + 1) };
        let network = Network { loss: fault(30), copies: fault(30), jitter: fault(150) };
        let amounts = Amounts {
            cuts: fault(4) * stretch,
            resets: fault(4) * stretch,
            // A holder that changes its boot id a fourth time within a minute is taken for a hostile one.
            crashes: fault(2) * stretch,
            stops: fault(1) * stretch,
            hangs: fault(3) * stretch,
            slow: fault(3) * stretch,
            other_version: fault(60),
            holder_restarts: fault(3),
            holder_hangs: fault(2) * stretch,
            steps: fault(3) * stretch,
            step_tenths: fault(30),
            pauses: fault(1) * stretch,
            reconnects: fault(4) * stretch,
            redraws: fault(5) * stretch,
            late_events: fault(50),
        };
        let drift_ppm = fault(200);
        let leaves = *rng.pick(&[0, 1, 1, 2, 2, 3]);
        let fault_slots = rng.range(40, 70) * stretch;
        let jobs: Vec<JobOptions> =
            (0..rng.range(1, 5)).map(|_| JobOptions::random(&mut rng, hosts, quiet, fault_slots)).collect();
        let first_slot = match rng.range(0, 3) {
            0 => (1 << 32) - rng.range(1, fault_slots),
            1 => (1 << 31) - rng.range(1, fault_slots),
            _ => 28_000_000_000 / rng.range(1, 4),
        };
        let lasting = (!quiet && !liveness && hosts > 2 && rng.chance(20)).then(|| Lasting {
            host: rng.range(0, hosts as u64) as usize,
            ways: *rng.pick(&[[true, true], [true, false], [false, true]]),
        });
        let mut limits = Limits::WIDE;
        if !quiet && !liveness {
            let mut tight = |wide: usize| if rng.chance(12) { rng.range(2, 9) as usize } else { wide };
            limits = Limits { rows: tight(limits.rows), hosts: tight(limits.hosts), promises: tight(limits.promises) };
        }
        let mut options = Options {
            seed,
            mode,
            slot_ms: *rng.pick(&[20, 60, 60, 100]),
            horizon: *rng.pick(&[4, 10, 10, 16]),
            hosts,
            leaves,
            capacity_mbps: *rng.pick(&[200, 1_000, 25_000]),
            uplink_percent: *rng.pick(&[100, 150, 300]),
            first_slot,
            policy: *rng.pick(&POLICIES),
            double_buffer: rng.chance(20),
            events: rng.chance(80),
            fair_floor: if seed.is_multiple_of(2) { 0 } else { 50 },
            chunk_lead: seed % 4 < 2,
            coast_ms: *rng.pick(&[200, 500, 1_000, 2_000]),
            limits,
            jobs,
            network,
            amounts,
            drift_ppm,
            lasting,
            core: None,
            fault_slots,
            // Long enough now and then for windows of several rounds.
            calm_slots: if seed % 10 == 3 { 350 } else { 40 },
            planes: if leaves > 1 && rng.chance(50) { 2 } else { 1 },
        };
        if liveness {
            options.choose_core(&mut rng);
        }
        options
    }

    /// Chooses what is healed, gives it a job of its own, and decides how the rest stays broken.
    fn choose_core(&mut self, rng: &mut Rng) {
        let mut hosts: Vec<usize> = (0..self.hosts).collect();
        shuffle(&mut hosts, rng);
        let size = rng.range(2, self.hosts as u64) as usize;
        let others = self.hosts - size;
        hosts.truncate(size);
        hosts.sort_unstable();
        let mut leaves: Vec<usize> =
            hosts.iter().filter(|_| self.leaves > 0).map(|host| host % self.leaves.max(1)).collect();
        leaves.sort_unstable();
        leaves.dedup();
        let other_leaves = self.leaves - leaves.len();
        let mut wrong_clock = false;
        let mut broken = |of_host: bool| {
            let kind = rng.range(0, 6);
            let ways = *rng.pick(&[[true, true], [true, false], [false, true]]);
            match kind {
                0 => Broken::Dead,
                1 => Broken::Flapping,
                2 | 3 => Broken::Mute(ways),
                // Where hosts keep tables, more than one wrong clock may be the clock of most.
                4 if of_host && !std::mem::replace(&mut wrong_clock, true) => Broken::Clock(*rng.pick(&[-7, -2, 2, 5])),
                _ => Broken::Slow(rng.range(2, 30)),
            }
        };
        let others = (0..others).map(|_| broken(true)).collect();
        let other_leaves = (0..other_leaves).map(|_| broken(false)).collect();
        let members: Vec<usize> = hosts.iter().copied().take(4).collect();
        let own = JobOptions {
            shape: *rng.pick(&[Shape::Ring, Shape::ParameterServer, Shape::Tree]),
            members,
            tenths: rng.range(3, 12),
            compute_tenths: rng.range(3, 12),
            claim_percent: 100,
            bursty: false,
            born: 0,
            dies: None,
        };
        self.jobs.truncate(3);
        self.jobs.insert(0, own);
        self.core = Some(Core { hosts, leaves, others, other_leaves });
    }

    /// Nothing goes wrong in the whole run.
    pub fn faultless(&self) -> bool {
        let steady = self.jobs.iter().all(|job| job.dies.is_none() && job.born == 0);
        let redraws = Amounts { step_tenths: 0, other_version: 0, ..self.amounts };
        self.network == Network::default()
            && redraws == Amounts::default()
            && self.drift_ppm == 0
            && self.core.is_none()
            && self.lasting.is_none()
            && self.limits == Limits::WIDE
            && steady
    }

    /// Is any table so small that it may be full?
    pub fn tight(&self) -> bool {
        self.limits != Limits::WIDE
    }
}

fn shuffle(all: &mut [usize], rng: &mut Rng) {
    for i in (1..all.len()).rev() {
        all.swap(i, rng.range(0, i as u64 + 1) as usize);
    }
}

impl JobOptions {
    fn random(rng: &mut Rng, hosts: usize, quiet: bool, fault_slots: u64) -> JobOptions {
        let mut members: Vec<usize> = (0..hosts).collect();
        shuffle(&mut members, rng);
        members.truncate(rng.range(2, 5) as usize);
        JobOptions {
            shape: *rng.pick(&[Shape::Ring, Shape::ParameterServer, Shape::Tree]),
            members,
            tenths: rng.range(3, 80),
            compute_tenths: rng.range(3, 60),
            claim_percent: if quiet || rng.chance(80) { 100 } else { *rng.pick(&[5, 50, 400]) },
            bursty: rng.chance(25),
            born: if quiet || rng.chance(80) { 0 } else { rng.range(1, fault_slots) },
            dies: if quiet || rng.chance(85) { None } else { Some(rng.range(5, fault_slots)) },
        }
    }
}
