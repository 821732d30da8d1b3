//! Every collective on every fabric as a program that the interpreter finds right, and what is refused.

use serde_json::json;
use sluice_formats::topology::r#gen::{Wiring, complete, dgx_a100, mi250, star};
use sluice_plan::export::{
    Dialect, Format, Options, PLAN_REFUSED, Protocol, UNSUPPORTED_FIELD, XML_LIMIT_EXCEEDED, export,
};
use sluice_plan::interpret::{Op, Program, Report, interpret, read};
use sluice_plan::plan::{Collective, Content, Names, Paths, Plan};

use crate::export::scene::{
    OF_TREES, best_all_reduce, edited, exported, fabrics, formats_of_trees, planned, text, two_ways, unlimited,
};

/// The report on a program, which must be good.
fn good(xml: &str) -> Report {
    let report = interpret(xml.as_bytes(), "p.xml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(report.fault, None);
    report
}

fn program(plan: &Plan, options: &Options) -> Program {
    read(text(plan, Format::MscclXml, options).as_bytes(), "p.xml").expect("readable")
}

#[test]
fn every_collective_on_every_fabric() {
    for topology in fabrics() {
        for collective in OF_TREES {
            let plan = planned(&topology, collective, None);
            for instances in [1, 3] {
                let xml = text(&plan, Format::MscclXml, &unlimited(instances));
                let report = good(&xml);
                let Content::Trees(trees) = &plan.body.content else { panic!("trees") };
                let k = trees.forests[0].k.0.expect("k");
                let weights: u64 = if collective.is_rooted() {
                    1
                } else {
                    topology.compute().iter().map(|node| topology.nodes()[*node].weight).sum()
                };
                assert_eq!(u64::from(report.chunks), k * weights * u64::from(instances), "I·k·Σw");
                assert!(report.in_place);
                let gathers = matches!(collective, Collective::AllGather | Collective::Broadcast);
                assert_eq!(report.out_of_place, gathers);
                assert_eq!(xml.contains("redop=\"nop\""), gathers);
            }
        }
    }
}

#[test]
fn trees_of_different_ways_in_and_out() {
    // The best all-reduce of these roots its trees unevenly, and sums come in by other trees than they go out.
    let fabrics = [star(&["1", "2", "3", "1", "2"]), complete(4, "3"), star(&["3", "2", "3"])];
    for topology in fabrics {
        let topology = topology.expect("valid");
        let plan = best_all_reduce(&topology);
        let Content::Trees(trees) = &plan.body.content else { panic!("trees") };
        assert!(trees.forests.iter().all(|forest| forest.k.0.is_none()));
        good(&text(&plan, Format::MscclXml, &unlimited(2)));
    }
}

#[test]
fn a_root_waits_for_all_sums_that_it_sends_on() {
    let xml = text(&two_ways(), Format::MscclXml, &unlimited(3));
    good(&xml);
    // Three roots, two children each, three instances; one sum through `nop`, the other by the send itself.
    assert_eq!(xml.matches("type=\"nop\"").count(), 3 * 2 * 3);
}

#[test]
fn the_text_is_the_same_every_time() {
    for collective in OF_TREES {
        let topology = dgx_a100(2, Wiring::Plain).expect("valid");
        let plan = planned(&topology, collective, Some(1));
        let again = Plan::read(plan.to_text().as_bytes(), "p").expect("what is written is valid");
        for format in formats_of_trees() {
            let (one, two) = (exported(&plan, format, &unlimited(2)), exported(&again, format, &unlimited(2)));
            assert_eq!(one, two, "{}", format.word());
        }
    }
}

#[test]
fn attributes_stand_in_their_order() {
    let plan = planned(&complete(3, "1").expect("valid"), Collective::ReduceScatter, None);
    let options = Options { dialect: Dialect::Rccl, protocol: Protocol::Ll128, ..Options::default() };
    let xml = text(&plan, Format::MscclXml, &options);
    good(&xml);
    let keys = |start: &str| {
        let line = xml.lines().find(|line| line.trim_start().starts_with(start)).expect("there");
        let parts = line
            .split('"')
            .step_by(2)
            .filter_map(|part| part.strip_suffix('='))
            .map(|key| key.trim().rsplit(' ').next());
        parts.map(|key| key.expect("a key").to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys("<algo"),
        "name proto nchannels nchunksperloop ngpus coll inplace outofplace minBytes maxBytes redop"
    );
    assert_eq!(keys("<gpu"), "id i_chunks o_chunks s_chunks");
    assert_eq!(keys("<tb"), "id send recv chan");
    assert_eq!(keys("<step"), "s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep");
    assert!(xml.contains("coll=\"reducescatter\"") && xml.contains("proto=\"LL128\"") && xml.contains("redop=\"sum\""));
    assert!(text(&plan, Format::MscclXml, &Options::default()).contains("coll=\"reduce_scatter\""));
}

#[test]
fn known_machines_fit_the_runtime() {
    for (topology, k) in
        [(dgx_a100(1, Wiring::Plain), 1), (dgx_a100(2, Wiring::Plain), 1), (mi250(1, 16), 1), (mi250(2, 8), 1)]
    {
        let topology = topology.expect("valid");
        for collective in OF_TREES {
            let plan = planned(&topology, collective, Some(k));
            let report = good(&text(&plan, Format::MscclXml, &Options::default()));
            println!("{} {}: {report:?}", topology.name(), collective.word());
        }
    }
}

#[test]
fn what_the_runtime_cannot_hold_is_refused_with_the_count() {
    let plan = planned(&mi250(2, 16).expect("valid"), Collective::AllGather, None);
    // Even if chains share blocks; the counts are of a program in which they do not.
    let errors = export(&plan, None, Format::MscclXml, &Options { instances: 32, ..Options::default() });
    let errors = errors.expect_err("too much");
    assert!(errors.all().iter().all(|error| error.code == XML_LIMIT_EXCEEDED), "{errors}");
    let blocks = errors.all().iter().find(|error| error.details["what"] == "thread blocks").expect("too many blocks");
    let count = blocks.details["count"].as_u64().expect("a count");
    let report = good(&text(&plan, Format::MscclXml, &unlimited(32)));
    assert_eq!(count, report.blocks as u64);
    assert!(count > 108);
}

#[test]
fn two_a100_at_their_best_rate_fit_the_runtime() {
    let topology = dgx_a100(2, Wiring::Plain).expect("valid");
    for collective in OF_TREES {
        let plan = planned(&topology, collective, None);
        let alone = good(&text(&plan, Format::MscclXml, &unlimited(1)));
        let report = good(&text(&plan, Format::MscclXml, &Options::default()));
        let (channels, blocks) = (report.channels, report.blocks);
        println!("{}: {} → {channels} channels, {} → {blocks} blocks", collective.word(), alone.channels, alone.blocks);
        assert_eq!(alone.channels > 32, !collective.is_rooted());
        assert!(channels <= 32 && blocks <= 108);
        // Instances are side by side whatever they need; a single root's still fit.
        let many = export(&plan, None, Format::MscclXml, &Options { instances: 32, ..Options::default() });
        assert_eq!(many.err().map(|errors| errors.code()), (!collective.is_rooted()).then_some(XML_LIMIT_EXCEEDED));
    }
}

#[test]
fn unequal_shares_of_an_all_gather_are_for_the_interpreter() {
    let uneven = edited(&complete(4, "1").expect("valid"), |file| file["nodes"][0]["weight"] = json!(3));
    let plan = planned(&uneven, Collective::AllGather, None);
    let errors = export(&plan, None, Format::MscclXml, &Options::default()).expect_err("refused");
    assert_eq!((errors.code(), errors.all()[0].key.as_str()), (UNSUPPORTED_FIELD, "/topology/inline/nodes"));
    assert!(errors.all()[0].help.contains("--no-limits"), "{errors}");
    good(&text(&plan, Format::MscclXml, &unlimited(1)));
    let plan = planned(&uneven, Collective::ReduceScatter, None);
    good(&text(&plan, Format::MscclXml, &Options::default()));
}

#[test]
fn no_step_has_more_chunks_than_the_runtime_counts() {
    // One tree of 200 chunks per root.
    let mut plan = planned(&complete(3, "1").expect("valid"), Collective::AllGather, None);
    let Content::Trees(trees) = &mut plan.body.content else { panic!("trees") };
    let forest = &mut trees.forests[0];
    let k = forest.k.0.expect("k");
    forest.k.0 = Some(200 * k);
    let times = sluice_formats::quantity::Rational::from(200_u64);
    forest.trees.iter_mut().for_each(|tree| tree.weight = &tree.weight * &times);
    let xml = text(&plan, Format::MscclXml, &Options::default());
    good(&xml);
    let counts = read(xml.as_bytes(), "p.xml").expect("readable");
    assert_eq!(counts.steps().map(|step| step.count).max(), Some(71));
    assert!(xml.contains("minBytes=\"0\" maxBytes=\"1099511627776\""));
    let small = Options { max_bytes: 4096, ..Options::default() };
    assert!(text(&plan, Format::MscclXml, &small).contains("maxBytes=\"4096\""));
}

#[test]
fn switches_that_copy_are_replaced_by_ranks_with_a_warning() {
    let able = edited(&star(&["2"; 6]).expect("valid"), |file| {
        file["nodes"][6]["can"] = json!({"copy": true, "reduce": true})
    });
    for collective in OF_TREES {
        let plan = planned(&able, collective, None);
        let export = exported(&plan, Format::MscclXml, &unlimited(1));
        good(&export.files[0].text);
        assert_eq!(export.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), ["SwitchCopyLowered"]);
    }
    let plain = planned(&star(&["2"; 6]).expect("valid"), Collective::AllGather, None);
    assert!(exported(&plain, Format::MscclXml, &unlimited(1)).warnings.is_empty());
}

#[test]
fn nodes_that_copy_and_take_no_part_are_merged_away() {
    // a → s → {b, c}: s is a node of the tree but no rank.
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"gpu"},{"id":"b","kind":"gpu"},{"id":"c","kind":"gpu"},
        {"id":"s","kind":"switch","can":{"copy":true}}],"links":[{"from":"a","to":"s","capacity":"1"},
        {"from":"s","to":"b","capacity":"1"},{"from":"s","to":"c","capacity":"1"}]}"#;
    let topology = sluice_formats::topology::Topology::read(text.as_bytes(), "t").expect("valid");
    let plan = json!({"sluice_plan": 1, "collective": "broadcast", "root": "a", "claim": {},
        "topology": {"sha256": topology.digest()}, "content": {"kind": "trees", "forests": [{"direction": "out", "k": 1,
        "trees": [{"root": "a", "weight": 1, "edges": [{"src": "s", "dst": "c", "path": ["s", "c"]},
        {"src": "a", "dst": "s", "path": ["a", "s"]}, {"src": "s", "dst": "b", "path": ["s", "b"]}]}]}]}});
    let plan = Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
    let export = export(&plan, Some(&topology), Format::MscclXml, &Options::default()).expect("written");
    assert_eq!(good(&export.files[0].text).ranks, 3);
    assert_eq!(export.warnings.len(), 1);
}

