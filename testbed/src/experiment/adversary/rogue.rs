//! The rogue: a thread of this process in a host's network namespace that calls the switch in one of several ways, and
//! says what gains it most as long as it is heard.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_identity::Credentials;
use sluice_schedule::{
    Announcement, BootId, Bytes, FlowId, FlowPromise, HolderId, HostId, JobId, JobStatus, LinkId, Nanos, Rate, Slot,
};
use sluice_wire::dial::Dial;
use sluice_wire::hello::{ClockSource, Grid, Hello};
use sluice_wire::session::{SessionClient, SessionError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::CertifiedKey;

use super::Identity;
use super::cluster::{self, Cluster};
use crate::experiment::live::Live;
use crate::run::{RunError, RunPlan};

/// Users of the testbed's jobs, as daemons name them.
const JOB: &str = "0/honest";
/// Between two words of the rogue.
const PACE: Duration = Duration::from_millis(20);
/// Between two tries to be let in.
const AGAIN: Duration = Duration::from_millis(100);
/// How long an answer to a connection without a certificate is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How HTTP/2 begins, with settings that change nothing.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// What it saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// How often it was let in.
    pub(super) sessions: u64,
    /// How often a switch answered what it said there.
    pub(super) answers: u64,
    /// How often it was refused: a connection, or a word.
    pub(super) refusals: u64,
}

/// The same while it goes on.
#[derive(Debug, Default)]
struct Tally {
    sessions: AtomicU64,
    answers: AtomicU64,
    refusals: AtomicU64,
}

/// A host that lies.
pub(super) struct Rogue {
    stop: Arc<AtomicBool>,
    tally: Arc<Tally>,
    thread: JoinHandle<()>,
}

impl Rogue {
    /// Begins on the host `at`; the first host of the network is the one whose name it borrows.
    pub(super) fn start(
        live: &Live,
        plan: &RunPlan,
        cluster: &Cluster,
        identity: Identity,
        at: usize,
    ) -> Result<Rogue, RunError> {
        let (own, victim) = (&live.fabric.hosts[at].name, &live.fabric.hosts[0].name);
        let (name, way) = match identity {
            Identity::Own | Identity::Within => (own, Way::Session(cluster.dial(own))),
            Identity::Another => (victim, Way::Session(cluster.dial(own))),
            Identity::Forged => (victim, Way::Session(cluster.dial(cluster::FORGED))),
            Identity::Bare => (own, Way::Bare(cluster.credentials(own))),
            Identity::Plain => (own, Way::Session(Dial::Plain)),
        };
        let grid = Grid {
            cluster: cluster::NAME.into(),
            slot_length: plan.slot,
            horizon: plan.horizon,
            epoch: Nanos::ZERO,
            clock: ClockSource::Realtime,
        };
        let switch = plan.fabric.switches.first().cloned().unwrap_or_default();
        let tally = Arc::<Tally>::default();
        let liar = Liar {
            address: format!("{}:9604", live.fabric.management_address),
            way,
            grid,
            name: name.clone(),
            holder: HolderId::of(&switch),
            ports: u32::try_from(live.fabric.hosts.len()).unwrap_or(u32::MAX),
            rate: live.fabric.spec.rate(0).payload(),
            within: identity == Identity::Within,
            tally: tally.clone(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let halt = stop.clone();
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(liar.lie(&halt)),
                Err(error) => tracing::error!("no rogue: {error}"),
            }
        };
        let thread = live.fabric.hosts[at].ns.thread("rogue", body)?;
        Ok(Rogue { stop, tally, thread })
    }

    /// Ends it; what it saw.
    pub(super) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        // It only talks; that it panicked is told by the thread itself.
        drop(self.thread.join());
        let Tally { sessions, answers, refusals } = &*self.tally;
        let [sessions, answers, refusals] = [sessions, answers, refusals].map(|count| count.load(Ordering::Relaxed));
        Seen { sessions, answers, refusals }
    }
}

/// How it calls the switch.
enum Way {
    /// As hosts do.
    Session(Dial),
    /// Inside TLS, of which it believes the other side by these files, and without a certificate of its own.
    Bare(Arc<Credentials>),
}

/// Shows no certificate, whatever it is asked for.
#[derive(Debug)]
struct Nothing;

