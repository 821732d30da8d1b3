//! Every target over its corpus and 2,000 edits of it; and that corpora and page are what they are made of.
//!
//! Promises: P-36, P-37

use std::path::Path;
use std::time::Duration;

use sluice_fuzz_targets::replay::replay;
use sluice_fuzz_targets::targets::frames::program_runs;
use sluice_fuzz_targets::{MAX_INPUT, corpus, find, results, targets};
use sluice_skip::skip;

/// Edits of each target.
const EDITS: usize = 2000;
/// The slowest input may take this long.
const BAR: Duration = Duration::from_millis(100);

fn replayed(number: &str) {
    let target = find(number).unwrap_or_else(|| panic!("no target {number}"));
    let inputs = corpus::load(target).unwrap_or_else(|error| panic!("{}: {error}", corpus::folder(target).display()));
    assert!(!inputs.is_empty(), "{} has no corpus", target.name);
    assert!(inputs.iter().all(|input| input.bytes.len() <= MAX_INPUT), "{}", target.name);
    let count = inputs.len();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broke");
    let seen = replay(target, inputs, EDITS, 1, &kept);
    assert_eq!(seen.inputs, (count + EDITS) as u64, "{}: not all were fed", target.name);
    let (slowest, bytes) = (seen.slowest, seen.slowest_input.len());
    println!("{}: {count} inputs and {EDITS} edits; slowest {slowest:.1?} for {bytes} bytes", target.name);
    assert!(slowest <= BAR, "{}: {slowest:?} for {bytes} bytes; allowed {BAR:?}", target.name);
}

macro_rules! replays {
    ($($name:ident = $number:literal,)*) => {
        $(#[test]
        fn $name() {
            replayed($number);
        })*

        #[test]
        fn every_target_is_replayed() {
            let here = [$($number),*];
            let all: Vec<&str> = targets::all().map(|target| &target.name[..3]).collect();
            let missing: Vec<&str> = all.into_iter().filter(|number| !here.contains(number) && *number != "F24").collect();
            assert!(missing.is_empty(), "without a replay: {missing:?}");
        }
    };
}

replays! {
    f01_grpc = "F01",
    f02_udp = "F02",
    f03_p4runtime = "F03",
    f04_progress_page = "F04",
    f05_records = "F05",
    f06_topology = "F06",
    f07_settings = "F07",
    f08_graphml = "F08",
    f09_plans = "F09",
    f10_programs = "F10",
    f11_traces = "F11",
    f12_values = "F12",
    f13_rationals = "F13",
    f14_labels = "F14",
    f15_proc = "F15",
    f16_netlink = "F16",
    f17_btf = "F17",
    f18_pslite = "F18",
    f19_nccl = "F19",
    f20_page_api = "F20",
    f21_helper = "F21",
    f22_in_band = "F22",
    f23_state_files = "F23",
    f25_sflow = "F25",
    f26_gnmi = "F26",
    f27_etcd = "F27",
    f28_fleet_values = "F28",
    f29_flight_records = "F29",
    f30_decisions = "F30",
    f31_audit = "F31",
    f32_timelines = "F32",
    f33_scenarios = "F33",
    f34_imports = "F34",
    f35_hop_answers = "F35",
    f36_switch_tables = "F36",
    f37_certificates = "F37",
    f38_fault_cases = "F38",
}

/// The one that needs the kernel's leave.
#[test]
fn f24_switch_program() {
    if let Err(why) = program_runs() {
        return skip!(Privilege, "the kernel's program cannot be run: {why}");
    }
    replayed("F24");
}

#[test]
fn the_corpora_are_what_our_encoders_make_and_small() {
    let update = std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some();
    let mut total = 0;
    for target in targets::all() {
        if update {
            corpus::write_made(target).unwrap_or_else(|error| panic!("{}: {error}", target.name));
        }
        let files = corpus::load(target).unwrap_or_else(|error| panic!("{}: {error}", target.name));
        total += files.iter().map(|file| file.bytes.len() as u64).sum::<u64>();
        let made = (target.seeds)();
        for seed in &made {
            let name = format!("{}{}", corpus::MADE, seed.name);
            let file = files.iter().find(|file| file.name == name);
            let same = file.is_some_and(|file| file.bytes == seed.bytes);
            assert!(same, "{}/{name} is not what is made: `cargo xtask fuzz --corpus` writes it anew", target.name);
        }
        for file in &files {
            let known =
                file.name.strip_prefix(corpus::MADE).is_some_and(|name| made.iter().any(|seed| seed.name == name));
            let found = file.name == corpus::found_name(&file.bytes);
            assert!(known || found, "{}/{}: neither made nor named by its content", target.name, file.name);
        }
    }
    assert!(total <= corpus::MAX_TOTAL, "the corpora have {total} bytes");
    let folders = std::fs::read_dir(corpus::root()).expect("the corpora").flatten();
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        assert!(targets::all().any(|target| target.name == name), "a corpus without a target: {name}");
    }
}

#[test]
fn the_page_has_the_table_of_what_was_run() {
    let (path, page, made) = results::page().unwrap_or_else(|why| panic!("{why}"));
    if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, &made).expect("written");
        return;
    }
    assert!(page == made, "{} is not what is made: `cargo xtask fuzz --table` writes it anew", path.display());
}
