//! Every metric of `sluiced`: name, type, labels, sentence, and how to read it from a snapshot.

use sluice_wire::snapshot::counters::bounds;
use sluice_wire::snapshot::{
    Backend, ConditionCode, Flow, FlowState, JobPattern, Label, Link, Mode, PathSource, SwitchState, SwitchStatus, View,
};

use super::{Family, JobSum, Kind, MAX_LINKS, MAX_SWITCHES, Samples, Series, Source};

/// A counter with one label: a field of the snapshot's counters for each of its values.
macro_rules! by_label {
    ($name:literal, $label:literal, $help:literal, $($value:literal: $field:ident),*) => {
        family!(Counter, $name, [$label], $help, |s, o| {
            $(o.put(&[$value], s.snapshot.counters.$field as f64);)*
        })
    };
}

/// The metrics that come from a snapshot.
#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    family!(Gauge, "sluice_build_info", ["version", "revision"], "1; which build runs.", |s, o| o.put(&[&word(&s.snapshot.daemon.version), &word(&s.snapshot.daemon.revision)], 1.0)),
    family!(Gauge, "sluice_cluster_info", ["cluster", "slot_ms", "horizon"], "1; hosts of one cluster must agree.", |s, o| cluster(s, o)),
    family!(Gauge, "sluice_config_hash", [], "Low 48 bits of the hash of the effective configuration.", |s, o| o.one((s.snapshot.daemon.config_hash & ((1 << 48) - 1)) as f64)),
    family!(Gauge, "sluice_config_last_reload_successful", [], "1 if the last reload was taken.", |s, o| o.one(flag(s.snapshot.daemon.reload_ok))),
    family!(Gauge, "sluice_config_last_reload_success_timestamp_seconds", [], "When a configuration was last taken, since 1970.", |s, o| o.one(seconds(s.snapshot.daemon.reload_unix_ns))),
    family!(Gauge, "sluice_mode", ["mode"], "State set: what the operator asked for.", |s, o| o.states(Mode::ALL.iter().map(|m| m.as_str()), s.snapshot.daemon.mode.as_str())),
    family!(Counter, "sluice_commands_unrecorded_total", [], "Commands that were carried out and could not be written to the audit file.", |s, o| o.one(s.snapshot.counters.commands_unrecorded as f64)),
    family!(Gauge, "sluice_realtime", [], "1 while the deciding loop is a real-time thread.", |s, o| o.one(flag(s.snapshot.daemon.realtime))),
    family!(Gauge, "sluice_enforcement_backend", ["backend"], "State set: how rates are enforced.", |s, o| o.states(Backend::ALL.iter().map(|b| b.as_str()), s.snapshot.enforcement.backend.as_str())),
    family!(Gauge, "sluice_condition", ["code"], "1 while the condition holds.", |s, o| conditions(s, o)),
    family!(Gauge, "sluice_slot_length_seconds", [], "Length of a slot.", |s, o| o.one(seconds(s.snapshot.clock.slot_length_ns))),
    family!(Counter, "sluice_slots_total", [], "Slots begun.", |s, o| o.one(s.snapshot.counters.slots as f64)),
    by_label!("sluice_slots_missed_total", "reason", "Slots without a decision in time.", "late": slots_late, "stopped": slots_stopped, "clock": slots_clock),
    family!(Histogram, "sluice_slot_lateness_seconds", [], "Wake-up after the slot's edge.", |s, o| o.histogram(&[], &s.snapshot.counters.lateness_s.coarser(&bounds::LATENESS))),
    family!(Histogram, "sluice_decision_duration_seconds", [], "One host decision.", |s, o| o.histogram(&[], &s.snapshot.counters.decision_s.coarser(&bounds::DECISION))),
    by_label!("sluice_decisions_total", "trigger", "Decisions by what made them.", "slot": decisions_slot, "start": decisions_start, "end": decisions_end, "demand": decisions_demand, "feedback": decisions_feedback),
    family!(Gauge, "sluice_clock_synchronised", [], "1 if a time service disciplines the clock.", |s, o| o.one(flag(s.snapshot.clock.synchronised))),
    family!(Gauge, "sluice_clock_max_error_seconds", [], "Bound of the clock's error, as the kernel knows it.", |s, o| o.one(seconds(s.snapshot.clock.max_error_ns.unwrap_or(0)))),
    family!(Gauge, "sluice_clock_tai_offset_seconds", [], "The kernel's TAI offset.", |s, o| o.one(s.snapshot.clock.tai_offset_s as f64)),
    by_label!("sluice_clock_steps_total", "direction", "Steps of the clock.", "forward": clock_steps_forward, "backward": clock_steps_backward),
    family!(Gauge, "sluice_flows", ["state"], "Flows by who moves their rate.", |s, o| flows(s, o)),
    family!(Gauge, "sluice_flow_paths", ["source"], "Flows by who says by which of several equal paths they go; only: there is one.", |s, o| paths(s, o)),
    family!(Counter, "sluice_route_questions_total", ["source", "result"], "Questions by which path a flow goes, by what became of them; one that is asked again counts again.", |s, o| questions(s, o)),
    family!(Counter, "sluice_flows_opened_total", [], "Flows opened.", |s, o| o.one(s.snapshot.counters.flows_opened as f64)),
    family!(Counter, "sluice_flows_closed_total", [], "Flows closed.", |s, o| o.one(s.snapshot.counters.flows_closed as f64)),
    family!(Gauge, "sluice_flow_table_capacity", [], "Rows of the kernel tables.", |s, o| o.one(s.snapshot.enforcement.rows as f64)),
    family!(Counter, "sluice_flow_table_full_total", [], "Sockets that found no free row.", |s, o| o.one(s.snapshot.counters.flow_table_full as f64)),
    by_label!("sluice_flow_acked_bytes_total", "managed", "Payload acknowledged.", "true": acked_managed_bytes, "false": acked_other_bytes),
    family!(Counter, "sluice_flow_ordered_bytes_total", [], "Integral of the orders.", |s, o| o.one(s.snapshot.counters.ordered_bytes as f64)),
    family!(Counter, "sluice_flow_surplus_bytes_total", [], "Payload acknowledged beyond the orders, slot by slot, where orders are floors.", |s, o| o.one(s.snapshot.counters.surplus_bytes as f64)),
    family!(Counter, "sluice_surplus_cuts_total", [], "Losses, and queues to yield to, that halved what a flow took beyond its order.", |s, o| o.one(s.snapshot.counters.surplus_cuts as f64)),
    family!(Gauge, "sluice_flow_ordered_rate_bytes_per_second", ["job_id", "flow"], "Order of a flow, where metrics.flows asks for it.", |s, o| each_flow(s, o, |flow| flow.ordered_bps)),
    family!(Gauge, "sluice_flow_delivered_rate_bytes_per_second", ["job_id", "flow"], "Delivery rate of a flow, where metrics.flows asks for it.", |s, o| each_flow(s, o, |flow| flow.delivered_bps)),
    family!(Histogram, "sluice_flow_rate_bytes_per_second", ["kind"], "One observation per managed flow with demand and slot.", |s, o| rates(s, o)),
    family!(Histogram, "sluice_order_error_ratio", [], "|delivered - ordered| / ordered per flow and slot; demand-limited slots, and what is beyond an order that is a floor, left out.", |s, o| o.histogram(&[], &s.snapshot.counters.order_error)),
    by_label!("sluice_flow_retransmitted_packets_total", "managed", "Segments retransmitted.", "true": retransmitted_managed, "false": retransmitted_other),
    family!(Counter, "sluice_loss_guard_activations_total", [], "Flows capped by the kernel because of loss.", |s, o| o.one(s.snapshot.counters.loss_guards as f64)),
    by_label!("sluice_released_flows_total", "reason", "Flows given back to ordinary congestion control.", "deadline": released_deadline, "loss": released_loss, "mode": released_mode, "drain": released_drain, "error": released_error, "benefit": released_benefit),
    by_label!("sluice_cc_changes_total", "result", "Changes of congestion control.", "ok": cc_ok, "error": cc_error),
    family!(Counter, "sluice_kernel_events_lost_total", [], "Kernel events lost; a rescan follows.", |s, o| o.one(s.snapshot.counters.events_lost as f64)),
    family!(Gauge, "sluice_jobs", ["pattern"], "Running jobs by how their ranks exchange tensors.", |s, o| jobs(s, o)),
    family!(Histogram, "sluice_round_duration_seconds", [], "Rounds of all jobs.", |s, o| o.histogram(&[], &s.snapshot.counters.round_s)),
    family!(Gauge, "sluice_job_info", ["job_id", "pattern", "source"], "1; to join with.", |s, o| each_job(s, |id, j| o.put(&[id, &j.about.0, j.about.1.as_str()], 1.0))),
    family!(Gauge, "sluice_job_flows", ["job_id"], "Flows the job sends from this host.", |s, o| each_job(s, |id, j| o.put(&[id], j.flows as f64))),
    family!(Counter, "sluice_job_acked_bytes_total", ["job_id"], "Payload acknowledged.", |s, o| each_job(s, |id, j| o.put(&[id], j.acked_bytes as f64))),
    family!(Gauge, "sluice_job_ordered_bytes_per_second", ["job_id"], "Sum of its orders.", |s, o| each_job(s, |id, j| o.put(&[id], j.ordered_bps as f64 / 8.0))),
    family!(Gauge, "sluice_job_progress_ratio", ["job_id"], "Part of the current round that is delivered.", |s, o| each_job(s, |id, j| o.put(&[id], j.progress_ratio.unwrap_or(0.0)))),
    family!(Counter, "sluice_job_rounds_total", ["job_id"], "Rounds finished.", |s, o| each_job(s, |id, j| o.put(&[id], j.rounds as f64))),
    family!(Counter, "sluice_job_round_seconds_total", ["job_id"], "Their durations together.", |s, o| each_job(s, |id, j| o.put(&[id], seconds(j.rounds_ns)))),
    family!(Counter, "sluice_job_stall_seconds_total", ["job_id", "cause"], "Flow-seconds below demand, by cause.", |s, o| stalls(s, o)),
    family!(Gauge, "sluice_link_capacity_bytes_per_second", ["link"], "Payload rate.", |s, o| each_link(s, |name, l| o.put(&[name], l.capacity_bps as f64 / 8.0))),
    family!(Gauge, "sluice_link_scheduled_bytes_per_second", ["link"], "Promised in this slot.", |s, o| each_link(s, |name, l| o.put(&[name], l.next_bps.first().copied().unwrap_or(0) as f64 / 8.0))),
    family!(Gauge, "sluice_link_cross_traffic_bytes_per_second", ["link"], "Traffic that is not managed.", |s, o| each_link(s, |name, l| o.put(&[name], l.other_bps.unwrap_or(0) as f64 / 8.0))),
    family!(Gauge, "sluice_link_peak_load_ratio", ["link"], "Largest planned load over the horizon.", |s, o| each_link(s, |name, l| o.put(&[name], l.load_ratios().fold(0.0, f64::max)))),
    family!(Counter, "sluice_link_sent_bytes_total", ["link", "class"], "Bytes sent.", |s, o| link_sent(s, o)),
    family!(Counter, "sluice_link_overlap_seconds_total", ["link"], "Time with two or more jobs sending: the staggering number.", |s, o| each_link(s, |name, l| o.put(&[name], seconds(l.overlap_ns)))),
    family!(Counter, "sluice_link_busy_seconds_total", ["link"], "Time with one or more jobs sending.", |s, o| each_link(s, |name, l| o.put(&[name], seconds(l.busy_ns)))),
    family!(Gauge, "sluice_switch_up", ["switch"], "1 if it answers.", |s, o| each_switch(s, |name, w| o.put(&[name], flag(matches!(w.state, SwitchState::Up | SwitchState::Warming))))),
    family!(Gauge, "sluice_switch_feedback_age_slots", ["switch"], "Slots since its last answer.", |s, o| each_switch(s, |name, w| o.put(&[name], w.age_slots.unwrap_or(0) as f64))),
    family!(Gauge, "sluice_switch_view", ["switch", "state"], "State set: how much its view counts.", |s, o| views(s, o)),
    family!(Counter, "sluice_switch_messages_total", ["switch", "transport", "direction"], "Messages.", |s, o| directions(s, o, |w| (w.sent_messages, w.received_messages))),
    family!(Histogram, "sluice_switch_exchange_seconds", [], "From announcement to answer, all switches.", |s, o| o.histogram(&[], &s.snapshot.counters.exchange_s.coarser(&bounds::EXCHANGE))),
    by_label!("sluice_switch_datagrams_total", "kind", "Datagrams, where a switch is spoken to by udp.", "sent": datagrams_sent, "repeated": datagrams_repeated, "answered": datagrams_answered, "lost": datagrams_lost, "unexpected": datagrams_unexpected),
    family!(Counter, "sluice_switch_datagrams_guarded_total", [], "Echoes of datagrams that some switch did not count, as of another slot than its own.", |s, o| o.one(s.snapshot.counters.datagrams_guarded as f64)),
    family!(Counter, "sluice_switch_paths_moved_total", [], "In band: flows found on another path, or a switch on it begun anew.", |s, o| o.one(s.snapshot.counters.paths_moved as f64)),
    by_label!("sluice_switch_rejects_total", "reason", "Announcements refused.", "slot_guard": rejects_slot_guard, "old": rejects_old, "quota": rejects_quota, "unknown_link": rejects_unknown_link, "foreign_flow": rejects_foreign_flow, "link_not_yours": rejects_link_not_yours, "unknown_host": rejects_unknown_host),
    by_label!("sluice_connections_refused_total", "reason", "Connections of other hosts that were refused.", "network": connections_refused_network, "protocol": connections_refused_protocol, "no_certificate": connections_refused_no_certificate, "unknown_authority": connections_refused_unknown_authority, "cert_expired": connections_refused_cert_expired, "identity_unknown": connections_refused_identity_unknown, "identity_not_host": connections_refused_identity_not_host, "disbelieved": connections_refused_disbelieved, "certificates_unusable": connections_refused_certificates_unusable),
    by_label!("sluice_askers_refused_total", "reason", "Who asked over HTTP and was turned away, by what there was no more of: connections of all or of the user, file descriptors, streams of the page, readings of timeline and flight record, readers of the metrics.", "connections": askers_refused_connections, "descriptors": askers_refused_descriptors, "streams": askers_refused_streams, "readings": askers_refused_readings, "metrics": askers_refused_metrics),
    family!(Gauge, "sluice_certificate_expiry_timestamp_seconds", [], "When this host's certificate is over, since 1970; absent without [tls].", |s, o| o.some(s.snapshot.daemon.certificate_expires_unix_s.map(|at| at as f64))),
    by_label!("sluice_refused_total", "what", "What was not believed: files that are no page, pages whose claims the kernel contradicts, connections of another user, links nobody asked for, words of a holder that is doubted.", "page": refused_pages, "page_claim": ignored_pages, "connection": refused_sockets, "view": refused_views, "feedback": refused_feedback),
    by_label!("sluice_crowded_out_total", "what", "Jobs and flows that found no place, since their user or cgroup has its share of them.", "job": crowded_jobs, "flow": crowded_flows),
    by_label!("sluice_places_given_total", "what", "Places that a user or cgroup gave to one with fewer, where none was free.", "job": given_jobs, "flow": given_flows, "page": given_pages),
    family!(Counter, "sluice_pages_forgotten_total", [], "Progress pages none of whose connections had existed for ten minutes.", |s, o| o.one(s.snapshot.counters.forgotten_pages as f64)),
    family!(Counter, "sluice_stage_cpu_seconds_total", ["stage"], "CPU time of the deciding loop, by stage; all of the process is process_cpu_seconds_total.", |s, o| stages(s, o)),
];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

