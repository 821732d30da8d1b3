//! Messages of every kind as builds of wire version 1.0 write them (`vectors/grpc-v1.0/`, one a file, in hexadecimal digits),
//! and what they mean. Today's reader takes all of them for what they were meant as, and today's writer writes the same
//! bytes: a change of either that is no new version is noticed here. The bytes were made by a writer of its own, from the
//! `.proto` and what stands at its head. Files of a version that was released once stay as they are.

use prost::Message;
use sluice_schedule::{
    Announcement, BootId, Bytes, Connection, Crowd, Feedback, FlowId, FlowPromise, HolderId, HostId, JobId, JobStatus,
    LinkId, LinkView, Nanos, PromiseSum, Rate, Refusal, Route, RouteQuestion, Slot,
};

use crate::hello::{self, ClockSource, Grid, Hello, HolderInfo, MAJOR, MINOR, Welcome};
use crate::{convert, pb};

const HOST: HostId = HostId::of("host3");
const OTHER: HostId = HostId::of("host9");
const LEAF: HolderId = HolderId::of("leaf0");
const SLOT: Slot = Slot(1_234_567_890);
/// When the round began.
const T0: u64 = 1_795_253_293_000_000_000;

/// The bytes of a file.
macro_rules! golden {
    ($name:literal) => {
        bytes(include_str!(concat!("../vectors/grpc-v1.0/", $name, ".hex")))
    };
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|two| u8::try_from(two[0] * 16 + two[1]).expect("two digits")).collect()
}

/// As it was said then: shared with no other test, whose greeting may change.
fn hello() -> Hello {
    let grid = Grid {
        cluster: "default".into(),
        slot_length: Nanos::from_millis(60),
        horizon: 10,
        epoch: Nanos::ZERO,
        clock: ClockSource::Realtime,
    };
    Hello { grid, name: "host3".into(), host: HOST, boot: BootId(7), slot: SLOT, now: Nanos(T0 + 123_456_789) }
}

fn flow(sender: HostId, number: u64) -> FlowId {
    FlowId(u64::from(sender.0) << 32 | number)
}

fn rates(mbps: &[u64]) -> Vec<Rate> {
    mbps.iter().map(|mbps| Rate(mbps * 1_000_000)).collect()
}

fn relayed() -> JobStatus {
    JobStatus {
        job: JobId::of("job-7"),
        origin: OTHER,
        boot: BootId(12),
        seq: 99,
        round: 2,
        t0: Nanos(T0 - 1),
        key: Nanos::ZERO,
        round_time: Nanos::ZERO,
        period: Nanos::ZERO,
        offer: Rate::MAX,
        promoted: true,
    }
}

fn announcement() -> Announcement {
    let of_round = FlowPromise {
        job: JobId::of("job-7"),
        key: Nanos(231_456_789),
        t0: Nanos(T0),
        demand: Bytes(574_668_960),
        ..FlowPromise::default()
    };
    let flows = vec![
        FlowPromise {
            flow: flow(HOST, 1),
            takes: Rate(3_121_000_000),
            until: Nanos(T0 + 200_000_000),
            rates: rates(&[3_121, 2_000, 0, 0]),
            delivered: Bytes(123_456_789),
            links: vec![LinkId::new(LEAF.0, 3), LinkId::new(LEAF.0, 4)],
            ..of_round.clone()
        },
        FlowPromise {
            flow: flow(HOST, 2),
            takes: Rate(1_000_000_000),
            rates: rates(&[1_000; 4]),
            delivered: Bytes(574_668_000),
            links: vec![LinkId::new(9, 1)],
            ..of_round
        },
        FlowPromise {
            flow: flow(HOST, 3),
            job: JobId::of("job-8"),
            promoted: true,
            t0: Nanos(T0 + 5),
            ..FlowPromise::default()
        },
    ];
    let own = JobStatus {
        origin: HOST,
        boot: BootId(7),
        seq: 12,
        round: 3,
        t0: Nanos(T0),
        key: Nanos(231_456_789),
        round_time: Nanos(800_000_000),
        period: Nanos(1_200_000_000),
        offer: Rate(40_000_000),
        promoted: false,
        ..relayed()
    };
    let question = |number, source: &str, destination: &str, protocol| RouteQuestion {
        flow: flow(HOST, number),
        connection: Connection {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            protocol,
        },
    };
    Announcement {
        host: HOST,
        boot: BootId(7),
        seq: 70_000,
        slot: SLOT,
        flows,
        jobs: vec![own, relayed()],
        watch: vec![LinkId::new(LEAF.0, 3), LinkId::new(9, 1)],
        measured: vec![(LinkId::new(LEAF.0, 3), Rate(12_000_000))],
        routes: vec![
            question(1, "10.0.0.1:40000", "10.0.0.2:5000", 6),
            question(2, "[fd00::1]:40001", "[fd00::2]:5001", 17),
        ],
    }
}

