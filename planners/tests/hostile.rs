//! Hostile files: whatever bytes come, a reader gives a value that means the same when written and read again, or an
//! error that names a code; nothing panics, and no small file takes much memory.
//!
//! Real files of every form, cut off, with bits flipped, parts moved and doubled, numbers grown beyond measure, and
//! brackets without end.
//!
//! A program of its own, since it looks at the memory of the whole process.

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../plan/tests/common/fabrics.rs"]
mod common;

use std::sync::OnceLock;

use common::fabrics;
use proptest::prelude::*;
use proptest::sample::Index;
use sluice_formats::problem::Problems;
use sluice_formats::topology::r#gen::ring;
use sluice_formats::topology::import::{self, Edges, Speeds};
use sluice_formats::topology::{Kind, Topology};
use sluice_plan::check::check;
use sluice_plan::export::{Format, Options, export};
use sluice_plan::interpret;
use sluice_plan::plan::{Collective, Plan};
use sluice_planners::direct;
use sluice_planners::forestcoll::{self, Instance, Way, make};
use sluice_planners::{Request, Run};

/// Memory that a process of these tests may ever have had; its files have a few kilobytes.
const MAX_KIB: u64 = 512 << 10;

const GRAPHML: &str = "<?xml version=\"1.0\"?>\n<graphml xmlns=\"x\">\n<key id=\"d0\"/><graph edgedefault=\"undirected\">\n\
    <node id=\"0\"><data key=\"d0\">A &amp; B</data></node><node id=\"1\"/><!-- remark --><node id=\"10\"/>\n\
    <edge source=\"0\" target=\"1\"/><edge source='10' target='1'/></graph>\n</graphml>\n";
const EDGES: &str = "# a cable\na sw 100Gbit/s 1us\nsw a 100Gbit/s\nb sw 7/2Gbit/s\nsw b 40Gbit/s 0.5us\n";
const FORESTCOLL: &str = r#"{"compute":["a","b","c"],"switches":["s"],"edges":[["a","s",1],["s","a","1/1"],["b","s",2.5],["s","b",2.5],["c","s",1e1],["s","c",10]],"weights":{"a":3,"b":1},"multicast":["s"]}"#;
const NVIDIA: &str =
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV4\tPIX\t0-7\nGPU1\tNV4\t X \tSYS\t8-15\nNIC0\tPIX\tSYS\t X \t\n";

/// Plans of the kinds that no planner here makes; what they are for does not matter, so the fabric is missing.
const PLANS: [&str; 5] = [
    r#"{"claim":{"T_B":null,"T_L":2,"load_sum":"7/8","loads":["1/2","3/8"]},"collective":"allgather","content":{"P":4,"kind":"steps","step_length":"1/7","steps":[{"op":"copy","sends":[[0,0,4,0],[1,1,2,1]]},{"op":"reduce","sends":[]}]},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{"finish_epochs":3,"finish_us":3.0,"status":"feasible"},"collective":"custom","content":{"epoch_us":1.0,"kind":"sends","model":{"chunk":"25000B","chunks":1,"divisible":true,"stragglers":[{"alpha_add":1e-6,"link":3}],"tau":"1us","theta":"1/10"},"sends":[{"bytes":10,"chunk":0,"epoch":0,"from":"n0","offset":0,"op":"copy","src":"n0","tenant":"x","to":"n1"},{"chunk":0,"epoch":1,"from":"n1","op":"reduce","src":"n0","to":"n0"}]},"demands":{"sluice_demands":1,"tenants":[{"name":"x","triples":[["n0",0,"n1"]],"weight":1}]},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{"T":[1.25,2],"T_mean_s":1.625},"collective":"custom","content":{"execution":"static","flows":[{"collective":0,"dst":"n1","group":0,"id":0,"order":0,"path":[0],"rate":"10MB/s","release_s":0,"size":"100MB","src":"n0"}],"groups":[{"collective":0,"group":0,"reserve":[[0,"10MB/s"]]}],"kind":"rates"},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{},"collective":"custom","content":{"execution":"work_conserving","flows":[{"collective":0,"dst":"n1","group":0,"id":0,"order":0,"path":[0],"size":"1MB","src":"n0"}],"groups":[{"collective":0,"group":0,"weight":"2/3"}],"kind":"weights"},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
    r#"{"claim":{},"collective":"custom","content":{"execution":"order_preserving","flows":[{"collective":0,"dst":"n1","group":0,"id":0,"order":0,"path":[0],"pred":[1],"size":"1GiB","src":"n0","start_s":0.5}],"kind":"order"},"sluice_plan":1,"topology":{"sha256":"00"}}"#,
];

