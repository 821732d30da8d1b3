//! Fluid schedules in steps: the page's conversions, every collective against a replay of sets, and hundreds that are damaged.

mod replay;

use crate::fluid::fabric;
use crate::fluid::solve::{mixing, planned, rails, solved};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::check::check;
use sluice_plan::plan::{Collective, Content, Op, Plan, StepSend, Steps};
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::stepped::{Stepped, make_steps};
use sluice_planners_lp::fluid::solve::{Options, Solved};

const FABRICS: [&str; 8] = [
    "star-switch-4",
    "star-memory-4",
    "star-memory-4-bw24",
    "ring-bidir-4",
    "ring-unidir-5",
    "line-4",
    "two-box",
    "phantom",
];

fn plain() -> impl Iterator<Item = Collective> {
    Collective::ALL.iter().copied().filter(|collective| *collective != Collective::Custom)
}

fn fraction(p: i64, q: i64) -> Rational {
    Rational::new(p, q).expect("a fraction")
}

fn stepped(instance: &Instance<'_>, solved: &Solved, chunks: u64) -> Stepped {
    make_steps(instance, &mixing(solved), chunks).expect("passes the checker")
}

fn content(plan: &Plan) -> &Steps {
    match &plan.body.content {
        Content::Steps(steps) => steps,
        _ => panic!("no steps"),
    }
}

fn steps(plan: &mut Plan) -> &mut Steps {
    match &mut plan.body.content {
        Content::Steps(steps) => steps,
        _ => panic!("no steps"),
    }
}

#[test]
fn conversions_of_the_page() {
    let topology = fabric("star-switch-4");
    let (instance, solved) = solved(&topology, Collective::AllGather, &Options::default());
    for (chunks, count, latency) in [(10, 11, fraction(33, 100)), (100, 101, fraction(303, 1000))] {
        let found = stepped(&instance, &solved, chunks);
        // In units of the method: a unit of every node.
        let unit = &instance.units() * &instance.unit();
        assert_eq!((found.figures.steps, found.figures.depth), (count, 2));
        assert_eq!(&found.figures.length * &unit, &fraction(3, 10) * &fraction(1, chunks as i64));
        assert_eq!(&found.made.time * &unit, latency);
    }
}

#[test]
fn every_collective_in_steps_costs_what_the_fluid_costs() {
    let (mut mixed, mut plans) = (0, 0);
    for name in FABRICS {
        let topology = fabric(name);
        for collective in plain() {
            let (instance, solved) = solved(&topology, collective, &Options::default());
            let fluid = planned(&instance, &solved);
            let depth = stepped(&instance, &solved, 1).figures.steps;
            for chunks in [1, 2, 7] {
                let what = format!("{} on {name} in {chunks}", collective.word());
                let found = stepped(&instance, &solved, chunks);
                let steps = content(&found.made.plan);
                assert!(!found.figures.is_rounded, "{what}");
                assert_eq!((found.figures.steps, found.figures.depth), (depth + chunks - 1, depth), "{what}");
                assert!(
                    steps.steps.iter().all(|step| step.all().next().is_some()),
                    "{what}: a step with nothing in it"
                );
                let longer = fraction((depth + chunks - 1) as i64, chunks as i64);
                assert_eq!(found.made.time, &fluid.time * &longer, "{what}");
                assert_eq!(found.figures.length, &fluid.time * &fraction(1, chunks as i64), "{what}");
                assert_eq!(found.made.bound, fluid.bound, "{what}");
                let cost = |plan: &Plan| plan.body.claim.cost.as_ref().expect("a cost").0.clone();
                assert_eq!(cost(&found.made.plan), cost(&fluid.plan), "{what}");
                assert_eq!(replay::replay(&topology, &found.made.plan), Ok(found.figures.busy.clone()), "{what}");
                assert!(found.figures.busy <= found.made.time && found.figures.busy >= fluid.time, "{what}");
                mixed += usize::from(steps.steps.iter().any(|step| step.copies.is_some()));
                plans += 1;
                // What is written is what is read.
                let text = found.made.plan.to_text();
                assert_eq!(Plan::read(text.as_bytes(), "p").expect("reads").to_text(), text, "{what}");
            }
        }
    }
    println!("{plans} plans of steps, {mixed} of which copy while they add up");
    assert!(mixed >= 8, "{mixed}");
}

#[test]
fn two_machines_in_steps() {
    for collective in [Collective::AllGather, Collective::AllReduce, Collective::AllToAll] {
        let topology = rails(2, "all");
        let (instance, solved) = solved(&topology, collective, &Options::default());
        let fluid = planned(&instance, &solved);
        let found = stepped(&instance, &solved, 5);
        assert!(!found.figures.is_rounded, "{}", collective.word());
        assert_eq!(
            found.made.time,
            &fluid.time * &fraction(found.figures.depth as i64 + 4, 5),
            "{}",
            collective.word()
        );
    }
}

