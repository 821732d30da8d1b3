//! Every code that a file or a parameter can be refused with, from a topology file to an exported program: each has a
//! smallest bad input here, and a code without one fails the test.

use sluice_formats::problem::{self, Code, Problems};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{Wiring, dgx_a100};
use sluice_formats::topology::import;
use sluice_plan::export::{self, Format, export};
use sluice_plan::plan::{Collective, Content, Paths, Plan};
use sluice_planners::forestcoll::{Instance, Options, Way, make};
use sluice_planners::{Request, Run};

/// The codes of files, of the planner and of the exporter. Only `INTERNAL_INVARIANT` is missing: no input leads to it.
const CODES: [Code; 26] = [
    problem::E_PARSE,
    problem::E_VERSION,
    problem::E_KEY,
    problem::E_MISSING,
    problem::E_RANGE,
    problem::E_LIMIT,
    problem::DUPLICATE_NODE,
    problem::UNKNOWN_NODE,
    problem::SELF_LOOP,
    problem::NON_POSITIVE_BANDWIDTH,
    problem::BAD_WEIGHTS,
    problem::UNKNOWN_EDGE,
    problem::EMPTY_GROUP,
    problem::REPEATED_EDGE,
    problem::BAD_COST,
    "TOO_FEW_COMPUTE",
    "NOT_EULERIAN",
    "NOT_CONNECTED",
    "OVERFLOW",
    "BAD_K",
    "K_TOO_LARGE",
    "FIXED_K_NOT_EULERIAN",
    "UNSUPPORTED_FIELD",
    "XML_LIMIT_EXCEEDED",
    "PLAN_REFUSED",
    "CANCELLED",
];

const HEAD: &str = r#"{"sluice_topology":1,"nodes":["#;
const THREE: &str = r#"{"id":"a","kind":"gpu"},{"id":"b","kind":"gpu"},{"id":"s","kind":"switch"}"#;

fn file(nodes: &str, links: &str) -> String {
    format!("{HEAD}{nodes}],\"links\":[{links}]}}")
}

fn cable(from: &str, to: &str, more: &str) -> String {
    format!(r#"{{"from":"{from}","to":"{to}","capacity":"2GB/s","duplex":true{more}}}"#)
}

fn star(more: &str) -> String {
    file(THREE, &format!("{},{}", cable("a", "s", more), cable("b", "s", "")))
}

fn read(text: &str) -> Result<Topology, Problems> {
    Topology::read(text.as_bytes(), "t")
}

fn planned(topology: &Topology, collective: Collective, options: &Options) -> Result<Plan, Problems> {
    let request = Request::of_all(collective);
    let instance = Instance::new(topology, &request, "t")?;
    Ok(make(&instance, options, Way::Phases, &Run::quiet(1))?.plan)
}

fn plan(text: &str) -> Result<Plan, Problems> {
    planned(&read(text)?, Collective::AllGather, &Options::default())
}

fn refused<T>(result: Result<T, Problems>) -> Code {
    let Err(errors) = result else { return "no refusal" };
    let first = &errors.all()[0];
    // An error says where, what was found or allowed, or what to do.
    assert!(!first.key.is_empty() || !first.found.is_empty() || !first.allowed.is_empty(), "{first:?}");
    errors.code()
}

fn fixed(k: i64) -> Options {
    Options { fixed_k: Some(k), ..Options::default() }
}

/// Into the switch 3 and 4, out of it 2 and 5: balanced, and not after rounding.
const UNEVEN: &str = r#"{"compute":["a","b","c"],"switches":["s"],"edges":[["a","s",3],["b","s",4],["s","a",2],["s","b",5],
    ["a","b",4],["b","a",5],["a","c",3],["c","a",3],["b","c",7],["c","b",7]]}"#;