#[test]
fn fractions_become_whole_chunks() {
    let topology = complete(4, "1").expect("valid");
    let mut plan = planned(&topology, Collective::AllGather, None);
    let Content::Trees(trees) = &mut plan.body.content else { panic!("trees") };
    let forest = &mut trees.forests[0];
    let before: Vec<_> = std::mem::take(&mut forest.trees);
    for tree in before {
        for (p, q) in [(1, 3), (2, 3)] {
            let weight = &tree.weight * &sluice_formats::quantity::Rational::new(p, q).expect("not over zero");
            forest.trees.push(sluice_plan::plan::Tree { weight, ..tree.clone() });
        }
        // Something in between, so that the parts are not one batch again.
        let half = forest.trees.len() - 1;
        forest.trees.swap(half, 0);
    }
    let k = forest.k.0.expect("k");
    let report = good(&text(&plan, Format::MscclXml, &unlimited(1)));
    assert_eq!(u64::from(report.chunks), 3 * 4 * k);
}

#[test]
fn consecutive_chunks_of_one_tree_are_one_step() {
    // Over one switch all batches of a root have the same tree, whatever their paths.
    let topology = complete(2, "5").expect("valid");
    let mut plan = planned(&topology, Collective::AllGather, None);
    let Content::Trees(trees) = &mut plan.body.content else { panic!("trees") };
    let forest = &mut trees.forests[0];
    forest.k.0 = forest.k.0.map(|k| 3 * k);
    forest.trees = forest.trees.iter().flat_map(|tree| vec![tree.clone(); 3]).collect();
    let program = program(&plan, &Options::default());
    let sends: Vec<u32> = program.steps().filter(|step| step.op == Op::Send).map(|step| step.count).collect();
    assert_eq!(sends, [3, 3]);
}

