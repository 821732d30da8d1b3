//! Plans and their claims: accepted by the checker with every figure, and with the figures that are known.

use serde_json::json;
use sluice_plan::check::check;
use sluice_plan::plan::{Collective, Plan};
use sluice_planners::direct::{Instance, Options, Proof, make};
use sluice_planners::{Request, Run};

use crate::bfb::{OF_STEPS, edited, exact, graphs, instance, kautz, links, planned};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::r#gen::{hypercube, torus};

#[test]
fn every_plan_passes_the_checker_read_back_from_its_file() {
    for topology in graphs() {
        for collective in OF_STEPS {
            for units in [None, Some(1), Some(5)] {
                let made = planned(&topology, collective, units);
                let text = made.plan.to_text();
                let report = check(&Plan::read(text.as_bytes(), "p.json").expect("readable"), None);
                assert!(report.ok(), "{} {collective:?}: {report:?}", topology.name());
                for figure in ["T_L", "the loads of all steps", "load_sum", "T_B", "time per byte", "no plan is faster"]
                {
                    assert!(report.proved.iter().any(|line| line.contains(figure)), "{figure}: {:?}", report.proved);
                }
                assert_eq!(text, planned(&topology, collective, units).plan.to_text(), "the same bytes again");
            }
        }
    }
}

#[test]
fn figures_of_known_graphs() {
    let torus = torus(&[4, 6], "1").expect("valid");
    let made = planned(&torus, Collective::AllGather, None);
    assert_eq!((made.figures.n, made.figures.d, made.figures.cost.t_l(), made.figures.units), (24, Some(4), 5, 4));
    assert_eq!(made.figures.cost.t_b, Some(exact("23/24")));
    assert!(made.figures.bandwidth_optimal && !made.figures.moore_optimal);
    assert_eq!(made.plan.body.claim.optimal, Some(true));
    let both = planned(&torus, Collective::AllReduce, None);
    assert_eq!((both.figures.cost.t_l(), both.figures.cost.t_b.clone()), (10, Some(exact("23/12"))));
    assert!(both.figures.bandwidth_optimal);
    let pi = kautz(2, 9);
    let t_b = |collective| planned(&pi, collective, None).figures.cost.t_b;
    assert_eq!(OF_STEPS.map(t_b), ["14/9", "10/9", "8/3"].map(|text| Some(exact(text))));
    assert!(planned(&pi, Collective::AllGather, None).figures.moore_optimal);
    let cube = hypercube(3, "1").expect("valid");
    assert_eq!(planned(&cube, Collective::AllGather, Some(1)).figures.cost.load_sum, exact("3"));
    let star = links("star", 5, (1..5).flat_map(|leaf| [(0, leaf), (leaf, 0)]));
    let made = planned(&star, Collective::AllGather, None);
    assert_eq!((made.figures.d, made.figures.cost.t_b, made.figures.cost.load_sum), (None, None, exact("4")));
}

/// Two nodes of each side of K(2,2); latency 1 on seven links and 40 on the eighth, shards of 8 over bandwidth 2.
#[test]
fn a_slow_start_of_one_link_is_in_the_total() {
    let pairs = [(0, 2), (2, 0), (0, 3), (3, 0), (1, 2), (2, 1), (1, 3), (3, 1)];
    let topology = edited(&links("k22", 4, pairs), |file| {
        for (place, link) in file["links"].as_array_mut().expect("links").iter_mut().enumerate() {
            link["capacity"] = json!("2B/s");
            link["latency"] = json!(if place == 7 { "40s" } else { "1s" });
        }
    });
    let size = Rational::from(32);
    let (request, options) =
        (Request::of_all(Collective::AllGather), Options { size: Some(&size), ..Options::default() });
    let made = make(&Instance::new(&topology, &request, &options, "t").expect("read"), &Run::quiet(2)).expect("made");
    assert_eq!(made.figures.time, Some(Rational::from(49)));
    assert_eq!((made.figures.d, &made.figures.cost.t_b), (None, &None));
    let errors = instance(&topology, Collective::AllGather, None).expect_err("the size decides");
    assert_eq!((errors.code(), errors.all()[0].key.as_str()), ("E_MISSING", "size"));
}

#[test]
fn equal_latencies_are_added_to_the_time() {
    let topology = kautz(2, 6);
    let size = Rational::from(6_000);
    let (request, options) =
        (Request::of_all(Collective::AllGather), Options { size: Some(&size), ..Options::default() });
    let made = make(&Instance::new(&topology, &request, &options, "t").expect("read"), &Run::quiet(1)).expect("made");
    // Two steps of 2 us, and as many shards of 1000 bytes as the loads say over 10 Gbit/s: 0.8 us each.
    let micro = |text: &str| &exact(text) * &exact("1/1000000");
    assert_eq!(made.figures.time, Some(&micro("4") + &(&micro("4/5") * &made.figures.cost.load_sum)));
}

#[test]
fn the_number_of_steps_can_be_proved_instead() {
    for topology in graphs() {
        for collective in OF_STEPS {
            let options = Options { proof: Proof::Diameter, ..Options::default() };
            let request = Request::of_all(collective);
            let made =
                make(&Instance::new(&topology, &request, &options, "t").expect("read"), &Run::quiet(1)).expect("made");
            let report = check(&made.plan, None);
            assert!(report.proved.iter().any(|line| line.contains("steps (`diameter`)")), "{:?}", report.proved);
            let one_phase = collective != Collective::AllReduce;
            assert_eq!(made.plan.body.claim.optimal, Some(one_phase), "{}", topology.name());
        }
    }
}

#[test]
fn what_is_ignored_stands_in_the_plan() {
    let topology = edited(&kautz(2, 6), |file| file["nodes"][1]["buffer"] = json!("1MiB"));
    assert_eq!(instance(&topology, Collective::AllGather, None).expect_err("refused").code(), "UNSUPPORTED_FIELD");
    let ignore = ["buffer".to_owned()];
    let request = Request { ignore: &ignore, ..Request::of_all(Collective::AllGather) };
    let options = Options::default();
    let made = make(&Instance::new(&topology, &request, &options, "t").expect("read"), &Run::quiet(1)).expect("made");
    assert_eq!(made.plan.body.ignored.expect("listed").len(), 1);
}
