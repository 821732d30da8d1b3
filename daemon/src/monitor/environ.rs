//! What a process's environment says about its job: a few known keys, at most 64 KiB read, nothing else looked at.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use sluice_progress::Role;
use sluice_schedule::Pattern;
use sluice_wire::snapshot::Label;

use crate::config::JobSource;

/// Bytes of an environment that are read.
pub(crate) const MAX_BYTES: u64 = 64 << 10;
/// Bytes of a plan's path.
const MAX_PATH: usize = 4096;
/// Ranks that may be listed by name.
const MAX_RANKS: usize = 4096;
/// Every key that is read.
const KEYS: [&str; 24] = [
    "SLUICE_JOB_ID",
    "SLURM_JOB_ID",
    "DMLC_PS_ROOT_URI",
    "DMLC_PS_ROOT_PORT",
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PMIX_NAMESPACE",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "HOROVOD_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "HOROVOD_SIZE",
    "PMI_SIZE",
    "SLURM_NTASKS",
    "DMLC_ROLE",
    "SLUICE_PLAN",
    "SLUICE_PLAN_RANKS",
    "SLUICE_PLAN_COLLECTIVE",
];

/// The plan that a process names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanName {
    /// `SLUICE_PLAN`: where it lies; absolute.
    pub file: PathBuf,
    /// `SLUICE_PLAN_RANKS`: ids of its participants by rank, with commas between; `None`: the plan's own order.
    pub ranks: Option<Vec<String>>,
    /// `SLUICE_PLAN_COLLECTIVE`: which collective the job is, of a plan for several; `None`: it does not say.
    pub collective: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environ {
    /// Text of the job id; empty: none.
    pub job_id: String,
    /// How the job was recognised, if it was.
    pub source: JobSource,
    pub rank: Option<u32>,
    /// Number of ranks; 0: not known.
    pub ranks: u32,
    /// Part in a parameter-server job; empty: none.
    pub dmlc_role: String,
    pub plan: Option<PlanName>,
}

