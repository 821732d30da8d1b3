//! The daemon itself, as it is installed: it finds a job's connection by its port, holds it, and is killed. The job is a
//! process of its own, which says when its socket changes hands.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use sluice_clock::monotonic;
use sluice_ebpf::Options;

use super::{common, holder, row};

/// How this program is told to be the job; the address to send to follows.
pub const JOB: &str = "--job";
/// What the daemon is called in the kernel.
const INSTANCE: &str = "km";
const HELD: &str = "the daemon holds a job's connection";
const BACK: &str = "the daemon: plain after kill -9";
/// A daemon that is translated takes its time to find a job.
const FINDS: Duration = Duration::from_secs(60);
/// It holds it for so long before it is killed.
const HOLDS: Duration = Duration::from_secs(1);
const LETS_GO: Duration = Duration::from_secs(5);

/// A process that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its files and what it left in the kernel are removed in the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        sluice_ebpf::cleanup::cleanup(&Options { instance: INSTANCE.into(), ..Options::default() });
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the daemon is told: nothing but where it is and what it needs to know here.
fn config(dir: &Path, port: u16) -> String {
    let (run, state) = (dir.join("run"), dir.join("state"));
    format!(
        "version = 1\nmode = \"active\"\n[node]\nname = \"matrix\"\ninstance = \"{INSTANCE}\"\nrun_dir = {run:?}\n\
         state_dir = {state:?}\n[clock]\nrequire_sync = false\n[peer]\nlisten = []\n[enforce]\nbenefit = false\n\
         [capture]\ninterfaces = [\"eth0\"]\nports = [\"{port}\"]\nthreshold_bytes = 0\n\
         [[links]]\nname = \"eth0\"\ngbps = 0.1\n"
    )
}

pub fn killed() {
    let Some(net) = common::net_alone() else { return };
    let place = Place(std::env::temp_dir().join(format!("sluice-kernel-{}", std::process::id())));
    let (dir, port) = (&place.0, common::port());
    let file = dir.join("sluiced.toml");
    let made = fs::create_dir_all(dir.join("state")).and_then(|()| fs::write(&file, config(dir, port)));
    if let Err(why) = made {
        return row(HELD, &format!("no: {}: {why}", dir.display()));
    }
    let listener = net.in_b(|| TcpListener::bind((common::B, port))).expect("bind in an own namespace");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 256 * 1024];
        while let Ok((mut peer, _)) = listener.accept() {
            while peer.read(&mut buffer).is_ok_and(|n| n > 0) {}
        }
    });
    let started = net.in_a(|| {
        let mut job = Command::new("/proc/self/exe");
        job.args([JOB, &format!("{}:{port}", common::B)]);
        job.envs([("SLUICE_JOB_ID", "matrix"), ("RANK", "0"), ("WORLD_SIZE", "2")]).stdout(Stdio::piped());
        let log = fs::File::create(dir.join("log"))?;
        let mut daemon = Command::new("sluiced");
        daemon.arg("--config").arg(&file).stdout(Stdio::null()).stderr(log);
        Ok::<_, std::io::Error>((Running(job.spawn()?), Running(daemon.spawn()?)))
    });
    let (mut job, mut daemon) = match started {
        Ok(started) => started,
        Err(why) => return row(HELD, &format!("no: {why}")),
    };
    let words = words(&mut job.0);
    if wait(&words, "held", FINDS).is_none() {
        let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(4).collect();
        return row(HELD, &format!("no: {}", last.join("; ")));
    }
    row(HELD, "yes");
    std::thread::sleep(HOLDS);
    let lives = matches!(daemon.0.try_wait(), Ok(None));
    let killed = monotonic();
    drop(daemon);
    let value = match wait(&words, "plain", LETS_GO) {
        _ if !lives => "no: it ended by itself".to_owned(),
        None => "no: still held after 5 s".to_owned(),
        Some(at) => format!("{} ms", at.saturating_sub(killed.0) / 1_000_000),
    };
    row(BACK, &value);
}

/// What the job says, as it says it.
fn words(job: &mut Child) -> Receiver<(String, u64)> {
    let (tell, words) = channel();
    let out = job.stdout.take();
    std::thread::spawn(move || {
        for line in out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
            let said = line.split_once(' ').and_then(|(word, at)| Some((word.to_owned(), at.parse().ok()?)));
            if said.is_none_or(|said| tell.send(said).is_err()) {
                return;
            }
        }
    });
    words
}

/// When the job said this word for the first time from now on.
fn wait(words: &Receiver<(String, u64)>, word: &str, time: Duration) -> Option<u64> {
    let end = Instant::now() + time;
    loop {
        match words.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((said, at)) if said == word => return Some(at),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// The job: sends for ever, some 500 Mbit/s where nothing holds it, which leaves a translated processor to the daemon; and says in
/// whose hands its socket is whenever that changes, with the time.
pub fn job(to: &str) -> ! {
    let stream = TcpStream::connect(to).expect("the test listens there");
    let mut out = stream.try_clone().expect("dup");
    std::thread::spawn(move || {
        while out.write_all(&[0; 65_536]).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut before = false;
    loop {
        let held = holder::holds(&stream);
        if held != before {
            println!("{} {}", if held { "held" } else { "plain" }, monotonic().0);
            before = held;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
