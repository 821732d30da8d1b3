//! One subscription to the counters of one gNMI target: connect, subscribe, pass readings on, and again after a pause.
//!
//! A single future does all of it and ends when nobody wants readings any more; dropped, it leaves nothing behind. It
//! never waits for whoever reads: what finds no room is dropped and counted, as the next sample makes up for it. The
//! connection is plain TCP, as all of Sluice's are; for a target that wants TLS or a password, a proxy beside it has to
//! add them.

use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use sluice_schedule::Nanos;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tonic::Status;
use tonic::transport::Endpoint;

use super::{NAME, path, readings};
use crate::counts::{Counts, one};
use crate::meter::Sample;
use crate::pb;
use crate::pb::g_nmi_client::GNmiClient;
use crate::pb::subscribe_request::Request;
use crate::pb::subscribe_response::Response;
use crate::quiet::Quiet;

/// The shortest and the longest time between two samples that may be asked for.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3600));
/// Interfaces that may be asked for by name.
pub const INTERFACES: usize = 4096;
/// Bytes of one message: some thousand counters.
const MESSAGE: usize = 256 * 1024;
/// Bytes of one HTTP/2 header list.
const HEADER_LIST: u32 = 8 * 1024;
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(2);
/// The kernel asks after a silent peer this often. HTTP/2 could too, but many targets close connections that do so.
const TCP_KEEPALIVE: Duration = Duration::from_secs(10);
/// A target that says nothing for so many intervals is given up, but not before [`PATIENCE`].
const SILENT_INTERVALS: u32 = 5;
/// Time for a target to say something, at least.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest pause after a first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The pause doubles with every failure up to this one.
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// What to ask of which target.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens: `http://address:port`.
    pub uri: String,
    /// Names of interfaces as the target has them, at most [`INTERFACES`]; none asks for all.
    pub interfaces: Vec<String>,
    /// Time between two samples, within [`INTERVALS`].
    pub interval: Duration,
    /// How the target is to write numbers; [`pb::Encoding::Proto`] is the most compact one.
    pub encoding: pb::Encoding,
}

/// Why a target cannot be subscribed to whatever it says.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// Nothing that can be connected to.
    #[error("gNMI target {0:?} is no address; allowed http://address:port.")]
    Uri(String),
    /// A time between samples that is too short or too long.
    #[error("gNMI target: interval is {0:?}; allowed 10 ms to 1 h.")]
    Interval(Duration),
    /// Too many names.
    #[error("gNMI target: interfaces has {0} entries; allowed 0 to {INTERFACES}.")]
    Interfaces(usize),
    /// An empty name, or one that is too long.
    #[error("gNMI target: a name in interfaces has {0} bytes; allowed 1 to {NAME}.")]
    Name(usize),
}

/// One reading, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The target that said it: its [`Settings::uri`].
    pub target: Arc<str>,
    /// The interface's name at the target.
    pub interface: String,
    /// The counter, with the target's time stamp and CLOCK_MONOTONIC here.
    pub sample: Sample,
}

/// A subscription that is not running yet.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    target: Arc<str>,
    request: pb::SubscribeRequest,
    /// How long the target may say nothing.
    silence: Duration,
    counts: Arc<Counts>,
}

/// Why a subscription ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("no connection: {}", causes(.0))]
    Connection(tonic::transport::Error),
    #[error("{}: {}", .0.code(), .0.message())]
    Status(Status),
    #[error("nothing came for {0:?}")]
    Silent(Duration),
    #[error("the target ended it")]
    Closed,
}

impl Client {
    /// Checks what is to be asked, and of whom; connects to nobody.
    ///
    /// # Errors
    /// [`Invalid`] names the setting, its value and what is allowed.
    pub fn new(settings: &Settings) -> Result<Client, Invalid> {
        let Settings { uri, interfaces, interval, .. } = settings;
        let endpoint = Endpoint::from_shared(uri.clone()).ok().filter(|_| uri.starts_with("http://"));
        let Some(endpoint) = endpoint else { return Err(Invalid::Uri(uri.clone())) };
        if !(INTERVALS.0..=INTERVALS.1).contains(interval) {
            return Err(Invalid::Interval(*interval));
        }
        if interfaces.len() > INTERFACES {
            return Err(Invalid::Interfaces(interfaces.len()));
        }
        if let Some(name) = interfaces.iter().find(|name| !(1..=NAME).contains(&name.len())) {
            return Err(Invalid::Name(name.len()));
        }
        Ok(Client {
            endpoint: endpoint
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .tcp_keepalive(Some(TCP_KEEPALIVE))
                .http2_max_header_list_size(HEADER_LIST),
            target: uri.as_str().into(),
            request: request(settings),
            silence: interval.saturating_mul(SILENT_INTERVALS).max(PATIENCE),
            counts: Arc::default(),
        })
    }

