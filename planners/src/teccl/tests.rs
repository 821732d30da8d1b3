//! What the planner finds without a solver on the fabrics of the paper, against its tables and proven minima.

use super::lane::EpochLength;
use super::*;
use crate::front::Request;
use crate::run::Run;
use sluice_formats::quantity::{Rational, size};
use sluice_formats::topology::{Topology, import};
use sluice_plan::plan::{CertificateKind, Collective, Status};

/// A fabric of the paper, by name, as it is written.
fn line(name: &str) -> &'static str {
    let all = include_str!("../../tests/teccl/fabrics.jsonl");
    let start = format!("{{\"name\":\"{name}\"");
    all.lines().find(|line| line.starts_with(&start)).expect("there")
}

/// A fabric of the paper, by name.
fn fabric(name: &str) -> Topology {
    import::teccl(line(name).as_bytes(), name, false).expect("valid")
}

fn options(volume: Volume, epoch: EpochLength) -> Options {
    Options { epoch, ..Options::of(volume) }
}

fn planned(topology: &Topology, collective: Collective, options: &Options) -> Figures {
    let instance = Instance::new(topology, &Request::of_all(collective), options, "t").expect("valid");
    make(&instance, None, &Run::quiet(1)).unwrap_or_else(|problems| panic!("{problems}")).figures
}

fn bytes(text: &str) -> Rational {
    size(text).expect("a size")
}

#[test]
fn table_8_all_gather() {
    let ndv2 = fabric("NDv2-2");
    // Output, fast minimum, slow minimum; multipliers where the table has them.
    let rows = [
        ("1GB", 35, 10),
        ("256MB", 35, 10),
        ("64MB", 35, 10),
        ("16MB", 35, 10),
        ("4MB", 38, 10),
        ("1MB", 39, 14),
        ("256kB", 46, 15),
        ("64kB", 76, 24),
        ("16kB", 222, 60),
        ("4kB", 212, 212),
        ("1kB", 827, 827),
    ];
    for (output, fast, slow) in rows {
        for (length, minimum) in [(EpochLength::Fast, fast), (EpochLength::Slow, slow)] {
            let short = matches!(output, "4kB" | "1kB") && length == EpochLength::Fast;
            let multiplier = Rational::from(if short { 4_u64 } else { 1 });
            let figures = planned(
                &ndv2,
                Collective::AllGather,
                &Options { multiplier, ..options(Volume::Size(bytes(output)), length.clone()) },
            );
            let seen = (figures.epochs, figures.lower_bound, figures.status);
            assert_eq!(seen, (minimum, minimum, Status::Optimal), "{output} {length:?}");
        }
    }
}

/// Chassis of a known form joined by one switch, over links of 12.5 GB/s and 1.3 µs.
fn joined(name: &str, chassis: usize, up: &[usize], down: &[usize]) -> Topology {
    let one: serde_json::Value = serde_json::from_str(line(name)).expect("JSON");
    let (gpus, nodes) = (one["gpus"].as_u64().expect("gpus"), one["nodes"].as_u64().expect("nodes"));
    let n = chassis as u64;
    let place =
        |c: u64, node: u64| if node < gpus { c * gpus + node } else { n * gpus + c * (nodes - gpus) + node - gpus };
    let mut links = Vec::new();
    for group in one["links"].as_array().expect("groups") {
        let mut pairs = Vec::new();
        for c in 0..n {
            for pair in group["pairs"].as_array().expect("pairs") {
                let end = |i: usize| place(c, pair[i].as_u64().expect("a node"));
                pairs.push((end(0), end(1)));
            }
        }
        let mut group = group.clone();
        group["pairs"] = serde_json::json!(pairs);
        links.push(group);
    }
    let switch = n * nodes;
    let mut pairs = Vec::new();
    for c in 0..n {
        pairs.extend(up.iter().map(|node| (place(c, *node as u64), switch)));
        pairs.extend(down.iter().map(|node| (switch, place(c, *node as u64))));
    }
    links.push(serde_json::json!({"GBps": 12.5, "alpha_us": 1.3, "both_ways": false, "pairs": pairs}));
    let switches: Vec<u64> = (n * gpus..=switch).collect();
    let file =
        serde_json::json!({"name": name, "nodes": switch + 1, "gpus": n * gpus, "switches": switches, "links": links});
    import::teccl(file.to_string().as_bytes(), name, false).expect("valid")
}

