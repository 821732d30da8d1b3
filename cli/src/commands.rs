//! The commands that ask the daemon: fetch, choose, print.

use std::time::{Duration, Instant};

use serde_json::json;
use sluice_ebpf::ABI;
use sluice_formats::problem::hint;
use sluice_progress::layout;
use sluice_wire::hello;
use sluice_wire::snapshot::{
    DrainRequest, Explanation, Flow, Job, Label, LogRequest, Mode, ModeRequest, Outcome, ReloadRequest, SCHEMA,
    Snapshot, State,
};

use crate::args::{
    DrainArgs, ExplainArgs, FlowSort, FlowsArgs, JobsArgs, LinksArgs, LogArgs, ModeArgs, ReloadArgs, ScheduleArgs,
    StatusArgs, SwitchesArgs, WaitFor,
};
use crate::client::Client;
use crate::failure::Failure;
use crate::format::{flow_id, grouped};
use crate::global::{Format, Global};
use crate::past::{Past, explained};
use crate::{output, view};

/// Jobs that ended longer ago are not shown by `--all`.
const ENDED_WITHIN_NS: u64 = 3_600_000_000_000;
/// Between two looks of `status --wait`.
const WAIT_STEP: Duration = Duration::from_millis(200);

pub fn status(global: &Global, args: &StatusArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    if let Some(what) = args.wait {
        wait(&client, what, Duration::from_nanos(args.timeout.0))?;
    }
    let mut state = State::Ok;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        state = snapshot.daemon.state;
        if global.quiet {
            return Ok(());
        }
        output::one(global, &snapshot, || view::status(&snapshot, output::colors(global)))
    })?;
    if args.check && state != State::Ok {
        return Err(Failure::no(format!("not ok: {}", state.as_str())));
    }
    Ok(())
}

/// Asks again until the daemon is what is waited for. A daemon that is not there yet is waited for, too.
fn wait(client: &Client<'_>, what: WaitFor, time: Duration) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let seen = client.snapshot();
        let good = seen.as_ref().is_ok_and(|snapshot| match what {
            WaitFor::Ready => snapshot.daemon.ready,
            WaitFor::Ok => snapshot.daemon.ready && snapshot.daemon.state == State::Ok,
        });
        if good {
            return Ok(());
        }
        if started.elapsed() >= time {
            let snapshot = seen?;
            let ready = if snapshot.daemon.ready { "ready" } else { "not ready" };
            let state = snapshot.daemon.state.as_str();
            return Err(Failure::no(format!("after {:.0} s: {ready}, {state}", time.as_secs_f64())));
        }
        std::thread::sleep(WAIT_STEP.min(time));
    }
}

pub fn jobs(global: &Global, args: &JobsArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        let taken = snapshot.taken_unix_ns;
        if let Some(id) = &args.id {
            let job = find_job(&snapshot, id)?;
            return output::one(global, job, || view::job(&snapshot, job));
        }
        let shown = |job: &&Job| match job.ended_unix_ns {
            None => true,
            Some(ended) => args.all && taken.saturating_sub(ended) <= ENDED_WITHIN_NS,
        };
        let jobs: Vec<&Job> = snapshot.jobs.iter().filter(shown).collect();
        output::list(global, "jobs", &jobs, || view::jobs(&jobs))
    })
}

pub fn flows(global: &Global, args: &FlowsArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        if let Some(id) = &args.job {
            find_job(&snapshot, id)?;
        }
        let job = args.job.as_deref().map(Label::new);
        let mut flows: Vec<&Flow> = snapshot
            .flows
            .iter()
            .filter(|flow| job.as_ref().is_none_or(|job| flow.job == *job))
            .filter(|flow| args.state.as_deref().is_none_or(|state| flow.state.as_str() == state))
            .filter(|flow| args.peer.as_ref().is_none_or(|peer| peer.holds(&flow.to)))
            .collect();
        flows.sort_by(|a, b| match args.sort {
            FlowSort::Rate => b.ordered_bps.cmp(&a.ordered_bps),
            FlowSort::Error => b.error_ratio.unwrap_or(-1.0).total_cmp(&a.error_ratio.unwrap_or(-1.0)),
            FlowSort::Age => b.age_ns.cmp(&a.age_ns),
            FlowSort::Retrans => b.retransmitted.cmp(&a.retransmitted),
        });
        let all = flows.len();
        flows.truncate(args.number);
        output::list(global, "flows", &flows, || view::flows(&flows, all))
    })
}

pub fn links(global: &Global, args: &LinksArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        let links = named(&snapshot.links, args.name.as_deref(), "link", |link| &link.name)?;
        output::list(global, "links", &links, || view::links(&links, args.slots))
    })
}

