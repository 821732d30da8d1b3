//! What the allocator promises, on drawn problems and on small ones that can be followed by hand.

use super::*;
use proptest::prelude::*;

const SLOT: Nanos = Nanos::from_millis(60);
const LINK: Rate = Rate::mbps(1000);

fn own() -> Link {
    Link { usable: LINK, own: true, ..Link::default() }
}

fn view<'a>(id: u64, bytes: Bytes, path: &'a [Hop<'a>]) -> FlowView<'a> {
    FlowView {
        flow: FlowId(id),
        job: JobId(id),
        arrival: id,
        remaining: bytes,
        usable: bytes,
        ceiling: Rate::MAX,
        path,
        ..FlowView::default()
    }
}

fn planned(links: &[Link], flows: &[FlowView], config: &Config) -> Vec<Schedule> {
    let mut out = Vec::new();
    plan(&Problem { slot: SLOT, rest: SLOT, horizon: 10, links, flows }, config, &mut Scratch::default(), &mut out);
    out
}

fn repaired() -> Config {
    Config::repaired(1.0, 100.0, false)
}

#[test]
fn a_lone_flow_gets_the_link_until_it_is_done() {
    let path = [Hop { link: 0, load: &[], sharers: 1, ..Hop::default() }];
    let bytes = LINK.over(SLOT).plus(Rate::mbps(500).over(SLOT));
    for config in [Config::literal(1.0), repaired()] {
        let out = planned(&[own()], &[view(1, bytes, &path)], &config);
        assert_eq!(out[0].rates[..3], [LINK, Rate::mbps(500), Rate::ZERO]);
        assert_eq!((out[0].why, out[0].chosen.completion), (Why::LinkCap, Some(2)));
    }
}

#[test]
fn who_reserved_first_goes_first() {
    let path = [Hop { link: 0, load: &[], sharers: 1, ..Hop::default() }];
    let slot = LINK.over(SLOT);
    // Given in the wrong order; two slots for the first, one for the second behind it.
    let flows = [view(2, slot, &path), view(1, slot.plus(slot), &path)];
    let out = planned(&[own()], &flows, &repaired());
    assert_eq!(out[1].rates[..4], [LINK, LINK, Rate::ZERO, Rate::ZERO]);
    assert_eq!(out[0].rates[..4], [Rate::ZERO, Rate::ZERO, LINK, Rate::ZERO]);
    assert_eq!(out[0].why, Why::Headroom);
}

#[test]
fn a_later_slot_is_taken_if_it_is_cheap_enough() {
    // Other jobs take 80 % of a remote link for two slots, and nothing afterwards.
    let load = [Rate::mbps(800), Rate::mbps(800)];
    let path = [
        Hop { link: 0, load: &[], sharers: 1, ..Hop::default() },
        Hop { link: 1, load: &load, sharers: 1, ..Hop::default() },
    ];
    let links = [own(), Link { usable: LINK, own: false, ..Link::default() }];
    let flows = [view(1, Rate::mbps(100).over(SLOT), &path)];
    let now = planned(&links, &flows, &repaired());
    assert_eq!(now[0].rates[0], Rate::mbps(100), "λ(0.8) = 0.39 is less than the two slots of delay");
    let patient = planned(&links, &flows, &Config::repaired(10.0, 100.0, false));
    assert_eq!(patient[0].rates[..3], [Rate::ZERO, Rate::ZERO, Rate::mbps(100)]);
    assert_eq!(patient[0].why, Why::Price);
    let due = FlowView { due: true, ..flows[0] };
    assert_eq!(planned(&links, &[due], &Config::repaired(10.0, 100.0, false))[0].rates[0], Rate::mbps(100));
    // The paper knows no round that has waited too long.
    assert_eq!(
        planned(&links, &[due], &Config::literal(10.0))[0].rates[..3],
        [Rate::ZERO, Rate::ZERO, Rate::mbps(100)]
    );
}

#[test]
fn a_job_shares_a_link_with_itself() {
    let path = [Hop { link: 0, load: &[], sharers: 2, ..Hop::default() }];
    let slot = LINK.over(SLOT);
    let of_one_job = |id| FlowView { job: JobId(7), arrival: 0, ..view(id, slot, &path) };
    let flows = [of_one_job(1), of_one_job(2)];
    let half = Rate::mbps(500);
    for schedule in planned(&[own()], &flows, &repaired()) {
        assert_eq!(schedule.rates[..3], [half, half, Rate::ZERO]);
    }
    let literal = planned(&[own()], &flows, &Config::literal(1.0));
    assert_eq!((literal[0].rates[0], literal[1].rates[0]), (LINK, Rate::ZERO), "to the letter the first takes all");
}

#[test]
fn the_own_old_schedule_does_not_stand_in_its_own_way() {
    let table = [Rate::mbps(1000); 10];
    let path = [
        Hop { link: 0, load: &[], sharers: 1, ..Hop::default() },
        Hop { link: 1, load: &table, sharers: 1, ..Hop::default() },
    ];
    let links = [own(), Link { usable: LINK, own: false, ..Link::default() }];
    let flow = FlowView { old: &table, ..view(1, LINK.over(SLOT), &path) };
    assert_eq!(planned(&links, &[flow], &repaired())[0].rates[0], LINK);
    assert_eq!(planned(&links, &[flow], &Config::literal(1.0))[0].rates[0], Rate::ZERO);
}

#[test]
fn dependencies_move_the_current_slot_only() {
    let load = [Rate::mbps(400)];
    let path = [
        Hop { link: 0, load: &[], sharers: 1, ..Hop::default() },
        Hop { link: 1, load: &load, sharers: 1, ..Hop::default() },
    ];
    let links = [own(), Link { usable: LINK, own: false, ..Link::default() }];
    let bytes = Rate::mbps(1600).over(SLOT);
    let flow = view(1, bytes, &path);
    let of = |flow: FlowView, config: &Config| {
        let out = planned(&links, &[flow], config).remove(0);
        (out.rates[0], out.why, out.rates.iter().fold(Bytes::ZERO, |sum, rate| sum.plus(rate.over(SLOT))))
    };
    // Initially 600: the headroom. It takes 800 to be level at the slot's end, and that was delivered before: literally it
    // gets them, repaired not beyond the headroom. Without history nobody knows of more than the headroom.
    let new = FlowView { behind: Rate::mbps(800).over(SLOT), ..flow };
    let lagging = FlowView { ceiling: Rate::mbps(900), ..new };
    assert_eq!(of(lagging, &Config::literal(1.0)), (Rate::mbps(800), Why::CatchUp, bytes));
    assert_eq!(of(lagging, &repaired()), (Rate::mbps(600), Why::Headroom, bytes));
    assert_eq!(of(new, &Config::literal(1.0)), (Rate::mbps(600), Why::Headroom, bytes));
    // What the initial schedule gives in this slot is progress: with it there is no lag.
    let level = FlowView { behind: Rate::mbps(600).over(SLOT), ..lagging };
    assert_eq!(of(level, &Config::literal(1.0)), (Rate::mbps(600), Why::Headroom, bytes));
    // B_f bounds the catch-up, and only in the repaired form everything else.
    let capped = FlowView { ceiling: Rate::mbps(500), ..lagging };
    assert_eq!(of(capped, &Config::literal(1.0)), (Rate::mbps(500), Why::LinkCap, bytes));
    assert_eq!(of(FlowView { behind: Bytes::ZERO, ..capped }, &Config::literal(1.0)).0, Rate::mbps(600));
    assert_eq!(of(FlowView { behind: Bytes::ZERO, ..capped }, &repaired()), (Rate::mbps(500), Why::LinkCap, bytes));
    // With 600 it would end the slot 500 ahead of its predecessor, and is cut by as much.
    let bound = FlowView { usable: Rate::mbps(100).over(SLOT), ..flow };
    assert_eq!(of(bound, &repaired()), (Rate::mbps(100), Why::Predecessor, bytes));
    assert_eq!(of(bound, &Config::literal(1.0)), (Rate::mbps(100), Why::Predecessor, bytes));
}

#[test]
fn a_full_path_leaves_the_floor() {
    let load = [LINK; 10];
    let path = [
        Hop { link: 0, load: &[], sharers: 1, ..Hop::default() },
        Hop { link: 1, load: &load, sharers: 1, ..Hop::default() },
    ];
    let links = [own(), Link { usable: LINK, own: false, ..Link::default() }];
    let flow = FlowView { floor: Rate::mbps(10), ..view(1, Bytes(1_000_000_000), &path) };
    let out = planned(&links, &[flow], &repaired());
    assert_eq!((out[0].rates[0], out[0].why, out[0].chosen.completion), (Rate::mbps(10), Why::Floor, None));
    assert_eq!(out[0].headroom, Rate::ZERO);
}

#[test]
fn what_nobody_scheduled_is_given_out_by_later_rates() {
    // Both defer to slots 3 and 4, the first with twice the bytes: it gets two thirds of the current slot.
    let load = [Rate::mbps(500); 3];
    let path = [Hop { link: 0, load: &load, sharers: 1, ..Hop::default() }];
    let links = [own()];
    let flows = [view(1, Rate::mbps(600).over(SLOT), &path), view(2, Rate::mbps(300).over(SLOT), &path)];
    let config = |fill| Config::repaired(100.0, 100.0, fill);
    let idle = planned(&links, &flows, &config(false));
    assert_eq!((idle[0].rates[0], idle[1].rates[0]), (Rate::ZERO, Rate::ZERO));
    let filled = planned(&links, &flows, &config(true));
    assert_eq!(filled[0].rates[0].0.div_ceil(1000), 333_334);
    assert_eq!(filled[1].rates[0].0.div_ceil(1000), 166_667);
    assert_eq!((filled[0].why, filled[1].why), (Why::WorkConserving, Why::WorkConserving));
    let total = |schedule: &Schedule| schedule.rates.iter().map(|rate| rate.0).sum::<u64>();
    assert!(total(&filled[0]).abs_diff(600_000_000) <= 1000 && total(&filled[1]).abs_diff(300_000_000) <= 1000);
}

#[test]
fn the_fill_leaves_what_others_promised_and_what_they_take() {
    // Of the remote link another host's flow of the job has 300, and somebody fills 100. The flow defers to idle slots.
    let load = [Rate::mbps(400), Rate::ZERO];
    let remote = Hop { link: 1, load: &load, sharers: 1, siblings: Rate::mbps(300) };
    let path = [Hop { link: 0, load: &[], sharers: 1, ..Hop::default() }, remote];
    let links = [own(), Link { usable: LINK, own: false, filled: Rate::mbps(100) }];
    let flows = [view(1, Rate::mbps(900).over(SLOT), &path)];
    let filled = planned(&links, &flows, &Config::repaired(100.0, 100.0, true));
    assert_eq!((filled[0].rates[0], filled[0].why), (Rate::mbps(200), Why::WorkConserving));
}

#[test]
fn a_round_need_not_last_to_the_end_of_the_slot() {
    let path = [Hop { link: 0, load: &[], sharers: 1, ..Hop::default() }];
    let flows = [view(1, Rate::mbps(100).over(SLOT), &path)];
    assert_eq!(planned(&[own()], &flows, &repaired())[0].rates[0], Rate::mbps(100));
    let filled = planned(&[own()], &flows, &Config::repaired(1.0, 100.0, true));
    assert_eq!((filled[0].rates[0], filled[0].why), (LINK, Why::WorkConserving));
}

#[test]
fn nothing_to_send_and_nowhere_to_send_it_are_no_problem() {
    let path = [Hop { link: 9, load: &[], sharers: 0, ..Hop::default() }];
    let flows = [view(1, Bytes::ZERO, &[]), view(2, Bytes(1), &path), view(3, Bytes(1_000_000), &[])];
    let out = planned(&[], &flows, &repaired());
    assert_eq!((out[0].why, out[1].why), (Why::NoDemand, Why::NoDemand));
    assert!(out[2].rates[0] > Rate::ZERO);
}

#[derive(Clone, Debug)]
struct Drawn {
    own_links: usize,
    usable: Vec<u64>,
    loads: Vec<Vec<u64>>,
    flows: Vec<DrawnFlow>,
    rest: f64,
    repaired: bool,
    fill: bool,
    weight: f64,
}

#[derive(Clone, Debug)]
struct DrawnFlow {
    job: u64,
    own: usize,
    remote: Vec<usize>,
    bytes: u64,
    usable: f64,
    behind: u64,
    ceiling: Option<u64>,
    floor: u64,
    sharers: u64,
    due: bool,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let rates = || 0_u64..25_000_000_000;
    let flow = (
        (0_u64..5, 0_usize..2, prop::collection::vec(0_usize..4, 0..3), 0_u64..2_000_000_000),
        (0.0_f64..1.2, prop_oneof![Just(0), 0_u64..50_000_000]),
        (prop::option::of(rates()), 0_u64..250_000_000, 0_u64..4, any::<bool>()),
    );
    let flow = flow.prop_map(|(a, b, c)| DrawnFlow {
        job: a.0,
        own: a.1,
        remote: a.2,
        bytes: a.3,
        usable: b.0,
        behind: b.1,
        ceiling: c.0,
        floor: c.1,
        sharers: c.2,
        due: c.3,
    });
    (
        (1_usize..3, prop::collection::vec(rates(), 6)),
        prop::collection::vec(prop::collection::vec(rates(), 0..10), 4),
        prop::collection::vec(flow, 0..20),
        (0.0_f64..=1.0, any::<bool>(), any::<bool>(), 0.0_f64..3.0),
    )
        .prop_map(|((own_links, usable), loads, flows, (rest, repaired, fill, weight))| Drawn {
            own_links,
            usable,
            loads,
            flows,
            rest,
            repaired,
            fill,
            weight,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn links_floors_and_bounds_are_kept(case in drawn()) {
        let loads: Vec<Vec<Rate>> = case.loads.iter().map(|load| load.iter().map(|&r| Rate(r)).collect()).collect();
        let links: Vec<Link> = case.usable.iter().enumerate()
            .map(|(l, &rate)| Link { usable: Rate(rate), own: l < case.own_links, ..Link::default() }).collect();
        let paths: Vec<Vec<Hop>> = case.flows.iter().map(|flow| {
            let mut path = vec![Hop { link: flow.own % case.own_links, load: &[], sharers: flow.sharers, ..Hop::default() }];
            for &remote in &flow.remote {
                let link = 2 + remote;
                if path.iter().all(|hop| hop.link != link) {
                    path.push(Hop { link, load: &loads[remote], sharers: flow.sharers, ..Hop::default() });
                }
            }
            path
        }).collect();
        let flows: Vec<FlowView> = case.flows.iter().zip(&paths).enumerate().map(|(i, (flow, path))| FlowView {
            job: JobId(flow.job),
            arrival: flow.job / 2,
            usable: Bytes((flow.bytes as f64 * flow.usable) as u64),
            behind: Bytes(flow.behind),
            ceiling: flow.ceiling.map_or(Rate::MAX, Rate),
            floor: Rate(flow.floor),
            due: flow.due,
            ..view(i as u64, Bytes(flow.bytes), path)
        }).collect();
        let mut config =
            if case.repaired { Config::repaired(case.weight, 100.0, false) } else { Config::literal(case.weight) };
        let rest = SLOT.scaled(case.rest);
        let problem = Problem { slot: SLOT, rest, horizon: 10, links: &links, flows: &flows };
        let (mut scratch, mut out, mut filled) = (Scratch::default(), Vec::new(), Vec::new());
        plan(&problem, &config, &mut scratch, &mut out);
        config.work_conserving = case.fill;
        plan(&problem, &config, &mut scratch, &mut filled);
        prop_assert_eq!(filled.len(), flows.len());

        for (l, link) in links.iter().enumerate() {
            let here = |f: &usize| flows[*f].remaining > Bytes::ZERO && paths[*f].iter().any(|hop| hop.link == l);
            let on: Vec<usize> = (0..flows.len()).filter(here).collect();
            if link.own {
                for t in 0..10 {
                    let sum = on.iter().fold(Rate::ZERO, |sum, &f| sum.plus(filled[f].rates[t]));
                    prop_assert!(sum <= link.usable, "link {} slot {}: {} of {}", l, t, sum, link.usable);
                }
                for &f in &on {
                    let share = links[paths[f][0].link].usable.share(on.len() as u64);
                    prop_assert!(filled[f].rates[0] >= flows[f].floor.min(share));
                }
            }
        }
        for (f, flow) in flows.iter().enumerate() {
            let (before, after) = (&out[f], &filled[f]);
            prop_assert_eq!(after.rates.len(), 10);
            prop_assert_eq!(after.rates[0].minus(after.filled), before.rates[0], "the fill only raises the current slot");
            prop_assert!(after.rates.iter().zip(&before.rates).skip(1).all(|(a, b)| a <= b));
            if flow.remaining == Bytes::ZERO {
                prop_assert!(after.rates.iter().all(|rate| *rate == Rate::ZERO));
                continue;
            }
            let sent = |schedule: &Schedule| (0..10).fold(Bytes::ZERO, |sum, t| {
                sum.plus(schedule.rates[t].over(if t == 0 { rest } else { SLOT }))
            });
            prop_assert!(sent(before) >= flow.remaining.minus(before.chosen.unplaced));
            prop_assert!(sent(after).plus(Bytes(10)) >= flow.remaining.minus(before.chosen.unplaced));
            let floor = flow.floor;
            prop_assert!(after.rates[0] <= predecessor_limit(flow, rest).max(floor));
            if case.repaired {
                prop_assert!(after.rates[0] <= flow.ceiling.max(floor));
                prop_assert!(before.rates[0] <= before.headroom.max(floor));
            }
            if case.fill {
                // Nothing is left that this flow could have taken.
                let left = paths[f].iter().map(|hop| {
                    let own = (0..flows.len()).filter(|&g| paths[g].iter().any(|other| other.link == hop.link));
                    let sum = own.fold(hop.load(0), |sum, g| sum.plus(filled[g].rates[0]));
                    links[hop.link].usable.minus(sum)
                }).min().unwrap_or(Rate::ZERO);
                let most = flow.ceiling.min(predecessor_limit(flow, rest));
                prop_assert!(left == Rate::ZERO || after.rates[0] >= most, "{} left for {:?}", left, flow);
            }
        }
    }
}