#[test]
fn four_chassis_of_released_runs() {
    let ndv4 = fabric("NDv2-4");
    let short = EpochLength::Fixed(Rational::new(35, 10_000_000_000_i64).expect("a time"));
    let rows = [
        ("1GB", EpochLength::Slow, 26),
        ("4MB", EpochLength::Slow, 28),
        ("1MB", EpochLength::Slow, 30),
        ("256kB", EpochLength::Slow, 36),
        ("64kB", EpochLength::Slow, 57),
        ("16kB", EpochLength::Slow, 151),
        ("4kB", EpochLength::Slow, 553),
        ("1GB", EpochLength::Fast, 99),
        ("256MB", EpochLength::Fast, 99),
        ("64MB", EpochLength::Fast, 99),
        ("16MB", EpochLength::Fast, 101),
        ("4MB", EpochLength::Fast, 103),
        ("1MB", EpochLength::Fast, 109),
        ("256kB", EpochLength::Fast, 127),
        ("64kB", EpochLength::Fast, 208),
        ("16kB", EpochLength::Fast, 581),
        ("4kB", short.clone(), 1576),
        ("1kB", short, 1557),
    ];
    for (output, epoch, minimum) in rows {
        let free = Options { free_second_hop: true, ..options(Volume::Size(bytes(output)), epoch.clone()) };
        let figures = planned(&ndv4, Collective::AllGather, &free);
        assert_eq!((figures.epochs, figures.status), (minimum, Status::Optimal), "{output} {epoch:?}");
    }
}

#[test]
fn table_8_all_to_all() {
    let ndv2 = fabric("NDv2-2");
    // Output; the whole epochs that the table prints for fast and for slow ones; ours, and what none is below.
    let rows = [
        ("1GB", 257, 65, (256, 256), (64, 64)),
        ("256MB", 257, 65, (256, 256), (64, 64)),
        ("64MB", 257, 65, (256, 256), (64, 64)),
        ("16MB", 257, 65, (256, 256), (64, 64)),
        ("4MB", 260, 65, (257, 257), (64, 64)),
        ("1MB", 261, 68, (258, 258), (65, 65)),
        ("256kB", 268, 69, (261, 261), (66, 66)),
        ("64kB", 292, 76, (275, 273), (69, 69)),
        ("16kB", 364, 95, (333, 325), (86, 83)),
        ("4kB", 232, 225, (218, 210), (218, 210)),
        ("1kB", 848, 847, (833, 825), (833, 825)),
    ];
    for (output, fast, slow, ours_fast, ours_slow) in rows {
        for (length, printed, ours) in [(EpochLength::Fast, fast, ours_fast), (EpochLength::Slow, slow, ours_slow)] {
            let short = matches!(output, "4kB" | "1kB") && length == EpochLength::Fast;
            let multiplier = Rational::from(if short { 4_u64 } else { 1 });
            let options = Options { multiplier, ..options(Volume::Size(bytes(output)), length.clone()) };
            let figures = planned(&ndv2, Collective::AllToAll, &options);
            assert!(figures.epochs <= printed && figures.lower_bound <= figures.epochs, "{output} {length:?}");
            assert_eq!((figures.epochs, figures.lower_bound), ours, "{output} {length:?}");
        }
    }
}

