//! What goes wrong, as it happens, and the end of it.

use sluice_schedule::units::Nanos;

use crate::plan::What;
use crate::queue::Ev;
use crate::situations::Situation;
use crate::world::{Cut, World};

impl World {
    pub fn break_something(&mut self, what: What) {
        match what {
            What::Crash { host, down, other_version } => {
                self.crash(host);
                self.after(Nanos(down), Ev::Restart { host, older: other_version });
            }
            What::Stop { host, down, other_version } => {
                self.stop(host);
                self.after(Nanos(down), Ev::Restart { host, older: other_version });
            }
            What::Hang { host, time } => self.hang(host, Nanos(time)),
            What::Slow { host, time, lag } => {
                self.cluster.daemons[host].slow = (self.now.plus(Nanos(time)), Nanos(lag));
                self.seen(Situation::DaemonSlow);
            }
            What::HolderCrash { holder, down } => {
                self.holder_down(holder);
                self.after(Nanos(down), Ev::HolderUp(holder));
            }
            What::HolderHang { holder, time } => {
                if self.cluster.holders[holder].within.is_none() {
                    self.cluster.holders[holder].hangs_until = self.now.plus(Nanos(time));
                    self.seen(Situation::HolderHung);
                }
            }
            What::StepHost { host, by } => self.step(host, by),
            What::StepHolder { holder, by } => match self.cluster.holders[holder].within {
                Some(host) => self.step(host, by),
                None => self.cluster.holders[holder].clock.offset += by,
            },
            What::Pause { host, time, wrong } => {
                self.hang(host, Nanos(time));
                self.after(Nanos(time), Ev::ClockBehind { host, by: time as i64 });
                self.after(Nanos(time + wrong), Ev::ClockRight(host));
                self.seen(Situation::MachinePaused);
            }
            What::Cut { host, holder, ways, time } => {
                self.cut(host, holder, ways);
                self.after(Nanos(time), Ev::Heal { host, holder });
            }
            What::Reset { host, holder } => {
                self.seen(Situation::ConnectionReset);
                self.disconnect(host, holder, Nanos::ZERO);
            }
            What::Redraw { flow } => self.redraw(flow),
            What::Reconnect { host, turn } => self.reconnect(host, turn),
            What::LateEvent { host, late } => self.cluster.daemons[host].late_event = Nanos(late),
        }
    }

    fn step(&mut self, host: usize, by: i64) {
        let grace = self.cluster.daemons[host].died.is_some_and(|death| death.in_order);
        let down = self.cluster.daemons[host].brain.is_none();
        self.seen(if by < 0 { Situation::SteppedBack } else { Situation::SteppedAhead });
        if by < 0 && grace && down {
            self.seen(Situation::SteppedBackInGrace);
        }
        self.cluster.daemons[host].clock.offset += by;
        self.share_clock(host);
    }

    pub fn cut(&mut self, host: usize, holder: usize, ways: [bool; 2]) {
        if self.cluster.holders[holder].within == Some(host) {
            return;
        }
        self.cuts.insert((host, holder), Cut { ways, since: self.now });
        self.after(crate::dial::KEEP_ALIVE, Ev::KeepAlive { host, holder });
        self.seen(match ways {
            [true, true] => Situation::CutBothWays,
            [true, false] => Situation::CutThere,
            _ => Situation::CutBack,
        });
    }

    pub fn share_clock(&mut self, host: usize) {
        let clock = self.cluster.daemons[host].clock;
        let inside = self.cluster.holders.iter_mut().find(|holder| holder.within == Some(host));
        inside.into_iter().for_each(|holder| holder.clock = clock);
    }

    pub fn become_calm(&mut self) {
        self.calm = true;
        self.calm_at = self.now;
        self.unsettled = self.now;
        self.cuts.clear();
        if self.options.core.is_some() {
            return self.heal_core();
        }
        for host in 0..self.cluster.daemons.len() {
            self.heal_host(host);
        }
        for holder in 0..self.cluster.holders.len() {
            self.heal_holder(holder);
            if let Some(lasting) = self.options.lasting {
                self.cut(lasting.host, holder, lasting.ways);
            }
        }
    }

    pub fn heal_host(&mut self, host: usize) {
        let offset = self.chance(&[0x0ff, host as u64]).around(self.slot.0 / 20);
        let daemon = &mut self.cluster.daemons[host];
        daemon.clock.set_right(offset);
        daemon.hangs_until = Nanos::ZERO;
        daemon.slow = (Nanos::ZERO, Nanos::ZERO);
        self.share_clock(host);
        self.restart(host, false);
    }

    pub fn heal_holder(&mut self, holder: usize) {
        if self.cluster.holders[holder].within.is_none() {
            let offset = self.chance(&[0x0fe, holder as u64]).around(self.slot.0 / 20);
            self.cluster.holders[holder].clock.set_right(offset);
            self.cluster.holders[holder].hangs_until = Nanos::ZERO;
        }
        self.holder_up(holder);
    }
}
