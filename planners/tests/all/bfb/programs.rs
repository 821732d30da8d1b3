//! P14: exported programs do their collective, in both forms, and damage is noticed.

use sluice_formats::topology::r#gen::{hypercube, ring, torus};
use sluice_plan::export::{Format, Options, export};
use sluice_plan::interpret::{self, Kind, Report};
use sluice_plan::plan::{Collective, Content, Op, Plan, Shard, StepSend};

use crate::bfb::{OF_STEPS, graphs, kautz, planned};

fn program(plan: &Plan, format: Format) -> String {
    let options = Options { limits: false, ..Options::default() };
    let made = export(plan, None, format, &options).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(made.warnings.is_empty());
    made.files[0].text.clone()
}

fn run(xml: &str) -> Report {
    interpret::interpret(xml.as_bytes(), "p.xml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn programs_of_every_graph_do_their_collective() {
    let mut all = graphs();
    all.extend([hypercube(5, "1").expect("valid"), torus(&[8, 8], "1").expect("valid"), kautz(4, 61)]);
    for topology in all {
        for collective in OF_STEPS {
            let plan = planned(&topology, collective, None).plan;
            for format in [Format::MscclXml, Format::OnecclXml] {
                let xml = program(&plan, format);
                let report = run(&xml);
                assert!(report.ok(), "{} {collective:?} {format:?}: {:?}", topology.name(), report.fault);
                assert_eq!(report.ranks, topology.nodes().len());
                assert_eq!(xml, program(&plan, format), "the same bytes again");
            }
            let packed = Options { limits: false, consolidate: true, ..Options::default() };
            let packed = export(&plan, None, Format::MscclXml, &packed).expect("a program").files[0].text.clone();
            let report = run(&packed);
            assert!(report.ok(), "{} {collective:?} packed: {:?}", topology.name(), report.fault);
            let messages = |xml: &str| xml.matches(" type=\"s\"").count();
            assert!(messages(&packed) <= messages(&program(&plan, Format::MscclXml)));
        }
    }
}

#[test]
fn a_small_program_is_within_the_limits_of_the_runtime() {
    let plan = planned(&torus(&[3, 4], "1").expect("valid"), Collective::AllReduce, None).plan;
    let made = export(&plan, None, Format::MscclXml, &Options::default()).expect("within the limits");
    let report = run(&made.files[0].text);
    // One block at each end of every link.
    assert_eq!((report.blocks, report.channels), (8, 1));
    let errors = export(&plan, None, Format::MscclXml, &Options { instances: 2, ..Options::default() });
    assert_eq!(errors.expect_err("one program").code(), "E_RANGE");
    // A torus of 3 by 4 sends parts that do not lie together: packed, each link has one message in a step.
    let packed = Options { consolidate: true, ..Options::default() };
    let packed = export(&plan, None, Format::MscclXml, &packed).expect("within the limits");
    let sends = |xml: &str| xml.matches(" type=\"s\"").count();
    assert!(sends(&packed.files[0].text) < sends(&made.files[0].text));
    assert!(run(&packed.files[0].text).ok() && packed.files[0].text.contains("type=\"re\" srcbuf=\"s\""));
    for format in [Format::TreeXml, Format::ForestJson] {
        let errors = export(&plan, None, format, &Options::default()).expect_err("trees only");
        assert_eq!(errors.code(), "UNSUPPORTED_FIELD");
    }
}

#[test]
fn pictures_show_every_step() {
    for (topology, all) in [(hypercube(3, "1").expect("valid"), 8), (torus(&[4, 4], "1").expect("valid"), 16)] {
        for collective in OF_STEPS {
            let plan = planned(&topology, collective, None).plan;
            let Content::Steps(steps) = &plan.body.content else { panic!("steps") };
            let draw =
                |format| export(&plan, None, format, &Options::default()).expect("a picture").files[0].text.clone();
            let (svg, dot) = (draw(Format::Svg), draw(Format::Dot));
            // Up to twelve ranks every shard over a link is a line of its own; else one line says how much there is.
            let lines = steps.steps.iter().map(|step| {
                let line = |send: &StepSend| (send.link, (all <= 12).then_some(send.shard));
                step.sends.iter().map(line).collect::<std::collections::HashSet<_>>().len()
            });
            let lines: usize = lines.sum();
            assert_eq!(svg.matches("fill=\"none\"/>").count(), lines, "{} {collective:?}", topology.name());
            assert_eq!(svg.matches("<g transform=\"translate(0,").count(), steps.steps.len() + 1);
            assert_eq!(dot.matches("penwidth=").count(), lines);
            assert_eq!(dot.matches("rank=same").count(), steps.steps.len() + 1);
            assert_eq!((svg.matches("<g").count(), svg.matches("<svg ").count()), (svg.matches("</g>").count(), 1));
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("href"));
            let of_tree = Options { tree: Some(0), ..Options::default() };
            assert_eq!(export(&plan, None, Format::Svg, &of_tree).expect_err("no trees").code(), "E_RANGE");
        }
    }
}

