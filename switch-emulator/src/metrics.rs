//! What Prometheus reads: the brains' own counters, put into its form at each scrape.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prometheus::core::Collector;
use prometheus::{
    CounterVec, Encoder, GaugeVec, Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use sluice_data_plane::Tally;
use sluice_identity::Credentials;
use sluice_realtime::Standing;
use sluice_telemetry::counts::Counts;
use sluice_wire::accept::refused::Refusals;
use sluice_wire::hello::Grid;
use sluice_wire::snapshot;
use sluice_wire::snapshot::Label;

use crate::config::Config;
use crate::tables::{Overview, RESULTS, Report, TRANSPORTS, Tables};
use crate::udp::Unanswered;

/// Bytes of an exposition at most.
const EXPOSITION: usize = 2 << 20;
/// An exposition is given out again for this long.
const FRESH: Duration = Duration::from_secs(1);

/// What there was no more of for somebody who asked over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A place among connections.
    Connection,
    /// A place among the streams of the page.
    Stream,
}

impl Lack {
    const ALL: [Lack; 2] = [Lack::Connection, Lack::Stream];

    /// As in metrics.
    const fn word(self) -> &'static str {
        match self {
            Lack::Connection => "connections",
            Lack::Stream => "streams",
        }
    }
}

pub struct Metrics {
    registry: Registry,
    exchange: Histogram,
    askers: IntCounterVec,
    unanswered: IntCounterVec,
    realtime: IntGauge,
    /// How the thread that serves last stood.
    standing: Mutex<Standing>,
    last: Mutex<Option<(Instant, String)>>,
    /// Of [tls], if there is one.
    credentials: Option<Arc<Credentials>>,
    refusals: Refusals,
    /// Of the data plane, where there is one.
    forwarded: OnceLock<Arc<Tally>>,
    /// Of what switches count, by source, where that is heard.
    heard: OnceLock<Vec<(&'static str, Arc<Counts>)>>,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new(
        config: &Config,
        credentials: Option<Arc<Credentials>>,
        refusals: Refusals,
    ) -> Result<Metrics, prometheus::Error> {
        let buckets = vec![20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3];
        let help = "From a host's message read to its answer queued.";
        let exchange = Histogram::with_opts(
            HistogramOpts::new("sluice_switchd_exchange_duration_seconds", help).buckets(buckets),
        )?;
        let everybody = IntGauge::with_opts(opts("peers_open", "1 if everybody may speak (open = true)."))?;
        everybody.set(i64::from(config.open));
        let unproven = IntGauge::with_opts(opts(
            "unauthenticated",
            "1 if other machines can speak without proof of who they are (unauthenticated = true).",
        ))?;
        unproven.set(i64::from(config.unauthenticated && config.unproven().is_some()));
        let realtime = IntGauge::with_opts(opts("realtime", "1 while the thread that serves is a real-time one."))?;
        let help = "Datagrams that were not answered, by reason.";
        let unanswered = IntCounterVec::new(opts("datagrams_unanswered_total", help), &["reason"])?;
        // Those that never were are shown as well.
        Unanswered::ALL.iter().for_each(|why| unanswered.with_label_values(&[why.word()]).reset());
        let help =
            "Who asked over HTTP and was turned away, by what there was no more of: connections, streams of the page.";
        let askers = IntCounterVec::new(opts("askers_refused_total", help), &["reason"])?;
        Lack::ALL.iter().for_each(|lack| askers.with_label_values(&[lack.word()]).reset());
        let registry = Registry::new();
        registry.register(Box::new(askers.clone()))?;
        registry.register(Box::new(unanswered.clone()))?;
        registry.register(Box::new(realtime.clone()))?;
        registry.register(Box::new(everybody))?;
        registry.register(Box::new(unproven))?;
        registry.register(Box::new(exchange.clone()))?;
        Ok(Metrics {
            registry,
            exchange,
            askers,
            unanswered,
            realtime,
            standing: Mutex::default(),
            last: Mutex::default(),
            credentials,
            refusals,
            forwarded: OnceLock::new(),
            heard: OnceLock::new(),
        })
    }

    /// The certificate of this process, where there is [tls].
    pub fn credentials(&self) -> Option<&Arc<Credentials>> {
        self.credentials.as_ref()
    }