pub fn switches(global: &Global, args: &SwitchesArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        let switches = named(&snapshot.switches, args.name.as_deref(), "switch", |switch| &switch.name)?;
        output::list(global, "switches", &switches, || view::switches(&switches))
    })
}

pub fn schedule(global: &Global, args: &ScheduleArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        let flows: Vec<&Flow> = match &args.id {
            None => snapshot.flows.iter().collect(),
            Some(id) => flows_of(&snapshot, id)?,
        };
        let slots = usize::from(args.slots);
        output::list(global, "flows", &flows, || view::schedule(&snapshot, &flows, slots))
    })
}

pub fn explain(global: &Global, args: &ExplainArgs) -> Result<(), Failure> {
    if let Some(slot) = args.slot {
        return explain_past(global, args, slot);
    }
    let client = Client::new(global)?;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        let mut explanations: Vec<Explanation> = Vec::new();
        for flow in flows_of(&snapshot, &args.id)? {
            explanations.push(client.json(&format!("/api/v1/explain/{}", flow.id))?);
        }
        output::list(global, "explanations", &explanations, || {
            explanations.iter().map(|explanation| view::explain(explanation, &snapshot)).collect::<Vec<_>>().join("\n")
        })
    })
}

/// Why a flow had its rate in a slot that is over, by the daemon's ring or a file.
fn explain_past(global: &Global, args: &ExplainArgs, slot: i64) -> Result<(), Failure> {
    let past = match &args.from {
        Some(file) => Past::load(file)?,
        None => {
            let trace = Client::new(global)?.get("/api/v1/timeline?last=3600s&format=chrome")?;
            Past::of_trace(&trace).map_err(Failure::failed)?
        }
    };
    let newest = past.slots.checked_sub(1).ok_or_else(|| Failure::no("there is no slot in the timeline yet"))?;
    let at = match u32::try_from(slot) {
        Ok(number) => past.at(number),
        Err(_) => newest.checked_add_signed(slot).filter(|_| slot < 0),
    };
    let at = at.ok_or_else(|| {
        let (first, last) = (grouped(u64::from(past.number(0))), grouped(u64::from(past.number(newest))));
        Failure::input(format!("--slot {slot}: the timeline has slots {first} to {last}, and -{newest} to -1"))
    })?;
    let reasons = explained::reasons(&past, &args.id, at)?;
    output::list(global, "reasons", &reasons, || {
        let text = |reason| explained::text(reason, past.slot_length_ns);
        reasons.iter().map(text).collect::<Vec<_>>().join("\n")
    })
}

pub fn clock(global: &Global) -> Result<(), Failure> {
    let client = Client::new(global)?;
    repeat(global, || {
        let snapshot = client.snapshot()?;
        output::one(global, &snapshot.clock, || view::clock(&snapshot))
    })
}

pub fn mode(global: &Global, args: &ModeArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    let Some(word) = &args.mode else {
        let snapshot = client.snapshot()?;
        let mode = snapshot.daemon.mode;
        let value = json!({ "schema": SCHEMA, "mode": mode, "state": snapshot.daemon.state });
        return output::one(global, &value, || format!("{}\n", mode.as_str()));
    };
    let mode = Mode::ALL.into_iter().find(|mode| mode.as_str() == word).unwrap_or_default();
    if args.job.is_some() && mode != Mode::Bypass {
        return Err(Failure::input("--job goes with bypass only: a single job can be left out, not added"));
    }
    let request = ModeRequest {
        mode,
        for_ns: args.time.map(|time| time.0),
        job: args.job.clone(),
        persist: args.persist,
        fleet: word == "fleet",
        reason: args.reason.clone(),
    };
    answer(global, &client.post("/api/v1/mode", &request)?)
}

pub fn reload(global: &Global, args: &ReloadArgs) -> Result<(), Failure> {
    let request = ReloadRequest { reason: args.reason.clone() };
    answer(global, &Client::new(global)?.post("/api/v1/reload", &request)?)
}

pub fn drain(global: &Global, args: &DrainArgs) -> Result<(), Failure> {
    let request = DrainRequest { job: args.job.clone(), reason: args.reason.clone() };
    answer(global, &Client::new(global)?.post("/api/v1/drain", &request)?)
}

pub fn log(global: &Global, args: &LogArgs) -> Result<(), Failure> {
    let request =
        LogRequest { filter: args.filter.clone(), for_ns: args.time.map(|time| time.0), reason: args.reason.clone() };
    answer(global, &Client::new(global)?.post("/api/v1/log", &request)?)
}