/// What the smallest bad input for a code is refused with; `None`: there is none here.
fn provoke(code: Code) -> Option<Code> {
    let group = |links: &str| {
        read(&star("").replace("}]}", &format!(r#"}}],"groups":[{{"capacity":"1GB/s","links":{links}}}]}}"#)))
    };
    let good = || read(&star("")).expect("valid");
    Some(match code {
        "E_PARSE" => refused(read("{")),
        "E_VERSION" => refused(read(&star("").replace("topology\":1", "topology\":2"))),
        "E_KEY" => refused(read(&star(r#","colour":1"#))),
        "E_MISSING" => refused(read(r#"{"sluice_topology":1}"#)),
        "E_RANGE" => refused(read(&star("").replace("2GB/s", "2Gbps"))),
        "E_LIMIT" => refused(read(&star(r#","count":4000000"#))),
        "DUPLICATE_NODE" => refused(read(&star("").replace(r#""id":"b""#, r#""id":"a""#))),
        "UNKNOWN_NODE" => refused(read(&star("").replace(r#""to":"s""#, r#""to":"z""#))),
        "SELF_LOOP" => refused(plan(&file(THREE, r#"{"from":"a","to":"a","capacity":"1"}"#))),
        "NON_POSITIVE_BANDWIDTH" => refused(read(&star("").replace("2GB/s", "0GB/s"))),
        "BAD_WEIGHTS" => refused(read(&star("").replace(r#""kind":"gpu""#, r#""kind":"gpu","weight":-1"#))),
        "UnknownEdge" => refused(group(r#"[["a","b"]]"#)),
        "EmptyGroup" => refused(group("[]")),
        "RepeatedEdge" => refused(group(r#"[["a","s"],["a","s",0]]"#)),
        "BadCost" => refused(read(&star(r#","cost":"-1""#))),
        "TOO_FEW_COMPUTE" => refused(plan(&star("").replacen(r#""kind":"gpu""#, r#""kind":"switch""#, 1))),
        "NOT_EULERIAN" => refused(plan(&star("").replacen("true", "false", 1))),
        "NOT_CONNECTED" => refused(plan(&file(THREE, &cable("a", "s", "")))),
        "OVERFLOW" => refused(planned(&good(), Collective::AllGather, &fixed(i64::MAX))),
        "BAD_K" => refused(planned(&good(), Collective::AllGather, &fixed(0))),
        "K_TOO_LARGE" => {
            let boxes = sluice_formats::topology::r#gen::dgx_a100(2, sluice_formats::topology::r#gen::Wiring::Plain);
            let options = Options { most_k: Some(12), ..Options::default() };
            refused(planned(&boxes.expect("valid"), Collective::AllGather, &options))
        }
        "FIXED_K_NOT_EULERIAN" => {
            let uneven = import::forestcoll(UNEVEN.as_bytes(), "t", None).expect("valid");
            let mut refusals = (1..8).map(|k| refused(planned(&uneven, Collective::AllGather, &fixed(k))));
            refusals.rfind(|code| *code != "no refusal").unwrap_or("no refusal")
        }
        "UNSUPPORTED_FIELD" => refused(plan(&star("").replace(r#""kind":"gpu""#, r#""kind":"gpu","buffer":"1MiB""#))),
        "XML_LIMIT_EXCEEDED" => {
            let made = planned(&good(), Collective::AllGather, &Options::default()).expect("a plan");
            let many = export::Options { instances: 32, ..export::Options::default() };
            assert!(export(&made, None, Format::MscclXml, &many).is_ok(), "32 channels are there");
            let boxes = dgx_a100(2, Wiring::Plain).expect("valid");
            let made = planned(&boxes, Collective::AllGather, &Options::default()).expect("a plan");
            refused(export(&made, None, Format::MscclXml, &many))
        }
        "PLAN_REFUSED" => {
            let mut made = planned(&good(), Collective::AllGather, &Options::default()).expect("a plan");
            made.body.topology.sha256 = "00".into();
            refused(export(&made, None, Format::MscclXml, &export::Options::default()))
        }
        "CANCELLED" => {
            let cancel = std::sync::atomic::AtomicBool::new(true);
            let topology = good();
            let request = Request::of_all(Collective::AllGather);
            let instance = Instance::new(&topology, &request, "t").expect("a problem");
            let run = Run { cancel: &cancel, ..Run::quiet(1) };
            match make(&instance, &Options::default(), Way::Phases, &run) {
                Ok(_) => "no refusal",
                Err(errors) => errors.code(),
            }
        }
        _ => return None,
    })
}

#[test]
fn every_code_has_a_smallest_bad_input() {
    assert!(CODES.starts_with(&problem::CODES), "the codes of files come first, and all of them");
    for code in CODES {
        assert_eq!(provoke(code), Some(code));
    }
    // Of the kinds of content only trees and steps are exported.
    let topology = read(&star("")).expect("valid");
    let paths = Content::Paths(Paths { pairs: Vec::new() });
    let plan = Plan::new(&topology, Collective::AllGather, Default::default(), paths);
    for format in Format::ALL {
        assert_eq!(refused(export(&plan, None, *format, &export::Options::default())), "UNSUPPORTED_FIELD");
    }
}
