//! The whole way to a plan: figures of the method's page for clusters, every plan through the checker, and what is refused.

use crate::fluid::fabric;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen;
use sluice_plan::check;
use sluice_plan::plan::{Collective, Demands};
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::to_plan::{Made, Mixing, make};
use sluice_planners::teccl::demand::Wanted;
use sluice_planners::{Request, Run};
use sluice_planners_lp::fluid::solve::{Method, Options, Solved, Strength, solve};
use sluice_planners_lp::fluid::stage;
use sluice_solver::{Bounds, Program, Sense};

pub fn solved<'a>(topology: &'a Topology, collective: Collective, options: &Options) -> (Instance<'a>, Solved) {
    let root = topology.nodes()[0].id.to_string();
    let request = Request { root: collective.is_rooted().then_some(&*root), ..Request::of_all(collective) };
    let instance = Instance::new(topology, &request, None, "t").expect("can be served");
    let solved = solve(&instance, options, &Run::quiet(1)).expect("solved");
    (instance, solved)
}

pub fn mixing(solved: &Solved) -> Mixing<'_> {
    Mixing {
        folding: &solved.folding,
        mixed: solved.mixed.clone(),
        prices: solved.prices.clone(),
        cost_prices: solved.cost_prices.clone(),
        is_late: solved.is_late,
    }
}

pub fn planned(instance: &Instance<'_>, solved: &Solved) -> Made {
    make(instance, &mixing(solved)).expect("passes the checker")
}

#[test]
fn every_collective_of_every_small_fabric_has_a_proven_plan() {
    for name in
        ["star-switch-4", "star-memory-4", "star-memory-4-bw24", "ring-unidir-5", "line-4", "two-box", "phantom"]
    {
        let topology = fabric(name);
        for collective in Collective::ALL.iter().copied().filter(|collective| *collective != Collective::Custom) {
            let (instance, solved) = solved(&topology, collective, &Options::default());
            let made = planned(&instance, &solved);
            assert!(made.optimal, "{name}, {}: {} and {}", collective.word(), made.time, made.bound);
            // T/M is R over the units in M.
            let exact = solved.latency.exact.as_ref().expect("a fraction");
            let scaled = &made.time * &(&instance.units() * &instance.unit());
            assert_eq!(scaled, *exact, "{name}, {}", collective.word());
            let claim = &made.plan.body.claim;
            let (cost, least) = (claim.cost.as_ref(), claim.cost_lower_bound.as_ref());
            let (cost, least) = (&cost.expect("a cost").0, &least.expect("a bound of it").0);
            assert!((cost - least).to_f64().abs() <= 1e-7 * cost.to_f64(), "{name}, {}", collective.word());
        }
    }
}

/// R and cost of an all-gather on a cluster of the page, by the program over links.
fn cluster(nodes: u32, variant: &str, strength: Strength) -> (f64, f64) {
    let topology = rails(nodes, variant);
    let options = Options { strength: Some(strength), routes: false, ..Options::default() };
    let (_, solved) = solved(&topology, Collective::AllGather, &options);
    (solved.latency.value, solved.cost.expect("a cost").value)
}

pub fn rails(nodes: u32, variant: &str) -> Topology {
    let variant = match variant {
        "nvlink" => r#gen::Variant::Nvlink,
        "pcie" => r#gen::Variant::Pcie,
        _ => r#gen::Variant::All,
    };
    r#gen::dgx_a100_rail(nodes, variant).expect("a cluster")
}

