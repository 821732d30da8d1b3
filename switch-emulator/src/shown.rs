//! The process as the page and its JSON show it: the tables at one moment, what is wrong, and what it takes.

use std::sync::Arc;

use sluice_clock::KernelClock;
use sluice_page::holder::{MAX_HOSTS, MAX_LINKS};
use sluice_realtime::Standing;
use sluice_schedule::Nanos;
use sluice_schedule::table::TableKind;
use sluice_wire::hello::ClockSource;
use sluice_wire::snapshot::holder::{HolderClock, HolderProcess, HolderSnapshot};
use sluice_wire::snapshot::{Condition, ConditionCode, Cost, certificate as own_certificate};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::tables::{Shown, Tables};
use crate::time;

/// A host whose grid did not fit is told of for this long.
const MISMATCH: Nanos = Nanos::from_millis(60_000);

/// What it is made of.
#[derive(Clone)]
pub struct Sources {
    pub tables: Arc<Tables>,
    pub metrics: Arc<Metrics>,
    pub config: Arc<Config>,
    /// When the process began, on the monotonic clock.
    pub started: Nanos,
}

impl Sources {
    /// The process now. Takes the tables' lock once.
    pub fn take(&self) -> HolderSnapshot {
        let Sources { tables, metrics, config, started } = self;
        let kernel = sluice_clock::kernel().ok();
        let now = sluice_clock::monotonic();
        let Shown { slot, switches, hosts, hosts_in_all, links, links_in_all, sessions, counts, mismatched } =
            tables.shown(MAX_HOSTS, MAX_LINKS);
        let lived = now.minus(*started);
        let standing = metrics.standing();
        HolderSnapshot {
            taken_unix_ns: sluice_clock::realtime().0,
            process: HolderProcess {
                version: env!("CARGO_PKG_VERSION").into(),
                boot: tables.boot().to_string(),
                cluster: config.grid.cluster.clone(),
                uptime_ns: lived.0,
                realtime: standing == Standing::Realtime,
                table: match config.table {
                    TableKind::Exact => "exact".into(),
                    TableKind::DoubleBuffer => "double-buffer".into(),
                },
                data_plane: config.data_plane.is_some(),
                sessions: sessions as u64,
                pushes: counts.pushes,
                refused_hellos: counts.refused_hellos,
                ..HolderProcess::default()
            },
            conditions: conditions(
                config,
                kernel,
                standing,
                mismatched.map(|at| now.minus(at)),
                metrics.credentials().map(|credentials| credentials.standing()).as_ref(),
            ),
            clock: HolderClock {
                source: match config.grid.clock {
                    ClockSource::Realtime => "realtime".into(),
                    ClockSource::Tai => "tai".into(),
                },
                synchronised: kernel.is_some_and(|kernel| kernel.synchronised),
                max_error_ns: kernel.map(|kernel| kernel.max_error.0),
                allowed_error_ns: config.max_clock_error.0,
                slot: slot.0,
                slot_length_ns: config.grid.slot_length.0,
                horizon: config.grid.horizon,
                edge_ago_ns: tables.since_tick().0,
            },
            switches,
            hosts,
            hosts_in_all,
            links,
            links_in_all,
            exchange_s: metrics.exchange_times(),
            cost: Cost {
                cpu_ratio: (lived > Nanos::ZERO)
                    .then(|| sluice_clock::process_cpu().as_secs_f64() / lived.as_secs_f64()),
                rss_bytes: time::resident_bytes(),
            },
            ..HolderSnapshot::default()
        }
        .settle()
    }
}

