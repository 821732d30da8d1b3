use super::*;
use crate::Request;
use crate::forestcoll::{Instance, best_of};
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{
    Rails, Wiring, complete, dgx_a100, hypercube, mi250, rail_optimised, ring, star, torus,
};
use sluice_plan::check::check;
use sluice_plan::plan::Collective as Word;
use std::time::{Duration, Instant};

fn fraction(p: i64, q: i64) -> Rational {
    Rational::new(p, q).expect("not over zero")
}

fn edited(topology: &Topology, edit: impl Fn(&mut Value)) -> Topology {
    let mut file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    edit(&mut file);
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

fn fabrics() -> Vec<Topology> {
    let rails = Rails {
        boxes: 2,
        gpus: 3,
        inside: "8GB/s".into(),
        rail: "1GB/s".into(),
        spines: 2,
        oversubscription: Rational::from(2),
    };
    let made = [
        star(&["1", "2", "3", "1", "2"]),
        complete(5, "4GB/s"),
        ring(6, "5Gbit/s", true),
        ring(5, "7/2", false),
        torus(&[3, 3], "1"),
        hypercube(3, "2"),
        dgx_a100(2, Wiring::Pcie),
        rail_optimised(&rails),
    ];
    let mut fabrics: Vec<Topology> = made.into_iter().map(|made| made.expect("valid")).collect();
    fabrics.push(edited(&fabrics[1], |file| {
        file["nodes"][0]["weight"] = json!(3);
        file["nodes"][2]["weight"] = json!(0);
    }));
    // Switches that copy and add up.
    fabrics.push(edited(&fabrics[6], |file| {
        for node in file["nodes"].as_array_mut().expect("nodes") {
            if node["kind"] == "switch" {
                node["can"] = json!({"multicast": true, "aggregate": true});
            }
        }
    }));
    fabrics
}

fn instance<'a>(topology: &'a Topology, collective: Word) -> Instance<'a> {
    let root = topology.nodes()[topology.compute()[1]].id.to_string();
    let root = collective.is_rooted().then_some(root);
    let request = Request { collective, participants: None, root: root.as_deref(), ignore: &[] };
    Instance::new(topology, &request, "t").expect("a problem")
}

fn plain() -> Options {
    Options { in_network: false, ..Options::default() }
}