/// The end of all promises.
fn nothing() -> Announcement {
    Announcement { host: HOST, boot: BootId(7), seq: 70_001, slot: SLOT.offset(1), ..Announcement::default() }
}

fn feedback() -> Feedback {
    let first = FlowPromise {
        flow: flow(OTHER, 1),
        job: JobId::of("job-7"),
        key: Nanos(5_000_000),
        t0: Nanos(T0),
        takes: Rate(900_000_000),
        until: Nanos(T0 + 7_000_000),
        rates: rates(&[900, 900, 450, 450]),
        demand: Bytes(1_000_000),
        delivered: Bytes(1),
        ..FlowPromise::default()
    };
    let second = FlowPromise {
        flow: flow(OTHER, 2),
        job: JobId::of("job-8"),
        promoted: true,
        key: Nanos(T0 - 9),
        t0: Nanos(T0 - 9),
        takes: Rate(500_000_000),
        rates: rates(&[500]),
        demand: Bytes(2_000_000),
        delivered: Bytes(1_999_999),
        ..FlowPromise::default()
    };
    let sum = FlowPromise {
        job: JobId::of("job-7"),
        key: Nanos(6_000_000),
        t0: Nanos(T0),
        takes: Rate(4_000_000_000),
        rates: rates(&[4_000, 3_000, 3_000, 3_000]),
        demand: Bytes(80_000_000),
        delivered: Bytes(70_000_000),
        ..FlowPromise::default()
    };
    let near = LinkView {
        link: LinkId::new(LEAF.0, 3),
        capacity: Rate(25_000_000_000),
        cross: Rate(100_000_000),
        load: rates(&[1_400, 1_400, 950, 950]),
        flows: vec![first, second.clone()],
        rest: vec![PromiseSum { flows: 9, of_job: true, sum }],
    };
    let far = LinkView {
        link: LinkId::new(9, 1),
        capacity: Rate(10_000_000_000),
        cross: Rate::ZERO,
        load: rates(&[500, 0, 0, 0]),
        flows: vec![second],
        rest: Vec::new(),
    };
    Feedback {
        boot: BootId(8),
        seq: 70_000,
        slot: SLOT,
        warm: true,
        refused: None,
        links: vec![near, far],
        jobs: vec![relayed()],
        crowds: vec![Crowd { job: JobId::of("job-7"), hosts: 600 }],
        routes: vec![Route { flow: flow(HOST, 1), link: LinkId::new(LEAF.0, 4) }],
    }
}

fn read_announcements(wire: Vec<pb::Announcement>) -> Vec<(HolderId, Announcement)> {
    wire.into_iter().map(|wire| convert::announcement(wire).expect("as it was written")).collect()
}

fn read_feedback(wire: Vec<pb::Feedback>) -> Vec<(HolderId, Feedback)> {
    wire.into_iter().map(|wire| convert::feedback(wire).expect("as it was written")).collect()
}

/// Promises: P-23
#[test]
fn what_hosts_of_version_1_0_say_means_what_it_meant() {
    let tai = Grid { clock: ClockSource::Tai, epoch: Nanos(37_000_000_000), ..hello().grid };
    let tai = Hello { grid: tai, ..hello() };
    for (file, said, promised) in [
        (golden!("host-first"), Some(hello()), None),
        (golden!("host-announces"), None, Some(announcement())),
        (golden!("host-calls"), Some(tai), Some(nothing())),
    ] {
        let wire = pb::HostMessage::decode(file.as_slice()).expect("a message");
        assert_eq!(wire.hello.clone().map(|hello| hello::read(Some(hello)).expect("a hello")), said);
        let promised: Vec<_> = promised.into_iter().map(|promised| (LEAF, promised)).collect();
        assert_eq!(read_announcements(wire.announcements), promised);
        let announcements = promised.iter().map(|(holder, said)| convert::from_announcement(*holder, said)).collect();
        let again = pb::HostMessage { hello: said.as_ref().map(pb::Hello::from), announcements };
        assert_eq!(again.encode_to_vec(), file);
    }
    let file = golden!("host-fetches");
    let wire = pb::FetchRequest::decode(file.as_slice()).expect("a message");
    assert_eq!(hello::read(wire.hello.clone()).expect("a hello"), hello());
    assert_eq!(wire.holders, [LEAF.0, HolderId::of("leaf1").0]);
    assert_eq!(wire.encode_to_vec(), file);
}

