//! A worker or a server: the handshake, then rounds of pushes and pulls, and a few calls that go wrong on purpose.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::calls::{self, Socket, Style};

/// Prefix of a line that a node says.
pub const SAID: &str = "said: ";
/// Prefix of the line with the nanoseconds that the exchange took.
pub const TOOK: &str = "took: ";
/// The line with which it has done its work.
pub const DONE: &str = "said all";

/// What a pair of nodes does.
#[derive(Clone, Debug)]
pub struct Job {
    pub rounds: u32,
    /// Bytes of each key's tensor.
    pub sizes: Vec<usize>,
    pub style: Style,
    /// Servers answer over the worker's own connection, with their name before, as bytedance's do.
    pub one_connection: bool,
    /// One push of the worker is sent by a forked child.
    pub fork: bool,
}

impl Job {
    /// Bytes of all tensors of a round.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| *size as u64).sum()
    }

    fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        let style = match self.style {
            Style::Zmq => "zmq 0".to_owned(),
            Style::Plain(most) => format!("plain {most}"),
            Style::Mixed(seed) => format!("mixed {seed}"),
        };
        format!("{} {} {style} {} {}", self.rounds, sizes.join(","), self.one_connection, self.fork)
    }

    fn read(text: &str) -> Job {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let style = match words[2] {
            "zmq" => Style::Zmq,
            "plain" => Style::Plain(number(3) as usize),
            _ => Style::Mixed(number(3)),
        };
        let sizes = words[1].split(',').map(|size| size.parse().expect("a size")).collect();
        let (one_connection, fork) = (words[4] == "true", words[5] == "true");
        Job { rounds: number(0) as u32, sizes, style, one_connection, fork }
    }
}

/// What is told to a node.
pub fn tell(command: &mut Command, worker: bool, meeting: &Path, job: &Job) {
    command.args(["--ignored", "--exact", "preload::node", "--nocapture", "--test-threads=1"]);
    command.env("SLUICE_TEST_NODE", if worker { "worker" } else { "server" });
    command.env("SLUICE_TEST_MEETING", meeting).env("SLUICE_TEST_JOB", job.text());
    command.env("DMLC_PS_ROOT_URI", "127.0.0.1").env("DMLC_PS_ROOT_PORT", "9091");
    command.env("DMLC_NUM_WORKER", "1").env("DMLC_NUM_SERVER", "1");
}

/// The role of a node that this process was started as.
pub fn wanted() -> Option<bool> {
    std::env::var("SLUICE_TEST_NODE").ok().map(|role| role == "worker")
}

/// Everything a node does, and its connections. It says how much it sent and received, and how calls ended that have to
/// go wrong.
pub fn run(worker: bool) -> [Socket; 2] {
    let meeting = std::env::var_os("SLUICE_TEST_MEETING").expect("told");
    let job = Job::read(&std::env::var("SLUICE_TEST_JOB").expect("told"));
    let lines = wrong_calls();
    let (more, sockets) = exchange(worker, Path::new(&meeting), &job);
    for line in lines.iter().chain(&more) {
        println!("{SAID}{line}");
    }
    sockets
}

/// Says that all is done, and waits to be let go.
pub fn wait() {
    println!("{DONE}");
    let _ = std::io::read_to_string(std::io::stdin());
}

unsafe extern "C" {
    /// `close_range(2)`, which the C library has for some years.
    fn close_range(first: libc::c_uint, last: libc::c_uint, flags: libc::c_int) -> libc::c_int;
}

