//! Keys of a topology that change what its links and nodes can do: a planner that cannot honour one refuses it, unless the
//! caller says to plan as if it were not there.

use sluice_formats::problem::{MAX_PROBLEMS, Problem, UNSUPPORTED_FIELD};
use sluice_formats::topology::Topology;

/// The keys that may be ignored; all others that are refused have no meaning without them.
pub const IGNORABLE: [&str; 3] = ["buffer", "capacity_per_epoch", "groups"];

/// Keys that change what a fabric can do and that some planners know nothing of; and those that are left out on request.
pub(crate) fn unsupported(topology: &Topology, ignore: &[String]) -> (Vec<Problem>, Vec<&'static str>) {
    let groups = (!topology.groups().is_empty()).then(|| ("groups", "/groups".to_owned(), "limits of several links"));
    let buffers = topology.nodes().iter().enumerate().filter(|(_, node)| node.buffer.is_some());
    let buffers = buffers.map(|(i, _)| ("buffer", format!("/nodes/{i}/buffer"), "a finite buffer"));
    let epochs = topology.file().links.iter().enumerate().filter(|(_, link)| link.capacity_per_epoch.is_some());
    let epochs = epochs.map(|(i, _)| {
        ("capacity_per_epoch", format!("/links/{i}/capacity_per_epoch"), "a capacity that changes with time")
    });
    let (mut errors, mut ignored) = (Vec::new(), Vec::new());
    for (key, at, what) in buffers.chain(epochs).chain(groups) {
        if !ignore.iter().any(|ignored| ignored == key) {
            let error = Problem::new(UNSUPPORTED_FIELD, at, format!("this planner knows nothing of {what}")).found(key);
            let help = format!("--ignore {key} plans as if it were not there, and the plan says so");
            errors.push(error.allowed("nothing").help(help));
        } else if !ignored.contains(&key) {
            ignored.push(key);
        }
        if errors.len() == MAX_PROBLEMS {
            break;
        }
    }
    (errors, ignored)
}
