//! F3, F25 and F26: what switches of others say, over P4Runtime, sFlow and gNMI.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use prost::Message;
use sluice_p4runtime::client::error::failures;
use sluice_p4runtime::client::program::Program;
use sluice_p4runtime::encode::{Key, entry, key, statement};
use sluice_p4runtime::ids::Ids;
use sluice_p4runtime::info::info;
use sluice_p4runtime::pb::google::rpc;
use sluice_p4runtime::pb::p4::config::v1::P4Info;
use sluice_p4runtime::pb::p4::v1::{self as p4, TableEntry};
use sluice_pipeline::control::statements;
use sluice_telemetry::gnmi::{self, NAME, readings};
use sluice_telemetry::pb;
use sluice_telemetry::sflow::{Datagram, Interface, Record, Sample, decode, encode};
use tonic::{Code, Status};

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses, then the message.
pub static P4RUNTIME: Target = Target {
    name: "F03-p4runtime",
    parser: "P4Runtime: table entries, a program's description, refusals of writes",
    property: "an entry that is taken is written so that it is taken the same; failures are of updates that there are",
    shape: Shape::Protobuf(1),
    run: p4runtime,
    seeds: p4runtime_seeds,
};

/// A datagram.
pub static SFLOW: Target = Target {
    name: "F25-sflow",
    parser: "sFlow version 5",
    property: "at most one reading for 72 bytes, all of one agent and moment, and none where nothing is counted",
    shape: Shape::Bytes,
    run: sflow,
    seeds: sflow_seeds,
};

/// A notification's answer.
pub static GNMI: Target = Target {
    name: "F26-gnmi",
    parser: "gNMI: answers to a subscription",
    property: "at most one reading for each update, with a name of 1 to 255 bytes and a time; a refusal is short and has no control character",
    shape: Shape::Protobuf(0),
    run: gnmi,
    seeds: gnmi_seeds,
};

thread_local! {
    static IDS: Ids = Ids::of(&info()).expect("the program's own description");
}

fn p4runtime(bytes: &[u8]) {
    let Some((choice, message)) = bytes.split_first() else { return };
    match choice % 4 {
        0 => IDS.with(|ids| taken(message, ids)),
        1 => {
            if let Ok(ids) = P4Info::decode(message).map_err(drop).and_then(|info| Ids::of(&info).map_err(drop)) {
                // The entries of any program that has our tables are ours by its numbers.
                written_by(&ids);
            }
        }
        2 => drop(Program::new(message.to_vec(), Vec::new())),
        _ => {
            let updates = message.len() % 5;
            let status = Status::with_details(Code::Unknown, "some", message.to_vec().into());
            let failed = failures(&status, updates).unwrap_or_default();
            assert!(failed.iter().all(|failure| failure.update < updates) && failed.len() <= updates, "{failed:?}");
            let _ = p4::StreamMessageResponse::decode(message);
        }
    }
}

