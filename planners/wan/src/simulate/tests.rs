//! What the simulator finds wrong, and what releases and latencies do.

use super::*;
use crate::instance::{Flow, Link};
use crate::rules::{Fill, Ordered, Static};

/// A chain of two flows over two links of 2 MB/s, and one flow of another collective over the first.
fn instance(release: f64) -> Instance {
    let links = vec![Link { from: 0, to: 1, capacity: 2.0 }, Link { from: 1, to: 0, capacity: 2.0 }];
    let flow = |collective, order, from, to, link, release| Flow {
        collective,
        group: 0,
        order,
        from,
        to,
        size: 4.0,
        path: vec![link],
        release,
    };
    let flows = vec![flow(0, 0, 0, 1, 0, 0.0), flow(0, 1, 1, 0, 1, 0.0), flow(1, 0, 0, 1, 0, release)];
    Instance::new("two", 2, links, flows, None).expect("legal")
}

/// The same rates, asked for at every event.
struct Asked(Static);

impl RateRule for Asked {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        self.0.rates(moment, rates);
    }
}

/// Plays rates in both ways.
#[track_caller]
fn both(instance: &Instance, rates: [f64; 3]) -> Result<Outcome, Refusal> {
    let steady = simulate(instance, &mut Static::new(rates.to_vec()));
    let asked = simulate(instance, &mut Asked(Static::new(rates.to_vec())));
    assert_eq!(steady, asked);
    steady
}

#[test]
fn flows_end_when_their_bytes_have_left() {
    let outcome = both(&instance(0.0), [1.0, 2.0, 0.5]).expect("fits");
    assert_eq!((outcome.ends, outcome.t, outcome.mean, outcome.events), (vec![4.0, 6.0, 8.0], vec![6.0, 8.0], 7.0, 3));
    let outcome = both(&instance(0.0), [1.0, 1.0, 1.0]).expect("fits");
    assert_eq!((outcome.ends, outcome.events), (vec![4.0, 8.0, 4.0], 2), "two end together");
}

#[test]
fn a_flow_waits_for_its_release() {
    let outcome = both(&instance(5.0), [2.0, 2.0, 2.0]).expect("the first has ended by then");
    assert_eq!(outcome.ends, [2.0, 4.0, 7.0]);
    let outcome = simulate(&instance(1.0), &mut Fill::equal(&instance(1.0))).expect("fits");
    assert_eq!(outcome.ends, [3.0, 5.0, 4.0]);
}

#[test]
fn latency_delays_what_waits() {
    let instance = instance(0.0);
    for rule in [&mut Static::new(vec![1.0; 3]) as &mut dyn RateRule, &mut Asked(Static::new(vec![1.0; 3]))] {
        let outcome = simulate_with(&instance, rule, &[0.5, 0.25], &mut || false).expect("fits");
        assert_eq!(outcome.ends, [4.5, 8.75, 4.5]);
    }
    for (latency, code) in [(&[0.0; 3][..], "BadWeight"), (&[-1.0], "BadSize"), (&[f64::NAN], "BadSize")] {
        let refused = simulate_with(&instance, &mut Static::new(vec![1.0; 3]), latency, &mut || false);
        assert_eq!(refused.expect_err("no latencies").code(), code);
    }
}

#[test]
fn overload_is_found_where_and_when_it_is() {
    let over = both(&instance(0.0), [1.5, 1.0, 1.0]).expect_err("2.5 of 2");
    assert_eq!(over, Refusal::Capacity { link: 0, t: 0.0, load: 2.5, capacity: 2.0 });
    let over = both(&instance(1.0), [1.5, 1.0, 1.0]).expect_err("2.5 of 2");
    assert_eq!(over, Refusal::Capacity { link: 0, t: 1.0, load: 2.5, capacity: 2.0 });
    assert!(both(&instance(0.0), [1.0 + 1e-6, 1.0, 1.0]).is_ok(), "rounding is none");
    for rate in [-1.0, f64::NAN, f64::INFINITY] {
        let bad = simulate(&instance(0.0), &mut Static::new(vec![rate, 1.0, 1.0])).expect_err("no rate");
        assert!(matches!(bad, Refusal::BadRate { flow: 0, t: 0.0, .. }));
        let bad = simulate(&instance(0.0), &mut Asked(Static::new(vec![rate, 1.0, 1.0]))).expect_err("no rate");
        assert_eq!(bad.code(), "Capacity");
    }
}

#[test]
fn standing_still_is_found() {
    assert_eq!(both(&instance(0.0), [1.0, 0.0, 1.0]), Err(Refusal::Deadlock { t: 4.0, flow: 1 }));
    // A rate so small that the end is beyond all numbers is none.
    assert_eq!(both(&instance(0.0), [1.0, f64::MIN_POSITIVE / 4.0, 1.0]), Err(Refusal::Deadlock { t: 4.0, flow: 1 }));
    // An order against the chain.
    let instance = instance(0.0);
    let mut rule = Ordered::new(&instance, vec![1.0; 3], &[(1, 0)]).expect("flows");
    assert_eq!(simulate(&instance, &mut rule), Err(Refusal::Deadlock { t: 4.0, flow: 0 }));
    let short = simulate(&instance, &mut Static::new(vec![1.0])).expect_err("one rate");
    assert_eq!(short, Refusal::BadLength { what: "rates", found: 1, expected: 3 });
}

#[test]
fn it_ends_when_it_is_told_to() {
    let instance = instance(0.0);
    for rule in [&mut Static::new(vec![1.0; 3]) as &mut dyn RateRule, &mut Fill::equal(&instance)] {
        assert_eq!(simulate_with(&instance, rule, &[], &mut || true), Err(Refusal::Stopped));
    }
}

#[test]
fn jobs_are_as_late_as_their_last_collective() {
    let outcome = both(&instance(0.0), [1.0, 2.0, 0.5]).expect("fits");
    assert_eq!(outcome.by_job(&[0, 0]), [8.0]);
    assert_eq!(outcome.by_job(&[1, 0]), [8.0, 6.0]);
    assert_eq!(outcome.by_job(&[usize::MAX]), [0.0, 0.0], "a job that cannot be is left out");
}
