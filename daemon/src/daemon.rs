//! Running: the order of starting and of ending.
//!
//! Two threads. The *loop* thread (`agent`) decides and talks to holders. This one, the main thread, serves
//! HTTP and takes signals. Nothing outside the process is touched before the configuration is judged and the lock is
//! held, so a start that fails leaves no trace.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use sluice_schedule::BootId;
use sluice_wire::audit::{self, Entry, Way};
use sluice_wire::snapshot::Snapshot;
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::agent::{self, Start, StartError};
use crate::audit::Audit;
use crate::clock;
use crate::config::{ClockSource, Config, Loaded};
use crate::control::{Handle, Request, Shared};
use crate::exchange::backoff::random;
use crate::fleet::Member;
use crate::http::{self, Listeners};
use crate::logging;
use crate::privilege::Powers;
use crate::privilege::start::{Split, become_two};
use crate::rundir::{self, RunDirError};

/// Requests to the loop that may wait.
const MAX_REQUESTS: usize = 64;
/// The loop thread starts within this time.
const START: Duration = Duration::from_secs(30);
/// It ends within this time after it was asked to.
const END: Duration = Duration::from_secs(3);

/// Exit status for a configuration that is not valid.
pub const EXIT_INVALID: u8 = 2;
/// Exit status when enforcement was required and does not work.
pub(crate) const EXIT_NO: u8 = 3;
/// Exit status when another daemon runs here, or the run directory may not be used.
pub(crate) const EXIT_TAKEN: u8 = 4;

struct Signals {
    reload: Signal,
    end: Signal,
    interrupt: Signal,
}

