//! What Sluice may cost a job, against equal shares that everybody has at once: the bounds of promise P-3, in virtual time.

use sluice_scenario::Scenario;

use super::{fixed_mix, mean, plain, run, scenario};

/// Completion times under this rule over those by equal shares, job by job.
fn over_equal_shares(scenario: &Scenario, rule: &str) -> Vec<f64> {
    let ratios: Vec<f64> =
        run(scenario, rule).0.iter().zip(plain(scenario)).map(|(with, without)| with / without).collect();
    println!("{rule}: {ratios:.3?}, mean {:.3}", mean(&ratios));
    ratios
}

/// One job and nothing else.
fn alone(arch: &str, place: &str) -> Scenario {
    scenario(&format!(
        "[network]\nkind = \"star\"\nhosts = 4\ngpus = 2\ngbps = 10\n[[jobs]]\nid = \"a\"\narch = \"{arch}\"\n{place}\n\
         bytes = 250000000\ncompute_s = 0.2\niterations = 20\n[scheduler]\nname = \"sluice\"\n"
    ))
}

/// Promises: P-3
#[test]
fn a_job_alone_takes_a_fiftieth_longer_at_most() {
    for (arch, place) in [
        ("ring", "workers = 3\nplacement = { workers = [\"h0\", \"h1\", \"h2\"] }"),
        ("ps", "workers = 2\nservers = 1\nplacement = { workers = [\"h0\", \"h1\"], servers = [\"h2\"] }"),
    ] {
        let scenario = alone(arch, place);
        for rule in ["sluice", "sluice:fair"] {
            let ratios = over_equal_shares(&scenario, rule);
            assert!(ratios.iter().all(|ratio| *ratio <= 1.02), "{arch}, {rule}: {ratios:?}");
        }
    }
}

/// Promises: P-3
#[test]
fn among_others_the_mean_is_no_longer_and_each_job_within_its_bound() {
    for (gbps, scale) in [(10, "0.25"), (10, "1"), (25, "0.25"), (25, "1")] {
        let scenario = fixed_mix(gbps, scale, "", "");
        let ranked = over_equal_shares(&scenario, "sluice");
        assert!(mean(&ranked) <= 1.0 && ranked.iter().all(|ratio| *ratio <= 1.25), "{gbps} {scale}: {ranked:?}");
        let fair = over_equal_shares(&scenario, "sluice:fair");
        assert!(fair.iter().all(|ratio| *ratio <= 1.05), "{gbps} {scale}: {fair:?}");
    }
}
