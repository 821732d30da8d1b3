//! What is wrong is refused, and named: the field, its value, what is allowed.

use sluice_p4runtime::client::Session;
use sluice_p4runtime::client::error::{Failure, failures};
use sluice_p4runtime::mock::Settings;
use sluice_p4runtime::pb::p4::v1::p4_runtime_client::P4RuntimeClient;
use sluice_p4runtime::pb::p4::v1::{
    Entity, FieldMatch, GetForwardingPipelineConfigRequest, ReadRequest, SetForwardingPipelineConfigRequest,
    StreamMessageRequest, TableAction, TableEntry, Uint128, Update, WriteRequest, action, entity, field_match,
    table_action, update,
};
use sluice_p4runtime::{encode, limits};
use sluice_pipeline::control::Statement;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::support::{Bench, within};

/// A client that says what it likes.
struct Raw {
    client: P4RuntimeClient<Channel>,
    session: Session,
}

impl Raw {
    async fn start(bench: &Bench) -> Raw {
        let channel = Endpoint::from_shared(bench.uri()).unwrap().connect().await.unwrap();
        Raw { client: P4RuntimeClient::new(channel), session: bench.primary(7).await }
    }

    fn request(updates: Vec<Update>) -> WriteRequest {
        let election_id = Some(Uint128 { high: 0, low: 7 });
        WriteRequest { device_id: 1, election_id, updates, ..WriteRequest::default() }
    }

    async fn write(&mut self, request: WriteRequest) -> Result<(), Status> {
        self.client.write(request).await.map(|_| ())
    }

    /// Why this entry is refused.
    async fn insert(&mut self, entry: TableEntry) -> Failure {
        let entity = Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) });
        let insert = Update { r#type: update::Type::Insert as i32, entity };
        let status = self.write(Raw::request(vec![insert])).await.unwrap_err();
        failures(&status, 1).unwrap().remove(0)
    }

    /// The entry that this line writes.
    fn entry(&self, line: &str) -> TableEntry {
        encode::entry(&line.parse::<Statement>().unwrap(), self.session.ids()).unwrap()
    }
}

const LINK: &str = "link 1 capacity 500 unit 0 signature 0x00000007";