/// Runs the daemon until it is told to end.
///
/// # Errors
/// Whatever kept it from starting, for people.
pub fn run(loaded: Loaded, file: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let config = loaded.config.clone();
    // Before anything is read that others write, and before there is a second thread.
    let split = config.privilege.split.then(|| become_two(&loaded, file.as_deref())).transpose()?;
    let filter = Arc::new(logging::start(&config.log));
    let mut arranged = None;
    let powers = match split {
        Some(split) => {
            split.tell(&loaded);
            arranged = Some(at_start(&split));
            let powers = Powers::of(split.helper.clone());
            split.watch().context("the thread that watches the helper")?;
            powers
        }
        None => Powers::default(),
    };
    let cost = "flows fall back to ordinary congestion control within their orders' life";
    sluice_logs::abort_on_panic(cost, crate::crashed::keep);
    let prepared = rundir::prepare(&config.node.run_dir, &config.progress_dir());
    let _lock = match prepared.and_then(|()| rundir::lock(&config.lock())) {
        Ok(lock) => lock,
        Err(
            error @ (RunDirError::Taken { .. }
            | RunDirError::Foreign { .. }
            | RunDirError::Pages { .. }
            | RunDirError::Link { .. }
            | RunDirError::Elsewhere { .. }
            | RunDirError::File { .. }),
        ) => {
            eprintln!("sluiced: {error}");
            return Ok(ExitCode::from(EXIT_TAKEN));
        }
    };
    // Ports are taken before anything is changed: one that is in use ends the start without a trace.
    let peers = bind(&config.peer.listen, "peer.listen", config.serves_peers())?;
    let tcp = bind(&config.http.listen, "http.listen", true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the runtime")?;
    // Signals are listened for, and the socket is there, before anybody is told that the daemon is ready.
    let (signals, unix) = {
        let _context = runtime.enter();
        let signals = Signals {
            reload: signal(SignalKind::hangup()).context("SIGHUP")?,
            end: signal(SignalKind::terminate()).context("SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("SIGINT")?,
        };
        (signals, bind_socket(&config))
    };
    let (requests, from_others) = mpsc::channel(MAX_REQUESTS);
    let (snapshots, seen) = watch::channel(Arc::new(Snapshot::default()));
    let (started, has_started) = std::sync::mpsc::sync_channel(1);
    let boot = BootId(random());
    let member = Member::of(&loaded);
    let fleet = member.as_ref().map(Member::word);
    let start = Start {
        loaded,
        file,
        requests: from_others,
        snapshots,
        started,
        peers,
        boot,
        filter: filter.clone(),
        fleet,
        powers,
    };
    let thread = std::thread::Builder::new()
        .name("loop".into())
        .spawn(move || agent::run(start))
        .context("the loop's thread")?;
    let shared: Arc<Shared> = match has_started.recv_timeout(START) {
        Ok(Ok(shared)) => shared,
        Ok(Err(why)) => {
            eprintln!("sluiced: {why}");
            let _ = std::fs::remove_file(config.socket()); // Nobody listens there.
            return if let StartError::TooLittle(_) = why { Ok(ExitCode::from(EXIT_NO)) } else { Err(why.into()) };
        }
        Err(_) => return Err(anyhow!("the loop's thread did not start within 30 s")),
    };
    let audit = Audit::start(&config.node.state_dir, shared.unrecorded.clone());
    arranged.into_iter().for_each(|entry| audit.note(entry));
    let handle = Handle {
        shared,
        snapshots: seen,
        requests: requests.clone(),
        filter: filter.clone(),
        audit: audit.clone(),
        runtime: runtime.handle().clone(),
    };
    if let Some(member) = member {
        runtime.spawn(member.follow(requests.clone(), audit));
    }
    runtime.block_on(serve(tcp, unix, Arc::new(handle), requests.clone(), signals))?;
    // The loop was asked to end; a stuck one must not keep the process alive: its orders run out by themselves.
    let waited = std::time::Instant::now();
    while !thread.is_finished() && waited.elapsed() < END {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = std::fs::remove_file(config.socket()); // A stale one is replaced at the next start anyway.
    filter.finish();
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    tcp: Vec<TcpListener>,
    unix: Option<UnixListener>,
    handle: Arc<Handle>,
    requests: mpsc::Sender<Request>,
    signals: Signals,
) -> anyhow::Result<()> {
    let mut listeners = Listeners { unix, ..Listeners::default() };
    for listener in tcp {
        listeners.tcp.push(tokio::net::TcpListener::from_std(listener).context("http.listen")?);
    }
    let rules = handle.shared.rules.subscribe();
    let Signals { mut reload, mut end, mut interrupt } = signals;
    let noting = handle.audit.clone();
    let shutdown = async move {
        loop {
            tokio::select! {
                _ = reload.recv() => {
                    noting.note(by_signal());
                    drop(requests.send(Request::Reload).await);
                }
                _ = end.recv() => break,
                _ = interrupt.recv() => break,
                // The loop has ended by itself: nobody decides any more, so the process ends too.
                () = requests.closed() => break,
            }
        }
        drop(requests.send(Request::Stop).await);
    };
    http::serve(listeners, handle, rules, shutdown).await;
    Ok(())
}

/// Who does what from here on, as the audit log has it. What the helper does stands in its own lines of the log.
fn at_start(split: &Split) -> Entry {
    Entry {
        unix_ns: clock::wall(ClockSource::Realtime).0,
        way: Way::Start,
        command: "split".into(),
        message: format!("helper {} has the privileges; this process, as {}, has none", split.pid(), split.user),
        ..Entry::default()
    }
}

/// SIGHUP, as the audit log has it. The loop logs what comes of it.
fn by_signal() -> Entry {
    Entry {
        unix_ns: clock::wall(ClockSource::Realtime).0,
        way: Way::Signal,
        command: "reload".into(),
        result: audit::Result::Asked,
        message: "SIGHUP".into(),
        ..Entry::default()
    }
}

/// The status socket; without it the daemon runs all the same.
fn bind_socket(config: &Config) -> Option<UnixListener> {
    let warn = |error: &std::io::Error| {
        let socket = config.socket();
        tracing::warn!(
            event = "socket",
            cost = "sluice cannot reach this daemon",
            next = "make the run directory one that the daemon may write, and start it again",
            "{}: {error}",
            socket.display()
        );
    };
    http::bind_unix(&config.socket()).inspect_err(warn).ok()
}

fn bind(addresses: &[SocketAddr], key: &str, wanted: bool) -> anyhow::Result<Vec<TcpListener>> {
    let addresses = addresses.iter().filter(|_| wanted);
    addresses
        .map(|address| {
            let help = "another process has the port, or the address is not this host's";
            let listener =
                TcpListener::bind(address).with_context(|| format!("error[E_ENV]: {key}: {address}: {help}"))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
        .collect()
}
