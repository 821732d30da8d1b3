//! By calls and by datagrams over loopback: the client task, and a process with one table, which can be deaf, die and come
//! back.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluice_schedule::{Connection as Ends, Feedback};
use sluice_wire::hello::HolderInfo;
use sluice_wire::pb;
use sluice_wire::pb::switch_server::{Switch as SwitchService, SwitchServer};
use sluice_wire::session::read_announcements;
use sluice_wire::udp::Tuple;
use sluice_wire::{convert, hello};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status, Streaming};

use super::super::book::Ground;
use super::super::model::Model;
use super::*;

const HOLDER: HolderId = HolderId(0x0a);

fn link() -> LinkId {
    LinkId::new(HOLDER.0, 3)
}

fn says(identity: &Identity, seq: u64, mbps: u64) -> Announcement {
    let mut said = promise(identity, "h1", seq);
    said.flows[0].rates = vec![Rate::mbps(mbps)];
    said.flows[0].links = vec![link()];
    said.watch = vec![link()];
    said
}

fn ends(_: FlowId) -> Option<Ends> {
    let end = |host: u8| SocketAddr::from(([10, 0, 0, host], 80));
    Some(Ends { source: end(1), destination: end(2), protocol: 6 })
}

/// A task that keeps a connection up, with what it says.
struct Client {
    connection: Arc<Connection>,
    identity: Arc<Identity>,
    inbox: mpsc::Receiver<Inbound>,
    seq: u64,
}

impl Client {
    fn new(uri: String, kind: Kind, name: &str) -> Client {
        let (inbound, inbox) = mpsc::channel(INBOX);
        let identity = identity(name, "c");
        let connection = Arc::new(Connection::new(uri, kind, vec![HOLDER]));
        tokio::spawn(link::run(connection.clone(), identity.clone(), inbound));
        Client { connection, identity, inbox, seq: 0 }
    }

    /// The first word for which `fits` holds, while this rate is announced again and again.
    async fn hear(&mut self, mbps: u64, fits: impl Fn(&Inbound) -> bool) -> Inbound {
        within(async {
            loop {
                self.seq += 1;
                self.connection.announce(HOLDER, says(&self.identity, self.seq, mbps), &ends);
                while let Ok(heard) = tokio::time::timeout(Duration::from_millis(20), self.inbox.recv()).await {
                    let heard = heard.expect("the task lives");
                    if fits(&heard) {
                        return heard;
                    }
                }
            }
        })
        .await
    }

    /// What others have on the link, in Mbit/s, as soon as it is that.
    async fn sees(&mut self, mbps: u64, others: u64) -> Feedback {
        match self.hear(mbps, |heard| load(heard) == Some(Rate::mbps(others))).await {
            Inbound::Feedback { feedback, .. } => feedback,
            other => panic!("{other:?}"),
        }
    }

    async fn is_lost(&mut self, mbps: u64) -> (String, bool) {
        match self.hear(mbps, |heard| matches!(heard, Inbound::Lost { .. })).await {
            Inbound::Lost { why, mismatch, .. } => (why, mismatch),
            other => panic!("{other:?}"),
        }
    }
}

/// What others have on the link now, where this says so.
fn load(heard: &Inbound) -> Option<Rate> {
    match heard {
        Inbound::Feedback { holder: HOLDER, feedback, .. } if feedback.refused.is_none() => {
            feedback.links.iter().find(|view| view.link == link())?.load.first().copied()
        }
        _ => None,
    }
}

/// Both announce until each has seen the other: the lease of what is announced is short, so whoever sees first may not
/// fall silent. What `a` saw.
async fn meet(a: (&mut Client, u64), b: (&mut Client, u64)) -> Feedback {
    let (seen_by_a, seen_by_b) = (RefCell::new(None), RefCell::new(None));
    let both = |seen: &RefCell<Option<Feedback>>, others: u64, heard: &Inbound| {
        if let Inbound::Feedback { feedback, .. } = heard
            && load(heard) == Some(Rate::mbps(others))
        {
            seen.replace(Some(feedback.clone()));
        }
        seen_by_a.borrow().is_some() && seen_by_b.borrow().is_some()
    };
    tokio::join!(
        a.0.hear(a.1, |heard| both(&seen_by_a, b.1, heard)),
        b.0.hear(b.1, |heard| both(&seen_by_b, a.1, heard))
    );
    seen_by_a.into_inner().expect("both have seen")
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.close();
    }
}

/// The two calls over one table.
#[derive(Clone)]
struct Calls {
    table: Arc<Mutex<Switch>>,
    identity: Arc<Identity>,
    fetched: Arc<AtomicU64>,
    updated: Arc<AtomicU64>,
    deaf: Arc<AtomicBool>,
}

impl Calls {
    fn new(cluster: &str, boot: u64) -> Calls {
        let config = LinkConfig { link: link(), capacity: Rate::mbps(1000), ..LinkConfig::default() };
        let table = Arc::new(Mutex::new(Switch::new(BootId(boot), Limits::default(), &[config])));
        let identity = identity("s0", cluster);
        Calls { table, identity, fetched: Arc::default(), updated: Arc::default(), deaf: Arc::default() }
    }

