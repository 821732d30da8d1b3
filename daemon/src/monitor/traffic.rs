//! What all traffic takes of the own links, and how much of it is managed: the difference is the cross traffic.
//!
//! Sent bytes are known per managed flow. Received ones are acknowledged at the other end, so the jobs' own counts of
//! what they took from their sockets stand for them; where no job counts, what other hosts promised to send here does,
//! and unmanaged traffic is under-estimated while they send less; where they may send more than they promise, nothing is
//! known of it. Bytes in flight at a slot's edge belong to one slot
//! here and to the next there, so only what shows in two slots running counts: taking a managed flow's own burst for a
//! stranger's would slow it down for nothing.
//!
//! Where hosts forward, counters cannot tell other hosts' managed flows from strangers': there only a file says what is
//! unmanaged.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_schedule::{Bytes, Event, Nanos, Now, Rate};

use super::sockets::Sockets;
use crate::config::{Config, CrossSource};
use crate::fabric::Fabric;
use crate::interfaces::{self, Counters};

/// A file of unmanaged rates is read up to this size.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// What one own link carried since the last slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub sent: Rate,
    /// Payload of managed flows sent.
    pub managed: Rate,
    /// Payload of others, sent in this slot and the one before.
    pub other: Rate,
    pub received: Rate,
    /// Bytes of managed flows since the start.
    pub managed_bytes: Bytes,
    /// Other bytes since the start.
    pub other_bytes: Bytes,
}

/// What is remembered of one link from slot to slot.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The most that was promised to come by it, in the running slot and in the last one.
    promised: Rate,
    promised_before: Rate,
    /// Unmanaged rates of the last slot.
    sent_before: Rate,
    received_before: Rate,
}

#[derive(Debug)]
pub struct Traffic {
    source: CrossSource,
    file: Option<std::path::PathBuf>,
    last: BTreeMap<String, Counters>,
    /// What jobs had received at the last slot edge.
    jobs_received: Bytes,
    at: Nanos,
    /// By place in [`Fabric::links`], as are the others.
    links: Vec<Known>,
    /// By place in [`Fabric::links`].
    pub loads: Vec<Load>,
}

impl Traffic {
    pub fn new(config: &Config) -> Traffic {
        Traffic {
            source: config.cross_traffic.source,
            file: config.cross_traffic.file.clone(),
            last: BTreeMap::new(),
            jobs_received: Bytes::ZERO,
            at: Nanos::ZERO,
            links: Vec::new(),
            loads: Vec::new(),
        }
    }

    /// Takes over what a reload may change.
    pub fn reconfigure(&mut self, config: &Config) {
        self.source = config.cross_traffic.source;
        self.file.clone_from(&config.cross_traffic.file);
    }

    /// What other hosts promise to send to this one at the moment; call it in every turn.
    pub fn promise(&mut self, rates: &[Rate]) {
        self.links.resize(rates.len(), Known::default());
        for (link, rate) in self.links.iter_mut().zip(rates) {
            link.promised = link.promised.max(*rate);
        }
    }

