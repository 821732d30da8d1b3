//! Routes are ways, what waits is kept waiting, no link carries more than it can, and sums are sums.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use sluice_planners_wan::generate::Workload;
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::{Flow, Link};

fn abilene(collectives: usize, seed: u64, scale: f64) -> Instance {
    let path = format!("{}/../wan/data/Abilene.graphml", env!("CARGO_MANIFEST_DIR"));
    let graph = Graph::graphml(&std::fs::read(path).expect("the file is there"), "Abilene").expect("a graph");
    let workload = Workload { scale, ..Workload::new(&graph, collectives, seed) };
    workload.generate().expect("an instance")
}

/// Time for some greedy orders: whatever comes of them is a schedule.
fn options(form: Form, epochs: Epochs, chunks: u64) -> Options {
    Options { form, epochs, chunks, limit: Duration::from_secs(1) }
}

fn all() -> impl Iterator<Item = (Instance, Options)> {
    let kinds = Form::ALL.into_iter().flat_map(|form| Epochs::ALL.map(|epochs| (form, epochs)));
    kinds.flat_map(|(form, epochs)| [1, 3].map(|chunks| (abilene(2, 1, 1.0), options(form, epochs, chunks))))
}

fn decided(instance: &Instance, options: Options) -> Decision {
    decide(instance, options, &Run::quiet(1)).expect("decided")
}

#[test]
fn routes_are_ways_from_the_sender_to_the_receiver() {
    for (instance, options) in all() {
        let decision = decided(&instance, options);
        // A way that is none would not be an instance; what is left is that nobody is left out.
        assert_eq!(decision.instance.collectives(), 2);
        if options.form == Form::Flows {
            let parts = decision.instance.flows();
            assert_eq!(parts.len() as u64, instance.flows().len() as u64 * options.chunks);
            let mut asked: Vec<(usize, usize, usize)> = Vec::new();
            for flow in instance.flows() {
                asked.extend((0..options.chunks).map(|_| (flow.collective, flow.from, flow.to)));
            }
            let mut given: Vec<_> = parts.iter().map(|flow| (flow.collective, flow.from, flow.to)).collect();
            asked.sort_unstable();
            given.sort_unstable();
            assert_eq!(given, asked);
            let volume = |instance: &Instance| instance.flows().iter().map(|flow| flow.size).sum::<f64>();
            assert!((volume(&decision.instance) / volume(&instance) - 1.0).abs() < 1e-12);
        }
    }
}

#[test]
fn what_waits_begins_after_what_it_waits_for_and_links_carry_what_they_can() {
    for (instance, options) in all() {
        let decision = decided(&instance, options);
        let of = &decision.instance;
        // The simulator refuses rates beyond a capacity at any event.
        let played = decision.execute(Execution::Static).expect("played");
        let begins: Vec<f64> = (0..of.flows().len())
            .map(|flow| played.ends[flow] - of.flows()[flow].size / decision.rates[flow])
            .collect();
        for (before, after) in of.dependencies() {
            assert!(begins[after] >= played.ends[before] * (1.0 - 1e-9));
        }
        // And once more, without it: at the beginning of each flow all that run on its links fit.
        for (flow, begin) in begins.iter().enumerate() {
            for link in &of.flows()[flow].path {
                let now = begin * (1.0 + 1e-9) + 1e-9;
                let on = of.flows_on(*link).iter().filter(|other| begins[**other] <= now && now < played.ends[**other]);
                let load: f64 = on.map(|other| decision.rates[*other]).sum();
                assert!(load <= of.links()[*link].capacity * (1.0 + 1e-6), "{load}");
            }
        }
        let filled = decision.execute(Execution::WorkConserving).expect("played");
        assert!(filled.mean.is_finite() && filled.t.iter().all(|t| *t > 0.0));
    }
}

#[test]
fn by_its_own_clock_no_link_has_more_chunks_than_it_may_in_any_epoch() {
    for (instance, options) in all().filter(|(_, options)| options.form == Form::Flows) {
        let sites = asked::topology(&instance, false).expect("a topology");
        let mut wants: Vec<Vec<(usize, u64, usize)>> = vec![Vec::new(); instance.collectives()];
        for (number, flow) in instance.flows().iter().enumerate() {
            wants[flow.collective].push((flow.from, number as u64, flow.to));
        }
        let wants = wants.into_iter().map(asked::Want::Triples).collect();
        let asked = asked::put(&sites, wants, asked::chunk(&instance, options), options).expect("asked");
        let found = decided::search(&asked, options, &Run::quiet(1)).expect("decided");
        let mut filled: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for send in &found.schedule.sends {
            let lane = &asked.lanes.lanes[send.lane];
            for room in &lane.rooms {
                (send.epoch..send.epoch + lane.kappa).for_each(|epoch| *filled.entry((*room, epoch)).or_default() += 1);
            }
        }
        assert!(filled.into_iter().all(|((room, epoch), chunks)| chunks <= asked.lanes.rooms[room].limit(epoch)));
        // Nor more bytes than it carries in that time.
        for send in &found.schedule.sends {
            let lane = &asked.lanes.lanes[send.lane];
            let rate = decided::rate(lane, asked::chunk(&instance, options), asked.terms.tau.to_f64());
            assert!(lane.links.iter().all(|link| rate <= instance.links()[*link].capacity * (1.0 + 1e-9)));
        }
    }
}

