//! The far end of one TCP connection, in user space behind a TUN device: it receives, and answers as its script says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::packet::{ACK, CWR, ECE, FIN, Options, RST, Range, SYN, Segment, Times};
use super::script::{Data, Fate, Habits, Seen};

/// An acknowledgement that waits for a second segment waits no longer than this.
const PATIENCE: Duration = Duration::from_millis(40);
/// It looks at what is wished of it at least this often.
const MAX_WAIT: Duration = Duration::from_millis(5);
/// The first sequence number of its own.
const OWN: u32 = 1000;

/// How it ends the connection.
const ENDS_ITS_SIDE: u32 = 1;
const RESETS: u32 = 2;

struct Wishes {
    window: AtomicU32,
    deaf: AtomicBool,
    end: AtomicU32,
    stop: AtomicBool,
}

/// A running far end; the connection is reset when it is dropped.
pub struct Peer {
    wishes: Arc<Wishes>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Waits for a connection on this device, to whatever address.
    pub fn start(tun: File, habits: Habits, fate: impl FnMut(&Data) -> Fate + Send + 'static) -> Peer {
        let wishes = Arc::new(Wishes {
            window: AtomicU32::new(habits.window),
            deaf: AtomicBool::new(false),
            end: AtomicU32::new(0),
            stop: AtomicBool::new(false),
        });
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (theirs, told) = (wishes.clone(), seen.clone());
        let thread = std::thread::spawn(move || End::new(tun, habits, theirs, told, fate).run());
        Peer { wishes, seen, thread: Some(thread) }
    }

    pub fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has room for so many bytes from now on.
    pub fn room(&self, bytes: u32) {
        self.wishes.window.store(bytes, Ordering::Relaxed);
    }

    /// While it is deaf, everything is lost.
    pub fn deaf(&self, deaf: bool) {
        self.wishes.deaf.store(deaf, Ordering::Relaxed);
    }

    /// It sends no more itself, and goes on to receive.
    pub fn ends_its_side(&self) {
        self.wishes.end.store(ENDS_ITS_SIDE, Ordering::Relaxed);
    }

