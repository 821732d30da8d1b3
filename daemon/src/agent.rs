//! The thread of the deciding loop: waits for news or for the clock, turns the loop, shows what it knows.
//!
//! One thread with one single-threaded runtime. On it run the loop and the exchange's tasks, so that an announcement
//! costs no switch between threads. HTTP lives on another thread and only sees what is published here.
//!
//! In `active` the thread is a real-time one where the kernel lets it, bounded by [`Bound::DECIDING`]. What it starts is not, and
//! what takes long and can wait, such as reading files anew or loading programs, it does as an ordinary thread.
//!
//! The watchdog is fed here and nowhere else: should the loop stand still, nothing pretends that it lives.

mod commands;
mod kept;
mod links;
mod pace;
mod peers;
mod publish;
mod sysctls;
mod told;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluice_ebpf::Tier;
use sluice_formats::problem::Problems;
use sluice_logs::{NotifyState, ServiceManager};
use sluice_realtime::{Bound, Realtime, Standing};
use sluice_schedule::host::Host;
use sluice_schedule::{BootId, Nanos, Now};
use sluice_wire::snapshot::Snapshot;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, watch};

use crate::clock::{self, Clock, Wall};
use crate::config::{Loaded, Mode};
use crate::control::{Request, Shared};
use crate::core::fleet::FleetWord;
use crate::core::{ClockState, Core, Inbound, settings};
use crate::enforce::{self, Enforcement, TooLittle};
use crate::exchange::{Exchange, INBOX, Identity};
use crate::fabric::{Fabric, Known};
use crate::facts::Facts;
use crate::http::{Rules, TurnedAway};
use crate::interfaces;
use crate::journal::Journal;
use crate::logging::Filter;
use crate::monitor::Haste;
use crate::privilege::Powers;
use crate::rdma;
use crate::starts::{self, Starts};
use crate::stored::Keeper;
use links::Links;
use pace::{Pace, span};
use publish::Due;

/// The clock's quality is asked for this often.
const CLOCK_EVERY: Nanos = Nanos::from_millis(1_000);

pub struct Start {
    pub loaded: Loaded,
    /// The main file, for reloading.
    pub file: Option<std::path::PathBuf>,
    pub requests: mpsc::Receiver<Request>,
    pub snapshots: watch::Sender<Arc<Snapshot>>,
    /// Told once, when the loop runs or cannot.
    pub started: std::sync::mpsc::SyncSender<Result<Arc<Shared>, StartError>>,
    /// Where other hosts may connect; empty: nowhere.
    pub peers: Vec<std::net::TcpListener>,
    pub boot: BootId,
    /// What lines are logged.
    pub filter: Arc<Filter>,
    /// The fleet's last word, if this host is in one.
    pub fleet: Option<FleetWord>,
    /// Who does what takes privileges.
    pub powers: Powers,
}

pub struct Agent {
    core: Core,
    wall: Wall,
    clock: Clock,
    pace: Pace,
    /// The thread's processor time after the last turn.
    turned_at: Nanos,
    realtime: Realtime,
    /// How it last stood.
    standing: Standing,
    exchange: Exchange,
    identity: Arc<Identity>,
    facts: Facts,
    shared: Arc<Shared>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    journal: Journal,
    starts: Starts,
    keeper: Keeper,
    file: Option<std::path::PathBuf>,
    filter: Arc<Filter>,
    powers: Powers,
    manager: ServiceManager,
    wake: Option<AsyncFd<OwnedFd>>,
    news: Arc<Notify>,
    asked_clock: Option<Nanos>,
    due: Due,
    watchdog_fed: Nanos,
    links: Links,
    stop: bool,
}

