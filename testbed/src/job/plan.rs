//! The plan of a job: read, checked, and held against the job that is to carry it out.

use sluice_plan::follow::{Followed, Job};
use sluice_plan::plan::MAX_DAEMON_BYTES;

use super::JobError;
use super::file::{JobFile, PlanFile};

/// Reads the plan of a job.
///
/// # Errors
/// [`JobError::Plan`] with everything that is wrong with the plan, or with it and this job together.
pub fn read(file: &JobFile, plan: &PlanFile) -> Result<Followed, JobError> {
    let name = plan.file.display().to_string();
    let meta = std::fs::metadata(&plan.file).map_err(|error| JobError::Plan(format!("{name}: {error}")))?;
    if !meta.is_file() || meta.len() > MAX_DAEMON_BYTES as u64 {
        let most = MAX_DAEMON_BYTES;
        return Err(JobError::Plan(format!("{name}: not a file of at most {most} bytes")));
    }
    let bytes = std::fs::read(&plan.file).map_err(|error| JobError::Plan(format!("{name}: {error}")))?;
    let ranks = (!plan.ranks.is_empty()).then_some(plan.ranks.as_slice());
    let job = Job { ranks, collective: plan.collective };
    let followed = Followed::by(&bytes, &name, job, None).map_err(|e| JobError::Plan(e.to_string()))?;
    if followed.participants.len() != file.workers {
        let (n, workers) = (followed.participants.len(), file.workers);
        return Err(JobError::Plan(format!("{name} is for {n} ranks; the job has {workers} workers")));
    }
    let hosts: Vec<&str> = file.members[file.workers..].iter().map(|member| member.host.as_str()).collect();
    if followed.relays != hosts {
        let (relays, hosts) = (followed.relays.join(", "), hosts.join(", "));
        return Err(JobError::Plan(format!("{name} has relays at [{relays}]; the job has some at [{hosts}]")));
    }
    Ok(followed)
}
