//! Network kind `file`: a CSV of hosts and their switches (`host,asw,psw,dsw`), as published for one large GPU cluster.

use sluice_formats::document::Table;
use sluice_formats::problem::{E_DUP, E_LIMIT, E_TRACE, Problem};
use std::collections::BTreeSet;
use std::path::Path;

use super::keys::{Defaults, MAX_HOSTS, gpus, three_rates, uplinks};
use super::{Cable, Host, Network};
use crate::trace::Csv;

/// Reads the CSV that `file` names. A ToR is the pair (psw, asw); one switch per psw, one per dsw.
pub(crate) fn lingjun(t: &Table<'_>, d: Defaults, base: &Path) -> Option<Network> {
    let (rates, up, gpus) = (three_rates(t), uplinks(t), gpus(t));
    let item = t.require("file")?;
    let file = item.text()?;
    let (rates, up) = (rates?, up?);
    let mut csv = Csv::open(&base.join(file), &["host", "asw", "psw", "dsw"], &item)?;
    let (mut hosts, mut cables) = (Vec::new(), Vec::new());
    let (mut tors, mut aggs, mut cores) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut tor_seen, mut agg_seen, mut host_seen) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let cable = |a: &str, b: &str, rate| -> Cable { d.cable(a.to_owned(), b.to_owned(), rate) };
    while let Some(row) = csv.next_row(t.item.collector)? {
        let [host, asw, psw, dsw, ..] = row.fields.as_slice() else { continue };
        let name = format!("h{host}");
        let (tor, agg) = (format!("{psw}-{asw}"), psw.clone());
        if !host_seen.insert(name.clone()) {
            let problem = Problem::new(E_DUP, "", format!("host {host:?} stands twice")).allowed("each host once");
            t.item.collector.push(Problem { line: row.line as usize, column: 1, ..problem.in_file(file) });
            continue;
        }
        if hosts.len() as u64 >= MAX_HOSTS {
            item.fail(E_LIMIT, "more than 4096 hosts", "at most 4096 hosts");
            return None;
        }
        cables.push(cable(&name, &tor, rates[0]));
        if tor_seen.insert(tor.clone()) {
            (0..up[0]).for_each(|_| cables.push(cable(&tor, &agg, rates[1])));
            tors.push(tor.clone());
        }
        if agg_seen.insert((agg.clone(), dsw.clone())) {
            (0..up[1]).for_each(|_| cables.push(cable(&agg, dsw, rates[2])));
            if !aggs.contains(&agg) {
                aggs.push(agg.clone());
            }
        }
        cores.insert(dsw.clone());
        let rack = tors.iter().position(|n| *n == tor).unwrap_or(0);
        let edge = aggs.iter().position(|n| *n == agg).unwrap_or(0);
        hosts.push(Host { name, gpus, rack, edge });
    }
    if hosts.is_empty() {
        item.fail(E_TRACE, format!("{file:?} names no host"), "at least one row");
        return None;
    }
    let switches = tors.into_iter().chain(aggs).chain(cores).collect();
    Some(Network::build("file", hosts, switches, &cables))
}
