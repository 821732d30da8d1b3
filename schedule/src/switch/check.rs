//! Whether an announcement may be applied: its slot, its order, how much it has, and whose links and flows it names.

use super::attached::Excess;
use super::hosts::Order;
use super::{Limits, Switch, Table};
use crate::message::{Announcement, Refusal};
use crate::mutant::Mutant;
use crate::units::Slot;

impl Switch {
    /// Whether this may be applied. `Err(None)` is a duplicate, which is not applied again and not refused either.
    pub(super) fn check(
        &mut self,
        now: u64,
        announcement: &Announcement,
        excess: Excess,
    ) -> Result<(), Option<Refusal>> {
        let counters = &mut self.counters;
        let guard = Limits::SLOT_GUARD + u32::from(self.planted.is(Mutant::WideGuard));
        if announcement.slot.since(Slot(now as u32)).unsigned_abs() > guard {
            counters.guard_rejects += 1;
            return Err(Some(Refusal::SlotGuard));
        }
        let known = self.hosts.find(announcement.host).and_then(|at| self.hosts.get(at));
        match known.map(|host| host.order(announcement, self.planted)) {
            Some(Order::Same) => {
                counters.duplicates += 1;
                return Err(None);
            }
            Some(Order::Older) => {
                counters.old += 1;
                return Err(Some(Refusal::Old));
            }
            Some(Order::Newer) | None => {}
        }
        let most = self.limits.promises_per_host;
        let promises: usize = announcement.flows.iter().map(|flow| flow.links.len()).sum();
        let full = known.is_none() && self.hosts.len() >= self.limits.hosts;
        // A double buffer keeps what a host said first in a slot beside what it says then, however often, and what ended.
        let again = known.filter(|host| Slot(host.promises.start as u32) == announcement.slot);
        let soft = matches!(self.table, Table::Soft(_));
        let kept = again.filter(|_| soft).map_or(0, |host| host.promises.entries.len());
        let forgets = self.planted.is(Mutant::QuotaForgotten);
        let over = full
            || kept + promises > most.saturating_mul(Limits::KEPT_PER_SLOT)
            || promises.max(announcement.flows.len()).max(announcement.watch.len()) > most;
        if over && !forgets {
            counters.quota_refusals += 1;
            return Err(Some(Refusal::Quota));
        }
        if announcement.flows.iter().any(|flow| flow.flow.sender() != announcement.host) {
            counters.foreign_flows += 1;
            return Err(Some(Refusal::ForeignFlow));
        }
        if announcement.flows.iter().flat_map(|flow| &flow.links).any(|&link| self.links.find(link).is_none()) {
            counters.unknown_links += 1;
            return Err(Some(Refusal::UnknownLink));
        }
        let allowed = self.attached.check(announcement, self.limits.horizon, excess);
        if let Err(refusal) = allowed {
            let count = match refusal {
                Refusal::LinkNotYours => &mut counters.foreign_links,
                Refusal::UnknownHost => &mut counters.unknown_hosts,
                _ => &mut counters.quota_refusals,
            };
            *count += 1;
            return Err(Some(refusal));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::message::{Announcement, FlowPromise, Refusal};
    use crate::switch::{Limits, LinkConfig, Switch};
    use crate::table::TableKind;
    use crate::units::{BootId, FlowId, HostId, LinkId, Rate, Slot};

    #[test]
    fn a_double_buffer_keeps_no_more_of_a_host_however_often_it_speaks_in_a_slot() {
        let link = LinkId::new(7, 1);
        let limits = Limits { promises_per_host: 3, ..Limits::default() };
        let config = LinkConfig { link, capacity: Rate::mbps(1_000), ..LinkConfig::default() };
        let mut switch = Switch::with_table(BootId(1), limits, &[config], TableKind::DoubleBuffer);
        let host = HostId(5);
        let promise = |n: u64| FlowPromise {
            flow: FlowId(u64::from(host.0) << 32 | n),
            rates: vec![Rate::mbps(1)],
            links: vec![link],
            ..FlowPromise::default()
        };
        let said = |seq: u64, slot: u32| {
            let flows = (0..3).map(|n| promise(10 * seq + n)).collect();
            Announcement { host, boot: BootId(2), seq, slot: Slot(slot), flows, ..Announcement::default() }
        };
        let refusals: Vec<_> = (1..7).map(|seq| switch.take(Slot(100), &said(seq, 100))).collect();
        let quota = Some(Refusal::Quota);
        assert_eq!(refusals, [None, None, None, None, quota, quota]);
        let kept = |switch: &Switch| switch.leases().map(|lease| lease.promises).collect::<Vec<_>>();
        assert_eq!(kept(&switch), [12]);
        assert_eq!(switch.take(Slot(101), &said(9, 101)), None, "the next slot begins anew");
        assert_eq!(kept(&switch), [12 + 3], "with the ends of what was promised before");
        assert_eq!(switch.take(Slot(102), &said(10, 102)), None);
        assert_eq!(kept(&switch), [3 + 3], "an end is kept for one slot");
    }
}
