//! The member's loop: one thread, one epoll, one timer. Compute is waiting; communication is real.
//!
//! Sockets are edge-triggered and every stream remembers whether it may still read or write, so that a wake-up costs
//! little. Bytes of the next round stay in the kernel until this member begins it, as in a real library.

use std::io::{BufRead, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

use super::buffer::Difference;
use super::channels::Channels;
use super::collective::Collective;
use super::connect::{Connections, connect_all};
use super::exchange::{Exchange, LaneFlow};
use super::page::{JobPage, congestion_control};
use super::plan;
use super::report::{FlowReport, Line, Reporter, word};
use super::steps::Steps;
use super::stream::{Incoming, Outgoing, Stage};
use super::transfers::Transfers;
use super::trees::Trees;
use super::{Arch, JobError, JobFile};
use crate::sys;

/// How long the end of a job waits for its last acknowledgements.
const LAST_ACKS: Duration = Duration::from_secs(20);
const TIMER: u64 = u64::MAX;

/// Runs one member of a job from connecting to the last acknowledgement, and says what happened on `out`.
/// With [`JobFile::wait_for_start`] the first compute phase begins at the time named on standard input.
///
/// # Errors
/// A bad job file, a peer that does not come or goes away, a sum that is not exact.
pub fn run<W: Write>(file: &JobFile, out: W) -> Result<(), JobError> {
    file.check()?;
    let mut report = Reporter(out);
    let result = Engine::connect(file).and_then(|mut engine| {
        report.say(&Line::Connected { rank: file.rank });
        let start = if file.wait_for_start { told_start()? } else { now() };
        engine.iterate(start, &mut report)?;
        engine.finish(&mut report)
    });
    if let Err(e) = &result {
        report.say(&Line::Failed { what: e.to_string() });
    }
    result
}

/// CLOCK_MONOTONIC, ns.
pub fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.num_nanoseconds().max(0) as u64)
}

fn told_start() -> Result<u64, JobError> {
    let mut line = String::new();
    let mut input = std::io::stdin().lock().take(64);
    input.read_line(&mut line).map_err(JobError::io("reading the start time from standard input"))?;
    let told = line.trim().strip_prefix("start ").and_then(|t| t.parse().ok());
    told.ok_or_else(|| JobError::File {
        field: "standard input",
        seen: format!("{line:?}"),
        allowed: "one line `start NS` with a CLOCK_MONOTONIC time in ns".into(),
    })
}

/// The exchange of a job's member.
///
/// # Errors
/// When the plan of a job of arch `plan` cannot be read or is none for this job.
fn exchange_of(file: &JobFile) -> Result<Box<dyn Exchange>, JobError> {
    Ok(match (file.arch, &file.plan) {
        (Arch::Plan, Some(named)) => {
            let followed = plan::read(file, named)?;
            if !followed.transfers.lanes.is_empty() {
                Box::new(Transfers::new(&followed, file.rank)?)
            } else if followed.steps.shard > 0 {
                Box::new(Steps::new(&followed, file.rank, file.bytes))
            } else {
                Box::new(Trees::new(&followed, file.rank, file.bytes))
            }
        }
        _ => match file.members[file.rank].rails.len() {
            0 => Box::new(Collective::new(file)),
            channels => Box::new(Channels::new(file, channels)),
        },
    })
}

struct Engine<'a> {
    file: &'a JobFile,
    collective: Box<dyn Exchange>,
    outs: Vec<Outgoing>,
    ins: Vec<Incoming>,
    stage: Stage,
    page: JobPage,
    epoll: Epoll,
    timer: TimerFd,
    started_on: Vec<String>,
    next_sample: u64,
}