#[test]
fn a_picture_of_what_is_not_there_is_refused() {
    let plan = planned(&ring(4, "1", true).expect("valid"), Collective::AllGather, None).plan;
    let code = |edit: &dyn Fn(&mut sluice_plan::plan::Steps)| {
        let mut plan = plan.clone();
        let Content::Steps(steps) = &mut plan.body.content else { panic!("steps") };
        edit(steps);
        let done = [Format::Svg, Format::Dot].map(|format| export(&plan, None, format, &Options::default()));
        done.map(|done| done.err().map(|errors| errors.code()))
    };
    assert_eq!(code(&|steps| drop(steps.steps.pop())), [None; 2], "wrong, but it can be looked at");
    assert_eq!(code(&|steps| steps.steps[0].sends[0].link = 99), [Some(sluice_formats::problem::UNKNOWN_EDGE); 2]);
    assert_eq!(code(&|steps| steps.steps[0].sends[0].shard = Shard::Of(4)), [Some("E_RANGE"); 2]);
    assert_eq!(code(&|steps| steps.steps[0].sends[0].shard = Shard::Between(0, 1)), [Some("E_RANGE"); 2]);
    assert_eq!(code(&|steps| steps.steps[0].sends[0].hi = u64::MAX), [Some("E_RANGE"); 2]);
    assert_eq!(code(&|steps| steps.steps[0].sends[0].lo = u64::MAX), [Some("E_RANGE"); 2]);
    assert_eq!(code(&|steps| steps.p = 0), [Some("E_LIMIT"); 2]);
    assert_eq!(code(&|steps| steps.p = u64::MAX), [None; 2], "parts are drawn, not units");
    assert_eq!(code(&|steps| steps.steps = vec![steps.steps[0].clone(); 257]), [Some("E_LIMIT"); 2]);
}

/// What is there already is not sent again, and a sum that moved on leaves room for another: plans by hand.
#[test]
fn roundabout_plans_become_right_programs() {
    let topology = ring(3, "1", true).expect("valid");
    let mut plan = planned(&topology, Collective::AllGather, None).plan;
    plan.body.claim = Default::default();
    let Content::Steps(steps) = &mut plan.body.content else { panic!("steps") };
    let again = steps.steps[0].clone();
    steps.steps.push(again);
    assert!(run(&program(&plan, Format::MscclXml)).ok());
    assert!(run(&program(&plan, Format::OnecclXml)).ok());

    // Rank 0's part of shard 2 goes to 1; then rank 1's sum goes round by 0 to 2.
    let mut plan = planned(&topology, Collective::ReduceScatter, None).plan;
    plan.body.claim = Default::default();
    let link = |from: &str, to: &str| {
        let ends = (topology.node(from), topology.node(to));
        topology.links().iter().position(|link| (Some(link.from), Some(link.to)) == ends).expect("a link") as u32
    };
    let ids: Vec<String> = topology.nodes().iter().map(|node| node.id.to_string()).collect();
    let Content::Steps(steps) = &mut plan.body.content else { panic!("steps") };
    let p = steps.p;
    let send = |shard, from: usize, to: usize| StepSend {
        shard: Shard::Of(shard),
        lo: 0,
        hi: p,
        link: link(&ids[from], &ids[to]),
    };
    let step = |sends| sluice_plan::plan::Step { copies: None, op: Op::Reduce, sends };
    steps.steps = vec![
        step(vec![send(2, 0, 1), send(0, 1, 0), send(0, 2, 0), send(1, 0, 1), send(1, 2, 1)]),
        step(vec![send(2, 1, 0)]),
        step(vec![send(2, 0, 2)]),
    ];
    for format in [Format::MscclXml, Format::OnecclXml] {
        let report = run(&program(&plan, format));
        assert!(report.ok(), "{format:?}: {:?}", report.fault);
    }
}

#[test]
fn a_damaged_oneccl_program_is_noticed() {
    let plan = planned(&kautz(2, 6), Collective::AllGather, None).plan;
    let xml = program(&plan, Format::OnecclXml);
    let fault = |xml: String| run(&xml).fault.map(|fault| fault.kind);
    // The last instruction that receives becomes one that adds.
    let (before, after) = xml.rsplit_once("type=\"recv\"").expect("a receive");
    assert!(fault(format!("{before}type=\"reduce\"{after}")).is_some());
    // Without any sync what is passed on may not be there yet.
    let rushed: Vec<&str> = xml.lines().filter(|line| !line.contains("type=\"sync\"")).collect();
    let mut next = 0;
    let renumbered = rushed.iter().map(|line| match line.trim_start().strip_prefix("<step s=\"") {
        None => {
            next = 0;
            format!("{line}\n")
        }
        Some(rest) => {
            let rest = rest.split_once('"').expect("a number").1;
            next += 1;
            format!("<step s=\"{}\"{rest}\n", next - 1)
        }
    });
    let kind = fault(renumbered.collect()).expect("noticed");
    assert!(matches!(kind, Kind::Unwritten | Kind::Race), "{kind:?}");
    for (from, to) in
        [("nranks=\"6\"", "nranks=\"7\""), ("type=\"send\"", "type=\"sent\""), ("peer=\"1\"", "peer=\"9\"")]
    {
        let errors = interpret::interpret(xml.replacen(from, to, 1).as_bytes(), "p.xml").expect_err(to);
        assert_eq!(errors.code(), "E_RANGE", "{errors}");
    }
    assert!(interpret::interpret(&xml.as_bytes()[..xml.len() / 2], "p.xml").is_err());
}
