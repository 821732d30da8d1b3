//! The coverage-guided driver: libFuzzer's program for the target that `SLUICE_FUZZ_TARGET` names. `cargo xtask fuzz` builds
//! it with what counts coverage, and gives it its options.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use sluice_fuzz_targets::mutate::mutate;
use sluice_fuzz_targets::random::Random;
use sluice_fuzz_targets::targets::frames::{PROGRAM, program_runs};
use sluice_fuzz_targets::{Target, find};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("SLUICE_FUZZ_TARGET").unwrap_or_default();
    let target = find(&name).unwrap_or_else(|| {
        refuse(&format!(
            "SLUICE_FUZZ_TARGET is {name:?}; allowed is a folder of testbed/fuzz-targets/corpus, or its number"
        ))
    });
    if target.name == PROGRAM.name
        && let Err(why) = program_runs()
    {
        refuse(&format!("{}: the kernel's program cannot be run: {why}", target.name));
    }
    target
});

/// Ends without what libFuzzer does at an exit: it would take the input at hand for one that broke the target.
fn refuse(why: &str) -> ! {
    eprintln!("{why}");
    // SAFETY: it ends this process and touches nothing of it.
    unsafe { libc::_exit(2) }
}

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));

// By turns libFuzzer's own edits, which know what comparisons failed, and ours, which know the language.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed.into());
    if random.once_in(2) {
        return fuzzer_mutate(data, size, max_size);
    }
    let input = data.get(..size).unwrap_or_default().to_vec();
    let edited = mutate(TARGET.shape, &input, &input, &mut random, max_size);
    let count = edited.len().min(data.len());
    data[..count].copy_from_slice(&edited[..count]);
    count
});