/// Moves a part that no unit divides from one way to another of the same data; is there another?
fn nudge(solved: &mut Solved) -> bool {
    let odd = fraction(1, 1_000_000_000_039);
    let images = |class: usize| solved.folding.classes[class].images.len();
    // All parts of an all-reduce are of one unit; other classes have data of their own.
    let alike = |a: usize, b: usize| match solved.folding.shares_roots {
        true => images(a) == images(b),
        false => a == b,
    };
    let classes: Vec<usize> = solved.mixed.iter().map(|mixed| mixed.class).collect();
    let pairs = (0..classes.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let Some((more, less)) = pairs.into_iter().find(|(a, b)| alike(classes[*a], classes[*b])) else { return false };
    solved.mixed[more].part += &odd;
    solved.mixed[less].part = &solved.mixed[less].part - &odd;
    true
}

#[test]
fn parts_that_no_unit_divides_are_rounded_and_the_plan_says_what_it_takes() {
    let mut nudged = std::collections::BTreeMap::<&str, usize>::new();
    for name in FABRICS {
        let topology = fabric(name);
        for collective in plain() {
            let (instance, mut solved) = solved(&topology, collective, &Options::default());
            let fluid = planned(&instance, &solved);
            if !nudge(&mut solved) {
                continue;
            }
            *nudged.entry(collective.word()).or_default() += 1;
            for chunks in [1, 3] {
                let what = format!("{} on {name} in {chunks}", collective.word());
                let found = stepped(&instance, &solved, chunks);
                assert!(found.figures.is_rounded, "{what}");
                let longer = fraction((found.figures.depth + chunks - 1) as i64, chunks as i64);
                let (time, exact) = (found.made.time.to_f64(), (&fluid.time * &longer).to_f64());
                assert!((time - exact).abs() <= 1e-8 * exact, "{what}: {time} for {exact}");
                assert_eq!(replay::replay(&topology, &found.made.plan), Ok(found.figures.busy.clone()), "{what}");
            }
        }
    }
    println!("rounded: {nudged:?}");
    assert!(nudged.len() >= 3 && nudged.contains_key("allreduce"), "{nudged:?}");
}

/// A plan with one thing wrong, and what.
type Damaged = (String, Plan);

/// All sends, as their step, whether they are copies beside sums, and their place there.
fn places(plan: &Plan) -> Vec<(usize, bool, usize)> {
    let of = |(number, step): (usize, &sluice_plan::plan::Step)| {
        let copies = step.copies.as_ref().map_or(0, Vec::len);
        let sends = (0..step.sends.len()).map(move |place| (number, false, place));
        sends.chain((0..copies).map(move |place| (number, true, place)))
    };
    content(plan).steps.iter().enumerate().flat_map(of).collect()
}

fn list(plan: &mut Plan, step: usize, copies: bool) -> &mut Vec<StepSend> {
    let step = &mut steps(plan).steps[step];
    if copies { step.copies.get_or_insert_default() } else { &mut step.sends }
}

/// Do sends that do this stand beside others in a step?
fn copies_in(plan: &Plan, step: usize, op: Op) -> bool {
    op == Op::Copy && content(plan).steps[step].op == Op::Reduce
}

fn damage(topology: &Topology, plan: &Plan) -> Vec<Damaged> {
    let mut damaged = Vec::new();
    let nodes = topology.nodes();
    for (number, copies, place) in places(plan) {
        let send = *list(&mut plan.clone(), number, copies).get(place).expect("a send");
        let op = if copies { Op::Copy } else { content(plan).steps[number].op };
        let at = format!("send {place} of step {number}{}", if copies { ", which copies" } else { "" });
        let mut add = |what: &str, edit: &dyn Fn(&mut Plan)| {
            let mut bad = plan.clone();
            edit(&mut bad);
            damaged.push((format!("{at}: {what}"), bad));
        };
        add("dropped", &|bad| {
            list(bad, number, copies).remove(place);
        });
        let from = &nodes[topology.links()[send.link as usize].from];
        let moved = |bad: &mut Plan, to: usize| {
            list(bad, number, copies).remove(place);
            let copies = copies_in(bad, to, op);
            list(bad, to, copies).push(send);
        };
        let first = number == 0 || (op == Op::Reduce) != (content(plan).steps[number - 1].op == Op::Reduce) && !copies;
        // What lies at its origin may leave as early as it likes, but not in a step that is full already.
        let fresh = plan.body.participants.iter().flatten().any(|node| plan.id(*node) == &*from.id);
        if !first && !fresh {
            add("a step earlier", &|bad| moved(bad, number - 1));
        }
        // Who cannot store cannot wait.
        if !from.can.store
            && number + 1 < content(plan).steps.len()
            && (content(plan).steps[number + 1].op == op || copies)
        {
            add("waits a step", &|bad| moved(bad, number + 1));
        }
        // Who cannot copy has one to give; who adds up has one sum.
        if !from.can.copy || op == Op::Reduce {
            add("twice", &|bad| list(bad, number, copies).push(send));
        }
        // Ten of them overload any link and any group.
        if topology.links()[send.link as usize].capacity.finite().is_some() {
            add("ten times", &|bad| (0..9).for_each(|_| list(bad, number, copies).push(send)));
        }
        add("of another shard", &|bad| {
            let n = bad.body.participants.as_ref().map_or(0, Vec::len) as u32;
            let send = &mut list(bad, number, copies)[place];
            send.shard = match send.shard {
                sluice_plan::plan::Shard::Of(rank) => sluice_plan::plan::Shard::Of((rank + 1) % n),
                sluice_plan::plan::Shard::Between(from, to) => sluice_plan::plan::Shard::Between(to, from),
            };
        });
        add("one unit less", &|bad| list(bad, number, copies)[place].hi -= 1);
        if copies {
            add("copied as early as can be", &|bad| {
                list(bad, number, true).remove(place);
                list(bad, 0, true).push(send);
            });
        }
    }
    let mut whole = |what: &str, edit: &dyn Fn(&mut Plan)| {
        let mut bad = plan.clone();
        edit(&mut bad);
        damaged.push((what.to_owned(), bad));
    };
    whole("steps a hair too short", &|bad| {
        let length = steps(bad).step_length.as_mut().expect("a length");
        *length = &*length * &fraction(999_999, 1_000_000);
    });
    whole("the last step is missing", &|bad| drop(steps(bad).steps.pop()));
    whole("the first step is missing", &|bad| drop(steps(bad).steps.remove(0)));
    whole("twice as long as claimed", &|bad| {
        let length = steps(bad).step_length.as_mut().expect("a length");
        *length = &*length * &fraction(2, 1);
    });
    whole("the time of the fluid", &|bad| {
        let claim = bad.body.claim.time_per_byte.as_mut().expect("a time");
        claim.value = &claim.value * &fraction(9, 10);
    });
    if content(plan).shares.is_some() {
        whole("one share less", &|bad| {
            steps(bad).shares.as_mut().expect("shares").pop();
        });
        whole("nobody sums up anything", &|bad| {
            steps(bad).shares.iter_mut().flatten().for_each(|share| *share = 0);
        });
    }
    damaged
}

#[test]
fn every_damaged_plan_of_steps_is_refused() {
    let (mut count, mut kinds) = (0, std::collections::BTreeMap::<String, usize>::new());
    for name in FABRICS {
        let topology = fabric(name);
        for collective in plain() {
            let (instance, solved) = solved(&topology, collective, &Options::default());
            let plan = stepped(&instance, &solved, 2).made.plan;
            for (what, bad) in damage(&topology, &plan) {
                assert!(!check(&bad, Some(&topology)).ok(), "{} on {name}: {what}", collective.word());
                *kinds.entry(what.rsplit(": ").next().unwrap_or_default().to_owned()).or_default() += 1;
                count += 1;
            }
        }
    }
    println!("{count} damaged plans refused: {kinds:?}");
    assert!(count >= 1000 && kinds.len() >= 10, "{count}: {kinds:?}");
}

#[test]
fn what_steps_cannot_be_is_said() {
    let topology = fabric("star-switch-4");
    let (instance, solved) = solved(&topology, Collective::AllGather, &Options::default());
    let refused = |chunks: u64| {
        let errors = make_steps(&instance, &mixing(&solved), chunks).expect_err("refused");
        let first = &errors.all()[0];
        (first.code, first.key.clone(), first.allowed.clone())
    };
    assert_eq!((refused(0).0, refused(0).1), ("BadParameter", "steps".into()));
    for chunks in [1_000_000_000, u64::MAX] {
        let (code, key, allowed) = refused(chunks);
        assert_eq!((code, &*key), ("TooLarge", "steps"));
        // 24 crossings for each chunk.
        assert_eq!(allowed, "1 to 833333");
    }
    let mut file: serde_json::Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    file["nodes"][0]["can"] = serde_json::json!({"store": false});
    let forgetful = Topology::read(file.to_string().as_bytes(), "t").expect("valid");
    let (instance, solved) = crate::fluid::solve::solved(&forgetful, Collective::AllGather, &Options::default());
    let errors = make_steps(&instance, &mixing(&solved), 2).expect_err("refused");
    assert_eq!((errors.all()[0].code, &*errors.all()[0].key), ("UNSUPPORTED_FIELD", "/nodes/0/can"));
}