    fn greet(&self, hello: Option<pb::Hello>) -> Result<(hello::Hello, pb::Welcome), Status> {
        let theirs = hello::read(hello)?;
        theirs.check(&self.identity.grid, self.identity.slot_now())?;
        let holder = HolderInfo { id: HOLDER, name: "s0".into(), boot: BootId(1), warm: true };
        let welcome = hello::Welcome { hello: self.identity.hello(), holders: vec![holder] };
        Ok((theirs, (&welcome).into()))
    }

    fn answer(&self, welcome: pb::Welcome, feedback: Option<Feedback>) -> Response<pb::HolderMessage> {
        let feedback = feedback.iter().map(|feedback| convert::from_feedback(HOLDER, feedback)).collect();
        Response::new(pb::HolderMessage { welcome: Some(welcome), feedback })
    }

    /// Serves at this address until the task is ended.
    async fn serve(&self, at: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
        let listener = loop {
            match tokio::net::TcpListener::bind(at).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let address = listener.local_addr().expect("bound");
        let (ready, incoming) = tokio::sync::mpsc::channel(64);
        let places = sluice_wire::accept::Places::new(64);
        let accept = sluice_wire::accept::http2(listener, Vec::new(), places, ready);
        let server = sluice_wire::limits::server().add_service(SwitchServer::new(self.clone()));
        let serve = tokio::spawn(async move {
            let incoming = tokio_stream::wrappers::ReceiverStream::new(incoming);
            tokio::select! { _ = server.serve_with_incoming(incoming) => {}, () = accept => {} }
        });
        (address, serve)
    }
}

#[tonic::async_trait]
impl SwitchService for Calls {
    async fn fetch_feedback(&self, request: Request<pb::FetchRequest>) -> Result<Response<pb::HolderMessage>, Status> {
        let (hello, welcome) = self.greet(request.into_inner().hello)?;
        self.fetched.fetch_add(1, Ordering::Relaxed);
        let slot = self.identity.slot_now();
        let feedback = self.table.lock().expect("not poisoned").feedback(slot, hello.host);
        Ok(self.answer(welcome, feedback))
    }

    async fn update_schedule(&self, request: Request<pb::HostMessage>) -> Result<Response<pb::HolderMessage>, Status> {
        let request = request.into_inner();
        let (_, welcome) = self.greet(request.hello)?;
        if self.deaf.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.updated.fetch_add(1, Ordering::Relaxed);
        let slot = self.identity.slot_now();
        let mut feedback = None;
        for (holder, announcement) in read_announcements(request.announcements)? {
            assert_eq!(holder, HOLDER);
            feedback = Some(self.table.lock().expect("not poisoned").announce(slot, &announcement));
        }
        Ok(self.answer(welcome, feedback))
    }

    type SessionStream = std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<pb::HolderMessage, Status>> + Send>>;