    pub fn resets(&self) {
        self.wishes.end.store(RESETS, Ordering::Relaxed);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.wishes.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Both ends' addresses.
#[derive(Clone, Copy)]
struct Ends {
    theirs: SocketAddrV4,
    own: SocketAddrV4,
}

/// A segment on its way, with the mark of a queue or without.
struct Travelling {
    segment: Segment,
    marked: bool,
}

struct End<F> {
    tun: File,
    habits: Habits,
    wishes: Arc<Wishes>,
    seen: Arc<Mutex<Seen>>,
    fate: F,
    began: Instant,
    ends: Option<Ends>,
    /// The sequence number of their first byte.
    first: u32,
    own: u32,
    /// Bytes that have come without a gap, and those beyond gaps, from one count to another.
    received: u64,
    beyond: BTreeMap<u64, u64>,
    latest: u64,
    highest: u64,
    recent: u32,
    echoes: bool,
    waiting: u32,
    owed: Option<Instant>,
    room: u32,
    on_the_way: BTreeMap<(Instant, u64), Travelling>,
    number: u64,
    free: Instant,
    ended: bool,
}

impl<F: FnMut(&Data) -> Fate> End<F> {
    fn new(tun: File, habits: Habits, wishes: Arc<Wishes>, seen: Arc<Mutex<Seen>>, fate: F) -> End<F> {
        let now = Instant::now();
        End {
            tun,
            habits,
            wishes,
            seen,
            fate,
            began: now,
            ends: None,
            first: 0,
            own: OWN,
            received: 0,
            beyond: BTreeMap::new(),
            latest: 0,
            highest: 0,
            recent: 0,
            echoes: false,
            waiting: 0,
            owed: None,
            room: habits.window,
            on_the_way: BTreeMap::new(),
            number: 0,
            free: now,
            ended: false,
        }
    }

    fn run(mut self) {
        let mut buffer = vec![0; 65_536];
        while !self.wishes.stop.load(Ordering::Relaxed) {
            self.wait();
            while let Ok(length) = self.tun.read(&mut buffer) {
                if let Some(segment) = buffer.get(..length).and_then(Segment::parse) {
                    self.leaves(segment);
                }
            }
            let now = Instant::now();
            while let Some(entry) = self.on_the_way.first_entry().filter(|entry| entry.key().0 <= now) {
                let Travelling { segment, marked } = entry.remove();
                self.arrives(&segment, marked);
            }
            if self.owed.is_some_and(|due| due <= now) {
                self.acknowledge();
            }
            self.obey();
        }
        if !self.ended {
            self.send(RST | ACK, Options::default());
        }
    }

    fn wait(&self) {
        let first = self.on_the_way.first_key_value().map(|((due, _), _)| *due);
        let due = first.into_iter().chain(self.owed).min();
        let left = due.map_or(MAX_WAIT, |due| due.saturating_duration_since(Instant::now()).min(MAX_WAIT));
        // An interrupted wait is a short wait.
        let _ =
            ppoll(&mut [PollFd::new(self.tun.as_fd(), PollFlags::POLLIN)], Some(TimeSpec::from_duration(left)), None);
    }

    fn obey(&mut self) {
        let room = self.wishes.window.load(Ordering::Relaxed);
        if room != self.room && self.ends.is_some() {
            self.room = room;
            self.acknowledge();
        }
        match self.wishes.end.swap(0, Ordering::Relaxed) {
            ENDS_ITS_SIDE => {
                self.send(FIN | ACK, Options::default());
                self.own = self.own.wrapping_add(1);
            }
            RESETS => {
                self.send(RST | ACK, Options::default());
                self.ended = true;
            }
            _ => {}
        }
    }

    /// Something was sent from there.
    fn leaves(&mut self, segment: Segment) {
        if self.ended || self.wishes.deaf.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        if segment.has(SYN) {
            self.number += 1;
            let due = (now + self.habits.round_trip, self.number);
            self.on_the_way.insert(due, Travelling { segment, marked: false });
            return;
        }
        if segment.payload == 0 {
            // One before what is expected: is there room?
            if segment.sequence.wrapping_add(1) == self.expected() && !segment.has(RST) {
                self.note(|seen| seen.probes += 1);
                self.acknowledge();
            }
            return;
        }
        let data =
            Data { number: self.number, again: self.end_of(&segment) <= self.highest, end: self.end_of(&segment) };
        self.number += 1;
        self.highest = self.highest.max(data.end);
        self.note(|seen| {
            seen.segments += 1;
            seen.again += u64::from(data.again);
            seen.largest = seen.largest.max(segment.payload);
            seen.answered += u64::from(segment.has(CWR));
        });
        let (late, marked) = match (self.fate)(&data) {
            Fate::Lost => return,
            Fate::Arrives => (Duration::ZERO, false),
            Fate::Late(by) => (by, false),
            Fate::Marked => (Duration::ZERO, true),
        };
        let mut through = now;
        if let Some(bottleneck) = self.habits.bottleneck {
            let begins = self.free.max(now);
            if begins.saturating_duration_since(now) > bottleneck.queue {
                return;
            }
            let takes = f64::from(segment.payload) / f64::from(bottleneck.bytes_per_second);
            through = begins + Duration::from_secs_f64(takes);
            self.free = through;
        }
        let due = through + self.habits.round_trip + late;
        self.on_the_way.insert((due, self.number), Travelling { segment, marked });
    }

    fn accept(&mut self, syn: &Segment) {
        self.ends = Some(Ends { theirs: syn.from, own: syn.to });
        self.first = syn.sequence.wrapping_add(1);
        self.own = OWN;
        self.recent = syn.options.times.map_or(0, |times| times.own);
        self.habits.timestamps &= syn.options.times.is_some();
        self.habits.ecn &= syn.has(ECE) && syn.has(CWR);
        let options = Options {
            mss: Some(self.habits.mss),
            scale: syn.options.scale.map(|_| SCALE),
            may_sack: self.habits.sack,
            times: self.times(),
            sacks: Vec::new(),
        };
        let mark = if self.habits.ecn { ECE } else { 0 };
        self.send(SYN | ACK | mark, options);
        self.own = OWN.wrapping_add(1);
    }

    fn expected(&self) -> u32 {
        self.first.wrapping_add(self.received as u32)
    }

    /// How many bytes of the connection come before a segment's first one, and before its end; what came long ago counts
    /// as nothing.
    fn start_of(&self, segment: &Segment) -> u64 {
        let ahead = segment.sequence.wrapping_sub(self.expected()) as i32;
        self.received.saturating_add_signed(ahead.into())
    }

    fn end_of(&self, segment: &Segment) -> u64 {
        self.start_of(segment) + u64::from(segment.payload)
    }

    /// Something has come here.
    fn arrives(&mut self, segment: &Segment, marked: bool) {
        if segment.has(SYN) {
            return self.accept(segment);
        }
        let (start, end) = (self.start_of(segment), self.end_of(segment));
        self.echoes = self.habits.ecn && (marked || self.echoes && !segment.has(CWR));
        if start <= self.received {
            self.recent = segment.options.times.map_or(self.recent, |times| times.own);
        }
        if end <= self.received || start > self.received {
            if start > self.received {
                self.beyond.entry(start).and_modify(|to| *to = end.max(*to)).or_insert(end);
                self.latest = start;
            }
            return self.acknowledge();
        }
        let gaps = !self.beyond.is_empty();
        self.received = end;
        while let Some(entry) = self.beyond.first_entry().filter(|entry| *entry.key() <= self.received) {
            self.received = entry.remove().max(self.received);
        }
        let bytes = self.received;
        self.note(|seen| seen.bytes = bytes);
        self.waiting += 1;
        if gaps || self.waiting >= self.habits.every {
            self.acknowledge();
        } else if self.owed.is_none() {
            self.owed = Some(Instant::now() + PATIENCE);
        }
    }

    fn acknowledge(&mut self) {
        (self.waiting, self.owed) = (0, None);
        let sacks = if self.habits.sack { self.sacks() } else { Vec::new() };
        let mark = if self.echoes { ECE } else { 0 };
        self.send(ACK | mark, Options { times: self.times(), sacks, ..Options::default() });
    }

    /// What has come beyond gaps: the newest first, and as many as there is room for.
    fn sacks(&self) -> Vec<Range> {
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (&from, &to) in &self.beyond {
            match joined.last_mut() {
                Some((_, end)) if *end >= from => *end = to.max(*end),
                _ => joined.push((from, to)),
            }
        }
        joined.sort_by_key(|(from, to)| !(*from..*to).contains(&self.latest));
        let sequence = |count: u64| self.first.wrapping_add(count as u32);
        joined.iter().take(3).map(|(from, to)| Range { from: sequence(*from), to: sequence(*to) }).collect()
    }

    fn times(&self) -> Option<Times> {
        let own = 1 + self.began.elapsed().as_millis() as u32;
        self.habits.timestamps.then_some(Times { own, echoed: self.recent })
    }

    fn send(&mut self, flags: u8, options: Options) {
        let Some(Ends { theirs, own }) = self.ends else { return };
        let scale = if flags & SYN == 0 { SCALE } else { 0 };
        let segment = Segment {
            from: own,
            to: theirs,
            sequence: self.own,
            acknowledged: self.expected(),
            flags,
            window: u16::try_from(self.room >> scale).unwrap_or(u16::MAX),
            options,
            payload: 0,
        };
        // A full device drops: so would a wire.
        let _ = self.tun.write(&segment.bytes());
    }

    fn note(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// By how many bits its window is shifted.
const SCALE: u8 = 7;
