//! Undoes everything: gives sockets back, detaches, unregisters, unpins. Works without a daemon and more than once.
//!
//! Sockets first. One under the congestion control goes back by itself when its order ends, registered or not; a pacing
//! ceiling is lifted by the program that is attached to its cgroup, and one whose program was detached would stay for ever.
//! So nothing is detached before every socket was given back, and where that cannot be done the attachment stays.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::path::Path;

use sluice_struct_ops as struct_ops;

use crate::abi::{VisitedSocket, records};
use crate::loader::{self, Loaded, MAX_ANSWER, Pass};
use crate::netns;
use crate::options::{Error, Options};
use crate::pins::{self, DRAIN, Pins};

/// What a clean-up did and could not do, in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was removed or given back, or that there was nothing.
    pub done: Vec<String>,
    /// Left, with the reason.
    pub left: Vec<String>,
}

/// Gives back every socket of the caller's network namespace and of all others that may be entered, then detaches,
/// unregisters and unpins.
///
/// # Errors
/// None as such: what could not be undone is in the report.
pub fn cleanup(options: &Options) -> Report {
    let mut report = Report::default();
    for dir in Pins::other_versions(options) {
        report.done.push(format!("removed the pins of another version in {}", dir.display()));
        report.left.extend(end(&Pins::at(dir)).left);
    }
    let Some(pins) = Pins::existing(options) else {
        if report.done.is_empty() {
            report.done.push("nothing was pinned".into());
        }
        let _ = std::fs::remove_dir(options.pin_dir());
        return report;
    };
    let ended = end(&pins);
    report.done.extend(ended.done);
    report.left.extend(ended.left);
    report
}

/// Ends what one version of one instance has pinned, whatever version that is.
pub(crate) fn end(pins: &Pins) -> Report {
    let mut report = Report::default();
    let names = pins.names();
    let of_kind = |prefix: &str| names.iter().filter(|n| n.starts_with(prefix)).count();
    let (cgroups, registrations) = (of_kind("cg-"), of_kind("ccmap-"));
    let drained = drain(pins);
    match &drained {
        Ok(drained) if pins.is_of_this_version() => tell(drained, &mut report),
        // How it tells of a socket only that version knows.
        Ok(_) => report.done.push(format!("gave the sockets of {} back", pins.dir().display())),
        Err(error) => report.left.push(format!("sockets fall back when their orders expire: {error}")),
    }
    let whole = drained.is_ok_and(|drained| drained.refused == 0);
    if !whole && cgroups > 0 {
        report.left.push(format!(
            "{cgroups} attachments to cgroups in {}: they lift the ceilings of sockets that could not be given back, as \
             soon as these send",
            pins.dir().display()
        ));
    }
    report.left.extend(remove(pins, whole || cgroups == 0));
    let detached = if whole { cgroups } else { 0 };
    report.done.push(format!("detached from {detached} cgroups, unregistered {registrations} congestion controls"));
    report.done.push(format!("removed {} pins", names.len() - pins.names().len()));
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
    let mut loaded = match loader::types()
        .and_then(|types| Loaded::new(&types, Some(&pins), rows(&pins).unwrap_or(options.max_flows)))
    {
        Ok(loaded) => loaded,
        // A daemon that ends without flows takes its pins along, also between two looks here.
        Err(_) if Pins::existing(options).is_none() => return Ok(0),
        Err(error) => return Err(error),
    };
    let expired = everywhere(|| loaded.pass(Pass::Sweep))?;
    Ok(expired.seen.iter().filter(|socket| socket.result == 0).count())
}

/// How many rows the tables have.
fn rows(pins: &Pins) -> Option<u32> {
    let info = aya::maps::MapData::from_pin(pins.path("sluice_ctl")).and_then(|map| map.info());
    info.ok().map(|info| info.max_entries())
}

/// The sockets of all namespaces that a pass went over.
struct Walked {
    seen: Vec<VisitedSocket>,
    /// Namespaces that may not be entered, or in which the pass did not work.
    refused: usize,
}

/// Gives every socket back by the pass that is pinned beside the maps. Where there is no pin, nothing was ever opened.
fn drain(pins: &Pins) -> Result<Walked, Error> {
    let path = pins.path(DRAIN);
    if pins.names().is_empty() {
        return Ok(Walked { seen: Vec::new(), refused: 0 });
    }
    if !path.exists() && pins.is_of_this_version() {
        // A build before the pass was pinned; its maps are those of these programs.
        let mut loaded = Loaded::new(&loader::types()?, Some(pins), rows(pins).unwrap_or_default())?;
        return everywhere(|| loaded.pass(Pass::Drain));
    }
    everywhere(|| {
        let mut bytes = Vec::new();
        let answer = File::open(&path).and_then(|file| file.take(MAX_ANSWER).read_to_end(&mut bytes));
        answer.map_err(|error| Error::file("read", &path, error))?;
        Ok(records(&bytes))
    })
}

/// One pass in every network namespace that can be entered.
fn everywhere(mut pass: impl FnMut() -> Result<Vec<VisitedSocket>, Error> + Send) -> Result<Walked, Error> {
    let (mut seen, mut failed) = (pass()?, 0);
    let refused = netns::each_other(|| match pass() {
        Ok(more) => seen.extend(more),
        Err(error) => {
            failed += 1;
            tracing::warn!(
                event = "cleanup-left",
                %error,
                cost = "what a dead daemon left there falls back when its orders run out",
                next = "sluiced cleanup, once more",
                "the sockets of a namespace were not walked"
            );
        }
    });
    Ok(Walked { seen, refused: refused + failed })
}

fn tell(walked: &Walked, report: &mut Report) {
    let back = walked.seen.iter().filter(|s| s.result == 0).count();
    report.done.push(format!("gave {back} sockets back"));
    if walked.refused > 0 {
        report.left.push(format!(
            "sockets in {} network namespaces that may not be entered fall back when their orders expire",
            walked.refused
        ));
    }
    for socket in walked.seen.iter().filter(|s| s.result != 0) {
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

/// Detaches from these cgroups, by the names of the pins, once no socket needs a program there any more.
///
/// # Errors
/// Some socket could not be given back: then everything stays as it is.
pub(crate) fn detach_all(pins: &Pins, names: &[String]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let walked = drain(pins)?;
    if walked.refused > 0 {
        return Err(Error::Unentered { path: pins.dir().to_owned() });
    }
    names.iter().for_each(|name| detach(pins, name));
    Ok(())
}

/// Removes all pins of which no socket can need anything: those of a start that failed.
pub(crate) fn remove_fresh(pins: &Pins) {
    remove(pins, true);
}

/// Removes all pins, registrations and, if `attachments`, those to cgroups first; returns what could not be removed.
fn remove(pins: &Pins, attachments: bool) -> Vec<String> {
    let names = pins.names();
    for name in names.iter().filter(|n| attachments && n.starts_with("cg-")) {
        detach(pins, name);
    }
    for name in names.iter().filter(|n| n.starts_with("cc-") || n.starts_with("ccmap-")) {
        remove_registration(pins, name);
    }
    if attachments {
        return pins.remove_all();
    }
    // The programs that are attached hold their maps themselves; by the pinned pass another try gives the sockets back.
    let kept = |name: &&String| !name.starts_with("cg-") && *name != DRAIN;
    let failed = |name: &String| pins.remove(name).err().map(|error| error.to_string());
    pins.names().iter().filter(kept).filter_map(failed).collect()
}
