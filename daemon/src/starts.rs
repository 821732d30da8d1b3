//! When this daemon was last started without having ended in order: many such starts in a minute are a crash loop.
//!
//! One small file in the run directory with the times of the last starts, CLOCK_MONOTONIC. A start adds its own, an end
//! in order removes them all, so that upgrades and restarts by hand are no loop however many they are. A torn or foreign
//! file counts as none; what cannot be written is told in the log and changes nothing else.
//!
//! A start waits for the disk until it is noted, before anything is decided: a crash that follows must find it there. Whoever
//! started the loop waits for 30 s at most. An end waits for no disk: what it has removed may be there again after a loss of
//! power, and then the machine was started anew.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sluice_schedule::Nanos;

/// So many starts ...
pub const LOOP: usize = 5;
/// ... within this time, this one included, are a loop. The unit file gives up at the same number.
pub const WITHIN: Nanos = Nanos::from_millis(60_000);
/// Bytes of the file at most.
const MAX_BYTES: u64 = 4 << 10;

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    schema: u32,
    starts_ns: Vec<u64>,
}

/// The file with the last starts.
#[derive(Clone, Debug)]
pub struct Starts {
    path: PathBuf,
}

impl Starts {
    /// The one of this run directory.
    pub fn new(run_dir: &Path) -> Starts {
        Starts { path: run_dir.join("starts.json") }
    }

    /// Where they are kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes a start at `now` and returns how many there were lately that did not end in order, this one included.
    pub fn note(&self, now: Nanos) -> usize {
        let mut starts = self.read();
        // What lies ahead was written before the machine was started anew.
        starts.retain(|at| *at <= now && now.minus(*at) < WITHIN);
        starts.push(now);
        let surplus = starts.len().saturating_sub(LOOP);
        starts.drain(..surplus);
        self.write(&starts);
        starts.len()
    }

    /// It ends in order, or somebody has looked: the next start begins anew.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.path); // Absent is as good.
    }

    fn read(&self) -> Vec<Nanos> {
        let small = std::fs::symlink_metadata(&self.path).is_ok_and(|m| m.is_file() && m.len() <= MAX_BYTES);
        let text = if small { std::fs::read_to_string(&self.path).unwrap_or_default() } else { String::new() };
        let file: File = serde_json::from_str(&text).unwrap_or_default();
        if file.schema == 1 { file.starts_ns.into_iter().map(Nanos).collect() } else { Vec::new() }
    }

    fn write(&self, starts: &[Nanos]) {
        let file = File { schema: 1, starts_ns: starts.iter().map(|at| at.0).collect() };
        crate::rundir::replace(&self.path, &file);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_units::unit::Unit;
    use sluice_units::value;

    use super::*;
    use crate::daemon::{EXIT_INVALID, EXIT_NO, EXIT_TAKEN};

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn starts_that_do_not_end_in_order_add_up_within_a_minute() {
        let dir = tempfile::tempdir().expect("a directory");
        let starts = Starts::new(dir.path());
        let counts: Vec<usize> = (1..=4).map(|n| starts.note(at(n * 1000))).collect();
        assert_eq!(counts, [1, 2, 3, 4]);
        assert_eq!(starts.note(at(61_500)), 4, "the first of them is older than a minute");
        assert_eq!(starts.note(at(61_600)), LOOP);
        assert_eq!(starts.note(at(61_700)), LOOP, "no more than that are kept");
        starts.forget();
        assert_eq!(starts.note(at(61_800)), 1, "an end in order");
        starts.forget();
        starts.forget();
    }

    /// Promises: P-24, P-25, P-38
    #[test]
    fn any_file_is_survived_and_another_boot_counts_for_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let starts = Starts::new(dir.path());
        let file = dir.path().join("starts.json");
        (0..9).for_each(|n| assert!(starts.note(at(900_000 + n)) <= LOOP));
        assert_eq!(starts.note(at(10)), 1, "the machine was started anew");
        let huge = format!(r#"{{"schema":1,"starts_ns":[{}1]}}"#, "1,".repeat(4096));
        for text in ["", "{", r#"{"schema":2,"starts_ns":[1,1,1,1,1]}"#, r#"{"schema":1,"starts_ns":[-1]}"#, &huge] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(starts.note(at(20)), 1, "{}", &text[..text.len().min(60)]);
        }
        assert_eq!(Starts::new(Path::new("/no/such/directory")).note(at(1)), 1, "nowhere to write");
    }

    /// Promises: P-24
    #[test]
    fn the_unit_starts_it_again_soon_and_as_often_as_it_takes_to_stay_out_of_the_way() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a repository");
        let unit = Unit::read(&repository.join("deploy/systemd/sluiced.service"), &[]).expect("a unit");
        // Fewer, and none would come to be the one that stays out; more, and one that dies of something else goes on dying.
        assert_eq!(unit.all("Unit", "StartLimitBurst"), [LOOP.to_string()]);
        let within = Duration::from_nanos(WITHIN.0);
        let interval = unit.all("Unit", "StartLimitIntervalSec").last().and_then(|text| value::time(text));
        assert_eq!(interval, Some(within));
        // What was killed, what aborted, and what the watchdog found hanging.
        assert_eq!(unit.one("Restart"), Some("on-failure"));
        let useless = [EXIT_INVALID, EXIT_NO, EXIT_TAKEN].map(|status| status.to_string());
        assert_eq!(unit.words("RestartPreventExitStatus").collect::<Vec<_>>(), useless);
        let pause = unit.time("RestartSec").expect("a pause");
        assert!(pause * 100 < within, "those that die at once are a loop: {pause:?}");
        let page = std::fs::read_to_string(repository.join("docs/operating.md")).expect("a page");
        let said = format!("by its unit {} ms after a crash", pause.as_millis());
        assert!(page.contains(&said), "docs/operating.md does not say {said:?}");
    }
}
