//! Opening the data path: what the configuration asks of the kernel side, and what became of it.

use sluice_ebpf::{Datapath, Options, Tier};
use sluice_schedule::path::LEAST_FLOOR;
use sluice_schedule::{Nanos, Rate};

use crate::cgroups;
use crate::config::{Backend, Loaded, Mode, ReleaseTo, Require};
use crate::fabric::Fabric;
use crate::privilege::Powers;
use crate::watch::Watch;

/// A pause shorter than this is no start.
const IDLE: Nanos = Nanos::from_millis(5);
/// The kernel's own floor is never less, however many flows there may be.
const LEAST_KERNEL_FLOOR: Rate = Rate(64_000);

/// The data path, and why it is not better.
pub struct Enforcement {
    pub datapath: Box<dyn Datapath>,
    /// Why better ways were refused.
    pub reasons: Vec<String>,
    /// Live sockets that were taken over from an earlier process.
    pub adopted: usize,
}

/// Less works here than the operator insists on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("enforce.require = \"{}\", but only {} works here: {}", required.word(), works.name(), reasons.join("; "))]
pub struct TooLittle {
    pub required: Require,
    pub works: Tier,
    /// Why better ways were refused.
    pub reasons: Vec<String>,
}

/// What the kernel side is asked for.
pub fn options(loaded: &Loaded, fabric: Option<&Fabric>) -> Options {
    let config = &loaded.config;
    let own = fabric.and_then(|fabric| fabric.links.iter().filter_map(|link| link.capacity).max());
    let tiers = match config.enforce.backend {
        Backend::Auto => vec![Tier::StructOps, Tier::StructOpsNoLink, Tier::SetSockOpt, Tier::None],
        Backend::StructOps => vec![Tier::StructOps, Tier::StructOpsNoLink, Tier::None],
        Backend::SetSockOpt => vec![Tier::SetSockOpt, Tier::None],
        Backend::None => vec![Tier::None],
    };
    // Least of all paths is not known here, nor how many flows share one: the kernel's own floor must not hold a flow
    // above what the brain lets it fall to. That is an equal share of what unmanaged traffic leaves, where as many flows as
    // there are rows share the slowest link; half of that link is taken for what it leaves.
    let slowest = fabric.and_then(|fabric| fabric.links.iter().filter_map(|link| link.capacity).min());
    let crowded = |rate: Rate| rate.share(config.enforce.max_flows.saturating_mul(2)).min(rate.times(0.1));
    let floor = config.floor().min(LEAST_FLOOR).min(slowest.map_or(Rate::MAX, crowded)).max(LEAST_KERNEL_FLOOR);
    Options {
        instance: config.node.instance.clone(),
        cgroups: cgroups::root(&cgroups::ROOTS).into_iter().collect(),
        max_flows: u32::try_from(config.enforce.max_flows).unwrap_or(4096),
        floor,
        ceiling: own.unwrap_or(Rate::mbps(1_600_000)).max(floor),
        longest_order: Nanos::from_millis(config.enforce.coast_ms.max(1000)).times(2),
        release_to: match config.enforce.release_to {
            ReleaseTo::Earlier => None,
            other => Some(other.word().to_owned()),
        },
        loss_guard: config.enforce.loss_guard_ratio,
        idle: IDLE,
        tiers,
        ..Options::default()
    }
}

/// Opens what the mode needs: in `active` the best way that works; otherwise, and where none does, sockets are only
/// looked at.
///
/// # Errors
/// [`TooLittle`], if `enforce.require` asks for more than works here.
pub fn open(loaded: &Loaded, fabric: &Fabric, mode: Mode, powers: &Powers) -> Result<Enforcement, TooLittle> {
    let watch = || Box::new(Watch::open(powers.eyes()));
    if mode != Mode::Active {
        return Ok(Enforcement { datapath: watch(), reasons: Vec::new(), adopted: 0 });
    }
    let none = |reasons| Enforcement { datapath: watch(), reasons, adopted: 0 };
    // Without them no job would ever be found.
    let named = cgroups::check(&loaded.config.capture.cgroups).map_err(|why| why.to_string());
    let kernel = |()| powers.open(&options(loaded, Some(fabric))).map_err(|why| why.to_string());
    let opened = named.and_then(kernel);
    let opened = match opened {
        Ok(opened) if opened.tier == Tier::None => none(opened.reasons),
        // Everything opens, and no socket could ever be paced.
        Ok(opened) if opened.tier == Tier::SetSockOpt && cgroups::root(&cgroups::ROOTS).is_err() => {
            let why = cgroups::root(&cgroups::ROOTS).err().map(|why| why.to_string());
            none(opened.reasons.into_iter().chain(why).collect())
        }
        Ok(opened) => Enforcement { datapath: opened.datapath, reasons: opened.reasons, adopted: opened.adopted },
        Err(why) => none(vec![why]),
    };
    let tier = opened.datapath.tier();
    let enough = match loaded.config.enforce.require {
        Require::None => true,
        Require::Any => tier != Tier::None,
        Require::StructOps => matches!(tier, Tier::StructOps | Tier::StructOpsNoLink),
    };
    if enough {
        return Ok(opened);
    }
    Err(TooLittle { required: loaded.config.enforce.require, works: tier, reasons: opened.reasons })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::config::value::Named;
    use crate::testing::{config, fabric};

    #[test]
    fn the_kernels_floor_overfills_no_link_however_many_rows_are_taken() {
        let mut loaded = Loaded { config: config(0, true), ..Loaded::default() };
        let mut fabric = fabric(0, &loaded.config);
        let mut floor = |mbps: u64, rows: u64| {
            loaded.config.enforce.max_flows = rows;
            let own = Rc::get_mut(&mut fabric).expect("nobody else has it");
            own.links.iter_mut().for_each(|link| link.capacity = Some(Rate::mbps(mbps)));
            options(&loaded, Some(&fabric)).floor
        };
        for (mbps, rows) in [(500, 4096), (1_000, 4096), (500, 64), (25_000, 4096)] {
            let all = floor(mbps, rows).0 * rows;
            assert!(all <= Rate::mbps(mbps).times(0.6).0, "{rows} floors on {mbps} Mbit/s: {all} bit/s");
        }
        assert_eq!((floor(1_000, 4096), floor(1_000, 64)), (Rate(122_070), LEAST_FLOOR));
        // However slow the link, there is a least one.
        assert_eq!((floor(5, 64), floor(100, 4096)), (LEAST_KERNEL_FLOOR, LEAST_KERNEL_FLOOR));
    }

    #[test]
    fn where_no_socket_could_be_captured_nothing_claims_to_enforce() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("tasks"), "").expect("written");
        let mut loaded = Loaded { config: crate::testing::config(0, true), ..Loaded::default() };
        loaded.config.capture.cgroups = vec![Named::Name(dir.path().to_owned())];
        let fabric = crate::testing::fabric(0, &loaded.config);
        let opened = open(&loaded, &fabric, Mode::Active, &Powers::default()).expect("nothing is required");
        assert_eq!((opened.datapath.tier(), opened.adopted), (Tier::None, 0));
        assert!(opened.reasons[0].contains("not a cgroup of v2"), "{:?}", opened.reasons);
        loaded.config.enforce.require = Require::Any;
        let refused = open(&loaded, &fabric, Mode::Active, &Powers::default()).err().expect("something is required");
        assert!(refused.to_string().contains("not a cgroup of v2"), "{refused}");
    }
}