    /// What came in and what became of it, for whoever watches.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Follows the target until the other end of `heard` is gone: connects, subscribes, passes readings on, and begins
    /// anew after a pause that doubles from half a second to 30 s, whatever went wrong.
    pub async fn run(self, heard: mpsc::Sender<Heard>) {
        let (mut pauses, mut quiet) = (Pauses::default(), Quiets::default());
        loop {
            let ended = tokio::select! {
                ended = self.follow(&heard, &mut pauses, &mut quiet.malformed) => ended,
                () = heard.closed() => return,
            };
            let Err(why) = ended;
            let pause = pauses.next(random());
            quiet.ended.say(|count| {
                tracing::warn!(
                    event = "gnmi-ended",
                    gnmi_target = %self.target,
                    %why,
                    count,
                    pause_ms = pause.as_millis() as u64,
                    cost = "what passes beside Sluice is not known meanwhile",
                    next = "look whether the switch's gNMI server runs, and what it allows",
                    "no counters from this target"
                );
            });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = heard.closed() => return,
            }
        }
    }

    /// One subscription, for as long as it lasts.
    async fn follow(
        &self,
        heard: &mpsc::Sender<Heard>,
        pauses: &mut Pauses,
        quiet: &mut Quiet,
    ) -> Result<Infallible, Ended> {
        let channel = self.endpoint.connect().await.map_err(Ended::Connection)?;
        let mut client = GNmiClient::new(channel).max_decoding_message_size(MESSAGE);
        // The stream of requests stays open behind the only one: targets take its end for the end of the subscription.
        let requests = tokio_stream::once(self.request.clone()).chain(tokio_stream::pending());
        let mut responses = self.in_time(client.subscribe(requests)).await?.into_inner();
        one(&self.counts.sessions);
        tracing::debug!(event = "gnmi-subscribed", uri = %self.target);
        loop {
            let response = self.in_time(responses.message()).await?.ok_or(Ended::Closed)?;
            let Some(Response::Update(notification)) = response.response else { continue };
            // Only a target that says something has earned a short pause when it fails again.
            pauses.reset();
            self.pass_on(&notification, heard, quiet);
        }
    }

    fn pass_on(&self, notification: &pb::Notification, heard: &mpsc::Sender<Heard>, quiet: &mut Quiet) {
        one(&self.counts.accepted);
        let now = sluice_clock::monotonic();
        for reading in readings(notification) {
            let reading = match reading {
                Ok(reading) => reading,
                Err(why) => {
                    one(&self.counts.malformed);
                    quiet.say(|count| {
                        tracing::warn!(
                            event = "gnmi-malformed",
                            gnmi_target = %self.target,
                            %why,
                            count,
                            cost = "what passes beside Sluice by that port is not known",
                            next = "compare the path and type with docs/operating.md, \"Configuration\"",
                            "a counter is left out"
                        );
                    });
                    continue;
                }
            };
            let sample = Sample { octets: reading.out_octets, taken: reading.taken, heard: now };
            let news = Heard { target: self.target.clone(), interface: reading.interface, sample };
            if let Err(TrySendError::Full(_)) = heard.try_send(news) {
                one(&self.counts.dropped);
            }
        }
    }

    /// Waits for the target, as long as it may be silent.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Status>>) -> Result<T, Ended> {
        match timeout(self.silence, work).await {
            Ok(result) => result.map_err(Ended::Status),
            Err(_) => Err(Ended::Silent(self.silence)),
        }
    }
}

