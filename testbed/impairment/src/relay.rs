//! Delay and loss between two namespaces, for tests: a relay between two TUN or TAP devices in user space.
//!
//! Meant for some 10 000 packets a second, which through TAP devices are several segments each; the machine may have no
//! netem.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

/// Packets under way in one direction; more are dropped, as a router would.
const QUEUE: usize = 4096;
/// The largest packet with an Ethernet header, and what the kernel puts before a frame of a TAP device (struct
/// virtio_net_hdr).
const LARGEST: usize = 65_536 + 14 + 10;
/// The relay looks at its stop flag at least this often.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Makes the TUN device `name`, which passes on packets, in the caller's network namespace; it goes when the file is closed.
///
/// # Errors
/// The system's refusal (needs CAP_NET_ADMIN and /dev/net/tun).
pub fn tun(name: &str) -> io::Result<File> {
    const IFF_TUN: u16 = 1;
    device(name, IFF_TUN)
}

/// The same with a TAP device, which passes on frames, as an Ethernet card does: several segments of one connection in one
/// frame, as far as the device's `gso_max_size` lets it, with what the card would need to know to part them.
///
/// # Errors
/// As [`tun`].
pub fn tap(name: &str) -> io::Result<File> {
    const IFF_TAP: u16 = 2;
    const IFF_VNET_HDR: u16 = 0x4000;
    const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
    // Checksums and segments of TCP over IPv4 and IPv6 may be left to whoever reads.
    const TUN_F_CSUM_TSO4_TSO6: libc::c_ulong = 7;
    let file = device(name, IFF_TAP | IFF_VNET_HDR)?;
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, TUN_F_CSUM_TSO4_TSO6) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

fn device(name: &str, kind: u16) -> io::Result<File> {
    const IFF_NO_PI: u16 = 0x1000;
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let mut request = Request { name: [0; 16], flags: kind | IFF_NO_PI, rest: [0; 22] };
    if name.is_empty() || name.len() > 15 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("interface name {name:?}: 1 to 15 bytes")));
    }
    request.name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: TUNSETIFF reads and writes a struct ifreq, whose size and layout `Request` has.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, std::ptr::from_mut(&mut request)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

#[derive(Default)]
struct Counts {
    dropped: AtomicU64,
    overflowed: AtomicU64,
    cpu_ns: AtomicU64,
}

/// Carries packets between two TUN or two TAP devices until dropped.
pub struct Relay {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Carries every packet `delay` later; from `a` to `b` each is lost with `probability` (0 to 1).
    pub fn start(a: File, b: File, delay: Duration, probability: f64) -> Relay {
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
        let (stopping, counting) = (stop.clone(), counts.clone());
        let thread = std::thread::spawn(move || {
            // Before everything that it carries: a wire waits for nobody's processor. Refusal is no error.
            // SAFETY: plain integers; 0 names the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
            let mut there = Lane { queue: VecDeque::new(), delay, overflowed: 0 };
            let mut back = Lane { queue: VecDeque::new(), delay, overflowed: 0 };
            let mut counted = Instant::now();
            let mut dice = Dice(0x2545_f491_4f6c_dd1d);
            let mut buffer = vec![0_u8; LARGEST];
            while !stopping.load(Ordering::Relaxed) {
                wait(&a, &b, [&there, &back]);
                there.take(&a, &mut buffer, || {
                    let lost = dice.next() < probability;
                    counting.dropped.fetch_add(u64::from(lost), Ordering::Relaxed);
                    !lost
                });
                back.take(&b, &mut buffer, || true);
                there.give(&b);
                back.give(&a);
                if counted.elapsed() >= MAX_WAIT {
                    counted = Instant::now();
                    counting.overflowed.store(there.overflowed + back.overflowed, Ordering::Relaxed);
                    counting.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
                }
            }
        });
        Relay { stop, counts, thread: Some(thread) }
    }

    /// Packets lost at random so far.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Packets lost so far because too many were under way, counted twenty times a second.
    pub fn overflowed(&self) -> u64 {
        self.counts.overflowed.load(Ordering::Relaxed)
    }

    /// Processor time taken so far, looked at twenty times a second.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.counts.cpu_ns.load(Ordering::Relaxed))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Lane {
    queue: VecDeque<(Instant, Vec<u8>)>,
    delay: Duration,
    overflowed: u64,
}

impl Lane {
    fn take(&mut self, mut from: &File, buffer: &mut [u8], mut keep: impl FnMut() -> bool) {
        while let Ok(len) = from.read(buffer) {
            if !keep() {
                continue;
            }
            if self.queue.len() >= QUEUE {
                self.overflowed += 1;
            } else if let Some(packet) = buffer.get(..len) {
                self.queue.push_back((Instant::now() + self.delay, packet.to_vec()));
            }
        }
    }

    fn give(&mut self, mut to: &File) {
        let now = Instant::now();
        while let Some((due, packet)) = self.queue.front() {
            if *due > now {
                break;
            }
            // A full device drops: so would a wire.
            let _ = to.write(packet);
            self.queue.pop_front();
        }
    }
}

fn wait(a: &File, b: &File, lanes: [&Lane; 2]) {
    let due = lanes.iter().filter_map(|l| l.queue.front()).map(|(due, _)| *due).min();
    let left = due.map_or(MAX_WAIT, |due| due.saturating_duration_since(Instant::now()).min(MAX_WAIT));
    let mut fds = [PollFd::new(a.as_fd(), PollFlags::POLLIN), PollFd::new(b.as_fd(), PollFlags::POLLIN)];
    // An interrupted wait is a short wait.
    let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(left)), None);
}

fn thread_cpu_ns() -> u64 {
    // This clock exists on every kernel that runs this.
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |time| Duration::from(time).as_nanos().try_into().unwrap_or(u64::MAX))
}

/// xorshift64*: enough for tossing packets, and the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_in_a_hundred() {
        let mut dice = Dice(7);
        let lost = (0..100_000).filter(|_| dice.next() < 0.01).count();
        assert!((800..1200).contains(&lost), "{lost}");
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert!(tun("an-interface-with-a-long-name").unwrap_err().to_string().contains("1 to 15"));
    }
}