/// Promises: P-23
#[test]
fn what_switches_of_version_1_0_say_means_what_it_meant() {
    let file = golden!("switch-first");
    let wire = pb::HolderMessage::decode(file.as_slice()).expect("a message");
    let holder = |name: &str, boot, warm| HolderInfo { id: HolderId::of(name), name: name.into(), boot, warm };
    let itself = Hello { name: "leaf0".into(), host: HostId(LEAF.0), boot: BootId(8), ..hello() };
    let holders = vec![holder("leaf0", BootId(8), true), holder("leaf1", BootId(9), false)];
    let welcome = Welcome { hello: itself, holders };
    assert_eq!(hello::read_welcome(wire.welcome).expect("a welcome"), welcome);
    let again = pb::HolderMessage { welcome: Some((&welcome).into()), feedback: Vec::new() };
    assert_eq!(again.encode_to_vec(), file);

    let refusals = [
        Refusal::SlotGuard,
        Refusal::Old,
        Refusal::Quota,
        Refusal::UnknownLink,
        Refusal::ForeignFlow,
        Refusal::LinkNotYours,
        Refusal::UnknownHost,
    ];
    let refused = refusals.map(|refusal| Feedback {
        boot: BootId(8),
        seq: 69_999,
        slot: SLOT,
        refused: Some(refusal),
        ..Feedback::default()
    });
    for (file, said) in [(golden!("switch-answers"), vec![feedback()]), (golden!("switch-refuses"), refused.into())] {
        let wire = pb::HolderMessage::decode(file.as_slice()).expect("a message");
        assert_eq!(wire.welcome, None);
        let said: Vec<(HolderId, Feedback)> = said.into_iter().map(|said| (LEAF, said)).collect();
        assert_eq!(read_feedback(wire.feedback), said);
        let feedback = said.iter().map(|(holder, said)| convert::from_feedback(*holder, said)).collect();
        assert_eq!(pb::HolderMessage { welcome: None, feedback }.encode_to_vec(), file);
    }
}

/// Promises: P-23
#[test]
fn what_hosts_of_version_1_0_say_to_each_other_means_what_it_meant() {
    let file = golden!("peer-first");
    let wire = pb::PeerMessage::decode(file.as_slice()).expect("a message");
    assert_eq!(hello::read(wire.hello.clone()).expect("a hello"), hello());
    assert_eq!(wire.encode_to_vec(), file);
    let file = golden!("peer-speaks");
    let wire = pb::PeerMessage::decode(file.as_slice()).expect("a message");
    let table = HOST.holder();
    assert_eq!(wire.hello, None);
    assert_eq!(read_announcements(wire.announcements), [(table, nothing())]);
    assert_eq!(read_feedback(wire.feedback), [(table, feedback())]);
    let again = pb::PeerMessage {
        hello: None,
        announcements: vec![convert::from_announcement(table, &nothing())],
        feedback: vec![convert::from_feedback(table, &feedback())],
    };
    assert_eq!(again.encode_to_vec(), file);
}

/// Promises: P-23
#[test]
fn what_a_later_minor_version_adds_is_passed_over() {
    let file = golden!("later-minor");
    let wire = pb::HostMessage::decode(file.as_slice()).expect("a message");
    assert_eq!(wire.hello.as_ref().map(|hello| (hello.major, hello.minor)), Some((1, 3)));
    assert_eq!(hello::read(wire.hello).expect("a hello"), hello());
    assert_eq!(read_announcements(wire.announcements), [(LEAF, announcement())]);
}

#[test]
fn this_version_has_its_files() {
    assert_eq!(
        (MAJOR, MINOR),
        (1, 0),
        "another version has files of its own, in vectors/grpc-vMAJOR.MINOR, beside these"
    );
}
