//! Programs with a time axis: the figures of the method's page, what must hold between the models, and what is refused.

use crate::fluid::fabric;
use crate::fluid::labels::shortest_steps;
use proptest::prelude::*;
use serde_json::json;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::check;
use sluice_plan::plan::Collective;
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::refusal::Refusal;
use sluice_planners::fluid::rounds::Rounds;
use sluice_planners::fluid::timed as places;
use sluice_planners::fluid::to_plan::Proofs;
use sluice_planners::{Request, Run};
use sluice_planners_lp::fluid::solve::Strength;
use sluice_planners_lp::fluid::timed::{Model, Options, Solved, solve};

const FLUID: Options =
    Options { model: Model::Fluid, strength: None, steps: None, step_length: None, latency_only: false };

fn instance(topology: &Topology, collective: Collective) -> Instance<'_> {
    let root = topology.nodes()[0].id.to_string();
    let request = Request { root: collective.is_rooted().then_some(&*root), ..Request::of_all(collective) };
    Instance::new(topology, &request, None, "t").expect("can be served")
}

fn solved(topology: &Topology, collective: Collective, options: &Options) -> Result<Solved, Refusal> {
    solve(&instance(topology, collective), options, &Run::quiet(1))
}

fn shortest(topology: &Topology, collective: Collective, options: &Options) -> f64 {
    solved(topology, collective, options).expect("solved").step_length.expect("steps").value
}

fn rational(text: &str) -> Rational {
    Rational::parse(text).expect("a number")
}

fn is(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-7 * expected.abs().max(1e-3)
}

/// What is known for a number of steps.
type ByCount = &'static [(usize, &'static str)];

/// By fabric the length of steps for numbers of them, and the least time of ways of at most so many links.
const TABLE: [(&str, ByCount, ByCount); 6] = [
    ("line-4", &[(3, "1/2"), (4, "3/8")], &[(3, "3/2"), (4, "3/2")]),
    ("ring-bidir-4", &[(2, "3/20"), (3, "1/10")], &[(2, "3/10"), (3, "3/10")]),
    ("star-switch-4", &[(2, "3/10"), (3, "3/20"), (5, "3/40")], &[(2, "3/10"), (5, "3/10")]),
    ("star-memory-4-bw24", &[(2, "1/2"), (3, "1/4"), (5, "2/15")], &[(2, "2/3"), (5, "2/3")]),
    ("two-box", &[(2, "2"), (3, "1"), (4, "1/2")], &[(2, "2"), (3, "2"), (4, "1")]),
    ("phantom", &[(2, "2/3"), (3, "1/3"), (4, "2/9")], &[(2, "2/3"), (3, "2/3"), (4, "2/3")]),
];

#[test]
fn steps_and_times_of_the_page() {
    for (name, lengths, times) in TABLE {
        let topology = fabric(name);
        for strength in [Strength::Relax, Strength::Dup] {
            let options = Options { strength: Some(strength), ..FLUID };
            for (steps, length) in lengths {
                let options = Options { steps: Some(*steps), ..options.clone() };
                let solved = solved(&topology, Collective::AllGather, &options).expect("solved");
                let found = solved.step_length.expect("a length");
                assert!(is(found.value, rational(length).to_f64()), "{name}, {steps} steps: {}", found.value);
                assert_eq!(found.exact, Some(rational(length)), "{name}, {steps} steps");
                assert_eq!(solved.latency.exact, Some(&rational(length) * &Rational::from(*steps as u64)));
                assert_eq!(solved.strength, Some(strength));
            }
            for (steps, time) in times {
                let options = Options { model: Model::Oblivious, steps: Some(*steps), ..options.clone() };
                let solved = solved(&topology, Collective::AllGather, &options).expect("solved");
                assert_eq!(
                    solved.latency.exact,
                    Some(rational(time)),
                    "{name}, {steps} links: {}",
                    solved.latency.value
                );
                assert!(solved.step_length.is_none() && solved.rounds.is_none());
            }
        }
    }
}