#[test]
fn released_runs_on_a_dgx2() {
    let rows = ["1GB", "256MB", "64MB", "16MB", "4MB", "1MB", "256kB", "64kB", "16kB", "4kB", "1kB"];
    // What the released runs came to, and from which row on epochs are how many times as long.
    let gather = (Collective::AllGather, EpochLength::Slow, [4, 4, 4, 4, 4, 9, 12, 32, 104, 403, 803], (10, 2));
    let fast = (Collective::AllGather, EpochLength::Fast, [31, 31, 31, 31, 33, 43, 84, 270, 1021, 1008, 4006], (9, 4));
    let exchange = (Collective::AllToAll, EpochLength::Slow, [34, 34, 34, 34, 35, 38, 41, 57, 122, 421, 812], (10, 2));
    for (collective, epoch, released, (first, times)) in [gather, fast, exchange] {
        let copying = collective == Collective::AllGather;
        let dgx2 = import::teccl(line("DGX2-2").as_bytes(), "DGX2-2", copying).expect("valid");
        for (i, (output, released)) in rows.iter().zip(released).enumerate() {
            // Where latency alone is left, an all-to-all looks at all orders there are; one row says as much as three.
            if !copying && matches!(*output, "16kB" | "4kB") {
                continue;
            }
            let multiplier = Rational::from(if i < first { 1 } else { times });
            let volume = Volume::Size(bytes(output));
            let free = Options { free_second_hop: true, multiplier, ..options(volume, epoch.clone()) };
            let figures = planned(&dgx2, collective, &free);
            assert!(figures.epochs <= released, "{collective:?} {output}: {}", figures.epochs);
            // Of the others it is known that they are the optimum.
            let open = match (collective, *output, &epoch) {
                (Collective::AllGather, "1MB", EpochLength::Fast) => 2,
                (Collective::AllToAll, "1kB", _) => 3,
                _ => 0,
            };
            assert!(figures.epochs <= figures.lower_bound + open, "{collective:?} {output}: {figures:?}");
        }
    }
}

#[test]
fn cuts_are_recomputed_and_damaged_ones_refused() {
    let dgx1 = fabric("DGX1");
    let options = Options { chunks: 8, ..options(Volume::Chunk(bytes("25kB")), EpochLength::Slow) };
    let instance = Instance::new(&dgx1, &Request::of_all(Collective::AllToAll), &options, "t").expect("valid");
    let made = make(&instance, None, &Run::quiet(1)).expect("a plan");
    assert_eq!(made.figures.certificate, CertificateKind::Cut);
    let plan: serde_json::Value = serde_json::from_str(&made.plan.to_text()).expect("JSON");
    let nodes = plan["claim"]["certificate"]["nodes"].as_array().expect("a cut").len();
    let refused = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut damaged = plan.clone();
        edit(&mut damaged["claim"]);
        let damaged = sluice_plan::plan::Plan::read(damaged.to_string().as_bytes(), "t").expect("readable");
        sluice_plan::check::check(&damaged, None).violation.map(|violation| violation.code.word())
    };
    assert_eq!(refused(&|_| {}), None);
    let bound = made.figures.lower_bound;
    for other in [bound - 1, bound + 1] {
        assert_eq!(refused(&|claim| claim["lower_bound"] = other.to_string().into()), Some("WRONG_BOUND"));
    }
    for node in 0..nodes {
        let without = |claim: &mut serde_json::Value| {
            claim["certificate"]["nodes"].as_array_mut().expect("a list").remove(node);
        };
        assert!(refused(&without).is_some(), "without its node {node}");
        let twice = |claim: &mut serde_json::Value| {
            let nodes = claim["certificate"]["nodes"].as_array_mut().expect("a list");
            nodes.push(nodes[node].clone());
        };
        assert!(refused(&twice).is_some(), "node {node} twice");
    }
    assert!(refused(&|claim| claim["certificate"]["nodes"] = serde_json::json!([])).is_some());
    assert!(refused(&|claim| claim["certificate"]["kind"] = "gateway".into()).is_some());
}

