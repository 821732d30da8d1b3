//! Tables of jobs, flows, links and switches.

use sluice_wire::snapshot::{Benefit, BenefitState, Flow, Job, Link, Snapshot, SwitchStatus};

use crate::format::{UNKNOWN, age, bytes, flow_id, grouped, next_gbps, percent, rate, strip, time, word};
use crate::output::width;
use crate::table::Table;

/// Rates of next slots that a table of flows shows.
const NEXT: usize = 7;

pub fn jobs(jobs: &[&Job]) -> String {
    let mut table = Table::of(
        "JOB  PATTERN  ROLE  >FLOWS  >ROUND  >PROGRESS  >DEMAND  >ORDERED  >DELIVERED  >ROUND P50  STALLED ON  SLUICE  SOURCE",
    );
    for job in jobs {
        table.row(vec![
            job.id.to_string(),
            job.pattern.as_str().into(),
            role(job),
            job.flows.to_string(),
            grouped(job.round),
            percent(job.progress_ratio),
            bytes(job.demand_bytes),
            rate(job.ordered_bps),
            rate(job.delivered_bps),
            time(job.round_p50_ns),
            word(&job.stalled_on),
            benefit(&job.benefit),
            word(&job.source),
        ]);
    }
    empty_or(jobs.is_empty(), "no jobs on this host now (a job appears with its first large transfer)\n", &table)
}

/// One job in full.
pub fn job(snapshot: &Snapshot, job: &Job) -> String {
    let stall = &job.stalls;
    let ended = job.ended_unix_ns.map(|ended| age(snapshot.taken_unix_ns.saturating_sub(ended)) + " ago");
    let pairs = [
        ("job", job.id.to_string()),
        ("pattern", format!("{}, {}", job.pattern.as_str(), role(job))),
        ("plan", word(&job.plan)),
        ("source", word(&job.source)),
        ("ended", ended.unwrap_or_else(|| UNKNOWN.into())),
        (
            "round",
            format!(
                "{}, {} done, {} finished",
                grouped(job.round),
                percent(job.progress_ratio),
                grouped(job.rounds_finished)
            ),
        ),
        ("to send", format!("{} of {}", bytes(job.remaining_bytes), bytes(job.demand_bytes))),
        ("rates", format!("ordered {}, delivered {}", rate(job.ordered_bps), rate(job.delivered_bps))),
        ("round time", format!("p50 {}, from start to start {}", time(job.round_p50_ns), time(job.period_ns))),
        ("rank", if job.promoted { "goes first: its round is old" } else { "by remaining time" }.into()),
        ("sluice", format!("{}{}", benefit(&job.benefit), compared(&job.benefit))),
        ("stalled on", word(&job.stalled_on)),
        (
            "stalled for",
            format!(
                "predecessor {}, headroom {}, sender {} (flow-time since it began)",
                time(Some(stall.predecessor_ns)),
                time(Some(stall.headroom_ns)),
                time(Some(stall.sender_ns))
            ),
        ),
        ("acknowledged", bytes(Some(job.acked_bytes))),
    ];
    let text: String = pairs.into_iter().map(|(name, value)| format!("{name:<13} {value}\n")).collect();
    let of_job: Vec<&Flow> = snapshot.flows.iter().filter(|flow| flow.job == job.id).collect();
    text + "\n" + &flows(&of_job, of_job.len())
}

/// Flows; `all` is how many there are in total.
pub fn flows(flows: &[&Flow], all: usize) -> String {
    let mut table =
        Table::of("FLOW  JOB  TO  STATE  CC  >ORDERED  >DELIVERED  >ERROR  >SRTT  >RETRANS  WHY  NEXT SLOTS (Gbit/s)");
    for flow in flows {
        table.row(vec![
            flow_id(&flow.id),
            flow.job.to_string(),
            word(&flow.to),
            flow.state.as_str().into(),
            word(&flow.cc),
            ordered(flow),
            rate(flow.delivered_bps),
            percent(flow.error_ratio),
            time(flow.srtt_ns),
            grouped(flow.retransmitted),
            word(&flow.why),
            next_gbps(&flow.next_bps, NEXT),
        ]);
    }
    let more = if all > flows.len() {
        format!("… and {} more (-n {all} shows all)\n", all - flows.len())
    } else {
        String::new()
    };
    empty_or(flows.is_empty(), "no such flows now\n", &table) + &more
}

/// The order, and what the flow takes beyond it where that is a floor.
fn ordered(flow: &Flow) -> String {
    let surplus = flow.surplus_bps.map_or(String::new(), |surplus| format!(" + {}", rate(Some(surplus))));
    rate(flow.ordered_bps) + &surplus
}

