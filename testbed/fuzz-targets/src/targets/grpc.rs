//! F1: what hosts and switches say to each other over gRPC.

use prost::Message;
use sluice_schedule::{
    Announcement, BootId, Bytes, Crowd, Feedback, FlowId, FlowPromise, HolderId, HostId, JobId, JobStatus, LinkId,
    LinkView, Nanos, PromiseSum, Rate, Route, Slot,
};
use sluice_wire::hello::{self, ClockSource, Grid, Hello};
use sluice_wire::{convert, limits, pb};

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses the message, then the message.
pub static GRPC: Target = Target {
    name: "F01-grpc",
    parser: "gRPC messages of hosts, switches and peers: hello, announcement, feedback",
    property: "what is accepted is within every limit, and the same after it was written and read again; a refusal has no control character",
    shape: Shape::Protobuf(1),
    run: grpc,
    seeds,
};

fn grpc(bytes: &[u8]) {
    let Some((choice, message)) = bytes.split_first() else { return };
    match choice % 3 {
        0 => {
            let Ok(message) = pb::HostMessage::decode(message) else { return };
            hello(message.hello);
            message.announcements.into_iter().for_each(announcement);
        }
        1 => {
            let Ok(message) = pb::HolderMessage::decode(message) else { return };
            hello(message.welcome.and_then(|welcome| welcome.hello));
            message.feedback.into_iter().for_each(feedback);
        }
        _ => {
            let Ok(message) = pb::PeerMessage::decode(message) else { return };
            hello(message.hello);
            message.announcements.into_iter().for_each(announcement);
            message.feedback.into_iter().for_each(feedback);
        }
    }
}

fn grid() -> Grid {
    Grid {
        cluster: "default".into(),
        slot_length: Nanos::from_millis(60),
        horizon: 10,
        epoch: Nanos::ZERO,
        clock: ClockSource::Realtime,
    }
}

fn hello(wire: Option<pb::Hello>) {
    match hello::read(wire) {
        Ok(read) => {
            assert!((1..=253).contains(&read.name.len()) && (1..=253).contains(&read.grid.cluster.len()));
            let again = hello::read(Some((&read).into()));
            assert_eq!(again.expect("what was read is written as it may be"), read);
            if let Err(mismatch) = read.check(&grid(), Slot(9)) {
                printable(&mismatch.to_string());
            }
        }
        Err(status) => printable(status.message()),
    }
}

fn printable(text: &str) {
    assert!(!text.chars().any(char::is_control) && text.len() < 1000, "{text:?}");
}

fn promise(promise: &FlowPromise) {
    assert!(promise.rates.len() <= limits::HORIZON && promise.links.len() <= limits::LINKS_PER_FLOW);
}

fn announcement(wire: pb::Announcement) {
    let Ok((holder, read)) = convert::announcement(wire) else { return };
    assert!(read.flows.len() <= limits::FLOWS && read.watch.len() <= limits::WATCH);
    read.flows.iter().for_each(promise);
    let bytes = convert::from_announcement(holder, &read).encode_to_vec();
    let again = pb::Announcement::decode(bytes.as_slice()).expect("a message of ours");
    assert_eq!(convert::announcement(again).expect("as it was accepted"), (holder, read));
}

fn feedback(wire: pb::Feedback) {
    let Ok((holder, read)) = convert::feedback(wire) else { return };
    assert!(read.links.len() <= limits::WATCH && read.crowds.len() <= limits::JOBS);
    for view in &read.links {
        assert!(view.load.len() <= limits::HORIZON && view.flows.len() <= LinkView::MAX_FLOWS);
        view.flows.iter().chain(view.rest.iter().map(|rest| &rest.sum)).for_each(promise);
    }
    // One promise that is said in two ways is listed anew at every turn, and may not fit any more; no holder says so.
    if read.links.iter().map(|view| view.flows.len()).sum::<usize>() > limits::LISTED {
        return;
    }
    let bytes = convert::from_feedback(holder, &read).encode_to_vec();
    let again = pb::Feedback::decode(bytes.as_slice()).expect("a message of ours");
    assert_eq!(convert::feedback(again).expect("as it was accepted"), (holder, read));
}

