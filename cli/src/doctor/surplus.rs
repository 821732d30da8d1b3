//! What flows take beyond their orders, and whether they can.

use sluice_wire::snapshot::{Backend, Mode, Snapshot};

use super::Check;
use crate::format::{grouped, rate};

/// What the daemon says of it; nothing where no order is enforced, or an order is all that a flow may send.
pub fn surplus(snapshot: &Snapshot) -> Option<Check> {
    let setting = snapshot.daemon.surplus.as_str();
    if snapshot.daemon.mode != Mode::Active || ["", "never"].contains(&setting) {
        return None;
    }
    match snapshot.enforcement.backend {
        Backend::StructOps | Backend::StructOpsNoLink => {}
        Backend::SetSockOpt => {
            let found = "orders are ceilings here: only the congestion control can take more than its order";
            let cost = "beside unmanaged traffic, what a late decision leaves idle goes to that traffic";
            return Some(Check::info("surplus", found).cost(cost).fix("sluice doctor says what struct_ops needs"));
        }
        Backend::None => return None,
    }
    let taking: Vec<u64> = snapshot.flows.iter().filter_map(|flow| flow.surplus_bps).collect();
    let found = match taking.iter().sum::<u64>() {
        _ if taking.is_empty() => format!("schedule.surplus = {setting:?}; no flow may take more than its order now"),
        sum => format!(
            "schedule.surplus = {setting:?}; {} flows may take more than their orders and take {}; {} losses have cut that",
            grouped(taking.len() as u64),
            rate(Some(sum)),
            grouped(snapshot.counters.surplus_cuts)
        ),
    };
    Some(Check::ok("surplus", found))
}

#[cfg(test)]
mod tests {
    use sluice_wire::snapshot::Flow;

    use super::*;
    use crate::doctor::State;

    #[test]
    fn it_is_told_where_orders_are_floors_and_where_they_cannot_be() {
        let mut snapshot = Snapshot::default();
        (snapshot.daemon.mode, snapshot.daemon.surplus) = (Mode::Active, "never".into());
        snapshot.enforcement.backend = Backend::StructOps;
        assert_eq!(surplus(&snapshot), None);
        snapshot.daemon.surplus = "auto".into();
        let none = surplus(&snapshot).expect("a check");
        assert!(none.state == State::Ok && none.found.contains("no flow"), "{none:?}");
        let flow = |surplus_bps| Flow { surplus_bps, ..Flow::default() };
        snapshot.flows = vec![flow(Some(3_000_000_000)), flow(None), flow(Some(1_000_000_000))];
        snapshot.counters.surplus_cuts = 17;
        let some = surplus(&snapshot).expect("a check").found;
        assert!(
            some.contains("2 flows") && some.contains(&rate(Some(4_000_000_000))) && some.contains("17 losses"),
            "{some}"
        );
        snapshot.enforcement.backend = Backend::SetSockOpt;
        assert_eq!(surplus(&snapshot).map(|check| check.state), Some(State::Info));
        snapshot.daemon.mode = Mode::Observe;
        assert_eq!(surplus(&snapshot), None, "nothing is ordered");
    }
}
