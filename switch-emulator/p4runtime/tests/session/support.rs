//! A served twin, sessions with it, agents that run, and packets to try it with.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_p4runtime::agent::{self, News};
use sluice_p4runtime::client::error::ClientError;
use sluice_p4runtime::client::program::Program;
use sluice_p4runtime::client::{Deadlines, Session, Target};
use sluice_p4runtime::mock::{Mock, Served, Settings};
use sluice_pipeline::control::Statement;
use sluice_pipeline::{Reason, UDP_PORT, Verdict, frame};
use sluice_schedule::{FlowId, Nanos, Slot};
use sluice_wire::udp::{GUARD, Kind, LANES, Lane, NO_HOP_YET, Packet, Tuple};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Longer than anything here takes, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for a busy machine to keep up with.
pub const SLOT: Nanos = Nanos::from_millis(200);

pub const HOST_A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const HOST_B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// The way to [`HOST_B`] over a link of 500 units, and who sends by port 0.
pub const ONE_LINK: &[&str] = &[
    "edge 0 10.0.0.1/32",
    "link 1 capacity 500 unit 0 signature 0x00c0ffee",
    "route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01",
];

/// The result of something that ends.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it ends in time")
}

pub fn statements(lines: &[&str]) -> Vec<Statement> {
    lines.iter().map(|line| line.parse().unwrap()).collect()
}

/// A twin that is served.
pub struct Bench {
    pub mock: Mock,
    pub program: Arc<Program>,
    served: Served,
}

impl Bench {
    pub async fn start(settings: Settings) -> Bench {
        let mock = Mock::new(settings);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let served = mock.serve(listener).unwrap();
        Bench { mock, program: Arc::new(Program::twin().unwrap()), served }
    }

    pub fn uri(&self) -> String {
        self.served.uri()
    }

    pub fn target(&self) -> Target {
        let long = PATIENCE / 3;
        Target { uri: self.uri(), device: 1, deadlines: Deadlines { connect: long, call: long, program: long } }
    }

    pub async fn session(&self, election: u128) -> Result<Session, ClientError> {
        Session::open(self.target(), election, self.program.clone()).await
    }

    /// A session that is primary, of a switch that has the program.
    pub async fn primary(&self, election: u128) -> Session {
        let session = self.session(election).await.unwrap();
        session.ensure_program().await.unwrap();
        session
    }

    /// By which port this packet leaves, and as what, when it comes in by port 0 from [`HOST_A`] to [`HOST_B`].
    pub fn pass(&self, packet: &Packet) -> (Result<u16, Reason>, Packet) {
        let mut bytes = frame::datagram(HOST_A, HOST_B, UDP_PORT, packet);
        let left = match self.mock.frame(0, &mut bytes) {
            Verdict::Forward { port, .. } => Ok(port),
            Verdict::Drop(reason) => Err(reason),
        };
        (left, frame::packet(&bytes).unwrap())
    }

    /// Waits until probes of the present slot pass a link and its guard, and gives the path's signature.
    pub async fn signature(&self, grid: Grid) -> u32 {
        loop {
            let (left, after) = self.pass(&probe(grid.slot()));
            if left == Ok(1) && after.hops == 1 && after.flags & GUARD == 0 {
                return after.path_sig;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub fn announcement(slot: Slot, new: u16) -> Packet {
    let lane = Lane { new, previous: 0, load_sum: 0, headroom: NO_HOP_YET };
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

/// A clock that begins where a test wants it.
#[derive(Clone, Copy)]
pub struct Grid {
    began: Instant,
    first: Nanos,
}

impl Grid {
    /// Three slots before slot numbers wrap.
    pub fn before_the_wrap() -> Grid {
        Grid { began: Instant::now(), first: Nanos(((1_u64 << 32) - 3) * SLOT.0) }
    }

    pub fn now(self) -> Nanos {
        self.first.plus(Nanos(self.began.elapsed().as_nanos() as u64))
    }

    pub fn slot(self) -> Slot {
        Slot((self.now().0 / SLOT.0) as u32)
    }
}

/// An agent that runs.
pub struct Running {
    news: mpsc::UnboundedReceiver<News>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ClientError>>,
}

impl Running {
    pub fn start(bench: &Bench, election: u128, grid: Grid) -> Running {
        let settings = agent::Settings {
            target: bench.target(),
            election,
            program: bench.program.clone(),
            tables: statements(ONE_LINK),
            slot_length: SLOT,
            lead: Nanos(SLOT.0 / 4),
            poll: Duration::from_millis(100),
        };
        #[allow(clippy::disallowed_methods, reason = "a test is over before it could grow")]
        let (tell, news) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let tell = move |news: News| drop(tell.send(news));
        let task = tokio::spawn(async move {
            agent::run(settings, move || grid.now(), tell, async {
                let _ = stopped.await;
            })
            .await
        });
        Running { news, stop, task }
    }

    /// Waits for news of this kind.
    pub async fn until(&mut self, wanted: impl Fn(&News) -> bool) -> News {
        loop {
            let news = self.news.recv().await.expect("the agent runs");
            if wanted(&news) {
                return news;
            }
        }
    }

    /// Waits until the tables are filled, at a switch that has begun anew or not.
    pub async fn filled(&mut self, anew: bool) {
        self.until(|news| matches!(news, News::Filled { restarted, .. } if *restarted == anew)).await;
    }

    /// Stops it, and waits until it has.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}
