//! Hosts that saw a job each in its own way give one job; what cannot be whole is replayed flow by flow.

use super::*;
use crate::{Arch, Scenario};
use proptest::prelude::*;
use sluice_formats::document::Notation;
use sluice_formats::problem::E_DUP;
use sluice_formats::recording::{Host, Link, Pattern, Role, Round};
use std::path::Path;

const MS: u64 = 1_000_000;

fn recording(host: &str, jobs: &[(&str, Pattern)], rounds: Vec<Round>) -> (String, Recording) {
    let address = host.replace('h', "10.0.0.");
    let links = vec![Link { name: "eth0".into(), rate: 1_000_000_000 }];
    let host = Host { name: host.into(), addresses: vec![address], links };
    let jobs = jobs.iter().map(|(job, pattern)| (job.to_string(), (format!("job {job}"), *pattern))).collect();
    (format!("{}.rec", host.name), Recording { host, slot_ms: 60, jobs, rounds, ..Recording::default() })
}

fn round(job: &str, began_ms: u64, ended_ms: u64, flows: &[(&str, Role, u64)]) -> Round {
    let flows = flows.iter().map(|(to, role, bytes)| (to.to_string(), *role, *bytes)).collect();
    Round { job: job.into(), began: began_ms * MS, ended: ended_ms * MS, flows }
}

