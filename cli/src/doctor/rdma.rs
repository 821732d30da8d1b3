//! Is there RDMA on this host? What moves by it never passes a socket.

use std::fs;
use std::path::Path;

use super::Check;

/// Where the kernel lists the devices.
pub const DEVICES: &str = "/sys/class/infiniband";

/// The devices below `root`: Sluice neither manages nor measures what they move.
pub fn rdma(root: &Path) -> Check {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if names.is_empty() {
        return Check::ok("rdma", "no RDMA devices: all traffic of jobs passes sockets");
    }
    Check::info("rdma", format!("RDMA devices: {}", names.join(", ")))
        .cost("what jobs move by RDMA (InfiniBand, RoCE) is neither managed nor measured")
        .fix("NCCL_IB_DISABLE=1 in a job's environment makes NCCL use TCP")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn devices_are_named_with_what_that_costs() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(rdma(&root.path().join("none")).state, State::Ok);
        assert_eq!(rdma(root.path()).state, State::Ok);
        for name in ["mlx5_1", "mlx5_0"] {
            fs::create_dir(root.path().join(name)).expect("made");
        }
        let check = rdma(root.path());
        assert_eq!((check.state, check.found.as_str()), (State::Info, "RDMA devices: mlx5_0, mlx5_1"));
        assert!(check.cost.contains("neither managed nor measured"), "{}", check.cost);
    }
}
