//! A real `sluice-switch` on loopback ports, ended with the value that started it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_schedule::{
    Announcement, BootId, Bytes, Feedback, FlowId, FlowPromise, HolderId, HostId, JobId, LinkId, Nanos, Rate, Slot,
};
use sluice_wire::dial::Dial;
use sluice_wire::hello::{ClockSource, Grid, Hello};
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::{SessionClient, SessionError, SessionReceiver};

/// Longer than anything here takes, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running process.
pub struct Switch {
    child: Child,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub udp: SocketAddr,
    pub boot: String,
    _dir: tempfile::TempDir,
}

impl Switch {
    /// Two ports on `s0`, one on `s1`, any free addresses.
    pub fn start() -> Switch {
        Switch::start_with("", "127.0.0.1:0".parse().unwrap())
    }

    /// With more keys, and this gRPC address.
    pub fn start_with(keys: &str, grpc: SocketAddr) -> Switch {
        Switch::of(&Switch::configuration(keys, grpc))
    }

    /// What [`Switch::start_with`] writes.
    pub fn configuration(keys: &str, grpc: SocketAddr) -> String {
        format!(
            "{keys}\nlease_slots = 5\nslot.length_ms = 200\nclock.require_sync = false\n[listen]\ngrpc = \"{grpc}\"\nudp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n\
             [[switches]]\nname = \"s0\"\nports = [{{ id = 0, to = \"h0\", gbps = 10, routes = [\"10.0.0.1\"] }}, {{ id = 1, to = \"h1\", gbps = 10, routes = [\"10.0.0.2\"] }}]\n\
             [[switches]]\nname = \"s1\"\nports = [{{ id = 0, to = \"h2\", gbps = 1, background_gbps = 0.25 }}]\n"
        )
    }

    /// With this configuration.
    pub fn of(text: &str) -> Switch {
        Switch::told_by(text, None)
    }

    /// With this configuration, and a service manager that listens there.
    pub fn told_by(text: &str, manager: Option<&Path>) -> Switch {
        let dir = tempfile::tempdir().unwrap();
        let config: PathBuf = dir.path().join("switch.toml");
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-switch"));
        command.arg("--config").arg(&config).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env_remove("NOTIFY_SOCKET").envs(manager.map(|path| ("NOTIFY_SOCKET", path)));
        let mut child = die_with_this_thread(&mut command).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let bound: serde_json::Value = serde_json::from_str(&line).unwrap();
        let text = |key: &str| bound[key].as_str().unwrap().to_owned();
        let address = |key: &str| text(key).parse().unwrap();
        let (grpc, http, udp, boot) = (address("grpc"), address("http"), address("udp"), text("boot"));
        Switch { child, grpc, http, udp, boot, _dir: dir }
    }

    pub fn uri(&self) -> String {
        format!("http://{}", self.grpc)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(mut self) -> ExitStatus {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap()
    }

    /// The body of an HTTP answer.
    pub fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The value of a metric line that begins like this.
    pub fn metric(&self, line: &str) -> Option<f64> {
        let text = self.get("/metrics");
        text.lines().find(|other| other.starts_with(line))?.rsplit(' ').next()?.parse().ok()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What this command starts ends with the thread that starts it, however that ends.
pub fn die_with_this_thread(command: &mut Command) -> &mut Command {
    let setup = || {
        // SAFETY: it takes one integer and touches no memory of ours.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(setup) }
}

/// The grid of these tests: with long slots and leases a busy machine keeps up.
pub fn grid() -> Grid {
    Grid {
        cluster: "default".into(),
        slot_length: Nanos::from_millis(200),
        horizon: 10,
        epoch: Nanos::ZERO,
        clock: ClockSource::Realtime,
    }
}

/// The slot now, on that grid.
pub fn slot() -> Slot {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Slot((now.as_nanos() / 200_000_000) as u32)
}

/// A host's hello.
pub fn hello(name: &str) -> Hello {
    Hello { grid: grid(), name: name.into(), host: HostId::of(name), boot: BootId(1), slot: slot(), now: Nanos::ZERO }
}

/// `rate` on port `port` of `s0`, watching both of its ports.
pub fn announcement(name: &str, seq: u64, port: u32, rate: Rate) -> Announcement {
    let (host, s0) = (HostId::of(name), HolderId::of("s0"));
    let flow = FlowPromise {
        flow: FlowId(u64::from(host.0) << 32 | 1),
        job: JobId::of(name),
        key: Nanos::from_millis(100),
        takes: rate,
        rates: vec![rate; 10],
        demand: Bytes(1_000_000),
        links: vec![LinkId::new(s0.0, port)],
        ..FlowPromise::default()
    };
    Announcement {
        host,
        boot: BootId(1),
        seq,
        slot: slot(),
        flows: vec![flow],
        watch: vec![LinkId::new(s0.0, 0), LinkId::new(s0.0, 1)],
        ..Announcement::default()
    }
}

/// A session, begun.
pub async fn connect(switch: &Switch, name: &str) -> SessionClient {
    admitted(&Dial::Plain, &switch.uri(), name).await.unwrap()
}

/// A session of a host that says hello anew, with the slot of then, while it is [`too_late`].
pub async fn admitted(dial: &Dial, uri: &str, name: &str) -> Result<SessionClient, SessionError> {
    let began = Instant::now();
    loop {
        let hello = hello(name);
        let connecting = SessionClient::connect_by(dial, uri, &hello);
        match tokio::time::timeout(PATIENCE, connecting).await.unwrap() {
            Err(error) if too_late(error.refusal_id(), began) => {}
            answer => return answer,
        }
    }
}

/// Was a hello refused for coming too late, and is there time to say another one? A slot or two may pass before a busy machine reads
/// it. Any other answer is the answer.
pub fn too_late(refusal: Option<RefusalId>, began: Instant) -> bool {
    refusal == Some(RefusalId::SlotOffsetTooLarge) && began.elapsed() < PATIENCE
}

/// The first feedback of `s0` for which `fits` holds.
pub async fn hear(receiver: &mut SessionReceiver, fits: impl Fn(&Feedback) -> bool) -> Feedback {
    let search = async {
        loop {
            let news = receiver.next().await.unwrap().unwrap();
            if let Some((_, feedback)) = news.into_iter().find(|(holder, f)| *holder == HolderId::of("s0") && fits(f)) {
                return feedback;
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.unwrap()
}

/// Waits until the slot is another: the first announcement of each is sure to be answered.
pub async fn next_slot() {
    let before = slot();
    until(async || slot() != before).await;
}

/// Tries until it is so.
pub async fn until(mut so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < PATIENCE, "not so within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
