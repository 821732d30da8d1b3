//! What a rogue host does to others' goodput: a job on all hosts but one, under real daemons and switches, by turns alone and beside
//! a host that says whatever gains it most: as itself, as another host, and as nobody.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use sluice_schedule::{
    Announcement, BootId, Bytes, FlowId, FlowPromise, HolderId, HostId, JobId, JobStatus, LinkId, Nanos, Rate, Slot,
};
use sluice_wire::hello::{ClockSource, Grid, Hello};
use sluice_wire::session::SessionClient;

use super::live::Live;
use super::{Bench, mbps};
use crate::fabric::FabricSpec;
use crate::job;
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan};

/// Options of `sluice-experiment adversary`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "200", value_parser = mbps)]
    pub rate: Rate,
    /// Hosts, of which the last is the rogue.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(3..=12))]
    pub hosts: u64,
    /// Turns with and without each kind of rogue.
    #[arg(long, default_value_t = 3)]
    pub turns: usize,
    /// Length of a turn, s; its first second is not counted.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..))]
    pub seconds: u64,
}

/// Who the rogue says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// Itself, and asks for all there is.
    Own,
    /// Itself, and asks for what its own cable carries, before everybody, on the link to one host of the job.
    Within,
    /// A host of the job.
    Another,
    /// Nobody that the network knows.
    Nobody,
}

const IDENTITIES: [Identity; 4] = [Identity::Within, Identity::Another, Identity::Nobody, Identity::Own];
/// Users of the testbed's jobs, as daemons name them.
const JOB: &str = "0/honest";
/// Not counted at the beginning of a turn.
const SETTLING: Duration = Duration::from_secs(1);
/// A round of the honest job on its links.
const ROUND: Nanos = Nanos::from_millis(300);
/// Between two words of the rogue.
const PACE: Duration = Duration::from_millis(20);
/// Others' goodput is no further from what it is without the rogue.
pub const BAR: f64 = 0.03;

/// What one kind of rogue did.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// Who it said that it is.
    pub identity: Identity,
    /// Others' goodput beside it and without it, payload Mbit/s, turn by turn.
    pub turns: Vec<(f64, f64)>,
    /// The mean of the quotients.
    pub ratio: f64,
    /// How often a switch answered it.
    pub answers: u64,
    /// What switches counted of it meanwhile, by the name of the series.
    pub counted: Vec<(String, f64)>,
}

/// What all kinds did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AdversaryResult {
    /// Each kind of rogue.
    pub beside: Vec<Beside>,
}

impl AdversaryResult {
    /// For people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        for Beside { identity, turns, ratio, answers, counted } in &self.beside {
            let word = if (ratio - 1.0).abs() <= BAR { "within" } else { "NOT within" };
            let pairs: Vec<String> = turns.iter().map(|(with, without)| format!("{with:.0}/{without:.0}")).collect();
            out += &format!("{identity:?}: {:.1} % of alone, {word} 3 % ({})\n", ratio * 100.0, pairs.join(" "));
            // Who was neither answered nor refused was not there, and shows nothing.
            out += &match (*answers, counted.is_empty()) {
                (0, true) => "  NOT HEARD by any switch: nothing was tried\n".to_owned(),
                _ => format!("  {answers:>8} answers\n"),
            };
            for (series, count) in counted {
                out += &format!("  {count:>8} {series}\n");
            }
        }
        out
    }
}

/// Runs them.
///
/// # Errors
/// As a run.
pub fn adversary(bench: &Bench<'_>, settings: &Settings) -> Result<AdversaryResult, RunError> {
    let hosts = usize::try_from(settings.hosts).unwrap_or(usize::MAX);
    let fabric = FabricSpec::star(hosts, settings.rate, Bytes(250_000));
    let honest = hosts - 1;
    let bytes = Bytes(fabric.payload(settings.rate).over(ROUND).0 * honest as u64 / (2 * (honest as u64 - 1)));
    let job = JobPlan { compute: vec![Nanos::from_millis(30)], ..JobPlan::ring("honest", honest, bytes, 1_000_000) };
    let plan = RunPlan { name: "adversary".into(), fabric, jobs: vec![job], ..RunPlan::default() };
    let place = Placement { workers: (0..honest).collect(), servers: Vec::new() };
    let policy = Policy::Sluice { policy: None, nic: false };
    let mut live = Live::start(bench, &plan, &place, &policy, 20)?;
    live.until(0, true, Duration::from_secs(20))?;
    live.run_for(Duration::from_secs(3))?;
    let mut result = AdversaryResult::default();
    for identity in IDENTITIES {
        let before = counters(&live);
        let (mut turns, mut answers) = (Vec::new(), 0);
        for _ in 0..settings.turns {
            let without = turn(&mut live, settings, honest)?;
            let rogue = Rogue::start(&live, &plan, identity, honest)?;
            let with = turn(&mut live, settings, honest)?;
            answers += rogue.end();
            turns.push((with, without));
        }
        let ratios: Vec<f64> = turns.iter().map(|(with, without)| with / without.max(1.0)).collect();
        let after = counters(&live);
        let grown = |(series, count): (String, f64)| {
            let was = before.iter().find(|(known, _)| *known == series).map_or(0.0, |(_, count)| *count);
            (count > was).then_some((series, count - was))
        };
        let counted = after.into_iter().filter_map(grown).collect();
        result.beside.push(Beside { identity, turns, ratio: sluice_report::stats::mean(&ratios), answers, counted });
    }
    Ok(result)
}

