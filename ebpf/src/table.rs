//! Which rows this process has told its reader about, so that lost, late and doubled events come out right.

use std::net::{Ipv6Addr, SocketAddrV6};

use crate::abi::{Event, Stat};
use crate::datapath::{Row, SocketEvent, SocketEventKind};

#[derive(Clone, Copy, Debug)]
struct OpenRow {
    generation: u32,
    event: SocketEvent,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Option<OpenRow>>,
    live: u32,
}

impl Table {
    pub(crate) fn new(rows: u32) -> Table {
        Table { rows: vec![None; rows as usize], live: 0 }
    }

    /// Rows that are known to be alive.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Turns a record of the kernel into what the reader should hear. `owner` is the row's generation now: a record of
    /// an earlier owner that was never reported is not reported any more.
    pub(crate) fn event(&mut self, event: &Event, owner: Option<u32>) -> Option<SocketEvent> {
        let kind = kind(event.kind)?;
        let out = SocketEvent {
            kind,
            row: Row { index: event.index, generation: event.generation },
            cookie: event.cookie,
            local: address(&event.local, event.local_port),
            remote: address(&event.remote, event.remote_port),
            uid: event.uid,
            netns: event.netns,
        };
        let known = self.rows.get_mut(event.index as usize)?;
        let same = known.is_some_and(|k| k.generation == event.generation);
        match kind {
            SocketEventKind::Opened if same || owner != Some(event.generation) => None,
            SocketEventKind::Opened => {
                // An owner that went without a word is gone all the same; a rescan would have said so.
                if known.replace(OpenRow { generation: event.generation, event: out }).is_none() {
                    self.live += 1;
                }
                Some(out)
            }
            _ if !same => None,
            SocketEventKind::Started | SocketEventKind::Finished => Some(out),
            _ => {
                *known = None;
                self.live = self.live.saturating_sub(1);
                Some(out)
            }
        }
    }

    /// Compares one row with what is known of it and says what was missed: at most that its owner went, and an opening. A row
    /// does not tell how its owner went, so `went` is what is said of that.
    pub(crate) fn rescan(
        &mut self,
        index: u32,
        stat: Option<(&Stat, bool)>,
        went: SocketEventKind,
        out: &mut Vec<SocketEvent>,
    ) {
        let Some(known) = self.rows.get_mut(index as usize) else { return };
        let now = stat.filter(|(_, live)| *live).map(|(stat, _)| stat);
        if let Some(old) = *known
            && now.is_none_or(|stat| stat.generation != old.generation)
        {
            out.push(SocketEvent { kind: went, ..old.event });
            *known = None;
            self.live = self.live.saturating_sub(1);
        }
        if let Some(stat) = now
            && known.is_none()
        {
            let event = SocketEvent {
                kind: SocketEventKind::Opened,
                row: Row { index, generation: stat.generation },
                cookie: stat.cookie,
                local: address(&stat.local, stat.local_port),
                remote: address(&stat.remote, stat.remote_port),
                uid: stat.uid,
                netns: stat.netns,
            };
            *known = Some(OpenRow { generation: stat.generation, event });
            self.live += 1;
            out.push(event);
        }
    }
}

fn kind(kind: u32) -> Option<SocketEventKind> {
    Some(match kind {
        1 => SocketEventKind::Opened,
        2 => SocketEventKind::Closed,
        3 => SocketEventKind::Started,
        4 => SocketEventKind::Expired,
        5 => SocketEventKind::LossGuard,
        6 => SocketEventKind::Released,
        7 => SocketEventKind::Finished,
        _ => return None,
    })
}

fn address(bytes: &[u8; 16], port: u16) -> SocketAddrV6 {
    SocketAddrV6::new(Ipv6Addr::from(*bytes), port, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u32, index: u32, generation: u32) -> Event {
        Event { kind, index, generation, cookie: 9, ..Event::default() }
    }

    #[test]
    fn a_life_is_told_once() {
        let mut table = Table::new(4);
        assert_eq!(table.event(&event(1, 2, 5), Some(5)).unwrap().kind, SocketEventKind::Opened);
        assert!(table.event(&event(1, 2, 5), Some(5)).is_none());
        assert_eq!(table.live(), 1);
        assert_eq!(table.event(&event(3, 2, 5), Some(5)).unwrap().kind, SocketEventKind::Started);
        assert_eq!(table.event(&event(4, 2, 5), Some(5)).unwrap().kind, SocketEventKind::Expired);
        assert!(table.event(&event(2, 2, 5), Some(5)).is_none());
        assert_eq!(table.live(), 0);
    }

    #[test]
    fn what_was_missed_is_found_by_rescanning() {
        let mut table = Table::new(2);
        let mut out = Vec::new();
        table.event(&event(1, 0, 1), Some(1));
        let stat = Stat { generation: 3, cookie: 7, ..Stat::default() };
        table.rescan(0, Some((&stat, true)), SocketEventKind::Released, &mut out);
        let kinds: Vec<_> = out.iter().map(|e| (e.kind, e.row.generation, e.cookie)).collect();
        assert_eq!(kinds, [(SocketEventKind::Released, 1, 9), (SocketEventKind::Opened, 3, 7)]);
        // Records that were still in the buffer say nothing new.
        assert!(table.event(&event(1, 0, 2), Some(3)).is_none());
        assert!(table.event(&event(2, 0, 2), Some(3)).is_none());
        assert!(table.event(&event(1, 0, 3), Some(3)).is_none());
        out.clear();
        table.rescan(0, Some((&stat, false)), SocketEventKind::Released, &mut out);
        assert_eq!(out.len(), 1);
        assert_eq!(table.live(), 0);
    }

    #[test]
    fn who_went_unheard_is_told_once_and_as_the_caller_says() {
        for went in [SocketEventKind::Released, SocketEventKind::Closed] {
            let mut table = Table::new(1);
            let mut out = Vec::new();
            table.event(&event(1, 0, 1), Some(1));
            // The row as its owner left it: the generation has moved on, and nobody has it.
            let stat = Stat { generation: 2, cookie: 9, ..Stat::default() };
            table.rescan(0, Some((&stat, false)), went, &mut out);
            table.rescan(0, Some((&stat, false)), went, &mut out);
            let told: Vec<_> = out.iter().map(|e| (e.kind, e.row.generation, e.cookie)).collect();
            assert_eq!(told, [(went, 1, 9)]);
            assert_eq!(table.live(), 0);
            // It has a row again: the same socket, with another generation.
            let stat = Stat { generation: 3, ..stat };
            out.clear();
            table.rescan(0, Some((&stat, true)), went, &mut out);
            let told: Vec<_> = out.iter().map(|e| (e.kind, e.row.generation, e.cookie)).collect();
            assert_eq!(told, [(SocketEventKind::Opened, 3, 9)]);
        }
    }

    #[test]
    fn records_of_nonsense_are_silent() {
        let mut table = Table::new(1);
        assert!(table.event(&event(99, 0, 1), Some(1)).is_none());
        assert!(table.event(&event(1, 7, 1), Some(1)).is_none());
        assert!(table.event(&event(7, u32::MAX, 0), None).is_none());
    }
}
