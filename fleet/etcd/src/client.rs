//! Reading all keys below a prefix, and writing some under conditions.

use tonic::transport::Channel;

use crate::pb::etcdserverpb as pb;
use crate::pb::etcdserverpb::compare::TargetUnion;
use crate::pb::etcdserverpb::kv_client::KvClient;
use crate::pb::etcdserverpb::request_op::Request;
use crate::{Endpoint, Error, MAX_ANSWER, TIME, Tls, Watch, after, failed, number};

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name; one that is no UTF-8 has U+FFFD where it is not.
    pub name: String,
    /// Its value; `None`: it was deleted.
    pub value: Option<Vec<u8>>,
    /// When it was last written.
    pub revision: u64,
}

/// All keys below a prefix at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which etcd this is.
    pub etcd: u64,
    /// The moment.
    pub revision: u64,
    /// The keys, by name.
    pub keys: Vec<Key>,
    /// There are more than were asked for.
    pub more: bool,
}

/// A key to write; no value deletes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The whole name.
    pub name: String,
    /// The value.
    pub value: Option<Vec<u8>>,
}

/// A key that nobody may have written since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchanged {
    /// The whole name.
    pub name: String,
    /// When it was last written, as it was read; 0: there was none.
    pub revision: u64,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it was written, at this revision.
    At(u64),
    /// None of it: somebody else wrote one of the keys.
    Overtaken,
}

/// A connection to a member of etcd that has a leader.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    endpoint: Endpoint,
}

impl Client {
    /// Connects to the first of the endpoints that answers, beginning with number `first` of them (round and round).
    ///
    /// # Errors
    /// No one does, and why each.
    pub async fn connect(endpoints: &[Endpoint], tls: Option<&Tls>, first: usize) -> Result<Client, Error> {
        let mut why = Vec::new();
        for at in 0..endpoints.len() {
            let Some(endpoint) = endpoints.get((first + at) % endpoints.len()) else { continue };
            match Client::to(endpoint, tls).await {
                Ok(client) => return Ok(client),
                Err(Error::Unreachable(text)) => why.push(text),
                Err(error @ Error::Tls(_)) => return Err(error),
                Err(error) => why.push(format!("{endpoint}: {error}")),
            }
        }
        if why.is_empty() {
            why.push("no endpoint is named".to_owned());
        }
        Err(Error::Unreachable(why.join("; ")))
    }

    async fn to(endpoint: &Endpoint, tls: Option<&Tls>) -> Result<Client, Error> {
        let channel = tokio::time::timeout(TIME, endpoint.connect(tls)).await.map_err(|_| Error::Late)??;
        let client = Client { channel, endpoint: endpoint.clone() };
        // A member without a leader answers no reading of the whole cluster's word.
        client.read_some("/", 1).await?;
        Ok(client)
    }

    /// The member that this is a connection to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// All keys below a prefix, at most `limit` of them.
    ///
    /// # Errors
    /// It did not answer, or refused.
    pub async fn read(&self, prefix: &str, limit: u32) -> Result<Reading, Error> {
        let request = pb::RangeRequest { key: prefix.into(), range_end: after(prefix), limit: i64::from(limit) };
        self.range(request).await
    }

    async fn read_some(&self, key: &str, limit: i64) -> Result<Reading, Error> {
        self.range(pb::RangeRequest { key: key.into(), range_end: Vec::new(), limit }).await
    }

    async fn range(&self, request: pb::RangeRequest) -> Result<Reading, Error> {
        let mut kv = KvClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER);
        let answer = tokio::time::timeout(TIME, kv.range(request)).await.map_err(|_| Error::Late)?;
        let answer = answer.map_err(|status| failed(&status))?.into_inner();
        reading(answer)
    }

    /// Writes all of these keys, if none of those was written since it was read.
    ///
    /// # Errors
    /// It did not answer, or refused. Whether it has written is not known where it did not answer.
    pub async fn write(&self, unchanged: &[Unchanged], puts: Vec<Put>) -> Result<Written, Error> {
        let compare = |key: &Unchanged| pb::Compare {
            result: pb::compare::CompareResult::Equal.into(),
            target: pb::compare::CompareTarget::Mod.into(),
            key: key.name.clone().into(),
            target_union: Some(TargetUnion::ModRevision(i64::try_from(key.revision).unwrap_or(i64::MAX))),
        };
        let op = |put: Put| {
            let request = match put.value {
                Some(value) => Request::RequestPut(pb::PutRequest { key: put.name.into(), value }),
                None => Request::RequestDeleteRange(pb::DeleteRangeRequest { key: put.name.into() }),
            };
            pb::RequestOp { request: Some(request) }
        };
        let request = pb::TxnRequest {
            compare: unchanged.iter().map(compare).collect(),
            success: puts.into_iter().map(op).collect(),
        };
        let mut kv = KvClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER);
        let answer = tokio::time::timeout(TIME, kv.txn(request)).await.map_err(|_| Error::Late)?;
        let answer = answer.map_err(|status| failed(&status))?.into_inner();
        let revision = answer.header.map_or(0, |header| number(header.revision));
        Ok(if answer.succeeded { Written::At(revision) } else { Written::Overtaken })
    }

    /// What changes below a prefix from a revision on.
    ///
    /// # Errors
    /// It did not answer, or refused.
    pub async fn watch(&self, prefix: &str, from: u64) -> Result<Watch, Error> {
        Watch::begin(self.channel.clone(), prefix, from).await
    }
}

/// What an answer to a question for keys says.
pub(crate) fn reading(answer: pb::RangeResponse) -> Result<Reading, Error> {
    let header = answer.header.ok_or_else(|| Error::Refused("an answer without a header".to_owned()))?;
    let key = |kv: crate::pb::mvccpb::KeyValue| Key {
        name: String::from_utf8_lossy(&kv.key).into_owned(),
        value: Some(kv.value),
        revision: number(kv.mod_revision),
    };
    Ok(Reading {
        etcd: header.cluster_id,
        revision: number(header.revision),
        keys: answer.kvs.into_iter().map(key).collect(),
        more: answer.more,
    })
}
