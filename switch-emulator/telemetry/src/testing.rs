//! An sFlow agent and a gNMI target that say what they are given, for tests and demonstrations.
//!
//! Both ask a function what the counters are at a time since their start, and put that very time into what they send:
//! what a meter makes of it does not depend on when it was sent. The function may compute counters, or read those of a
//! machine.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sluice_schedule::Nanos;
use sluice_wire::limits;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

use crate::gnmi;
use crate::pb;
use crate::pb::g_nmi_server::{GNmi, GNmiServer};
use crate::pb::typed_value::Value;
use crate::sflow::{Datagram, Interface, Record, Sample, encode};

/// Interfaces in one datagram: with twelve it would not fit a frame of 1,500 bytes.
const PER_DATAGRAM: usize = 11;
/// The shortest time between two rounds of samples, whatever is asked for.
const SHORTEST: Duration = Duration::from_millis(1);
/// Steps of a counter's path that a notification has in its prefix.
const PREFIX: usize = 1;

/// An sFlow agent that knows no more than octets.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    /// Address by which it names itself, and from which it sends.
    pub address: IpAddr,
    /// Where it sends to.
    pub to: SocketAddr,
    /// Time between two rounds of samples, at least a millisecond.
    pub interval: Duration,
}

impl Agent {
    /// Sends what `counters` says, now and every interval until dropped: index of each interface and octets that left
    /// by it, at a time since the start in whole milliseconds.
    ///
    /// # Errors
    /// What the kernel says if the agent cannot bind to its address. Datagrams that cannot be sent are lost, as any may
    /// be.
    pub async fn run(self, mut counters: impl FnMut(Duration) -> Vec<(u32, u64)>) -> io::Result<Infallible> {
        let socket = UdpSocket::bind(SocketAddr::new(self.address, 0)).await?;
        let started = Instant::now();
        let mut rounds = rounds(self.interval);
        let (mut datagrams, mut sequence) = (0_u32, 0_u32);
        loop {
            rounds.tick().await;
            let uptime = started.elapsed().as_millis() as u64;
            sequence = sequence.wrapping_add(1);
            for interfaces in counters(Duration::from_millis(uptime)).chunks(PER_DATAGRAM) {
                datagrams = datagrams.wrapping_add(1);
                let datagram = Datagram {
                    agent: self.address,
                    sub_agent: 0,
                    sequence: datagrams,
                    uptime_ms: uptime as u32,
                    samples: interfaces.iter().map(|(index, octets)| sample(sequence, *index, *octets)).collect(),
                };
                let _ = socket.send_to(&encode(&datagram), self.to).await;
            }
        }
    }
}

fn sample(sequence: u32, index: u32, out_octets: u64) -> Sample {
    let interface = Interface { index, out_octets, ..Interface::default() };
    // An index of more than 24 bits has no room in the plain form.
    let expanded = index >= 1 << 24;
    Sample::Counters { expanded, sequence, source: index, records: vec![Record::Interface(interface)] }
}

fn rounds(interval: Duration) -> tokio::time::Interval {
    let mut rounds = tokio::time::interval(interval.max(SHORTEST));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    rounds
}

/// What the counters of a target are at a time since its start: name of each interface, and octets that left by it.
type Counters = Arc<dyn Fn(Duration) -> Vec<(String, u64)> + Send + Sync>;

/// A gNMI target that knows no more than octets. Dropped, it ends by itself soon.
#[derive(Debug)]
pub struct Target {
    address: SocketAddr,
    /// Nothing is ever sent here: the target serves for as long as it is there.
    alive: watch::Sender<()>,
    serving: JoinHandle<()>,
}

impl Target {
    /// Serves on `address`: to everyone who subscribes, what `counters` says of the interfaces asked for.
    ///
    /// # Errors
    /// What the kernel says, of an address in use for instance.
    pub async fn start(
        address: SocketAddr,
        counters: impl Fn(Duration) -> Vec<(String, u64)> + Send + Sync + 'static,
    ) -> io::Result<Target> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (alive, ended) = watch::channel(());
        let counters: Counters = Arc::new(counters);
        let wall = sluice_clock::realtime();
        let service = GNmiServer::new(Service { counters, started: Instant::now(), wall, ended: ended.clone() });
        let server = limits::server().add_service(service);
        let serving = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            if let Err(error) = server.serve_with_incoming_shutdown(incoming, end(ended)).await {
                tracing::warn!(event = "gnmi-target-failed", %error, "nobody is answered any more");
            }
        });
        Ok(Target { address, alive, serving })
    }

    /// Where it listens, with the port that the kernel chose where `start` was given 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as `http://address:port`.
    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all subscriptions, and returns when the connections are closed and the port is free.
    pub async fn stop(self) {
        let Target { alive, serving, .. } = self;
        drop(alive);
        // A task that was cancelled or panicked serves no more either.
        let _ = serving.await;
    }
}

