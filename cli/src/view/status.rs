//! `sluice status`: one screen.

use sluice_wire::snapshot::{Severity, Snapshot, SwitchState, Transport};

use crate::format::{age, bytes, grouped, percent, rate, strip, time};

/// Text of a condition wraps here.
const WRAP: usize = 96;

pub fn status(snapshot: &Snapshot, colors: bool) -> String {
    let mut out = header(snapshot) + "\n";
    for condition in &snapshot.conditions {
        let word = condition.severity.as_str();
        let subject = if condition.subject.is_empty() { String::new() } else { format!("{}: ", condition.subject) };
        let mut text = format!("{}: {subject}{}.", condition.code.as_str(), condition.sentence.trim_end_matches('.'));
        for (lead, part) in [("Cost: ", &condition.cost), ("Next: ", &condition.next)] {
            if !part.is_empty() {
                text += &format!(" {lead}{}.", part.trim_end_matches('.'));
            }
        }
        let paint = |word: &str| match (colors, condition.severity) {
            (true, Severity::Inactive) => format!("\x1b[31m{word:<8}\x1b[0m"),
            (true, Severity::Degraded) => format!("\x1b[33m{word:<8}\x1b[0m"),
            _ => format!("{word:<8}"),
        };
        for (index, line) in wrap(&text, WRAP).into_iter().enumerate() {
            let lead = if index == 0 { paint(word) } else { " ".repeat(8) };
            out += &format!("  {lead}  {}{line}\n", if index == 0 { "" } else { "  " });
        }
    }
    for (name, text) in lines(snapshot) {
        out += &format!("  {name:<8}  {text}\n");
    }
    out
}

/// The first line: which daemon, what was asked for, how it goes.
pub fn header(snapshot: &Snapshot) -> String {
    let daemon = &snapshot.daemon;
    let until = daemon.mode_until_unix_ns.map(|until| until.saturating_sub(snapshot.taken_unix_ns));
    let returns = until.map_or(String::new(), |left| format!(" (returns in {})", age(left)));
    format!(
        "sluiced {} on {}    {}{returns}, {}    up {}",
        daemon.version,
        daemon.host,
        daemon.mode.as_str(),
        daemon.state.as_str(),
        age(daemon.uptime_ns)
    )
}

fn lines(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("enforce", enforce(snapshot)),
        ("clock", clock(snapshot)),
        ("switches", switches(snapshot)),
        ("jobs", jobs(snapshot)),
    ];
    lines.extend(snapshot.links.iter().filter(|link| link.own).map(|link| {
        let part = |bps: Option<u64>| {
            percent(bps.filter(|_| link.capacity_bps > 0).map(|bps| bps as f64 / link.capacity_bps as f64))
        };
        let text = format!(
            "{} {}: managed {}, other {}, next {} slots {}",
            link.name,
            rate(Some(link.capacity_bps)),
            part(link.managed_bps),
            part(link.other_bps),
            link.next_bps.len(),
            strip(link.load_ratios())
        );
        ("links", text)
    }));
    let cost = &snapshot.cost;
    let class = if snapshot.daemon.realtime { ", decides in a real-time thread" } else { "" };
    let split = if snapshot.daemon.split { ", privileges with a helper" } else { "" };
    lines.push(("cost", format!("{} of a core, {}{class}{split}", percent(cost.cpu_ratio), bytes(cost.rss_bytes))));
    lines
}

fn enforce(snapshot: &Snapshot) -> String {
    let enforcement = &snapshot.enforcement;
    let renewed = match enforcement.renewed_ago_ns {
        Some(ago) => format!("orders renewed {} ago", time(Some(ago))),
        None => "no orders yet".into(),
    };
    format!(
        "{} (kernel {}), {} of {} flow slots, deadline {}, {renewed}",
        enforcement.backend.as_str(),
        snapshot.daemon.kernel,
        grouped(enforcement.rows_used),
        grouped(enforcement.rows),
        time(Some(enforcement.deadline_ns))
    )
}

fn clock(snapshot: &Snapshot) -> String {
    let clock = &snapshot.clock;
    let offset = clock.offset_ns.map_or(String::new(), |ns| format!(", offset to switches {:+.1} ms", ns as f64 / 1e6));
    format!(
        "{}, error ≤ {} of {} allowed, slot {}{offset}{}",
        clock.source,
        time(clock.max_error_ns),
        time(Some(clock.allowed_error_ns)),
        grouped(u64::from(clock.slot)),
        if clock.trusted { "" } else { ", NOT TRUSTED" }
    )
}

fn switches(snapshot: &Snapshot) -> String {
    let (peers, switches): (Vec<_>, Vec<_>) = snapshot.switches.iter().partition(|switch| switch.peer);
    let up = |of: &[&sluice_wire::snapshot::SwitchStatus]| of.iter().filter(|s| s.state == SwitchState::Up).count();
    let mut parts = Vec::new();
    if snapshot.switches.is_empty() {
        parts.push("none configured, no peers met yet".to_owned());
    }
    if !switches.is_empty() {
        let mut by: Vec<Transport> = switches.iter().map(|switch| switch.transport).collect();
        by.sort_unstable();
        by.dedup();
        // A session is what everybody has who chose nothing.
        let by: Vec<&str> = by.into_iter().map(Transport::as_str).collect();
        let by = if by == ["session"] { String::new() } else { format!(" by {}", by.join(" and ")) };
        parts.push(format!("{} of {} up{by}", up(&switches), switches.len()));
    }
    if !peers.is_empty() {
        parts.push(format!("{} of {} peers up", up(&peers), peers.len()));
    }
    let exchange = |part| snapshot.counters.exchange_s.quantile(part).map(|s| (s * 1e9) as u64);
    if let (Some(p50), Some(p99)) = (exchange(0.5), exchange(0.99)) {
        parts.push(format!("exchange p50 ≤ {} p99 ≤ {}", time(Some(p50)), time(Some(p99))));
    }
    parts.join(", ")
}

fn jobs(snapshot: &Snapshot) -> String {
    let (ordered, delivered) = snapshot.rates_bps();
    format!(
        "{} ({} flows): ordered {}, delivered {}, slots on time {}",
        snapshot.jobs_running(),
        snapshot.flows_of_jobs(),
        rate(Some(ordered)),
        rate(Some(delivered)),
        percent(snapshot.on_time_ratio())
    )
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