#[test]
fn every_flow_waits_for_all_of_the_one_before_it() {
    let instance = abilene(2, 2, 1.0);
    let decision = decided(&instance, options(Form::Flows, Epochs::Coarse, 2));
    // Two parts each: four pairs for each of the ring's dependencies.
    assert_eq!(decision.instance.dependencies().count(), 4 * instance.dependencies().count());
}

#[test]
fn halves_add_up_everybody_and_reach_everybody() {
    for epochs in Epochs::ALL {
        let instance = abilene(3, 3, 1.0);
        let decision = decided(&instance, options(Form::Halves, epochs, 1));
        let of = &decision.instance;
        for collective in 0..3 {
            let nodes: BTreeSet<usize> =
                instance.flows().iter().filter(|flow| flow.collective == collective).map(|flow| flow.from).collect();
            // What each send carries: the parts of those whose contributions came before it.
            let flows: Vec<usize> =
                (0..of.flows().len()).filter(|flow| of.flows()[*flow].collective == collective).collect();
            let mut complete: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); of.nodes()];
            for flow in flows {
                let (mut behind, mut left) = (BTreeSet::from([of.flows()[flow].from]), vec![flow]);
                while let Some(at) = left.pop() {
                    behind.insert(of.flows()[at].from);
                    left.extend(of.predecessors(at));
                }
                if behind.is_superset(&nodes) {
                    complete[of.flows()[flow].to].insert(flow);
                }
            }
            // Everybody gets the sums of all chunks, but for those that it owns itself.
            assert!(nodes.iter().all(|node| complete[*node].len() >= nodes.len() - 1));
        }
    }
}

#[test]
fn times_are_in_proportion_to_sizes() {
    for (form, epochs) in [(Form::Flows, Epochs::Coarse), (Form::Halves, Epochs::Fine)] {
        let mean = |scale: f64| {
            // What is proved before time runs out is the same on every machine.
            let options = Options { limit: Duration::from_secs(60), ..options(form, epochs, 1) };
            let decision = decided(&abilene(1, 1, scale), options);
            assert_eq!(decision.standing, Standing::Best);
            decision.execute(Execution::Static).expect("played").mean
        };
        let (one, eight) = (mean(1.0), mean(8.0));
        assert!((eight / one / 8.0 - 1.0).abs() < 1e-6, "{one} {eight}");
    }
}

#[test]
fn an_order_against_the_dependencies_does_not_lock() {
    let links = vec![Link { from: 0, to: 1, capacity: 2.0 }, Link { from: 1, to: 0, capacity: 2.0 }];
    let flow = |order: usize, from: usize, link: usize| Flow {
        collective: 0,
        group: 0,
        order,
        from,
        to: 1 - from,
        size: 2.0,
        path: vec![link],
        release: 0.0,
    };
    let flows = vec![flow(0, 0, 0), flow(1, 1, 1), flow(2, 0, 0)];
    let instance = Instance::new("t", 2, links, flows, None).expect("an instance");
    let mut rule = Admission::new(&instance, vec![1.0; 3], vec![2, 1, 0]).expect("a rule");
    assert_eq!(simulate(&instance, &mut rule).expect("played").ends, [2.0, 4.0, 6.0]);
}

#[test]
fn what_is_no_ring_has_no_halves() {
    let links = vec![Link { from: 0, to: 1, capacity: 1.0 }];
    let flow = Flow { collective: 0, group: 0, order: 0, from: 0, to: 1, size: 1.0, path: vec![0], release: 0.0 };
    let instance = Instance::new("t", 2, links, vec![flow], None).expect("an instance");
    let refused = decide(&instance, options(Form::Halves, Epochs::Fine, 1), &Run::quiet(1));
    assert!(matches!(refused, Err(Refusal::Instance(Unusable::BadParticipants { .. }))));
    let decision = decide(&instance, options(Form::Flows, Epochs::Fine, 1), &Run::quiet(1)).expect("decided");
    assert_eq!((decision.epochs, decision.standing), (1, Standing::Best));
    assert_eq!(decision.execute(Execution::Static).expect("played").mean, 1.0);
}