/// A way to read, and files it reads.
struct Target {
    name: &'static str,
    files: Vec<Vec<u8>>,
    read: fn(&[u8]),
}

/// An error for people and for programs, free of what a terminal would obey.
fn told(errors: &Problems) {
    for error in errors.all() {
        assert!(!error.code.is_empty() && !error.message.is_empty(), "{error:?}");
        assert!(!error.found.chars().any(char::is_control), "{error:?}");
        assert!(error.found.chars().count() <= 1_000, "{error:?}");
    }
    assert!(!errors.all().is_empty() && errors.to_json().starts_with("{\"schema\":1,"));
}

fn topology(read: Result<Topology, Problems>) {
    match read {
        Err(errors) => told(&errors),
        Ok(topology) => {
            let again = Topology::read(topology.to_text().as_bytes(), "again").expect("what is written is valid");
            assert_eq!(again.to_compact(), topology.to_compact());
        }
    }
}

fn plan(bytes: &[u8]) {
    match Plan::read(bytes, "p") {
        Err(errors) => told(&errors),
        Ok(plan) => {
            let given = &fabrics()[0];
            // With the fabric inside it, or with one whose digest it is said to be for.
            let mut ours = plan.clone();
            ours.body.topology.sha256 = given.digest().into();
            for report in [check(&plan, None), check(&ours, Some(given))] {
                assert!(report.violation.is_none_or(|violation| !violation.message.is_empty()));
            }
            // Nodes may be numbered in another order where keys stood in another one.
            let again = Plan::read(plan.to_text().as_bytes(), "again").expect("what is written is valid");
            assert_eq!(again.to_text(), plan.to_text());
        }
    }
}

fn program(bytes: &[u8]) {
    match interpret::read(bytes, "x") {
        Err(errors) => told(&errors),
        Ok(program) => {
            let again = interpret::read(program.to_xml().as_bytes(), "again").expect("what is written is valid");
            assert_eq!(again.to_xml(), program.to_xml());
            if let Err(errors) = interpret::interpret(bytes, "x") {
                told(&errors);
            }
        }
    }
}

