//! Shifts on the circle: jobs that fit beside each other run as if alone (property 17).

use proptest::prelude::*;

use super::{jcts, mean, ring, scenario, star, under};

/// Lengths of the iterations of a job, seconds.
fn iterations(outcome: &sluice_simulate::Outcome, job: usize) -> Vec<f64> {
    outcome.jobs[job].rounds.windows(2).map(|w| w[1].ended.minus(w[0].ended).as_secs_f64()).collect()
}

#[test]
fn two_halves_interleave() {
    let jobs = [ring("a", 900_000_000, "1.1", 12, "0", &[0, 1]), ring("b", 900_000_000, "1.1", 12, "0", &[0, 1])];
    let s = scenario(&format!("{}{}", star(2), jobs.concat()));
    for policy in ["cassini", "ccml"] {
        let o = under(policy, &s);
        for job in 0..2 {
            // Period 2 s; from the third iteration on nothing is slower than alone.
            assert!(
                iterations(&o, job)[2..].iter().all(|t| (t - 2.0).abs() < 1e-6),
                "{policy}: {:?}",
                iterations(&o, job)
            );
        }
    }
    assert!(mean(&jcts(&under("fair", &s))) > mean(&jcts(&under("cassini", &s))));
}

#[test]
fn cassini_agrees_over_hosts_where_ccml_does_not() {
    // A chain of jobs: a and b meet on h1, b and c on h2. One shift per job serves both places.
    let period = |id: &str, hosts: &[usize]| ring(id, 900_000_000, "1.1", 20, "0", hosts);
    let jobs = [period("a", &[0, 1]), period("b", &[1, 2]), period("c", &[2, 3])];
    let s = scenario(&format!("{}{}", star(4), jobs.concat()));
    let o = under("cassini", &s);
    for job in 0..3 {
        assert!(iterations(&o, job)[2..].iter().all(|t| (t - 2.0).abs() < 1e-6), "{job}: {:?}", iterations(&o, job));
    }
    assert!(jcts(&under("ccml", &s)).iter().all(|t| *t < 60.0 + 1e-6));
}

#[test]
fn jobs_that_do_not_fit_are_moved_again_and_again_and_end() {
    let jobs = [ring("a", 3_000_000_000, "1", 10, "0", &[0, 1]), ring("b", 2_000_000_000, "0.7", 10, "0.3", &[0, 1])];
    let s = scenario(&format!("{}{}", star(2), jobs.concat()));
    for policy in ["cassini", "ccml"] {
        let o = under(policy, &s);
        let moved = o.counters.iter().find(|c| c.0 == "realigned").map_or(0.0, |c| c.1);
        assert!(moved > 0.0, "{policy}: {:?}", o.counters);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// g₁ + g₂ ≤ T with the space of one angle left: isolated speed after at most three iterations, whenever they start.
    #[test]
    fn what_fits_runs_as_if_alone(g in 5u64..60, share in 0.0f64..1.0, late in 0u32..2000) {
        let h = 1 + (share * (69 - g) as f64) as u64;
        let unit = 1_000_000_000 / 72 * 2;
        // Period 2 s; bytes for g (h) angles of it, compute for the rest, to the nanosecond.
        let job = |id: &str, angles: u64, arrival: String| {
            let bytes = angles * unit;
            ring(id, bytes, &format!("{}/1000000000", 2_000_000_000 - bytes), 8, &arrival, &[0, 1])
        };
        let jobs = [job("a", g, "0".into()), job("b", h, format!("{late}/1000"))].concat();
        let s = scenario(&format!("{}{jobs}", star(2)));
        for policy in ["cassini", "ccml"] {
            let o = under(policy, &s);
            for j in 0..2 {
                let late = o.jobs[j].rounds.windows(2).skip(3)
                    .filter(|w| (w[1].ended.minus(w[0].ended).as_secs_f64() - 2.0).abs() > 1e-6)
                    // The other job's end frees this one: its grid may be left at once.
                    .filter(|w| o.jobs[1 - j].ended.is_some_and(|e| e > w[1].ended))
                    .count();
                prop_assert_eq!(late, 0, "{} {}: {:?}", policy, j, iterations(&o, j));
            }
        }
    }
}
