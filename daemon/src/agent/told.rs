//! What the loop says of itself in the log: its start with all that matters, and what it has to do without.

use sluice_ebpf::Tier;

use crate::core::Core;
use crate::facts::Facts;

/// One line with everything that a first look asks for.
pub(super) fn start(core: &Core, facts: &Facts, tier: Tier, adopted: usize) {
    let (config, fabric) = (core.config(), &core.monitor().fabric);
    tracing::info!(
        event = "start",
        version = env!("CARGO_PKG_VERSION"),
        kernel = facts.kernel,
        backend = tier.name(),
        mode = core.mode().word(),
        slot_ms = config.slot.length_ms,
        horizon = config.slot.horizon,
        clock = config.clock.source.word(),
        links = %fabric.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(","),
        nic_mode = fabric.nic_mode(),
        adopted,
        files = %core.loaded().files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(","),
        "sluiced runs"
    );
}

pub(super) fn no_kernel_events(error: &std::io::Error) {
    tracing::warn!(
        event = "kernel-events",
        %error,
        cost = "what happens to sockets is seen at the next slot, not at once",
        next = "start the daemon again; if it comes again, report it with this line",
        "kernel events are polled"
    );
}

pub(super) fn no_peers(error: &dyn std::fmt::Display) {
    tracing::error!(
        event = "peer-service",
        %error,
        cost = "other hosts do not see what is promised on this host's links",
        next = "start the daemon again; ss -ltnp says who has the port of peer.listen",
        "other hosts cannot connect"
    );
}

pub(super) fn sysctl_left(left: &str) {
    tracing::warn!(
        event = "sysctl-left",
        cost = "the setting stays as Sluice has set it",
        next = "sluiced cleanup, or set it by hand",
        "{left}"
    );
}
