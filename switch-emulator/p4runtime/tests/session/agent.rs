//! The agent keeps a switch filled and in time, whatever becomes of the switch and of itself.

use std::time::Duration;

use sluice_p4runtime::agent::News;
use sluice_p4runtime::mock::Settings;
use sluice_wire::udp::GUARD;

use crate::support::{Bench, Grid, Running, SLOT, probe, within};

#[tokio::test]
async fn a_restart_is_noticed_and_links_get_other_signatures() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let grid = Grid::before_the_wrap();
        let mut agent = Running::start(&bench, 1, grid);
        agent.filled(true).await;
        let first = bench.signature(grid).await;
        assert_ne!(first, 0x00c0_ffee, "not the one of the settings");

        // The whole switch: its streams are gone, its program and its entries.
        bench.mock.restart();
        agent.filled(true).await;
        let second = bench.signature(grid).await;
        assert_ne!(second, first);

        // Its stream only: it is the same switch.
        bench.mock.end_streams();
        agent.filled(false).await;
        assert_eq!(bench.signature(grid).await, second);

        // Its data plane only: the next look at the tables notices.
        bench.mock.restart_data_plane();
        agent.filled(true).await;
        assert_ne!(bench.signature(grid).await, second);
        agent.stop().await;
    })
    .await;
}

#[tokio::test]
async fn slots_are_written_in_order_over_the_wrap_and_counters_are_read() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let grid = Grid::before_the_wrap();
        let mut agent = Running::start(&bench, 1, grid);
        let mut last: Option<sluice_schedule::Slot> = None;
        let mut wrapped = false;
        while !wrapped {
            let news = agent.until(|news| matches!(news, News::Slot(_))).await;
            let News::Slot(slot) = news else { unreachable!("it was waited for") };
            if let Some(last) = last {
                assert!(slot.since(last) >= 0, "{last:?} is followed by {slot:?}");
                wrapped = slot.0 < last.0;
            }
            last = Some(slot);
        }
        bench.signature(grid).await;
        agent.until(|news| matches!(news, News::Counted(counts) if counts.ports.contains_key(&1))).await;
        agent.stop().await;
    })
    .await;
}

#[tokio::test]
async fn without_its_agent_a_switch_refuses_packets_two_slots_later() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let grid = Grid::before_the_wrap();
        let agent = Running::start(&bench, 1, grid);
        bench.signature(grid).await;
        agent.stop().await;
        // A write that was on its way when it stopped may still arrive.
        tokio::time::sleep(Duration::from_nanos(SLOT.0)).await;
        let last = bench.mock.guard().unwrap();
        assert!(last.since(grid.slot()) <= 1, "{last:?} is no slot ahead of its time");
        let refused = [0, 1, 2, 3].map(|later| bench.pass(&probe(last.offset(later))).1.flags & GUARD != 0);
        assert_eq!(refused, [false, false, true, true]);
        // And so it is when the time comes.
        while grid.slot().since(last) < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_ne!(bench.pass(&probe(grid.slot())).1.flags & GUARD, 0);
        assert_eq!(bench.mock.guard(), Some(last));
    })
    .await;
}

#[tokio::test]
async fn a_write_that_is_not_answered_is_given_up_after_a_slot() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let grid = Grid::before_the_wrap();
        let mut agent = Running::start(&bench, 1, grid);
        bench.signature(grid).await;
        bench.mock.delay_writes(Duration::from_nanos(SLOT.0) * 20);
        let mut late = Vec::new();
        for _ in 0..3 {
            let news = agent.until(|news| matches!(news, News::Late(_))).await;
            let News::Late(slot) = news else { unreachable!("it was waited for") };
            late.push(slot);
        }
        assert!(late[2].since(late[0]) >= 2, "{late:?}: each of them is of its own time");
        agent.until(|news| matches!(news, News::Lost { .. })).await;
        bench.mock.delay_writes(Duration::ZERO);
        bench.signature(grid).await;
        agent.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_second_agent_waits_and_takes_over_with_the_signatures_that_are_there() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let grid = Grid::before_the_wrap();
        let mut first = Running::start(&bench, 9, grid);
        first.filled(true).await;
        let signature = bench.signature(grid).await;
        let mut second = Running::start(&bench, 4, grid);
        second.until(|news| matches!(news, News::Waits { highest: Some(9) })).await;
        first.stop().await;
        second.until(|news| matches!(news, News::Primary)).await;
        second.filled(false).await;
        assert_eq!(bench.signature(grid).await, signature);
        second.stop().await;
    })
    .await;
}