impl<'a> Engine<'a> {
    fn connect(file: &'a JobFile) -> Result<Engine<'a>, JobError> {
        let collective = exchange_of(file)?;
        let connections = connect_all(file, &*collective)?;
        let page = JobPage::open(file, &*collective, &connections);
        let Connections { outs, ins } = connections;
        let started_on = outs.iter().map(congestion_control).collect();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(JobError::sys("making an epoll"))?;
        let timer = TimerFd::new(TimerClock::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
            .map_err(JobError::sys("making a timer"))?;
        let watch = |fd: std::os::fd::BorrowedFd<'_>, flags: EpollFlags, data: u64| {
            epoll.add(fd, EpollEvent::new(flags, data)).map_err(JobError::sys("watching a descriptor"))
        };
        watch(timer.as_fd(), EpollFlags::EPOLLIN, TIMER)?;
        for (i, socket) in outs.iter().enumerate() {
            watch(socket.as_fd(), EpollFlags::EPOLLOUT | EpollFlags::EPOLLET, i as u64)?;
        }
        for (i, socket) in ins.iter().enumerate() {
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
            watch(socket.as_fd(), flags, (outs.len() + i) as u64)?;
        }
        Ok(Engine {
            stage: Stage::new(ins.len()),
            outs: outs.into_iter().map(Outgoing::new).collect(),
            ins: ins.into_iter().map(Incoming::new).collect(),
            file,
            collective,
            page,
            epoll,
            timer,
            started_on,
            next_sample: 0,
        })
    }

    fn iterate(&mut self, start: u64, report: &mut Reporter<impl Write>) -> Result<(), JobError> {
        let mut compute_start = start;
        for i in 0..self.file.iterations {
            let compute = self.file.compute(i);
            compute_start = compute_start.max(start.saturating_add(self.file.period_ns.saturating_mul(i)));
            let compute_end = compute_start.saturating_add(compute);
            let round_at = compute_end - (compute as f64 * self.file.overlap) as u64;
            self.page.computing();
            // Filling the buffer is part of the compute phase: the gradient is there when it ends.
            self.collective.begin(i);
            self.outs.iter_mut().for_each(Outgoing::begin);
            self.sleep_until(round_at)?;
            let round_start = now();
            self.exchange(i, report)?;
            let round_end = now();
            self.sleep_until(compute_end)?;
            if let Some(Difference { lane, element, seen, expected }) = self.collective.wrong(i) {
                return Err(match lane {
                    Some(lane) => JobError::Word { iteration: i, lane, word: element, seen, expected },
                    None => JobError::Sum { iteration: i, element, seen, expected },
                });
            }
            report.say(&Line::Iteration {
                i,
                compute_start_ns: compute_start,
                round_start_ns: round_start,
                round_end_ns: round_end,
                exact: true,
            });
            compute_start = round_end.max(compute_end);
        }
        Ok(())
    }

    /// One round: everything out, everything in.
    fn exchange(&mut self, iteration: u64, report: &mut Reporter<impl Write>) -> Result<(), JobError> {
        let wire: u64 = self.collective.outs().iter().map(|s| s.bytes).sum();
        if self.is_watched() {
            // While it computed nobody looked: streams that had nothing to send meanwhile say so before they have
            // something.
            self.next_sample = 0;
            self.sample(report);
        }
        // A server's round begins with the first byte that reaches it.
        let mut told = false;
        loop {
            let mut moved = 0;
            for (at, stream) in self.ins.iter_mut().enumerate() {
                let bytes = stream.pull(at, &mut *self.collective, &mut self.stage)?;
                if bytes > 0 {
                    self.page.received(bytes);
                    let t_ns = now();
                    while let Some(LaneFlow { lane, flow, from, to }) = self.collective.ended(at) {
                        report.say(&Line::FlowEnded { i: iteration, lane, flow, from, to, t_ns });
                    }
                }
                moved += bytes;
            }
            if !told && wire > 0 && (self.file.is_worker() || moved > 0) {
                self.page.round(self.file.bytes, wire);
                told = true;
            }
            for (at, stream) in self.outs.iter_mut().enumerate() {
                // Whatever begins in this turn could have begun by now; its end is never told with an earlier time.
                let t_ns = now();
                let bytes = stream.push(at, &mut *self.collective, self.file.write_bytes)?;
                if bytes > 0 {
                    self.page.sent(at, bytes);
                    while let Some(LaneFlow { lane, flow, from, to }) = self.collective.began(at, stream.sent) {
                        report.say(&Line::FlowBegan { i: iteration, lane, flow, from, to, t_ns });
                    }
                }
                moved += bytes;
            }
            let all_sent = self.collective.outs().iter().zip(&self.outs).all(|(s, o)| o.sent == s.bytes);
            if all_sent && self.collective.complete() {
                break;
            }
            if self.file.sample_ms > 0 {
                self.sample(report);
            }
            if moved == 0 {
                self.wait(self.until_sample())?;
            }
        }
        if told {
            self.page.round_over();
        }
        Ok(())
    }

    /// Does somebody look at each stream, however little happens?
    fn is_watched(&self) -> bool {
        self.file.sample_flows && self.file.sample_ms > 0
    }

    /// How long a wait may take: to the next sample, which must come also when no stream moves, or without an end.
    fn until_sample(&self) -> EpollTimeout {
        if !self.is_watched() {
            return EpollTimeout::NONE;
        }
        let ms = self.next_sample.saturating_sub(now()).div_ceil(1_000_000);
        EpollTimeout::from(u16::try_from(ms).unwrap_or(u16::MAX))
    }

    fn sample(&mut self, report: &mut Reporter<impl Write>) {
        let t_ns = now();
        if t_ns >= self.next_sample {
            self.next_sample = t_ns + self.file.sample_ms * 1_000_000;
            let (mut acked, mut flows, mut unsent) = (0, Vec::new(), Vec::new());
            for out in &self.outs {
                // All of it as of one instant: what was acknowledged, and what is left.
                let kernel = sys::tcp_info(&out.socket);
                let came = kernel.as_ref().map_or(0, |info| info.acked);
                acked += came;
                if self.file.sample_flows {
                    flows.push((came, congestion_control(&out.socket).starts_with("sluice")));
                    // A socket that does not answer is no stream that is done.
                    unsent.push(kernel.map_or(true, |info| out.is_unsent(&info)));
                }
            }
            report.say(&Line::Sample { t_ns, acked, flows, unsent });
        }
    }

    /// Waits for events and notes which streams may move. An expired timer only ends the wait.
    fn wait(&mut self, timeout: EpollTimeout) -> Result<(), JobError> {
        let mut events = [EpollEvent::empty(); 32];
        let n = match self.epoll.wait(&mut events, timeout) {
            Err(nix::Error::EINTR) => 0,
            other => other.map_err(JobError::sys("waiting for sockets"))?,
        };
        for event in &events[..n] {
            let at = usize::try_from(event.data()).unwrap_or(usize::MAX);
            if let Some(stream) = self.outs.get_mut(at) {
                stream.writable = true;
            } else if let Some(stream) = self.ins.get_mut(at - self.outs.len()) {
                stream.readable = true;
            }
        }
        Ok(())
    }

    fn sleep_until(&mut self, time: u64) -> Result<(), JobError> {
        if now() >= time {
            return Ok(());
        }
        let at = TimeSpec::nanoseconds(i64::try_from(time).unwrap_or(i64::MAX));
        self.timer
            .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            .map_err(JobError::sys("setting a timer"))?;
        while now() < time {
            self.wait(EpollTimeout::NONE)?;
        }
        // Another event may have ended the wait first; an expiry left behind would end the next one at once.
        self.timer.unset().map_err(JobError::sys("clearing a timer"))
    }

    /// Says goodbye: no more data, then waits until the peers have all of it.
    fn finish(&mut self, report: &mut Reporter<impl Write>) -> Result<(), JobError> {
        for out in &self.outs {
            out.socket.shutdown(Shutdown::Write).map_err(JobError::io("closing a stream"))?;
        }
        let deadline = now() + LAST_ACKS.as_nanos() as u64;
        let pending = |o: &Outgoing| sys::tcp_info(&o.socket).is_ok_and(|i| i.unacked > 0 || i.not_sent > 0);
        while self.outs.iter().any(pending) && now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        let streams = self.collective.outs().iter().zip(&self.outs).zip(&self.started_on);
        let flows = streams.map(|((stream, out), started)| {
            let info = sys::tcp_info(&out.socket).unwrap_or_default();
            FlowReport {
                to: stream.peer,
                kind: word(stream.kind).into(),
                acked: info.acked,
                retransmits: info.retransmits,
                tcp: congestion_control(&out.socket),
                tcp_at_start: started.clone(),
                min_rtt_us: info.min_rtt_us,
            }
        });
        report.say(&Line::Done { flows: flows.collect() });
        Ok(())
    }
}