/// Why the loop did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Runtime(#[from] std::io::Error),
    #[error(transparent)]
    Topology(#[from] Problems),
    /// Enforcement was required and does not work.
    #[error(transparent)]
    TooLittle(#[from] TooLittle),
}

/// Runs until it is told to stop. `start.started` hears whether it runs.
pub fn run(start: Start) {
    let started = start.started.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::from);
    let result = runtime.and_then(|runtime| {
        let result = runtime.block_on(Agent::serve(start));
        // Tasks of the exchange end here; nothing waits for a peer.
        runtime.shutdown_background();
        result
    });
    if let Err(error) = result {
        let _ = started.try_send(Err(error)); // Nobody waits any more if it had started.
    }
}

/// The network as the configuration and this host have it.
///
/// # Errors
/// The topology's problems, and those of the routes.
pub fn fabric(loaded: &Loaded) -> Result<Fabric, Problems> {
    let Known { topology, told } = crate::fabric::load(&loaded.config)?;
    Ok(Fabric::new(&loaded.config, topology, &interfaces::list()).with_routes(told))
}

impl Agent {
    async fn serve(start: Start) -> Result<(), StartError> {
        let Start { loaded, file, mut requests, snapshots, started, peers: listeners, boot, filter, fleet, powers } =
            start;
        let realtime = Realtime::new(Bound::DECIDING);
        let config = loaded.config.clone();
        let fabric = Rc::new(fabric(&loaded)?);
        let starts = Starts::new(&config.node.run_dir);
        let started_lately = starts.note(clock::monotonic());
        crate::crashed::remember(started_lately, clock::monotonic(), &config.node.state_dir);
        // Who crashes again and again touches nothing any more: the kernel side stays closed, and nothing is decided.
        let looping = started_lately >= starts::LOOP;
        // So does a mode that was kept by hand stand above the fleet's.
        let by_hand = looping || kept::by_hand(&loaded);
        let fleets = fleet.as_ref().and_then(|word| word.mode).filter(|_| !by_hand).map(commands::mode);
        let mode = if looping { Mode::Bypass } else { fleets.unwrap_or(config.mode) };
        let opened = enforce::open(&loaded, &fabric, mode, &powers).inspect_err(|_| starts.forget());
        let Enforcement { datapath, reasons, adopted } = opened?;
        let journal = Journal::new(&config.node.run_dir);
        if datapath.tier() != Tier::None && config.enforce.sysctls {
            // Nothing is decided yet: here the disk is waited for, and whoever started the loop waits for 30 s at most.
            journal.apply_by(powers.setter());
        }
        let host = Host::new(settings::brain(&config, &fabric, boot));
        let mut core = Core::new(loaded, host, fabric.clone(), datapath);
        core.look_by(powers.eyes(), powers.others_eyes());
        let (inbound, mut inbox) = mpsc::channel(INBOX);
        let wall = Wall::new(&config);
        let identity = Arc::new(Identity::new(&config, boot, wall.clone()));
        let news = Arc::new(Notify::new());
        if fabric.nic_mode() {
            peers::serve(&mut core, &fabric, boot, identity.clone(), &news, listeners);
        }
        identity.credentials.iter().for_each(peers::watch);
        core.judge_peers(clock::wall(config.clock.source).0);
        let exchange = Exchange::new(&config, identity.clone(), fabric, inbound);
        let shared = Arc::new(Shared {
            turned: 0.into(),
            asked: 0.into(),
            timeline: core.timeline(),
            unrecorded: Arc::default(),
            turned_away: TurnedAway::default(),
            rules: watch::Sender::new(Arc::new(Rules::of(&config))),
        });
        let tier = core.datapath().tier();
        let mut clock = Clock::new(&config, wall.clone());
        if looping {
            core.stay_out(clock.now(), started_lately);
        }
        if let Some(word) = fleet {
            core.join_fleet(clock.now(), word, by_hand);
        }
        core.note_tier(clock::wall(config.clock.source).0, tier, &reasons);
        core.note_rdma(clock::wall(config.clock.source).0, &rdma::devices(Path::new(rdma::DEVICES)));
        let facts = Facts { split: powers.are_split(), ..Facts::new(&core) };
        told::start(&core, &facts, tier, adopted);
        let mut agent = Agent {
            wall,
            clock,
            pace: Pace::default(),
            turned_at: clock::thread_cpu(),
            realtime,
            standing: Standing::Ordinary,
            exchange,
            identity,
            facts,
            shared: shared.clone(),
            snapshots,
            journal,
            starts,
            keeper: Keeper::default(),
            file,
            filter,
            powers,
            manager: ServiceManager::of_environment(),
            wake: None,
            news,
            asked_clock: None,
            due: Due::default(),
            watchdog_fed: Nanos::ZERO,
            links: Links::new(),
            stop: false,
            core,
        };
        agent.listen_to_kernel();
        let wake = agent.news.clone();
        agent.core.discover(Box::new(move || wake.notify_one()));
        let mut news = Vec::new();
        agent.turn(&mut news);
        agent.core.record_as_configured(agent.core.now().wall);
        agent.core.fly_as_configured();
        agent.facts.ready = true;
        agent.publish(true);
        let _ = started.try_send(Ok(shared));
        agent.manager.tell(&NotifyState::Ready);
        while !agent.stop {
            agent.keep_time();
            agent.wait(&mut requests, &mut inbox, &mut news).await;
            agent.turn(&mut news);
            agent.look_at_links();
        }
        agent.end();
        Ok(())
    }