fn word(text: &str) -> String {
    Label::new(text).as_str().to_owned()
}

fn cluster(s: &Source<'_>, o: &mut Samples) {
    let clock = &s.snapshot.clock;
    let slot_ms = (clock.slot_length_ns / 1_000_000).to_string();
    o.put(&[&word(&s.snapshot.daemon.cluster), &slot_ms, &clock.horizon.to_string()], 1.0);
}

fn conditions(s: &Source<'_>, o: &mut Samples) {
    for code in ConditionCode::ALL {
        let holds = s.snapshot.conditions.iter().any(|condition| condition.code == *code);
        o.put(&[code.as_str()], flag(holds));
    }
}

fn flows(s: &Source<'_>, o: &mut Samples) {
    for state in FlowState::ALL {
        o.put(&[state.as_str()], s.snapshot.flows_in(state) as f64);
    }
}

fn paths(s: &Source<'_>, o: &mut Samples) {
    for source in PathSource::ALL {
        o.put(&[source.as_str()], s.snapshot.flows.iter().filter(|flow| flow.path == source).count() as f64);
    }
}

fn questions(s: &Source<'_>, o: &mut Samples) {
    let c = &s.snapshot.counters;
    let switch = [c.route_asked_switch, c.route_answered_switch, c.route_unanswered_switch];
    let probe = [c.route_asked_probe, c.route_answered_probe, c.route_unanswered_probe];
    for (source, counts) in [("switch", switch), ("probe", probe)] {
        for (result, count) in ["asked", "answered", "unanswered"].into_iter().zip(counts) {
            o.put(&[source, result], count as f64);
        }
    }
}

