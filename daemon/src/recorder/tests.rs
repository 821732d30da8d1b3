//! Events become lines that the reader takes, with the bytes that rounds had at their ends.

use sluice_formats::recording::parse;
use sluice_schedule::{HostId, JobSpec};

use super::*;

struct World(u64);

impl Known for World {
    fn job(&self, job: JobId) -> Option<(&str, u64)> {
        (job == JobId(7)).then_some(("vgg19", self.0))
    }
    fn receiver(&self, spec: &FlowSpec) -> String {
        format!("h{}", spec.to.0)
    }
}

const JOB: JobId = JobId(7);

fn at(ms: u64) -> Now {
    Now { wall: Nanos::from_millis(ms), mono: Nanos::from_millis(5 * ms), ..Now::default() }
}

fn opened(flow: u64) -> Event {
    let role = schedule::Role::RingNext;
    Event::FlowOpened(FlowSpec { flow: FlowId(flow), job: JOB, to: HostId(2), role, ..FlowSpec::default() })
}

fn began(bytes: u64) -> Event {
    Event::RoundBegan { job: JOB, flows: vec![(FlowId(1), Bytes(bytes)), (FlowId(2), Bytes(0))] }
}

fn demand(bytes: u64) -> Event {
    Event::DemandChanged { flow: FlowId(1), demand: Bytes(bytes) }
}

fn ended(round: u64) -> EndedRound {
    EndedRound { job: JOB, round, took: Nanos(1) }
}

#[test]
fn rounds_are_told_with_the_bytes_they_had_at_their_ends() {
    let seen = Event::JobSeen(JobSpec { job: JOB, pattern: schedule::Pattern::Ring });
    let links = Vec::new();
    let mut out =
        vec![Line::Start { version: 1, host: "h1".into(), addresses: Vec::new(), links, slot_ms: 60, unix_ns: 0 }];
    let mut notes = Notes::default();
    // A round that was under way when the recorder began has no beginning, and is not told.
    notes.turn(at(1), &[seen.clone(), opened(1), demand(5)], &[ended(0)], &World(0), &mut out);
    notes.turn(at(2), &[seen.clone(), opened(1), opened(2), began(100)], &[], &World(1), &mut out);
    notes.turn(at(3), &[demand(150)], &[], &World(1), &mut out);
    notes.turn(at(4), &[demand(120)], &[ended(1)], &World(1), &mut out);
    // The pause between the next two cannot be seen; the third begins and ends in one turn.
    notes.turn(at(5), &[began(200)], &[], &World(2), &mut out);
    notes.turn(at(6), &[demand(210), began(300)], &[ended(2)], &World(3), &mut out);
    notes.turn(at(7), &[], &[ended(3)], &World(3), &mut out);
    notes.turn(at(8), &[began(400), demand(410)], &[ended(4)], &World(4), &mut out);
    // A job that goes in the middle of a round.
    notes.turn(at(9), &[began(500), Event::JobGone(JOB)], &[], &World(5), &mut out);
    notes.turn(at(10), &[], &[ended(5)], &World(5), &mut out);
    let text: String = out.iter().map(Line::text).collect();
    let read = parse(&text, "x").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let rounds: Vec<_> = read.rounds.iter().map(|r| (r.began / 1_000_000, r.ended / 1_000_000, &r.flows[..])).collect();
    let flows = |bytes| vec![("h2".to_owned(), Role::Ring, bytes)];
    let wanted = [(2, 4, flows(120)), (5, 6, flows(210)), (6, 7, flows(300)), (8, 8, flows(410))];
    assert_eq!(rounds, wanted.iter().map(|(b, e, f)| (*b, *e, &f[..])).collect::<Vec<_>>());
    assert_eq!(read.jobs.values().collect::<Vec<_>>(), [&("vgg19".to_owned(), Pattern::Ring)]);
    assert!(notes.flows.is_empty() && notes.demands.is_empty() && notes.open.is_empty());
}

#[test]
fn a_disk_that_does_not_keep_up_costs_lines_that_are_counted() {
    let (lines, from) = sync_channel(2);
    let mut recorder = Recorder {
        notes: Notes::default(),
        path: PathBuf::new(),
        max_bytes: 0,
        lines: Some(lines),
        lost: 0,
        writer: None,
    };
    (0..5).for_each(|_| recorder.say(Line::Full {}));
    assert_eq!(recorder.lost, 3);
    let taken: Vec<Line> = from.try_iter().collect();
    assert_eq!(taken.len(), 2);
    recorder.say(Line::Full {});
    assert_eq!(from.try_iter().collect::<Vec<_>>(), [Line::Lost { lines: 3 }, Line::Full {}]);
    drop(from);
    (0..2).for_each(|_| recorder.say(Line::Full {}));
    assert!(recorder.lines.is_none());
}