fn scenario(replay: &Replay) -> Scenario {
    let text = replay.scenario.to_string();
    Scenario::parse(&text, Notation::Json, "replay.json", Path::new(".")).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Three hosts in a ring; each sends 400 kB on two connections in each of four rounds, 100 ms after the last one.
fn ring(host: usize, skip: usize, late_ms: u64) -> (String, Recording) {
    let to = format!("10.0.0.{}", (host + 1) % 3);
    let one = |at: u64| {
        let begins = 1_000 + at * 150 + late_ms;
        round("r", begins, begins + 50, &[(&to, Role::Ring, 150_000), (&to, Role::Ring, 250_000)])
    };
    recording(&format!("h{host}"), &[("r", Pattern::Ring)], (0..4).map(one).skip(skip).collect())
}

#[test]
fn a_ring_that_each_host_saw_a_little_later_and_one_from_its_second_round_on_is_one_ring() {
    let made = replay(&[ring(0, 0, 0), ring(1, 1, 4), ring(2, 0, 2)], None).unwrap();
    let scenario = scenario(&made);
    let [job] = &scenario.jobs[..] else { panic!("one job") };
    assert_eq!((job.arch, job.iterations, job.bytes), (Arch::Ring, 4, 300_000));
    let names: Vec<&str> = job.pinned.iter().flat_map(|p| &p.workers).map(|h| scenario.network.name(*h)).collect();
    assert_eq!(names, ["h0", "h1", "h2"]);
    // The first round is host 0's and 2's alone and ends 2 ms later, the others 4 ms later.
    let ms: Vec<u64> = job.computes.iter().map(|time| time.0 / MS).collect();
    assert_eq!(ms, [0, 98, 96, 96]);
    assert_eq!(scenario.network.links.len(), 6);
    let [seen] = &made.jobs[..] else { panic!("one job") };
    assert_eq!((seen.rounds, seen.hosts, seen.bytes), (4, 3, 1_200_000));
    assert!((seen.round_s - 0.0535).abs() < 1e-9 && (seen.bytes_ratio - 11.0 / 12.0).abs() < 1e-9, "{seen:?}");
}

#[test]
fn a_ring_of_which_a_host_did_not_record_goes_flow_by_flow() {
    let made = replay(&[ring(0, 0, 0), ring(2, 0, 0)], None).unwrap();
    let scenario = scenario(&made);
    assert_eq!((scenario.jobs[0].arch, scenario.jobs[0].flows.len()), (Arch::Flows, 2));
    let notes = made.notes.join("\n");
    assert!(notes.contains("no whole ring") && notes.contains("10.0.0.1 is taken to have 1.000 Gbit/s"), "{notes}");
}

#[test]
fn servers_are_servers_and_what_they_send_back_waits_otherwise() {
    let job = [("p", Pattern::Ps)];
    let send =
        |from: &str, to: &[(&str, Role, u64)]| recording(from, &job, vec![round("p", 1, 5, to), round("p", 9, 14, to)]);
    let (up, down) = (Role::Aggregate, Role::Broadcast);
    let whole = [
        send("h0", &[("h2", up, 500)]),
        send("h1", &[("h2", up, 500)]),
        send("h2", &[("h0", down, 500), ("h1", down, 510)]),
    ];
    let made = scenario(&replay(&whole, None).unwrap());
    assert_eq!((made.jobs[0].arch, made.jobs[0].bytes, made.jobs[0].workers), (Arch::Ps, 500, 2));
    let part = [send("h0", &[("h2", up, 500)]), send("h2", &[("h0", down, 500), ("h1", down, 500)])];
    let made = scenario(&replay(&part, None).unwrap());
    let waits: Vec<Vec<usize>> = made.jobs[0].flows.iter().map(|flow| flow.pipelined.clone()).collect();
    assert_eq!((made.jobs[0].arch, waits), (Arch::Flows, vec![vec![], vec![0], vec![0]]));
}

#[test]
fn jobs_keep_their_distance_and_get_ids_of_their_own() {
    let names = [("a", Pattern::Unknown), ("b", Pattern::Unknown)];
    let flows = [("h9", Role::Plain, 1_000)];
    let rounds = vec![round("b", 700, 720, &flows), round("a", 5_000, 5_010, &flows), round("b", 800, 810, &flows)];
    let mut first = recording("h0", &names, rounds);
    for (name, _) in first.1.jobs.values_mut() {
        *name = "My Job".into();
    }
    let made = scenario(&replay(&[first.clone()], None).unwrap());
    let jobs: Vec<_> = made.jobs.iter().map(|job| (job.id.as_str(), job.arrival.0 / MS, job.computes.len())).collect();
    assert_eq!(jobs, [("my-job", 0, 2), ("my-job-2", 4_300, 1)]);
    let again = replay(&[first.clone(), first.clone()], None).unwrap_err();
    assert_eq!(again.code(), E_DUP);
    first.1.rounds.clear();
    assert!(replay(&[first], None).unwrap_err().to_string().contains("h0.rec"));
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let role = prop_oneof![
        Just(Role::Plain),
        Just(Role::Ring),
        Just(Role::Aggregate),
        Just(Role::Broadcast),
        Just(Role::Reduce),
        Just(Role::Spread)
    ];
    let flow =
        ((0_u32..5).prop_map(|h| format!("h{h}")), role, prop_oneof![Just(0), 1..1_000_u64, Just(999_999_999_999_999)]);
    let time = prop_oneof![0..2_000_u64, Just(9_000_000_000_000)];
    let one = ("[ab]", time, 0..500_u64, prop::collection::vec(flow, 0..6));
    let round =
        one.prop_map(|(job, began, took, flows)| Round { job, began: began * MS, ended: (began + took) * MS, flows });
    prop::collection::vec(round, 0..12)
}

proptest! {
    #[test]
    fn whatever_was_recorded_is_a_valid_scenario_or_nothing(hosts in prop::collection::vec(rounds(), 1..5)) {
        let jobs = [("a", Pattern::Ring), ("b", Pattern::Unknown)];
        let all: Vec<_> = hosts.into_iter().enumerate().map(|(at, rounds)| recording(&format!("h{at}"), &jobs, rounds)).collect();
        if let Ok(made) = replay(&all, None) {
            let text = made.scenario.to_string();
            let read = Scenario::parse(&text, Notation::Json, "replay.json", Path::new("."));
            prop_assert!(read.is_ok(), "{}\n{text}", read.unwrap_err());
            let scenario = read.unwrap();
            prop_assert!(scenario.jobs.iter().zip(&made.jobs).all(|(job, seen)| job.iterations as usize == seen.rounds));
        }
    }
}
