//! One connection to a scripted far end, under management: what every script is played on.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    setsockopt,
    sockopt::{SndBuf, TcpCongestion},
};
use sluice_clock::monotonic;
use sluice_ebpf::{FlowStats, Row, SocketEventKind};
use sluice_impairment::tun;
use sluice_schedule::event::Allowance;
use sluice_schedule::{Nanos, Rate};

use super::peer::Peer;
use super::script::{Data, Fate, Habits};
use crate::common::{self, Kernelled, Net};

/// What a script found wrong.
pub type Outcome = Result<(), String>;

/// What is ordered, unless a script says otherwise.
pub const ORDER: Rate = Rate::mbps(16);
const HERE: Ipv4Addr = Ipv4Addr::new(10, 234, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 234, 0, 2);
/// The congestion control that it has before: every kernel has it, and it takes the window and threshold that it is given.
const EARLIER: &str = "reno";
/// What the socket holds, so that a sender that pauses is silent soon.
const HELD: usize = 200_000;
/// One order's life, and how often it is renewed.
const LIFE: Nanos = Nanos::from_millis(180);
const RENEWED: Duration = Duration::from_millis(20);
/// Whatever has to happen happens within this.
const PATIENCE: Duration = Duration::from_secs(4);
/// It is plain for no longer than this, also after the loss guard has given it back a second time.
const BANNED: Duration = Duration::from_secs(15);
/// The most that TCP remembers of a window, as the kernel counts "none yet".
pub const NO_THRESHOLD: u32 = 0x7fff_ffff;

