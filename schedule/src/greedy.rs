//! Algorithm 1: one flow's rates over the coming slots, the completion slot chosen by delay plus price.
//!
//! For every completion slot β̂ the cheapest slots up to it are filled with their headroom; the β̂ whose slots plus
//! weighted price is least wins (`β̂ + w·Σ (r·t̂/G)·p`, ties to the earlier). One sort and one incremental pass find
//! it: taking one more slot in can only push bytes out of the dearest ones, so the dearest slot in use never gets
//! dearer again. O(T log T) for T slots, on the stack, in whole bytes: no allocation, no rounding in a comparison.
//!
//! Prices come from [`crate::price`], headroom from [`crate::path`]; dependencies are [`crate::graph`]'s.

use crate::price::{Price, Weight};
use crate::units::{Bytes, Nanos, Rate};

#[cfg(test)]
mod tests;

/// The longest horizon, in slots.
pub const MAX_SLOTS: usize = 64;

/// Horizons up to this are planned with shorter tables.
const USUAL_SLOTS: usize = 16;

/// What is known when a flow is scheduled. Slot 0 is the current one.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Bytes to send (G).
    pub demand: Bytes,
    /// Price of the path per slot.
    pub price: &'a [Price],
    /// The most the flow may take per slot. The shorter of the two slices, and [`MAX_SLOTS`], bound the horizon.
    pub headroom: &'a [Rate],
    /// The slot length (t̂).
    pub slot: Nanos,
    /// What is left of slot 0.
    pub first: Nanos,
    /// How much a slot of delay is worth against price (w).
    pub weight: Weight,
}

/// What was decided; the rates stand in the caller's slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chosen {
    /// How many slots the flow needs, the current one included (β̂); 0 without demand, `None` if it does not fit.
    pub completion: Option<usize>,
    /// β̂ plus the weighted price, in slots; 0 if it does not fit.
    pub cost: f64,
    /// What waiting one slot longer would cost instead, where the horizon reaches so far.
    pub one_later: Option<f64>,
    /// What does not fit into the horizon and waits until it moves on.
    pub unplaced: Bytes,
}

impl Request<'_> {
    /// How many slots there are to fill.
    pub fn slots(&self) -> usize {
        self.price.len().min(self.headroom.len()).min(MAX_SLOTS)
    }
    /// How long slot `t` is, seen from now.
    pub fn length(&self, t: usize) -> Nanos {
        if t == 0 { self.first } else { self.slot }
    }
    /// Bytes that fit into slot `t`.
    fn room(&self, t: usize) -> u64 {
        self.headroom[t].over(self.length(t)).0
    }
}

/// Algorithm 1. Writes one rate per slot (zero beyond the horizon) and says which completion slot was chosen.
///
/// In every slot the rate is at most the headroom; if the demand fits, the rates deliver all of it.
pub fn schedule(request: &Request, rates: &mut [Rate]) -> Chosen {
    place(request, request.demand, rates)
}

/// Algorithm 2's second half: slot 0 gets `now` whatever the schedule said, the other slots are filled for the rest.
pub fn refill(request: &Request, now: Rate, rates: &mut [Rate]) -> Chosen {
    let Some((current, later)) = rates.split_first_mut() else {
        return Chosen { unplaced: request.demand, ..Chosen::default() };
    };
    *current = now;
    if request.slots() == 0 || request.demand == Bytes::ZERO {
        later.fill(Rate::ZERO);
        return schedule(request, &mut []);
    }
    let sent = now.over(request.first).0.min(request.demand.0);
    let rest = Request {
        demand: Bytes(request.demand.0 - sent),
        price: &request.price[1..],
        headroom: &request.headroom[1..],
        first: request.slot,
        ..*request
    };
    let chosen = place(&rest, request.demand, later);
    let head = 1.0 + in_slots(spent(sent, request.price[0], request.weight), request.demand);
    Chosen {
        completion: chosen.completion.map(|slots| slots + 1),
        cost: if chosen.completion.is_some() { chosen.cost + head } else { 0.0 },
        one_later: chosen.one_later.map(|cost| cost + head),
        unplaced: chosen.unplaced,
    }
}

/// All slots with all their headroom, as much as the demand needs, earliest first, whatever they cost.
pub fn fill_all(request: &Request, rates: &mut [Rate]) -> Bytes {
    rates.fill(Rate::ZERO);
    let mut left = request.demand.0;
    for (t, rate) in rates.iter_mut().enumerate().take(request.slots()) {
        let take = request.room(t).min(left);
        if take > 0 {
            *rate = Rate::needed(Bytes(take), request.length(t));
            left -= take;
        }
    }
    Bytes(left)
}

