//! The baseline `fair:mltcp`: its rule against a twin in floats, its program in the kernel, and its end with the run.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluice_schedule::{Nanos, Rate};
use sluice_testbed::job::Arch;
use sluice_testbed::run::{FixedQueue, Placement, Policy, RunPlan, Session, Silent, mltcp, run_once};

use crate::common::{NEVER, ONE_AT_A_TIME, Running, binaries, dir, job, privileged, star};

/// Reads what a socket meets, one event a line, and says what the rule makes of it.
const HARNESS: &str = r#"
#include <stdbool.h>
#include <stdio.h>
typedef unsigned int __u32;
typedef unsigned long long __u64;
#include "mltcp_rule.h"
int main(void)
{
	struct mltcp s = {0};
	char what;
	__u64 a, b, c, d;
	while (scanf(" %c %llu %llu %llu %llu", &what, &a, &b, &c, &d) == 5) {
		__u32 more = 0;
		if (what == 'h')
			mltcp_heard(&s, a, b, c, d);
		else
			more = mltcp_more(&s, (__u32)a, (__u32)b);
		printf("%llu %llu %llu %u %u\n", s.began, s.total, s.pause_us, mltcp_growth(&s), more);
	}
	return 0;
}
"#;

/// What a socket meets.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// An acknowledgement.
    Heard { bytes: u64, gap_us: u64, srtt_us: u64, idle: bool },
    /// Segments acknowledged in congestion avoidance, at this window.
    Acked { cwnd: u32, acked: u32 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let gap = prop_oneof![0..2_000_u64, 5_000..60_000_u64, 50_000..900_000_u64];
    let heard = (0..200_000_u64, gap, 0..8_000_u64, any::<bool>());
    let heard = heard.prop_map(|(bytes, gap_us, srtt_us, idle)| Event::Heard { bytes, gap_us, srtt_us, idle });
    let acked = (1..500_u32, 1..60_u32).prop_map(|(cwnd, acked)| Event::Acked { cwnd, acked });
    proptest::collection::vec(prop_oneof![2 => heard, 1 => acked], 1..200)
}

/// The rule again, in floats, from what was published and from the header's words.
#[derive(Clone, Debug, Default)]
struct Twin {
    began: f64,
    acked: f64,
    total: Option<f64>,
    heard: Option<f64>,
    pause: f64,
    grown: f64,
    idle: bool,
}

impl Twin {
    fn growth(&self) -> f64 {
        let ratio = self.total.map(|total| ((self.acked - self.began) / total).min(1.0));
        ratio.map_or(1.0, |ratio| 1.75 * ratio + 0.25)
    }

    fn heard(&mut self, acked: f64, now: f64, srtt: f64, idle: bool) {
        let least = (4.0 * srtt).max(10_000.0).max(self.pause / 2.0);
        let pause = self.heard.map(|before| now - before).filter(|gap| self.idle && *gap > least);
        if let Some(gap) = pause {
            let bytes = self.acked - self.began;
            let total = self.total.unwrap_or(0.0);
            let learned = if bytes >= total { bytes } else { total - (total - bytes) / 4.0 };
            self.total = (learned >= 1.0).then_some(learned);
            self.pause = if gap >= self.pause { gap } else { self.pause - (self.pause - gap) / 8.0 };
            self.began = self.acked;
        }
        (self.acked, self.heard, self.idle) = (acked, Some(now), idle);
    }
}

/// Compiles the harness and gives it each run of events; its lines as numbers.
fn answers(program: &Path, events: &[Event]) -> Vec<Vec<f64>> {
    let (mut text, mut bytes, mut now) = (String::new(), 0, 1_000_000);
    for event in events {
        let written = match *event {
            Event::Heard { bytes: more, gap_us, srtt_us, idle } => {
                (bytes, now) = (bytes + more, now + gap_us);
                writeln!(text, "h {bytes} {now} {srtt_us} {}", u8::from(idle))
            }
            Event::Acked { cwnd, acked } => writeln!(text, "a {cwnd} {acked} 0 0"),
        };
        written.expect("a text");
    }
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the harness");
    // All of it fits into the pipe's buffer: a harness that answers late blocks nobody.
    assert!(text.len() < 32 << 10);
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let said = child.wait_with_output().expect("its end");
    let lines = String::from_utf8(said.stdout).expect("text");
    let numbers = |line: &str| line.split(' ').map(|n| n.parse().expect("a number")).collect();
    lines.lines().map(numbers).collect()
}

/// The rule as a program of this machine.
fn harness(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("rule.c"), dir.join("rule"));
    std::fs::write(&source, HARNESS).expect("written");
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(headers).arg(&source).arg("-o").arg(&program);
    assert!(cc.status().expect("a C compiler").success());
    program
}

