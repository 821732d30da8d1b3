//! What a program costs the kernel's verifier, read from its log: instructions that it had to process and stack that the
//! program may use. Programs near the verifier's limits load today and are refused by the next kernel.

use aya_obj::generated::bpf_insn;

use crate::sys::{self, BpfError};

const PROG_TYPE_SOCK_OPS: u32 = 13;
const PROG_TYPE_TRACING: u32 = 26;
const ATTACH_SOCK_OPS: u32 = 3;
const ATTACH_ITER: u32 = 28;

/// What a program is loaded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A member of a struct of functions.
    StructOps {
        /// The struct's number in the kernel's BTF.
        structure: u32,
        /// The member's index.
        member: u32,
    },
    /// A cgroup's program for events of sockets.
    SockOps,
    /// An iterator.
    Iter {
        /// The number of its function in the kernel's BTF.
        function: u32,
    },
}

/// What the verifier had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Instructions processed, each as often as a path led there.
    pub processed: u32,
    /// Bytes of stack, of all its functions together.
    pub stack: u32,
}

/// Why nothing is known of a program's costs.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The kernel refused it; the verifier's words come with it.
    #[error(transparent)]
    Kernel(#[from] BpfError),
    /// The verifier said nothing that is known.
    #[error("the verifier's log of {program} has no line of this form, {wanted:?}: {log:?}")]
    Log {
        /// The program that was loaded.
        program: String,
        /// How the line that was looked for begins.
        wanted: &'static str,
        /// What it said instead.
        log: String,
    },
}

/// Has a program verified and forgets it.
///
/// # Errors
/// [`VerifyError`].
pub fn costs(name: &str, instructions: &[bpf_insn], kind: Kind) -> Result<Costs, VerifyError> {
    let (of_type, attach, btf_id) = match kind {
        Kind::StructOps { structure, member } => (sys::PROG_TYPE_STRUCT_OPS, member, structure),
        Kind::SockOps => (PROG_TYPE_SOCK_OPS, ATTACH_SOCK_OPS, 0),
        Kind::Iter { function } => (PROG_TYPE_TRACING, ATTACH_ITER, function),
    };
    let log = sys::costs(name, instructions, of_type, attach, btf_id)?;
    read(&log).map_err(|wanted| VerifyError::Log { program: name.to_owned(), wanted, log })
}

const PROCESSED: &str = "processed ";
const STACK: &str = "stack depth ";

/// Reads `processed 1234 insns (limit 1000000) …` and `stack depth 64+16`.
fn read(log: &str) -> Result<Costs, &'static str> {
    let after = |begin: &'static str| log.lines().filter_map(|line| line.strip_prefix(begin)).next_back().ok_or(begin);
    let processed = after(PROCESSED)?.split(' ').next().and_then(|word| word.parse().ok()).ok_or(PROCESSED)?;
    let mut stack = 0_u32;
    for part in after(STACK)?.split('+') {
        let bytes: u32 = part.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or(STACK)?;
        stack = stack.saturating_add(bytes);
    }
    Ok(Costs { processed, stack })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_read_whatever_stands_around_them() {
        let log = "verification time 480 usec\nstack depth 136+0+24\nprocessed 1234 insns (limit 1000000) \
                   max_states_per_insn 4 total_states 50 peak_states 50 mark_read 10";
        assert_eq!(read(log), Ok(Costs { processed: 1234, stack: 160 }));
        // Newer kernels say more behind the depth.
        let newer = "stack depth 88 max 88\nprocessed 7 insns";
        assert_eq!(read(newer), Ok(Costs { processed: 7, stack: 88 }));
    }

    #[test]
    fn a_log_that_says_nothing_is_told() {
        assert_eq!(read(""), Err(PROCESSED));
        assert_eq!(read("processed many insns"), Err(PROCESSED));
        assert_eq!(read("processed 1 insns"), Err(STACK));
        assert_eq!(read("processed 1 insns\nstack depth deep"), Err(STACK));
    }
}
