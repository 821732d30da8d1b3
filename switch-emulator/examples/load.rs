//! A load generator: many hosts, each with its own connection and session, against a `sluice-switch` it starts itself.
//!
//! Every host announces once per slot: 8 flows of 2 links each, and watches 4 links. Its flows go to its two next
//! neighbours; each neighbour has an uplink and an ingress. With `--moving` the promises change in every slot, as they do
//! while a round is sent; otherwise they stay the same. Prints one line of JSON:
//!
//! | key | is |
//! | --- | --- |
//! | `exchange_ms` | from the announcement handed to the stream to its answer decoded: p50, p90, p99, max |
//! | `missed_slots` | part of the slots in which a host got no answer before the next one |
//! | `cpu_us_per_host_slot` | CPU time of the server per host and slot |
//! | `rss_mib` | resident memory of the server at the end |
//! | `wire_mbit_s` | bytes of both directions with TCP, IP and Ethernet headers, of all hosts together |
//! | `wire_bytes_per_host_slot` | the same for one host and slot |
//! | `pushes_per_host_slot` | unasked feedback |
//! | `heard_slots` | slots from a change of a job's rank and pace at its first host until a host of it heard: p50, p99, max |
//! | `unheard` | changes that a host had not heard when the next one came |
//!
//! With `--tls` every host has a certificate, and proves who it is; so does the server.
//! With `--job-size` so many hosts share a job. Every second the first of them says another rank and pace.
//!
//! `cargo run --release -p sluice-switch --example load -- --hosts 1000 --seconds 60`

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use sluice_schedule::{
    Announcement, BootId, Bytes, Feedback, FlowId, FlowPromise, HolderId, HostId, JobId, JobStatus, LinkId, Nanos,
    Rate, Slot,
};
use sluice_wire::hello::{ClockSource, Grid, Hello};
use sluice_wire::session::SessionClient;

#[path = "support/identity.rs"]
mod identity;

use identity::Certificates;
use sluice_wire::dial::Dial;

const SLOT: Duration = Duration::from_millis(60);
const WIRE_HEADERS: u64 = 14 + 20 + 32;

