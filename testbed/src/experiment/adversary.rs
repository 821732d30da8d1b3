//! What a rogue host does to others' goodput: a job on all hosts but one, under real daemons and a real switch that all
//! prove who they are, by turns alone and beside a host that says whatever gains it most: as itself, as another, and as
//! nobody.

mod cluster;
mod rogue;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use sluice_schedule::{Bytes, Nanos, Rate};

use super::live::Live;
use super::{Bench, mbps};
use crate::fabric::FabricSpec;
use crate::job;
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan};
use cluster::Cluster;
use rogue::{Rogue, Seen};

/// Options of `sluice-experiment adversary`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "200", value_parser = mbps)]
    pub rate: Rate,
    /// Hosts, of which the last is the rogue.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(3..=12))]
    pub hosts: u64,
    /// Turns with and without each kind of rogue.
    #[arg(long, default_value_t = 3)]
    pub turns: usize,
    /// Length of a turn, s; its first second is not counted.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..))]
    pub seconds: u64,
}

/// Who the rogue says that it is, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// Itself, by its own certificate, and asks for all there is.
    Own,
    /// The same, and asks for what its own cable carries, before everybody, on the link to one host of the job.
    Within,
    /// A host of the job, by its own certificate.
    Another,
    /// A host of the job, by a certificate of that name which an authority signed that nobody believes.
    Forged,
    /// Inside TLS, without a certificate.
    Bare,
    /// Itself, in plain text, from the address that the topology gives it.
    Plain,
}

const IDENTITIES: [Identity; 6] =
    [Identity::Within, Identity::Another, Identity::Forged, Identity::Bare, Identity::Plain, Identity::Own];
/// Not counted at the beginning of a turn.
const SETTLING: Duration = Duration::from_secs(1);
/// A round of the honest job on its links.
const ROUND: Nanos = Nanos::from_millis(300);
/// How long the hosts of the job may take until they hear the switch.
const PATIENCE: Duration = Duration::from_secs(20);
/// Others' goodput is no further from what it is without the rogue.
pub const BAR: f64 = 0.03;
/// Announcements by result.
const UPDATES: &str = "sluice_switchd_updates_total";
/// Hellos that were refused, as one that comes a slot too late is.
const HELLOS: &str = "sluice_switchd_hellos_refused_total";
/// Connections that were not let in, by reason.
const CONNECTIONS: &str = "sluice_switchd_connections_refused_total";

impl Identity {
    /// What a switch has to count of it: the name of a series, and its labels. Who asks for what it may have is not
    /// refused.
    fn counted_as(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Identity::Within => (UPDATES, &[]),
            Identity::Own => (UPDATES, &["link-not-yours", "foreign-flow", "slot-guard"]),
            Identity::Another => (CONNECTIONS, &["identity-not-host"]),
            Identity::Forged => (CONNECTIONS, &["unknown-authority"]),
            Identity::Bare => (CONNECTIONS, &["no-certificate"]),
            Identity::Plain => (CONNECTIONS, &["protocol"]),
        }
    }
}

/// What one kind of rogue did.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// Who it said that it is.
    pub identity: Identity,
    /// Others' goodput beside it and without it, payload Mbit/s, turn by turn.
    pub turns: Vec<(f64, f64)>,
    /// The mean of the quotients.
    pub ratio: f64,
    /// How often it was let in.
    pub sessions: u64,
    /// How often a switch answered what it said.
    pub answers: u64,
    /// How often it was refused, as it saw it: a connection, or what it said.
    pub refusals: u64,
    /// What switches counted of it meanwhile, by the name of the series.
    pub counted: Vec<(String, f64)>,
    /// The reasons by which the switch's log names connections that it refused meanwhile.
    pub told: Vec<String>,
}

impl Beside {
    /// Is others' goodput what it is without it?
    pub fn is_kept(&self) -> bool {
        (self.ratio - 1.0).abs() <= BAR
    }

