//! What an earlier start has left, whatever its version, size or tier: its sockets are given back before anything that
//! would do so later goes away.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aya::maps::{Map, MapData, Queue};
use sluice_clock::monotonic;
use sluice_ebpf::{ABI, NotTaken, Options, Tier};
use sluice_schedule::{Nanos, Rate};

use crate::common;

const UNLIMITED: u64 = u64::MAX;

/// The pins of this version.
fn pins(options: &Options) -> PathBuf {
    options.pin_dir().join(format!("abi{ABI}"))
}

fn names(options: &Options) -> Vec<String> {
    let entries = fs::read_dir(pins(options)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A flow with a pacing ceiling that sends nothing, so that no acknowledgement lifts it, and what a process that was killed
/// leaves; all of that is cleaned up in the end.
fn abandoned(net: &common::Net, options: &Options) -> Option<(common::Flow, common::Kernelled)> {
    let mut kernel = common::open(net, Options { tiers: vec![Tier::SetSockOpt], ..options.clone() })?;
    let flow = common::Flow::start(net, common::port());
    let row = kernel.take(net, &flow.stream).expect("an Opened event");
    kernel.path().order(row, Rate::mbps(80), monotonic().plus(Nanos::from_millis(9_000)));
    flow.paused.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(200));
    assert_ne!(flow.ceiling(), UNLIMITED);
    drop(kernel.opened.take());
    Some((flow, kernel))
}

#[test]
fn pins_of_another_version_are_ended_by_their_own_pass() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let Some((flow, _left)) = abandoned(&net, &options) else { return };
    let other = options.pin_dir().join(format!("abi{}", ABI + 100));
    fs::rename(pins(&options), &other).expect("renamed");
    let kernel = common::open(&net, options.clone()).expect("it worked before");
    assert_eq!(flow.ceiling(), UNLIMITED, "held for life");
    assert!(!other.exists());
    let reasons = &kernel.opened.as_ref().expect("open").reasons;
    assert!(reasons.is_empty(), "{reasons:?}");
}

#[test]
fn a_table_of_another_size_leaves_no_ceiling_behind() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let Some((flow, _left)) = abandoned(&net, &options) else { return };
    let other = Options { max_flows: 32, ..options };
    let _kernel = common::open(&net, other).expect("it worked before");
    assert_eq!(flow.ceiling(), UNLIMITED, "held for life");
}

#[test]
fn a_better_tier_leaves_no_ceiling_and_no_attachment_behind() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let Some((flow, _left)) = abandoned(&net, &options) else { return };
    assert!(names(&options).iter().any(|name| name.starts_with("cg-")));
    let mut kernel = common::open(&net, options.clone()).expect("it worked before");
    assert_eq!((flow.ceiling(), kernel.path().tier()), (UNLIMITED, Tier::StructOps));
    assert!(!names(&options).iter().any(|name| name.starts_with("cg-")), "{:?}", names(&options));
}

#[test]
fn reading_the_pinned_pass_gives_all_sockets_of_a_namespace_back() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let Some((flow, _left)) = abandoned(&net, &options) else { return };
    let drain = pins(&options).join("drain");
    // As an administrator may, with nothing but a shell; in another namespace there are none.
    assert!(net.in_b(|| fs::read(&drain)).expect("readable").is_empty());
    assert_ne!(flow.ceiling(), UNLIMITED);
    assert!(!net.in_a(|| fs::read(&drain)).expect("readable").is_empty());
    assert_eq!(flow.ceiling(), UNLIMITED);
    assert!(sluice_ebpf::cleanup::cleanup(&options).left.is_empty());
}

#[test]
fn a_registration_without_a_link_ends_with_its_version() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let old = Options { tiers: vec![Tier::StructOpsNoLink], ..options.clone() };
    let Some(mut left) = common::open(&net, old) else { return };
    drop(left.opened.take());
    fs::rename(pins(&options), options.pin_dir().join(format!("abi{}", ABI + 100))).expect("renamed");
    drop(common::open(&net, options.clone()).expect("it worked before"));
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("readable");
    let ours = options.names();
    assert!(!list.split_whitespace().any(|name| ours.iter().any(|own| own == name)), "still registered: {list}");
}

#[test]
fn a_socket_that_finds_its_row_taken_is_left_alone_for_a_while() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options.clone()) else { return };
    let flow = common::Flow::start(&net, common::port());
    // As if others took all rows between the look for one and its taking: the queue has a number that is no row.
    let map = MapData::from_pin(pins(&options).join("sluice_free")).expect("pinned");
    let mut free: Queue<_, u32> = Queue::try_from(Map::Queue(map)).expect("a queue");
    while free.pop(0).is_ok() {}
    for _ in 0..2 {
        free.push(u32::MAX, 0).expect("room");
    }
    let before = kernel.path().counters().table_full;
    assert_eq!(kernel.try_to_take(&net, common::wanted(&flow.stream, Rate::mbps(100))), Ok(()));
    let started = Instant::now();
    while flow.control().starts_with("sluice") {
        assert!(started.elapsed() < Duration::from_secs(5), "it stayed");
        std::thread::sleep(Duration::from_millis(1));
    }
    let again = kernel.try_to_take(&net, common::wanted(&flow.stream, Rate::mbps(100)));
    assert_eq!((again, kernel.path().counters().table_full), (Err(NotTaken::NotOurs), before + 1));
    assert!(flow.rate_over(Duration::from_millis(200)) > 50.0, "held back");
}

#[test]
fn a_ceiling_that_could_not_be_given_back_is_not_touched() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let options = Options { tiers: vec![Tier::SetSockOpt], ..options };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, common::port());
    // 40 Gbit/s are more than 32 bits of bytes a second, which is what the helper takes.
    flow.pace(&flow.control(), 40_000.0);
    let theirs = flow.ceiling();
    assert_eq!(theirs, 5_000_000_000);
    let taken = kernel.try_to_take(&net, common::wanted(&flow.stream, Rate::mbps(100)));
    assert_eq!((taken, flow.ceiling()), (Err(NotTaken::Refused(libc::EOPNOTSUPP)), theirs));
}

#[test]
fn a_pin_that_is_another_map_is_refused_by_its_name() {
    let Some(net) = common::net() else { return };
    let Some(options) = common::options() else { return };
    let Some(mut left) = common::open(&net, options.clone()) else { return };
    drop(left.opened.take());
    let pin = |name: &str| pins(&options).join(name);
    fs::remove_file(pin("sluice_stat")).expect("pinned");
    let other = MapData::from_pin(pin("sluice_ctl")).expect("pinned");
    other.pin(pin("sluice_stat")).expect("free");
    let refused = net.in_a(|| sluice_ebpf::Kernel::open(&options)).err().expect("must not be used").to_string();
    assert!(refused.contains("sluice_stat") && refused.contains("no map of ours"), "{refused}");
    assert!(sluice_ebpf::cleanup::cleanup(&options).left.is_empty());
    assert!(common::open(&net, options).is_some(), "after cleaning up it works");
}
