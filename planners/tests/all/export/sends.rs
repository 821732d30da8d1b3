//! Schedules that TE-CCL plans, as programs that the interpreter finds right.

use serde_json::json;
use sluice_formats::quantity::size;
use sluice_formats::topology::{Topology, import};
use sluice_plan::export::{Format, Options};
use sluice_plan::interpret::{Op, interpret, read};
use sluice_plan::plan::{Collective, Content, Plan};
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{self, Instance, Volume};
use sluice_planners::{Request, Run};

use crate::export::scene::{edited, exported, text, unlimited};

/// The collectives whose schedules become programs.
const PROGRAMS: [Collective; 6] = [
    Collective::AllGather,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::ReduceScatter,
];

/// A fabric of the paper, by name.
fn fabric(name: &str, copying: bool) -> Topology {
    let all = include_str!("../../teccl/fabrics.jsonl");
    let start = format!("{{\"name\":\"{name}\"");
    let line = all.lines().find(|line| line.starts_with(&start)).expect("there");
    import::teccl(line.as_bytes(), name, copying).expect("valid")
}

/// A schedule of the greedy orders.
fn planned(topology: &Topology, collective: Collective, chunks: u64, free_second_hop: bool) -> Plan {
    let root = collective.is_rooted().then(|| &*topology.nodes()[topology.compute()[1]].id);
    let request = Request { collective, participants: None, root, ignore: &[] };
    let volume = Volume::Chunk(size("25kB").expect("a size"));
    let options = teccl::Options { chunks, epoch: EpochLength::Slow, free_second_hop, ..teccl::Options::of(volume) };
    let instance = Instance::new(topology, &request, &options, "t").unwrap_or_else(|errors| panic!("{errors}"));
    teccl::make(&instance, None, &Run::quiet(1)).unwrap_or_else(|errors| panic!("{errors}")).plan
}

/// Fabrics with GPUs that pass on, and with switches that do so, one by one, or copying and adding up.
fn fabrics() -> Vec<Topology> {
    let copying = fabric("DGX2-1", true);
    let able = edited(&copying, |file| {
        for node in file["nodes"].as_array_mut().expect("nodes").iter_mut().filter(|node| node["kind"] == "switch") {
            node["can"] = json!({"copy": true, "reduce": true});
        }
    });
    vec![fabric("DGX1", false), fabric("NDv2-2", false), fabric("DGX2-1", false), able]
}

#[test]
fn every_collective_in_every_form() {
    for (number, topology) in fabrics().iter().enumerate() {
        for collective in PROGRAMS {
            // Second hops there are where there are switches.
            for (chunks, free) in [(1, false), (2, true)].into_iter().filter(|(_, free)| !free || number >= 2) {
                let plan = planned(topology, collective, chunks, free);
                let name = format!("fabric {number}, {chunks} × {}", collective.word());
                let packed = Options { consolidate: true, ..unlimited(1) };
                for (format, options) in
                    [(Format::MscclXml, &unlimited(1)), (Format::MscclXml, &packed), (Format::OnecclXml, &unlimited(1))]
                {
                    let export = exported(&plan, format, options);
                    let xml = &export.files[0].text;
                    let report = interpret(xml.as_bytes(), "p").unwrap_or_else(|errors| panic!("{name}: {errors}"));
                    assert_eq!(report.fault, None, "{name} as {}", format.word());
                    let shards = if collective.is_rooted() { 1 } else { topology.compute().len() as u64 };
                    assert_eq!(u64::from(report.chunks), shards * chunks, "{name}");
                    // An all-to-all has nothing to copy or to add up.
                    let lowered = number == 3 && collective != Collective::AllToAll;
                    let warned = export.warnings.iter().any(|warning| warning.code == "SwitchCopyLowered");
                    assert_eq!(warned, lowered, "{name}");
                }
                let again = Plan::read(plan.to_text().as_bytes(), "p").expect("what is written is valid");
                for format in [Format::Svg, Format::Dot, Format::TecclJson, Format::MscclXml] {
                    let [one, two] = [&plan, &again].map(|plan| exported(plan, format, &unlimited(1)));
                    assert_eq!(one, two, "{name} as {}", format.word());
                }
            }
        }
    }
}

#[test]
fn a_program_sends_what_its_schedule_sends() {
    // Without switches every send of the plan is a chunk of one message.
    let topology = fabric("DGX1", false);
    for collective in PROGRAMS {
        let plan = planned(&topology, collective, 2, false);
        let Content::Sends(sends) = &plan.body.content else { panic!("sends") };
        let program = read(text(&plan, Format::MscclXml, &unlimited(1)).as_bytes(), "p").expect("readable");
        let count = |wanted: &dyn Fn(Op) -> bool| -> u64 {
            program.steps().filter(|step| wanted(step.op)).map(|step| u64::from(step.count)).sum()
        };
        assert_eq!(count(&Op::sends), sends.sends.len() as u64, "{}", collective.word());
        let sums = sends.sends.iter().filter(|send| send.entry.reduces()).count() as u64;
        assert_eq!(count(&Op::reduces), sums, "{}: every sum is added to something", collective.word());
    }
}
