//! `sluice fleet status`: the hosts of the fleet, a line each.

use std::process::ExitCode;

use serde_json::{Value as Json, json};
use sluice_fleet::judge::Seen;
use sluice_fleet::key::Name;
use sluice_fleet::rollout::Rollout;
use sluice_wire::snapshot::{BenefitState, Brief, Mode, SCHEMA, State};

use super::args::FleetStatusArgs;
use super::desk::Desk;
use super::{hosts, now};
use crate::failure::Failure;
use crate::format::{UNKNOWN, age};
use crate::global::{Format, Global};
use crate::output;
use crate::table::Table;

/// A host with what its group is to be in.
struct Row<'a> {
    group: &'a Name,
    wanted: Option<Mode>,
    seen: &'a Seen,
}

pub fn run(global: &Global, desk: &mut Desk, args: &FleetStatusArgs) -> Result<ExitCode, Failure> {
    let mut groups = desk.groups()?;
    if let Some(unknown) = args.groups.iter().find(|group| !groups.iter().any(|(known, _)| known == *group)) {
        let known: Vec<&str> = groups.iter().map(|(known, _)| known.as_str()).collect();
        return Err(Failure::input(format!("no group {unknown}\n  groups: {}", known.join(", "))));
    }
    groups.retain(|(group, _)| args.groups.is_empty() || args.groups.contains(group));
    let modes = desk.modes()?;
    let rollout = desk.rollout()?.rollout;
    let seen = hosts::ask(desk, &groups, args.parallel);
    let wanted = |group: &Name| modes.iter().find(|(known, _)| known == group).map(|(_, mode)| *mode);
    let rows: Vec<Row<'_>> = seen
        .iter()
        .flat_map(|(group, hosts)| hosts.iter().map(move |seen| (group, seen)))
        .map(|(group, seen)| Row { group, wanted: wanted(group), seen })
        .collect();
    let good = rows.iter().all(Row::good);
    match global.format() {
        Format::Table if global.fields.is_empty() => output::print(&text(&rows, rollout.as_ref()))?,
        Format::Json => {
            let groups: Vec<Json> = seen
                .iter()
                .map(|(group, hosts)| json!({ "group": group.as_str(), "mode": wanted(group), "hosts": hosts.len() }))
                .collect();
            let hosts: Vec<Json> = rows.iter().map(Row::json).collect();
            let rollout = rollout.as_ref().map(Rollout::to_json);
            let value = json!({ "schema": SCHEMA, "rollout": rollout, "groups": groups, "hosts": hosts });
            output::print(&format!("{value:#}\n"))?;
        }
        _ => output::list(global, "hosts", &rows.iter().map(Row::json).collect::<Vec<_>>(), String::new)?,
    }
    Ok(if args.check && !good { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

impl Row<'_> {
    fn brief(&self) -> Option<&Brief> {
        self.seen.answer.as_ref().ok().map(|brief| &**brief)
    }
    fn good(&self) -> bool {
        self.brief().is_some_and(|brief| brief.state == State::Ok && self.wanted.is_none_or(|mode| brief.mode == mode))
    }
    fn json(&self) -> Json {
        let brief = self.brief();
        json!({
            "host": self.seen.host.as_str(),
            "group": self.group.as_str(),
            "http": self.seen.http,
            "wanted": self.wanted,
            "answers": brief.is_some(),
            "error": self.seen.answer.as_ref().err(),
            "mode": brief.map(|brief| brief.mode),
            "state": brief.map(|brief| brief.state),
            "conditions": brief.map(|brief| &brief.conditions),
            "jobs": brief.map(|brief| &brief.jobs),
            "version": brief.map(|brief| &brief.version),
            "config_hash": brief.map(|brief| brief.config_hash),
            "uptime_ns": brief.map(|brief| brief.uptime_ns),
            "fleet": brief.and_then(|brief| brief.fleet.as_ref()),
        })
    }
    fn cells(&self) -> Vec<String> {
        let (host, group) = (self.seen.host.to_string(), self.group.to_string());
        let unknown = || UNKNOWN.to_owned();
        let brief = match &self.seen.answer {
            Ok(brief) => brief,
            Err(error) => {
                let silent = vec![host, group, unknown(), "silent".into()];
                return [silent, vec![unknown(); 5], vec![format!("{}: {error}", self.seen.http)]].concat();
            }
        };
        let follows = match &brief.fleet {
            None => "in no fleet",
            Some(fleet) if fleet.by_hand => "by hand",
            Some(fleet) if !fleet.connected => "not heard",
            Some(fleet) if fleet.mode.is_none() => "told nothing",
            Some(_) if self.wanted.is_some_and(|mode| mode != brief.mode) => "not yet",
            Some(_) => "follows",
        };
        let codes: Vec<&str> = brief.conditions.iter().map(|condition| condition.code.as_str()).collect();
        let released = brief.jobs.iter().filter(|job| job.benefit.state == BenefitState::Released).count();
        let jobs = match released {
            0 => brief.jobs.len().to_string(),
            released => format!("{} ({released} slower)", brief.jobs.len()),
        };
        vec![
            host,
            group,
            brief.mode.as_str().into(),
            brief.state.as_str().into(),
            follows.into(),
            jobs,
            age(brief.uptime_ns),
            brief.version.clone(),
            format!("{:012x}", brief.config_hash),
            codes.join(","),
        ]
    }
}

fn text(rows: &[Row<'_>], rollout: Option<&Rollout>) -> String {
    let mut text = String::new();
    if let Some(rollout) = rollout {
        text.push_str(&format!("{}\n", told(rollout)));
    }
    let mut table =
        Table::new(["HOST", "GROUP", "MODE", "STATE", "FLEET", ">JOBS", ">UP", "VERSION", "CONFIG", "CONDITIONS"]);
    rows.iter().for_each(|row| table.row(row.cells()));
    text.push_str(&table.render(output::width()));
    let silent: Vec<&str> = rows.iter().filter(|row| row.brief().is_none()).map(|row| row.seen.host.as_str()).collect();
    if !silent.is_empty() {
        text.push_str(&format!("{} of {} hosts do not answer: {}\n", silent.len(), rows.len(), silent.join(", ")));
    }
    text
}

/// A rollout in one line.
pub fn told(rollout: &Rollout) -> String {
    let (touched, all) = (rollout.touched, rollout.stages.len());
    let ended = if rollout.ended_by.is_empty() { String::new() } else { format!(": {}", rollout.ended_by) };
    let wait = match rollout.wait_ends().map(|end| end.since(now()).as_secs()) {
        _ if rollout.status.over() || rollout.touched == 0 => String::new(),
        None => ", its hosts do not all follow yet".into(),
        Some(0) => String::new(),
        Some(left) => format!(", {left} s of its wait left"),
    };
    format!(
        "rollout to {}: {}, {touched} of {all} groups{wait}{ended}",
        rollout.order.to.as_str(),
        rollout.status.word()
    )
}
