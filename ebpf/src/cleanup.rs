//! Undoes everything: gives sockets back, detaches, unregisters, unpins. Works without a daemon and more than once.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::path::Path;

use sluice_struct_ops as struct_ops;

use crate::abi::VisitedSocket;
use crate::loader::{Loaded, Pass};
use crate::netns;
use crate::options::{Error, Options};
use crate::pins::{self, Pins};

/// What a clean-up did and could not do, in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was removed or given back, or that there was nothing.
    pub done: Vec<String>,
    /// Left, with the reason.
    pub left: Vec<String>,
}

/// Gives back every socket of the caller's network namespace, then detaches, unregisters and unpins. Sockets of other
/// namespaces stay under the program, which gives them back when their orders expire.
///
/// # Errors
/// None as such: what could not be undone is in the report.
pub fn cleanup(options: &Options) -> Report {
    let mut report = Report::default();
    // Pins of other versions hold nothing that an iterator of this one could give back: their orders expire.
    for dir in Pins::other_versions(options) {
        report.left.extend(pins::remove_tree(&dir));
        report.done.push(format!("removed the pins of another version in {}", dir.display()));
    }
    let Some(pins) = Pins::existing(options) else {
        if report.done.is_empty() {
            report.done.push("nothing was pinned".into());
        }
        let _ = std::fs::remove_dir(options.pin_dir());
        return report;
    };
    let names = pins.names();
    match drain(&pins, options) {
        Ok(seen) => tell(&seen, &mut report),
        Err(error) => report.left.push(format!("sockets fall back when their orders expire: {error}")),
    }
    let of_kind = |prefix: &str| names.iter().filter(|n| n.starts_with(prefix)).count();
    let (cgroups, registrations) = (of_kind("cg-"), of_kind("ccmap-"));
    let failed = remove_pins(&pins);
    report.left.extend(failed);
    report.done.push(format!("detached from {cgroups} cgroups, unregistered {registrations} congestion controls"));
    report.done.push(format!("removed {} pins", names.len()));
    report
}

/// The instances that have left pins under `pin_root`, as values for [`Options::instance`], sorted.
pub fn instances(pin_root: &Path) -> Vec<String> {
    let with_pins = |name: &String| pins::names(&pin_root.join(name)).iter().any(|n| n.starts_with("abi"));
    let names = pins::names(pin_root).into_iter().filter(with_pins);
    names.filter_map(|name| name.strip_prefix("sluice").map(str::to_owned)).collect()
}

/// Gives back the sockets of the caller's network namespace whose order has expired and that have no traffic which
/// would do it. Returns how many.
///
/// # Errors
/// The kernel's refusal of the iterator.
pub fn sweep(options: &Options) -> Result<usize, Error> {
    let Some(pins) = Pins::existing(options) else { return Ok(0) };
    Ok(walk(&pins, options, Pass::Sweep)?.iter().filter(|s| s.result == 0).count())
}

fn drain(pins: &Pins, options: &Options) -> Result<Vec<VisitedSocket>, Error> {
    // Sockets first: a ceiling whose program was detached would stay for ever.
    walk(pins, options, Pass::Drain)
}

/// One pass in every network namespace that can be entered.
fn walk(pins: &Pins, options: &Options, pass: Pass) -> Result<Vec<VisitedSocket>, Error> {
    let rows = aya::maps::MapData::from_pin(pins.path("sluice_ctl"))
        .and_then(|map| map.info())
        .map_or(options.max_flows, |info| info.max_entries());
    let mut loaded = Loaded::new(Some(pins), rows)?;
    let mut seen = loaded.pass(pass)?;
    netns::each_other(|| match loaded.pass(pass) {
        Ok(more) => seen.extend(more),
        Err(error) => tracing::warn!(
            event = "cleanup-left",
            %error,
            cost = "what a dead daemon left there falls back when its orders run out",
            next = "sluiced cleanup, once more",
            "the sockets of a namespace were not walked"
        ),
    });
    Ok(seen)
}

fn tell(seen: &[VisitedSocket], report: &mut Report) {
    let back = seen.iter().filter(|s| s.result == 0).count();
    report.done.push(format!("gave {back} sockets back"));
    for socket in seen.iter().filter(|s| s.result != 0) {
        let end = |ip: &[u8; 16], port| SocketAddrV6::new(Ipv6Addr::from(*ip), port, 0, 0);
        report.left.push(format!(
            "socket {} -> {} of uid {} (errno {}): it falls back when its order expires",
            end(&socket.local, socket.local_port),
            end(&socket.remote, socket.remote_port),
            socket.uid,
            -socket.result
        ));
    }
}

fn detach(pins: &Pins, name: &str) {
    if let Ok(link) = struct_ops::object_get(&pins.path(name)) {
        // A running daemon may hold the link too; where detaching is not known the pin's end must do.
        let _ = struct_ops::link_detach(&link);
    }
    let _ = pins.remove(name);
}

/// Unregisters one congestion control by the pin of its map or link.
pub(crate) fn remove_registration(pins: &Pins, name: &str) {
    if name.starts_with("ccmap-") {
        if let Ok(map) = struct_ops::object_get(&pins.path(name)) {
            // Refused where a link holds the registration; then the link's end is the end of it.
            let _ = struct_ops::map_delete(&map);
        }
        let _ = pins.remove(name);
    } else {
        detach(pins, name);
    }
}

/// Removes all pins, attachments and registrations first; returns what could not be removed.
pub(crate) fn remove_pins(pins: &Pins) -> Vec<String> {
    let names = pins.names();
    for name in names.iter().filter(|n| n.starts_with("cg-")) {
        detach(pins, name);
    }
    for name in names.iter().filter(|n| n.starts_with("cc-") || n.starts_with("ccmap-")) {
        remove_registration(pins, name);
    }
    pins.remove_all()
}
