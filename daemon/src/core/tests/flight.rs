//! What the loop tells the flight recorder, read back from the file.

use sluice_attribution::{Hosts, record};

use super::*;

/// A host whose loop records, and the file.
fn recorded(dir: &std::path::Path, max_bytes: u64) -> (Star, std::path::PathBuf) {
    let file = dir.join("flight.ring");
    let mut config = config(0, true);
    (config.flight.file, config.flight.max_bytes) = (Some(file.clone()), max_bytes);
    let fabric = fabric(0, &config);
    let mut site = Site::on(config, fabric, (0, 1), "a");
    site.core.fly_as_configured();
    (Star::new(vec![site]), file)
}

/// Waits until the recorder's thread has written what was said to it by then: the loop does not wait, and on a busy machine
/// some thirty slots of virtual time are over before the thread has its turn.
fn written(file: &std::path::Path, by_ms: u64) {
    let last = || Some(record::read(&std::fs::read(file).ok()?).ok()?.slots.last()?.to);
    let began = std::time::Instant::now();
    while last().is_none_or(|to| to < Nanos::from_millis(by_ms)) {
        assert!(began.elapsed().as_secs() < 20, "{:?} of {by_ms} ms", last());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn rounds_are_in_the_record_with_their_bytes_and_links() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut star, file) = recorded(dir.path(), 64 << 20);
    for round in 0..4 {
        star.run(round * 600, round * 600 + 120);
        star.sites[0].begin(2_000_000);
        star.run(round * 600 + 120, round * 600 + 480);
        star.sites[0].page(|view| view.state = State::Compute);
        star.run(round * 600 + 480, round * 600 + 600);
        written(&file, round * 600 + 540);
    }
    assert_eq!(star.sites[0].core.flight_path(), Some(file.as_path()));
    star.sites[0].core.end_flight();
    let record = record::read(&std::fs::read(&file).expect("a file")).expect("a record");
    assert_eq!((record.host.as_str(), record.torn), ("h0", 0));
    let delivered: u64 = record.slots.iter().flat_map(|slot| &slot.flows).map(|flow| flow.delivered.0).sum();
    assert!((7_500_000..=8_000_000).contains(&delivered), "{delivered}");
    let busy = record.slots.iter().find(|slot| !slot.flows.is_empty()).expect("a slot with a flow");
    let flow = &busy.flows[0];
    assert_eq!((busy.job_name(flow.job), busy.peer_name(flow.peer)), ("a", "h1"));
    let path: Vec<&str> = flow.path.iter().filter_map(|at| busy.link(*at)).map(|link| link.name.as_str()).collect();
    assert_eq!(path.len(), 2, "{path:?}");
    assert!(path[0].starts_with("h0:") && busy.links.iter().any(|link| link.inwards), "{:?}", busy.links);
    assert!(record.slots.iter().all(|slot| slot.links.iter().all(|link| link.capacity > Rate::ZERO)));
    let mut hosts = Hosts::default();
    hosts.take(record);
    let jobs = hosts.jobs("h0");
    let job = *jobs.keys().next().expect("a job");
    let all = hosts.iterations("h0", job);
    assert_eq!(all.len(), 3, "the first one's beginning is not known: {all:?}");
    for iteration in &all {
        assert_eq!(iteration.took(), Nanos::from_millis(600), "{all:?}");
    }
    let report = hosts.report("h0", job, &all);
    assert!((report.shares.total() - 600e6).abs() < 1.0 && report.shares.of(&sluice_attribution::Cause::Unknown) < 1.0);
}

#[test]
fn a_reload_ends_it_and_begins_it_again_in_the_same_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut star, file) = recorded(dir.path(), 64 << 20);
    star.run(0, 300);
    let core = &mut star.sites[0].core;
    core.config.flight.max_bytes = 0;
    core.fly_as_configured();
    assert_eq!(core.flight_path(), None);
    star.run(300, 600);
    let core = &mut star.sites[0].core;
    core.config.flight.max_bytes = 1 << 20;
    core.fly_as_configured();
    star.run(600, 900);
    star.sites[0].core.end_flight();
    let record = record::read(&std::fs::read(&file).expect("a file")).expect("a record");
    let ms: Vec<u64> = record.slots.iter().map(|slot| slot.to.0 / 1_000_000).collect();
    let first = ms.first().expect("slots");
    assert!(ms.iter().any(|at| at - first < 300) && ms.iter().any(|at| at - first > 600), "{ms:?}");
    assert!(!ms.iter().any(|at| (at - first) > 320 && (at - first) < 580), "{ms:?}");
}
