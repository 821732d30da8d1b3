//! One target over its corpus and over edits of it, in this process: which input took longest, and which one broke it.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::mutate::mutate;
use crate::random::Random;
use crate::{MAX_INPUT, Seed, Target, corpus};

/// An input that takes this long is one that never ends.
const HANGS: Duration = Duration::from_secs(60);
/// Address space of the process at most: an input that asks for all memory there is ends this process and not the machine.
const MEMORY: u64 = 4 << 30;
/// Bytes of an edited input at most, unless the input it was made of is longer.
const MOST: usize = 8 << 10;
/// How often the slowest input is tried again where it was slower than it may be.
const AGAIN: usize = 5;

/// What a replay saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Inputs that were fed.
    pub inputs: u64,
    /// Time of the slowest.
    pub slowest: Duration,
    /// The slowest.
    pub slowest_input: Vec<u8>,
}

/// Feeds all inputs, and then so many edits of them, the same ones in every run with this seed. Where one breaks the target
/// or never ends, it is written into `kept`, and this panics with its path.
///
/// # Panics
/// As said; that is how a target fails.
pub fn replay(target: &'static Target, inputs: Vec<Seed>, edits: usize, seed: u64, kept: &Path) -> Seen {
    limit_memory();
    let at_work: Arc<Mutex<Vec<u8>>> = Arc::default();
    // What ends the process leaves its input here.
    let last = kept.join(format!("{}-last", target.name));
    let file = fs::create_dir_all(kept).and_then(|()| fs::File::create(&last));
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", last.display()));
    let (done, ended) = channel();
    let current = Arc::clone(&at_work);
    // In a thread of its own, so that one that never ends is told.
    let worker = std::thread::spawn(move || {
        let mut seen = Seen::default();
        let mut feed = |bytes: Vec<u8>| {
            current.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&bytes);
            let noted = file.set_len(0).and_then(|()| file.write_all_at(&bytes, 0));
            noted.unwrap_or_else(|error| panic!("the input cannot be noted: {error}"));
            let took = timed(target, &bytes);
            seen.inputs += 1;
            if took > seen.slowest {
                (seen.slowest, seen.slowest_input) = (took, bytes);
            }
            // Nobody listens any more where the test is over.
            let _ = done.send(());
        };
        inputs.iter().for_each(|input| feed(input.bytes.clone()));
        let mut random = Random::new(seed);
        for _ in 0..edits {
            let empty = Seed::new("", []);
            let (input, other) = (random.of(&inputs).unwrap_or(&empty), random.of(&inputs).unwrap_or(&empty));
            feed(mutate(
                target.shape,
                &input.bytes,
                &other.bytes,
                &mut random,
                MOST.max(input.bytes.len()).min(MAX_INPUT),
            ));
        }
        seen
    });
    let now = || at_work.lock().unwrap_or_else(PoisonError::into_inner).clone();
    loop {
        match ended.recv_timeout(HANGS) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let path = keep(kept, target, &now());
                panic!("{}: {} takes more than {HANGS:?}", target.name, path.display());
            }
        }
    }
    let joined = worker.join();
    let _ = fs::remove_file(&last); // It has done its work.
    match joined {
        Ok(mut seen) => {
            for _ in 0..AGAIN {
                // A busy machine may have taken the time.
                seen.slowest = seen.slowest.min(timed(target, &seen.slowest_input));
            }
            seen
        }
        Err(panic) => {
            let path = keep(kept, target, &now());
            eprintln!(
                "{} fails on {}: look at it, put it into {} once it is mended",
                target.name,
                path.display(),
                corpus::folder(target).display()
            );
            resume_unwind(panic);
        }
    }
}

fn limit_memory() {
    let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
    // SAFETY: the limit is read, and nothing else.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
}

fn timed(target: &Target, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))) {
        resume_unwind(panic);
    }
    begun.elapsed()
}

/// Writes the input that broke a target, under the name that it will have in the corpus.
fn keep(kept: &Path, target: &Target, bytes: &[u8]) -> PathBuf {
    let path = kept.join(format!("{}-{}", target.name, corpus::found_name(bytes)));
    if let Err(error) = fs::create_dir_all(kept).and_then(|()| fs::write(&path, bytes)) {
        eprintln!("{}: {error}", path.display());
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::Shape;

    fn breaks(bytes: &[u8]) {
        assert!(bytes.len() < 3, "three bytes are too many");
    }

    static BREAKS: Target =
        Target { name: "F00-test", parser: "", property: "", shape: Shape::Bytes, run: breaks, seeds: Vec::new };

    #[test]
    fn what_breaks_a_target_is_kept_and_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        let seen = replay(&BREAKS, vec![Seed::new("a", [1, 2])], 0, 1, &path);
        assert_eq!(seen.inputs, 1);
        let inputs = vec![Seed::new("a", [1, 2]), Seed::new("b", [1, 2, 3])];
        let failed = catch_unwind(AssertUnwindSafe(|| replay(&BREAKS, inputs, 10, 1, &path)));
        assert!(failed.is_err());
        let kept = fs::read(dir.path().join(format!("F00-test-{}", corpus::found_name(&[1, 2, 3])))).expect("kept");
        assert_eq!(kept, [1, 2, 3]);
    }
}