/// What all members of the job send in a turn, payload Mbit/s.
fn turn(live: &mut Live, settings: &Settings, members: usize) -> Result<f64, RunError> {
    live.run_for(SETTLING)?;
    let from = job::now();
    live.run_for(Duration::from_secs(settings.seconds).saturating_sub(SETTLING))?;
    let to = job::now();
    Ok((0..members).map(|rank| live.rate(rank, from, to)).sum())
}

/// What a switch counts of who is refused or clipped.
fn counters(live: &Live) -> Vec<(String, f64)> {
    // A page is given out for a second.
    std::thread::sleep(Duration::from_millis(1_100));
    let page = live.fabric.management.run(metrics).ok().flatten();
    let wanted = [
        "sluice_switchd_clipped_total",
        "sluice_switchd_updates_total",
        "sluice_switchd_hellos_refused_total",
        "sluice_switchd_connections_refused_total",
        "sluice_switchd_slot_guard_rejects_total",
    ];
    let line = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let named = wanted.iter().any(|name| series.starts_with(name)) && !series.contains("result=\"applied\"");
        Some((series.to_owned(), value.parse().ok()?)).filter(|_| named)
    };
    page.unwrap_or_default().lines().filter_map(line).collect()
}

/// The switches' page of metrics, asked for in their namespace.
fn metrics() -> Option<String> {
    let mut stream = TcpStream::connect("127.0.0.1:9606").ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}

/// A host that lies, on a thread of this process in the last host's network namespace.
struct Rogue {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Rogue {
    fn start(live: &Live, plan: &RunPlan, identity: Identity, at: usize) -> Result<Rogue, RunError> {
        let name = match identity {
            Identity::Own | Identity::Within => live.fabric.hosts[at].name.clone(),
            Identity::Another => live.fabric.hosts[0].name.clone(),
            Identity::Nobody => "nobody".to_owned(),
        };
        let grid = Grid {
            cluster: "testbed".into(),
            slot_length: plan.slot,
            horizon: plan.horizon,
            epoch: Nanos::ZERO,
            clock: ClockSource::Realtime,
        };
        let switch = plan.fabric.switches.first().cloned().unwrap_or_default();
        let answers = Arc::<AtomicU64>::default();
        let liar = Liar {
            uri: format!("http://{}:9604", live.fabric.management_address),
            grid,
            name,
            holder: HolderId::of(&switch),
            ports: u32::try_from(live.fabric.hosts.len()).unwrap_or(u32::MAX),
            rate: live.fabric.spec.rate(0).payload(),
            within: identity == Identity::Within,
            answers: answers.clone(),
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
        Ok(Rogue { stop, answers, thread })
    }

    /// Ends it; how often it was answered.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        // It only talks; that it panicked is told by the thread itself.
        drop(self.thread.join());
        self.answers.load(Ordering::Relaxed)
    }
}

/// All that it knows.
struct Liar {
    uri: String,
    grid: Grid,
    name: String,
    holder: HolderId,
    ports: u32,
    rate: Rate,
    /// It keeps to what its own cable carries.
    within: bool,
    /// How often it was answered.
    answers: Arc<AtomicU64>,
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
            let (slot, now) = self.slot();
            let host = HostId::of(&self.name);
            let hello =
                Hello { grid: self.grid.clone(), name: self.name.clone(), host, boot: BootId(seq + 1), slot, now };
            let Ok(mut session) = SessionClient::connect(&self.uri, &hello).await else {
                tokio::time::sleep(PACE * 5).await;
                continue;
            };
            loop {
                seq += 1;
                session.sender.announce(self.holder, self.word(host, hello.boot, seq));
                let over = tokio::select! {
                    heard = session.receiver.next() => {
                        let answered = matches!(heard, Ok(Some(_)));
                        self.answers.fetch_add(u64::from(answered), Ordering::Relaxed);
                        !answered
                    }
                    () = tokio::time::sleep(PACE) => false,
                };
                if over || stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    }

    /// By turns: all links at more than they carry and before everybody; full of what it measures; the job's progress nought;
    /// another slot; another host's flow.
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
