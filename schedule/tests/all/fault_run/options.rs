//! What a seed decides before its run: the cluster, its jobs, and which faults there are.
//!
//! Swarm style: every kind of fault is switched off in half of the seeds, so that no fault always hides another. One
//! seed in eight has no faults at all.

use sluice_schedule::host::PolicyName;
use sluice_schedule::table::TableKind;

use super::rng::Rng;

/// What hosts plan by: every rule there is, and half of the runs by the default.
const POLICIES: [PolicyName; 6] = [
    PolicyName::SrptP,
    PolicyName::SrptP,
    PolicyName::SrptP,
    PolicyName::Fair,
    PolicyName::PrimalDual,
    PolicyName::PrimalDualLiteral,
];

/// Everything that is fixed before the first event; printed when a run fails.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub slot_ms: u64,
    pub horizon: usize,
    pub hosts: usize,
    /// Leaf switches; none: every host keeps the table of its own ingress.
    pub leaves: usize,
    pub capacity_mbps: u64,
    /// Rate of a leaf's up-link in per cent of a host's.
    pub uplink_percent: u64,
    /// Equal up-links of a leaf; with two, hosts have to learn which one a flow takes.
    pub planes: usize,
    /// How often some flow changes from one to the other.
    pub redraws: u64,
    /// First slot number of the run.
    pub first_slot: u64,
    pub policy: PolicyName,
    pub table: TableKind,
    pub events: bool,
    /// φ in per cent: the brain's default and the daemon's.
    pub fair_floor: u64,
    pub chunk_lead: bool,
    pub jobs: Vec<JobOptions>,
    pub faults: Faults,
    /// What stays broken in the calm: a host that one way or both ways cannot talk to any holder but its own.
    pub lasting: Option<Lasting>,
    /// Slots with faults, then slots without.
    pub fault_slots: u64,
    pub calm_slots: u64,
}

/// How a job's hosts talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Ring,
    ParameterServer,
    Tree,
}

#[derive(Clone, Copy, Debug)]
pub struct Lasting {
    pub host: usize,
    /// To the holders, from the holders.
    pub ways: [bool; 2],
}

#[derive(Clone, Debug)]
pub struct JobOptions {
    pub shape: Shape,
    pub members: Vec<usize>,
    /// Bytes per flow and round, as slots at the host's rate, in tenths.
    pub tenths: u64,
    /// Slots of computing between rounds, in tenths.
    pub compute_tenths: u64,
    /// Claimed demand in per cent of the real one; 100 is honest.
    pub claim_percent: u64,
    /// The slot in which it dies, if it does.
    pub dies: Option<u64>,
}

/// Chances and sizes of faults; zero is none.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub loss_percent: u64,
    pub copy_percent: u64,
    /// Extra delay of single messages, in per cent of a slot.
    pub jitter_percent: u64,
    /// Cuts of one direction between a host and a holder.
    pub cuts: u64,
    pub crashes: u64,
    pub holder_restarts: u64,
    /// Clock steps of hosts and holders, up to this many tenths of a slot.
    pub steps: u64,
    pub step_tenths: u64,
    pub drift_ppm: u64,
}

impl Options {
    pub fn from_seed(seed: u64) -> Options {
        let mut rng = Rng::new(seed ^ 0x5eed_0f0f_7ab1_e5ee);
        let hosts = rng.range(2, 7) as usize;
        let quiet = seed % 8 == 7;
        let mut fault = |most: u64| if quiet || rng.chance(50) { 0 } else { rng.range(1, most + 1) };
        let faults = Faults {
            loss_percent: fault(30),
            copy_percent: fault(30),
            jitter_percent: fault(150),
            cuts: fault(4),
            // A holder that changes its boot id a fourth time within a minute is taken for a hostile one.
            crashes: fault(3),
            holder_restarts: fault(3),
            steps: fault(3),
            step_tenths: fault(30),
            drift_ppm: fault(200),
        };
        let leaves = *rng.pick(&[0, 1, 1, 2, 2, 3]);
        let fault_slots = rng.range(40, 70);
        let jobs = (0..rng.range(1, 5)).map(|_| JobOptions::random(&mut rng, hosts, quiet, fault_slots)).collect();
        let first_slot = match rng.range(0, 3) {
            0 => (1 << 32) - rng.range(1, fault_slots),
            1 => (1 << 31) - rng.range(1, fault_slots),
            _ => 28_000_000_000 / rng.range(1, 4),
        };
        let lasting = (!quiet && hosts > 2 && rng.chance(20)).then(|| Lasting {
            host: rng.range(0, hosts as u64) as usize,
            ways: *rng.pick(&[[true, true], [true, false], [false, true]]),
        });
        let table = if rng.chance(20) { TableKind::DoubleBuffer } else { TableKind::Exact };
        Options {
            seed,
            slot_ms: *rng.pick(&[20, 60, 60, 100]),
            horizon: *rng.pick(&[4, 10, 10, 16]),
            hosts,
            leaves,
            capacity_mbps: *rng.pick(&[200, 1_000, 25_000]),
            uplink_percent: *rng.pick(&[100, 150, 300]),
            first_slot,
            policy: *rng.pick(&POLICIES),
            table,
            events: rng.chance(80),
            fair_floor: if seed.is_multiple_of(2) { 0 } else { 50 },
            chunk_lead: seed % 4 < 2,
            jobs,
            faults,
            lasting,
            fault_slots,
            // Long enough now and then for windows of several rounds.
            calm_slots: if seed % 10 == 3 { 400 } else { 60 },
            planes: if leaves > 1 && rng.chance(50) { 2 } else { 1 },
            redraws: if quiet || rng.chance(50) { 0 } else { rng.range(1, 6) },
        }
    }

    /// Nothing goes wrong in the whole run.
    pub fn faultless(&self) -> bool {
        let Faults {
            loss_percent, copy_percent, jitter_percent, cuts, crashes, holder_restarts, steps, drift_ppm, ..
        } = &self.faults;
        loss_percent + copy_percent + jitter_percent + cuts + crashes + holder_restarts + steps + drift_ppm == 0
    }
}

impl JobOptions {
    fn random(rng: &mut Rng, hosts: usize, quiet: bool, fault_slots: u64) -> JobOptions {
        let mut members: Vec<usize> = (0..hosts).collect();
        for i in (1..members.len()).rev() {
            members.swap(i, rng.range(0, i as u64 + 1) as usize);
        }
        members.truncate(rng.range(2, 5) as usize);
        JobOptions {
            shape: *rng.pick(&[Shape::Ring, Shape::ParameterServer, Shape::Tree]),
            members,
            tenths: rng.range(3, 80),
            compute_tenths: rng.range(3, 60),
            claim_percent: if quiet || rng.chance(80) { 100 } else { *rng.pick(&[5, 50, 400]) },
            dies: if quiet || rng.chance(85) { None } else { Some(rng.range(5, fault_slots)) },
        }
    }
}