    /// Sleeps until there is something to do.
    async fn wait(
        &mut self,
        requests: &mut mpsc::Receiver<Request>,
        inbox: &mut mpsc::Receiver<Inbound>,
        news: &mut Vec<Inbound>,
    ) {
        let began = tokio::time::Instant::now();
        let sleep = self.core.sleep(self.core.now(), self.clock.until_edge(self.core.now()), self.pace.tick());
        let spent = clock::monotonic().minus(self.core.now().mono);
        let (gathered, settled) = (began + span(self.pace.gather()), began + span(self.pace.settle()));
        let by = |haste| match haste {
            Haste::Much => Some(settled),
            Haste::Some => Some(gathered),
            Haste::None => None,
        };
        let mut until = began + span(sleep.minus(spent));
        // What a turn without a look left for the next one.
        until = by(self.core.haste()).map_or(until, |by| until.min(by));
        loop {
            tokio::select! {
                biased;
                request = requests.recv() => {
                    self.answer(request.unwrap_or(Request::Stop));
                    break;
                }
                message = inbox.recv() => {
                    news.extend(message);
                    while let Ok(message) = inbox.try_recv() {
                        news.push(message);
                    }
                    // Most of it says nothing new: answers to what this host said itself, and repeats.
                    if self.core.hear(self.clock.now(), news) {
                        until = until.min(gathered);
                        if tokio::time::Instant::now() >= until {
                            break;
                        }
                    }
                }
                () = self.news.notified() => until = until.min(gathered),
                () = readable(self.wake.as_ref()) => {
                    let haste = self.core.hear_kernel(self.clock.now());
                    until = by(haste).map_or(until, |by| until.min(by));
                }
                () = self.links.change() => {
                    self.links.have_changed();
                    break;
                }
                () = tokio::time::sleep_until(until) => break,
            }
        }
        while let Ok(request) = requests.try_recv() {
            self.answer(request);
        }
    }

    fn turn(&mut self, news: &mut Vec<Inbound>) {
        let spent = clock::thread_cpu();
        let now = self.clock.now();
        // A clock that was set is told of at once.
        let stepped = self.core.clock().steps != self.clock.steps;
        self.ask_clock(now, stepped);
        let before = self.core.counters().slots;
        crate::poison::swallow(&self.core.config().node.run_dir);
        let looked = self.core.step(now, news, &mut self.exchange);
        self.shared.turned.store(now.mono.0.max(1), Ordering::Relaxed);
        // Who waits for a clock that was set back decides, in no new slot.
        if self.core.counters().slots != before || self.clock.waits {
            self.feed(now);
        }
        let cpu = clock::thread_cpu();
        // What a turn without a look costs is counted with the next one.
        if looked {
            self.pace.turned(cpu.minus(spent), cpu.minus(std::mem::replace(&mut self.turned_at, cpu)));
            self.core.rest(self.pace.rest());
        }
        self.publish(stepped);
        self.change_datapath(now);
    }