/// Calls that go wrong, on descriptors of all kinds; what they return and leave in errno.
fn wrong_calls() -> Vec<String> {
    let (mut lines, mut byte, none) = (Vec::new(), [0_u8; 8], std::ptr::null_mut::<std::ffi::c_void>());
    let mut say = |name: &str, result: isize| lines.push(format!("{name} {result} errno {}", calls::errno()));
    let at = byte.as_mut_ptr().cast();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("bound").port();
    let fd = calls::socket();
    let refused = calls::connect(fd, free);
    say("connect", refused as isize);
    let mut ends = [0; 2];
    // SAFETY: every place is ours or not there on purpose.
    unsafe {
        say("close", libc::close(fd) as isize);
        for (name, fd) in [("none", -1), ("closed", fd), ("beyond", 1 << 20)] {
            calls::set_errno(77);
            say(name, libc::send(fd, at, 1, 0));
            say(name, libc::recv(fd, at, 1, 0));
            say(name, libc::read(fd, at, 1));
            say(name, libc::write(fd, at, 1));
            say(name, libc::readv(fd, std::ptr::null(), 1));
            say(name, libc::writev(fd, std::ptr::null(), -1));
            say(name, libc::recvmsg(fd, none.cast(), 0));
            say(name, libc::sendmsg(fd, none.cast(), 0));
            say(name, libc::accept(fd, none.cast(), none.cast()) as isize);
            say(name, libc::connect(fd, std::ptr::null(), 0) as isize);
            say(name, libc::sendmmsg(fd, none.cast(), 1, 0) as isize);
            say(name, libc::recvmmsg(fd, none.cast(), 1, 0, none.cast()) as isize);
            say(name, libc::dup(fd) as isize);
            say(name, libc::dup2(fd, 500) as isize);
            say(name, libc::dup3(fd, 500, 0) as isize);
            say(name, libc::dup3(fd, fd, 0) as isize);
            say(name, libc::close(fd) as isize);
        }
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0, ends.as_mut_ptr());
        let [a, b] = ends;
        say("empty", libc::recv(a, at, 8, 0));
        say("faults", libc::sendmmsg(a, none.cast(), 1, 0) as isize);
        say("itself", isize::from(libc::dup2(a, a) == a));
        say("nowhere", libc::dup2(a, -1) as isize);
        say("flags", libc::dup3(a, 500, 99) as isize);
        say("backwards", close_range(9, 8, 0) as isize);
        say("strange", close_range(8, 9, 64) as isize);
        say("text", libc::write(a, b"hello".as_ptr().cast(), 5));
        say("text", libc::read(b, at, 8));
        say("fault", libc::recv(b, none, 8, 0));
        libc::close(b);
        say("pipe", libc::send(a, at, 8, libc::MSG_NOSIGNAL));
        say("end", libc::recv(a, at, 8, 0));
        libc::close(a);
    }
    lines.push(format!("{byte:?}"));
    lines
}

/// The two nodes meet, shake hands and exchange tensors.
fn exchange(worker: bool, meeting: &Path, job: &Job) -> (Vec<String>, [Socket; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let (own, other) = if worker { ("worker", "server") } else { ("server", "worker") };
    let temporary = meeting.join(format!("{own}.new"));
    fs::write(&temporary, listener.local_addr().expect("bound").port().to_string()).expect("written");
    fs::rename(&temporary, meeting.join(own)).expect("renamed");
    let begin = Instant::now();
    let port = loop {
        match fs::read_to_string(meeting.join(other)) {
            Ok(port) => break port.parse().expect("a port"),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the other node does not come");
    };
    let connected = calls::socket();
    assert_eq!((calls::connect(connected, port), calls::errno()), (0, 77));
    let mut out = Socket::new(connected, job.style);
    let mut back = Socket::new(calls::accept(listener.as_raw_fd(), worker), job.style);
    hello(&mut out, Some(if worker { "ps9" } else { "ps8" }));
    hello(&mut back, None);
    listen(&mut out);
    listen(&mut back);
    let begin = Instant::now();
    let (sum, by_child) =
        if worker { push_and_pull(job, &mut out, &mut back) } else { serve(job, &mut out, &mut back) };
    let nanos = begin.elapsed().as_nanos();
    // All has arrived at the other end before its last receive returns; both pages are complete now.
    let (sent, received) = (out.sent + back.sent, out.received + back.received);
    println!("{TOOK}{nanos}");
    let lines = vec![format!("sent {sent} received {received} by-child {by_child} sum {sum}")];
    (lines, [out, back])
}

/// Bytes of a connection before its first message.
pub fn handshake_bytes(name: Option<&str>) -> u64 {
    64 + ready(name).len() as u64
}

fn hello(socket: &mut Socket, name: Option<&str>) {
    let mut greeting = [0_u8; 64];
    (greeting[0], greeting[8], greeting[9], greeting[10], greeting[11]) = (0xff, 1, 0x7f, 3, 1);
    greeting[12..16].copy_from_slice(b"NULL");
    socket.send(&greeting);
    socket.send(&ready(name));
    socket.flush();
}

fn ready(name: Option<&str>) -> Vec<u8> {
    let (kind, name) = (if name.is_some() { "DEALER" } else { "ROUTER" }, name.unwrap_or_default());
    let mut body = b"\x05READY\x0bSocket-Type\0\0\0\x06".to_vec();
    body.extend(kind.as_bytes());
    body.extend(b"\x08Identity\0\0\0");
    body.push(name.len() as u8);
    body.extend(name.as_bytes());
    frame(4, &body)
}

fn listen(socket: &mut Socket) {
    socket.receive(&mut [0; 64]);
    assert_eq!(receive_frame(socket).0, 4);
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flags];
    if body.len() < 256 {
        bytes.push(body.len() as u8);
    } else {
        bytes[0] |= 2;
        bytes.extend((body.len() as u64).to_be_bytes());
    }
    bytes.extend(body);
    bytes
}

fn receive_frame(socket: &mut Socket) -> (u8, Vec<u8>) {
    let mut flags = [0];
    socket.receive(&mut flags);
    let size = if flags[0] & 2 == 0 {
        let mut short = [0];
        socket.receive(&mut short);
        short[0] as usize
    } else {
        let mut long = [0; 8];
        socket.receive(&mut long);
        u64::from_be_bytes(long) as usize
    };
    let mut body = vec![0; size];
    socket.receive(&mut body);
    (flags[0] & !2, body)
}

/// dmlc's meta, or bytedance's of 2021 where servers answer as bytedance's do.
fn meta(job: &Job, request: bool, push: bool) -> Vec<u8> {
    if !job.one_connection {
        let pull = [12 << 3, u8::from(!push)];
        return [&[8, 0, 32, u8::from(request), 40, u8::from(push), 56, 0, 64, 9, 0x4a, 3, 5, 8, 3, 80, 0][..], &pull]
            .concat();
    }
    let mut bytes = vec![0; 112];
    (bytes[32], bytes[44], bytes[68]) = (request.into(), 3, push.into());
    bytes.extend([0; 12]);
    bytes
}

/// Sends a message, frame by frame as they are.
fn send_message(socket: &mut Socket, frames: &[&[u8]]) {
    for (at, body) in frames.iter().enumerate() {
        let more = u8::from(at + 1 < frames.len());
        // A large body goes straight from where it lies, as libzmq does it.
        let head = frame(more, body);
        if body.len() < 8192 {
            socket.send(&head);
        } else {
            socket.send(&head[..9]);
            socket.send(body);
        }
    }
    socket.flush();
}

fn receive_message(socket: &mut Socket) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        let (more, body) = receive_frame(socket);
        frames.push(body);
        if more == 0 {
            return frames;
        }
    }
}

