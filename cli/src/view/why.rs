//! `sluice why` in words.

use sluice_attribution::share::Cause;

use crate::format::{percent, time};
use crate::table::Table;
use crate::why::{Share, Why};

/// Smaller parts than this are summed: they say nothing.
const LEAST: f64 = 0.01;
/// Below this the kernel's counts are missing for so much that it has to be said.
const SURE: f64 = 0.8;

/// Where the time of a job's rounds went.
pub fn why(why: &Why) -> String {
    let mut out = format!(
        "job {} on {}: the last {} took {} each, compute and communication\n\n",
        why.job,
        why.host,
        if why.rounds == 1 { "round".into() } else { format!("{} rounds", why.rounds) },
        time(Some(why.took_ns))
    );
    let mut table = Table::new(["TIME WENT TO", ">TIME", ">SHARE", ">USUALLY"]);
    let usually = |share: &Share| {
        let usual = why.usual.as_ref()?;
        Some(usual.shares.iter().find(|of| of.cause == share.cause).map_or(0, |of| of.ns))
    };
    let (shown, small): (Vec<&Share>, Vec<&Share>) = why.shares.iter().partition(|share| share.ratio >= LEAST);
    for share in shown {
        table.row(vec![text(&share.cause), time(Some(share.ns)), percent(Some(share.ratio)), time(usually(share))]);
    }
    if !small.is_empty() {
        let (ns, ratio) = small.iter().fold((0, 0.0), |sum, share| (sum.0 + share.ns, sum.1 + share.ratio));
        table.row(vec![format!("{} others", small.len()), time(Some(ns)), percent(Some(ratio)), String::new()]);
    }
    out += &table.render(None);
    out.push('\n');
    out += &verdict(why);
    if why.confidence < SURE {
        out += &format!(
            "The kernel's own counts are known for {} of this time; the rest is guessed.\n",
            percent(Some(why.confidence))
        );
    }
    let asked: Vec<&str> =
        why.shares.iter().filter(|share| share.ratio >= LEAST).filter_map(|share| peer(&share.cause)).collect();
    let missing: Vec<&str> = asked.into_iter().filter(|host| !why.records.iter().any(|known| known == host)).collect();
    if !missing.is_empty() {
        let list = missing.join(",");
        out +=
            &format!("What {list} did meanwhile is in its own flight record: sluice why {} --with {list}\n", why.job);
    }
    out
}

fn verdict(why: &Why) -> String {
    let Some(usual) = &why.usual else {
        return format!("{} rounds are recorded: too few to say what is usual.\n", why.recorded);
    };
    let usually = format!("{} (the quickest {} of {} recorded)", time(Some(usual.took_ns)), usual.rounds, why.recorded);
    let Some(first) = why.more.first() else {
        return format!("That is as quick as it gets: rounds usually take {usually}.\n");
    };
    let slower = why.took_ns as f64 / usual.took_ns.max(1) as f64;
    let mut text = format!("Rounds usually take {usually}; these take {slower:.1} times as long.\n");
    text += &format!("Of what is more, {} went to: {}.\n", percent(Some(first.ratio)), self::text(&first.cause));
    if let Some(second) = why.more.get(1).filter(|second| second.ratio >= 0.1) {
        text += &format!("Then {}: {}.\n", percent(Some(second.ratio)), self::text(&second.cause));
    }
    text += &format!("Next: {}\n", next(&first.cause, &why.job));
    text
}

fn peer(cause: &Cause) -> Option<&str> {
    match cause {
        Cause::Peer { host } => Some(host),
        _ => None,
    }
}

/// The cause in words.
fn text(cause: &Cause) -> String {
    match cause {
        Cause::Compute => "compute: nothing to send".into(),
        Cause::OwnSender => "the own processes, which sent or took nothing in a round".into(),
        Cause::Peer { host } => format!("host {host}, which computed, sent or took nothing"),
        Cause::Link { link } => format!("link {link}, full with the job's own bytes"),
        Cause::Path { to } => format!("the way to {to}: it carries less than its links should"),
        Cause::Job { link, job } if job.is_empty() => format!("other hosts' jobs on link {link}"),
        Cause::Job { link, job } => format!("job {job} on link {link}"),
        Cause::Unmanaged { link } => format!("traffic that nobody manages on link {link}"),
        Cause::Loss { to } => format!("loss on the way to {to}"),
        Cause::Unknown => "not recorded".into(),
    }
}

/// What to look at.
fn next(cause: &Cause, job: &str) -> String {
    match cause {
        Cause::Compute => "the job itself: its loader, its accelerator's clock, its batch".into(),
        Cause::OwnSender => {
            format!("the processes of {job} on this host: a busy processor, a loop that blocks; sluice jobs {job}")
        }
        Cause::Peer { host } => format!("sluice why {job} --host {host}"),
        Cause::Link { link } => format!("a faster link than {link}, or less to send; sluice links"),
        Cause::Path { to } => {
            format!("speed, errors and limits of the links to {to}: ethtool there, sluice links here")
        }
        Cause::Job { job: other, .. } if other.is_empty() => {
            "sluice schedule, and sluice jobs on the other hosts".into()
        }
        Cause::Job { job: other, .. } => format!("sluice why {other}; where the two stand is in sluice schedule"),
        Cause::Unmanaged { .. } => {
            "whose traffic it is: ss -tnp, sluice links; jobs that Sluice does not know: sluice doctor".into()
        }
        Cause::Loss { to } => {
            format!("cables, transceivers and queues on the way to {to}: ethtool -S, sluice flows --sort retrans")
        }
        Cause::Unknown => "the daemon's log: it was not there, or events flight-failed say why".into(),
    }
}
