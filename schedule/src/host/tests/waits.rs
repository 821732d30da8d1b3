//! The cluster's clock is set. Back: slots stand still until it is where it was, and orders go on to be renewed. Either way:
//! what was heard is held for two slots.

use super::*;

/// Promises: P-19
#[test]
fn orders_are_renewed_while_slots_stand_still() {
    let mut host = lone_host();
    let (sends, idle) = (flow(&mut host, 1, "a", 1000), flow(&mut host, 2, "b", 1000));
    host.handle(at(0), Event::RoundBegan { job: JobId::of("a"), flows: vec![(sends, Bytes(10_000_000_000))] });
    assert_eq!(orders(&mut host, at(0)).len(), 2);
    // Set back by five seconds: the slot stays, monotonic time does not.
    let slot = host.config().slot.0 / 1_000_000;
    let still = |ms: u64| Now { mono: at(ms).mono, ..at(0) };
    let mut last = 0;
    for ms in (0..=5_000).step_by(15) {
        let renewed = orders(&mut host, still(ms));
        if renewed.iter().any(|order| order.0 == sends) && renewed.iter().any(|order| order.0 == idle) {
            last = ms;
        }
        // The least lease is two slots.
        assert!(ms - last < 2 * slot, "not renewed from {last} ms to {ms} ms");
    }
    assert!(last > 4_800, "{last}");
    // It goes on as before.
    assert_eq!(orders(&mut host, at(5_040)).len(), 2);
    assert_eq!(orders(&mut host, at(5_100)).len(), 2);
}

const LEAF: HolderId = HolderId::of("s0");
/// On the cluster's clock, at 0 ms.
const BEGAN_MS: i64 = 600_000;

/// A host that sends over a link of `s0`, and its clock, which is so many ms ahead.
struct Stepped {
    host: Host,
    ahead: i64,
    slot: u32,
    /// When its flow was looked at last, in ms.
    last: u64,
}

impl Stepped {
    fn new() -> Stepped {
        let mut stepped = Stepped { host: lone_host(), ahead: 0, slot: 0, last: 0 };
        let now = stepped.now(0);
        sends_to(&mut stepped.host, 1, LEAF, now);
        stepped
    }

    fn now(&mut self, ms: u64) -> Now {
        let wall = u64::try_from(BEGAN_MS + self.ahead).expect("after 1970") + ms;
        // The grid of slots never goes back.
        self.slot = self.slot.max((wall / 60) as u32);
        Now { wall: Nanos::from_millis(wall), slot: Slot(self.slot), ..at(ms) }
    }

    /// `s0` says that another flow goes first, with 900 of the 1000 Mbit/s, for two seconds more.
    fn hear(&mut self, ms: u64) {
        let now = self.now(ms);
        let until = now.wall.plus(Nanos::from_millis(2_000));
        let rates = vec![Rate::mbps(900)];
        let first = crate::FlowPromise { flow: FlowId(7), key: Nanos(1), until, rates, ..Default::default() };
        let (link, capacity) = (LinkId::new(LEAF.0, 0), Rate::mbps(1000));
        let view = crate::LinkView { link, capacity, flows: vec![first], ..crate::LinkView::default() };
        let feedback = Feedback { warm: true, slot: now.slot, links: vec![view], ..Feedback::default() };
        self.host.handle(now, Event::Feedback { holder: LEAF, feedback });
    }

    /// How the view counts then, and what the flow is ordered, which has sent what it was ordered until then.
    fn sees(&mut self, ms: u64) -> (ViewState, Rate) {
        let now = self.now(ms);
        let time = Nanos::from_millis(ms - std::mem::replace(&mut self.last, ms));
        let sent = self.host.flows().map(|f| {
            let delivered = f.delivered.plus(f.order.over(time));
            FlowProgress { flow: f.spec.flow, delivered, rate: f.order, ..FlowProgress::default() }
        });
        let sent = sent.collect();
        self.host.handle(now, Event::Progress(sent));
        self.host.decide(now, &mut Vec::new());
        let (state, order) = (self.host.views().next(), self.host.flows().next());
        (state.expect("one is asked").1, order.expect("one flow").order)
    }
}

/// Promises: P-19
#[test]
fn after_a_step_of_more_than_a_slot_what_is_heard_is_held_for_two() {
    let left = Rate::mbps(100);
    // The other's end lies behind the clock that was set ahead by ten seconds, and is none for all that.
    for step in [10_000_i64, 61, -61, -10_000] {
        let mut stepped = Stepped::new();
        stepped.hear(5);
        assert_eq!(stepped.sees(6), (ViewState::Fresh, left));
        stepped.hear(65);
        assert_eq!(stepped.sees(66), (ViewState::Fresh, left));
        stepped.ahead = step;
        assert_eq!(stepped.sees(70), (ViewState::Holding, left), "{step} ms");
        for ms in [100, 130, 160, 189] {
            stepped.hear(ms);
            assert_eq!(stepped.sees(ms), (ViewState::Holding, left), "{step} ms, {ms} ms");
        }
        assert_eq!(stepped.sees(190), (ViewState::Fresh, left), "{step} ms");
    }
    // What time services do to a clock that runs is no step.
    let mut slewed = Stepped::new();
    for slot in 0..20_u64 {
        slewed.ahead = [0, 30, -29][slot as usize % 3];
        slewed.hear(slot * 60 + 5);
        assert_eq!(slewed.sees(slot * 60 + 5), (ViewState::Fresh, left), "slot {slot}");
    }
}

/// Promises: P-19
#[test]
fn after_a_step_what_was_heard_is_given_up_two_slots_later_at_the_earliest() {
    use ViewState::{Decaying, Fresh, Holding, Local};
    let sees = |step: i64, trust: ClockTrust, silent: bool| {
        let mut stepped = Stepped::new();
        stepped.hear(5);
        assert_eq!(stepped.sees(6).0, ViewState::Fresh);
        stepped.ahead = step;
        let now = stepped.now(60);
        stepped.host.handle(now, Event::Clock(trust));
        [60, 120, 179, 181].map(|ms| {
            if !silent {
                stepped.hear(ms);
            }
            stepped.sees(ms).0
        })
    };
    assert_eq!(sees(5_000, ClockTrust::Untrusted, true), [Holding, Holding, Holding, Local]);
    assert_eq!(sees(5_000, ClockTrust::Untrusted, false), [Holding, Holding, Holding, Local]);
    assert_eq!(sees(5_000, ClockTrust::Trusted, true), [Holding, Holding, Holding, Decaying]);
    assert_eq!(sees(0, ClockTrust::Untrusted, true), [Local; 4]);
    assert_eq!(sees(0, ClockTrust::Trusted, false), [Fresh; 4]);
}