fn rates(s: &Source<'_>, o: &mut Samples) {
    o.histogram(&["ordered"], &s.snapshot.counters.ordered_rate);
    o.histogram(&["delivered"], &s.snapshot.counters.delivered_rate);
}

fn jobs(s: &Source<'_>, o: &mut Samples) {
    let running = || s.snapshot.jobs.iter().filter(|job| job.ended_unix_ns.is_none());
    for pattern in JobPattern::ALL {
        o.put(&[pattern.as_str()], running().filter(|job| job.pattern == pattern).count() as f64);
    }
}

fn each_job(s: &Source<'_>, mut act: impl FnMut(&str, &JobSum)) {
    s.jobs.iter().for_each(|(id, job)| act(id.as_str(), job));
}

fn each_flow(s: &Source<'_>, o: &mut Samples, read: fn(&Flow) -> Option<u64>) {
    for Series { job, number, flow } in &s.flows {
        let number = number.map_or_else(|| super::OTHER.to_owned(), |number| number.to_string());
        o.put(&[job.as_str(), &number], read(flow).unwrap_or(0) as f64 / 8.0);
    }
}

fn stalls(s: &Source<'_>, o: &mut Samples) {
    for (id, job) in &s.jobs {
        for (cause, ns) in ["predecessor", "headroom", "sender"].into_iter().zip(job.stalls_ns) {
            o.put(&[id.as_str(), cause], seconds(ns));
        }
    }
}

