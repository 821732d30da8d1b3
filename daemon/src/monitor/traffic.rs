//! What all traffic takes of the own links, and how much of it is managed: the difference is the cross traffic.
//!
//! Sent bytes are known per managed flow. Received ones are not (they are acknowledged at the other end), so what other
//! hosts promised to send here stands for them: unmanaged traffic is then under-estimated while they send less.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_schedule::{Bytes, Event, Nanos, Now, Rate};

use super::sockets::Sockets;
use crate::config::{Config, CrossSource};
use crate::fabric::Fabric;
use crate::interfaces::{self, Counters};

/// A file of unmanaged rates is read up to this size.
const MOST_FILE_BYTES: u64 = 64 << 10;

/// What one own link carried since the last slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// All payload sent.
    pub sent: Rate,
    /// Payload of managed flows sent.
    pub managed: Rate,
    /// All payload received.
    pub received: Rate,
    /// Bytes of managed flows since the start.
    pub managed_bytes: Bytes,
    /// Other bytes since the start.
    pub other_bytes: Bytes,
}

/// Measures the own links.
#[derive(Debug)]
pub struct Traffic {
    source: CrossSource,
    file: Option<std::path::PathBuf>,
    last: BTreeMap<String, Counters>,
    at: Nanos,
    /// By place in [`Fabric::links`].
    pub loads: Vec<Load>,
}

impl Traffic {
    /// Measures as the configuration says.
    pub fn new(config: &Config) -> Traffic {
        Traffic {
            source: config.cross_traffic.source,
            file: config.cross_traffic.file.clone(),
            last: BTreeMap::new(),
            at: Nanos::ZERO,
            loads: Vec::new(),
        }
    }

    /// Takes over what a reload may change.
    pub fn reconfigure(&mut self, config: &Config) {
        self.source = config.cross_traffic.source;
        self.file.clone_from(&config.cross_traffic.file);
    }

    /// Call it once per slot. `promised`: what other hosts promised to send to this one now.
    pub fn measure(&mut self, now: Now, fabric: &Fabric, sockets: &mut Sockets, promised: Rate, out: &mut Vec<Event>) {
        let elapsed = now.mono.minus(self.at);
        let first = self.at.0 == 0;
        self.at = now.mono;
        self.loads.resize(fabric.links.len(), Load::default());
        let mut managed = vec![Bytes::ZERO; fabric.links.len()];
        for socket in sockets.iter_mut() {
            socket.slot_edge();
            let moved = socket.moved_in_slot;
            if socket.told.is_some()
                && let Some((index, _)) = fabric.link_of(socket.tuple.local_ip())
            {
                managed[index] = managed[index].plus(moved);
            }
        }
        let counters = if self.source == CrossSource::Nic { interfaces::counters() } else { BTreeMap::new() };
        if first || elapsed.0 == 0 {
            self.last = counters;
            return;
        }
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
                    (load.sent, load.received) = (managed_rate.plus(cross), promised);
                }
            }
            out.push(Event::Measured { link: link.egress, total: load.sent, managed: managed_rate });
            if index == 0
                && let Some(ingress) = fabric.ingress()
            {
                let managed = promised.min(load.received);
                out.push(Event::Measured { link: ingress.link, total: load.received, managed });
            }
        }
        self.last = counters;
    }
}

/// `interface bit/s` per line; anything else is skipped.
fn read(path: &Path) -> BTreeMap<String, Rate> {
    let small = std::fs::metadata(path).is_ok_and(|meta| meta.len() <= MOST_FILE_BYTES);
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