#[test]
fn too_few_steps_have_the_number_that_is_enough() {
    for (name, need) in [("line-4", 3), ("ring-bidir-4", 2), ("star-switch-4", 2), ("two-box", 2)] {
        let topology = fabric(name);
        for model in [Model::Fluid, Model::Oblivious, Model::Pieces(1)] {
            for steps in 0..need {
                let options = Options { model, steps: Some(steps), ..FLUID };
                let refusal = solved(&topology, Collective::AllGather, &options).expect_err("too few");
                assert_eq!(refusal, Refusal::HorizonTooShort { horizon: steps, need }, "{name}");
            }
        }
    }
}

#[test]
fn nothing_begins_or_ends_at_a_node_that_only_passes_on() {
    // Were the switch to send what never came, or keep what never goes on, one step would be enough for some of it.
    let topology = fabric("phantom");
    let instance = instance(&topology, Collective::AllGather);
    let (network, blocks) = places::side(&instance).expect("one phase");
    let switch = topology.node("switch").expect("a node") as u32;
    for block in &blocks {
        for end in &block.ends {
            let (from, to) = (places::Reach::from(&network, block.root, 4), places::Reach::to(&network, *end, 4));
            assert!(!from.has(switch, 0) && !to.has(switch, 4), "a boundary that data begins or ends at");
            assert!(from.has(switch, 1) && to.has(switch, 3));
        }
    }
    // The cost is above that of the program without time only by what waits; it is never below what w without f hides.
    let options = Options { steps: Some(2), ..FLUID };
    let cost = |strength| {
        let options = Options { strength: Some(strength), ..options.clone() };
        solved(&topology, Collective::AllGather, &options).expect("solved").cost.expect("a cost").value
    };
    let (balanced, apart) = (cost(Strength::Relax), cost(Strength::Dup));
    // In two steps all ways are g – switch – g: six units over two links each.
    assert!(is(apart, 12.0) && balanced <= apart + 1e-6, "{balanced} and {apart}");
}

#[test]
fn whole_pieces_of_the_small_fabrics() {
    // (pieces, steps, shortest): by hand.
    let table: [(&str, u64, usize, &str); 6] = [
        ("star-switch-4", 1, 2, "3/10"),
        ("star-switch-4", 1, 4, "1/10"),
        ("ring-bidir-4", 1, 2, "1/5"),
        ("ring-bidir-4", 2, 2, "1/5"),
        ("line-4", 1, 3, "1/2"),
        ("star-memory-4", 1, 2, "3/10"),
    ];
    for (name, pieces, steps, length) in table {
        let topology = fabric(name);
        let instance = instance(&topology, Collective::AllGather);
        let options = Options { model: Model::Pieces(pieces), steps: Some(steps), ..FLUID };
        let solved = solve(&instance, &options, &Run::quiet(1)).expect("solved");
        let found = solved.step_length.as_ref().expect("a length").exact.clone();
        assert_eq!(found, Some(rational(length)), "{name}, {pieces} pieces, {steps} steps");
        planned(&instance, &solved);
    }
}

/// The plan of a schedule of pieces, which the checker has seen, with the figures of the schedule.
fn planned(instance: &Instance<'_>, solved: &Solved) {
    let rounds = solved.rounds.as_ref().expect("a schedule");
    assert!(Rounds::can_be_planned(instance));
    let proofs = Proofs { prices: &solved.prices, cost_prices: &[], is_late: solved.is_late };
    let length = solved.step_length.as_ref().and_then(|length| length.exact.clone()).expect("exact");
    let per_unit = length.checked_div(&instance.unit()).expect("a unit");
    let made = rounds.plan(instance, &solved.blocks, &per_unit, proofs).expect("passes the checker");
    let report = check::check(&made.plan, Some(instance.asked.topology));
    assert!(report.ok());
    let scaled = &made.time * &(&instance.units() * &instance.unit());
    assert_eq!(Some(&scaled), solved.latency.exact.as_ref());
    let cost = report.figures.expect("figures").cost.expect("a cost");
    assert_eq!(Some(&cost), solved.cost.as_ref().and_then(|cost| cost.exact.as_ref()));
}