/// The bytes of a process's environment, as many as are read.
fn bytes_of(pid: u32) -> std::io::Result<Vec<u8>> {
    let file = std::fs::File::open(format!("/proc/{pid}/environ"))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The entries of a process's environment that [`Environ::parse`] reads, and none of the others, which are nobody's business.
///
/// # Errors
/// The system's, if it may not be read or is gone.
pub fn of_jobs(pid: u32) -> std::io::Result<Vec<u8>> {
    Ok(kept(&bytes_of(pid)?))
}

fn kept(bytes: &[u8]) -> Vec<u8> {
    let key =
        |entry: &[u8]| entry.iter().position(|byte| *byte == b'=').and_then(|end| entry.get(..end).map(<[u8]>::to_vec));
    let is_ours = |entry: &&[u8]| key(entry).is_some_and(|key| KEYS.iter().any(|known| known.as_bytes() == key));
    bytes.split(|byte| *byte == 0).filter(is_ours).collect::<Vec<_>>().join(&0)
}

impl Environ {
    /// Of a process of this pid namespace. `None` if it may not be read or is gone.
    pub fn of(pid: u32) -> Option<Environ> {
        Some(Environ::parse(&bytes_of(pid).ok()?))
    }

    /// Of the bytes of an `environ` file.
    pub fn parse(bytes: &[u8]) -> Environ {
        let raw = |key: &str| -> &[u8] {
            debug_assert!(KEYS.contains(&key), "{key} is not among those that a helper passes on");
            let mut entries = bytes.split(|byte| *byte == 0);
            let found = entries.find_map(|entry| entry.strip_prefix(key.as_bytes())?.strip_prefix(b"="));
            found.unwrap_or_default()
        };
        let value = |key: &str| label(raw(key));
        let number = |keys: &[&str]| keys.iter().find_map(|key| value(key).parse::<u32>().ok());
        let pair = |host: &str, port: &str, name: &str| {
            let (host, port) = (value(host), value(port));
            if host.is_empty() { String::new() } else { Label::new(&format!("{name}-{host}:{port}")).into() }
        };
        let choices = [
            (JobSource::Env, value("SLUICE_JOB_ID")),
            (JobSource::Slurm, value("SLURM_JOB_ID")),
            (JobSource::PsLite, pair("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "ps")),
            // As the plug-in for NCCL calls the job; "none" is what torchrun says without an id.
            (JobSource::Torch, Some(value("TORCHELASTIC_RUN_ID")).filter(|id| id != "none").unwrap_or_default()),
            (JobSource::Torch, pair("MASTER_ADDR", "MASTER_PORT", "torch")),
            (JobSource::Mpi, value("PMIX_NAMESPACE")),
            (JobSource::Mpi, pair("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT", "horovod")),
        ];
        let (source, job_id) = choices.into_iter().find(|(_, id)| !id.is_empty()).unwrap_or_default();
        Environ {
            job_id,
            source,
            rank: number(&["RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK", "SLURM_PROCID"]),
            ranks: number(&["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "PMI_SIZE", "SLURM_NTASKS"])
                .unwrap_or(0),
            dmlc_role: value("DMLC_ROLE"),
            plan: plan(raw("SLUICE_PLAN"), raw("SLUICE_PLAN_RANKS"), value("SLUICE_PLAN_COLLECTIVE").parse().ok()),
        }
    }

    /// The part in a parameter-server job.
    pub fn role(&self) -> Role {
        match self.dmlc_role.as_str() {
            "scheduler" => Role::Scheduler,
            "server" => Role::Server,
            "worker" => Role::Worker,
            _ => Role::Peer,
        }
    }

    /// How the job's ranks talk, where the environment tells.
    pub fn pattern(&self) -> Pattern {
        if self.dmlc_role.is_empty() { Pattern::Unknown } else { Pattern::ParameterServer }
    }
}

/// A relative path would mean another file to the daemon than to the job: it names none.
fn plan(file: &[u8], ranks: &[u8], collective: Option<u64>) -> Option<PlanName> {
    if file.first() != Some(&b'/') || file.len() > MAX_PATH {
        return None;
    }
    let id = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ranks = (!ranks.is_empty()).then(|| ranks.split(|byte| *byte == b',').take(MAX_RANKS).map(id).collect());
    Some(PlanName { file: PathBuf::from(OsStr::from_bytes(file)), ranks, collective })
}

/// Bytes from a stranger as a [`Label`]; nothing stays nothing.
pub fn label(bytes: &[u8]) -> String {
    if bytes.is_empty() { String::new() } else { Label::of(bytes).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_source_wins() {
        let environ = Environ::parse(b"SLURM_JOB_ID=77\0SLUICE_JOB_ID=vgg\0RANK=3\0WORLD_SIZE=8\0");
        assert_eq!(
            (environ.job_id.as_str(), environ.source, environ.rank, environ.ranks),
            ("vgg", JobSource::Env, Some(3), 8)
        );
        let ps = Environ::parse(b"DMLC_ROLE=worker\0DMLC_PS_ROOT_URI=10.0.0.1\0DMLC_PS_ROOT_PORT=9000\0");
        assert_eq!((ps.job_id.as_str(), ps.pattern()), ("ps-10.0.0.1:9000", Pattern::ParameterServer));
        assert_eq!(ps.role(), Role::Worker);
        let torch =
            Environ::parse(b"MASTER_ADDR=n0\0MASTER_PORT=29500\0TORCHELASTIC_RUN_ID=none\0SLURM_PROCID=0\0RANK=5\0");
        assert_eq!((torch.job_id.as_str(), torch.source, torch.rank), ("torch-n0:29500", JobSource::Torch, Some(5)));
        let torch = Environ::parse(b"MASTER_ADDR=n0\0MASTER_PORT=29500\0TORCHELASTIC_RUN_ID=llama\0");
        assert_eq!(torch.job_id, "llama");
        let mpi = Environ::parse(b"PMIX_NAMESPACE=2871132161\0OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=3\0");
        assert_eq!((mpi.job_id.as_str(), mpi.source, mpi.rank, mpi.ranks), ("2871132161", JobSource::Mpi, Some(1), 3));
        assert_eq!(Environ::parse(b"PATH=/bin\0XSLUICE_JOB_ID=no\0"), Environ::default());
    }

    #[test]
    fn what_a_helper_passes_on_says_the_same_and_nothing_else() {
        let all: Vec<u8> = KEYS.iter().flat_map(|key| format!("{key}=7\0").into_bytes()).collect();
        let secret = [&all[..], b"AWS_SECRET_ACCESS_KEY=x\0XRANK=3\0RANKX=4\0=RANK\0RANK\0"].concat();
        assert_eq!(Environ::parse(&kept(&secret)), Environ::parse(&secret));
        assert_eq!(kept(&secret), all[..all.len() - 1]);
        assert!(kept(b"HOME=/root\0").is_empty() && kept(b"").is_empty());
    }

    #[test]
    fn a_plan_is_named_by_an_absolute_path() {
        let environ =
            Environ::parse(b"SLUICE_PLAN=/plans/a b.json\0SLUICE_PLAN_RANKS=n2,n0,n1\0SLUICE_PLAN_COLLECTIVE=3\0");
        let ranks = ["n2", "n0", "n1"].map(str::to_owned).to_vec();
        assert_eq!(
            environ.plan,
            Some(PlanName { file: "/plans/a b.json".into(), ranks: Some(ranks), collective: Some(3) })
        );
        assert_eq!(Environ::parse(b"SLUICE_PLAN=plan.json\0").plan, None);
        let long = [b"SLUICE_PLAN=/".as_slice(), &[b'x'; 5000]].concat();
        assert_eq!(Environ::parse(&long).plan, None);
    }

    #[test]
    fn hostile_bytes_become_a_bounded_label() {
        let mut bytes = b"SLUICE_JOB_ID=\x1b[31m\n\"".to_vec();
        bytes.extend(std::iter::repeat_n(0xff, 1000));
        let id = Environ::parse(&bytes).job_id;
        assert!(id.starts_with("\\x1b\\x5b31m\\x0a\\x22") && id.contains('~') && id.len() <= Label::MAX_BYTES, "{id}");
    }
}
