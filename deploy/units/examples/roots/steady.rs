//! A job that sends in rounds, as training does, or after some rounds without end; and its receiver, which says how long each
//! connection was silent. By its rounds a daemon knows a job from a download.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluice_testbed::fabric::Fabric;

use crate::{Result, step};

/// Where receivers listen; jobs beside each other take the next ones.
const PORT: u16 = 24_000;

/// How often a receiver says what it saw.
const EVERY: Duration = Duration::from_millis(200);

/// What a round sends on each connection, and how long the job computes between two.
const ROUND: usize = 4 << 20;
const COMPUTE: Duration = Duration::from_millis(150);
/// Rounds before one that has no end: more than a daemon has to see.
const BEFORE: usize = 8;

/// Sends on one connection to each address until the connection breaks or this process is ended. `endless`: after some rounds
/// the next one has no end.
pub fn send(endless: bool, to: &[SocketAddr]) -> Result<()> {
    let senders: Vec<_> = to
        .iter()
        .map(|&to| {
            std::thread::spawn(move || -> std::io::Result<()> {
                let mut stream = TcpStream::connect(to)?;
                let bytes = vec![0x5a; 64 << 10];
                for round in 0.. {
                    let mut left = if endless && round == BEFORE { usize::MAX } else { ROUND };
                    while left > 0 {
                        stream.write_all(&bytes)?;
                        left = left.saturating_sub(bytes.len());
                    }
                    std::thread::sleep(COMPUTE);
                }
                Ok(())
            })
        })
        .collect();
    // One that ends is a connection that broke, and all there is to say.
    loop {
        if senders.iter().any(std::thread::JoinHandle::is_finished) {
            return Err("a connection broke".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Receives, and says every [`EVERY`]: bytes so far, and the longest silence of any connection since the last word, in µs.
pub fn sink(at: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(at).map_err(step("listening"))?;
    let (bytes, silence) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (sum, longest) = (bytes.clone(), silence.clone());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (sum, longest) = (sum.clone(), longest.clone());
            std::thread::spawn(move || {
                let (mut buffer, mut last) = (vec![0; 64 << 10], None::<Instant>);
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    let now = Instant::now();
                    let silent = last.map_or(0, |last| now.duration_since(last).as_micros());
                    longest.fetch_max(u64::try_from(silent).unwrap_or(u64::MAX), Ordering::Relaxed);
                    sum.fetch_add(n as u64, Ordering::Relaxed);
                    last = Some(now);
                }
            });
        }
    });
    let mut out = std::io::stdout();
    loop {
        std::thread::sleep(EVERY);
        let (bytes, silence) = (bytes.load(Ordering::Relaxed), silence.swap(0, Ordering::Relaxed));
        writeln!(out, "{bytes} {silence}").and_then(|()| out.flush()).map_err(step("telling"))?;
    }
}

/// A running job: one sender on host 0, a receiver on each other host.
pub struct Steady {
    sender: Child,
    sinks: Vec<(Child, Arc<Mutex<Vec<Word>>>)>,
}

/// What a receiver said, and when it was heard.
#[derive(Clone, Copy, Debug)]
struct Word {
    at: Instant,
    bytes: u64,
    silence_us: u64,
}

/// What went over in a time.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Payload, Mbit/s.
    pub mbps: f64,
    /// The longest time in which some connection brought nothing, ms.
    pub silence_ms: f64,
}

impl Steady {
    /// Starts the job of this number and name, with so many connections; `endless` as [`send`] has it.
    pub fn start(fabric: &Fabric, (number, name): (u16, &str), connections: usize, endless: bool) -> Result<Steady> {
        let own = std::env::current_exe().map_err(step("this program"))?;
        let at = |host: usize| SocketAddr::from((fabric.hosts[host].address, PORT + number));
        let mut sinks = Vec::new();
        for (host, node) in fabric.hosts.iter().enumerate().skip(1) {
            let mut command = Command::new(&own);
            command.args(["sink", &at(host).to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = node.ns.spawn(command, None).map_err(step("a receiver"))?;
            let out = child.stdout.take().ok_or("no pipe")?;
            let words = Arc::new(Mutex::new(Vec::new()));
            let to = words.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(std::io::Result::ok) {
                    let mut numbers = line.split(' ').map(str::parse);
                    if let (Some(Ok(bytes)), Some(Ok(silence_us)), Ok(mut words)) =
                        (numbers.next(), numbers.next(), to.lock())
                    {
                        words.push(Word { at: Instant::now(), bytes, silence_us });
                    }
                }
            });
            sinks.push((child, words));
        }
        std::thread::sleep(Duration::from_millis(300));
        let mut command = Command::new(&own);
        let hosts = fabric.hosts.len() - 1;
        command
            .arg("send")
            .args(endless.then_some("--endless"))
            .args((0..connections).map(|n| at(1 + n % hosts).to_string()));
        // What a daemon goes by: the job's name and ranks.
        command.env("SLUICE_JOB_ID", name).env("RANK", "0").env("WORLD_SIZE", "3").stdin(Stdio::null());
        let sender = fabric.hosts[0].ns.spawn(command, None).map_err(step("a sender"))?;
        Ok(Steady { sender, sinks })
    }

    /// What went over since then.
    ///
    /// # Errors
    /// When a connection broke.
    pub fn since(&mut self, begin: Instant) -> Result<Seen> {
        if let Some(status) = self.sender.try_wait().map_err(step("the sender"))? {
            return Err(format!("a connection was reset: the sender ended with {status}"));
        }
        let (mut mbps, mut silence_us) = (0.0, 0);
        for (_, words) in &self.sinks {
            let words = words.lock().map_err(step("a receiver"))?;
            let mine: Vec<&Word> = words.iter().filter(|word| word.at >= begin).collect();
            let (Some(first), Some(last)) = (mine.first(), mine.last()) else {
                return Err("a receiver is silent".into());
            };
            let seconds = last.at.duration_since(first.at).as_secs_f64().max(1e-9);
            mbps += (last.bytes - first.bytes) as f64 * 8e-6 / seconds;
            // The first word tells of a time before.
            silence_us = mine.iter().skip(1).map(|word| word.silence_us).fold(silence_us, u64::max);
        }
        Ok(Seen { mbps, silence_ms: silence_us as f64 / 1e3 })
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.sender).chain(self.sinks.iter_mut().map(|(child, _)| child)) {
            // It may have ended with its namespace.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