/// The first links, own ones before those of switches.
fn each_link(s: &Source<'_>, mut act: impl FnMut(&str, &Link)) {
    let mut links: Vec<&Link> = s.snapshot.links.iter().collect();
    links.sort_by_key(|link| !link.own);
    links.into_iter().take(MAX_LINKS).for_each(|link| act(Label::new(&link.name).as_str(), link));
}

fn link_sent(s: &Source<'_>, o: &mut Samples) {
    each_link(s, |name, link| {
        o.put(&[name, "managed"], link.managed_bytes as f64);
        o.put(&[name, "other"], link.other_bytes as f64);
    });
}

fn each_switch(s: &Source<'_>, mut act: impl FnMut(&str, &SwitchStatus)) {
    let mut switches: Vec<&SwitchStatus> = s.snapshot.switches.iter().collect();
    switches.sort_by_key(|switch| switch.peer);
    switches.into_iter().take(MAX_SWITCHES).for_each(|switch| act(Label::new(&switch.name).as_str(), switch));
}

fn views(s: &Source<'_>, o: &mut Samples) {
    each_switch(s, |name, switch| {
        View::ALL.iter().for_each(|view| o.put(&[name, view.as_str()], flag(switch.view == *view)));
    });
}

fn directions(s: &Source<'_>, o: &mut Samples, read: fn(&SwitchStatus) -> (u64, u64)) {
    each_switch(s, |name, switch| {
        let (sent, received) = read(switch);
        let transport = switch.transport.as_str();
        o.put(&[name, transport, "sent"], sent as f64);
        o.put(&[name, transport, "received"], received as f64);
    });
}

fn stages(s: &Source<'_>, o: &mut Samples) {
    let c = &s.snapshot.counters;
    for (stage, ns) in [("stats", c.cpu_stats_ns), ("schedule", c.cpu_schedule_ns)] {
        o.put(&[stage], seconds(ns));
    }
}