pub struct Stage<'a> {
    net: &'a Net,
    kernel: &'a mut Kernelled,
    pub peer: Option<Peer>,
    pub stream: TcpStream,
    pub row: Row,
    pub order: Rate,
    pub surplus: Option<Allowance>,
    renews: bool,
    paused: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl<'a> Stage<'a> {
    /// A connection that is captured before its first byte.
    pub fn open(
        net: &'a Net,
        kernel: &'a mut Kernelled,
        habits: Habits,
        fate: impl FnMut(&Data) -> Fate + Send + 'static,
    ) -> Result<Stage<'a>, String> {
        let device = net.in_a(|| {
            std::fs::write("/proc/sys/net/ipv4/tcp_ecn", if habits.ecn { "1" } else { "2" })
                .map_err(|e| e.to_string())?;
            let file = tun("tun0").map_err(|e| format!("/dev/net/tun: {e}"))?;
            for arguments in [format!("addr add {HERE}/24 dev tun0"), "link set tun0 up".into()] {
                let done = Command::new("ip").args(arguments.split(' ')).status().map_err(|e| e.to_string())?;
                done.success().then_some(()).ok_or_else(|| format!("ip {arguments}"))?;
            }
            Ok::<_, String>(file)
        })?;
        let peer = Peer::start(device, habits, fate);
        let address = SocketAddr::from((THERE, common::port()));
        let stream =
            net.in_a(|| TcpStream::connect_timeout(&address, PATIENCE)).map_err(|e| format!("connect: {e}"))?;
        setsockopt(&stream, SndBuf, &HELD).map_err(|e| e.to_string())?;
        setsockopt(&stream, TcpCongestion, &EARLIER.into()).map_err(|e| e.to_string())?;
        kernel.seen.clear();
        let wanted = common::wanted(&stream, ORDER);
        kernel.try_to_take(net, wanted).map_err(|refused| format!("not captured: {refused:?}"))?;
        let opened = kernel.wait_for(|e| e.kind == SocketEventKind::Opened && e.cookie == wanted.cookie);
        let row = opened.ok_or("no Opened event")?.row;
        let (paused, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut out = stream.try_clone().map_err(|e| e.to_string())?;
        let (pausing, stopping) = (paused.clone(), stop.clone());
        let writer = std::thread::spawn(move || {
            let piece = vec![0; 16 * 1024];
            while !stopping.load(Ordering::Relaxed) {
                if pausing.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                } else if out.write_all(&piece).is_err() {
                    break;
                }
            }
        });
        Ok(Stage {
            net,
            kernel,
            peer: Some(peer),
            stream,
            row,
            order: ORDER,
            surplus: None,
            renews: true,
            paused,
            stop,
            writer: Some(writer),
        })
    }

    pub fn peer(&self) -> &Peer {
        self.peer.as_ref().expect("until it is dropped")
    }

    pub fn kernel(&mut self) -> &mut Kernelled {
        self.kernel
    }

    /// Does the application send?
    pub fn sends(&self, sends: bool) {
        self.paused.store(!sends, Ordering::Relaxed);
    }

    /// Nobody renews its orders any more.
    pub fn nobody_renews(&mut self) {
        self.renews = false;
    }

    fn renew(&mut self) {
        if self.renews {
            let (row, order, surplus) = (self.row, self.order, self.surplus);
            self.kernel.path().order_with(row, order, surplus, monotonic().plus(LIFE));
        }
    }

    /// Lets time pass, with orders renewed.
    pub fn run(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.renew();
            std::thread::sleep(RENEWED.min(end.saturating_duration_since(Instant::now())));
        }
    }

    /// Lets time pass until this is so; an error names it if it never is.
    pub fn until(&mut self, what: &str, mut so: impl FnMut(&mut Stage<'a>) -> bool) -> Outcome {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if so(self) {
                return Ok(());
            }
            self.run(RENEWED);
        }
        Err(format!("never: {what}; {}", self.told()))
    }

    /// An event of this kind comes for its row.
    pub fn event(&mut self, kind: SocketEventKind) -> Outcome {
        let row = self.row;
        self.until(&format!("{kind:?}"), |stage| {
            let mut out = Vec::new();
            stage.kernel.path().events(&mut out);
            stage.kernel.seen.extend(out);
            stage.kernel.seen.iter().any(|event| event.kind == kind && event.row == row)
        })
    }

    pub fn stats(&mut self) -> Result<FlowStats, String> {
        self.kernel.path().stats(self.row).ok_or_else(|| format!("its row is gone; it is under {}", self.control()))
    }

    pub fn control(&self) -> String {
        common::control(&self.stream)
    }

    pub fn info(&self) -> libc::tcp_info {
        common::tcp_info(&self.stream)
    }

    /// Segments that the kernel takes to be on the path.
    pub fn flying(&self) -> u32 {
        let info = self.info();
        info.tcpi_unacked - (info.tcpi_sacked + info.tcpi_lost).min(info.tcpi_unacked) + info.tcpi_retrans
    }

    /// Everything that may explain a failure.
    pub fn told(&mut self) -> String {
        let (stats, counters) = (self.kernel.path().stats(self.row), self.kernel.path().counters());
        let info = self.info();
        let (window, threshold, again) = (info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh, info.tcpi_total_retrans);
        format!(
            "{}, window {window}, threshold {threshold}, sent again {again}, {stats:?}, {counters:?}, {:?}",
            self.control(),
            self.peer().seen()
        )
    }

    /// It is managed, paced at exactly its order, under no guard, and its window is what the order asks for.
    pub fn follows(&mut self) -> Outcome {
        let order = self.order;
        let mut last = (0, 0);
        self.until("it follows its order", |stage| {
            let info = stage.info();
            last = (info.tcpi_snd_cwnd, window(order, &info));
            let exact = stage.stats().is_ok_and(|stats| stats.pacing_rate == order && !stats.loss_guard);
            exact && stage.control().starts_with("sluice") && last.0.abs_diff(last.1) <= 1
        })
        .map_err(|why| format!("window {} for {}: {why}", last.0, last.1))
    }

    /// Bytes go on to arrive: at least a third of what is ordered, for a machine may be busy, and no more than that.
    pub fn moves(&mut self) -> Outcome {
        let (before, began) = (self.peer().seen().bytes, Instant::now());
        self.run(Duration::from_millis(300));
        let bytes = self.peer().seen().bytes - before;
        let ordered = self.order.bytes_per_second() as f64 * began.elapsed().as_secs_f64();
        // The order is of payload; a window's worth may have waited.
        if bytes as f64 > ordered / 3.0 && (bytes as f64) < ordered * 1.2 + 65_536.0 {
            return Ok(());
        }
        Err(format!("{bytes} bytes arrived where {ordered:.0} were ordered; {}", self.told()))
    }

    /// It was given back for this reason, and has the congestion control that it had.
    pub fn is_given_back(&mut self, kind: SocketEventKind) -> Outcome {
        self.event(kind)?;
        let control = self.control();
        if control == EARLIER { Ok(()) } else { Err(format!("under {control}, not {EARLIER}; {}", self.told())) }
    }

    /// Asks for it until it is taken again, under a row of its own. Returns how long that took.
    pub fn plain_for(&mut self) -> Result<Duration, String> {
        let (began, before) = (Instant::now(), self.row);
        while self.take_again().is_err() {
            if began.elapsed() > BANNED {
                return Err(format!("not taken for {BANNED:?}; {}", self.told()));
            }
            std::thread::sleep(RENEWED);
        }
        let time = began.elapsed();
        self.until("it has a row again", |stage| {
            let mut out = Vec::new();
            stage.kernel.path().events(&mut out);
            stage.kernel.seen.extend(out);
            let opened = stage.kernel.seen.iter().rev().find(|event| event.kind == SocketEventKind::Opened);
            stage.row = opened.map_or(before, |event| event.row);
            stage.row != before
        })?;
        Ok(time)
    }

    /// Asks for it once more.
    pub fn take_again(&mut self) -> Result<(), sluice_ebpf::NotTaken> {
        let wanted = common::wanted(&self.stream, self.order);
        self.kernel.try_to_take(self.net, wanted)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its reset ends the connection, and with it whatever the writer waits for.
        drop(self.peer.take());
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Segments that keep a rate going twice over, and some to spare: what `bpf/sluice_guards.h` says in its own words.
fn window(order: Rate, info: &libc::tcp_info) -> u32 {
    let (rate, segment) = (order.bytes_per_second(), u64::from(info.tcpi_snd_mss).max(1));
    let round_trip = u64::from(info.tcpi_rtt).min(1_000_000);
    let spare = (rate / 100 / segment).clamp(4, 64);
    u32::try_from(rate * 2 * round_trip / 1_000_000 / segment + spare).unwrap_or(u32::MAX).max(4)
}