#[test]
fn every_collective_of_one_phase_has_a_plan_of_pieces() {
    for name in ["star-switch-4", "star-memory-4-bw24", "two-box", "phantom", "ring-unidir-5"] {
        let topology = fabric(name);
        let all = Collective::ALL.iter().copied();
        for collective in all.filter(|of| !matches!(of, Collective::Custom | Collective::AllReduce)) {
            let instance = instance(&topology, collective);
            for pieces in [1, 2] {
                // One more than must be, so that something can wait.
                let (network, blocks) = places::side(&instance).expect("one phase");
                let steps = Some(places::fewest_steps(&network, &blocks, 0).expect("reachable") + 1);
                let options = Options { model: Model::Pieces(pieces), steps, ..FLUID };
                let fluid = Options { model: Model::Fluid, steps, latency_only: true, ..FLUID };
                let least = solve(&instance, &fluid, &Run::quiet(1)).expect("solved").latency.value;
                // Whole programs to their optimum take long where pieces are many: any schedule that fits is one.
                let given = Rational::parse("1000").expect("long");
                let options = Options { step_length: Some(given), ..options };
                let solved = solve(&instance, &options, &Run::quiet(1)).expect("solved");
                assert!(solved.latency.value >= least * (1.0 - 1e-7), "{name}, {}", collective.word());
                planned(&instance, &solved);
            }
        }
    }
}

#[test]
fn the_best_number_of_steps_is_found_and_proved() {
    // A switch: in 4 steps of 1/10 a piece for everybody leaves every node in each but the last; 2 take 3/5, 3 take 3/5.
    let topology = fabric("star-switch-4");
    let options = Options { model: Model::Pieces(1), ..FLUID };
    let found = solved(&topology, Collective::AllGather, &options).expect("solved");
    assert_eq!((found.steps, found.latency.exact.clone()), (4, Some(rational("2/5"))));
    assert!(!found.is_late && is(found.latency.lower, 0.4) && !found.prices.is_empty());
    // Steps of a given length: as many as must be.
    for (length, steps) in [("1/10", 4), ("1/5", 3), ("3/10", 2), ("1", 2)] {
        let options = Options { step_length: Some(rational(length)), ..options.clone() };
        let found = solved(&topology, Collective::AllGather, &options).expect("solved");
        assert_eq!(found.steps, steps, "steps of {length}");
        assert_eq!(found.latency.exact, Some(&rational(length) * &Rational::from(steps as u64)));
    }
    for (length, steps) in [("3/10", 2), ("3/20", 3), ("3/40", 5), ("1/10", 4)] {
        let options = Options { step_length: Some(rational(length)), ..FLUID };
        assert_eq!(solved(&topology, Collective::AllGather, &options).expect("solved").steps, steps, "{length}");
    }
}

#[test]
fn what_cannot_be_has_its_name() {
    let topology = fabric("star-switch-4");
    let refused = |options: Options| solved(&topology, Collective::AllGather, &options).expect_err("cannot be");
    let bad = |options: Options, expected: &str| match refused(options) {
        Refusal::BadParameter { name, .. } => assert_eq!(name, expected),
        other => panic!("{other:?} for {expected}"),
    };
    let fluid = || Options { steps: Some(2), ..FLUID };
    bad(Options { model: Model::Pieces(0), ..fluid() }, "chunks");
    bad(Options { step_length: Some(Rational::ZERO), ..fluid() }, "step_length");
    bad(Options { step_length: Some(rational("-1")), ..fluid() }, "step_length");
    bad(Options { model: Model::Oblivious, step_length: Some(Rational::ONE), ..fluid() }, "step_length");
    bad(Options { strength: Some(Strength::Tree), ..fluid() }, "strength");
    bad(Options { model: Model::Pieces(1), strength: Some(Strength::Dup), ..fluid() }, "strength");
    bad(Options { steps: None, ..fluid() }, "horizon");
    bad(Options { model: Model::Oblivious, steps: None, ..fluid() }, "horizon");
    let refusal = solved(&topology, Collective::AllReduce, &fluid()).expect_err("two phases");
    assert!(matches!(refusal, Refusal::BadParameter { name: "collective", .. }));
    for (model, needed) in [(Model::Fluid, 0.3), (Model::Pieces(1), 0.3)] {
        let options = Options { model, step_length: Some(rational("1/5")), ..fluid() };
        match refused(options) {
            Refusal::Infeasible { needed: found } => assert!(is(found, needed), "{found}"),
            other => panic!("{other:?}"),
        }
    }
    // No number of steps makes a piece fit.
    let options = Options { model: Model::Pieces(1), steps: None, step_length: Some(rational("1/11")), ..FLUID };
    assert!(matches!(refused(options), Refusal::Infeasible { needed } if is(needed, 0.1)));
    for steps in [100_000_000, usize::MAX] {
        assert_eq!(refused(Options { steps: Some(steps), ..FLUID }).code(), "TooLarge");
    }
    assert_eq!(refused(Options { model: Model::Pieces(u64::MAX), ..fluid() }).code(), "TooLarge");
    let tiny = Options { step_length: Some(rational("1/1000000000000")), ..FLUID };
    assert_eq!(refused(tiny).code(), "TooLarge");
}

