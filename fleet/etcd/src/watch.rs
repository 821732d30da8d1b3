//! What changes below a prefix, as etcd tells it.
//!
//! Silence says nothing: a connection may be dead, or a member cut off from the others. [`Watch::ask`] asks how far etcd
//! is, so that whoever watches can tell quiet from deaf. A member that has lost its leader ends the watch by itself.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::pb::etcdserverpb::watch_client::WatchClient;
use crate::pb::etcdserverpb::watch_request::RequestUnion;
use crate::pb::etcdserverpb::{WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use crate::pb::mvccpb::event::EventType;
use crate::{Error, Key, MAX_ANSWER, TIME, after, failed, number};

/// Questions that may wait to be sent.
const QUESTIONS: usize = 4;

/// Something that etcd told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Up to where it has told all.
    pub revision: u64,
    /// The keys that changed, in order; none: nothing did.
    pub keys: Vec<Key>,
}

/// A watch.
#[derive(Debug)]
pub struct Watch {
    questions: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

impl Watch {
    pub(crate) async fn begin(channel: Channel, prefix: &str, from: u64) -> Result<Watch, Error> {
        let create = WatchCreateRequest {
            key: prefix.into(),
            range_end: after(prefix),
            start_revision: i64::try_from(from).unwrap_or(i64::MAX),
            fragment: true,
        };
        let (questions, ask) = mpsc::channel(QUESTIONS);
        let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        questions.try_send(first).map_err(|error| Error::Broken(error.to_string()))?;
        let mut request = Request::new(ReceiverStream::new(ask));
        // etcd ends the watch when the member that answers loses its leader; it would be silent otherwise.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let mut client = WatchClient::new(channel).max_decoding_message_size(MAX_ANSWER);
        let answers = tokio::time::timeout(TIME, client.watch(request)).await.map_err(|_| Error::Late)?;
        let mut watch = Watch { questions, answers: answers.map_err(|status| failed(&status))?.into_inner() };
        let created = tokio::time::timeout(TIME, watch.answers.message()).await.map_err(|_| Error::Late)?;
        match created.map_err(|status| failed(&status))? {
            Some(answer) if answer.created && !answer.canceled => Ok(watch),
            Some(answer) => Err(ended(&answer)),
            None => Err(Error::Broken("the watch ended as it began".to_owned())),
        }
    }

    /// Asks how far etcd is; the answer is news without keys.
    pub fn ask(&self) {
        let request = WatchRequest { request_union: Some(RequestUnion::ProgressRequest(WatchProgressRequest {})) };
        // With questions waiting an answer is on its way already, or the connection is dead and that will be noticed.
        drop(self.questions.try_send(request));
    }

    /// The next news.
    ///
    /// # Errors
    /// The watch has ended.
    pub async fn next(&mut self) -> Result<News, Error> {
        let answer = self.answers.message().await.map_err(|status| failed(&status))?;
        let answer = answer.ok_or_else(|| Error::Broken("etcd ended the watch".to_owned()))?;
        news(answer)
    }
}

/// What an answer to a watch says.
pub(crate) fn news(answer: WatchResponse) -> Result<News, Error> {
    if answer.canceled {
        return Err(ended(&answer));
    }
    let revision = answer.header.as_ref().map_or(0, |header| number(header.revision));
    let keys = answer.events.into_iter().filter_map(|event| {
        let gone = event.r#type() == EventType::Delete;
        let kv = event.kv?;
        let name = String::from_utf8_lossy(&kv.key).into_owned();
        Some(Key { name, value: (!gone).then_some(kv.value), revision: number(kv.mod_revision) })
    });
    Ok(News { revision, keys: keys.collect() })
}

fn ended(answer: &WatchResponse) -> Error {
    match answer.compact_revision {
        0 => Error::Broken(format!("etcd ended the watch: {}", answer.cancel_reason)),
        compacted => Error::Compacted(number(compacted)),
    }
}
