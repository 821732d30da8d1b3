//! A switch that is another process each time it speaks.

use super::*;

const HOLDER: HolderId = HolderId::of("s0");

/// What the switch says then, as the process that it is then, counts at once.
fn is_believed(host: &mut Host, seconds: u64, process: u64) -> bool {
    let now = at(seconds * 1_000);
    host.decide(now, &mut Vec::new());
    let view = crate::LinkView { link: LinkId::new(HOLDER.0, 0), capacity: Rate::mbps(1000), ..Default::default() };
    let (boot, slot, links) = (crate::BootId(process), now.slot, vec![view]);
    let feedback = Feedback { boot, warm: true, slot, links, ..Feedback::default() };
    host.handle(now, Event::Feedback { holder: HOLDER, feedback });
    host.decide(now, &mut Vec::new());
    host.views().any(|(holder, state)| holder == HOLDER && state == ViewState::Fresh)
}

#[test]
fn who_is_another_one_four_times_within_a_minute_is_not_believed_until_it_is_over() {
    let mut host = lone_host();
    sends_to(&mut host, 1, HOLDER, at(0));
    for (seconds, process, believed) in
        [(0, 1, true), (10, 2, true), (20, 3, true), (30, 4, true), (40, 5, false), (50, 5, false), (61, 5, true)]
    {
        assert_eq!(is_believed(&mut host, seconds, process), believed, "process {process} after {seconds} s");
    }
}

#[test]
fn who_is_another_one_every_twenty_one_seconds_is_believed() {
    let mut host = lone_host();
    sends_to(&mut host, 1, HOLDER, at(0));
    for process in 1..20 {
        assert!(is_believed(&mut host, process * 21, process), "process {process}");
    }
}
