//! The `Peer` service of `nic` mode: other hosts announce what they will send here, and hear how full the links are that this one keeps.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use sluice_identity::Reason;
use sluice_schedule::HostId;
use sluice_wire::accept::{self, Gate, Peer as Whence, Places};
use sluice_wire::pb;
use sluice_wire::pb::peer_server::{Peer, PeerServer};
use sluice_wire::session::{PeerNews, PeerReceiver, PeerSender, peer_outbox};
use sluice_wire::speakers::{Source, Speaker};
use sluice_wire::{hello, limits};
use tokio::net::TcpListener;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::Identity;
use crate::clock::monotonic;
use crate::own_table::OwnTable;

/// Connections at a time: one of each host that sends here or over a link that this host keeps, as many as a table has room for.
pub(crate) const MAX_CONNECTIONS: usize = 4096;

/// The service over the own table.
#[derive(Clone)]
pub struct Service {
    table: Arc<Mutex<OwnTable>>,
    identity: Arc<Identity>,
}

impl Service {
    pub fn new(table: Arc<Mutex<OwnTable>>, identity: Arc<Identity>) -> Service {
        Service { table, identity }
    }

    /// Who is let in: whoever comes from `peers` (none listed: from anywhere), and proves who it is where this host does.
    pub fn gate(&self, peers: Vec<IpNet>) -> Gate {
        let (credentials, refusals) = (self.identity.credentials.clone(), self.identity.refusals.clone());
        Gate { credentials, refusals, ..Gate::plain(peers, Places::new(MAX_CONNECTIONS)) }
    }

    /// Answers connections that the gate lets in on this listener until the task is dropped.
    ///
    /// # Errors
    /// The transport's, when the server fails for good.
    pub async fn serve(self, listener: TcpListener, gate: Gate) -> Result<(), tonic::transport::Error> {
        let peer = PeerServer::new(self).max_decoding_message_size(limits::MESSAGE);
        let (ready, incoming) = tokio::sync::mpsc::channel(64);
        let accept = accept::serve(listener, gate, ready);
        let server = limits::server().add_service(peer);
        tokio::select! {
            result = server.serve_with_incoming(ReceiverStream::new(incoming)) => result,
            () = accept => Ok(()),
        }
    }

    fn table(&self) -> MutexGuard<'_, OwnTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it the host that it says it is: by its certificate, or else as far as its address and whose the name is tell?
    fn may_speak(&self, whence: &Whence, theirs: &hello::Hello) -> Result<Speaker, Status> {
        whence.speaks_for(&self.identity.grid.cluster, &theirs.name)?;
        let speaker = Speaker { source: Source::of(whence), host: theirs.host };
        self.table().greet(monotonic(), &theirs.name, speaker)?;
        Ok(speaker)
    }

    async fn listen(self, (speaker, number): (Speaker, u64), mut receiver: PeerReceiver, sender: PeerSender) {
        loop {
            match receiver.next().await {
                Ok(Some(news)) => self.take(speaker, news, &sender),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(event = "peer-left", "{error}");
                    break;
                }
            }
        }
        self.table().left(speaker.host, number);
        sender.close();
    }

    fn take(&self, speaker: Speaker, news: PeerNews, sender: &PeerSender) {
        let own = HostId::of(&self.identity.name).holder();
        for (holder, announcement) in news.announcements {
            // A host speaks for itself only, and only of the table that is here.
            if holder != own || announcement.host != speaker.host {
                continue;
            }
            let slot = self.identity.slot(self.identity.wall.now());
            if let Some(feedback) = self.table().announce(slot, monotonic(), speaker.source, &announcement) {
                sender.feedback(own, feedback);
            }
        }
    }
}

type Messages = Pin<Box<dyn Stream<Item = Result<pb::PeerMessage, Status>> + Send>>;

#[tonic::async_trait]
impl Peer for Service {
    type SessionStream = Messages;

    async fn session(&self, request: Request<Streaming<pb::PeerMessage>>) -> Result<Response<Messages>, Status> {
        let whence = Whence::of(request.extensions());
        let from = whence.address.map_or_else(|| "a peer".to_owned(), |address| address.to_string());
        let mut receiver = PeerReceiver::new(from, request.into_inner());
        let theirs: hello::Hello = receiver.hello().await?;
        let slot = self.identity.slot(self.identity.wall.now());
        theirs.check(&self.identity.grid, slot)?;
        let speaker = self.may_speak(&whence, &theirs).inspect_err(|_| {
            let why = "identity-not-host: somebody speaks in the name of another host";
            self.identity.refusals.add(Reason::Other, &whence.ip(), why);
        })?;
        let (sender, drain) = peer_outbox(&self.identity.hello());
        let number = self.table().joined(speaker, sender.clone());
        tokio::spawn(self.clone().listen((speaker, number), receiver, sender));
        Ok(Response::new(Box::pin(drain.map(Ok))))
    }
}