#[test]
fn links_without_limit_take_no_time() {
    let text = json!({"sluice_topology": 1,
        "nodes": [{"id": "a", "kind": "gpu"}, {"id": "b", "kind": "gpu"}],
        "links": [{"from": "a", "to": "b", "capacity": "unlimited", "duplex": true}]});
    let topology = Topology::read(text.to_string().as_bytes(), "t").expect("valid");
    for model in [Model::Fluid, Model::Pieces(1), Model::Pieces(3)] {
        let steps = (model == Model::Fluid).then_some(1);
        let solved = solved(&topology, Collective::AllGather, &Options { model, steps, ..FLUID }).expect("solved");
        assert!(solved.latency.value.abs() < 1e-9 && solved.steps == 1, "{solved:?}");
    }
}

#[test]
fn more_pieces_come_nearer_to_a_fluid() {
    // All nodes copy and are ends, so that nothing is lost to coding; 6 pieces fit in steps as long as those of a fluid.
    let topology = fabric("ring-bidir-4");
    let fluid = shortest(&topology, Collective::AllGather, &Options { steps: Some(3), ..FLUID });
    let of = |pieces| {
        shortest(
            &topology,
            Collective::AllGather,
            &Options { model: Model::Pieces(pieces), steps: Some(3), latency_only: true, ..FLUID },
        )
    };
    let (one, two, four) = (of(1), of(2), of(4));
    assert!(fluid <= four + 1e-9 && four <= two + 1e-9 && two <= one + 1e-9, "{fluid} {four} {two} {one}");
    assert!(is(one, 0.2) && is(two, 0.1) && is(fluid, 0.1), "{one} {two} {fluid}");
}