    async fn session(&self, _: Request<Streaming<pb::HostMessage>>) -> Result<Response<Self::SessionStream>, Status> {
        Err(Status::unimplemented("calls only"))
    }
}

fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Promises: P-16, P-26
#[tokio::test]
async fn by_calls_hosts_see_each_other_and_the_switch_that_comes_back() {
    let calls = Calls::new("c", 1);
    let (address, serving) = calls.serve(anywhere()).await;
    let uri = format!("http://{address}");
    let mut a = Client::new(uri.clone(), Kind::Unary, "a");
    let mut b = Client::new(uri, Kind::Unary, "b");
    assert!(matches!(a.hear(40, |_| true).await, Inbound::Back { slot_diff: -1..=1, offset_ns: Some(_), .. }));
    let first = a.sees(40, 0).await;
    let seen_by_a = meet((&mut a, 40), (&mut b, 30)).await;
    assert_eq!(seen_by_a.links[0].flows.len(), 1, "with calls promises travel with their ranks");
    assert!(calls.fetched.load(Ordering::Relaxed) >= 2 && calls.updated.load(Ordering::Relaxed) >= 2);
    // One that does not answer is as good as none, and another in its place is told apart.
    calls.deaf.store(true, Ordering::Relaxed);
    let (why, mismatch) = a.is_lost(40).await;
    assert!(why.contains("no answer") && !mismatch, "{why}");
    serving.abort();
    let (why, _) = a.is_lost(40).await;
    assert!(!why.is_empty());
    let successor = Calls::new("c", 2);
    let _serving = successor.serve(address).await;
    let again = a.sees(40, 0).await;
    assert_ne!(first.boot, again.boot);
}

#[tokio::test]
async fn by_calls_an_idle_host_asks_now_and_then_and_another_cluster_is_refused() {
    let calls = Calls::new("blue", 1);
    let (address, _serving) = calls.serve(anywhere()).await;
    let mut a = Client::new(format!("http://{address}"), Kind::Unary, "a");
    let (why, mismatch) = a.is_lost(1).await;
    assert!(why.contains("blue") && mismatch, "{why}");
    let calls = Calls::new("c", 1);
    let (address, _serving) = calls.serve(anywhere()).await;
    let _idle = Client::new(format!("http://{address}"), Kind::Unary, "b");
    within(async {
        while calls.fetched.load(Ordering::Relaxed) < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// How many in a hundred datagrams are lost, each way.
const LOSS: u64 = 30;

fn path(tuple: &Tuple) -> Vec<LinkId> {
    if tuple.source == tuple.destination { vec![] } else { vec![link()] }
}

/// A process that answers datagrams, and loses some.
async fn answers(
    at: SocketAddr,
    model: Arc<Mutex<Model>>,
    loss: u64,
    identity: Arc<Identity>,
) -> (SocketAddr, JoinHandle<()>) {
    let socket = UdpSocket::bind(at).await.expect("loopback");
    let address = socket.local_addr().expect("bound");
    let serve = tokio::spawn(async move {
        let mut chance = crate::testing::random_below(7);
        let mut bytes = [0; 300];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut bytes).await else { continue };
            if chance(100) < loss {
                continue;
            }
            let answer = {
                let mut model = model.lock().expect("not poisoned");
                model.slot = identity.slot_now();
                model.answer(&bytes[..length])
            };
            // Some come twice, and with them something that is no datagram at all.
            let times = if loss > 0 { 1 + chance(2) } else { 1 };
            for answer in answer.iter().flat_map(|answer| std::iter::repeat_n(answer, times as usize)) {
                if chance(100) >= loss {
                    let _ = socket.send_to(answer, from).await;
                }
            }
            if loss > 0 {
                let _ = socket.send_to(&bytes[..length.min(20)], from).await;
            }
        }
    });
    (address, serve)
}

fn ground(name: &str) -> Kind {
    let host = HostId::of(name);
    Kind::Datagrams(Arc::new(Ground { host, capacities: [(link(), Rate::mbps(1000))].into(), ..Ground::default() }))
}

async fn by_datagrams(loss: u64) {
    let model = Arc::new(Mutex::new(Model::new(Rate::mbps(1000), path)));
    let (address, serving) = answers(anywhere(), model.clone(), loss, identity("s0", "c")).await;
    let mut a = Client::new(address.to_string(), ground("a"), "a");
    let mut b = Client::new(address.to_string(), ground("b"), "b");
    a.hear(40, |heard| matches!(heard, Inbound::Back { slot_diff: 0, offset_ns: None, .. })).await;
    let first = a.sees(40, 0).await;
    let seen_by_a = meet((&mut a, 40), (&mut b, 30)).await;
    assert!(seen_by_a.links[0].flows.is_empty(), "an echo has sums only");
    a.hear(40, |heard| matches!(heard, Inbound::Datagrams(tally) if tally.sent > 0 && tally.answered > 0)).await;
    // Its port is closed: the kernel says so at once. Another process in its place is told apart.
    serving.abort();
    let _ = serving.await;
    let (why, mismatch) = a.is_lost(40).await;
    assert!(why.contains("refused") && !mismatch, "{why}");
    model.lock().expect("not poisoned").restart();
    let _serving = answers(address, model.clone(), loss, identity("s0", "c")).await;
    a.hear(40, |heard| matches!(heard, Inbound::Back { .. })).await;
    let again = a.sees(40, 0).await;
    assert_ne!(first.boot, again.boot);
}

/// Promises: P-16, P-26
#[tokio::test]
async fn by_datagrams_hosts_see_each_other_and_the_switch_that_comes_back() {
    by_datagrams(0).await;
}

#[tokio::test]
async fn the_same_where_datagrams_are_lost_and_doubled_and_come_with_noise() {
    by_datagrams(LOSS).await;
}

/// Promises: P-18
#[tokio::test]
async fn a_switch_that_says_nothing_or_lives_in_another_slot_is_lost() {
    // Bound, and nobody reads it.
    let silent = UdpSocket::bind(anywhere()).await.expect("loopback");
    let mut a = Client::new(silent.local_addr().expect("bound").to_string(), ground("a"), "a");
    let (why, mismatch) = a.is_lost(1).await;
    assert!(why.contains("no echo within 2 s") && !mismatch, "{why}");
    let model = Arc::new(Mutex::new(Model::new(Rate::mbps(1000), |_| vec![link()])));
    let mut other = (*identity("s0", "c")).clone();
    other.grid.slot_length = Nanos(other.grid.slot_length.0 / 2);
    let (address, _serving) = answers(anywhere(), model, 0, Arc::new(other)).await;
    let mut a = Client::new(address.to_string(), ground("a"), "a");
    let (why, mismatch) = a.is_lost(1).await;
    assert!(why.contains("slot-offset-too-large") && mismatch, "{why}");
}
