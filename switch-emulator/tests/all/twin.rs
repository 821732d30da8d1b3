//! A served twin: the P4Runtime server of this build with the pipeline behind it, `sluice-switch control` as a process at
//! it, and packets to try both with.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_p4runtime::mock::{Mock, Served, Settings};
use sluice_pipeline::{Reason, UDP_PORT, Verdict, frame};
use sluice_schedule::{FlowId, Slot};
use sluice_wire::udp::{GUARD, Kind, LANES, Lane, NO_HOP_YET, Packet, Tuple};

use crate::support::{PATIENCE, die_with_this_thread, slot};

/// Who sends, by port 0.
pub const HOST_A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// To whom.
pub const HOST_B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
/// And to whom else.
pub const HOST_C: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);

/// The way to [`HOST_B`] over a link of 500 units, and who sends by port 0.
pub const TABLES: &[&str] = &[
    "edge 0 10.0.0.1/32",
    "link 1 capacity 500 unit 0 signature 0x00c0ffee",
    "route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01",
];

/// A twin that is served, and a folder for files.
pub struct Twin {
    pub mock: Mock,
    served: Served,
    dir: tempfile::TempDir,
}

impl Twin {
    pub async fn start() -> Twin {
        let mock = Mock::new(Settings::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let served = mock.serve(listener).unwrap();
        Twin { mock, served, dir: tempfile::tempdir().unwrap() }
    }

    /// A file of these statements.
    pub fn file(&self, lines: &[&str]) -> PathBuf {
        let path = self.dir.path().join("leaf.tables");
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        path
    }

    /// The program's agent of this twin, with this file, on the grid of [`slot`].
    pub fn agent(&self, tables: &Path) -> Agent {
        self.agent_at(&self.served.uri(), tables)
    }

    /// The same at another address.
    pub fn agent_at(&self, uri: &str, tables: &Path) -> Agent {
        let log = self.dir.path().join("agent.log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-switch"));
        command.args(["control", "--slot-ms", "200", "--lead-ms", "50", "--target", uri, "--tables"]).arg(tables);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Agent { child: die_with_this_thread(&mut command).spawn().unwrap(), log }
    }

    /// What the twin makes of a packet from [`HOST_A`] that comes in by port 0.
    pub fn pass(&self, to: Ipv4Addr, packet: &Packet) -> (Result<u16, Reason>, Packet) {
        pass(&self.mock, to, packet)
    }

    /// By which port a probe of the present slot leaves to this host, and as what, if a link's guard lets it pass.
    pub fn answered(&self, to: Ipv4Addr) -> Option<(u16, Packet)> {
        let (left, after) = self.pass(to, &probe(slot()));
        let passed = after.hops == 1 && after.flags & GUARD == 0;
        left.ok().filter(|_| passed).map(|port| (port, after))
    }

    /// How many slots the guard is ahead of the clock; `None`: it was told none yet.
    pub fn ahead(&self) -> Option<i32> {
        // The guard first: the clock goes on.
        let guard = self.mock.guard()?;
        Some(guard.since(slot()))
    }
}

fn pass(mock: &Mock, to: Ipv4Addr, packet: &Packet) -> (Result<u16, Reason>, Packet) {
    let mut bytes = frame::datagram(HOST_A, to, UDP_PORT, packet);
    let left = match mock.frame(0, &mut bytes) {
        Verdict::Forward { port, .. } => Ok(port),
        Verdict::Drop(reason) => Err(reason),
    };
    (left, frame::packet(&bytes).unwrap())
}

/// `sluice-switch control` as it runs; killed with this value.
pub struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    /// What it has said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until there is something; if there never is, the test fails with what the agent has said.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(began.elapsed() < PATIENCE, "never {what}; the agent says:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills it at once, by its process id, and takes its status away.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub async fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// How it ends by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end; it says:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What became of the announcements of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// They left by port 1.
    pub forwarded: u64,
    /// They did not.
    pub lost: u64,
    /// They were told that the guard does not know their slot.
    pub marked: u64,
    /// A link counted them.
    pub counted: u64,
}

/// A host that announces without end, each time in the slot that is. It stops with this value.
pub struct Load {
    stop: Arc<AtomicBool>,
    fates: Arc<Mutex<BTreeMap<u32, Fates>>>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    pub fn start(twin: &Twin) -> Load {
        let (stop, fates) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<BTreeMap<u32, Fates>>>::default());
        let (mock, stopped, noted) = (twin.mock.clone(), stop.clone(), fates.clone());
        let body = move || {
            let mut flow = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                // Some at once, and then others of this machine have their turn.
                for _ in 0..20 {
                    flow = (flow + 1) % 1000;
                    let slot = slot();
                    let packet = Packet { flow: FlowId(flow), ..announcement(slot, 1) };
                    let (left, after) = pass(&mock, HOST_B, &packet);
                    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    let fates = noted.entry(slot.0).or_default();
                    fates.forwarded += u64::from(left == Ok(1));
                    fates.lost += u64::from(left != Ok(1));
                    fates.marked += u64::from(after.flags & GUARD != 0);
                    fates.counted += u64::from(after.counted > 0);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Load { stop, fates, thread: Some(std::thread::spawn(body)) }
    }

    /// By slot, what became of all until now.
    pub fn fates(&self) -> MutexGuard<'_, BTreeMap<u32, Fates>> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In how many slots from this one on some were counted.
    pub fn counted_in(&self, from: Slot) -> usize {
        let of_slot = |(slot, fates): &(&u32, &Fates)| Slot(**slot).since(from) >= 0 && fates.counted > 0;
        self.fates().iter().filter(of_slot).count()
    }

    /// Announces no more; by slot, what became of all.
    pub fn end(mut self) -> BTreeMap<u32, Fates> {
        self.halt();
        self.fates().clone()
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the host that announces panicked");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The same rate in every slot of the horizon.
pub fn announcement(slot: Slot, new: u16) -> Packet {
    let lane = Lane { new, headroom: NO_HOP_YET, ..Lane::default() };
    let tuple = Tuple {
        source: HOST_A,
        destination: HOST_B,
        source_port: 40_000,
        destination_port: 5000,
        protocol: 6,
        cookie: 0,
    };
    Packet { seq: 7, lanes: [lane; LANES], ..Packet::new(Kind::Announce, FlowId(1), slot, tuple) }
}

pub fn probe(slot: Slot) -> Packet {
    Packet { kind: Kind::Probe, ..announcement(slot, 0) }
}
