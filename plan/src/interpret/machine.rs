//! Runs all blocks of a program at once: a send and its receive meet, or both wait.
//!
//! Meeting is the strictest way to run a program: what comes to its end here does so with any buffers between. Every
//! connection has one sender and one receiver, so that the order in which blocks get their turn changes nothing but
//! the order in which steps touch memory, and that is watched by [`Order`].

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::fault::{Fault, Kind};
use super::memory::{Memory, Value};
use super::order::{NONE, Order, Refused};
use super::program::{Block, Op, Place, Program, Step};
use sluice_formats::problem::{E_LIMIT, Problem, Problems};

/// Steps that all searches for an order may look at: some seconds.
const SEARCH: u64 = 1 << 29;

/// Why a run did not end well.
pub enum Stop {
    /// The program is wrong.
    Fault(Fault),
    /// It is too large to be run.
    Limit(Problems),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

/// How far a block has come with its step.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Waiting,
    /// May take what arrives.
    Begun,
    /// Has done everything but send.
    Ready,
    Offering,
    /// The receiver has it.
    Taken,
}

struct Thread<'p> {
    rank: usize,
    number: usize,
    block: &'p Block,
    /// The number of its first step, over all ranks.
    first: u32,
    at: usize,
    stage: Stage,
    outgoing: Vec<Value>,
    inbound: usize,
    outbound: usize,
}

struct Connection {
    sender: usize,
    receiver: usize,
    receiver_waits: bool,
}

/// A program in the middle of its run.
struct Machine<'p> {
    threads: Vec<Thread<'p>>,
    connections: Vec<Connection>,
    /// For each rank its first thread.
    first: Vec<usize>,
    memory: Memory,
    order: Order,
    queue: VecDeque<usize>,
    /// Threads that wait for a step.
    waiting: HashMap<u32, Vec<usize>>,
}

/// Runs a program to its end and compares what every rank has with what it should have.
pub fn run(program: &Program, in_place: bool) -> Result<(), Stop> {
    let mut machine = Machine::new(program, in_place)?;
    machine.queue.extend(0..machine.threads.len());
    while let Some(thread) = machine.queue.pop_front() {
        machine.advance(thread)?;
    }
    let stuck: Vec<&Thread<'_>> =
        machine.threads.iter().filter(|thread| thread.at < thread.block.steps.len()).collect();
    if let Some(first) = stuck.first() {
        let others: Vec<String> = stuck.iter().skip(1).take(3).map(|thread| thread.place()).collect();
        let message = format!("{} blocks wait for ever; others are at {}", stuck.len(), others.join("; "));
        return Err(Fault::new(Kind::Deadlock, first.place(), message).into());
    }
    Ok(machine.memory.check(program)?)
}

impl Thread<'_> {
    fn step(&self) -> u32 {
        self.first + self.at as u32
    }
    fn place(&self) -> String {
        format!("rank {}, block {}, step {}", self.rank, self.number, self.at)
    }
}