#[test]
fn sixteen_chassis_of_128_gpus() {
    let all = joined("NDv2-1", 16, &[0], &[1]);
    let free = Options { free_second_hop: true, ..options(Volume::Size(bytes("1GB")), EpochLength::Slow) };
    let figures = planned(&all, Collective::AllGather, &free);
    assert_eq!((figures.epochs, figures.lower_bound), (122, 122));
}

#[test]
#[ignore = "a measurement, half a minute"]
fn eight_dgx2_of_128_gpus() {
    let all = joined("DGX2-1", 8, &[1, 3, 5, 7, 9, 11, 13, 15], &[0, 2, 4, 6, 8, 10, 12, 14]);
    let begin = std::time::Instant::now();
    let free = Options { free_second_hop: true, ..options(Volume::Size(bytes("1GB")), EpochLength::Slow) };
    let figures = planned(&all, Collective::AllGather, &free);
    println!("{} epochs, none has fewer than {}; {:?}", figures.epochs, figures.lower_bound, begin.elapsed());
    assert!(figures.epochs <= 2 * figures.lower_bound);
}

#[test]
fn the_same_seed_gives_the_same_schedule_for_any_number_of_threads() {
    // Not every order of chunks is as good here, so that many are tried.
    let ndv2 = fabric("NDv2-2");
    let plans = [(0, 1), (0, 1), (0, 3), (7, 1), (7, 2)].map(|(seed, threads)| {
        let options = Options { seed, ..options(Volume::Size(bytes("16kB")), EpochLength::Slow) };
        let instance = Instance::new(&ndv2, &Request::of_all(Collective::AllToAll), &options, "t").expect("valid");
        make(&instance, None, &Run::quiet(threads)).expect("a plan").plan.to_text()
    });
    assert!(plans[0] == plans[1] && plans[0] == plans[2] && plans[3] == plans[4]);
}

#[test]
fn rooted_collectives_hyper_edges_and_copying_switches() {
    let star = fabric("DGX2-1");
    let root = star.nodes()[3].id.to_string();
    for collective in [Collective::Broadcast, Collective::Scatter, Collective::Gather] {
        for hyper_edges in [false, true] {
            let options = Options { hyper_edges, ..options(Volume::Chunk(bytes("1MB")), EpochLength::Fast) };
            let request = Request { collective, participants: None, root: Some(&root), ignore: &[] };
            let instance = Instance::new(&star, &request, &options, "t").expect("valid");
            let figures = make(&instance, None, &Run::quiet(1)).unwrap_or_else(|problems| panic!("{problems}")).figures;
            assert!(figures.epochs >= figures.lower_bound, "{collective:?}");
        }
    }
}