/// A promise as a host makes it.
pub(crate) fn a_promise(host: HostId, number: u64) -> FlowPromise {
    FlowPromise {
        flow: FlowId(u64::from(host.0) << 32 | number),
        job: JobId::of("job-7"),
        promoted: number % 2 == 1,
        key: Nanos(231_456_789),
        t0: Nanos(1_795_253_293_123_456_789),
        takes: Rate::mbps(3_121),
        until: Nanos(1_795_253_293_323_456_789 + number),
        rates: vec![Rate::mbps(3_121), Rate::mbps(2_000), Rate::ZERO, Rate::ZERO],
        demand: Bytes(574_668_960),
        delivered: Bytes(123_456_789),
        links: vec![LinkId::new(3, 1), LinkId::new(3, 4)],
    }
}

fn seeds() -> Vec<Seed> {
    let (host, holder) = (HostId::of("host3"), HolderId::of("leaf0"));
    let hello = Hello { grid: grid(), name: "host3".into(), host, boot: BootId(7), slot: Slot(9), now: Nanos(5) };
    let status = JobStatus {
        job: JobId::of("job-7"),
        origin: host,
        boot: BootId(7),
        seq: 12,
        round: 3,
        t0: Nanos(1_795_253_293_000_000_000),
        key: Nanos(9),
        round_time: Nanos(800_000_000),
        period: Nanos(1_200_000_000),
        offer: Rate::mbps(40),
        promoted: true,
    };
    let announcement = Announcement {
        host,
        boot: BootId(7),
        seq: 70_000,
        slot: Slot(1_234_567_890),
        flows: (0..4).map(|number| a_promise(host, number)).collect(),
        jobs: vec![status.clone()],
        watch: (3..7).map(|port| LinkId::new(holder.0, port)).collect(),
        measured: vec![(LinkId::new(holder.0, 3), Rate::mbps(12))],
        routes: Vec::new(),
    };
    let sum = PromiseSum {
        flows: 9,
        of_job: true,
        sum: FlowPromise { flow: FlowId::default(), until: Nanos::ZERO, links: Vec::new(), ..a_promise(host, 1) },
    };
    let view = |port| LinkView {
        link: LinkId::new(holder.0, port),
        capacity: Rate::mbps(25_000),
        cross: Rate::mbps(100),
        load: (0..10).map(|n| Rate(9_000_000_123 + n / 5)).collect(),
        flows: (0..3).map(|number| a_promise(host, number)).collect(),
        rest: vec![sum.clone()],
    };
    let feedback = Feedback {
        boot: BootId(8),
        seq: 4,
        slot: Slot(1_234_567_890),
        warm: true,
        refused: None,
        links: vec![view(3), view(4)],
        jobs: vec![status],
        crowds: vec![Crowd { job: JobId::of("job-7"), hosts: 12 }],
        routes: vec![Route { flow: FlowId(9), link: LinkId::new(holder.0, 4) }],
    };
    let announcements = vec![convert::from_announcement(holder, &announcement)];
    let feedbacks = vec![convert::from_feedback(holder, &feedback)];
    let welcome = pb::Welcome {
        hello: Some((&hello).into()),
        holders: vec![pb::Holder { id: holder.0, name: "leaf0".into(), boot: 8, warm: true }],
    };
    let hello: pb::Hello = (&hello).into();
    let host = pb::HostMessage { hello: Some(hello.clone()), announcements: announcements.clone() };
    let switch = pb::HolderMessage { welcome: Some(welcome), feedback: feedbacks.clone() };
    let peer = pb::PeerMessage { hello: Some(hello.clone()), announcements, feedback: feedbacks };
    let first = pb::HostMessage { hello: Some(hello), announcements: Vec::new() };
    vec![
        Seed::of(0, "host", host.encode_to_vec()),
        Seed::of(0, "first", first.encode_to_vec()),
        Seed::of(1, "switch", switch.encode_to_vec()),
        Seed::of(2, "peer", peer.encode_to_vec()),
    ]
}
