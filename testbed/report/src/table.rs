//! The table of job completion times for the terminal.

// Writing into a String cannot fail.
use std::fmt::Write as _;

use super::about::About;
use super::stats::{best_baseline, compare, summaries};
use super::warnings::warnings;
use crate::measured::PolicyRun;

/// The table, warnings first; plain text.
pub fn table(about: &About, runs: &[PolicyRun]) -> String {
    let mut out = String::new();
    for warning in warnings(runs) {
        _ = writeln!(out, "! {warning}");
    }
    let all = summaries(runs);
    let compared = compare(runs);
    let best = best_baseline(&all).map(|s| s.policy.clone()).unwrap_or_default();
    _ = write!(
        out,
        "{}: {} jobs, {} per NIC, compute × {}, rates and bytes ÷ {}\n\n",
        about.scenario,
        about.jobs,
        rate(about.nic),
        about.compute_scale,
        about.scale
    );
    let width = all.iter().map(|s| s.policy.len()).max().unwrap_or(6).max(6);
    // Time is bought from unmanaged traffic as easily as it is earned.
    let unmanaged = all.iter().any(|s| s.unmanaged_bytes_s.is_some());
    let beside = |text: String| if unmanaged { format!(" {text:>11}") } else { String::new() };
    _ = writeln!(
        out,
        "{:width$}  {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}{}  {:>12}  {:>10}",
        "policy",
        "mean JCT",
        "median",
        "p99",
        "max",
        "waiting",
        "round",
        "retrans.",
        beside("unmanaged".into()),
        "mean JCT",
        "worst job"
    );
    for s in &all {
        let vs = compared.iter().find(|c| c.policy == s.policy);
        let lower = match vs {
            Some(c) => percent(c.lower),
            None if s.policy == best => "best TCP".to_owned(),
            None => String::new(),
        };
        let worst = vs.map(|c| format!("{:.2}x", c.worst_ratio)).unwrap_or_default();
        _ = writeln!(
            out,
            "{:width$}  {:>7.2} s {:>6.2} s {:>6.2} s {:>6.2} s {:>6.2} s {:>5.0} ms {:>9.0}{}  {:>12}  {:>10}",
            s.policy,
            s.mean_s,
            s.p50_s,
            s.p99_s,
            s.max_s,
            s.wait_s,
            s.round_s * 1e3,
            s.retransmits,
            beside(s.unmanaged_bytes_s.map_or_else(String::new, |bytes| format!("{:.1} MB/s", bytes / 1e6))),
            lower,
            worst
        );
    }
    for c in compared.iter().filter(|c| !super::stats::is_baseline(&c.policy)) {
        let each: Vec<String> = c.lower_each.iter().map(|l| percent(*l)).collect();
        _ = write!(
            out,
            "\n{}: mean JCT {} than with {} (each repeat: {}), p99 {}; worst job {} at {:.2}x, {} of {} jobs more than 5 % slower\n",
            c.policy,
            percent(c.lower),
            c.baseline,
            each.join(", "),
            percent(c.p99_lower),
            c.worst_job,
            c.worst_ratio,
            c.slower_jobs,
            c.jobs
        );
        let of = |policy: &str| all.iter().find(|s| s.policy == policy).and_then(|s| s.unmanaged_bytes_s);
        if let (Some(ours), Some(theirs)) = (of(&c.policy), of(&c.baseline)) {
            _ = writeln!(
                out,
                "Unmanaged traffic received {:.0} % of what it received beside {}.",
                100.0 * ours / theirs,
                c.baseline
            );
        }
    }
    out
}

/// "12.3 % lower", "4.0 % higher".
pub(crate) fn percent(lower: f64) -> String {
    format!("{:.1} % {}", lower.abs() * 100.0, if lower >= 0.0 { "lower" } else { "higher" })
}

/// A rate with its unit.
pub(crate) fn rate(bits: f64) -> String {
    if bits >= 1e9 {
        let text = format!("{:.2}", bits / 1e9);
        return format!("{} Gbit/s", text.trim_end_matches('0').trim_end_matches('.'));
    }
    format!("{:.0} Mbit/s", bits / 1e6)
}
