//! What one member of a job is told: a JSON document.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::JobError;

/// How the members exchange tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// Every rank sends to the next: reduce-scatter, then all-gather.
    #[default]
    Ring,
    /// Workers push shards to servers, servers send the sums back.
    Ps,
    /// Reduce up to rank 0, broadcast down.
    Tree,
    /// By a plan: all-reduce, all-gather or reduce-scatter, whichever it is for; of rates, weights or an order the
    /// flows of one collective, whatever they carry.
    Plan,
    /// Compute only.
    None,
}

/// One process of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Name of the host that it runs on.
    pub host: String,
    /// Where the process accepts its peers.
    pub address: Ipv4Addr,
    /// TCP port at that address.
    pub port: u16,
    /// The addresses of all cards of the host, over which streams are spread; empty: the one above is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<Ipv4Addr>,
}

impl Member {
    /// Where its peers connect to.
    pub fn endpoint(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, self.port)
    }

    /// The address of its card for this lane.
    pub fn rail(&self, lane: u32) -> Ipv4Addr {
        self.rails.get(lane as usize).copied().unwrap_or(self.address)
    }

    /// Is this one of its addresses?
    pub fn has(&self, address: IpAddr) -> bool {
        address == IpAddr::V4(self.address) || self.rails.iter().any(|rail| address == IpAddr::V4(*rail))
    }
}

/// The plan a job follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Where it lies; the same file for every member.
    pub file: PathBuf,
    /// Ids of its participants by rank; empty: the plan's own order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<String>,
    /// Which of its collectives the job is, of a plan of rates, weights or an order for several; none: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<u64>,
}

/// One member's view of its job. Workers come first in `members`, then servers, or the relays of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// Id of the job, 1 to 63 characters.
    pub job: String,
    /// How its members exchange tensors.
    pub arch: Arch,
    /// Which member this process is, an index into `members`.
    pub rank: usize,
    /// All members: `workers` workers, then the servers; of arch `plan` the relays, in the plan's order.
    pub members: Vec<Member>,
    /// How many of them are workers, 1 to 1024.
    pub workers: usize,
    /// Children of a tree's node, 1 or more.
    #[serde(default = "two")]
    pub fanout: usize,
    /// The plan; needed by arch `plan`, and told to daemons by whoever starts the job, whatever its arch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanFile>,
    /// Gradient bytes of an iteration, rounded up to whole floats. Of an all-gather: what everybody ends with. Flows of
    /// a plan of rates, weights or an order have sizes of their own, and this is only what the page says.
    pub bytes: u64,
    /// How many iterations, 1 or more.
    pub iterations: u64,
    /// Compute time of each iteration in ns; the last one repeats. Empty: none.
    #[serde(default)]
    pub compute_ns: Vec<u64>,
    /// Iterations begin at multiples of this from the start, where the one before is over by then, so that all members
    /// begin theirs together; 0: each as soon as its own one before is over.
    #[serde(default)]
    pub period_ns: u64,
    /// The round may begin when this part of the compute phase is still left, 0 to 1.
    #[serde(default)]
    pub overlap: f64,
    /// Congestion control asked for on every socket; none: whatever the system or a capturing daemon sets.
    #[serde(default)]
    pub tcp: Option<String>,
    /// Largest single write, 1 to 65 536 bytes. Larger ones delay the kernel's pacing.
    #[serde(default = "sixty_four_k")]
    pub write_bytes: usize,
    /// Where the progress page goes; none: no page.
    #[serde(default)]
    pub progress_dir: Option<PathBuf>,
    /// A sample line at most this often while bytes move, ms; 0: none.
    #[serde(default)]
    pub sample_ms: u64,
    /// True: samples say how each stream does, not only their sum, and come also while no byte moves.
    #[serde(default)]
    pub sample_flows: bool,
    /// True: after connecting, wait for a line `start NS` (CLOCK_MONOTONIC) on standard input.
    #[serde(default)]
    pub wait_for_start: bool,
}

fn two() -> usize {
    2
}
fn sixty_four_k() -> usize {
    65_536
}

impl JobFile {
    /// Weeks of the shortest ones.
    pub const MAX_ITERATIONS: u64 = 10_000_000;

    /// Checks what the types do not.
    ///
    /// # Errors
    /// Names the first field that is out of range, its value and what is allowed.
    pub fn check(&self) -> Result<(), JobError> {
        let bad = |field, seen: String, allowed: &str| Err(JobError::File { field, seen, allowed: allowed.into() });
        if self.job.is_empty() || self.job.len() > 63 {
            return bad("job", format!("{:?}", self.job), "1 to 63 characters");
        }
        if self.rank >= self.members.len() {
            let allowed = format!("less than the number of members, {}", self.members.len());
            return bad("rank", self.rank.to_string(), &allowed);
        }
        let rails = self.members[0].rails.len();
        if rails == 1 || rails > 16 || self.members.iter().any(|member| member.rails.len() != rails) {
            let allowed = "none, or 2 to 16 addresses, as many for every member";
            return bad("members.rails", rails.to_string(), allowed);
        }
        if rails > 0 && self.arch == Arch::Plan {
            return bad("members.rails", rails.to_string(), "none for a job of arch plan, whose lanes its plan names");
        }
        // As many as a scenario may give a job: 1024 workers and 4096 servers.
        if self.members.len() > 5120 {
            return bad("members", self.members.len().to_string(), "at most 5120");
        }
        if self.workers == 0 || self.workers > 1024 || self.workers > self.members.len() {
            return bad("workers", self.workers.to_string(), "1 to 1024, and not more than members");
        }
        if self.arch == Arch::Ps && self.workers == self.members.len() {
            return bad(
                "members",
                self.members.len().to_string(),
                "a ps job needs at least one server after its workers",
            );
        }
        if !matches!(self.arch, Arch::Ps | Arch::Plan) && self.workers != self.members.len() {
            return bad("workers", self.workers.to_string(), "only ps and plan jobs have members that are not workers");
        }
        if self.arch == Arch::Plan && self.plan.is_none() {
            return bad("plan", "nothing".into(), "a job of arch plan names its plan file");
        }
        if self.bytes == 0 || self.bytes > 1 << 36 {
            return bad("bytes", self.bytes.to_string(), "1 to 2^36");
        }
        if self.iterations == 0 || self.iterations > Self::MAX_ITERATIONS {
            return bad("iterations", self.iterations.to_string(), "1 to 10^7");
        }
        if self.fanout == 0 {
            return bad("fanout", "0".into(), "1 or more");
        }
        if !(0.0..=1.0).contains(&self.overlap) {
            return bad("overlap", self.overlap.to_string(), "0 to 1");
        }
        if !(1..=65_536).contains(&self.write_bytes) {
            return bad("write_bytes", self.write_bytes.to_string(), "1 to 65536");
        }
        Ok(())
    }

    /// Is this member a worker (neither a parameter server nor a relay)?
    pub fn is_worker(&self) -> bool {
        self.rank < self.workers
    }

    /// Compute time of one iteration, ns; servers and relays compute nothing.
    pub fn compute(&self, iteration: u64) -> u64 {
        if !self.is_worker() {
            return 0;
        }
        let at = usize::try_from(iteration).unwrap_or(usize::MAX);
        self.compute_ns.get(at).or(self.compute_ns.last()).copied().unwrap_or(0)
    }
}