fn sum_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn push_and_pull(job: &Job, out: &mut Socket, back: &mut Socket) -> (u64, u64) {
    let (mut sum, mut by_child) = (0_u64, 0);
    let tensors: Vec<Vec<u8>> =
        job.sizes.iter().enumerate().map(|(key, size)| (0..*size).map(|at| (at * 7 + key) as u8).collect()).collect();
    for round in 0..job.rounds {
        for (key, tensor) in tensors.iter().enumerate() {
            let (key, lengths) = ((key as u64).to_le_bytes(), (tensor.len() as u32).to_le_bytes());
            let push = meta(job, true, true);
            let frames: [&[u8]; 4] = [&push, &key, tensor, &lengths];
            if job.fork && round + 1 == job.rounds && by_child == 0 {
                by_child = fork_to_send(out, &frames);
            } else {
                send_message(out, &frames);
            }
            let replies = if job.one_connection { &mut *out } else { &mut *back };
            receive_message(replies);
            send_message(out, &[&meta(job, true, false), &key, &[]]);
            let replies = if job.one_connection { &mut *out } else { &mut *back };
            let got = receive_message(replies);
            let values = &got[got.len() - 2];
            assert_eq!(values.len(), tensor.len());
            sum = sum.wrapping_add(if matches!(job.style, Style::Mixed(_)) { sum_of(values) } else { 0 });
        }
    }
    (sum, by_child)
}

/// A forked child sends the message; the parent's page must not hear of it. Bytes that it sent.
fn fork_to_send(out: &mut Socket, frames: &[&[u8]]) -> u64 {
    let before = out.sent;
    // SAFETY: the child only sends and ends; no other thread matters to it.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        send_message(out, frames);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our own child, and a place of ours.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(status, 0, "the child ends well");
    let heads: usize = frames.iter().map(|body| if body.len() < 256 { 2 } else { 9 }).sum();
    assert_eq!(out.sent, before);
    (frames.iter().map(|body| body.len()).sum::<usize>() + heads) as u64
}

fn serve(job: &Job, out: &mut Socket, back: &mut Socket) -> (u64, u64) {
    let mut sum = 0_u64;
    let mut store: Vec<Vec<u8>> = vec![Vec::new(); job.sizes.len()];
    for _ in 0..job.rounds * job.sizes.len() as u32 {
        let mut pushed = receive_message(back);
        let key = u64::from_le_bytes(pushed[1][..].try_into().expect("a key"));
        store[key as usize] = std::mem::take(&mut pushed[2]);
        sum = sum.wrapping_add(if matches!(job.style, Style::Mixed(_)) { sum_of(&store[key as usize]) } else { 0 });
        let (ack, reply) = (meta(job, false, true), meta(job, false, false));
        let own: &[&[u8]] = if job.one_connection { &[b"ps8"] } else { &[] };
        let replies = if job.one_connection { &mut *back } else { &mut *out };
        send_message(replies, &[own, &[&ack]].concat());
        receive_message(back);
        let (key, values) = (pushed[1].clone(), &store[key as usize]);
        let lengths = (values.len() as u32).to_le_bytes();
        let replies = if job.one_connection { &mut *back } else { &mut *out };
        send_message(replies, &[own, &[&reply, &key, values, &lengths]].concat());
    }
    (sum, 0)
}