#[test]
fn other_plans_and_wrong_plans_are_refused() {
    let topology = complete(3, "1").expect("valid");
    let paths =
        Plan::new(&topology, Collective::AllToAll, Names::default(), Content::Paths(Paths { pairs: Vec::new() }));
    for format in Format::ALL {
        let errors = export(&paths, None, *format, &Options::default()).expect_err("refused");
        assert_eq!((errors.code(), errors.all()[0].key.as_str()), (UNSUPPORTED_FIELD, "/content/kind"));
    }
    let plan = planned(&topology, Collective::AllGather, None);
    let mut wrong = plan.clone();
    let Content::Trees(trees) = &mut wrong.body.content else { panic!("trees") };
    trees.forests[0].trees.pop();
    for format in [Format::MscclXml, Format::TreeXml] {
        assert_eq!(export(&wrong, None, format, &Options::default()).expect_err("refused").code(), PLAN_REFUSED);
    }
    let mut bare = plan.clone();
    bare.body.topology.inline = None;
    assert_eq!(export(&bare, None, Format::Svg, &Options::default()).expect_err("refused").code(), PLAN_REFUSED);
    assert!(export(&bare, Some(&topology), Format::Svg, &Options::default()).is_ok());
    for instances in [0, 33] {
        assert!(export(&plan, None, Format::MscclXml, &Options { instances, ..Options::default() }).is_err());
    }
    // A tree's parts lie together: there is nothing to pack.
    let packed = export(&plan, None, Format::MscclXml, &Options { consolidate: true, ..Options::default() });
    let errors = packed.expect_err("trees");
    assert_eq!((errors.code(), errors.all()[0].key.as_str()), ("E_RANGE", "consolidate"));
}

