//! Every plan of sends that the checker accepts becomes a program that the interpreter finds right, or is refused for what
//! it is: schedules with every feature, and whatever is still right of them when they were changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluice_plan::check::check;
use sluice_plan::export::{Format, Options, UNSUPPORTED_FIELD, export};
use sluice_plan::interpret::{Op, Report, interpret, read};
use sluice_plan::plan::Plan;

use crate::changes::changed;
use crate::epochs::{gpus, plan, send, star, turned};
use crate::features::schedules;
use crate::scene::edited;

const PROGRAMS: [(Format, bool); 3] = [(Format::MscclXml, false), (Format::MscclXml, true), (Format::OnecclXml, false)];

fn parsed(plan: &Value) -> Plan {
    Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"))
}

fn options(consolidate: bool) -> Options {
    Options { limits: false, consolidate, ..Options::default() }
}

fn run(xml: &str) -> Report {
    interpret(xml.as_bytes(), "p.xml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// Exports and runs a plan in every form that is executed; gives the warnings, or the code of the refusal.
pub fn executed(plan: &Plan, what: &str) -> Result<Vec<&'static str>, &'static str> {
    let mut codes = Ok(Vec::new());
    for (format, consolidate) in PROGRAMS {
        match export(plan, None, format, &options(consolidate)) {
            Ok(made) => {
                let report = run(&made.files[0].text);
                assert_eq!(report.fault, None, "{what} as {format:?}\n{}", made.files[0].text);
                codes = Ok(made.warnings.iter().map(|warning| warning.code).collect());
            }
            Err(errors) => codes = Err(errors.code()),
        }
    }
    codes
}

#[test]
fn whatever_is_right_becomes_a_right_program() {
    let mut programs: BTreeMap<String, usize> = BTreeMap::new();
    for (feature, plans) in schedules() {
        for (number, good) in plans.into_iter().enumerate() {
            let all = std::iter::once(("as it is".into(), good.clone())).chain(changed(&good));
            for (what, mut plan) in all {
                // That it ends in other epochs does not matter here.
                plan["claim"] = json!({});
                let Ok(read) = Plan::read(plan.to_string().as_bytes(), "p") else { continue };
                if !check(&read, None).ok() {
                    continue;
                }
                for format in [Format::Svg, Format::Dot, Format::TecclJson] {
                    export(&read, None, format, &Options::default()).unwrap_or_else(|errors| panic!("{errors}"));
                }
                let word = read.body.collective.word();
                let written = executed(&read, &format!("{feature}, plan {number}, {what}"));
                let exportable = !matches!(word, "custom" | "scatter" | "gather")
                    && plan["content"]["model"]["divisible"] != json!(true);
                // A node that takes no part may have become one that stores.
                let stores = what.contains("kind \"memory\"");
                assert_eq!(written.is_ok(), exportable && !stores, "{feature}, plan {number}, {what}: {written:?}");
                assert!(written.is_ok() || written == Err(UNSUPPORTED_FIELD));
                *programs
                    .entry(format!("{word} {}", if written.is_ok() { "written" } else { "refused" }))
                    .or_default() += 1;
            }
        }
    }
    println!("{programs:?}");
    for word in ["allgather", "allreduce", "alltoall", "broadcast", "reduce", "reduce_scatter"] {
        assert!(programs.get(&format!("{word} written")).is_some_and(|count| *count >= 30), "{word}: {programs:?}");
    }
}

/// The steps of a program as (rank, type, buffer and offset read, buffer and offset written), without those that wait.
fn steps(xml: &str) -> Vec<(usize, &'static str, String, String)> {
    let program = read(xml.as_bytes(), "p.xml").expect("readable");
    let place = |place: sluice_plan::interpret::Place| format!("{}{}", place.buffer.word(), place.offset);
    let mut all = Vec::new();
    for (rank, gpu) in program.gpus.iter().enumerate() {
        for step in gpu.blocks.iter().flat_map(|block| &block.steps).filter(|step| step.op != Op::Nop) {
            all.push((rank, step.op.word(), place(step.src), place(step.dst)));
        }
    }
    all
}

fn msccl(plan: &Value) -> String {
    export(&parsed(plan), None, Format::MscclXml, &Options::default()).expect("a program").files[0].text.clone()
}

#[test]
fn an_all_to_all_passes_on_in_scratch() {
    // Three in a row: what the outer ones have for each other goes over the middle.
    let topology = gpus(3, &[(0, 1), (1, 2)]);
    let sends = vec![
        send(0, 1, 0, 1, 1),
        send(0, 2, 0, 1, 0),
        send(1, 0, 1, 0, 0),
        send(1, 2, 1, 2, 0),
        send(2, 0, 2, 1, 0),
        send(2, 1, 2, 1, 1),
        send(0, 2, 1, 2, 2),
        send(2, 0, 1, 0, 2),
    ];
    let plan = plan(&topology, "alltoall", sends);
    let xml = msccl(&plan);
    let head = |text: &str| assert!(xml.contains(text), "{text}\n{xml}");
    head("nchunksperloop=\"3\"");
    head("inplace=\"0\" outofplace=\"1\"");
    head("<gpu id=\"0\" i_chunks=\"3\" o_chunks=\"3\" s_chunks=\"0\">");
    head("<gpu id=\"1\" i_chunks=\"3\" o_chunks=\"3\" s_chunks=\"2\">");
    let of = |rank: usize| {
        let own = steps(&xml).into_iter().filter(move |step| step.0 == rank);
        own.map(|(_, op, src, dst)| format!("{op} {src} {dst}")).collect::<Vec<_>>()
    };
    // Rank 0: its own, chunk 2 for rank 2 to scratch, chunk 1, and what comes from 1 and 2.
    assert_eq!(of(0), ["cpy i0 o0", "s i2 s0", "s i1 o0", "r i0 o1", "r s1 o2"]);
    assert_eq!(
        of(1),
        ["cpy i1 o1", "r i2 s0", "r i1 o0", "s i0 o1", "s s1 o2", "s i2 o1", "s s0 o0", "r i0 s1", "r i1 o2"]
    );
    assert_eq!(executed(&parsed(&plan), "all-to-all"), Ok(Vec::new()));
}

#[test]
fn sums_are_received_and_added_in_place() {
    let topology = gpus(3, &[(0, 1), (1, 2)]);
    let forwards = vec![send(0, 0, 0, 1, 0), send(0, 0, 1, 2, 2)];
    let reduce = turned(&plan(&topology, "broadcast", forwards), "reduce");
    let xml = msccl(&reduce);
    assert!(xml.contains("coll=\"reduce\" inplace=\"1\" outofplace=\"0\"") && xml.contains("redop=\"sum\""));
    let words: Vec<String> =
        steps(&xml).iter().map(|(rank, op, src, dst)| format!("{rank} {op} {src} {dst}")).collect();
    assert_eq!(words, ["0 rrc i0 i0", "1 s i0 i0", "1 rrc i0 i0", "2 s i0 i0"]);
    let oneccl = export(&parsed(&reduce), None, Format::OnecclXml, &Options::default()).expect("a program");
    assert_eq!(oneccl.files[0].text.matches("type=\"reduce\"").count(), 2);
    let json = export(&parsed(&reduce), None, Format::TecclJson, &Options::default()).expect("sends");
    let json: Value = serde_json::from_str(&json.files[0].text).expect("JSON");
    assert_eq!(json["sends"][0], json!({"src": 0, "chunk": 0, "from": 2, "to": 1, "epoch": 0, "op": "reduce"}));
    // n1 sends its own before n2's is there, and n2's when it is: as a program it sends both at once.
    let mut twice = reduce.clone();
    let mut early = reduce["content"]["sends"][0].clone();
    early["epoch"] = json!(1);
    twice["content"]["sends"].as_array_mut().expect("sends").push(early);
    assert_eq!(executed(&parsed(&twice), "twice"), Ok(Vec::new()));
    let sends = |plan: &Value| steps(&msccl(plan)).iter().filter(|step| step.1 == "s").count();
    assert_eq!((twice["content"]["sends"].as_array().map(Vec::len), sends(&twice)), (Some(3), 2));
}

#[test]
fn what_switches_copy_or_add_up_is_left_to_ranks_with_a_warning() {
    let of = |can: Value, sends: Vec<Value>| {
        let topology = edited(&star(3), |file| file["nodes"][3]["can"] = can.clone());
        plan(&topology, "broadcast", sends)
    };
    let at_once =
        of(json!({"copy": true, "reduce": true}), vec![send(0, 0, 0, 3, 0), send(0, 0, 3, 1, 1), send(0, 0, 3, 2, 1)]);
    let one_by_one = vec![send(0, 0, 0, 3, 0), send(0, 0, 3, 1, 1), send(0, 0, 0, 3, 1), send(0, 0, 3, 2, 2)];
    let in_turn = of(json!({}), one_by_one);
    for (plan, warned) in [(&at_once, true), (&in_turn, false)] {
        let warnings = if warned { vec!["SwitchCopyLowered"] } else { Vec::new() };
        assert_eq!(executed(&parsed(plan), "broadcast"), Ok(warnings.clone()));
        let sum = parsed(&turned(plan, "reduce"));
        assert!(check(&sum, None).ok());
        assert_eq!(executed(&sum, "reduce"), Ok(warnings));
        let xml = export(&sum, None, Format::MscclXml, &Options::default()).expect("a program").files[0].text.clone();
        assert_eq!(xml.matches(" type=\"rrc\"").count(), 2, "one of each rank, whatever the switch does");
    }
}

#[test]
fn idle_epochs_are_no_steps() {
    let topology = gpus(2, &[(0, 1)]);
    let late = |epoch: u64| plan(&topology, "broadcast", vec![send(0, 0, 0, 1, epoch)]);
    let text = |plan: &Value| {
        let made = export(&parsed(plan), None, Format::OnecclXml, &Options::default()).expect("a program");
        made.files[0].text.clone()
    };
    assert_eq!(text(&late(0)), text(&late(4_000_000_000)));
}

#[test]
fn what_ranks_have_is_not_sent_to_them_again() {
    let topology = gpus(3, &[(0, 1), (1, 2), (0, 2)]);
    // n2 gets it twice, and sends on what came first; n0 gets its own back.
    let sends =
        vec![send(0, 0, 0, 2, 1), send(0, 0, 0, 1, 0), send(0, 0, 1, 2, 2), send(0, 0, 2, 0, 3), send(0, 0, 2, 1, 3)];
    let plan = plan(&topology, "broadcast", sends);
    assert_eq!(executed(&parsed(&plan), "useless sends"), Ok(Vec::new()));
    assert_eq!(steps(&msccl(&plan)).iter().filter(|step| step.1 == "s").count(), 2);
}
