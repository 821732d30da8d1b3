//! What a host and a switch hold on the heap while jobs come and go for an hour of virtual time, by dhat: the same at the end
//! as after the first half hour.
//!
//! `leak [MINUTES]`; the last line has the figure. It ends with 1 where they hold more.

use std::process::ExitCode;

use sluice_schedule::host::{Host, HostConfig};
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::*;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SLOT: Nanos = Nanos::from_millis(60);
/// A job is there for so many slots, and nobody for as many after: longer than any lease.
const THERE: u64 = 24;
const GONE: u64 = 16;
/// What is held may differ by so much, in parts of a hundred: tables keep the room that they once needed.
const SLACK: usize = 1;
const FLOWS: u64 = 16;

fn at(slot: u64) -> Now {
    let time = Nanos(slot * SLOT.0);
    Now { mono: time, wall: time, slot: Slot(slot as u32), into_slot: Nanos::ZERO }
}

/// A host and the switch that its flows cross.
struct World {
    me: HostId,
    host: Host,
    switch: Switch,
    link: LinkId,
    actions: Vec<Action>,
}

impl World {
    fn new() -> World {
        let me = HostId::of("h0");
        let link = LinkId::new(HolderId::of("leaf").0, 1);
        let config = LinkConfig { link, capacity: Rate::mbps(25_000), cross: Rate::ZERO, attached: None };
        let switch = Switch::new(BootId(7), Limits::default(), &[config]);
        World { me, host: Host::new(HostConfig::new(me, BootId(1))), switch, link, actions: Vec::new() }
    }

    fn flow(&self, number: u64) -> FlowId {
        FlowId((u64::from(self.me.0) << 32) | number)
    }

    /// One job, from its first flow to its last, under names that never come again.
    fn life(&mut self, number: u64, from: u64) {
        let (job, capacity) = (JobId(number), Rate::mbps(25_000));
        let flows: Vec<FlowId> = (0..FLOWS).map(|flow| self.flow((number * FLOWS + flow) & 0xffff_ffff)).collect();
        for slot in from..from + THERE + GONE {
            let now = at(slot);
            match slot - from {
                0 => {
                    for &flow in &flows {
                        let path = vec![
                            Hop { link: LinkId::egress(self.me), capacity, holder: None },
                            Hop { link: self.link, capacity, holder: Some(HolderId::of("leaf")) },
                        ];
                        self.host.handle(now, Event::FlowOpened(FlowSpec { flow, job, path, ..FlowSpec::default() }));
                    }
                }
                THERE => {
                    flows.iter().for_each(|&flow| self.host.handle(now, Event::FlowClosed(flow)));
                    self.host.handle(now, Event::JobGone(job));
                }
                there if there < THERE && there % 4 == 1 => {
                    let flows = flows.iter().map(|&flow| (flow, Bytes(40_000_000))).collect();
                    self.host.handle(now, Event::RoundBegan { job, flows });
                }
                _ => {}
            }
            self.host.handle(now, Event::SlotEdge);
            self.actions.clear();
            self.host.decide(now, &mut self.actions);
            for action in std::mem::take(&mut self.actions) {
                if let Action::Announce { holder, announcement } = action {
                    let feedback = self.switch.announce(now.slot, &announcement);
                    self.host.handle(now, Event::Feedback { holder, feedback });
                }
            }
            self.switch.expire(now.slot);
            // As the program around it does: who is to be told.
            drop(self.switch.take_stale());
        }
    }
}

fn main() -> ExitCode {
    let minutes = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(60_u64).max(10);
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut world = World::new();
    let each = THERE + GONE;
    let lives = |minutes: u64| minutes * 60_000_000_000 / SLOT.0 / each;
    let held = |world: &mut World, lives: std::ops::Range<u64>| {
        lives.for_each(|number| world.life(number + 1, 100 + number * each));
        dhat::HeapStats::get()
    };
    // In the first half everything grows to its size.
    let early = held(&mut world, 0..lives(minutes / 10));
    let first = held(&mut world, lives(minutes / 10)..lives(minutes / 2));
    let last = held(&mut world, lives(minutes / 2)..lives(minutes));
    // A switch that took none of what it was told holds nothing either.
    let taken = world.switch.counters().updates;
    let fits = last.curr_bytes * 100 <= first.curr_bytes * (100 + SLACK) && taken > lives(minutes);
    println!(
        "{} bytes held after {} min, {} after {} min, {} after {minutes} min and {} jobs; {} at most",
        early.curr_bytes,
        minutes / 10,
        first.curr_bytes,
        minutes / 2,
        last.curr_bytes,
        lives(minutes),
        last.max_bytes
    );
    if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