#[derive(Parser, Clone)]
struct Arguments {
    /// Hosts that connect and announce in every slot
    #[arg(long, default_value_t = 100)]
    hosts: u32,
    /// Measured time, after all hosts are connected.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Where in the slot hosts announce.
    #[arg(long, value_enum, default_value_t = Phase::Spread)]
    phase: Phase,
    /// Hosts of one job.
    #[arg(long, default_value_t = 8)]
    job_size: u32,
    /// Promises change in every slot.
    #[arg(long)]
    moving: bool,
    /// Connect by TLS, with a certificate for each host.
    #[arg(long)]
    tls: bool,
    /// Threads of the server.
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// Threads of this generator.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The server's binary; the default is the one built beside this.
    #[arg(long)]
    server: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Phase {
    /// By a hash of the host, over the first half of the slot.
    Spread,
    /// All at the slot's edge.
    Sync,
}

/// The server; ended when this is dropped.
struct Server {
    child: Child,
    uri: String,
    http: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(arguments: &Arguments, tls: Option<&Certificates>) -> anyhow::Result<Server> {
    let here = std::env::current_exe()?;
    let beside = here.parent().and_then(|dir| dir.parent()).map(|dir| dir.join("sluice-switch"));
    let binary = arguments.server.clone().or(beside).context("no server binary")?;
    let path = std::env::temp_dir().join(format!("sluice-load-{}.toml", std::process::id()));
    let mut config = std::fs::File::create(&path)?;
    writeln!(config, "log.level = \"warn\"\nclock.require_sync = false")?;
    writeln!(config, "listen = {{ grpc = \"127.0.0.1:0\", http = \"127.0.0.1:0\" }}")?;
    tls.map_or(Ok(()), |tls| writeln!(config, "{}", tls.settings()))?;
    writeln!(config, "[[switches]]\nname = \"s0\"\nports = [")?;
    for host in 0..arguments.hosts {
        writeln!(
            config,
            "{{ id = {}, to = \"h{host}\", gbps = 100 }}, {{ id = {}, to = \"u{host}\", gbps = 100 }},",
            2 * host,
            2 * host + 1
        )?;
    }
    writeln!(config, "]")?;
    let mut child = Command::new(&binary)
        .args(["--workers", &arguments.workers.to_string(), "--config"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let mut line = String::new();
    let stdout = child.stdout.take().context("no stdout")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let _ = std::fs::remove_file(&path);
    let bound: serde_json::Value = serde_json::from_str(&line).context("the server did not start")?;
    let address = |key: &str| bound[key].as_str().map(str::to_owned).context("no address");
    Ok(Server { uri: format!("http://{}", address("grpc")?), http: address("http")?, child })
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn slot() -> Slot {
    Slot((now().as_nanos() / SLOT.as_nanos()) as u32)
}

fn hello(name: &str) -> Hello {
    let grid = Grid {
        cluster: "default".into(),
        slot_length: Nanos(SLOT.as_nanos() as u64),
        horizon: 10,
        epoch: Nanos::ZERO,
        clock: ClockSource::Realtime,
    };
    Hello { grid, name: name.into(), host: HostId::of(name), boot: BootId(1), slot: slot(), now: Nanos::ZERO }
}

/// Slots from one change of a job's rank and pace to the next.
const CHANGE_SLOTS: u32 = 17;

fn job(index: u32, arguments: &Arguments) -> JobId {
    JobId(u64::from(index / arguments.job_size) | 0xabcd_ef01_0000_0000)
}

/// What the first host of a job says in this slot: the longest time and the least offer of all, other ones after every
/// change.
fn first_says(slot: Slot) -> (Nanos, Rate) {
    let change = u64::from(slot.0 / CHANGE_SLOTS);
    (Nanos(10_000_000_000 + change), Rate(1_000_000 + change))
}

fn status(index: u32, arguments: &Arguments, seq: u64) -> JobStatus {
    let first = index.is_multiple_of(arguments.job_size);
    let (key, offer) = if first { first_says(slot()) } else { (Nanos(300_123_456), Rate(3_000_000_123)) };
    JobStatus {
        job: job(index, arguments),
        origin: HostId::of(&format!("h{index}")),
        boot: BootId(1),
        seq,
        round: 3,
        t0: Nanos(1_795_253_293_123_456_789),
        key,
        round_time: key,
        period: Nanos(900_000_000),
        offer,
        promoted: false,
    }
}

fn announcement(index: u32, arguments: &Arguments, seq: u64) -> Announcement {
    let (hosts, moving) = (arguments.hosts, arguments.moving);
    let (name, s0) = (format!("h{index}"), HolderId::of("s0"));
    let host = HostId::of(&name);
    let links = |n: u32| {
        let to = (index + 1 + n % 2) % hosts;
        vec![LinkId::new(s0.0, 2 * to), LinkId::new(s0.0, 2 * to + 1)]
    };
    let step = if moving { seq % 10 } else { 0 };
    let flow = |n: u32| {
        let rate = Rate(3_000_000_123 + 200_000_000 * step + u64::from(n));
        FlowPromise {
            flow: FlowId(u64::from(host.0) << 32 | u64::from(0x9e37_79b9_u32.wrapping_mul(n + 1))),
            job: job(index, arguments),
            key: Nanos(300_123_456 - 27_000_000 * step),
            t0: Nanos(1_795_253_293_123_456_789),
            takes: rate,
            rates: if moving { (0..10).map(|ahead| Rate(rate.0 + ahead / 4)).collect() } else { vec![rate; 10] },
            demand: Bytes(574_668_960),
            delivered: Bytes(57_000_000 * step + 1),
            links: links(n),
            ..FlowPromise::default()
        }
    };
    let watch = [links(0), links(1)].concat();
    Announcement {
        host,
        boot: BootId(1),
        seq,
        slot: slot(),
        flows: (0..8).map(flow).collect(),
        jobs: vec![status(index, arguments, seq)],
        watch,
        ..Announcement::default()
    }
}

#[derive(Default)]
struct Totals {
    slots: AtomicU64,
    missed: AtomicU64,
    refused: AtomicU64,
    unheard: AtomicU64,
}

/// What a host hears of its job's first one.
#[derive(Default)]
struct Ear {
    /// The number of the change heard last.
    heard: Option<u64>,
    /// Slots from each change to its hearing.
    late: Vec<u32>,
    unheard: u64,
}

impl Ear {
    fn listen(&mut self, job: JobId, feedback: &Feedback) {
        let now = slot();
        for said in feedback.jobs.iter().filter(|said| said.job == job) {
            let Some(change) = said.key.0.checked_sub(10_000_000_000) else { continue };
            if said.offer != Rate(1_000_000 + change) || self.heard == Some(change) {
                continue;
            }
            if let Some(before) = self.heard.replace(change) {
                self.unheard += change.saturating_sub(before + 1);
                self.late.push(now.0.wrapping_sub(change as u32 * CHANGE_SLOTS));
            }
        }
    }
}

/// What one host measured.
#[derive(Default)]
struct Measured {
    exchanges: Vec<Duration>,
    late: Vec<u32>,
}

/// One host's slots until `end`; gives the exchanges' durations.
async fn host(
    index: u32,
    arguments: Arguments,
    (uri, dial): (String, Dial),
    began: Instant,
    totals: Arc<Totals>,
) -> anyhow::Result<Measured> {
    let mut ear = Ear::default();
    let job = job(index, &arguments);
    let mut session = SessionClient::connect_by(&dial, &uri, &hello(&format!("h{index}"))).await?;
    let phase = match arguments.phase {
        Phase::Sync => Duration::ZERO,
        Phase::Spread => SLOT / 2 * (HostId::of(&format!("h{index}")).0 % 1024) / 1024,
    };
    let s0 = HolderId::of("s0");
    let (mut seq, mut durations) = (0, Vec::new());
    let end = began + Duration::from_secs(arguments.seconds);
    while Instant::now() < end {
        let into = Duration::from_nanos((now().as_nanos() % SLOT.as_nanos()) as u64);
        let wait = (SLOT + phase).saturating_sub(into);
        let wait = if wait > SLOT { wait - SLOT } else { wait };
        tokio::time::sleep(wait).await;
        if Instant::now() < began {
            // Keeps the session in use while others connect.
            continue;
        }
        seq += 1;
        let sent = Instant::now();
        session.sender.announce(s0, announcement(index, &arguments, seq));
        let answer = async {
            loop {
                let news = session.receiver.next().await?.context("session ended")?;
                news.iter().for_each(|(_, feedback)| ear.listen(job, feedback));
                if let Some((_, feedback)) =
                    news.iter().find(|(_, feedback)| feedback.seq >= seq || feedback.refused.is_some())
                {
                    return anyhow::Ok(feedback.refused.is_some());
                }
            }
        };
        totals.slots.fetch_add(1, Ordering::Relaxed);
        match tokio::time::timeout(SLOT, answer).await {
            Ok(refused) => {
                totals.refused.fetch_add(u64::from(refused?), Ordering::Relaxed);
                durations.push(sent.elapsed());
            }
            Err(_) => {
                totals.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    totals.unheard.fetch_add(ear.unheard, Ordering::Relaxed);
    Ok(Measured { exchanges: durations, late: ear.late })
}

fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

fn rss_mib(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("VmRSS")?.parse::<f64>()? / 1024.0)
}

/// Bytes and packets that crossed loopback in this network namespace.
fn loopback() -> anyhow::Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:")).context("no lo")?;
    let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    Ok((fields[0], fields[1]))
}

fn metric(http: &str, name: &str) -> anyhow::Result<f64> {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect(http)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let line = text.lines().find(|line| line.starts_with(name)).context("no such metric")?;
    Ok(line.rsplit(' ').next().unwrap_or("").parse()?)
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.hosts >= 3, "--hosts must be 3 or more");
    let certificates = arguments.tls.then(Certificates::new).transpose()?;
    let server = start(&arguments, certificates.as_ref())?;
    let dial = |index: u32| certificates.as_ref().map_or(Ok(Dial::Plain), |of| of.dial(&format!("h{index}")));
    let dials: Vec<Dial> = (0..arguments.hosts).map(dial).collect::<anyhow::Result<_>>()?;
    let pid = server.child.id();
    let totals = Arc::new(Totals::default());
    let mut builder = match arguments.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(arguments.threads).enable_all().build()?;
    // The server lets 333 connections a second in, after a first hundred.
    let began = Instant::now() + Duration::from_millis(2000 + 11 * u64::from(arguments.hosts));
    let (Measured { exchanges: mut durations, mut late }, before, after) = runtime.block_on(async {
        let mut hosts = tokio::task::JoinSet::new();
        for (index, dial) in (0..arguments.hosts).zip(dials) {
            let end = (server.uri.clone(), dial);
            hosts.spawn(host(index, arguments.clone(), end, began, totals.clone()));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep_until(began.into()).await;
        let sample = || anyhow::Ok((cpu(pid)?, loopback()?, Instant::now()));
        let before = sample()?;
        tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
        let after = sample()?;
        let mut all = Measured::default();
        while let Some(done) = hosts.join_next().await {
            let mut done = done??;
            all.exchanges.append(&mut done.exchanges);
            all.late.append(&mut done.late);
        }
        anyhow::Ok((all, before, after))
    })?;
    durations.sort_unstable();
    late.sort_unstable();
    let slots_late = |part: f64| late.get(((late.len() as f64 * part) as usize).min(late.len().saturating_sub(1)));
    let at =
        |part: f64| durations.get(((durations.len() as f64 * part) as usize).min(durations.len().saturating_sub(1)));
    let ms = |part: f64| at(part).map_or(0.0, |d| (d.as_secs_f64() * 1e6).round() / 1e3);
    let (slots, missed) = (totals.slots.load(Ordering::Relaxed), totals.missed.load(Ordering::Relaxed));
    let time = (after.2 - before.2).as_secs_f64();
    // Loopback counts 14 bytes of Ethernet header with every packet, as a real port would.
    let bytes = after.1.0 - before.1.0;
    let host_slots = f64::from(arguments.hosts) * time / SLOT.as_secs_f64();
    let pushes = metric(&server.http, "sluice_switchd_pushes_total")?;
    let exchanged = metric(&server.http, "sluice_switchd_exchange_duration_seconds_sum")?;
    let result = serde_json::json!({
        "hosts": arguments.hosts,
        "seconds": arguments.seconds,
        "phase": if arguments.phase == Phase::Spread { "spread" } else { "sync" },
        "moving": arguments.moving,
        "tls": arguments.tls,
        "job_size": arguments.job_size,
        "workers": arguments.workers,
        "exchange_ms": {"p50": ms(0.5), "p90": ms(0.9), "p99": ms(0.99), "max": ms(1.0)},
        "missed_slots": missed as f64 / slots.max(1) as f64,
        "refused": totals.refused.load(Ordering::Relaxed),
        "cpu_us_per_host_slot": (after.0 - before.0).as_secs_f64() * 1e6 / host_slots,
        "table_us_per_exchange": exchanged * 1e6 / slots.max(1) as f64,
        "rss_mib": rss_mib(pid)?,
        "wire_mbit_s": bytes as f64 * 8.0 / time / 1e6,
        "wire_bytes_per_host_slot": bytes as f64 / host_slots,
        "heard_slots": {"p50": slots_late(0.5), "p99": slots_late(0.99), "max": slots_late(1.0), "changes": late.len()},
        "unheard": totals.unheard.load(Ordering::Relaxed),
        "packets_s": (after.1.1 - before.1.1) as f64 / time,
        "header_bytes_per_packet": WIRE_HEADERS,
        "pushes_per_host_slot": pushes / slots.max(1) as f64,
    });
    println!("{result}");
    Ok(())
}
