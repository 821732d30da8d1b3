//! What processes of libFuzzer have seen: read from their logs, put together by target, as a table and as lines of
//! `benchmarks/fuzz.tsv`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::record::Stamp;
use crate::shell::root;

/// First line of the record; `sluice-fuzz-targets` reads it too.
const COLUMNS: &str = "target\tdriver\texecutions\tseconds\tedges\tslowest_ms\trss_mib\tfound\tdate\tcommit";

/// What one process, or all of one target, have seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) target: String,
    pub(super) executions: u64,
    /// Of a processor.
    pub(super) seconds: u64,
    /// Edges of the code that were reached.
    pub(super) edges: u64,
    /// Time of the slowest input, whole seconds: libFuzzer says no more.
    pub(super) slowest_s: u64,
    pub(super) rss_mib: u64,
    /// Inputs that broke it, not looked at yet.
    pub(super) broke: Vec<PathBuf>,
    /// The same, small, in the corpus.
    pub(super) kept: Vec<PathBuf>,
    /// Why it did not do what it should.
    pub(super) why: Option<String>,
}

impl Seen {
    pub(super) fn failed(mut self, why: String) -> Seen {
        self.why = Some(why);
        self
    }

    /// Adds what a process's log says, the last word of each kind.
    pub(super) fn read(&mut self, log: &str) {
        let stat = |name: &str| {
            let line =
                log.lines().rev().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        self.executions += stat("number_of_executed_units");
        self.slowest_s = self.slowest_s.max(stat("slowest_unit_time_sec"));
        self.rss_mib = self.rss_mib.max(stat("peak_rss_mb"));
        let words = log.lines().rev().find_map(|line| line.split_once(" cov: "));
        let edges = words.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).unwrap_or(0);
        self.edges = self.edges.max(edges);
    }

    pub(super) fn line(&self) -> String {
        let Seen { target, executions, seconds, edges, .. } = self;
        let end = self.why.clone().unwrap_or_else(|| format!("{} broke it", self.broke.len()));
        format!("{target}: {executions} inputs in {seconds} s of a processor, {edges} edges; {end}")
    }

    /// What has to be looked at.
    pub(super) fn failures(&self) -> Vec<String> {
        let kept = self.kept.iter().map(|path| format!("{}: {}", self.target, path.display()));
        kept.chain(self.why.iter().map(|why| format!("{}: {why}", self.target))).collect()
    }
}

/// One for each target.
pub(super) fn together(all: Vec<Seen>) -> Vec<Seen> {
    let mut targets: BTreeMap<String, Seen> = BTreeMap::new();
    for seen in all {
        let sum = targets
            .entry(seen.target.clone())
            .or_insert_with(|| Seen { target: seen.target.clone(), ..Seen::default() });
        sum.executions += seen.executions;
        sum.seconds += seen.seconds;
        sum.edges = sum.edges.max(seen.edges);
        sum.slowest_s = sum.slowest_s.max(seen.slowest_s);
        sum.rss_mib = sum.rss_mib.max(seen.rss_mib);
        sum.broke.extend(seen.broke);
        sum.why = sum.why.take().or(seen.why);
    }
    targets.into_values().collect()
}

/// A table for the terminal.
pub(super) fn summary(all: &[Seen]) -> String {
    let mut out = format!(
        "{:<22} {:>12} {:>8} {:>8} {:>8} {:>8}  found\n",
        "target", "inputs", "per s", "edges", "slowest", "MiB"
    );
    for seen in all {
        let rate = seen.executions / seen.seconds.max(1);
        let slowest = if seen.slowest_s == 0 { "< 1 s".to_owned() } else { format!("{} s", seen.slowest_s) };
        let Seen { target, executions, edges, rss_mib, .. } = seen;
        let found = seen.why.clone().unwrap_or_else(|| seen.kept.len().to_string());
        let _ = writeln!(out, "{target:<22} {executions:>12} {rate:>8} {edges:>8} {slowest:>8} {rss_mib:>8}  {found}");
    }
    out
}

/// Puts these in the place of what the file says of the same targets and driver.
pub(super) fn record(all: &[Seen], asan: bool) -> Result<(), String> {
    let path = root().join("benchmarks/fuzz.tsv");
    let driver = if asan { "libfuzzer+asan" } else { "libfuzzer" };
    let Stamp { date, commit } = Stamp::now()?;
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, recorded(&old, all, driver, &date, &commit))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn recorded(old: &str, all: &[Seen], driver: &str, date: &str, commit: &str) -> String {
    let key = |line: &str| line.split('\t').take(2).map(str::to_owned).collect::<Vec<_>>();
    let mut lines: BTreeMap<Vec<String>, String> =
        old.lines().skip(1).map(|line| (key(line), line.to_owned())).collect();
    for seen in all.iter().filter(|seen| seen.why.is_none()) {
        let Seen { target, executions, seconds, edges, slowest_s, rss_mib, .. } = seen;
        let (slowest, found) = (slowest_s * 1000, seen.kept.len());
        let line = format!(
            "{target}\t{driver}\t{executions}\t{seconds}\t{edges}\t{slowest}\t{rss_mib}\t{found}\t{date}\t{commit}"
        );
        lines.insert(key(&line), line);
    }
    let mut out = format!("{COLUMNS}\n");
    lines.values().for_each(|line| out = std::mem::take(&mut out) + line + "\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "#2\tINITED cov: 11 ft: 12 corp: 1/1b exec/s: 0 rss: 40Mb\n#4096\tNEW    cov: 935 ft: 1500 corp: 20/3Kb lim: 4096\n\
        stat::number_of_executed_units: 123456\nstat::average_exec_per_sec:     2057\nstat::new_units_added:          61\n\
        stat::slowest_unit_time_sec:    0\nstat::peak_rss_mb:              97\n";

    fn seen(target: &str) -> Seen {
        let mut seen = Seen { target: target.into(), seconds: 60, ..Seen::default() };
        seen.read(LOG);
        seen
    }

    #[test]
    fn a_log_is_read_and_processes_of_a_target_add_up() {
        let one = seen("F01-grpc");
        assert_eq!((one.executions, one.edges, one.rss_mib, one.slowest_s), (123_456, 935, 97, 0));
        let all = together(vec![one.clone(), seen("F02-udp"), one]);
        assert_eq!(
            all.iter().map(|seen| (seen.target.as_str(), seen.executions)).collect::<Vec<_>>(),
            [("F01-grpc", 246_912), ("F02-udp", 123_456)]
        );
        assert!(summary(&all).contains("F01-grpc"));
        assert!(all.iter().all(|seen| seen.failures().is_empty()));
        assert_eq!(seen("F03-p4runtime").failed("no".into()).failures(), ["F03-p4runtime: no"]);
    }

    #[test]
    fn a_record_is_replaced_by_target_and_driver() {
        let first = recorded("", &[seen("F01-grpc")], "libfuzzer", "2026-11-26", "abc");
        let again = recorded(&first, &[seen("F01-grpc"), seen("F02-udp")], "libfuzzer", "2026-11-27", "def");
        let both = recorded(&again, &[seen("F01-grpc")], "libfuzzer+asan", "2026-11-28", "def");
        let lines: Vec<&str> = both.lines().collect();
        assert_eq!((lines.len(), lines[0]), (4, COLUMNS));
        assert!(lines[1].contains("libfuzzer\t123456\t60\t935\t0\t97\t0\t2026-11-27\tdef"), "{}", lines[1]);
        assert!(lines[2].starts_with("F01-grpc\tlibfuzzer+asan\t") && lines[3].starts_with("F02-udp\t"), "{both}");
    }
}
