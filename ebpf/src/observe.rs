//! The datapath of a host where nothing may be enforced: no rows, no events, orders go nowhere.

use std::os::fd::BorrowedFd;

use sluice_schedule::{Nanos, Rate};

use crate::datapath::{Datapath, FlowStats, NotTaken, Row, SocketEvent, Taking, Tier, Wanted};

/// The datapath of [`Tier::None`]: no socket is captured, every order is dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observe;

impl Datapath for Observe {
    fn tier(&self) -> Tier {
        Tier::None
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn events(&mut self, _out: &mut Vec<SocketEvent>) {}
    fn stats(&self, _row: Row) -> Option<FlowStats> {
        None
    }
    fn order_with(&mut self, _row: Row, _rate: Rate, _surplus: Option<Rate>, _expires: Nanos) {}
    fn release(&mut self, _row: Row) {}
    fn capture(&mut self, wanted: &[Wanted]) -> Vec<Taking> {
        let refused = Err(NotTaken::Refused(libc::EOPNOTSUPP));
        wanted.iter().map(|wanted| Taking { cookie: wanted.cookie, result: refused }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_out_of_it() {
        let mut none = Observe;
        let row = Row { index: 0, generation: 1 };
        none.order(row, Rate::mbps(1), Nanos(1));
        let mut out = Vec::new();
        none.events(&mut out);
        assert!(out.is_empty() && none.stats(row).is_none() && none.wake_fd().is_none());
    }
}