fn taken(message: &[u8], ids: &Ids) {
    let Ok(given) = TableEntry::decode(message) else { return };
    match statement(&given, ids) {
        Ok(read) => {
            let again = entry(&read, ids).expect("what an entry says can be written");
            assert_eq!(statement(&again, ids), Ok(read));
            assert_eq!(key(&given, ids).ok(), Key::of(&read));
            let bytes = again.encode_to_vec();
            assert_eq!(TableEntry::decode(bytes.as_slice()).as_ref(), Ok(&again));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn written_by(ids: &Ids) {
    for (_, one) in statements(STATEMENTS) {
        let one = one.expect("a statement of ours");
        let written = entry(&one, ids).expect("an entry");
        assert_eq!(statement(&written, ids), Ok(one));
    }
}

fn sflow(bytes: &[u8]) {
    let Ok(found) = decode(bytes) else { return };
    assert!(found.len() <= bytes.len() / 72, "{} readings in {} bytes", found.len(), bytes.len());
    assert!(found.windows(2).all(|pair| (pair[0].agent, pair[0].uptime_ms) == (pair[1].agent, pair[1].uptime_ms)));
    if let Some(first) = found.first() {
        assert_eq!(first.agent, first.agent.to_canonical());
        assert!(found.iter().all(|reading| reading.out_octets != u64::MAX), "that says that nothing is counted");
    }
}

fn gnmi(bytes: &[u8]) {
    let Ok(answer) = pb::SubscribeResponse::decode(bytes) else { return };
    let Some(pb::subscribe_response::Response::Update(said)) = answer.response else { return };
    let updates = said.update.len();
    let mut count = 0;
    for reading in readings(&said) {
        count += 1;
        match reading {
            Ok(reading) => {
                assert!((1..=NAME).contains(&reading.interface.len()));
                assert_eq!(i64::try_from(reading.taken.0), Ok(said.timestamp));
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.len() < 2000 && !text.chars().any(char::is_control), "{text:?}");
            }
        }
    }
    assert!(count <= updates);
}

const STATEMENTS: &str = "\
route 10.0.0.0/8 via 1 02:00:00:00:01:01 02:00:00:00:00:01
route 10.1.0.0/16 group 7 size 3 seed 99
member 7 0 via 1 02:00:00:00:01:07 02:00:00:00:00:01
edge 4 10.0.0.1/32
link 1 capacity 500 unit 0 signature 0xabcdef01
guard 1000
";

fn p4runtime_seeds() -> Vec<Seed> {
    let ids = Ids::of(&info()).expect("the program's own description");
    let written = statements(STATEMENTS).enumerate();
    let mut seeds: Vec<Seed> = written
        .filter_map(|(at, (_, one))| Some(Seed::of(0, format!("entry-{at}"), entry(&one.ok()?, &ids)?.encode_to_vec())))
        .collect();
    let error = p4::Error { canonical_code: Code::NotFound as i32, message: "gone".into(), ..p4::Error::default() };
    let detail = rpc::Detail { type_url: "type.googleapis.com/p4.v1.Error".into(), value: error.encode_to_vec() };
    let status = rpc::Status { code: 2, message: "some".into(), details: vec![detail.clone(), detail] };
    seeds.push(Seed::of(1, "description", info().encode_to_vec()));
    seeds.push(Seed::of(2, "program", info().encode_to_vec()));
    seeds.push(Seed::of(3, "refusal", status.encode_to_vec()));
    seeds
}

fn sflow_seeds() -> Vec<Seed> {
    let interface =
        |index, out_octets| Record::Interface(Interface { index, speed: 25_000_000_000, in_octets: 7, out_octets });
    let counters = |expanded, records| Sample::Counters { expanded, sequence: 9, source: 3, records };
    let datagram = |agent: IpAddr, samples| Datagram { agent, sub_agent: 0, sequence: 77, uptime_ms: 60_000, samples };
    let several = vec![
        counters(false, vec![interface(3, 1 << 40), Record::Other { format: 2, body: vec![1; 52] }]),
        Sample::Other { format: 1, body: vec![9; 40] },
        counters(true, vec![interface(4, u64::MAX), interface(5, 12)]),
    ];
    let v4 = IpAddr::from(Ipv4Addr::new(10, 0, 0, 7));
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    vec![
        Seed::new("one", encode(&datagram(v4, vec![counters(false, vec![interface(3, 1000)])]))),
        Seed::new("several", encode(&datagram(v6, several))),
        Seed::new("none", encode(&datagram(v4, Vec::new()))),
    ]
}

fn gnmi_seeds() -> Vec<Seed> {
    use pb::typed_value::Value;
    let update = |interface: &str, value: Value| pb::Update {
        path: Some(gnmi::path(interface)),
        val: Some(pb::TypedValue { value: Some(value) }),
    };
    let said = pb::Notification {
        timestamp: 1_795_253_293_123_456_789,
        prefix: None,
        update: vec![
            update("eth1/1", Value::UintVal(9)),
            update("swp1", Value::JsonIetfVal(b"\"18446744073709551615\"".to_vec())),
            update("swp2", Value::StringVal("x".into())),
            update("", Value::IntVal(-1)),
        ],
    };
    let answer = |response| pb::SubscribeResponse { response: Some(response) }.encode_to_vec();
    vec![
        Seed::new("update", answer(pb::subscribe_response::Response::Update(said))),
        Seed::new("synced", answer(pb::subscribe_response::Response::SyncResponse(true))),
    ]
}