fn params(entry: &mut TableEntry) -> &mut Vec<action::Param> {
    let Some(TableAction { r#type: Some(table_action::Type::Action(action)) }) = &mut entry.action else {
        panic!("an action")
    };
    &mut action.params
}

#[tokio::test]
async fn malformed_entries_are_named() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let mut raw = Raw::start(&bench).await;
        let good = raw.entry(LINK);

        let mut wide = good.clone();
        params(&mut wide)[1].value = vec![1, 0];
        let mut wide_key = good.clone();
        wide_key.r#match[0].field_match_type =
            Some(field_match::FieldMatchType::Exact(field_match::Exact { value: vec![2, 0] }));
        let mut empty = good.clone();
        params(&mut empty)[0].value.clear();
        let mut short = good.clone();
        params(&mut short).pop();
        let unknown = TableEntry { table_id: 0x0200_00ff, ..good.clone() };
        let keyless = TableEntry { r#match: Vec::new(), ..good.clone() };
        let typeless = TableEntry { r#match: vec![FieldMatch { field_id: 1, field_match_type: None }], ..good.clone() };
        let actionless = TableEntry { action: None, ..good.clone() };
        let host_bits = {
            let mut entry = raw.entry("route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01");
            if let Some(field_match::FieldMatchType::Lpm(lpm)) = &mut entry.r#match[0].field_match_type {
                lpm.value = vec![10, 0, 1, 9];
            }
            entry
        };
        for (entry, text) in [
            (wide, "parameter `unit` of `SluiceEgress.link` is 0x0100; allowed is a number of 8 bits"),
            (wide_key, "the match of `standard.egress_port` is 0x0200; allowed is a number of 9 bits"),
            (
                empty,
                "parameter `capacity` of `SluiceEgress.link` is of no bytes; allowed is a number of 32 bits, one byte at ",
            ),
            (short, "parameter `signature` of `SluiceEgress.link` is missing; allowed is a number of 32 bits"),
            (unknown, "table_id is 0x020000ff; allowed are 0x02000001 (SluiceIngress.lpm)"),
            (keyless, "the match of `standard.egress_port` is missing; allowed is an exact match"),
            (typeless, "the match of `standard.egress_port` is missing; allowed is an exact match"),
            (actionless, "action is missing; allowed is 0x01000006 (SluiceEgress.link)"),
            (host_bits, "the match of `hdr.ipv4.destination` is 10.0.1.9/24; allowed is a prefix without host bits"),
        ] {
            let before = bench.mock.refusals();
            let failure = raw.insert(entry).await;
            assert_eq!(failure.code, Code::InvalidArgument, "{failure}");
            assert!(failure.text.starts_with(text), "{failure}");
            assert_eq!(bench.mock.refusals(), before + 1);
        }
        assert_eq!(bench.mock.entries(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_is_right_in_a_batch_is_done() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let mut raw = Raw::start(&bench).await;
        let entry = |entry: TableEntry| Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) });
        let insert = update::Type::Insert as i32;
        let good = Update { r#type: insert, entity: entry(raw.entry(LINK)) };
        let nothing = Update { r#type: insert, entity: None };
        let unspecified = Update { r#type: 9, ..good.clone() };
        let before = bench.mock.refusals();
        let status = raw.write(Raw::request(vec![nothing, good.clone(), good, unspecified])).await.unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let failed = failures(&status, 4).unwrap();
        let found: Vec<(usize, Code)> = failed.iter().map(|failure| (failure.update, failure.code)).collect();
        assert_eq!(found, [(0, Code::InvalidArgument), (2, Code::AlreadyExists), (3, Code::InvalidArgument)]);
        assert_eq!(failed[0].text, "entity is missing; allowed is a table_entry");
        assert_eq!(failed[2].text, "type is 9; allowed is INSERT, MODIFY or DELETE");
        assert_eq!((bench.mock.entries(), bench.mock.refusals() - before), (1, 3));
    })
    .await;
}

#[tokio::test]
async fn requests_are_bounded_and_of_the_primary_at_this_device() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let mut raw = Raw::start(&bench).await;
        let many = vec![Update::default(); limits::UPDATES + 1];
        let plain = || Raw::request(Vec::new());
        let before = bench.mock.refusals();
        for (request, code, text) in [
            (Raw::request(many), Code::InvalidArgument, "updates is 1025; allowed is 0 to 1024 updates"),
            (WriteRequest { device_id: 2, ..plain() }, Code::NotFound, "device_id is 2; allowed is 1"),
            (
                WriteRequest { election_id: None, ..plain() },
                Code::PermissionDenied,
                "election_id is missing; allowed is that of the primary",
            ),
            (
                WriteRequest { election_id: Some(Uint128 { high: 7, low: 0 }), ..plain() },
                Code::PermissionDenied,
                "election_id is 129127208515966861312; allowed is that of the primary",
            ),
            (
                WriteRequest { role: "backup".into(), ..plain() },
                Code::InvalidArgument,
                "role is there; allowed is none, for there is only the default role",
            ),
            (
                WriteRequest { atomicity: 2, ..plain() },
                Code::Unimplemented,
                "atomicity is DATAPLANE_ATOMIC; allowed is CONTINUE_ON_ERROR",
            ),
            (
                WriteRequest { atomicity: 9, ..plain() },
                Code::InvalidArgument,
                "atomicity is 9; allowed is CONTINUE_ON_ERROR",
            ),
        ] {
            let status = raw.write(request).await.unwrap_err();
            assert_eq!((status.code(), status.message()), (code, text));
        }
        assert_eq!(bench.mock.refusals() - before, 7);
        raw.write(plain()).await.unwrap();

        let entities = vec![Entity::default(); limits::ASKED + 1];
        let status = raw.client.read(ReadRequest { device_id: 1, entities, ..ReadRequest::default() }).await;
        assert_eq!(status.unwrap_err().message(), "entities is 65; allowed is 0 to 64 entities");
        let request = GetForwardingPipelineConfigRequest { device_id: 1, response_type: 9 };
        let status = raw.client.get_forwarding_pipeline_config(request).await.unwrap_err();
        assert_eq!(status.message(), "response_type is 9; allowed is 0 to 3");
        let request = SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(Uint128 { high: 0, low: 7 }),
            action: 1,
            ..SetForwardingPipelineConfigRequest::default()
        };
        let status = raw.client.set_forwarding_pipeline_config(request).await.unwrap_err();
        assert_eq!(status.message(), "config is missing; allowed is a program with its P4Info");
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_says_nothing_is_ended() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let mut raw = Raw::start(&bench).await;
        let messages = tokio_stream::iter([StreamMessageRequest { update: None }]);
        let mut answers = raw.client.stream_channel(messages).await.unwrap().into_inner();
        let status = answers.message().await.unwrap_err();
        assert_eq!(status.message(), "update is missing; allowed is arbitration or packet");
        let silent = tokio_stream::pending::<StreamMessageRequest>();
        let mut answers = raw.client.stream_channel(silent).await.unwrap().into_inner();
        let status = answers.message().await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    })
    .await;
}