fn targets() -> &'static [Target] {
    static TARGETS: OnceLock<Vec<Target>> = OnceLock::new();
    TARGETS.get_or_init(|| {
        let topologies: Vec<Topology> = fabrics().into_iter().take(4).collect();
        let made = |topology: &Topology, collective| {
            let request = Request::of_all(collective);
            let instance = Instance::new(topology, &request, "t").expect("a problem");
            let options = forestcoll::Options { fixed_k: Some(1), ..forestcoll::Options::default() };
            make(&instance, &options, Way::Phases, &Run::quiet(1)).expect("a plan").plan
        };
        let plans = [made(&topologies[0], Collective::AllGather), made(&topologies[0], Collective::AllReduce)];
        let xml = |plan: &Plan| {
            let mut made = export(plan, None, Format::MscclXml, &Options::default()).expect("a program").files;
            made.remove(0).text.into_bytes()
        };
        let steps = |collective| {
            let (request, options) = (Request::of_all(collective), direct::Options::default());
            let graph = ring(3, "1", true).expect("valid");
            let instance = direct::Instance::new(&graph, &request, &options, "t").expect("a problem");
            let plan = direct::make(&instance, &Run::quiet(1)).expect("a plan").plan;
            let mut made = export(&plan, None, Format::OnecclXml, &Options::default()).expect("a program").files;
            made.remove(0).text.into_bytes()
        };
        let own = topologies.iter().flat_map(|of| [of.to_text(), of.to_compact()]).map(String::into_bytes);
        let texts = |text: &str| vec![text.as_bytes().to_vec()];
        vec![
            Target { name: "topology", files: own.collect(), read: |bytes| topology(Topology::read(bytes, "t")) },
            Target {
                name: "forestcoll",
                files: texts(FORESTCOLL),
                read: |bytes| topology(import::forestcoll(bytes, "t", None)),
            },
            Target {
                name: "graphml",
                files: texts(GRAPHML),
                read: |bytes| topology(import::graphml(bytes, "t", "1GB/s")),
            },
            Target {
                name: "edges",
                files: texts(EDGES),
                read: |bytes| topology(import::edges(bytes, "t", &Edges { kind: Kind::Host, switches: &["sw"] })),
            },
            Target {
                name: "nvidia-smi",
                files: texts(NVIDIA),
                read: |bytes| topology(import::nvidia_smi(bytes, "t", &Speeds::default())),
            },
            Target {
                name: "plan",
                files: plans
                    .iter()
                    .map(|plan| plan.to_text().into_bytes())
                    .chain(PLANS.map(|text| text.into()))
                    .collect(),
                read: plan,
            },
            Target { name: "msccl-xml", files: plans.iter().map(xml).collect(), read: program },
            Target {
                name: "oneccl-xml",
                files: vec![steps(Collective::AllGather), steps(Collective::AllReduce)],
                read: program,
            },
        ]
    })
}

