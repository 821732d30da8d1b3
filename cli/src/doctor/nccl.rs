//! Does another profiler have the one place that NCCL has for it?

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::Check;

/// The variable by which a job names its profiler.
const VARIABLE: &[u8] = b"NCCL_PROFILER_PLUGIN=";
/// Bytes of an environment that are looked at.
const MAX_BYTES: u64 = 256 << 10;

/// Looks at the environments of all processes below `proc`; nothing where no job names a profiler.
pub fn profiler(proc: &Path) -> Option<Check> {
    let (mut ours, mut others, mut jobs) = (0_usize, BTreeSet::new(), 0_usize);
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let mut environment = Vec::new();
        let read =
            File::open(entry.path().join("environ")).map(|file| file.take(MAX_BYTES).read_to_end(&mut environment));
        if !matches!(read, Ok(Ok(_))) {
            continue;
        }
        let value = environment.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(VARIABLE));
        match value.map(|value| sluice_formats::problem::printable(&String::from_utf8_lossy(value), 80)) {
            None => {}
            Some(name) if name.contains("sluice") => ours += 1,
            Some(name) => {
                jobs += 1;
                others.insert(name);
            }
        }
    }
    let others: Vec<String> = others.into_iter().collect();
    match (ours, jobs) {
        (0, 0) => None,
        (ours, 0) => Some(Check::ok("nccl-profiler", format!("NCCL's profiler is Sluice's in {ours} processes"))),
        (_, jobs) => Some(
            Check::info("nccl-profiler", format!("NCCL's profiler is {} in {jobs} processes", others.join(", ")))
                .cost("their rounds are inferred from traffic")
                .fix("NCCL_PROFILER_PLUGIN = Sluice's library, with SLUICE_NCCL_NEXT = the other one: both are told"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn another_profiler_is_named_with_the_way_to_have_both() {
        let dir = tempfile::tempdir().expect("a directory");
        let process = |pid: &str, environment: &str| {
            fs::create_dir(dir.path().join(pid)).expect("made");
            fs::write(dir.path().join(pid).join("environ"), environment).expect("written");
        };
        process("1", "A=1\0B=2\0");
        process("self", "NCCL_PROFILER_PLUGIN=not-a-pid\0");
        assert_eq!(profiler(dir.path()), None);
        process("2", "A=1\0NCCL_PROFILER_PLUGIN=/usr/lib/libnccl-profiler-sluice.so\0");
        assert_eq!(profiler(dir.path()).map(|check| check.state), Some(State::Ok));
        process("3", "NCCL_PROFILER_PLUGIN=inspector\0");
        let check = profiler(dir.path()).expect("a check");
        assert!(check.state == State::Info && check.found.contains("is inspector in 1 process"), "{check:?}");
        assert!(check.fix.contains("SLUICE_NCCL_NEXT"), "{check:?}");
    }
}