#[test]
fn all_gathers_of_the_clusters() {
    let table: [(u32, &str, f64, f64); 12] = [
        (1, "nvlink", 7.0 / 300.0, 112.0),
        (1, "pcie", 7.0 / 32.0, 92.0),
        (1, "all", 7.0 / 332.0, 9104.0 / 83.0),
        (2, "nvlink", 15.0 / 325.0, 6720.0 / 13.0),
        (2, "pcie", 15.0 / 32.0, 424.0),
        (2, "all", 15.0 / 332.0, 41904.0 / 83.0),
        (4, "nvlink", 0.12, 2176.0),
        (4, "pcie", 31.0 / 32.0, 1808.0),
        (8, "nvlink", 0.28, 8960.0),
        (8, "pcie", 63.0 / 32.0, 7456.0),
        (16, "nvlink", 0.6, 36352.0),
        (16, "pcie", 127.0 / 32.0, 30272.0),
    ];
    let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-7 * expected;
    for (nodes, variant, latency, cost) in table {
        let found = cluster(nodes, variant, Strength::Relax);
        assert!(near(found.0, latency) && near(found.1, cost), "{nodes} {variant}: {found:?}");
    }
    for (nodes, latency, cost) in [(4, 0.12, 2114.56), (8, 0.28, 8673.28), (16, 0.6, 35123.2), (32, 1.24, 141_352.96)] {
        let found = cluster(nodes, "all", Strength::Relax);
        assert!(near(found.0, latency) && near(found.1, cost), "{nodes} all: {found:?}");
    }
    let found = cluster(4, "all", Strength::Dup);
    assert!(near(found.0, 0.12) && near(found.1, 2126.08), "{found:?}");
}

#[test]
fn trees_of_two_machines_reach_what_links_allow() {
    for (variant, cost) in [("nvlink", 6720.0 / 13.0), ("pcie", 424.0), ("all", 41904.0 / 83.0)] {
        let topology = rails(2, variant);
        let (instance, solved) = solved(&topology, Collective::AllGather, &Options::default());
        assert_eq!(solved.strength, Some(Strength::Tree));
        let made = planned(&instance, &solved);
        let found = solved.cost.as_ref().expect("a cost").value;
        assert!(made.optimal && (found - cost).abs() <= 1e-6 * cost, "{variant}: {found} for {cost}");
        assert!(check::check(&made.plan, Some(&topology)).ok());
    }
}

#[test]
fn an_all_reduce_of_64_gpus_has_a_proven_plan() {
    let topology = rails(8, "nvlink");
    let (instance, solved) = solved(&topology, Collective::AllReduce, &Options::default());
    let made = planned(&instance, &solved);
    // What an all-gather and its mirror image take together is no less.
    let (_, gather) = crate::fluid::solve::solved(&topology, Collective::AllGather, &Options::default());
    let both = 2.0 * gather.latency.value / 64.0;
    assert!(made.optimal && solved.latency.value <= both * (1.0 + 1e-9), "{:?}, both phases {both}", solved.latency);
}

#[test]
fn routes_and_links_agree_without_and_with_symmetry() {
    for name in ["star-memory-4-bw24", "ring-bidir-4", "two-box"] {
        let topology = fabric(name);
        let of = |strength, method| {
            let options = Options { strength, method, ..Options::default() };
            let (_, solved) = solved(&topology, Collective::AllGather, &options);
            (solved.latency.value, solved.cost.expect("a cost").value)
        };
        let trees = of(Some(Strength::Tree), Method::Dw);
        for (strength, method) in [
            (Some(Strength::Tree), Method::Mirrored),
            (Some(Strength::Dup), Method::Direct),
            (Some(Strength::Dup), Method::Orbit),
            (Some(Strength::Relax), Method::Direct),
            (Some(Strength::Relax), Method::Orbit),
        ] {
            let found = of(strength, method);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-7 * b;
            assert!(near(found.0, trees.0) && near(found.1, trees.1), "{name}, {strength:?} by {method:?}: {found:?}");
        }
    }
}

