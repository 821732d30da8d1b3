//! The gRPC service: one stream per host, and the paper's two calls.

use std::sync::Arc;

use sluice_identity::Reason;
use sluice_schedule::{HolderId, HostId};
use sluice_wire::accept::Peer;
use sluice_wire::accept::refused::Refusals;
use sluice_wire::pb::switch_server::{Switch, SwitchServer};
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::read_announcements;
use sluice_wire::snapshot::Label;
use sluice_wire::speakers::Source;
use sluice_wire::{convert, hello, limits, pb};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::metrics::Metrics;
use crate::quiet::Quiet;
use crate::sessions::{self, Answers, News, Queue};
use crate::tables::{Tables, Transport};

/// The service; clones share the tables.
#[derive(Clone)]
pub struct Service {
    tables: Arc<Tables>,
    metrics: Arc<Metrics>,
    refusals: Refusals,
    quiet: Arc<Quiet>,
}

impl Service {
    /// A service on these tables.
    pub fn new(tables: Arc<Tables>, metrics: Arc<Metrics>, refusals: Refusals) -> Service {
        Service { tables, metrics, refusals, quiet: Arc::default() }
    }

    /// The service with its limits, for a [`tonic`] server.
    pub fn into_server(self) -> SwitchServer<Service> {
        SwitchServer::new(self).max_decoding_message_size(limits::MESSAGE)
    }

    fn greet(&self, wire: Option<pb::Hello>, peer: &Peer) -> Result<(hello::Hello, pb::Welcome), Status> {
        let greeted = hello::read(wire).and_then(|hello| Ok((self.tables.greet(&hello, peer)?, hello)));
        match greeted {
            Ok((welcome, hello)) => Ok((hello, (&welcome).into())),
            Err(status) if status.code() == Code::PermissionDenied => {
                self.refusals.add(
                    Reason::Other,
                    &peer.ip(),
                    "identity-not-host: somebody speaks in the name of another host",
                );
                Err(status)
            }
            Err(status) => {
                self.quiet.say("hello-refused", || {
                    tracing::warn!(
                        event = "hello-refused",
                        reason = status.message(),
                        cost = "it schedules its flows without this switch's tables",
                        next = "make its configuration agree with the reason; log.level = \"debug\" there says more",
                        "a host was refused; it gets no feedback from here"
                    );
                });
                Err(status)
            }
        }
    }

    fn answer(
        &self,
        (host, from): (HostId, Source),
        transport: Transport,
        wire: Vec<pb::Announcement>,
    ) -> Result<Vec<(HolderId, sluice_schedule::Feedback)>, Status> {
        let mut answers = Vec::with_capacity(wire.len());
        for (holder, announcement) in read_announcements(wire)? {
            if announcement.host != host {
                let text = format!(
                    "identity-not-host: host {host} announces for host {}; each host speaks for itself.",
                    announcement.host
                );
                return Err(RefusalId::IdentityNotHost.status(Code::PermissionDenied, text));
            }
            let taken = self.tables.announce((from, transport), holder, &announcement);
            answers.extend(taken.answer.map(|feedback| (holder, feedback)));
        }
        Ok(answers)
    }

    async fn listen(
        self,
        (host, from): (HostId, Source),
        number: u64,
        mut stream: Streaming<pb::HostMessage>,
        queue: Queue,
    ) {
        loop {
            let outcome = match stream.message().await {
                Ok(Some(message)) => self.exchange((host, from), message, &queue),
                Ok(None) => break,
                Err(status) => Err(status),
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => break,
                Err(status) => {
                    tracing::debug!(event = "session-ended", host = %host, reason = status.message());
                    sessions::end(&queue, status);
                    break;
                }
            }
        }
        queue.close();
        self.tables.leave(host, number);
    }

    /// Answers one message on the stream it came by. False: nobody reads the answers any more.
    fn exchange(&self, speaker: (HostId, Source), message: pb::HostMessage, queue: &Queue) -> Result<bool, Status> {
        let began = std::time::Instant::now();
        for (holder, feedback) in self.answer(speaker, Transport::Session, message.announcements)? {
            if !queue.put(Some(holder), News::Feedback(feedback)) {
                return Ok(false);
            }
        }
        self.metrics.exchanged(began.elapsed());
        Ok(!queue.is_closed())
    }
}

#[tonic::async_trait]
impl Switch for Service {
    async fn fetch_feedback(&self, request: Request<pb::FetchRequest>) -> Result<Response<pb::HolderMessage>, Status> {
        let peer = Peer::of(request.extensions());
        let request = request.into_inner();
        let (hello, welcome) = self.greet(request.hello, &peer)?;
        if request.holders.len() > limits::HOLDERS {
            let text = format!(
                "message-malformed: holders has {} entries; allowed 0 to {}.",
                request.holders.len(),
                limits::HOLDERS
            );
            return Err(RefusalId::MessageMalformed.status(Code::InvalidArgument, text));
        }
        let holders: Vec<HolderId> = request.holders.into_iter().map(HolderId).collect();
        let feedback = self.tables.fetch(hello.host, &holders);
        let feedback = feedback.iter().map(|(holder, f)| convert::from_feedback(*holder, f)).collect();
        Ok(Response::new(pb::HolderMessage { welcome: Some(welcome), feedback }))
    }

    async fn update_schedule(&self, request: Request<pb::HostMessage>) -> Result<Response<pb::HolderMessage>, Status> {
        let began = std::time::Instant::now();
        let peer = Peer::of(request.extensions());
        let request = request.into_inner();
        let (hello, welcome) = self.greet(request.hello, &peer)?;
        let from = Source::of(&peer);
        let feedback = self.answer((hello.host, from), Transport::Unary, request.announcements)?;
        let feedback = feedback.iter().map(|(holder, f)| convert::from_feedback(*holder, f)).collect();
        self.metrics.exchanged(began.elapsed());
        Ok(Response::new(pb::HolderMessage { welcome: Some(welcome), feedback }))
    }

    type SessionStream = Answers;

    async fn session(&self, request: Request<Streaming<pb::HostMessage>>) -> Result<Response<Answers>, Status> {
        let peer = Peer::of(request.extensions());
        let from = Source::of(&peer);
        let mut stream = request.into_inner();
        let first = tokio::time::timeout(limits::HANDSHAKE, stream.message()).await;
        let first = first.map_err(|_| hello::late())??;
        let first = first.unwrap_or_default();
        let (hello, welcome) = self.greet(first.hello.clone(), &peer)?;
        let (queue, answers) = sessions::queue(welcome);
        let number = self.tables.join(hello.host, queue.clone())?;
        tracing::debug!(event = "session-began", host = %hello.host, name = %Label::new(&hello.name));
        if let Err(status) = self.exchange((hello.host, from), first, &queue) {
            self.tables.leave(hello.host, number);
            return Err(status);
        }
        tokio::spawn(self.clone().listen((hello.host, from), number, stream, queue));
        Ok(Response::new(answers))
    }
}
