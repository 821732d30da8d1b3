//! Who is connected: per host the streams to tell it something, the newest first in line.

use std::collections::{BTreeMap, HashMap};

use prost::Message;
use sluice_schedule::{Feedback, HolderId, HostId, LinkView};
use sluice_wire::outbox::{Drain, Outbox, outbox};
use sluice_wire::refusal::RefusalId;
use sluice_wire::{convert, limits, pb};
use tonic::{Code, Status};

/// Streams of one host at a time; one more closes the oldest.
const PER_HOST: usize = 2;
/// Views in a message from which on its size is looked at before it is sent.
const MANY_VIEWS: usize = 64;

/// What is queued for a stream: the newest feedback per holder, or under `None` the end.
pub type Queue = Outbox<Option<HolderId>, News>;

/// The stream a host reads.
pub type Answers = Drain<Option<HolderId>, News, Result<pb::HolderMessage, Status>>;

/// One thing for a host to hear.
#[derive(Debug)]
pub enum News {
    Feedback(Feedback),
    /// The session ends, for this reason.
    End(Status),
}

/// A queue whose stream begins with `welcome`.
pub fn queue(welcome: pb::Welcome) -> (Queue, Answers) {
    let first = pb::HolderMessage { welcome: Some(welcome), feedback: Vec::new() };
    outbox(Some(Ok(first)), message)
}

fn message(pending: BTreeMap<Option<HolderId>, News>) -> Result<pb::HolderMessage, Status> {
    let mut all = Vec::with_capacity(pending.len());
    for (holder, news) in pending {
        match (holder, news) {
            (_, News::End(status)) => return Err(status),
            (Some(holder), News::Feedback(feedback)) => all.push((holder, feedback)),
            (None, News::Feedback(_)) => {}
        }
    }
    let written = |all: &[(HolderId, Feedback)]| pb::HolderMessage {
        welcome: None,
        feedback: all.iter().map(|(holder, feedback)| convert::from_feedback(*holder, feedback)).collect(),
    };
    let message = written(&all);
    // A host that watches very much gets sums in place of the single promises rather than a message it must refuse.
    let views: usize = all.iter().map(|(_, feedback)| feedback.links.len()).sum();
    if views <= MANY_VIEWS || !too_large(&message) {
        return Ok(message);
    }
    all.iter_mut().flat_map(|(_, feedback)| &mut feedback.links).for_each(LinkView::sum_list);
    Ok(written(&all))
}

fn too_large(message: &pb::HolderMessage) -> bool {
    let listed = |feedback: &pb::Feedback| feedback.rounds.iter().map(|round| round.promises.len()).sum::<usize>();
    message.feedback.iter().any(|feedback| listed(feedback) > limits::LISTED) || message.encoded_len() > limits::MESSAGE
}

#[derive(Debug, Default)]
pub struct Sessions {
    hosts: HashMap<HostId, Vec<(u64, Queue)>>,
    next: u64,
}

impl Sessions {
    /// Adds a stream of `host`; too many of one host close the oldest. Gives the stream's number.
    pub fn join(&mut self, host: HostId, queue: Queue) -> u64 {
        self.next += 1;
        let streams = self.hosts.entry(host).or_default();
        streams.push((self.next, queue));
        if streams.len() > PER_HOST {
            let (_, oldest) = streams.remove(0);
            let text = format!("host-over-quota: a host has {PER_HOST} sessions at most, the newest stay.");
            end(&oldest, RefusalId::HostOverQuota.status(Code::Aborted, text));
        }
        self.next
    }

    pub fn leave(&mut self, host: HostId, number: u64) {
        if let Some(streams) = self.hosts.get_mut(&host) {
            streams.retain(|(other, _)| *other != number);
            if streams.is_empty() {
                self.hosts.remove(&host);
            }
        }
    }

    /// Is there a stream of this host?
    pub fn has(&self, host: HostId) -> bool {
        self.hosts.contains_key(&host)
    }

    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Tells a host unasked, on its newest stream.
    pub fn push(&self, host: HostId, holder: HolderId, feedback: Feedback) {
        if let Some((_, queue)) = self.hosts.get(&host).and_then(|streams| streams.last()) {
            queue.put(Some(holder), News::Feedback(feedback));
        }
    }

    pub fn end_all(&mut self, status: &Status) {
        for (_, queue) in self.hosts.drain().flat_map(|(_, streams)| streams) {
            end(&queue, status.clone());
        }
    }
}

/// Ends one stream after this status.
pub fn end(queue: &Queue, status: Status) {
    queue.put(None, News::End(status));
    queue.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_stream_of_one_host_closes_the_first() {
        let mut sessions = Sessions::default();
        let (queues, _answers): (Vec<_>, Vec<_>) = (0..3).map(|_| queue(pb::Welcome::default())).unzip();
        let numbers: Vec<u64> = queues.iter().map(|queue| sessions.join(HostId(1), queue.clone())).collect();
        assert_eq!(queues.iter().map(Queue::is_closed).collect::<Vec<_>>(), [true, false, false]);
        numbers.iter().for_each(|number| sessions.leave(HostId(1), *number));
        assert_eq!(sessions.hosts(), 0);
    }

    #[test]
    fn a_message_too_large_has_sums_in_place_of_its_lists() {
        use sluice_schedule::{FlowId, FlowPromise, JobId, LinkId, Rate};
        let flows = |link: u64| {
            let (job, rates) = (JobId, vec![Rate(3)]);
            (0..64).map(move |n| FlowPromise {
                flow: FlowId(link << 40 | n),
                job: job(n),
                rates: rates.clone(),
                ..Default::default()
            })
        };
        let view = |link| LinkView {
            link: LinkId(link),
            load: vec![Rate(5); 10],
            flows: flows(link).collect(),
            ..Default::default()
        };
        let feedback = Feedback { links: (0..300).map(view).collect(), ..Default::default() };
        let message = message(BTreeMap::from([(Some(HolderId(1)), News::Feedback(feedback))])).unwrap();
        assert!(message.encoded_len() < limits::MESSAGE);
        assert_eq!(message.feedback[0].links.len(), 300);
        assert!(message.feedback[0].rounds.is_empty());
        let read = convert::feedback(message.feedback[0].clone()).expect("is legal").1;
        let rest = |view: &LinkView| view.rest.iter().map(|rest| (rest.flows, rest.sum.rate(0))).collect::<Vec<_>>();
        assert!(read.links.iter().all(|view| view.flows.is_empty() && rest(view) == [(64, Rate(192))]));
    }
}