    /// Was it there, was each try of it counted, and by its name? Who was neither answered nor refused shows nothing.
    pub fn is_seen(&self) -> bool {
        let (name, labels) = self.identity.counted_as();
        let is_counted = |label: &str| {
            let wanted = format!("=\"{label}\"");
            let is = |series: &str| series.starts_with(name) && series.contains(&wanted);
            self.counted.iter().any(|(series, count)| is(series) && *count > 0.0)
        };
        let is_told = |label: &str| self.told.iter().any(|reason| reason == label);
        let tries = self.counted.iter().filter(|(series, _)| series.starts_with(name) || series.starts_with(HELLOS));
        let each = tries.map(|(_, count)| *count).sum::<f64>() >= self.refusals as f64;
        match self.identity {
            Identity::Within => self.answers > 0 && each,
            Identity::Own => {
                self.answers > 0 && self.refusals > 0 && each && labels.iter().all(|label| is_counted(label))
            }
            Identity::Another | Identity::Forged | Identity::Bare | Identity::Plain => {
                let refused = self.sessions == 0 && self.refusals > 0;
                refused && each && labels.iter().all(|label| is_counted(label) && is_told(label))
            }
        }
    }
}

/// What all kinds did.
#[derive(Clone, Debug, Serialize)]
pub struct AdversaryResult {
    /// Each kind of rogue.
    pub beside: Vec<Beside>,
    /// Did others keep what they have beside each kind, and was each counted and named?
    pub pass: bool,
    /// The same in one line, with the figures.
    pub verdict: String,
}

impl AdversaryResult {
    fn of(beside: Vec<Beside>) -> AdversaryResult {
        let tried = |identity: &Identity| beside.iter().any(|one| one.identity == *identity);
        let well = beside.iter().all(|one| one.is_kept() && one.is_seen());
        let pass = well && IDENTITIES.iter().all(tried);
        let least = beside.iter().map(|one| one.ratio).fold(f64::INFINITY, f64::min);
        let most = beside.iter().map(|one| one.ratio).fold(f64::NEG_INFINITY, f64::max);
        let seen = beside.iter().filter(|one| one.is_seen()).count();
        let verdict = format!(
            "others have {:.1} to {:.1} % of what they have alone; {seen} of {} kinds of rogue counted and named",
            least * 100.0,
            most * 100.0,
            IDENTITIES.len()
        );
        AdversaryResult { beside, pass, verdict }
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        for one in &self.beside {
            let Beside { identity, turns, ratio, sessions, answers, refusals, counted, told } = one;
            let word = if one.is_kept() { "within" } else { "NOT within" };
            let pairs: Vec<String> = turns.iter().map(|(with, without)| format!("{with:.0}/{without:.0}")).collect();
            out += &format!("{identity:?}: {:.1} % of alone, {word} 3 % ({})\n", ratio * 100.0, pairs.join(" "));
            out += &format!("  let in {sessions} times, answered {answers} times, refused {refusals} times\n");
            for (series, count) in counted {
                out += &format!("  {count:>8} {series}\n");
            }
            if !told.is_empty() {
                out += &format!("  told as {}\n", told.join(", "));
            }
            if !one.is_seen() {
                out += "  NOT counted and named as it must be\n";
            }
        }
        let word = if self.pass { "holds" } else { "MISSED" };
        out + &format!("{word}: {}\n", self.verdict)
    }
}

/// Runs them.
///
/// # Errors
/// As a run.
pub fn adversary(bench: &Bench<'_>, settings: &Settings) -> Result<AdversaryResult, RunError> {
    let hosts = usize::try_from(settings.hosts).unwrap_or(usize::MAX);
    let fabric = FabricSpec::star(hosts, settings.rate, Bytes(250_000));
    let honest = hosts - 1;
    let bytes = Bytes(fabric.payload(settings.rate).over(ROUND).0 * honest as u64 / (2 * (honest as u64 - 1)));
    let job = JobPlan { compute: vec![Nanos::from_millis(30)], ..JobPlan::ring("honest", honest, bytes, 1_000_000) };
    let plan = RunPlan { name: "adversary".into(), fabric, jobs: vec![job], ..RunPlan::default() };
    let place = Placement { workers: (0..honest).collect(), servers: Vec::new() };
    let policy = Policy::Sluice { policy: None, nic: false };
    let dir = bench.session("live")?.dir;
    let cluster = Cluster::issue(&dir, &plan.fabric, &plan.fabric.hosts[0])?;
    let log = dir.join("sluice-switch.log");
    let mut live = Live::start(bench, &plan, &place, &policy, 20)?;
    live.until(0, true, PATIENCE)?;
    live.run_for(Duration::from_secs(3))?;
    until_all_hear(&mut live, honest)?;
    let mut beside = Vec::new();
    for identity in IDENTITIES {
        tracing::info!("adversary: {identity:?}");
        let (before, read) = (counters(&live), lines(&log).len());
        let (mut turns, mut seen) = (Vec::new(), Seen::default());
        for _ in 0..settings.turns {
            if bench.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let without = turn(&mut live, settings, honest)?;
            let rogue = Rogue::start(&live, &plan, &cluster, identity, honest)?;
            let with = turn(&mut live, settings, honest)?;
            let Seen { sessions, answers, refusals } = rogue.end();
            seen.sessions += sessions;
            seen.answers += answers;
            seen.refusals += refusals;
            turns.push((with, without));
        }
        let ratios: Vec<f64> = turns.iter().map(|(with, without)| with / without.max(1.0)).collect();
        let counted = grown(&before, counters(&live));
        let told = reasons(lines(&log).iter().skip(read));
        let Seen { sessions, answers, refusals } = seen;
        let ratio = sluice_report::stats::mean(&ratios);
        beside.push(Beside { identity, turns, ratio, sessions, answers, refusals, counted, told });
    }
    // Who was cut off, or has ended, was hurt as well.
    live.daemons.check()?;
    until_all_hear(&mut live, honest)?;
    Ok(AdversaryResult::of(beside))
}

