//! The integer program on the small instances of the specification: the fewest epochs, proven.

use sluice_formats::quantity::{Rational, size};
use sluice_formats::topology::{Topology, import};
use sluice_plan::plan::{Collective, Status};
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{Figures, Instance, Mode, Options, Volume, make};
use sluice_planners::{Request, Run};
use sluice_planners_lp::teccl::Milp;

/// A fabric of the paper, by name.
fn fabric(name: &str, copying: bool) -> Topology {
    let all = include_str!("../../tests/teccl/fabrics.jsonl");
    let start = format!("{{\"name\":\"{name}\"");
    let line = all.lines().find(|line| line.starts_with(&start)).expect("there");
    import::teccl(line.as_bytes(), name, copying).expect("valid")
}

/// The same without latency.
fn at_once(topology: &Topology) -> Topology {
    let text = topology.to_compact();
    let mut file = text.clone();
    while let Some(at) = file.find("\"latency\":\"") {
        let end = at + 11 + file[at + 11..].find('"').expect("an end") + 1;
        let end = if file[end..].starts_with(',') { end + 1 } else { end };
        file.replace_range(at..end, "");
    }
    Topology::read(file.as_bytes(), "t").expect("valid")
}

fn options(chunks: u64, epoch: EpochLength) -> Options {
    Options {
        volume: Volume::Chunk(size("25kB").expect("a size")),
        chunks,
        epoch,
        multiplier: Rational::ONE,
        theta: Rational::ZERO,
        free_second_hop: false,
        hyper_edges: false,
        stragglers: Vec::new(),
        mode: Mode::MinEpochs,
        seed: 0,
    }
}

fn planned(topology: &Topology, collective: Collective, options: &Options) -> Figures {
    let instance = Instance::new(topology, &Request::of_all(collective), options, "t").expect("valid");
    make(&instance, Some(&Milp::default()), &Run::quiet(1)).unwrap_or_else(|problems| panic!("{problems}")).figures
}

#[test]
fn all_gather_on_a_dgx1() {
    let with = fabric("DGX1", false);
    let without = at_once(&with);
    let rows = [(&with, 1, 4), (&with, 2, 5), (&with, 3, 6)];
    let rows = rows.into_iter().chain((1..=6).map(|chunks| (&without, chunks, chunks + 1)));
    for (topology, chunks, minimum) in rows {
        let figures = planned(topology, Collective::AllGather, &options(chunks, EpochLength::Slow));
        assert_eq!((figures.epochs, figures.status), (minimum, Status::Optimal), "{chunks} chunks");
    }
    let fast = planned(&with, Collective::AllGather, &options(1, EpochLength::Fast));
    assert_eq!((fast.epochs, fast.status), (7, Status::Optimal));
}

#[test]
fn dgx2_with_a_free_second_hop() {
    for (bytes, minimum) in [("1GB", 4), ("1MB", 9)] {
        let volume = Volume::Size(size(bytes).expect("a size"));
        let theta = Rational::new(1, 10).expect("a tenth");
        let options = Options { volume, theta, free_second_hop: true, ..options(1, EpochLength::Slow) };
        let figures = planned(&fabric("DGX2-2", true), Collective::AllGather, &options);
        assert_eq!((figures.epochs, figures.status), (minimum, Status::Optimal), "{bytes}");
    }
}