#[test]
fn every_collective_on_every_fabric_passes_the_checker() {
    let collectives = [Word::AllGather, Word::ReduceScatter, Word::AllReduce, Word::Broadcast, Word::Reduce];
    for topology in fabrics() {
        for collective in collectives {
            for options in [plain(), Options::default(), Options { fixed_k: Some(2), ..plain() }] {
                let instance = instance(&topology, collective);
                // make() checks; what it gives must still hold after writing and reading.
                let name = format!("{} {} {options:?}", topology.name(), collective.word());
                let made =
                    make(&instance, &options, Way::Phases, &Run::quiet(1)).unwrap_or_else(|e| panic!("{name}: {e}"));
                let read = Plan::read(made.plan.to_text().as_bytes(), "p").expect("readable");
                let report = check(&read, None);
                assert!(report.ok(), "{name}: {:?}", report.violation);
                assert_eq!(read.to_text(), made.plan.to_text(), "{name}");
                if collective != Word::AllReduce && options.fixed_k.is_none() {
                    assert_eq!(made.plan.body.claim.optimal, Some(true), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_fixed_number_of_trees_claims_what_its_loads_say() {
    // MI250-like rounding: one tree per root on a star whose links take 4/3 of a tree.
    let topology = star(&["3", "3", "4", "4"]).expect("valid");
    let made = |fixed_k| {
        let options = Options { fixed_k, ..plain() };
        make(&instance(&topology, Word::AllGather), &options, Way::Auto, &Run::quiet(1)).expect("a plan")
    };
    let (best, one) = (made(None), made(Some(1)));
    let time = |made: &Made| made.plan.body.claim.time_per_byte.clone().expect("claimed").value;
    assert_eq!(time(&best), fraction(1, 4), "three shards of four enter the slow node at 3");
    assert!(time(&one) >= time(&best));
    assert_eq!(one.plan.body.claim.optimal, Some(time(&one) == time(&best)));
    assert_eq!((one.k, one.trees), (Some(1), 4));
}

#[test]
fn the_program_is_used_where_it_is_better_and_proves_what_no_cut_does() {
    let uneven = star(&["1", "2", "3", "1", "2"]).expect("valid");
    let way = |topology: &Topology, way| {
        make(&instance(topology, Word::AllReduce), &plain(), way, &Run::quiet(1)).expect("a plan")
    };
    let (auto, phases, program) = (way(&uneven, Way::Auto), way(&uneven, Way::Phases), way(&uneven, Way::Program));
    let bandwidth = |made: &Made| made.plan.body.claim.algorithm_bandwidth.clone().expect("claimed").0;
    assert_eq!(bandwidth(&program), Rational::ONE);
    assert_eq!(bandwidth(&auto), Rational::ONE);
    assert!(bandwidth(&phases) <= Rational::ONE);
    assert_eq!(program.sum_x, Some(Rational::ONE));
    assert_eq!((program.k, phases.sum_x.is_none()), (None, true));
    // All-reduce on a ring: what must arrive proves the phases.
    let even = way(&ring(6, "1", true).expect("valid"), Way::Auto);
    assert_eq!(even.plan.body.claim.optimal, Some(true));
    assert_eq!(bandwidth(&even), fraction(6, 5));
    assert!(even.sum_x.is_none(), "the phases are proved best without a program");
    // A program has no fixed k.
    let options = Options { fixed_k: Some(1), ..plain() };
    let refused = make(&instance(&uneven, Word::AllReduce), &options, Way::Program, &Run::quiet(1));
    assert_eq!(refused.expect_err("refused").all()[0].key, "fixed_k");
}

fn prices_of(plan: &Plan) -> &[Rational] {
    plan.body.claim.certificate.as_ref().and_then(|of| of.prices.as_deref()).expect("prices")
}

#[test]
fn prices_prove_the_program() {
    let uneven = edited(&complete(5, "1").expect("valid"), |file| {
        let links = file["links"].as_array_mut().expect("links");
        links.iter_mut().enumerate().for_each(|(i, link)| link["capacity"] = json!((7 * i % 10 + 1).to_string()));
    });
    let two_parallel = edited(&ring(4, "3", true).expect("valid"), |file| file["links"][0]["count"] = json!(2));
    let star = star(&["1", "2", "3", "1", "2"]).expect("valid");
    for topology in
        [&uneven, &two_parallel, &star, &complete(4, "4GB/s").expect("valid"), &hypercube(3, "2").expect("valid")]
    {
        let (instance, options, run) = (instance(topology, Word::AllReduce), plain(), Run::quiet(1));
        let program = all_reduce(&instance.fabric, false, &run).expect("an optimum");
        let optimum = crate::forestcoll::optimum(&instance.fabric, false, &run).expect("an optimum");
        let prices = program.prices.clone();
        let mut draft = Claimed::of_program(&instance, program, optimum, &options, &run).expect("a draft");
        draft.bound = bounds::dual(&instance, &draft.time, &prices);
        let made = draft.finish(&instance).expect("a plan that passes the checker");
        let report = check(&made.plan, None);
        assert!(report.not_rechecked.is_empty() && report.proved.iter().any(|said| said == "the plan is optimal"));
        // Other prices prove less, unless they price the same cut.
        let refused = (0..prices_of(&made.plan).len()).filter(|place| {
            let mut worse = made.plan.clone();
            let prices = worse.body.claim.certificate.as_mut().and_then(|of| of.prices.as_mut());
            prices.expect("prices")[*place] += &Rational::ONE;
            check(&worse, None).violation.is_some()
        });
        assert!(refused.count() > 0, "{}", topology.name());
    }
    // Four that are linked to each other, and one on a fast cable: neither a cut nor what arrives at all five says how
    // slow the four are.
    let hanging = edited(&complete(4, "1").expect("valid"), |file| {
        file["nodes"].as_array_mut().expect("nodes").push(json!({"id": "n4", "kind": "gpu"}));
        let cable = json!({"from": "n0", "to": "n4", "capacity": "100", "duplex": true});
        file["links"].as_array_mut().expect("links").push(cable);
    });
    let made = make(&instance(&hanging, Word::AllReduce), &plain(), Way::Auto, &Run::quiet(1)).expect("a plan");
    let claim = &made.plan.body.claim;
    assert_eq!(claim.certificate.as_ref().map(|of| of.kind), Some(CertificateKind::Dual));
    assert_eq!(claim.time_per_byte.as_ref().map(|time| &time.value), Some(&fraction(1, 2)));
    assert_eq!(claim.optimal, Some(true));
}

#[test]
fn what_must_arrive_at_machines_proves_large_all_reduces() {
    // Three boxes and more: each element crosses into them 2(n − 1) times, and 8 · 25 GB/s lead into each.
    for boxes in [3_i64, 8, 16] {
        let topology = dgx_a100(boxes as u32, Wiring::Plain).expect("valid");
        let made = make(&instance(&topology, Word::AllReduce), &plain(), Way::Auto, &Run::quiet(1)).expect("a plan");
        let claim = &made.plan.body.claim;
        assert_eq!(claim.algorithm_bandwidth.as_ref().expect("claimed").0, fraction(100 * boxes, boxes - 1));
        assert_eq!((claim.optimal, claim.status), (Some(true), Some(Status::Optimal)), "{boxes} boxes");
        assert_eq!(claim.certificate.as_ref().map(|of| of.kind), Some(CertificateKind::Bandwidth));
        assert!(sluice_plan::check::check(&made.plan, None).proved.iter().any(|said| said == "the plan is optimal"));
        // Without the boxes nobody knows, and nobody claims it.
        let bare = edited(&topology, |file| drop(file.as_object_mut().expect("one").remove("box")));
        let made = make(&instance(&bare, Word::AllReduce), &plain(), Way::Phases, &Run::quiet(1)).expect("a plan");
        assert_eq!(made.plan.body.claim.optimal, Some(false));
        // Nor where a switch between the boxes could add up.
        let helping = edited(&topology, |file| {
            let nodes = file["nodes"].as_array_mut().expect("nodes");
            let between = nodes.iter_mut().find(|node| node["id"] == "ib").expect("the network");
            between["can"] = json!({"aggregate": true});
        });
        let options = Options { in_network: false, ..plain() };
        let made = make(&instance(&helping, Word::AllReduce), &options, Way::Phases, &Run::quiet(1)).expect("a plan");
        assert_eq!(made.plan.body.claim.optimal, Some(false));
    }
}

#[test]
fn a_node_that_takes_no_part_is_put_on_the_side_where_it_costs_least() {
    // n0 and n1 share a fast cable to n2, which takes no part; the slow cable between them is the fabric.
    let topology = edited(&ring(3, "10", true).expect("valid"), |file| {
        for link in file["links"].as_array_mut().expect("links") {
            if link["to"] == "n1" {
                link["capacity"] = json!("1");
            }
        }
    });
    let list: Vec<String> = ["n0", "n1"].map(String::from).to_vec();
    let request = Request { collective: Word::AllGather, participants: Some(&list), root: None, ignore: &[] };
    let instance = Instance::new(&topology, &request, "t").expect("a problem");
    let made = make(&instance, &plain(), Way::Auto, &Run::quiet(1)).expect("a plan");
    let claim = &made.plan.body.claim;
    let (time, bound) = (claim.time_per_byte.clone().expect("time"), claim.lower_bound.clone().expect("bound"));
    assert_eq!(time.value, fraction(1, 2), "half of the data over the slow cable");
    assert_eq!(bound.value, fraction(1, 22), "n2 could relay: 11 lead out of n0, with or without it");
    assert_eq!((claim.optimal, claim.status), (Some(false), Some(Status::Feasible)));
}

#[test]
fn the_same_bytes_for_any_number_of_threads() {
    let topology = dgx_a100(2, Wiring::TwoRails).expect("valid");
    let text = |threads| {
        let instance = instance(&topology, Word::AllReduce);
        make(&instance, &plain(), Way::Auto, &Run::quiet(threads)).expect("a plan").plan.to_text()
    };
    assert_eq!(text(1), text(4));
}

#[test]
fn refusals_of_the_planner_point_into_the_topology() {
    let uneven = edited(&ring(3, "1", false).expect("valid"), |file| file["links"][1]["capacity"] = json!("2"));
    let errors = make(&instance(&uneven, Word::AllGather), &plain(), Way::Auto, &Run::quiet(1)).expect_err("uneven");
    let error = &errors.all()[0];
    assert_eq!((error.code, error.key.as_str(), error.file.as_str()), ("NOT_EULERIAN", "/nodes/1", "t"));
    assert_eq!(error.details["nodes"][0], json!({"node": "n1", "in": "1", "out": "2"}));
    let options = Options { most_k: Some(1), ..plain() };
    let topology = dgx_a100(2, Wiring::Plain).expect("valid");
    let errors =
        make(&instance(&topology, Word::AllGather), &options, Way::Auto, &Run::quiet(1)).expect_err("13 trees");
    assert_eq!((errors.code(), errors.all()[0].details["k"].as_u64()), ("K_TOO_LARGE", Some(13)));
    let options = Options { fixed_k: Some(0), ..plain() };
    let errors =
        make(&instance(&topology, Word::AllGather), &options, Way::Auto, &Run::quiet(1)).expect_err("no trees");
    assert_eq!((errors.code(), errors.all()[0].key.as_str()), ("BAD_K", "fixed_k"));
}

#[test]
fn the_best_number_of_trees_until_the_deadline() {
    let topology = mi250(2, 8).expect("valid");
    let instance = instance(&topology, Word::AllGather);
    let all = best_of(&instance, &plain(), 1..=4, &Run::quiet(1)).expect("a plan");
    let times: Vec<Rational> = all.tried.iter().map(|tried| tried.time.clone().expect("planned")).collect();
    assert!(all.complete && times.len() == 4 && times[all.k as usize - 1] == *times.iter().min().expect("four"));
    // The second number is still at work when the deadline comes.
    let deadline = Instant::now() + Duration::from_secs(2);
    let watch = |progress: crate::Progress<'_>| {
        if progress.about.to_string() == "k = 2" {
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        }
    };
    let run = Run { watch: &watch, deadline: Some(deadline), ..Run::quiet(1) };
    let best = best_of(&instance, &plain(), 1..=4, &run).expect("one plan");
    assert_eq!((best.complete, best.k, best.tried.as_slice()), (false, 1, &all.tried[..1]));
    assert_eq!(best.made.plan.body.claim.status, Some(Status::TimeLimit));
    let none = best_of(&instance, &plain(), 1..=4, &Run { deadline: Some(Instant::now()), ..Run::quiet(1) });
    assert_eq!(none.expect_err("no time").code(), crate::TIME_LIMIT);
    let zero = best_of(&instance, &plain(), 0..=0, &Run::quiet(1)).expect_err("no trees");
    assert_eq!(zero.code(), "BAD_K");
}