pub fn version(global: &Global) -> Result<(), Failure> {
    let daemon = Client::new(global)?.snapshot().ok().map(|snapshot| snapshot.daemon);
    // Known of what `cargo xtask package` builds.
    let revision = option_env!("SLUICE_REVISION").filter(|revision| !revision.is_empty());
    let wire = format!("{}.{}", hello::MAJOR, hello::MINOR);
    let page = format!("{}.{}", layout::MAJOR, layout::MINOR);
    let value = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "revision": revision,
        "snapshot_schema": SCHEMA,
        "progress_page": page,
        "wire": wire,
        "kernel_interface": ABI,
        "daemon": daemon.as_ref().map(|daemon| json!({ "version": daemon.version, "revision": daemon.revision, "kernel": daemon.kernel })),
    });
    output::one(global, &value, || {
        let of = |revision: Option<&str>| revision.map(|text| format!(" (revision {text})")).unwrap_or_default();
        let running = match &daemon {
            Some(daemon) => {
                let known = of(Some(daemon.revision.as_str()).filter(|revision| !revision.is_empty()));
                format!("sluiced {}{known} on {} (kernel {})", daemon.version, daemon.host, daemon.kernel)
            }
            None => "sluiced does not answer".into(),
        };
        let own = format!("sluice {}{}", env!("CARGO_PKG_VERSION"), of(revision));
        let formats = format!("JSON schema {SCHEMA}, progress page {page}, wire {wire}, kernel interface {ABI}");
        format!("{own}\n{running}\n{formats}\n")
    })
}

fn answer(global: &Global, outcome: &Outcome) -> Result<(), Failure> {
    if global.quiet {
        return Ok(());
    }
    output::one(global, outcome, || {
        let mut text = format!("{} ({}, {})\n", outcome.message, outcome.mode.as_str(), outcome.state.as_str());
        if !outcome.changed.is_empty() {
            text += &format!("  changed: {}\n", outcome.changed.join(", "));
        }
        if !outcome.waiting.is_empty() {
            text += &format!("  waits for a restart: {}\n", outcome.waiting.join(", "));
        }
        text
    })
}

/// Runs once, or every few seconds until interrupted.
fn repeat(global: &Global, mut act: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    loop {
        if global.watch.is_some() && global.format() == Format::Table && output::width().is_some() {
            output::print("\x1b[H\x1b[2J")?;
        }
        act()?;
        match global.watch {
            None => return Ok(()),
            Some(seconds) => std::thread::sleep(Duration::from_secs_f64(seconds)),
        }
    }
}

fn find_job<'a>(snapshot: &'a Snapshot, id: &str) -> Result<&'a Job, Failure> {
    let label = Label::new(id);
    let found = snapshot.jobs.iter().find(|job| job.id == label);
    found.ok_or_else(|| unknown("job", id, snapshot.jobs.iter().map(|job| job.id.as_str()), "sluice jobs"))
}

/// The flow with this id, or all flows of the job with this id.
fn flows_of<'a>(snapshot: &'a Snapshot, id: &str) -> Result<Vec<&'a Flow>, Failure> {
    let wanted = flow_id(id.trim_start_matches("0x"));
    if let Some(flow) = snapshot.flows.iter().find(|flow| flow_id(&flow.id) == wanted) {
        return Ok(vec![flow]);
    }
    let label = Label::new(id);
    if snapshot.jobs.iter().any(|job| job.id == label) {
        return Ok(snapshot.flows.iter().filter(|flow| flow.job == label).collect());
    }
    let flows: Vec<String> = snapshot.flows.iter().map(|flow| flow_id(&flow.id)).collect();
    let known = flows.iter().map(String::as_str).chain(snapshot.jobs.iter().map(|job| job.id.as_str()));
    Err(unknown("flow or job", id, known, "sluice flows"))
}

fn named<'a, T>(all: &'a [T], name: Option<&str>, what: &str, read: fn(&T) -> &String) -> Result<Vec<&'a T>, Failure> {
    let Some(name) = name else { return Ok(all.iter().collect()) };
    let found: Vec<&T> = all.iter().filter(|one| read(one) == name).collect();
    if found.is_empty() {
        let plural = if what == "switch" { "sluice switches" } else { "sluice links" };
        return Err(unknown(what, name, all.iter().map(|one| read(one).as_str()), plural));
    }
    Ok(found)
}

fn unknown<'a>(what: &str, id: &str, known: impl Iterator<Item = &'a str>, list: &str) -> Failure {
    let hint = hint(id, known).map(|hint| format!("; {hint}")).unwrap_or_default();
    Failure::input(format!("no {what} `{id}` on this host{hint}\n  help: {list}"))
}