/// Completes when the target is gone.
async fn end(mut ended: watch::Receiver<()>) {
    while ended.changed().await.is_ok() {}
}

#[derive(Clone)]
struct Service {
    counters: Counters,
    started: Instant,
    /// CLOCK_REALTIME at the start; what is added to it does not step.
    wall: Nanos,
    ended: watch::Receiver<()>,
}

/// What one subscription is about.
struct Asked {
    interfaces: BTreeSet<String>,
    encoding: pb::Encoding,
    interval: Duration,
}

impl Service {
    /// Sends samples until the client or the target is gone. The client's requests are kept, as dropping them would
    /// tell it that nobody listens.
    async fn sample(
        self,
        asked: Asked,
        _requests: Streaming<pb::SubscribeRequest>,
        responses: mpsc::Sender<Result<pb::SubscribeResponse, Status>>,
    ) {
        let mut rounds = rounds(asked.interval);
        let mut synced = false;
        let ended = end(self.ended.clone());
        tokio::pin!(ended);
        loop {
            tokio::select! {
                _ = rounds.tick() => {}
                () = &mut ended => return,
                () = responses.closed() => return,
            }
            let news = pb::subscribe_response::Response::Update(self.notification(&asked));
            let in_sync = pb::subscribe_response::Response::SyncResponse(true);
            for response in [Some(news), (!synced).then_some(in_sync)].into_iter().flatten() {
                // A client that does not read misses samples; nobody waits for it.
                let sent = responses.try_send(Ok(pb::SubscribeResponse { response: Some(response) }));
                if let Err(TrySendError::Closed(_)) = sent {
                    return;
                }
            }
            synced = true;
        }
    }

    fn notification(&self, asked: &Asked) -> pb::Notification {
        let elapsed = self.started.elapsed();
        let taken = self.wall.plus(Nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)));
        let wanted = |name: &String| asked.interfaces.contains("*") || asked.interfaces.contains(name);
        let counters = (self.counters)(elapsed).into_iter().filter(|(name, _)| wanted(name));
        let front = gnmi::path("").elem.into_iter().take(PREFIX).collect();
        pb::Notification {
            timestamp: i64::try_from(taken.0).unwrap_or(i64::MAX),
            prefix: Some(pb::Path { elem: front, ..pb::Path::default() }),
            update: counters.map(|(name, octets)| update(&name, octets, asked.encoding)).collect(),
        }
    }
}

fn update(name: &str, octets: u64, encoding: pb::Encoding) -> pb::Update {
    let value = match encoding {
        pb::Encoding::Json => Value::JsonVal(octets.to_string().into()),
        pb::Encoding::JsonIetf => Value::JsonIetfVal(format!("\"{octets}\"").into()),
        pb::Encoding::Ascii => Value::StringVal(octets.to_string()),
        pb::Encoding::Bytes | pb::Encoding::Proto => Value::UintVal(octets),
    };
    let elem = gnmi::path(name).elem.into_iter().skip(PREFIX).collect();
    let path = pb::Path { elem, ..pb::Path::default() };
    pb::Update { path: Some(path), val: Some(pb::TypedValue { value: Some(value) }) }
}

/// What a first request asks for.
fn asked(request: Option<pb::SubscribeRequest>) -> Result<Asked, Status> {
    let Some(pb::subscribe_request::Request::Subscribe(list)) = request.and_then(|request| request.request) else {
        return Err(Status::invalid_argument("The first request has no subscription; it has to have one."));
    };
    if list.mode() != pb::subscription_list::Mode::Stream {
        return Err(Status::unimplemented(format!("mode is {:?}; allowed Stream.", list.mode())));
    }
    let path = |one: &pb::Subscription| {
        let front = list.prefix.iter().chain(&one.path).flat_map(|path| &path.elem);
        gnmi::interface(front).map(str::to_owned)
    };
    let interfaces: Option<BTreeSet<String>> = list.subscription.iter().map(path).collect();
    let Some(interfaces) = interfaces else {
        return Err(Status::not_found("A path is not that of the out-octets of interfaces; nothing else is here."));
    };
    let interval = list.subscription.iter().map(|one| one.sample_interval).min().unwrap_or_default();
    Ok(Asked { interfaces, encoding: list.encoding(), interval: Duration::from_nanos(interval) })
}

#[tonic::async_trait]
impl GNmi for Service {
    type SubscribeStream = ReceiverStream<Result<pb::SubscribeResponse, Status>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<pb::SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let mut requests = request.into_inner();
        let asked = asked(requests.message().await?)?;
        let (responses, stream) = mpsc::channel(4);
        tokio::spawn(self.clone().sample(asked, requests, responses));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}