/// Waits until every host of the job hears the switch: who does not is on its own, and nobody there could take anything
/// from it.
fn until_all_hear(live: &mut Live, members: usize) -> Result<(), RunError> {
    let end = Instant::now() + PATIENCE;
    while let Some(host) = (0..members).find(|host| !hears(live, *host)) {
        if Instant::now() > end {
            let name = &live.fabric.hosts[host].name;
            return Err(RunError::Plan(format!("the daemon of {name} does not hear the switch within {PATIENCE:?}")));
        }
        live.run_for(Duration::from_millis(50))?;
    }
    Ok(())
}

fn hears(live: &Live, host: usize) -> bool {
    let text = live.daemons.get(host, "/api/v1/snapshot").unwrap_or_default();
    let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let switch = &snapshot["switches"][0];
    switch["state"] == "up" && switch["view"] == "fresh"
}

/// What all members of the job send in a turn, payload Mbit/s.
fn turn(live: &mut Live, settings: &Settings, members: usize) -> Result<f64, RunError> {
    live.run_for(SETTLING)?;
    let from = job::now();
    live.run_for(Duration::from_secs(settings.seconds).saturating_sub(SETTLING))?;
    let to = job::now();
    Ok((0..members).map(|rank| live.rate(rank, from, to)).sum())
}

/// What a switch counts of who is refused or clipped.
fn counters(live: &Live) -> Vec<(String, f64)> {
    // A page is given out for a second.
    std::thread::sleep(Duration::from_millis(1_100));
    let page = live.fabric.management.run(metrics).ok().flatten();
    let wanted = [
        "sluice_switchd_clipped_total",
        UPDATES,
        HELLOS,
        CONNECTIONS,
        "sluice_switchd_identities_refused_total",
        "sluice_switchd_bans_total",
        "sluice_switchd_slot_guard_rejects_total",
    ];
    let line = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let named = wanted.iter().any(|name| series.starts_with(name)) && !series.contains("result=\"applied\"");
        Some((series.to_owned(), value.parse().ok()?)).filter(|_| named)
    };
    page.unwrap_or_default().lines().filter_map(line).collect()
}

/// By how much counters have grown, of those that have.
fn grown(before: &[(String, f64)], after: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let by = |(series, count): (String, f64)| {
        let was = before.iter().find(|(known, _)| *known == series).map_or(0.0, |(_, count)| *count);
        (count > was).then_some((series, count - was))
    };
    after.into_iter().filter_map(by).collect()
}

/// The switches' page of metrics, asked for in their namespace.
fn metrics() -> Option<String> {
    let mut stream = TcpStream::connect("127.0.0.1:9606").ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}