    /// Call it once per slot. `received`: what jobs counted so far.
    pub fn measure(&mut self, now: Now, fabric: &Fabric, sockets: &mut Sockets, received: Bytes, out: &mut Vec<Event>) {
        let newly = received.minus(std::mem::replace(&mut self.jobs_received, received));
        let elapsed = now.mono.minus(self.at);
        let first = self.at.0 == 0;
        self.at = now.mono;
        self.loads.resize(fabric.links.len(), Load::default());
        self.links.resize(fabric.links.len(), Known::default());
        let mut managed = vec![Bytes::ZERO; fabric.links.len()];
        for socket in sockets.iter_mut() {
            socket.slot_edge();
            // What is sent again is a managed flow's as well, or a loss would look like somebody else's traffic.
            let sent = socket.moved_in_slot.plus(socket.sent_again_in_slot());
            if socket.told.is_some()
                && let Some(index) = fabric.link_between(socket.tuple.local_ip(), socket.tuple.remote_ip())
            {
                managed[index] = managed[index].plus(sent);
            }
        }
        let counters = if self.source == CrossSource::Nic { interfaces::counters() } else { BTreeMap::new() };
        if first || elapsed.0 == 0 {
            self.last = counters;
            return;
        }
        let arrived: Vec<Bytes> = fabric.links.iter().map(|link| arrived(&self.last, &counters, &link.name)).collect();
        let arrived_in_all = arrived.iter().fold(Bytes::ZERO, |sum, bytes| sum.plus(*bytes));
        let file = self.file.as_deref().filter(|_| self.source == CrossSource::File).map(read).unwrap_or_default();
        for (index, link) in fabric.links.iter().enumerate() {
            let rate = |bytes: Bytes| Rate::needed(bytes, elapsed);
            let managed_rate = rate(managed[index]);
            let (before, after) = (self.last.get(&link.name), counters.get(&link.name));
            let load = &mut self.loads[index];
            load.managed = managed_rate;
            load.managed_bytes = load.managed_bytes.plus(managed[index]);
            match (before, after) {
                (Some(before), Some(after)) => {
                    let sent = after.sent.minus(before.sent);
                    (load.sent, load.received) = (rate(sent), rate(after.received.minus(before.received)));
                    load.other_bytes = load.other_bytes.plus(sent.minus(managed[index]));
                }
                _ => {
                    let cross = file.get(&link.name).copied().unwrap_or(Rate::ZERO);
                    (load.sent, load.received) = (managed_rate.plus(cross), Rate::ZERO);
                }
            }
            let forwarded = fabric.forwards() && self.source == CrossSource::Nic;
            let cross = if forwarded { Rate::ZERO } else { load.sent.minus(managed_rate) };
            let known = &mut self.links[index];
            let lasting = cross.min(std::mem::replace(&mut known.sent_before, cross));
            load.other = lasting;
            out.push(Event::Measured { link: link.egress, total: managed_rate.plus(lasting), managed: managed_rate });
            let promised = known.promised.max(std::mem::replace(&mut known.promised_before, known.promised));
            known.promised = Rate::ZERO;
            if !fabric.forwards()
                && let Some(ingress) = fabric.ingress(index)
            {
                // Jobs count what they receive, not by which card.
                let part = || Bytes(split(newly.0, arrived[index].0, arrived_in_all.0));
                let ours = if received > Bytes::ZERO { rate(part()) } else { promised };
                let cross = load.received.minus(ours);
                let lasting = cross.min(std::mem::replace(&mut known.received_before, cross));
                let managed = load.received.minus(cross);
                out.push(Event::Measured { link: ingress.link, total: managed.plus(lasting), managed });
            }
        }
        self.last = counters;
    }
}

/// What arrived on an interface from one reading to the next.
fn arrived(before: &BTreeMap<String, Counters>, after: &BTreeMap<String, Counters>, name: &str) -> Bytes {
    let (before, after) = (before.get(name), after.get(name));
    before.zip(after).map_or(Bytes::ZERO, |(before, after)| after.received.minus(before.received))
}

/// `part` of `whole`, as a part of `of`; nothing of nothing.
fn split(of: u64, part: u64, whole: u64) -> u64 {
    (u128::from(of) * u128::from(part)).checked_div(u128::from(whole)).map_or(0, |bytes| bytes as u64)
}

/// `interface bit/s` per line; anything else is skipped.
fn read(path: &Path) -> BTreeMap<String, Rate> {
    let small = std::fs::metadata(path).is_ok_and(|meta| meta.len() <= MAX_FILE_BYTES);
    let text = if small { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let line = |line: &str| {
        let (name, rate) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), Rate(rate.trim().parse().ok()?)))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_rates_skips_what_it_cannot_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("cross");
        std::fs::write(&path, "eth0 1000000\nbad\neth1 x\n\n eth2 5\n").expect("written");
        let rates = read(&path);
        assert_eq!(rates.get("eth0"), Some(&Rate(1_000_000)));
        assert_eq!(rates.len(), 1 + usize::from(rates.contains_key("")));
    }
}