/// `cargo test -p sluice-planners --release --test all -- --ignored --nocapture export::programs::large`
#[test]
#[ignore = "a measurement"]
fn large_programs() {
    use std::time::Instant;
    for (topology, k) in
        [(mi250(2, 16), None), (dgx_a100(16, Wiring::Plain), Some(1)), (dgx_a100(32, Wiring::Plain), Some(1))]
    {
        let topology = topology.expect("valid");
        for collective in [Collective::AllGather, Collective::AllReduce] {
            let plan = planned(&topology, collective, k);
            let begin = Instant::now();
            let xml = text(&plan, Format::MscclXml, &unlimited(1));
            let written = begin.elapsed();
            let begin = Instant::now();
            let report = good(&xml);
            let (ran, size) = (begin.elapsed(), xml.len() / 1000);
            let begin = Instant::now();
            let svg = text(&plan, Format::Svg, &unlimited(1)).len() / 1000;
            let drawn = begin.elapsed();
            println!(
                "{} {}: {} steps, {size} kB written in {written:?}, run in {ran:?}; {} channels, {} blocks; svg {svg} kB in {drawn:?}",
                topology.name(),
                collective.word(),
                report.steps,
                report.channels,
                report.blocks
            );
        }
    }
}

/// Two machines of two GPUs; in each, a PCIe switch joins them with two cards, one for each of two networks.
fn two_rails() -> sluice_formats::topology::Topology {
    let (mut nodes, mut links) =
        (vec![json!({"id": "ib0", "kind": "switch"}), json!({"id": "ib1", "kind": "switch"})], Vec::new());
    let mut duplex =
        |from: &str, to: &str| links.push(json!({"from": from, "to": to, "capacity": "1", "duplex": true}));
    for m in 0..2 {
        nodes.push(json!({"id": format!("p{m}"), "kind": "switch"}));
        for i in 0..2 {
            nodes.push(json!({"id": format!("g{m}{i}"), "kind": "gpu"}));
            nodes.push(json!({"id": format!("n{m}{i}"), "kind": "nic"}));
            duplex(&format!("g{m}{i}"), &format!("p{m}"));
            duplex(&format!("p{m}"), &format!("n{m}{i}"));
            duplex(&format!("n{m}{i}"), &format!("ib{i}"));
        }
        duplex(&format!("g{m}0"), &format!("g{m}1"));
    }
    let file = json!({"sluice_topology": 1, "nodes": nodes, "links": links});
    sluice_formats::topology::Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

#[test]
fn the_channel_of_a_message_leads_to_the_card_that_its_path_goes_through() {
    let topology = two_rails();
    for collective in OF_TREES {
        let plan = planned(&topology, collective, None);
        let xml = text(&plan, Format::MscclXml, &unlimited(1));
        good(&xml);
        // Between machines, as (from, to, card): what the plan's paths carry and what the program's channels do.
        let Content::Trees(trees) = &plan.body.content else { panic!("trees") };
        let ranks: Vec<&str> = topology.compute().into_iter().map(|node| &*topology.nodes()[node].id).collect();
        let rank = |id: &str| ranks.iter().position(|rank| *rank == id).expect("a rank");
        let mut wanted = std::collections::BTreeSet::new();
        for edge in trees.forests.iter().flat_map(|forest| &forest.trees).flat_map(|tree| &tree.edges) {
            let path: Vec<&str> = edge.path().map(|node| plan.id(node)).collect();
            if let Some(card) = path.iter().find(|id| id.starts_with('n')) {
                let card = u32::from(card.ends_with('1'));
                wanted.insert((rank(path[0]), rank(path[path.len() - 1]), card));
            }
        }
        assert!([0, 1].iter().all(|card| wanted.iter().any(|(.., of)| of == card)), "both cards are used");
        let program = read(xml.as_bytes(), "p.xml").expect("readable");
        let sends =
            program.gpus.iter().enumerate().flat_map(|(rank, gpu)| gpu.blocks.iter().map(move |block| (rank, block)));
        let sends = sends.filter_map(|(rank, block)| Some((rank, block.send? as usize, block.channel % 2)));
        let across: std::collections::BTreeSet<_> = sends.filter(|(from, to, _)| from / 2 != to / 2).collect();
        assert_eq!(across, wanted, "{collective:?}");
    }
}
