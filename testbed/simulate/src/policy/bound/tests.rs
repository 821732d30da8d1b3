use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;
use sluice_scenario::Notation;

use super::*;

/// When it is, and (release, work left) of each job.
type State = (u32, Vec<(u32, u32)>);

/// The smallest sum of completion times over everything a machine can do in whole seconds.
fn by_force(now: u32, jobs: &[(u32, u32)], known: &mut HashMap<State, u32>) -> u32 {
    if jobs.iter().all(|j| j.1 == 0) {
        return 0;
    }
    if let Some(&sum) = known.get(&(now, jobs.to_vec())) {
        return sum;
    }
    let mut least = u32::MAX;
    let ready: Vec<usize> = (0..jobs.len()).filter(|&i| jobs[i].0 <= now && jobs[i].1 > 0).collect();
    if ready.is_empty() {
        least = by_force(now + 1, jobs, known);
    }
    for i in ready {
        let mut left = jobs.to_vec();
        left[i].1 -= 1;
        let ends = if left[i].1 == 0 { now + 1 } else { 0 };
        least = least.min(ends + by_force(now + 1, &left, known));
    }
    known.insert((now, jobs.to_vec()), least);
    least
}

#[test]
fn srpt_by_hand() {
    assert_eq!(srpt(&[(0.5, 4.0), (1.25, 2.0)]), 3.25 + 6.5);
    assert_eq!(srpt(&[(1.0, 4.0), (1.0, 1.0)]), 2.0 + 6.0);
    assert_eq!(srpt(&[(5.0, 1.0)]), 6.0);
    assert_eq!(srpt(&[]), 0.0);
    assert_eq!(last_end(&[(3.0, 1.0), (0.0, 2.0)]), 4.0);
}

proptest! {
    #[test]
    fn srpt_is_the_least_of_all(jobs in prop::collection::vec((0u32..5, 1u32..4), 1..5)) {
        let float: Vec<(f64, f64)> = jobs.iter().map(|&(r, w)| (f64::from(r), f64::from(w))).collect();
        prop_assert_eq!(srpt(&float), f64::from(by_force(0, &jobs, &mut HashMap::new())));
        let end = last_end(&float);
        prop_assert!(float.iter().all(|(r, w)| end >= r + w));
    }
}

/// A scenario in which every job names its hosts, and those hosts.
fn scene(text: &str) -> (Scenario, Vec<JobWork>) {
    let scenario = Scenario::parse(text, Notation::Json, "test.json", Path::new(".")).expect("a scenario");
    let placement = |j: &sluice_scenario::Job| {
        let pinned = j.pinned.clone().unwrap_or_default();
        Placement { workers: pinned.workers, servers: pinned.servers }
    };
    let works = (0..scenario.jobs.len()).filter_map(|i| JobWork::of(&scenario, i, &placement(&scenario.jobs[i])));
    let works = works.collect();
    (scenario, works)
}

fn exact(fraction: &serde_json::Value) -> f64 {
    let text = fraction.as_str().expect("a text");
    let (a, b) = text.split_once('/').unwrap_or((text, "1"));
    a.parse::<f64>().expect("a number") / b.parse::<f64>().expect("a number")
}

#[test]
fn bounds_of_the_worked_examples() {
    let text = include_str!("../../../tests/vectors/simulation.json");
    let file: serde_json::Value = serde_json::from_str(text).expect("vectors");
    let vectors = file["vectors"].as_array().expect("a list");
    assert_eq!(vectors.len(), 10);
    for v in vectors {
        let (name, want) = (&v["name"], &v["lower_bound"]);
        let (scenario, works) = scene(&v["scenario"].to_string());
        for (job, work) in scenario.jobs.iter().zip(&works) {
            let bound = exact(&want["job"][&job.id]);
            assert!((work.run_time_s() - bound).abs() < 1e-9, "{name} {}: {} {bound}", job.id, work.run_time_s());
        }
        let b = bounds(&works);
        let (mean, last) = (exact(&want["mean_jct"]), exact(&want["last_end"]));
        assert!((b.mean_jct_s - mean).abs() < 1e-9, "{name}: {} {mean}", b.mean_jct_s);
        assert!((b.last_end_s - last).abs() < 1e-9, "{name}: {} {last}", b.last_end_s);
    }
}

/// The reference point of `simulation.md` section 10: mean bounds at two speeds and two compute times.
#[test]
fn bounds_of_the_fixed_mix() {
    for (gbps, scale, want) in [(10, 0.25, 7.111), (10, 1.0, 8.758), (25, 0.25, 3.083), (25, 1.0, 6.527)] {
        let job = |id: &str, arch: &str, mb: u64, iterations: u32, compute: f64, workers: &str, servers: &str| {
            let servers = if servers.is_empty() { String::new() } else { format!(", \"servers\": [{servers}]") };
            format!(
                "{{\"id\": \"{id}\", \"arch\": \"{arch}\", \"bytes\": {}, \"iterations\": {iterations}, \
                 \"compute_s\": {compute}, \"placement\": {{\"workers\": [{workers}]{servers}}}}}",
                mb * 1_000_000
            )
        };
        let jobs = [
            job("vgg19", "ring", 576, 8, 0.6, r#""h0","h1","h2""#, ""),
            job("vgg16", "ps", 552, 8, 0.52, r#""h3","h4""#, r#""h0","h5""#),
            job("resnet50", "ps", 102, 16, 0.3, r#""h1","h2""#, r#""h3","h5""#),
            job("gpt2", "ring", 1200, 4, 1.6, r#""h0","h4","h5""#, ""),
        ];
        let text = format!(
            "{{\"version\": 1, \"name\": \"fixed-mix\", \"network\": {{\"kind\": \"star\", \"hosts\": 6, \"gpus\": 8, \
             \"gbps\": {gbps}}}, \"placement\": {{\"policy\": \"explicit\"}}, \
             \"defaults\": {{\"compute_scale\": {scale}}}, \"jobs\": [{}]}}",
            jobs.join(", ")
        );
        let b = bounds(&scene(&text).1);
        assert!((b.mean_jct_s - want).abs() < 5.1e-4, "{gbps} {scale}: {} {want}", b.mean_jct_s);
    }
}

#[test]
fn overlap_and_chains_count() {
    let text = |overlap: f64| {
        format!(
            "{{\"version\": 1, \"name\": \"x\", \"network\": {{\"kind\": \"star\", \"hosts\": 3, \"gbps\": 8}}, \
             \"jobs\": [{{\"id\": \"a\", \"arch\": \"flows\", \"compute_s\": 4, \"iterations\": 2, \"overlap\": {overlap}, \
             \"flows\": [{{\"id\": \"x\", \"src\": \"h0\", \"dst\": \"h1\", \"bytes\": 1000000000}}, \
             {{\"id\": \"y\", \"src\": \"h1\", \"dst\": \"h2\", \"bytes\": 2000000000, \"after\": [\"x\"]}}]}}]}}"
        )
    };
    // One second, then two, one after the other; nothing overlaps, half of four seconds does, three of four do.
    for (overlap, iteration) in [(0.0, 7.0), (0.5, 5.0), (0.75, 4.0)] {
        let works = scene(&text(overlap)).1;
        assert!((works[0].run_time_s() - 2.0 * iteration).abs() < 1e-9, "{overlap}: {}", works[0].run_time_s());
    }
}
