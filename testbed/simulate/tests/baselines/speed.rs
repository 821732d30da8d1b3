//! How long a thousand hosts take: a measurement, run by hand.

use std::time::Instant;

use sluice_scenario::Scenario;

use super::{jcts, mean, under};

/// `cargo test -p sluice-simulate --release --test baselines -- --ignored --nocapture thousand`; `SCENARIO` and `POLICIES`
/// (with spaces) choose others.
#[test]
#[ignore = "a measurement of minutes; release build"]
fn a_thousand_hosts() {
    let name = std::env::var("SCENARIO").unwrap_or("sim-1000-short".into());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../scenarios/{name}.toml"));
    let s = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
    let all = "fair static mcs ccml cassini mltcp sincronia varys aalo echelonflow crux";
    for policy in std::env::var("POLICIES").unwrap_or(all.into()).split_whitespace() {
        let begin = Instant::now();
        let o = under(policy, &s);
        println!(
            "{policy:12} {:7.2} s, {} events, mean JCT {:.4} s, {:?}",
            begin.elapsed().as_secs_f64(),
            o.events,
            mean(&jcts(&o)),
            o.counters
        );
    }
}