#[test]
fn a_window_grows_by_the_published_rule() {
    let (_keep, dir) = dir();
    let program = harness(&dir);
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let same = |events: Vec<Event>| {
        let said = answers(&program, &events);
        prop_assert_eq!(said.len(), events.len());
        let (mut twin, mut bytes, mut now) = (Twin::default(), 0.0, 1e6);
        for (event, said) in events.iter().zip(said) {
            let [began, total, pause, growth, more] = said[..] else { panic!("{said:?}") };
            match *event {
                Event::Heard { bytes: new, gap_us, srtt_us, idle } => {
                    (bytes, now) = (bytes + new as f64, now + gap_us as f64);
                    // Whole bytes and microseconds are cut off: a decision on the edge may fall either way.
                    let least = (4.0 * srtt_us as f64).max(10_000.0).max(twin.pause / 2.0);
                    prop_assume!((gap_us as f64 - least).abs() > 4.0);
                    twin.heard(bytes, now, srtt_us as f64, idle);
                    prop_assert!((began - twin.began).abs() < 0.5, "{began} {twin:?}");
                    prop_assert!((total - twin.total.unwrap_or(0.0)).abs() < 4.5, "{total} {twin:?}");
                    prop_assert!((pause - twin.pause).abs() < 8.5, "{pause} {twin:?}");
                    // From here on with its own total, so that what is cut off does not add up.
                    twin.total = (total > 0.0).then_some(total);
                    twin.pause = pause;
                    prop_assert!((growth / 1024.0 - twin.growth()).abs() < 2e-3, "{growth} {twin:?}");
                    prop_assert!((0.25 * 1024.0..=2.0 * 1024.0).contains(&growth));
                }
                Event::Acked { cwnd, acked } => {
                    let (cwnd, acked) = (f64::from(cwnd), f64::from(acked));
                    // What was left of a larger window makes one segment at most.
                    let credit = twin.grown.min(1.0) + growth / 1024.0 * acked / cwnd;
                    prop_assert!(
                        more <= credit + 1e-6 && more >= growth / 1024.0 * acked / cwnd - 1.0,
                        "{more} {credit}"
                    );
                    twin.grown = 1.0;
                }
            }
        }
        Ok(())
    };
    runner.run(&events(), same).expect("the rule");
}

#[test]
fn a_round_trip_at_the_end_of_an_iteration_grows_eight_times_as_much_as_at_its_begin() {
    let (_keep, dir) = dir();
    let heard = |bytes, gap_us, idle| Event::Heard { bytes, gap_us, srtt_us: 500, idle };
    let events = [
        // Nothing is known: Reno.
        heard(5_000, 100, false),
        // A long pause with data left to send is none between rounds, nor is a short one in which others are waited for.
        heard(1_000, 90_000, false),
        heard(1_000, 100, true),
        heard(1_000, 9_000, true),
        // After 100 ms with nothing to send a second round begins.
        heard(0, 100_000, false),
        heard(4_000, 100, false),
        heard(5_000, 100, false),
    ];
    let growth: Vec<f64> = answers(&harness(&dir), &events).iter().map(|said| said[3] / 1024.0).collect();
    assert_eq!(growth, [1.0, 1.0, 1.0, 1.0, 0.25, 1.125, 2.0]);
}

fn registered() -> bool {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = std::fs::read_to_string(path).expect("what the kernel has");
    text.split_whitespace().any(|name| name == mltcp::NAME)
}

fn until(what: impl Fn() -> bool) -> bool {
    (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        what()
    })
}

#[test]
fn jobs_run_under_it_and_the_kernel_forgets_it() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let programs = binaries();
    let jobs = ["a", "b"].map(|id| sluice_testbed::run::JobPlan {
        compute: vec![Nanos::from_millis(60)],
        ..job(id, Arch::Ring, 2, 0, 1_000_000, 6)
    });
    let plan = RunPlan { fabric: star(2, Rate::mbps(200)), jobs: jobs.into(), ..RunPlan::default() };
    let places = vec![Placement { workers: vec![0, 1], servers: Vec::new() }; 2];
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let policy = "fair:mltcp".parse::<Policy>().expect("a policy");
    assert!(!registered());
    let run = run_once(&plan, &mut FixedQueue::new(places), &policy, &session, &mut Silent).expect("a run");
    assert!(!registered());
    for job in &run.jobs {
        assert_eq!(job.rounds.len(), 6);
        assert_eq!(job.tcp.keys().collect::<Vec<_>>(), [mltcp::NAME], "{:?}", job.tcp);
        // Two flows with half a gradient's chunks each way, every round.
        assert!(job.acked >= 2 * 6 * 1_000_000, "{}", job.acked);
    }
}

#[test]
fn it_is_gone_when_the_program_that_registered_it_is_killed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let file = dir.join("long.toml");
    std::fs::write(&file, crate::scoreboard::tiny(500)).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-experiment"));
    command.args(["--dir"]).arg(dir.join("files")).arg("scenario").arg(&file).args(["--policy", "fair:mltcp"]);
    let running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program"));
    assert!(until(registered), "never registered");
    // SIGKILL: nothing of it can tidy up.
    drop(running);
    assert!(until(|| !registered()), "still registered");
}
