//! Every property of Algorithm 1, against a naive reference that sorts and fills anew for every completion slot.

use super::*;
use crate::price::Curve;
use proptest::prelude::*;

const SLOT: Nanos = Nanos::from_millis(60);

/// Rates, completion slot and exact cost of the best β̂, by the book.
fn reference(request: &Request) -> Option<(Vec<Rate>, usize, u128)> {
    let mut best: Option<(Vec<Rate>, usize, u128)> = None;
    for beta in 1..=request.slots() {
        let mut visit: Vec<usize> = (0..beta).collect();
        visit.sort_by_key(|&t| (request.price[t], t));
        let (mut rates, mut left, mut cost) = (vec![Rate::ZERO; request.slots()], request.demand.0, 0);
        for t in visit {
            let take = request.room(t).min(left);
            rates[t] = Rate::needed(Bytes(take), request.length(t));
            cost += spent(take, request.price[t], request.weight);
            left -= take;
        }
        cost += delay(beta, request.demand);
        if left == 0 && best.as_ref().is_none_or(|(_, _, least)| cost < *least) {
            best = Some((rates, beta, cost));
        }
    }
    best
}

/// The least cost over *all* ways to spread whole units over the slots: the greedy inside a β̂ needs to be optimal, too.
fn exhaustive(demand: u64, rooms: &[u64], prices: &[Price], weight: Weight) -> Option<u128> {
    fn spread(left: u64, t: usize, rooms: &[u64], prices: &[Price], weight: Weight, per: Bytes) -> Option<u128> {
        if left == 0 {
            return Some(delay(t, per));
        }
        if t == rooms.len() {
            return None;
        }
        (0..=rooms[t].min(left))
            .filter_map(|take| {
                spread(left - take, t + 1, rooms, prices, weight, per).map(|rest| rest + spent(take, prices[t], weight))
            })
            .min()
    }
    spread(demand, 0, rooms, prices, weight, Bytes(demand))
}

#[derive(Clone, Debug)]
struct Case {
    demand: Bytes,
    price: Vec<Price>,
    headroom: Vec<Rate>,
    slot: Nanos,
    first: Nanos,
    weight: Weight,
}