pub fn links(links: &[&Link], slots: bool) -> String {
    let mut table = Table::of("LINK  KEPT BY  >CAPACITY  >MANAGED  >OTHER  >PEAK  NEXT SLOTS  >OVERLAP");
    for link in links {
        let overlap = (link.busy_ns > 0).then(|| link.overlap_ns as f64 / link.busy_ns as f64);
        let peak = (!link.next_bps.is_empty()).then(|| link.load_ratios().fold(0.0, f64::max));
        let next = if slots {
            link.load_ratios().map(|ratio| format!("{:>3.0}%", ratio * 100.0)).collect::<Vec<_>>().join(" ")
        } else {
            strip(link.load_ratios())
        };
        table.row(vec![
            word(&link.name),
            if link.holder.is_empty() { "this host".into() } else { link.holder.clone() },
            rate(Some(link.capacity_bps)),
            rate(link.managed_bps),
            rate(link.other_bps),
            percent(peak),
            word(&next),
            percent(overlap),
        ]);
    }
    empty_or(links.is_empty(), "no links known yet\n", &table)
}

pub fn switches(switches: &[&SwitchStatus]) -> String {
    let mut table = Table::of(
        "SWITCH  ADDRESS  BY  STATE  VIEW  BOOT  >LINKS  >EXCHANGE P50/P99  >AGE  >SLOT DIFF  >REJECTS  LAST ERROR",
    );
    for switch in switches {
        let exchange = match (switch.exchange_p50_ns, switch.exchange_p99_ns) {
            (Some(p50), Some(p99)) => format!("{:.1} / {:.1} ms", p50 as f64 / 1e6, p99 as f64 / 1e6),
            _ => UNKNOWN.into(),
        };
        let boot = switch.boot.split_at(switch.boot.floor_char_boundary(switch.boot.len().saturating_sub(6))).1;
        table.row(vec![
            if switch.peer { format!("{} (peer)", switch.name) } else { switch.name.clone() },
            word(&switch.address),
            switch.transport.as_str().into(),
            switch.state.as_str().into(),
            switch.view.as_str().into(),
            word(boot),
            switch.links.to_string(),
            exchange,
            switch.age_slots.map_or(UNKNOWN.into(), |slots| format!("{slots} slots")),
            switch.slot_diff.map_or(UNKNOWN.into(), |diff| diff.to_string()),
            grouped(switch.rejects),
            word(&switch.last_error),
        ]);
    }
    empty_or(switches.is_empty(), "no switches: none configured, and no peer has been met yet\n", &table)
}

/// The next slots of flows, one column per slot.
pub fn schedule(snapshot: &Snapshot, flows: &[&Flow], slots: usize) -> String {
    let heads = ["FLOW", "JOB", "TO", "WHY"].map(String::from).into_iter();
    let mut table = Table::new(heads.chain((0..slots).map(|slot| format!(">+{slot}"))));
    for flow in flows {
        let mut row = vec![flow_id(&flow.id), flow.job.to_string(), word(&flow.to), word(&flow.why)];
        let gbps = |bps: &u64| if *bps == 0 { "0".to_owned() } else { format!("{:.2}", *bps as f64 / 1e9) };
        row.extend((0..slots).map(|slot| flow.next_bps.get(slot).map_or(UNKNOWN.into(), gbps)));
        table.row(row);
    }
    let slot = grouped(u64::from(snapshot.clock.slot));
    let head = format!("from slot {slot} on, {} each, Gbit/s\n", time(Some(snapshot.clock.slot_length_ns)));
    head + &empty_or(flows.is_empty(), "no flows\n", &table)
}

/// What Sluice does with a job, and what becomes of that.
fn benefit(benefit: &Benefit) -> String {
    match benefit.state {
        BenefitState::Off => UNKNOWN.into(),
        BenefitState::Managed => "managed".into(),
        BenefitState::Without => "trying without".into(),
        BenefitState::Spared => "given back".into(),
        BenefitState::Released => {
            let retry = benefit.retry_ns.map_or(UNKNOWN.into(), age);
            format!("released: {} slower, again in {retry}", percent(benefit.slower_ratio))
        }
    }
}

/// What windows without Sluice have said of it so far.
fn compared(benefit: &Benefit) -> String {
    match benefit.slower_ratio {
        None if benefit.state == BenefitState::Off => String::new(),
        None => "; not compared yet".into(),
        Some(ratio) => {
            let word = if ratio > 0.0 { "slower" } else { "faster" };
            format!("; {} {word} than without, {} windows", percent(Some(ratio.abs())), grouped(benefit.windows))
        }
    }
}

fn role(job: &Job) -> String {
    match (job.role.as_ref(), job.rank, job.nranks) {
        ("", None, _) => UNKNOWN.into(),
        ("", Some(rank), Some(all)) => format!("rank {rank}/{all}"),
        ("", Some(rank), None) => format!("rank {rank}"),
        (role, Some(rank), Some(all)) => format!("{role} {rank}/{all}"),
        (role, Some(rank), None) => format!("{role} {rank}"),
        (role, None, _) => role.to_owned(),
    }
}

fn empty_or(empty: bool, sentence: &str, table: &Table) -> String {
    if empty { sentence.to_owned() } else { table.render(width()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surplus_stands_beside_the_order() {
        let flow = Flow { ordered_bps: Some(1_000_000_000), ..Flow::default() };
        let plain = ordered(&flow);
        assert_eq!(plain, rate(Some(1_000_000_000)));
        let with = Flow { surplus_bps: Some(0), ..flow };
        assert_eq!(ordered(&with), format!("{plain} + {}", rate(Some(0))));
        assert!(flows(&[&with], 1).contains(&ordered(&with)));
    }
}