impl ResolvesClientCert for Nothing {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// Calls the switch without a certificate. True: it was answered, which it must not be.
async fn bare(address: &str, credentials: &Credentials) -> std::io::Result<bool> {
    let unready = || std::io::Error::other("the rogue has no files to believe a switch by");
    let sides = credentials.sides().ok_or_else(unready)?;
    let mut config = (*sides.client).clone();
    config.client_auth_cert_resolver = Arc::new(Nothing);
    let stream = TcpStream::connect(address).await?;
    // The address proves nothing, and is not asked for.
    let called: ServerName<'static> = ServerName::from(IpAddr::from(Ipv4Addr::UNSPECIFIED));
    let mut stream = TlsConnector::from(Arc::new(config)).connect(called, stream).await?;
    stream.write_all(BEGIN).await?;
    stream.flush().await?;
    // In TLS 1.3 who connects knows only by reading whether it was let in.
    let mut first = [0; 1];
    Ok(stream.read(&mut first).await? > 0)
}

fn more(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}

/// All that it knows.
struct Liar {
    /// Of the switch.
    address: String,
    way: Way,
    grid: Grid,
    name: String,
    holder: HolderId,
    ports: u32,
    rate: Rate,
    /// It keeps to what its own cable carries.
    within: bool,
    tally: Arc<Tally>,
}

impl Liar {
    fn slot(&self) -> (Slot, Nanos) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let slot = now.as_nanos() / u128::from(self.grid.slot_length.0.max(1));
        // Slots wrap.
        (Slot(slot as u32), Nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Connects again and again, and says all that may gain it something, until it is stopped.
    async fn lie(&self, stop: &AtomicBool) {
        let mut seq = 0;
        while !stop.load(Ordering::Relaxed) {
            match self.call(BootId(seq + 1)).await {
                Some(session) => self.speak(session, &mut seq, stop).await,
                None => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// A session, if it is let in. Who is not answered in time was not refused: that is no try.
    async fn call(&self, boot: BootId) -> Option<SessionClient> {
        let dial = match &self.way {
            Way::Session(dial) => dial,
            Way::Bare(credentials) => {
                match tokio::time::timeout(PATIENCE, bare(&self.address, credentials)).await {
                    Ok(Ok(true)) => more(&self.tally.sessions, 1),
                    Ok(Ok(false) | Err(_)) => more(&self.tally.refusals, 1),
                    Err(_) => {}
                }
                return None;
            }
        };
        let (slot, now) = self.slot();
        let (host, uri) = (HostId::of(&self.name), format!("http://{}", self.address));
        let hello = Hello { grid: self.grid.clone(), name: self.name.clone(), host, boot, slot, now };
        match SessionClient::connect_by(dial, &uri, &hello).await {
            Ok(session) => {
                more(&self.tally.sessions, 1);
                Some(session)
            }
            Err(SessionError::Silent { .. }) => None,
            Err(_) => {
                more(&self.tally.refusals, 1);
                None
            }
        }
    }

    /// Says all that may gain it something, until the session is over or it is stopped.
    async fn speak(&self, mut session: SessionClient, seq: &mut u64, stop: &AtomicBool) {
        let (host, boot) = (HostId::of(&self.name), BootId(*seq + 1));
        while !stop.load(Ordering::Relaxed) {
            *seq += 1;
            session.sender.announce(self.holder, self.word(host, boot, *seq));
            let over = tokio::select! {
                heard = session.receiver.next() => match heard {
                    Ok(Some(feedback)) => {
                        more(&self.tally.answers, 1);
                        let refused = feedback.iter().filter(|(_, feedback)| feedback.refused.is_some());
                        more(&self.tally.refusals, refused.count() as u64);
                        false
                    }
                    Ok(None) | Err(_) => true,
                },
                () = tokio::time::sleep(PACE) => false,
            };
            if over {
                return;
            }
        }
    }

    /// By turns: all links at more than they carry and before everybody; full of what it measures; the job's progress
    /// nought; another slot; another host's flow.
    fn word(&self, host: HostId, boot: BootId, seq: u64) -> Announcement {
        let (slot, now) = self.slot();
        let ports = if self.within { 1 } else { self.ports };
        let links: Vec<LinkId> = (0..ports).map(|port| LinkId::new(self.holder.0, port)).collect();
        let promise = |local: u64, link: &LinkId| FlowPromise {
            flow: FlowId(u64::from(host.0) << 32 | local),
            job: JobId::of("rogue"),
            promoted: true,
            key: Nanos(1),
            t0: Nanos(1),
            takes: self.rate,
            rates: vec![Rate(self.rate.0.saturating_mul(if self.within { 1 } else { 10 })); self.grid.horizon as usize],
            demand: Bytes(u64::MAX / 4),
            links: vec![*link],
            ..FlowPromise::default()
        };
        let mut word = Announcement {
            host,
            boot,
            seq,
            slot,
            flows: links.iter().zip(1..).map(|(link, local)| promise(local, link)).collect(),
            watch: links.clone(),
            ..Announcement::default()
        };
        word.measured = links.iter().map(|link| (*link, self.rate)).collect();
        let status = JobStatus {
            job: JobId::of(JOB),
            origin: host,
            boot,
            seq,
            round: seq,
            t0: now,
            key: Nanos(1),
            round_time: Nanos(1),
            offer: Rate::ZERO,
            promoted: true,
            ..JobStatus::default()
        };
        word.jobs.push(status);
        match if self.within { 0 } else { seq % 8 } {
            6 => word.slot = slot.offset(1_000),
            7 => word.flows.iter_mut().for_each(|flow| flow.flow = FlowId(u64::from(HostId::of("h0").0) << 32 | 1)),
            _ => {}
        }
        word
    }
}