impl Case {
    fn request(&self) -> Request<'_> {
        Request {
            demand: self.demand,
            price: &self.price,
            headroom: &self.headroom,
            slot: self.slot,
            first: self.first,
            weight: self.weight,
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let slots = prop::collection::vec((0_u64..=800_000_000_000, 0_u32..30), 1..=64);
    (slots, 5_u64..=200, 0.0_f64..=1.0, 0.0_f64..4.0, 0.0_f64..1.5).prop_map(|(slots, ms, first, weight, load)| {
        let headroom: Vec<Rate> =
            slots.iter().map(|&(rate, kind)| if kind < 6 { Rate::ZERO } else { Rate(rate) }).collect();
        // Few distinct prices, so that ties are common.
        let price = slots.iter().map(|&(_, kind)| Price::new(f64::from(kind / 3) / 7.0)).collect();
        let slot = Nanos::from_millis(ms);
        let whole: u128 = headroom.iter().map(|rate| u128::from(rate.over(slot).0)).sum();
        let demand = Bytes((whole as f64 * load) as u64);
        Case { demand, price, headroom, slot, first: slot.scaled(first), weight: Weight::new(weight) }
    })
}

fn sent(request: &Request, rates: &[Rate]) -> u128 {
    rates.iter().enumerate().map(|(t, rate)| u128::from(rate.over(request.length(t)).0)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_equals_the_reference_over_all_completion_slots(case in cases()) {
        let request = case.request();
        let mut rates = vec![Rate::ZERO; request.slots()];
        let chosen = schedule(&request, &mut rates);
        match reference(&request) {
            _ if case.demand == Bytes::ZERO => prop_assert_eq!(chosen.completion, Some(0)),
            Some((expected, beta, cost)) => {
                prop_assert_eq!(&rates, &expected);
                prop_assert_eq!(chosen.completion, Some(beta));
                prop_assert_eq!(chosen.cost, in_slots(cost, case.demand));
                prop_assert!(chosen.one_later.is_none_or(|later| later >= chosen.cost));
                prop_assert_eq!(chosen.one_later.is_some(), beta < request.slots());
            }
            None => {
                prop_assert_eq!(chosen.completion, None);
                for (t, rate) in rates.iter().enumerate() {
                    prop_assert_eq!(rate.over(request.length(t)), case.headroom[t].over(request.length(t)));
                }
            }
        }
    }

    #[test]
    fn demand_is_met_when_it_fits_and_headroom_is_kept_always(case in cases()) {
        let request = case.request();
        let mut rates = vec![Rate::ZERO; request.slots()];
        let chosen = schedule(&request, &mut rates);
        let room: u128 = (0..request.slots()).map(|t| u128::from(request.room(t))).sum();
        prop_assert_eq!(chosen.completion.is_some(), u128::from(case.demand.0) <= room);
        prop_assert!(sent(&request, &rates) >= u128::from(case.demand.minus(chosen.unplaced).0));
        // Rounding a rate up to whole bit/s adds less than a byte per slot below 8 s of slot length.
        prop_assert!(sent(&request, &rates) <= u128::from(case.demand.0) + request.slots() as u128);
        for (rate, most) in rates.iter().zip(&case.headroom) {
            prop_assert!(rate <= most);
        }
    }

    #[test]
    fn no_cheaper_slot_is_left_unused_in_favour_of_a_dearer_one(case in cases()) {
        let request = case.request();
        let mut rates = vec![Rate::ZERO; request.slots()];
        if let Some(beta) = schedule(&request, &mut rates).completion {
            for (cheap, dear) in (0..beta).flat_map(|a| (0..beta).map(move |b| (a, b))) {
                if case.price[cheap] < case.price[dear] && rates[dear] > Rate::ZERO {
                    prop_assert_eq!(rates[cheap].over(request.length(cheap)).0, request.room(cheap));
                }
            }
            prop_assert!(rates[beta..].iter().all(|&rate| rate == Rate::ZERO));
        }
    }

    #[test]
    fn scaling_everything_scales_the_schedule(
        slots in prop::collection::vec((0_u64..1000, 0_u32..8), 1..12), demand in 1_u64..4000, by in 1_u64..1000,
    ) {
        // Multiples of 3 bytes and 400 bit/s: whole numbers in a slot of 60 ms.
        let price: Vec<Price> = slots.iter().map(|&(_, price)| Price::new(f64::from(price) / 8.0)).collect();
        let at = |scale: u64| -> (Vec<Rate>, Chosen) {
            let headroom: Vec<Rate> = slots.iter().map(|&(rate, _)| Rate(rate * 400 * scale)).collect();
            let request = Request {
                demand: Bytes(demand * 3 * scale), price: &price, headroom: &headroom, slot: SLOT, first: SLOT,
                weight: Weight::ONE,
            };
            let mut rates = vec![Rate::ZERO; slots.len()];
            let chosen = schedule(&request, &mut rates);
            (rates, chosen)
        };
        let ((small, one), (large, many)) = (at(1), at(by));
        prop_assert_eq!(one.completion, many.completion);
        prop_assert!((one.cost - many.cost).abs() < 1e-9);
        for (a, b) in small.iter().zip(&large) {
            prop_assert_eq!(a.0 * by, b.0);
        }
    }

    #[test]
    fn it_is_the_optimum_over_all_integer_spreads(
        slots in prop::collection::vec((0_u64..4, 0_u32..8), 1..5), demand in 1_u64..9, weight in 0.0_f64..3.0,
    ) {
        // One unit is 3 bytes, one slot of 60 ms takes it at 400 bit/s.
        let price: Vec<Price> = slots.iter().map(|&(_, price)| Price::new(f64::from(price) / 4.0)).collect();
        let headroom: Vec<Rate> = slots.iter().map(|&(units, _)| Rate(units * 400)).collect();
        let rooms: Vec<u64> = slots.iter().map(|&(units, _)| units).collect();
        let weight = Weight::new(weight);
        let request =
            Request { demand: Bytes(demand * 3), price: &price, headroom: &headroom, slot: SLOT, first: SLOT, weight };
        let chosen = schedule(&request, &mut vec![Rate::ZERO; slots.len()]);
        match exhaustive(demand, &rooms, &price, weight) {
            Some(least) => prop_assert!((chosen.cost - in_slots(least, Bytes(demand))).abs() < 1e-9),
            None => prop_assert_eq!(chosen.completion, None),
        }
    }

    #[test]
    fn a_refill_delivers_the_rest_and_keeps_the_current_slot(case in cases(), part in 0.0_f64..1.0) {
        let request = case.request();
        let mut rates = vec![Rate::ZERO; request.slots()];
        let now = case.headroom[0].times(part);
        let chosen = refill(&request, now, &mut rates);
        prop_assert_eq!(rates[0], now);
        if case.demand > Bytes::ZERO {
            prop_assert!(sent(&request, &rates) >= u128::from(case.demand.minus(chosen.unplaced).0));
        }
        for (rate, most) in rates.iter().zip(&case.headroom) {
            prop_assert!(rate <= most);
        }
    }

    #[test]
    fn refilling_with_the_chosen_rate_costs_the_same(case in cases()) {
        let request = case.request();
        let (mut first, mut again) = (vec![Rate::ZERO; request.slots()], vec![Rate::ZERO; request.slots()]);
        let chosen = schedule(&request, &mut first);
        let refilled = refill(&request, first[0], &mut again);
        // The rate of the current slot is rounded up to a whole bit/s: it may send a byte more than was placed there.
        if chosen.completion.is_some() && case.demand.0 > 1_000_000 {
            prop_assert!(refilled.completion.is_some());
            prop_assert!(refilled.cost <= chosen.cost + 1e-3);
        }
    }
}

#[test]
fn waiting_for_a_cheap_slot_is_weighed_against_the_delay() {
    // Two slots at price 1, then an idle one. Half the bytes fit into a slot.
    let price = [Price::ONE, Price::ONE, Price::ZERO];
    let headroom = [Rate::mbps(800); 3];
    let half = Rate::mbps(800).over(SLOT);
    let request = |weight| Request {
        demand: half.plus(half),
        price: &price,
        headroom: &headroom,
        slot: SLOT,
        first: SLOT,
        weight: Weight::new(weight),
    };
    let mut rates = [Rate::ZERO; 3];
    // w = 1: now costs 2 + 1, later 3 + ½.
    let chosen = schedule(&request(1.0), &mut rates);
    assert_eq!((chosen.completion, chosen.cost, chosen.one_later), (Some(2), 3.0, Some(3.5)));
    assert_eq!(rates, [Rate::mbps(800), Rate::mbps(800), Rate::ZERO]);
    // w = 3: now 2 + 3, later 3 + 1½.
    let chosen = schedule(&request(3.0), &mut rates);
    assert_eq!((chosen.completion, chosen.cost, chosen.one_later), (Some(3), 4.5, None));
    assert_eq!(rates, [Rate::mbps(800), Rate::ZERO, Rate::mbps(800)]);
}

#[test]
fn the_rest_of_a_slot_takes_less() {
    let headroom = [Rate::mbps(800); 2];
    let request = Request {
        demand: Rate::mbps(800).over(SLOT),
        price: &[Price::ZERO; 2],
        headroom: &headroom,
        slot: SLOT,
        first: Nanos::from_millis(15),
        weight: Weight::ONE,
    };
    let mut rates = [Rate::ZERO; 2];
    assert_eq!(schedule(&request, &mut rates).completion, Some(2));
    assert_eq!(rates, [Rate::mbps(800), Rate::mbps(600)]);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let headroom = [Rate::MAX; MAX_SLOTS];
    let price = [Price::MAX; MAX_SLOTS];
    let request = Request {
        demand: Bytes(u64::MAX),
        price: &price,
        headroom: &headroom,
        slot: Nanos::MAX,
        first: Nanos::MAX,
        weight: Weight::new(100.0),
    };
    let mut rates = [Rate::ZERO; MAX_SLOTS];
    assert_eq!(schedule(&request, &mut rates).completion, Some(1));
    let request = Request { slot: Nanos(1), first: Nanos::ZERO, ..request };
    assert_eq!(schedule(&request, &mut rates).completion, None);
    assert_eq!(schedule(&request, &mut []).completion, None);
    assert!(refill(&request, Rate::MAX, &mut rates).cost.is_finite());
}

#[test]
fn the_largest_cluster_of_the_specification_is_exact() {
    // 800 Gbit/s × 200 ms × 32 slots = 640 GB.
    let slot = Nanos::from_millis(200);
    let headroom = [Rate(800_000_000_000); 32];
    let price: Vec<Price> =
        (0..32).map(|t| Curve::exponential(1e6).link(Rate(t * 25_000_000_000), Rate(800_000_000_000))).collect();
    let request = Request {
        demand: Bytes(640_000_000_000),
        price: &price,
        headroom: &headroom,
        slot,
        first: slot,
        weight: Weight::ONE,
    };
    let mut rates = [Rate::ZERO; 32];
    let chosen = schedule(&request, &mut rates);
    assert_eq!((chosen.completion, chosen.unplaced), (Some(32), Bytes::ZERO));
    assert_eq!(rates, headroom);
}