/// Asks for the counters of the interfaces, one by one or all, as samples.
fn request(settings: &Settings) -> pb::SubscribeRequest {
    let all = ["*".to_owned()];
    let interfaces: &[String] = if settings.interfaces.is_empty() { &all } else { &settings.interfaces };
    let subscription = interfaces.iter().map(|interface| pb::Subscription {
        path: Some(path(interface)),
        mode: pb::SubscriptionMode::Sample.into(),
        sample_interval: nanos(settings.interval).0,
    });
    let list = pb::SubscriptionList {
        prefix: None,
        subscription: subscription.collect(),
        mode: pb::subscription_list::Mode::Stream.into(),
        encoding: settings.encoding.into(),
    };
    pb::SubscribeRequest { request: Some(Request::Subscribe(list)) }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// One cause each.
#[derive(Default)]
struct Quiets {
    ended: Quiet,
    malformed: Quiet,
}

/// Pauses between attempts: a random time from half a bound to all of it, so that subscriptions that failed together do
/// not come back together.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    failures: u32,
}

impl Pauses {
    /// How long to wait after one more failure; `random` picks the place.
    fn next(&mut self, random: u64) -> Duration {
        // Six doublings are beyond the last pause.
        let bound = FIRST_PAUSE.saturating_mul(1 << self.failures.min(6)).min(LAST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        let half = nanos(bound / 2).0;
        Duration::from_nanos(half + random % (half + 1))
    }

    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// 64 random bits from the operating system, by way of the hasher's keys.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// An error and what is behind it, which says more than the error itself.
fn causes(error: &tonic::transport::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            uri: "http://127.0.0.1:9339".into(),
            interfaces: vec![],
            interval: Duration::from_secs(1),
            encoding: pb::Encoding::Proto,
        }
    }

    #[test]
    fn pauses_double_to_the_last_one_and_begin_anew() {
        let mut pauses = Pauses::default();
        let longest: Vec<u128> = (0..9)
            .map(|_| {
                let next = |random| {
                    let mut probe = pauses;
                    probe.next(random)
                };
                // Many numbers reach far enough into the range.
                let most = (0..2000).map(|i| next(i * 7_919_777_771)).max().unwrap();
                let least = next(0);
                assert_eq!(pauses.next(0), least);
                assert!(least * 2 >= most && most > least);
                (least * 2).as_millis()
            })
            .collect();
        assert_eq!(longest, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        pauses.reset();
        assert!(pauses.next(u64::MAX) <= FIRST_PAUSE);
        assert_ne!(random(), random());
    }

    #[test]
    fn what_cannot_be_asked_is_told() {
        let wrong = |settings: Settings| Client::new(&settings).unwrap_err().to_string();
        assert!(Client::new(&settings()).is_ok());
        for uri in ["", "leaf0:9339", "https://leaf0:9339", "http://"] {
            let told = wrong(Settings { uri: uri.into(), ..settings() });
            assert_eq!(told, format!("gNMI target {uri:?} is no address; allowed http://address:port."));
        }
        let interval = Duration::ZERO;
        let told = wrong(Settings { interval, ..settings() });
        assert_eq!(told, "gNMI target: interval is 0ns; allowed 10 ms to 1 h.");
        let interfaces = vec!["swp1".to_owned(); INTERFACES + 1];
        assert!(wrong(Settings { interfaces, ..settings() }).contains("interfaces has 4097 entries"));
        let interfaces = vec!["swp1".to_owned(), String::new()];
        assert!(wrong(Settings { interfaces, ..settings() }).contains("has 0 bytes"));
    }

    #[test]
    fn all_interfaces_or_the_named_ones_are_asked_for() {
        let asked = |interfaces: &[&str]| {
            let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
            let Some(Request::Subscribe(list)) = request(&Settings { interfaces, ..settings() }).request else {
                panic!("no subscription")
            };
            assert_eq!((list.mode(), list.encoding()), (pb::subscription_list::Mode::Stream, pb::Encoding::Proto));
            let sampled = |one: &pb::Subscription| {
                assert_eq!((one.mode(), one.sample_interval), (pb::SubscriptionMode::Sample, 1_000_000_000));
                let elements = one.path.iter().flat_map(|path| &path.elem);
                super::super::interface(elements).map(str::to_owned)
            };
            list.subscription.iter().map(sampled).collect::<Option<Vec<String>>>().unwrap()
        };
        assert_eq!(asked(&[]), ["*"]);
        assert_eq!(asked(&["swp1", "swp2"]), ["swp1", "swp2"]);
    }
}