#[test]
fn what_cannot_be_has_its_name() {
    let refused = |edit: &dyn Fn(&mut serde_json::Value), collective| {
        let mut file: serde_json::Value = serde_json::from_str(&fabric("two-box").to_compact()).expect("JSON");
        edit(&mut file);
        let topology = Topology::read(file.to_string().as_bytes(), "t").expect("valid");
        let root = collective == Collective::Reduce;
        let request = Request { root: root.then_some("g0"), ..Request::of_all(collective) };
        Instance::new(&topology, &request, None, "t").expect_err("cannot be").code()
    };
    let cannot = |able: serde_json::Value| move |file: &mut serde_json::Value| file["nodes"][1]["can"] = able.clone();
    let copy = cannot(serde_json::json!({"copy": false}));
    assert_eq!(refused(&copy, Collective::AllGather), "EndpointCannotCopy");
    let reduce = cannot(serde_json::json!({"reduce": false}));
    assert_eq!(refused(&reduce, Collective::Reduce), "EndpointCannotReduce");
    let nobody = |file: &mut serde_json::Value| {
        for node in 0..4 {
            file["nodes"][node]["can"] = serde_json::json!({"copy": false});
        }
    };
    assert_eq!(refused(&nobody, Collective::AllReduce), "NoRoot");
    let apart = |file: &mut serde_json::Value| {
        let links = file["links"].as_array_mut().expect("links");
        links.retain(|link| link["from"] != "g0");
    };
    assert_eq!(refused(&apart, Collective::AllGather), "Unreachable");
    let alone = |file: &mut serde_json::Value| {
        for node in 1..4 {
            file["nodes"][node]["kind"] = "switch".into();
        }
    };
    assert_eq!(refused(&alone, Collective::AllGather), "EmptyCollective");
    let topology = fabric("two-box");
    let request = Request::of_all(Collective::AllGather);
    let instance = Instance::new(&topology, &request, None, "t").expect("can be served");
    let options = Options { strength: Some(Strength::Tree), method: Method::Orbit, ..Options::default() };
    let refusal = solve(&instance, &options, &Run::quiet(1)).expect_err("trees are columns");
    assert_eq!(refusal.code(), "BadParameter");
    assert_eq!(Rational::ONE, instance.unit());
}

#[test]
fn ends_other_than_an_optimum_are_told() {
    let refused = |cost: f64, room: Bounds| {
        let mut program = Program::new(Sense::Minimise);
        let row = program.row(room).expect("a row");
        program.column(cost, Bounds::POSITIVE, [(row, 1.0)]).expect("a column");
        stage::solve(&mut program, sluice_solver::Method::Simplex, &Run::quiet(1)).expect_err("no optimum")
    };
    for refusal in [refused(1.0, Bounds::at_most(-1.0)), refused(-1.0, Bounds::POSITIVE)] {
        assert_eq!(refusal.code(), "Solver", "{refusal}");
    }
    // Time that has run out leaves nothing, or a mixture with a gap that says so.
    let topology = rails(4, "all");
    let instance = Instance::new(&topology, &Request::of_all(Collective::AllGather), None, "t").expect("served");
    let options = Options { strength: Some(Strength::Tree), method: Method::Dw, ..Options::default() };
    let late = Run { deadline: Some(std::time::Instant::now()), ..Run::quiet(1) };
    match solve(&instance, &options, &late) {
        Err(refusal) => assert_eq!(refusal.code(), "TimeLimit"),
        Ok(solved) => assert!(solved.is_late && solved.latency.lower < solved.latency.value),
    }
}

#[test]
fn demands_of_unequal_ends_have_proven_plans() {
    let wanted = r#"{"sluice_demands": 1, "tenants": [
        {"name": "few", "triples": [["g0", 0, "g1"], ["g0", 0, "g2"], ["g3", 0, "g0"], ["g3", 1, "g0"]]},
        {"name": "all", "collective": "broadcast", "root": "g1"}]}"#;
    for name in ["two-box", "star-memory-4-bw24", "line-4"] {
        let topology = fabric(name);
        let (demands, names) = Demands::read(wanted.as_bytes(), "d").expect("demands");
        let wanted = Wanted { demands, names, file: "d".into() };
        let request = Request::of_all(Collective::Custom);
        let instance = Instance::new(&topology, &request, Some(wanted), "t").expect("can be served");
        let solved = solve(&instance, &Options::default(), &Run::quiet(1)).expect("solved");
        let made = planned(&instance, &solved);
        assert_eq!(instance.units(), Rational::from(4));
        assert!(made.optimal, "{name}: {} and {}", made.time, made.bound);
    }
}