impl<'p> Machine<'p> {
    fn new(program: &'p Program, in_place: bool) -> Result<Machine<'p>, Fault> {
        let memory = Memory::new(program, in_place);
        let (mut threads, mut first, mut steps) = (Vec::new(), Vec::new(), 0);
        let mut places: HashMap<(usize, usize, u32), usize> = HashMap::new();
        let mut connections: Vec<Connection> = Vec::new();
        for (rank, gpu) in program.gpus.iter().enumerate() {
            first.push(threads.len());
            for (number, block) in gpu.blocks.iter().enumerate() {
                let thread = threads.len();
                let mut connect = |from: usize, to: usize, sends: bool| {
                    let next = connections.len();
                    let place = *places.entry((from, to, block.channel)).or_insert(next);
                    if place == next {
                        connections.push(Connection {
                            sender: usize::MAX,
                            receiver: usize::MAX,
                            receiver_waits: false,
                        });
                    }
                    let connection = &mut connections[place];
                    let end = if sends { &mut connection.sender } else { &mut connection.receiver };
                    if std::mem::replace(end, thread) != usize::MAX {
                        let message = format!("a second block uses rank {from} → rank {to}, channel {}", block.channel);
                        return Err(Fault::new(Kind::BadConnection, format!("rank {rank}, block {number}"), message));
                    }
                    Ok(place)
                };
                let outbound = block.send.map(|peer| connect(rank, peer as usize, true)).transpose()?;
                let inbound = block.receive.map(|peer| connect(peer as usize, rank, false)).transpose()?;
                threads.push(Thread {
                    rank,
                    number,
                    block,
                    first: steps,
                    at: 0,
                    stage: Stage::Waiting,
                    outgoing: Vec::new(),
                    inbound: inbound.unwrap_or(usize::MAX),
                    outbound: outbound.unwrap_or(usize::MAX),
                });
                steps += block.steps.len() as u32;
            }
        }
        let half = connections.iter().find(|one| one.sender == usize::MAX || one.receiver == usize::MAX);
        if let Some(half) = half {
            let (thread, lacks) =
                if half.sender == usize::MAX { (half.receiver, "sends") } else { (half.sender, "receives") };
            let thread: &Thread<'_> = &threads[thread];
            let at = format!("rank {}, block {}", thread.rank, thread.number);
            let message =
                format!("nobody {lacks} at the other end of its connection on channel {}", thread.block.channel);
            return Err(Fault::new(Kind::BadConnection, at, message));
        }
        let order = Order::new(steps as usize, memory.cells(), SEARCH);
        let (queue, waiting) = (VecDeque::new(), HashMap::new());
        Ok(Machine { threads, connections, first, memory, order, queue, waiting })
    }

    /// Lets a thread run until it must wait.
    fn advance(&mut self, index: usize) -> Result<(), Stop> {
        loop {
            let thread = &self.threads[index];
            let Some(step) = thread.block.steps.get(thread.at) else { return Ok(()) };
            match thread.stage {
                Stage::Waiting => {
                    if let Some(target) = self.unmet(index, step) {
                        self.waiting.entry(target).or_default().push(index);
                        return Ok(());
                    }
                    self.threads[index].stage = Stage::Begun;
                }
                Stage::Begun => {
                    let mut message = (NONE, Vec::new());
                    if step.op.receives() {
                        let connection = &mut self.connections[thread.inbound];
                        let sender = connection.sender;
                        if self.threads[sender].stage != Stage::Offering {
                            connection.receiver_waits = true;
                            return Ok(());
                        }
                        let from = &self.threads[sender];
                        agree(thread, step, from)?;
                        let sent = from.step();
                        message = (sent, std::mem::take(&mut self.threads[sender].outgoing));
                        self.threads[sender].stage = Stage::Taken;
                        self.queue.push_back(sender);
                    }
                    self.perform(index, step, message)?;
                    self.threads[index].stage = Stage::Ready;
                }
                Stage::Ready if step.op.sends() => {
                    let connection = &mut self.connections[thread.outbound];
                    if std::mem::take(&mut connection.receiver_waits) {
                        self.queue.push_back(connection.receiver);
                    }
                    self.threads[index].stage = Stage::Offering;
                    return Ok(());
                }
                Stage::Offering => return Ok(()),
                Stage::Ready | Stage::Taken => {
                    let done = thread.step();
                    let thread = &mut self.threads[index];
                    (thread.at, thread.stage) = (thread.at + 1, Stage::Waiting);
                    self.queue.extend(self.waiting.remove(&done).into_iter().flatten());
                }
            }
        }
    }

    /// The step that this one waits for, if it is not done.
    fn unmet(&self, index: usize, step: &Step) -> Option<u32> {
        let after = step.after?;
        let other = &self.threads[self.first[self.threads[index].rank] + after.block as usize];
        (other.at <= after.step as usize).then_some(other.first + after.step)
    }

    /// Does everything of a step but sending.
    fn perform(&mut self, index: usize, step: &'p Step, message: (u32, Vec<Value>)) -> Result<(), Stop> {
        let thread = &self.threads[index];
        let (rank, number) = (thread.rank, thread.step());
        let previous = if thread.at > 0 { number - 1 } else { NONE };
        let after =
            step.after.map_or(NONE, |after| self.threads[self.first[rank] + after.block as usize].first + after.step);
        self.order.run(number, [previous, after, message.0]);
        let mut values = message.1;
        let (src, dst) = (self.memory.cell(rank, step.src), self.memory.cell(rank, step.dst));
        if step.op == Op::Copy && src == dst {
            // The rank's own part, where input and output are one buffer: it is there already.
            return Ok(());
        }
        for i in 0..step.count as usize {
            if !step.op.reads() {
                break;
            }
            let mut value = self.read(index, src + i)?;
            let other = match step.op {
                Op::Reduce => Some(self.read(index, dst + i)?),
                _ => values.get(i).cloned(),
            };
            if let Some(other) = other {
                let sum = value.plus(&other);
                let sum = sum.map_err(|message| Fault::new(Kind::WrongSum, self.threads[index].place(), message))?;
                value = Rc::new(sum);
            }
            if i < values.len() { values[i] = value } else { values.push(value) }
        }
        if step.op.writes() {
            for (i, value) in values.iter().enumerate() {
                let refused = self.order.write(number, dst + i);
                refused.map_err(|refused| self.refuse(index, refused))?;
                self.memory.set(dst + i, value.clone());
            }
        }
        if step.op.sends() {
            self.threads[index].outgoing = values;
        }
        Ok(())
    }

    fn read(&mut self, index: usize, cell: usize) -> Result<Value, Stop> {
        let step = self.threads[index].step();
        let refused = self.order.read(step, cell);
        refused.map_err(|refused| self.refuse(index, refused))?;
        let value = self.memory.get(cell).cloned();
        let place = || self.threads[index].place();
        value.ok_or_else(|| Fault::new(Kind::Unwritten, place(), "reads what nobody has written").into())
    }

    fn refuse(&self, index: usize, refused: Refused) -> Stop {
        let Refused::Race(other) = refused else {
            return Stop::Limit(
                Problem::new(E_LIMIT, "", "too entangled to find out whether its steps are in order").into(),
            );
        };
        let other = self.threads.partition_point(|thread| thread.first <= other) - 1;
        let other = &self.threads[other];
        let message = format!(
            "touches a chunk that a step of rank {}, block {} touches too, in no order",
            other.rank, other.number
        );
        Fault::new(Kind::Race, self.threads[index].place(), message).into()
    }
}

/// Do both ends of a message mean the same chunks?
fn agree(thread: &Thread<'_>, step: &Step, from: &Thread<'_>) -> Result<(), Fault> {
    let Some(sent) = from.block.steps.get(from.at) else { return Ok(()) };
    let words = |place: Place| format!("{} {}", place.buffer.word(), place.offset);
    let mismatch = |message: String| Err(Fault::new(Kind::Mismatch, thread.place(), message));
    if sent.count != step.count {
        return mismatch(format!("receives {} chunks of {} that {} sends", step.count, sent.count, from.place()));
    }
    if !sent.op.writes() && sent.dst != step.dst {
        return mismatch(format!("puts into {} what {} sends for {}", words(step.dst), from.place(), words(sent.dst)));
    }
    let held = if sent.op.writes() { sent.dst } else { sent.src };
    if !step.op.reads() && step.src != held {
        return mismatch(format!("receives {} where {} sends {}", words(step.src), from.place(), words(held)));
    }
    Ok(())
}
