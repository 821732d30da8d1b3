//! What answers of etcd say, from any bytes: for `sluice-fuzz-targets` and nobody else.

use prost::Message as _;

use crate::client::{self, Key, Reading};
use crate::pb::etcdserverpb::{RangeResponse, ResponseHeader, WatchResponse};
use crate::pb::mvccpb::{Event, KeyValue};
use crate::watch::{self, News};

/// An answer to a question for keys; `None`: no message, or no answer.
pub fn reading(bytes: &[u8]) -> Option<Reading> {
    client::reading(RangeResponse::decode(bytes).ok()?).ok()
}

/// An answer to a watch; `None`: no message, or the watch has ended.
pub fn news(bytes: &[u8]) -> Option<News> {
    watch::news(WatchResponse::decode(bytes).ok()?).ok()
}

/// Answers with these keys: to a question, and to a watch.
pub fn answers(etcd: u64, revision: i64, keys: &[Key]) -> [Vec<u8>; 2] {
    let header = Some(ResponseHeader { cluster_id: etcd, revision });
    let kv = |key: &Key| KeyValue {
        key: key.name.clone().into(),
        value: key.value.clone().unwrap_or_default(),
        mod_revision: i64::try_from(key.revision).unwrap_or(i64::MAX),
    };
    let event = |key: &Key| Event { r#type: i32::from(key.value.is_none()), kv: Some(kv(key)) };
    let kvs = keys.iter().filter(|key| key.value.is_some()).map(kv).collect();
    let reading = RangeResponse { header, kvs, ..RangeResponse::default() };
    let news = WatchResponse { header, events: keys.iter().map(event).collect(), ..WatchResponse::default() };
    [reading.encode_to_vec(), news.encode_to_vec()]
}