/// The lines of a log so far.
fn lines(log: &Path) -> Vec<String> {
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The reasons by which lines of a log tell of connections that were refused, each once.
fn reasons<'a>(lines: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for line in lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        let reason = line["reason"].as_str().filter(|_| line["event"] == "connection-refused");
        if let Some(reason) = reason.filter(|reason| !reasons.iter().any(|known| known == reason)) {
            reasons.push(reason.to_owned());
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a rogue of this kind nothing changed, and all that it did was counted and named.
    fn well(identity: Identity) -> Beside {
        let (name, labels) = identity.counted_as();
        let series = |label: &&str| (format!("{name}{{a=\"{label}\",switch=\"s0\"}}"), 50.0);
        let is_host = matches!(identity, Identity::Own | Identity::Within);
        Beside {
            identity,
            turns: vec![(99.0, 100.0)],
            ratio: 0.99,
            sessions: u64::from(is_host),
            answers: if is_host { 1_000 } else { 0 },
            refusals: if identity == Identity::Within { 0 } else { 50 },
            counted: labels.iter().map(series).collect(),
            told: if is_host { Vec::new() } else { labels.iter().map(|label| (*label).to_owned()).collect() },
        }
    }

    fn passes(change: impl Fn(&mut Beside)) -> bool {
        let changed = |identity| {
            let mut one = well(identity);
            change(&mut one);
            one
        };
        AdversaryResult::of(IDENTITIES.into_iter().map(changed).collect()).pass
    }

    #[test]
    fn it_passes_where_others_keep_what_they_have_and_every_kind_is_counted_and_named() {
        assert!(passes(|_| ()));
        let result = AdversaryResult::of(IDENTITIES.into_iter().map(well).collect());
        assert_eq!(
            result.verdict,
            "others have 99.0 to 99.0 % of what they have alone; 6 of 6 kinds of rogue counted and named"
        );
        assert!(result.table().ends_with(&format!("holds: {}\n", result.verdict)), "{}", result.table());
        assert!(!result.table().contains("NOT"), "{}", result.table());
        // A kind that was not tried is not known.
        assert!(!AdversaryResult::of(IDENTITIES.into_iter().skip(1).map(well).collect()).pass);
        assert!(!AdversaryResult::of(Vec::new()).pass);
    }

    #[test]
    fn it_fails_where_others_have_less_or_more_beside_one_kind() {
        for wrong in IDENTITIES {
            for (ratio, holds) in [(0.969, false), (0.971, true), (1.029, true), (1.031, false), (f64::NAN, false)] {
                let change = |one: &mut Beside| {
                    if one.identity == wrong {
                        one.ratio = ratio;
                    }
                };
                assert_eq!(passes(change), holds, "{wrong:?} {ratio}");
            }
        }
    }

    fn fails(wrong: Identity, change: fn(&mut Beside)) -> bool {
        !passes(|one| {
            if one.identity == wrong {
                change(one);
            }
        })
    }

    #[test]
    fn it_fails_where_one_kind_is_not_there_not_counted_not_named_or_let_in() {
        for kind in IDENTITIES {
            assert!(fails(kind, |one| (one.answers, one.refusals) = (0, 0)), "{kind:?}");
        }
        for kind in IDENTITIES.into_iter().filter(|kind| *kind != Identity::Within) {
            assert!(fails(kind, |one| one.counted.clear()), "{kind:?}");
            assert!(fails(kind, |one| one.counted[0].1 = 0.0), "{kind:?}");
            assert!(fails(kind, |one| one.refusals = 1_000), "{kind:?}: not each try is counted");
            if kind != Identity::Own {
                assert!(fails(kind, |one| one.told.clear()), "{kind:?}");
                assert!(fails(kind, |one| one.sessions = 1), "{kind:?}");
                // Refused, and for another reason.
                let places: fn(&mut Beside) = |one| one.counted[0].0 = format!("{CONNECTIONS}{{reason=\"places\"}}");
                assert!(fails(kind, places), "{kind:?}");
            }
        }
    }

    fn of(counts: &[(&str, f64)]) -> Vec<(String, f64)> {
        counts.iter().map(|(series, count)| ((*series).to_owned(), *count)).collect()
    }

    #[test]
    fn reasons_are_those_of_refused_connections_and_counters_tell_what_they_have_grown_by() {
        let line = |event: &str, reason: &str| serde_json::json!({"event": event, "reason": reason}).to_string();
        let log = [
            line("connection-refused", "protocol"),
            "no JSON".to_owned(),
            line("hello-refused", "cluster-mismatch"),
            line("connection-refused", "no-certificate"),
            line("connection-refused", "protocol"),
        ];
        assert_eq!(reasons(log.iter()), ["protocol", "no-certificate"]);
        let after = of(&[("a", 3.0), ("b", 2.0), ("c", 1.0)]);
        assert_eq!(grown(&of(&[("a", 1.0), ("b", 2.0)]), after), of(&[("a", 2.0), ("c", 1.0)]));
    }
}
