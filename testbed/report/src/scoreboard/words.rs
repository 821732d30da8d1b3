//! What a comparison comes to, in a sentence: a gain is only called one where chance hardly made it.

use std::fmt::Write as _;

use super::board::{Against, Row};

/// What the pairs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is below 1.
    Gain,
    /// The mean is not below 1, or the interval reaches 1.
    NoGain,
    /// One pair, which was faster: chance cannot be told from gain.
    Unknown,
}

/// What the pairs of a comparison show.
pub fn verdict(against: &Against) -> Verdict {
    match &against.paired.interval {
        Some(interval) if interval.high < 1.0 => Verdict::Gain,
        None if against.paired.mean < 1.0 => Verdict::Unknown,
        _ => Verdict::NoGain,
    }
}

/// A row in sentences, one a comparison; or why there is none.
pub fn sentences(row: &Row) -> Vec<String> {
    let head = format!("{}, {}", row.case, row.load);
    if row.against.is_empty() {
        return vec![format!("{head}: nothing is compared, since no turn has both sides")];
    }
    row.against.iter().map(|against| format!("{head}: {}", sentence(row, against))).collect()
}

fn sentence(row: &Row, against: &Against) -> String {
    let paired = &against.paired;
    let lower = (1.0 - paired.mean) * 100.0;
    let direction = if lower >= 0.0 { "below" } else { "above" };
    let fact = format!("{} {:.1} % {direction} {}", against.policy, lower.abs(), against.baseline);
    let spread = paired.interval.map(|i| {
        let (least, most) = ((1.0 - i.high) * 100.0, (1.0 - i.low) * 100.0);
        format!("90 %: {least:.1} to {most:.1} % below; {} pairs", paired.ratios.len())
    });
    let spread = spread.unwrap_or_else(|| "one pair".to_owned());
    let mut out = match verdict(against) {
        Verdict::Gain => format!("gain: {fact} ({spread})"),
        Verdict::NoGain if lower > 0.0 => format!("no gain: {fact}, which may be chance ({spread})"),
        Verdict::NoGain => format!("no gain: {fact} ({spread})"),
        Verdict::Unknown => format!("one pair only, chance is not ruled out: {fact}"),
    };
    if let Some(ratio) = against.unmanaged_ratio {
        _ = write!(out, "; unmanaged traffic gets {ratio:.2} of what it gets beside {}", against.baseline);
    }
    if against.worst_job_ratio > 1.05 {
        _ = write!(out, "; job {} takes {:.2} of its time", against.worst_job, against.worst_job_ratio);
    }
    match &against.way {
        Some(way) => {
            let interval = way.interval.map(|i| format!(" (90 %: {:.0} to {:.0})", i.low * 100.0, i.high * 100.0));
            let routes = if way.own_routes { ", on the simulator's routes" } else { "" };
            _ = write!(
                out,
                "; {:.0} %{} of the way to {:.2} s by {}{routes}",
                way.part * 100.0,
                interval.unwrap_or_default(),
                way.order_s,
                way.by
            );
        }
        None if !row.unmanaged => out.push_str("; no way is known: the simulator has no order that is ahead of it"),
        None => {}
    }
    out
}