/// One thing done to a file.
#[derive(Clone, Debug)]
enum Harm {
    Cut(Index),
    Flip(Index, u8),
    /// A part, by its place and length, put somewhere else once more.
    Double(Index, usize, Index),
    Drop(Index, usize),
    /// The number after a place becomes this.
    Number(Index, &'static str),
    /// So many brackets at a place.
    Nest(Index, &'static str, usize),
    Put(Index, &'static str),
}

fn harm() -> impl Strategy<Value = Harm> {
    let huge = prop_oneof![
        Just("18446744073709551615"),
        Just("99999999999999999999999999999999999999999999"),
        Just("4294967296"),
        Just("-1"),
        Just("0"),
        Just("1e308"),
        Just("1e-308"),
        Just("1e999999999"),
        Just("0.1e-300"),
        Just("1/0"),
        Just("1/3"),
    ];
    let nest = prop_oneof![Just("["), Just("{\"a\":"), Just("<a>"), Just("("), Just("/*")];
    let put = prop_oneof![
        Just("\0"),
        Just("\u{202e}"),
        Just("\\ud800"),
        Just("\u{feff}"),
        Just("\r\n"),
        Just("<!DOCTYPE a [<!ENTITY b \"c\">]>"),
        Just("&b;"),
        Just("\"x\":1,\"x\":2,"),
        Just("null"),
    ];
    prop_oneof![
        2 => any::<Index>().prop_map(Harm::Cut),
        4 => (any::<Index>(), 0_u8..8).prop_map(|(at, bit)| Harm::Flip(at, bit)),
        3 => (any::<Index>(), 1_usize..60, any::<Index>()).prop_map(|(at, length, to)| Harm::Double(at, length, to)),
        2 => (any::<Index>(), 1_usize..30).prop_map(|(at, length)| Harm::Drop(at, length)),
        6 => (any::<Index>(), huge).prop_map(|(at, number)| Harm::Number(at, number)),
        1 => (any::<Index>(), nest, 1_usize..20_000).prop_map(|(at, bracket, times)| Harm::Nest(at, bracket, times)),
        2 => (any::<Index>(), put).prop_map(|(at, text)| Harm::Put(at, text)),
    ]
}

fn harmed(file: &[u8], harms: &[Harm]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for harm in harms {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        let put = |bytes: &mut Vec<u8>, at: usize, new: &[u8]| drop(bytes.splice(at..at, new.iter().copied()));
        match harm {
            Harm::Cut(at) => bytes.truncate(at.index(length)),
            Harm::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Harm::Double(at, count, to) => {
                let from = at.index(length);
                let part = bytes[from..(from + count).min(length)].to_vec();
                put(&mut bytes, to.index(length), &part);
            }
            Harm::Drop(at, count) => {
                let from = at.index(length);
                bytes.drain(from..(from + count).min(length));
            }
            Harm::Number(at, number) => {
                let from = at.index(length);
                let digits = |byte: &u8| byte.is_ascii_digit();
                if let Some(begin) = bytes[from..].iter().position(digits).map(|begin| from + begin) {
                    let end = bytes[begin..].iter().position(|byte| !digits(byte)).map_or(length, |end| begin + end);
                    bytes.splice(begin..end, number.bytes());
                }
            }
            Harm::Nest(at, bracket, times) => put(&mut bytes, at.index(length), bracket.repeat(*times).as_bytes()),
            Harm::Put(at, text) => put(&mut bytes, at.index(length), text.as_bytes()),
        }
    }
    bytes
}

/// The most memory that this process ever had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn real_files_are_read() {
    for target in targets() {
        for file in &target.files {
            (target.read)(file);
        }
    }
    assert!(targets().iter().all(|target| target.files.iter().all(|file| file.len() < 64 << 10)));
    let accepted = |read: &dyn Fn(&[u8]) -> bool, name: &str| {
        let target = targets().iter().find(|target| target.name == name).expect("known");
        assert!(target.files.iter().all(|file| read(file)), "{name}");
    };
    accepted(&|bytes| Topology::read(bytes, "t").is_ok(), "topology");
    accepted(&|bytes| import::forestcoll(bytes, "t", None).is_ok(), "forestcoll");
    accepted(&|bytes| import::graphml(bytes, "t", "1GB/s").is_ok(), "graphml");
    accepted(&|bytes| import::edges(bytes, "t", &Edges { kind: Kind::Host, switches: &["sw"] }).is_ok(), "edges");
    accepted(&|bytes| import::nvidia_smi(bytes, "t", &Speeds::default()).is_ok(), "nvidia-smi");
    accepted(&|bytes| Plan::read(bytes, "p").is_ok(), "plan");
    accepted(&|bytes| interpret::interpret(bytes, "x").is_ok_and(|report| report.ok()), "msccl-xml");
    accepted(&|bytes| interpret::interpret(bytes, "x").is_ok_and(|report| report.ok()), "oneccl-xml");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn harmed_files_are_read_or_refused(
        which in 0_usize..7,
        file: Index,
        harms in proptest::collection::vec(harm(), 1..4),
    ) {
        let target = &targets()[which];
        (target.read)(&harmed(&target.files[file.index(target.files.len())], &harms));
        prop_assert!(peak_kib() < MAX_KIB, "{} KiB after {}", peak_kib(), target.name);
    }

    #[test]
    fn any_bytes_are_read_or_refused(which in 0_usize..7, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        (targets()[which].read)(&bytes);
    }

    #[test]
    fn any_text_is_read_or_refused(which in 0_usize..7, text in "[-{}\\[\\]\":,/<>=a-z0-9 \\n]{0,200}") {
        (targets()[which].read)(text.as_bytes());
    }
}

#[test]
fn brackets_without_end() {
    for target in targets() {
        for bracket in ["[", "{\"a\":", "{\"links\":[", "<a>", "<algo>", "<graphml><graph>", "\"", "a "] {
            (target.read)(bracket.repeat(200_000).as_bytes());
        }
    }
    assert!(peak_kib() < MAX_KIB, "{} KiB", peak_kib());
}