#[test]
fn what_is_refused_says_where_and_what_is_allowed() {
    let dgx1 = fabric("DGX1");
    let plain = options(Volume::Chunk(bytes("25kB")), EpochLength::Slow);
    let code = |topology: &Topology, options: &Options| {
        let instance = Instance::new(topology, &Request::of_all(Collective::AllGather), options, "t");
        match instance.and_then(|instance| make(&instance, None, &Run::quiet(1))) {
            Ok(_) => "nothing",
            Err(problems) => problems.code(),
        }
    };
    let edited = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut file: serde_json::Value = serde_json::from_str(&dgx1.to_compact()).expect("JSON");
        edit(&mut file);
        Topology::read(file.to_string().as_bytes(), "t").expect("readable")
    };
    let cases = [
        (dgx1.clone(), Options { volume: Volume::Chunk(Rational::ZERO), ..plain.clone() }, "BadChunk"),
        (dgx1.clone(), Options { chunks: 0, ..plain.clone() }, "BadChunk"),
        (dgx1.clone(), Options { epoch: EpochLength::Fixed(Rational::ZERO), ..plain.clone() }, "BadEpoch"),
        (dgx1.clone(), Options { multiplier: Rational::new(1, 2).expect("a half"), ..plain.clone() }, "BadEpoch"),
        (dgx1.clone(), Options { theta: -&Rational::ONE, ..plain.clone() }, "BadEpoch"),
        (dgx1.clone(), Options { mode: Mode::Feasible(0), ..plain.clone() }, "BadEpoch"),
        (dgx1.clone(), Options { mode: Mode::Feasible(1), ..plain.clone() }, "Infeasible"),
        (dgx1.clone(), Options { chunks: 1 << 40, ..plain.clone() }, "E_LIMIT"),
        (edited(&|file| file["links"][0]["count"] = 2.into()), plain.clone(), "BadLink"),
        (edited(&|file| file["links"][0]["capacity"] = "unlimited".into()), plain.clone(), "BadLink"),
        (edited(&|file| file["nodes"][0]["weight"] = 2.into()), plain.clone(), "UNSUPPORTED_FIELD"),
        (
            edited(&|file| {
                let nodes = file["nodes"].as_array_mut().expect("nodes");
                nodes.push(serde_json::json!({"id": "x", "kind": "gpu"}));
            }),
            plain.clone(),
            "Unreachable",
        ),
    ];
    for (i, (topology, options, expected)) in cases.iter().enumerate() {
        assert_eq!(code(topology, options), *expected, "case {i}");
    }
    let chain = fabric("AMD-2");
    assert_eq!(code(&chain, &Options { hyper_edges: true, ..plain.clone() }), "SwitchChain");
}

#[test]
fn buffers_bound_what_is_held_for_others() {
    // a → b → c, d: two chunks of a want to pass b, whose way on is half as fast.
    let line = |buffer: &str| {
        let text = format!(
            r#"{{"sluice_topology":1,"nodes":[{{"id":"a","kind":"gpu"}},{{"id":"b","kind":"gpu","buffer":"{buffer}"}},
            {{"id":"c","kind":"gpu"}}],"links":[{{"from":"a","to":"b","capacity":"50GB/s","duplex":true}},
            {{"from":"b","to":"c","capacity":"25GB/s","duplex":true}}]}}"#
        );
        Topology::read(text.as_bytes(), "t").expect("valid")
    };
    let finish = |buffer: &str| {
        let options = Options { chunks: 2, ..options(Volume::Chunk(bytes("25kB")), EpochLength::Fast) };
        planned(&line(buffer), Collective::AllToAll, &options).epochs
    };
    assert!(finish("25kB") >= finish("1MB"));
}

#[test]
fn epochs_too_short_and_meshes_of_switches_end_soon_and_in_words() {
    let code = |topology: &Topology, epoch: EpochLength| {
        let options = options(Volume::Size(bytes("1TB")), epoch);
        let instance = Instance::new(topology, &Request::of_all(Collective::AllGather), &options, "t");
        instance.map_or_else(|problems| problems.code(), |_| "nothing")
    };
    let picosecond = Rational::new(1, 1_000_000_000_000_i64).expect("a time");
    assert_eq!(code(&fabric("DGX1"), EpochLength::Fixed(picosecond)), "BadLink");
    // Two GPUs at a mesh of 60 switches: 60 · 59 · 58 … ways.
    let mut pairs: Vec<[usize; 2]> = (2..62).flat_map(|a| (a + 1..62).map(move |b| [a, b])).collect();
    pairs.extend([[0, 2], [1, 61]]);
    let switches: Vec<usize> = (2..62).collect();
    let links = serde_json::json!([{"GBps": 25, "alpha_us": 0, "both_ways": true, "pairs": pairs}]);
    let file = serde_json::json!({"name": "mesh", "nodes": 62, "gpus": 2, "switches": switches, "links": links});
    let mesh = import::teccl(file.to_string().as_bytes(), "mesh", false).expect("valid");
    assert_eq!(code(&mesh, EpochLength::Slow), "E_LIMIT");
}