/// What is wrong; `mismatched`: since a host's grid did not fit.
fn conditions(
    config: &Config,
    kernel: Option<KernelClock>,
    standing: Standing,
    mismatched: Option<Nanos>,
    certificate: Option<&sluice_identity::Standing>,
) -> Vec<Condition> {
    let mut all = Vec::new();
    let mut add = |code, sentence: String, cost: &str, next: &str| {
        let condition = Condition::new(code, "", sentence);
        all.push(Condition { cost: cost.into(), next: next.into(), ..condition });
    };
    if let Some((key, address)) = config.beyond_loopback().filter(|_| config.open) {
        add(
            ConditionCode::PeersOpen,
            format!("everybody who reaches listen.{key} = \"{address}\" may speak (open = true)"),
            "any machine that reaches the port can hold the cluster's flows at their floor",
            "write the hosts' networks into peers, and leave open out",
        );
    }
    if let Some((key, address)) = config.unproven().filter(|_| config.unauthenticated) {
        add(
            ConditionCode::Unauthenticated,
            format!("at listen.{key} = \"{address}\" nobody proves who it is (unauthenticated = true)"),
            "any machine that reaches the port from a listed network can speak as any host",
            "give hosts and this process certificates under [tls], and leave unauthenticated out: sluice tls --help",
        );
    }
    let of_certificate = certificate.into_iter().flat_map(own_certificate::conditions);
    for (code, text) in of_certificate.filter_map(|(code, text)| Some((code, text?))) {
        add(code, text, "hosts do without this process's tables when it has no good certificate", code.next());
    }
    let kernel = kernel.unwrap_or_default();
    if config.require_sync && (!kernel.synchronised || kernel.max_error > config.max_clock_error) {
        let why = match kernel.synchronised {
            false => "no time service disciplines this machine's clock".to_owned(),
            true => format!("the clock's error is up to {}, allowed are {}", kernel.max_error, config.max_clock_error),
        };
        add(
            ConditionCode::ClockUnsafe,
            why,
            "hosts whose slots differ by more than one are refused",
            "start chrony; in a test set-up: clock.require_sync = false",
        );
    }
    if let Some(ago) = mismatched.filter(|ago| *ago < MISMATCH) {
        add(
            ConditionCode::ClusterMismatch,
            format!("a host with another slot grid, cluster or clock was refused {ago} ago"),
            "that host is not listened to",
            "make slot.length_ms, slot.horizon, clock.source and the cluster's name equal on hosts and switches",
        );
    }
    match standing {
        Standing::Refused(why) => add(
            ConditionCode::RealtimeRefused,
            format!("the thread that serves is no real-time thread: {why}"),
            "where other programs keep the processors busy, hosts wait for answers",
            "give the service LimitRTPRIO=1, or write realtime = false",
        ),
        Standing::Overran(how) => add(
            ConditionCode::RealtimeOverrun,
            format!("the thread that serves is no real-time thread for a while: {how}"),
            "for a second, or up to a minute if it comes again, it waits for its turn as other programs do",
            "fewer hosts for each process, if it comes again",
        ),
        Standing::Ordinary | Standing::Realtime => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use sluice_identity::Life;

    use super::*;

    fn codes(config: &Config, kernel: Option<KernelClock>, mismatched: Option<Nanos>) -> Vec<ConditionCode> {
        let all = conditions(config, kernel, Standing::Ordinary, mismatched, None);
        assert!(all.iter().all(|condition| !condition.cost.is_empty() && !condition.next.is_empty()));
        all.iter().map(|condition| condition.code).collect()
    }

    #[test]
    fn conditions_say_what_is_wrong_and_nothing_else() {
        let good = KernelClock { synchronised: true, ..KernelClock::default() };
        let bad = KernelClock { max_error: Nanos::from_millis(500), ..good };
        let closed = Config { peers: vec!["10.0.0.0/8".parse().expect("a network")], ..Config::default() };
        assert_eq!(codes(&closed, Some(good), None), []);
        assert_eq!(codes(&Config { open: true, ..Config::default() }, Some(good), None), [ConditionCode::PeersOpen]);
        let unproven = Config { unauthenticated: true, ..closed.clone() };
        assert_eq!(codes(&unproven, Some(good), None), [ConditionCode::Unauthenticated]);
        let standing = |life| sluice_identity::Standing { life: Some(life), ..sluice_identity::Standing::default() };
        for (life, expected) in [
            (Life::Good, vec![]),
            (Life::Soon, vec![ConditionCode::CertExpiresSoon]),
            (Life::Over, vec![ConditionCode::CertExpired]),
        ] {
            let all = conditions(&closed, Some(good), Standing::Ordinary, None, Some(&standing(life)));
            assert_eq!(all.iter().map(|condition| condition.code).collect::<Vec<_>>(), expected);
        }
        for kernel in [None, Some(KernelClock::default()), Some(bad)] {
            assert_eq!(codes(&closed, kernel, None), [ConditionCode::ClockUnsafe]);
            assert_eq!(codes(&Config { require_sync: false, ..closed.clone() }, kernel, None), []);
        }
        assert_eq!(codes(&closed, Some(good), Some(Nanos::from_millis(5000))), [ConditionCode::ClusterMismatch]);
        assert_eq!(codes(&closed, Some(good), Some(MISMATCH)), []);
    }
}