    /// A real-time thread while it enforces: whoever only looks is in no hurry.
    fn keep_time(&mut self) {
        let wanted = self.core.config().schedule.realtime && self.core.mode() == Mode::Active;
        let now = self.core.now();
        let standing = self.realtime.look(wanted, now.mono, clock::thread_cpu());
        if standing != self.standing {
            self.standing = standing;
            self.facts.realtime = standing == Standing::Realtime;
            self.core.note_realtime(now.wall.0, standing);
        }
    }

    /// In `active` the kernel enforces, otherwise it is left alone: opened and closed as the mode changes.
    fn change_datapath(&mut self, now: Now) {
        let wanted = self.core.mode() == Mode::Active;
        if wanted == self.facts.enforcing {
            return;
        }
        self.facts.enforcing = wanted;
        self.realtime.pause();
        let fabric = self.core.monitor().fabric.clone();
        match enforce::open(self.core.loaded(), &fabric, self.core.mode(), &self.powers) {
            Ok(Enforcement { datapath, reasons, .. }) => {
                let tier = datapath.tier();
                drop(self.core.replace_datapath(now, datapath));
                self.core.note_tier(now.wall.0, tier, &reasons);
                self.listen_to_kernel();
                if tier != Tier::None && self.core.config().enforce.sysctls {
                    sysctls::set(&mut self.keeper, &self.journal, self.powers.setter());
                }
            }
            Err(why) => self.core.note_tier(now.wall.0, Tier::None, &[why.to_string()]),
        }
    }

    fn listen_to_kernel(&mut self) {
        self.wake = None;
        let fd = self.core.datapath().wake_fd().and_then(|fd| fd.try_clone_to_owned().ok());
        self.wake = fd.and_then(|fd| crate::sys::wait_for(fd).inspect_err(told::no_kernel_events).ok());
    }

    fn ask_clock(&mut self, now: Now, at_once: bool) {
        if !at_once && self.asked_clock.is_some_and(|at| now.mono.minus(at) < CLOCK_EVERY) {
            return;
        }
        self.asked_clock = Some(now.mono);
        let kernel = clock::kernel();
        let clock::Verdict { trust, why } = clock::trust(self.core.config(), kernel, self.core.judge_by_peers(now));
        if let Some(why) = &why
            && !trust.is_trusted()
        {
            self.facts.last_refusal.clone_from(why);
        }
        self.core.clock_asked(now, ClockState { kernel, trust, why, steps: self.clock.steps });
        let certificate = self.identity.credentials.as_ref().map(|credentials| credentials.standing());
        self.core.judge_certificate(now.wall.0, certificate);
    }

    fn feed(&mut self, now: Now) {
        if now.mono.minus(self.watchdog_fed) >= Nanos::from_millis(1_000) {
            self.watchdog_fed = now.mono;
            self.manager.tell(&NotifyState::Watchdog);
        }
    }

    /// The last thing: long orders, sysctls back, for a second at most. Pins stay for the next start.
    fn end(&mut self) {
        self.manager.tell(&NotifyState::Stopping);
        let coasting = self.core.coast(clock::monotonic());
        for left in sysctls::give_back(&mut self.keeper, &self.journal, self.powers.restorer()) {
            told::sysctl_left(&left);
        }
        self.starts.forget();
        self.core.end_recording();
        self.core.end_flight();
        tracing::info!(event = "stop", coasting, coast_ms = self.core.config().enforce.coast_ms, "sluiced ends");
    }
}

/// Waits for the kernel's ring; for ever if there is none.
async fn readable(wake: Option<&AsyncFd<OwnedFd>>) {
    match wake {
        Some(fd) => {
            if let Ok(mut guard) = fd.readable().await {
                guard.clear_ready();
            }
        }
        None => std::future::pending().await,
    }
}
