//! The list of what goes wrong: drawn from the options, or given, so that it can be cut down.

use serde::{Deserialize, Serialize};
use sluice_schedule::units::Nanos;

use crate::options::Options;
use crate::rng::Rng;

/// Something that goes wrong at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When, in nanoseconds from the beginning.
    pub at: u64,
    /// What.
    pub what: What,
}

/// What goes wrong. Times are nanoseconds, hosts, holders and flows are numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum What {
    /// A daemon dies.
    Crash { host: usize, down: u64, other_version: bool },
    /// A daemon ends in order.
    Stop { host: usize, down: u64, other_version: bool },
    /// A daemon does nothing for a time.
    Hang { host: usize, time: u64 },
    /// A daemon does all it does late for a time.
    Slow { host: usize, time: u64, lag: u64 },
    /// A holder dies.
    HolderCrash { holder: usize, down: u64 },
    /// A holder does nothing for a time.
    HolderHang { holder: usize, time: u64 },
    /// A host's clock is set.
    StepHost { host: usize, by: i64 },
    /// A holder's clock is set.
    StepHolder { holder: usize, by: i64 },
    /// A machine stands still, and its clock with it, which is set right later.
    Pause { host: usize, time: u64, wrong: u64 },
    /// Messages are lost: to the holder, to the host.
    Cut { host: usize, holder: usize, ways: [bool; 2], time: u64 },
    /// A connection is closed.
    Reset { host: usize, holder: usize },
    /// A flow goes by the other of two equal links.
    Redraw { flow: usize },
    /// All flows of a host connect anew, each in the row of the one so many places after it.
    Reconnect { host: usize, turn: usize },
    /// The next word of the kernel on a connection of this host comes so much late.
    LateEvent { host: usize, late: u64 },
}

/// A number of a fault, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Of a host.
    Host(usize),
    /// Of a holder.
    Holder(usize),
    /// Of a flow.
    Flow(usize),
    /// Nanoseconds.
    Time(u64),
    /// Nanoseconds by which a clock is set.
    Step(i64),
}

impl What {
    /// Its numbers by their names in a file, but for one that may be any.
    pub fn numbers(&self) -> Vec<(&'static str, Number)> {
        use Number::{Flow, Holder, Host, Step, Time};
        match *self {
            What::Crash { host, down, .. } => vec![("Crash.host", Host(host)), ("Crash.down", Time(down))],
            What::Stop { host, down, .. } => vec![("Stop.host", Host(host)), ("Stop.down", Time(down))],
            What::Hang { host, time } => vec![("Hang.host", Host(host)), ("Hang.time", Time(time))],
            What::Slow { host, time, lag } => {
                vec![("Slow.host", Host(host)), ("Slow.time", Time(time)), ("Slow.lag", Time(lag))]
            }
            What::HolderCrash { holder, down } => {
                vec![("HolderCrash.holder", Holder(holder)), ("HolderCrash.down", Time(down))]
            }
            What::HolderHang { holder, time } => {
                vec![("HolderHang.holder", Holder(holder)), ("HolderHang.time", Time(time))]
            }
            What::StepHost { host, by } => vec![("StepHost.host", Host(host)), ("StepHost.by", Step(by))],
            What::StepHolder { holder, by } => vec![("StepHolder.holder", Holder(holder)), ("StepHolder.by", Step(by))],
            What::Pause { host, time, wrong } => {
                vec![("Pause.host", Host(host)), ("Pause.time", Time(time)), ("Pause.wrong", Time(wrong))]
            }
            What::Cut { host, holder, time, .. } => {
                vec![("Cut.host", Host(host)), ("Cut.holder", Holder(holder)), ("Cut.time", Time(time))]
            }
            What::Reset { host, holder } => vec![("Reset.host", Host(host)), ("Reset.holder", Holder(holder))],
            What::Redraw { flow } => vec![("Redraw.flow", Flow(flow))],
            What::Reconnect { host, .. } => vec![("Reconnect.host", Host(host))],
            What::LateEvent { host, late } => vec![("LateEvent.host", Host(host)), ("LateEvent.late", Time(late))],
        }
    }
}

/// What becomes of one message, if not the ordinary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageFault {
    /// The host at one end.
    pub host: usize,
    /// The holder at the other.
    pub holder: usize,
    /// Is the host the one that gets it?
    pub back: bool,
    /// Its number on that way.
    pub nth: u64,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fate {
    /// It is lost.
    Lost,
    /// It takes so much longer.
    Late(u64),
    /// It comes twice, each so much later.
    Twice([u64; 2]),
}

/// All that goes wrong in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// In order of time.
    pub timed: Vec<Fault>,
    /// In order of host, holder, way and number.
    pub messages: Vec<MessageFault>,
}

