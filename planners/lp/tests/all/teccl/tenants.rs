//! Demands of several tenants: who counts more is served first, and what is wrong with a file is said with its place.

use super::*;
use serde_json::{Value, json};
use sluice_planners::teccl::{Mode, Objective};

fn custom(topology: &Topology, tenants: &Value, mode: Mode) -> Result<Made, Problems> {
    let wanted = wanted(&json!({"sluice_demands": 1, "tenants": tenants}))?;
    let options = Options { wanted: Some(wanted), mode, ..options(1, EpochLength::Slow) };
    tried(topology, Collective::Custom, &options)
}

#[test]
fn who_counts_more_is_served_first() {
    // Both want four chunks over one link.
    let line = unit(2, &[(0, 1), (1, 0)]);
    let triples = |first: u64| (first..first + 4).map(|chunk| json!(["0", chunk, "1"])).collect::<Vec<_>>();
    for (heavy, weights) in [(0, [3, 1]), (1, [1, 3])] {
        let tenants = json!([
            {"name": "a", "weight": weights[0], "triples": triples(0)},
            {"name": "b", "weight": weights[1], "triples": triples(0)},
        ]);
        for mode in [Mode::MinEpochs, Mode::Objective { objective: Objective::Harmonic, epochs: None }] {
            let made = custom(&line, &tenants, mode).expect("a plan");
            let ends: Vec<u64> = made.figures.tenants.iter().map(|tenant| tenant.epochs).collect();
            assert_eq!((ends[heavy], ends[1 - heavy]), (4, 8), "{weights:?}, {mode:?}");
        }
    }
}

#[test]
fn tenants_share_links_and_have_collectives_of_their_own() {
    let dgx1 = at_once(&fabric("DGX1", false));
    let tenants = json!([
        {"name": "a", "collective": "allgather", "participants": ["0", "1", "2", "3"]},
        {"name": "b", "collective": "alltoall", "chunks": 2, "participants": ["4", "5", "6", "7"]},
        {"name": "c", "collective": "broadcast", "root": "7"},
        {"name": "d", "collective": "gather", "root": "0", "participants": ["0", "6"]},
    ]);
    let made = custom(&dgx1, &tenants, Mode::MinEpochs).expect("a plan");
    assert_eq!(made.figures.tenants.len(), 4);
    assert_eq!(made.figures.tenants.iter().map(|tenant| tenant.epochs).max(), Some(made.figures.epochs));
    // All of it at once is no slower than one after the other.
    let alone = |i: usize| custom(&dgx1, &json!([tenants[i]]), Mode::MinEpochs).expect("a plan").figures.epochs;
    assert!(made.figures.epochs <= (0..4).map(alone).sum());
}

#[test]
fn copies_help_and_pieces_refuse_them() {
    let dgx1 = at_once(&fabric("DGX1", false));
    let with = planned(&dgx1, Collective::AllGather, &options(1, EpochLength::Slow)).figures.epochs;
    let mut triples = Vec::new();
    for from in 0..8_u64 {
        triples.extend((0..8).filter(|to| *to != from).map(|to| json!([from.to_string(), to, to.to_string()])));
    }
    let without = custom(&dgx1, &json!([{"name": "a", "triples": triples}]), Mode::MinEpochs).expect("a plan");
    assert!(with <= without.figures.epochs);
    let pieces = Options { divisible: true, ..options(1, EpochLength::Slow) };
    assert_eq!(tried(&dgx1, Collective::AllGather, &pieces).expect_err("copies").code(), "CopyNeeded");
}

#[test]
fn mistakes_are_named_with_their_places() {
    let star = fabric("DGX2-1", false);
    let cases = [
        (json!([{"name": "a", "triples": [["0", 0, "99"]]}]), "BadNode", "/tenants/0/triples/0"),
        (json!([{"name": "a", "triples": [["0", 0, "16"]]}]), "SwitchEndpoint", "/tenants/0/triples/0"),
        (json!([{"name": "a", "triples": [["0", 0, "0"]]}]), "SelfDemand", "/tenants/0/triples/0"),
        (json!([{"name": "a", "triples": [["0", 0, "1"], ["0", 0, "1"]]}]), "DuplicateDemand", "/tenants/0/triples/1"),
        (json!([{"name": "a", "triples": []}]), "EmptyDemand", "/tenants"),
        (json!([]), "EmptyDemand", "/tenants"),
        (json!([{"name": "a"}]), "E_MISSING", "/tenants/0"),
        (json!([{"name": "a", "triples": [], "collective": "allgather"}]), "E_KEY", "/tenants/0/triples"),
        (json!([{"name": "a", "collective": "broadcast"}]), "E_MISSING", "/tenants/0/root"),
        (json!([{"name": "a", "collective": "allgather", "root": "0"}]), "E_KEY", "/tenants/0/root"),
        (
            json!([{"name": "a", "collective": "gather", "root": "3", "participants": ["0", "1"]}]),
            "E_RANGE",
            "/tenants/0/root",
        ),
        (
            json!([{"name": "a", "collective": "allgather", "participants": ["0"]}]),
            "EmptyDemand",
            "/tenants/0/participants",
        ),
        (json!([{"name": "a", "collective": "allgather", "chunks": 0}]), "BadChunk", "/tenants/0/chunks"),
        (json!([{"name": "a", "collective": "reduce_scatter"}]), "E_RANGE", "/tenants/0/collective"),
        (json!([{"name": "a", "weight": 0, "collective": "allgather"}]), "E_RANGE", "/tenants/0/weight"),
        (
            json!([{"name": "a", "collective": "allgather"}, {"name": "a", "collective": "alltoall"}]),
            "E_DUP",
            "/tenants/1/name",
        ),
    ];
    for (tenants, code, at) in cases {
        let error = custom(&star, &tenants, Mode::MinEpochs).expect_err("refused");
        let first = &error.all()[0];
        assert_eq!((first.code, first.key.as_str(), first.file.as_str()), (code, at, "demands.json"), "{tenants}");
    }
    let error = tried(&star, Collective::Custom, &options(1, EpochLength::Slow)).expect_err("no demands");
    assert_eq!(error.code(), "E_RANGE");
}

#[test]
fn a_damaged_file_is_read_or_refused() {
    let dgx1 = fabric("DGX1", false);
    let good = json!({"sluice_demands": 1, "tenants": [
        {"name": "a", "weight": 2, "collective": "gather", "chunks": 2, "root": "0", "participants": ["0", "1", "2"]},
        {"name": "b", "triples": [["3", 0, "4"], ["5", 1, "6"]]},
    ]})
    .to_string();
    let (mut read, mut refused) = (0, 0);
    for at in 0..good.len() {
        for byte in [b'0', b'9', b'"', b'[', b'}', b',', b'-', 0, 0xff] {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = byte;
            let wanted = Demands::read(&bytes, "d.json").map(|(demands, names)| Wanted {
                demands,
                names,
                file: "d.json".into(),
            });
            let made = wanted.and_then(|wanted| {
                let options = Options { wanted: Some(wanted), ..options(1, EpochLength::Slow) };
                Instance::new(&dgx1, &Request::of_all(Collective::Custom), &options, "t").map(|_| ())
            });
            *(if made.is_ok() { &mut read } else { &mut refused }) += 1;
        }
    }
    assert!(read > 20 && refused > 1000, "{read} read, {refused} refused");
}