/// Fabrics of two or three participants that store and copy, up to two other nodes with any abilities, a ring of links
/// among all, others, and sometimes a limit on several of them.
fn fabrics() -> impl Strategy<Value = Topology> {
    let links = proptest::collection::vec((0_usize..5, 0_usize..5, 1_u8..5, 0_u8..3), 0..5);
    (2_usize..=3, 0_usize..=2, proptest::array::uniform2(0_u8..8), links, proptest::array::uniform5(1_u8..5), 0_u8..4).prop_map(
        |(ends, others, flags, links, ring, joint)| {
            let n = ends + others;
            let node = |node: usize| match node.checked_sub(ends) {
                None => json!({"id": format!("g{node}"), "kind": "gpu"}),
                Some(other) => {
                    let flags = flags[other];
                    let can = json!({"store": flags & 1 > 0, "copy": flags & 2 > 0, "reduce": flags & 4 > 0});
                    json!({"id": format!("x{other}"), "kind": if flags & 1 > 0 { "memory" } else { "switch" }, "can": can})
                }
            };
            let id = |at: usize| if at < ends { format!("g{at}") } else { format!("x{}", at - ends) };
            let link = |from: usize, to: usize, rate: u8, cost: u8| json!({"from": id(from), "to": id(to), "capacity": rate.to_string(), "cost": cost.to_string()});
            let mut seen = std::collections::HashSet::new();
            let mut all = Vec::new();
            for (at, rate) in ring.iter().enumerate().take(n) {
                seen.insert((at, (at + 1) % n));
                all.push(link(at, (at + 1) % n, *rate, 1));
            }
            for (from, to, rate, cost) in links {
                let (from, to) = (from % n, to % n);
                if from != to && seen.insert((from, to)) {
                    all.push(link(from, to, rate, cost));
                }
            }
            let mut file = json!({"sluice_topology": 1, "nodes": (0..n).map(node).collect::<Vec<_>>(), "links": all});
            if joint > 0 {
                file["groups"] = json!([{"name": "joint", "capacity": joint.to_string(), "links": [[id(0), id(1)], [id(1), id(2 % n)]]}]);
            }
            Topology::read(file.to_string().as_bytes(), "t").expect("valid")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn models_bound_each_other(topology in fabrics(), more in 0_usize..3) {
        let instance = instance(&topology, Collective::AllGather);
        let (network, blocks) = places::side(&instance).expect("one phase");
        let steps = places::fewest_steps(&network, &blocks, 0).expect("a ring reaches all") + more;
        let of = |model, strength, steps| {
            let options = Options { model, strength, steps: Some(steps), latency_only: true, ..FLUID };
            solve(&instance, &options, &Run::quiet(1)).expect("solved").latency.value
        };
        let below = |a: f64, b: f64| a <= b * (1.0 + 1e-7) + 1e-9;
        let exact = shortest_steps(&network, &blocks, steps).expect("enough steps") / network.scale * steps as f64;
        let mut before = f64::INFINITY;
        for strength in [Strength::Relax, Strength::Dup] {
            let fluid = of(Model::Fluid, Some(strength), steps);
            prop_assert!(below(fluid, exact), "{strength:?}: {fluid} above {exact}");
            let oblivious = of(Model::Oblivious, Some(strength), steps);
            prop_assert!(below(oblivious, fluid), "{strength:?}: {oblivious} above {fluid}");
            let longer = of(Model::Oblivious, Some(strength), steps + 1);
            prop_assert!(below(longer, oblivious), "{strength:?}: {longer} above {oblivious}");
            before = before.min(longer);
        }
        // The program without time is below them all.
        let options = sluice_planners_lp::fluid::solve::Options {
            strength: Some(Strength::Relax), routes: false, latency_only: true, ..Default::default()
        };
        let bound = sluice_planners_lp::fluid::solve::solve(&instance, &options, &Run::quiet(1)).expect("solved");
        prop_assert!(below(bound.latency.value, before));
        let mut last = f64::INFINITY;
        for pieces in [1, 2] {
            let options = Options { model: Model::Pieces(pieces), steps: Some(steps), ..FLUID };
            let solved = solve(&instance, &options, &Run::quiet(1)).expect("solved");
            let found = solved.latency.value;
            prop_assert!(below(exact, found), "{pieces} pieces take {found}, a fluid {exact}");
            prop_assert!(below(found, last), "twice as many pieces do what one does");
            planned(&instance, &solved);
            last = found;
        }
    }

    #[test]
    fn sums_take_what_their_turned_fabric_takes(topology in fabrics()) {
        let instance = instance(&topology, Collective::Reduce);
        prop_assume!(instance.network.can.iter().take(2).all(|can| can.reduce));
        let (network, blocks) = places::side(&instance).expect("one phase");
        let steps = places::fewest_steps(&network, &blocks, 0).expect("a ring reaches all") + 1;
        let exact = shortest_steps(&network, &blocks, steps).expect("enough steps") / network.scale;
        let options = Options { model: Model::Pieces(1), steps: Some(steps), ..FLUID };
        let solved = solve(&instance, &options, &Run::quiet(1)).expect("solved");
        let found = solved.step_length.as_ref().expect("steps").value;
        prop_assert!(exact <= found * (1.0 + 1e-7), "{found} for a piece, {exact} for a fluid");
        planned(&instance, &solved);
    }
}