/// Draws what goes wrong at which time; all of it ends before the calm begins.
pub fn draw(options: &Options, holders: usize, forked: &[usize]) -> Vec<Fault> {
    let amounts = options.amounts;
    let slot = options.slot_ms * 1_000_000;
    let mut rng = Rng::of(options.seed, &[0xfa17]);
    let mut all = Vec::new();
    let span = options.fault_slots * slot;
    let mut add = |times: u64, what: &mut dyn FnMut(&mut Rng) -> What| {
        for _ in 0..times {
            let at = rng.range(0, span);
            let what = what(&mut rng);
            all.push(Fault { at, what });
        }
    };
    let host = |rng: &mut Rng| rng.range(0, options.hosts as u64) as usize;
    let holder = |rng: &mut Rng| rng.range(0, holders as u64) as usize;
    let version = |rng: &mut Rng| rng.chance(amounts.other_version);
    add(amounts.crashes, &mut |rng| What::Crash {
        host: host(rng),
        down: rng.range(slot / 4, slot * 8),
        other_version: version(rng),
    });
    add(amounts.stops, &mut |rng| {
        // Now and then for longer than last orders live.
        let most = if rng.chance(40) { options.coast_ms * 1_500_000 } else { slot * 8 };
        What::Stop { host: host(rng), down: rng.range(slot / 4, most), other_version: version(rng) }
    });
    add(amounts.hangs, &mut |rng| What::Hang { host: host(rng), time: rng.range(slot / 2, slot * 8) });
    add(amounts.slow, &mut |rng| What::Slow {
        host: host(rng),
        time: rng.range(slot, slot * 20),
        lag: rng.range(slot / 10, slot * 2),
    });
    add(amounts.holder_restarts, &mut |rng| {
        let (holder, down) = (holder(rng), rng.range(slot, slot * 12));
        // Some are back at once: what the dead one answered is still on its way then.
        let soon = Rng::of(options.seed, &[0x5007, down]).chance(40);
        What::HolderCrash { holder, down: if soon { down / 16 } else { down } }
    });
    add(amounts.holder_hangs, &mut |rng| What::HolderHang { holder: holder(rng), time: rng.range(slot / 2, slot * 6) });
    add(amounts.steps, &mut |rng| {
        let by = rng.around(slot * amounts.step_tenths / 10);
        if rng.chance(60) {
            What::StepHost { host: host(rng), by }
        } else {
            What::StepHolder { holder: holder(rng), by }
        }
    });
    add(amounts.pauses, &mut |rng| What::Pause {
        host: host(rng),
        time: rng.range(slot, slot * 20),
        wrong: rng.range(slot, slot * 8),
    });
    add(amounts.cuts, &mut |rng| What::Cut {
        host: host(rng),
        holder: holder(rng),
        ways: *rng.pick(&[[true, true], [true, false], [false, true]]),
        time: rng.range(slot, slot * 20),
    });
    add(amounts.resets, &mut |rng| What::Reset { host: host(rng), holder: holder(rng) });
    add(amounts.reconnects, &mut |rng| What::Reconnect { host: host(rng), turn: rng.range(0, 4) as usize });
    let late = if amounts.late_events > 0 { 2 + amounts.late_events / 5 } else { 0 };
    add(late, &mut |rng| What::LateEvent { host: host(rng), late: rng.range(slot / 10, slot * 2) });
    if !forked.is_empty() {
        add(amounts.redraws, &mut |rng| What::Redraw { flow: *rng.pick(forked) });
    }
    // Where clocks are set at all, some are while last orders live on.
    let stops: Vec<(u64, usize, u64)> = all
        .iter()
        .filter_map(|fault| match fault.what {
            What::Stop { host, down, .. } if amounts.steps > 0 => Some((fault.at, host, down)),
            _ => None,
        })
        .collect();
    for (at, host, down) in stops {
        if rng.chance(50) {
            let by = -(rng.range(slot / 4, slot * 2) as i64);
            all.push(Fault { at: at + down / 2, what: What::StepHost { host, by } });
        }
    }
    // Who hung hears in the same moment what was said meanwhile. Some that hang for longer than their orders live are cut off as
    // well, and go on by what they knew before.
    let hung: Vec<Fault> = all
        .iter()
        .filter_map(|fault| match fault.what {
            What::Hang { host, time } if time > slot * 3 => {
                let mut rng = Rng::of(options.seed, &[0x4a6, fault.at]);
                let (holder, longer) = (holder(&mut rng), rng.range(slot, slot * 4));
                let cut = What::Cut { host, holder, ways: [true, true], time: time + longer };
                rng.chance(30).then_some(Fault { at: fault.at, what: cut })
            }
            _ => None,
        })
        .collect();
    all.extend(hung);
    all.sort_by_key(|fault| fault.at);
    all
}

/// What becomes of a message, by the options.
pub fn fate(options: &Options, rng: &mut Rng) -> Option<Fate> {
    let network = options.network;
    let slot = Nanos::from_millis(options.slot_ms).0;
    let mut extra = || {
        let late = rng.chance(30) && network.jitter > 0;
        if late { rng.range(0, slot / 100 * network.jitter) } else { 0 }
    };
    let (first, second) = (extra(), extra());
    if rng.chance(network.loss) {
        return Some(Fate::Lost);
    }
    if rng.chance(network.copies) {
        return Some(Fate::Twice([first, second]));
    }
    (first > 0).then_some(Fate::Late(first))
}