/// The greedy with `per` as the G of the cost, so that a refill trades delay against price as the first fill did.
fn place(request: &Request, per: Bytes, rates: &mut [Rate]) -> Chosen {
    rates.fill(Rate::ZERO);
    if request.demand == Bytes::ZERO {
        return Chosen { completion: Some(0), ..Chosen::default() };
    }
    // Most horizons are short, and to clear a table for the longest one costs as much as to fill it.
    match request.slots().min(rates.len()) {
        slots @ ..=USUAL_SLOTS => place_in::<USUAL_SLOTS>(request, per, &mut rates[..slots]),
        slots => place_in::<MAX_SLOTS>(request, per, &mut rates[..slots]),
    }
}

/// The same for a demand, with tables for so many slots.
fn place_in<const MOST: usize>(request: &Request, per: Bytes, rates: &mut [Rate]) -> Chosen {
    let slots = rates.len();
    let demand = request.demand.0;
    let (mut rooms, mut all) = ([0_u64; MOST], 0_u64);
    for (t, room) in rooms[..slots].iter_mut().enumerate() {
        *room = request.room(t).min(demand);
        all = all.saturating_add(*room);
    }
    if all == 0 {
        return Chosen { unplaced: request.demand, ..Chosen::default() };
    }
    if all < demand {
        // No completion slot is feasible, and on a busy link that is so for most flows: nothing to sort then.
        return Chosen { unplaced: fill_all(request, rates), ..Chosen::default() };
    }
    let (mut order, mut place_of) = ([0_u8; MOST], [0_u8; MOST]);
    by_price(&request.price[..slots], &mut order);
    for (place, &t) in order[..slots].iter().enumerate() {
        place_of[usize::from(t)] = place as u8;
    }

    let mut taken = [0_u64; MOST]; // by place in the order
    let (mut missing, mut spend, mut dearest) = (demand, 0_u128, 0_usize);
    let (mut best, mut one_later) = (None::<(usize, u128)>, None);
    for (t, &place) in place_of[..slots].iter().enumerate() {
        let place = usize::from(place);
        let room = rooms[t];
        // Once all bytes have a slot, one that is dearer than all in use is of no help.
        if room > 0 && (missing > 0 || place < dearest) {
            taken[place] = room;
            spend += spent(room, request.price[t], request.weight);
            dearest = dearest.max(place);
            let mut excess = room.saturating_sub(missing);
            missing = missing.saturating_sub(room);
            while excess > 0 {
                let cut = excess.min(taken[dearest]);
                taken[dearest] -= cut;
                excess -= cut;
                spend -= spent(cut, request.price[usize::from(order[dearest])], request.weight);
                // Ends at a slot in use: at least `demand` bytes stay placed.
                while taken[dearest] == 0 {
                    dearest -= 1;
                }
            }
        }
        if missing == 0 {
            let cost = delay(t + 1, per) + spend;
            match best {
                Some((slot, least)) if cost >= least => {
                    if slot + 1 == t {
                        one_later = Some(cost);
                    }
                }
                _ => {
                    best = Some((t, cost));
                    one_later = None;
                }
            }
        }
    }

    let Some((last, cost)) = best else {
        return Chosen { unplaced: fill_all(request, rates), ..Chosen::default() };
    };
    let mut left = demand;
    for &t in &order[..slots] {
        let t = usize::from(t);
        let take = rooms[t].min(left);
        if t <= last && take > 0 {
            rates[t] = Rate::needed(Bytes(take), request.length(t));
            left -= take;
        }
    }
    Chosen {
        completion: Some(last + 1),
        cost: in_slots(cost, per),
        one_later: one_later.map(|cost| in_slots(cost, per)),
        unplaced: Bytes::ZERO,
    }
}

/// Slots in order of price, ties to the earlier. Price and slot go into one number, because plain numbers sort fastest.
fn by_price<const MOST: usize>(price: &[Price], order: &mut [u8; MOST]) {
    const SLOT_BITS: u32 = MAX_SLOTS.ilog2();
    const { assert!(Price::MAX.units() <= u64::MAX >> SLOT_BITS) };
    let mut keys = [0_u64; MOST];
    let keys = &mut keys[..price.len()];
    for (t, (key, price)) in keys.iter_mut().zip(price).enumerate() {
        *key = price.units() << SLOT_BITS | t as u64;
    }
    keys.sort_unstable();
    for (at, key) in order.iter_mut().zip(keys) {
        *at = (*key % MAX_SLOTS as u64) as u8;
    }
}

/// Units of cost: bytes × 2⁻³⁰ slots. Below 2¹²⁴ for all bytes, prices and weights there are.
fn spent(bytes: u64, price: Price, weight: Weight) -> u128 {
    const { assert!(Price::MAX.units().leading_zeros() >= u32::BITS - Weight::MAX.units().leading_zeros()) };
    u128::from(bytes) * u128::from(price.units() * u64::from(weight.units()))
}

fn delay(slots: usize, per: Bytes) -> u128 {
    u128::from(per.0) * u128::from((slots as u64) << (Price::BITS + Weight::BITS))
}

fn in_slots(cost: u128, per: Bytes) -> f64 {
    cost as f64 / delay(1, per) as f64
}
