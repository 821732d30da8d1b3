//! The integer program on the small instances of the specification: the fewest epochs, proven.

use sluice_formats::quantity::{Rational, size};
use sluice_formats::topology::{Topology, import};
use sluice_plan::plan::{Collective, Status};
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{Figures, Instance, Mode, Options, Volume, make};
use sluice_planners::{Request, Run};
use sluice_planners_lp::teccl::Milp;

/// A fabric of the paper, by name.
fn fabric(name: &str, copying: bool) -> Topology {
    let all = include_str!("../../tests/teccl/fabrics.jsonl");
    let start = format!("{{\"name\":\"{name}\"");
    let line = all.lines().find(|line| line.starts_with(&start)).expect("there");
    import::teccl(line.as_bytes(), name, copying).expect("valid")
}

/// The same without latency.
fn at_once(topology: &Topology) -> Topology {
    let text = topology.to_compact();
    let mut file = text.clone();
    while let Some(at) = file.find("\"latency\":\"") {
        let end = at + 11 + file[at + 11..].find('"').expect("an end") + 1;
        let end = if file[end..].starts_with(',') { end + 1 } else { end };
        file.replace_range(at..end, "");
    }
    Topology::read(file.as_bytes(), "t").expect("valid")
}

fn options(chunks: u64, epoch: EpochLength) -> Options {
    Options {
        volume: Volume::Chunk(size("25kB").expect("a size")),
        chunks,
        epoch,
        multiplier: Rational::ONE,
        theta: Rational::ZERO,
        free_second_hop: false,
        hyper_edges: false,
        stragglers: Vec::new(),
        mode: Mode::MinEpochs,
        seed: 0,
    }
}

fn planned(topology: &Topology, collective: Collective, options: &Options) -> Figures {
    let instance = Instance::new(topology, &Request::of_all(collective), options, "t").expect("valid");
    make(&instance, Some(&Milp::default()), &Run::quiet(1)).unwrap_or_else(|problems| panic!("{problems}")).figures
}

#[test]
fn all_gather_on_a_dgx1() {
    let with = fabric("DGX1", false);
    let without = at_once(&with);
    let rows = [(&with, 1, 4), (&with, 2, 5), (&with, 3, 6)];
    let rows = rows.into_iter().chain((1..=6).map(|chunks| (&without, chunks, chunks + 1)));
    for (topology, chunks, minimum) in rows {
        let figures = planned(topology, Collective::AllGather, &options(chunks, EpochLength::Slow));
        assert_eq!((figures.epochs, figures.status), (minimum, Status::Optimal), "{chunks} chunks");
    }
    let fast = planned(&with, Collective::AllGather, &options(1, EpochLength::Fast));
    assert_eq!((fast.epochs, fast.status), (7, Status::Optimal));
}

#[test]
fn dgx2_with_a_free_second_hop() {
    for (bytes, minimum) in [("1GB", 4), ("1MB", 9)] {
        let volume = Volume::Size(size(bytes).expect("a size"));
        let theta = Rational::new(1, 10).expect("a tenth");
        let options = Options { volume, theta, free_second_hop: true, ..options(1, EpochLength::Slow) };
        let figures = planned(&fabric("DGX2-2", true), Collective::AllGather, &options);
        assert_eq!((figures.epochs, figures.status), (minimum, Status::Optimal), "{bytes}");
    }
}

/// The fewest epochs of an all-gather over unit links without latency, by trying everything: states are who holds what, and
/// in every epoch every link carries one of the chunks that its end lacks, if there is one.
fn tried(nodes: usize, links: &[(usize, usize)], chunks: usize) -> u64 {
    let all = nodes * chunks;
    let full = (1_u32 << (nodes * all)) - 1;
    let bit = |node: usize, chunk: usize| 1_u32 << (node * all + chunk);
    let start = (0..all).map(|chunk| bit(chunk / chunks, chunk)).fold(0, |state, bit| state | bit);
    let mut states = std::collections::BTreeSet::from([start]);
    for epoch in 0.. {
        if states.contains(&full) {
            return epoch;
        }
        let mut next = std::collections::BTreeSet::new();
        for state in states {
            let mut reached = vec![state];
            for &(from, to) in links {
                let useful = (0..all).filter(|chunk| state & bit(from, *chunk) != 0 && state & bit(to, *chunk) == 0);
                let useful: Vec<u32> = useful.map(|chunk| bit(to, chunk)).collect();
                if !useful.is_empty() {
                    let with = |so_far: &u32| useful.iter().map(|chunk| so_far | chunk).collect::<Vec<_>>();
                    reached = reached.iter().flat_map(with).collect();
                    reached.sort_unstable();
                    reached.dedup();
                }
            }
            next.extend(reached);
        }
        states = next;
    }
    unreachable!("a strongly connected graph ends")
}

fn is_strongly_connected(nodes: usize, links: &[(usize, usize)]) -> bool {
    (0..nodes).all(|from| {
        let mut seen = 1_u32 << from;
        for _ in 0..nodes {
            for (a, b) in links {
                seen |= u32::from(seen >> a & 1 == 1) << b;
            }
        }
        seen + 1 == 1 << nodes
    })
}

#[test]
fn trying_everything_finds_nothing_shorter_and_nothing_longer() {
    let mut seen = 0;
    for (nodes, chunks, most) in [(3, 1, 6), (3, 2, 6), (4, 1, 6)] {
        let pairs: Vec<(usize, usize)> =
            (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
        for chosen in 0_u32..1 << pairs.len() {
            let links: Vec<(usize, usize)> =
                pairs.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).map(|(_, pair)| *pair).collect();
            // Of graphs of four nodes every eleventh: they are many.
            let skipped = nodes == 4 && !chosen.is_multiple_of(11);
            if links.len() > most || skipped || !is_strongly_connected(nodes, &links) {
                continue;
            }
            let file = format!(
                r#"{{"name":"t","nodes":{nodes},"gpus":{nodes},"switches":[],
                "links":[{{"GBps":25,"alpha_us":0,"both_ways":false,"pairs":{}}}]}}"#,
                format!("{links:?}").replace('(', "[").replace(')', "]")
            );
            let topology = import::teccl(file.as_bytes(), "t", false).expect("valid");
            let figures = planned(&topology, Collective::AllGather, &options(chunks as u64, EpochLength::Slow));
            let expected = tried(nodes, &links, chunks);
            assert_eq!((figures.epochs, figures.status), (expected, Status::Optimal), "{links:?}, {chunks} chunks");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen} graphs");
}