    /// What a data plane counts is shown from now on.
    pub fn forwards(&self, tally: Arc<Tally>) {
        let _ = self.forwarded.set(tally);
    }

    /// What sources of background load count is shown from now on.
    pub fn watches(&self, counts: Vec<(&'static str, Arc<Counts>)>) {
        let _ = self.heard.set(counts);
    }

    pub fn exchanged(&self, took: Duration) {
        self.exchange.observe(took.as_secs_f64());
    }

    /// Somebody who asked over HTTP is turned away. Nothing is logged: a flood would be one of lines too.
    pub fn turned_away(&self, lack: Lack) {
        self.askers.with_label_values(&[lack.word()]).inc();
    }

    /// A datagram has no answer.
    pub fn unanswered(&self, why: Unanswered) {
        self.unanswered.with_label_values(&[why.word()]).inc();
    }

    /// Is the thread that serves a real-time one?
    pub fn is_realtime(&self) -> bool {
        self.realtime.get() != 0
    }

    /// How the thread that serves stands with the kernel.
    pub fn standing(&self) -> Standing {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stands(&self, standing: Standing) {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
        self.realtime.set((standing == Standing::Realtime).into());
    }

    /// How long exchanges took since the start.
    pub fn exchange_times(&self) -> snapshot::Histogram {
        let mut times = snapshot::Histogram::default();
        let families = self.exchange.collect();
        let Some(metric) = families.first().and_then(|family| family.get_metric().first()) else { return times };
        let histogram = metric.get_histogram();
        let mut below = 0;
        let buckets: Vec<(f64, u64)> = histogram
            .get_bucket()
            .iter()
            .map(|bucket| {
                let count = bucket.cumulative_count() - std::mem::replace(&mut below, bucket.cumulative_count());
                (bucket.upper_bound(), count)
            })
            .collect();
        (times.bounds, times.counts) = buckets.into_iter().unzip();
        times.counts.push(histogram.get_sample_count().saturating_sub(below));
        times.sum = histogram.get_sample_sum();
        times
    }

    /// The text format; at most one second old.
    pub fn render(&self, tables: &Tables) -> Result<String, prometheus::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let mut families = self.registry.gather();
        let forwarded = self.forwarded.get().map(|tally| forwarded(tally)).transpose()?.unwrap_or_default();
        let heard = self.heard.get().map(|counts| heard(counts)).transpose()?;
        let gate = identity(&self.refusals, self.credentials.as_deref())?;
        for collector in snapshot(tables)?.into_iter().chain(gate).chain(forwarded).chain(heard) {
            families.extend(collector.collect());
        }
        // The encoder refuses a family nothing was put into.
        families.retain(|family| !family.get_metric().is_empty());
        let mut bytes = Vec::new();
        TextEncoder::new().encode(&families, &mut bytes)?;
        let mut text = String::from_utf8(bytes).map_err(|e| prometheus::Error::Msg(e.to_string()))?;
        if text.len() > EXPOSITION {
            text.truncate(text.floor_char_boundary(EXPOSITION));
            text.truncate(text.rfind('\n').map_or(0, |at| at + 1));
            text += "# cut at 2 MiB\n";
        }
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

/// The present state of all tables as collectors.
fn snapshot(tables: &Tables) -> Result<Vec<Box<dyn Collector>>, prometheus::Error> {
    let gauge = |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(opts(name, help), labels);
    let counter = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(opts(name, help), labels);
    let rate = |name: &str, help: &str| GaugeVec::new(opts(name, help), &["switch", "link"]);

    let build = gauge("build_info", "Always 1; says what runs.", &["version", "revision"])?;
    let cluster = gauge(
        "cluster_info",
        "Always 1; hosts and switches of one cluster must agree.",
        &["cluster", "slot_ms", "horizon"],
    )?;
    let hosts = gauge("hosts", "Hosts with a lease.", &["switch"])?;
    let leases = gauge("leases", "Promises (flow, link) in force.", &["switch"])?;
    let warm = gauge("warm", "1 once zero load means zero.", &["switch"])?;
    let sessions = gauge("sessions", "Hosts connected by a session.", &[])?;
    let updates = counter("updates_total", "Announcements by result.", &["switch", "transport", "result"])?;
    let duplicates = counter("duplicates_total", "Announcements applied before.", &["switch"])?;
    let guard = counter("slot_guard_rejects_total", "Announcements for a slot too far off.", &["switch"])?;
    let expired = counter("lease_expirations_total", "Hosts whose lease ended.", &["switch"])?;
    let clipped = counter("clipped_total", "Announcements scaled down to a link's capacity.", &["switch"])?;
    let pushes = counter("pushes_total", "Feedback sent unasked.", &[])?;
    let refused = counter("hellos_refused_total", "Hosts whose grid did not fit.", &[])?;
    let impostors = counter("identities_refused_total", "Messages in the name of another than their sender.", &[])?;
    let bans = counter("bans_total", "Times that a speaker was shut out for 60 s.", &[])?;
    let capacity = rate("link_capacity_bytes_per_second", "Payload capacity.")?;
    let background =
        rate("link_background_bytes_per_second", "Payload that unmanaged traffic takes, as told or counted.")?;
    let scheduled = rate("link_scheduled_bytes_per_second", "Promised for the current slot.")?;
    let peak = rate("link_peak_load_ratio", "Largest promised load of the horizon, of capacity less cross traffic.")?;
    let cpu = CounterVec::new(opts("stage_cpu_seconds_total", "CPU time by stage."), &["stage"])?;

    let Overview { switches, counts, sessions: connected, impostors: lied, bans: shut_out } = tables.overview();
    let revision = Label::new(option_env!("SLUICE_REVISION").unwrap_or_default());
    build.with_label_values(&[env!("CARGO_PKG_VERSION"), revision.as_str()]).set(1);
    let Grid { cluster: name, slot_length, horizon, .. } = tables.grid();
    let slot_ms = (slot_length.0 / 1_000_000).to_string();
    cluster.with_label_values(&[name.as_str(), slot_ms.as_str(), horizon.to_string().as_str()]).set(1);
    for Report { name, hosts: with_lease, leases: promises, warm: is_warm, counters, updates: results, links } in
        &switches
    {
        let switch = &[name.as_str()];
        hosts.with_label_values(switch).set(*with_lease as i64);
        leases.with_label_values(switch).set(*promises as i64);
        warm.with_label_values(switch).set(i64::from(*is_warm));
        for (transport, results) in TRANSPORTS.iter().zip(results) {
            for (result, count) in RESULTS.iter().zip(results) {
                updates.with_label_values(&[name, *transport, *result]).inc_by(*count);
            }
        }
        duplicates.with_label_values(switch).inc_by(counters.duplicates);
        guard.with_label_values(switch).inc_by(counters.guard_rejects);
        expired.with_label_values(switch).inc_by(counters.expirations);
        clipped.with_label_values(switch).inc_by(counters.clipped);
        for (to, link) in links {
            let label = format!("{}:{to}", link.link.port());
            let labels = &[name.as_str(), label.as_str()];
            let usable = link.capacity.minus(link.cross);
            let most = link.load.iter().copied().max().unwrap_or_default();
            capacity.with_label_values(labels).set(link.capacity.bytes_per_second() as f64);
            background.with_label_values(labels).set(link.cross.bytes_per_second() as f64);
            let current = link.load.first().copied().unwrap_or_default();
            scheduled.with_label_values(labels).set(current.bytes_per_second() as f64);
            peak.with_label_values(labels).set(most.ratio_of(usable));
        }
    }
    sessions.with_label_values(&[] as &[&str]).set(connected as i64);
    pushes.with_label_values(&[] as &[&str]).inc_by(counts.pushes);
    refused.with_label_values(&[] as &[&str]).inc_by(counts.refused_hellos);
    impostors.with_label_values(&[] as &[&str]).inc_by(lied);
    bans.with_label_values(&[] as &[&str]).inc_by(shut_out);
    let stages = [("tables", counts.table_cpu), ("push", counts.push_cpu), ("process", sluice_clock::process_cpu())];
    for (stage, spent) in stages {
        cpu.with_label_values(&[stage]).inc_by(spent.as_secs_f64());
    }
    Ok(vec![
        Box::new(build),
        Box::new(cluster),
        Box::new(hosts),
        Box::new(leases),
        Box::new(warm),
        Box::new(sessions),
        Box::new(updates),
        Box::new(duplicates),
        Box::new(guard),
        Box::new(expired),
        Box::new(clipped),
        Box::new(pushes),
        Box::new(refused),
        Box::new(impostors),
        Box::new(bans),
        Box::new(capacity),
        Box::new(background),
        Box::new(scheduled),
        Box::new(peak),
        Box::new(cpu),
    ])
}

/// Who was not let in, and how long the own certificate is good.
fn identity(
    refusals: &Refusals,
    credentials: Option<&Credentials>,
) -> Result<Vec<Box<dyn Collector>>, prometheus::Error> {
    let help = "Connections that were refused before anything was told, by reason.";
    let refused = IntCounterVec::new(opts("connections_refused_total", help), &["reason"])?;
    for (reason, count) in refusals.counts() {
        refused.with_label_values(&[reason.word()]).inc_by(count);
    }
    let help = "When the own certificate is over, in seconds since 1970; absent without [tls].";
    let until = IntGaugeVec::new(opts("certificate_expiry_timestamp_seconds", help), &[])?;
    if let Some(not_after) = credentials.and_then(|credentials| credentials.standing().not_after) {
        until.with_label_values(&[] as &[&str]).set(not_after);
    }
    Ok(vec![Box::new(refused), Box::new(until)])
}

/// What was heard of counters, as a collector.
fn heard(counts: &[(&'static str, Arc<Counts>)]) -> Result<Box<dyn Collector>, prometheus::Error> {
    let help = "Readings of switches' counters: accepted, malformed, refused by address, dropped for want of room.";
    let readings = IntCounterVec::new(opts("background_readings_total", help), &["source", "result"])?;
    for (source, counts) in counts {
        let totals = counts.totals();
        for (result, count) in [
            ("accepted", totals.accepted),
            ("malformed", totals.malformed),
            ("refused", totals.refused),
            ("dropped", totals.dropped),
        ] {
            readings.with_label_values(&[*source, result]).inc_by(count);
        }
    }
    Ok(Box::new(readings))
}

/// What the data plane has counted, as collectors.
fn forwarded(tally: &Tally) -> Result<Vec<Box<dyn Collector>>, prometheus::Error> {
    let counter = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(opts(name, help), labels);
    let frames = counter("forwarded_frames_total", "Frames that left by a port.", &["interface"])?;
    let bytes = counter("forwarded_bytes_total", "Their bytes, link headers included.", &["interface"])?;
    let in_kernel =
        counter("kernel_frames_total", "Of the frames that left, those that the kernel forwarded.", &["interface"])?;
    let kernel = IntGauge::with_opts(opts("data_plane_kernel", "1 while the kernel forwards plain packets."))?;
    let packets = counter("inband_packets_total", "Sluice packets that left by a port.", &["interface", "what"])?;
    let lost = counter(
        "lost_frames_total",
        "Frames that a queue did not take, or that came too fast.",
        &["interface", "where"],
    )?;
    let drops = counter("dropped_frames_total", "Frames that went nowhere.", &["reason"])?;
    let counted = tally.read();
    kernel.set(counted.kernel.into());
    for port in &counted.ports {
        let (of, interface) = (&port.counters, port.interface.as_str());
        frames.with_label_values(&[interface]).inc_by(of.frames);
        bytes.with_label_values(&[interface]).inc_by(of.bytes);
        in_kernel.with_label_values(&[interface]).inc_by(port.in_kernel);
        for (what, count) in [
            ("counted", of.announcements),
            ("repeated", of.duplicates),
            ("probe", of.probes),
            ("guarded", of.rejected),
            ("other-unit", of.other_unit),
        ] {
            packets.with_label_values(&[interface, what]).inc_by(count);
        }
        lost.with_label_values(&[interface, "queue"]).inc_by(port.refused);
        lost.with_label_values(&[interface, "socket"]).inc_by(port.missed);
    }
    for (reason, count) in &counted.drops {
        drops.with_label_values(&[reason.word()]).inc_by(*count);
    }
    Ok(vec![
        Box::new(frames),
        Box::new(bytes),
        Box::new(in_kernel),
        Box::new(kernel),
        Box::new(packets),
        Box::new(lost),
        Box::new(drops),
    ])
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(format!("sluice_switchd_{name}"), help)
}

#[cfg(test)]
mod tests;
