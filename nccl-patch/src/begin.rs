//! What happens when a communicator is set up, the only time that this plug-in allocates, reads the environment or
//! writes a line.

use std::ffi::c_int;

use sluice_progress::guest;
use sluice_progress::layout::NO_RANK;
use sluice_progress::{Ident, Publisher, Source, default_dirs};

use crate::abi::{Version, event};
use crate::comm::{Comm, Shape};
use crate::next::{self, Arguments, Behind};
use crate::report::{self, Once};
use crate::{comms, nccl, sockets, translate};

/// Ask for the steps of operations too, and so for the bytes as they move; and for what the transport reports of its sockets,
/// for which NCCL makes an event of every step, whether or not it was built to report anything. So it is asked for only here.
const STEPS: &str = "SLUICE_NCCL_STEPS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The context; 0: nothing here follows this communicator.
    pub context: u64,
    /// The events that are wanted.
    pub mask: c_int,
}

/// Sets a communicator up. `mask`: what NCCL's mask holds before.
pub fn communicator(version: Version, arguments: &Arguments, mask: c_int) -> Begun {
    if guest::privileged() {
        return Begun { context: 0, mask };
    }
    let behind = behind(version, arguments, mask);
    let theirs = behind.map_or(0, |behind| behind.mask);
    let dirs = default_dirs();
    let on = !dirs.is_empty();
    let ours = if on { wanted(version) } else { 0 };
    if !on && behind.is_none() {
        return Begun { context: 0, mask };
    }
    let shape = shape(arguments);
    // All connections that there are now are bootstrap, or not NCCL's.
    sockets::forget_present();
    // A communicator that stays on one host sends nothing that could be scheduled, and pages are counted.
    let publisher = (on && shape.nnodes != 1).then(|| Publisher::new(dirs.clone(), ident(version, arguments, &shape)));
    if let Some(publisher) = &publisher {
        tell(version, arguments, publisher, &dirs, &shape);
    }
    match comms::begin(Box::new(Comm::new(publisher, shape, behind))) {
        Some(context) => Begun { context, mask: ours | theirs },
        None => {
            static FULL: Once = Once::new();
            let text =
                format!("more than {} communicators: the further ones are not published", comms::MAX_COMMUNICATORS);
            report::warn(arguments.logger, &FULL, &text);
            if let Some(behind) = behind {
                behind.finalize();
            }
            Begun { context: 0, mask }
        }
    }
}

fn wanted(version: Version) -> c_int {
    let steps = std::env::var_os(STEPS).is_some_and(|value| value == "1");
    let moved = if steps { event::PROXY_STEP | event::NET_PLUGIN } else { 0 };
    let events = event::COLL | event::P2P | event::PROXY_OP | moved;
    c_int::try_from(events & translate::known(version)).unwrap_or(0)
}

fn behind(version: Version, arguments: &Arguments, mask: c_int) -> Option<Behind> {
    static WHY: Once = Once::new();
    match next::load(version) {
        Ok(next) => next?.init(arguments, mask),
        Err(why) => {
            let text = format!("{}: {why}; NCCL runs with Sluice alone", next::VARIABLE);
            report::warn(arguments.logger, &WHY, &text);
            None
        }
    }
}

/// Versions 2 and 3 say nothing; there the job's environment does.
fn shape(arguments: &Arguments) -> Shape {
    let positive = |value: c_int, names: &[&str]| {
        u32::try_from(value).ok().filter(|&value| value > 0).or_else(|| number(names)).unwrap_or(0)
    };
    let rank = u32::try_from(arguments.rank).ok();
    Shape {
        nranks: positive(arguments.nranks, &["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"]),
        nnodes: positive(arguments.nnodes, &[]),
        rank: rank.or_else(|| number(&["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"])).unwrap_or(NO_RANK),
        // SAFETY: getpid has no preconditions.
        pid: unsafe { libc::getpid() },
    }
}

fn ident(version: Version, arguments: &Arguments, shape: &Shape) -> Ident {
    let mut ident = Ident::new(Source::NcclProfiler);
    ident.producer = match nccl::version(arguments.logger) {
        Some(number) => format!("nccl {number} v{version}"),
        None => format!("nccl v{version}"),
    };
    ident.comm_id = arguments.id;
    ident.rank = shape.rank;
    ident.nranks = shape.nranks;
    ident.nnodes = shape.nnodes;
    ident.local_rank = number(&["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"]).unwrap_or(NO_RANK);
    ident.with_environment()
}

fn number(names: &[&str]) -> Option<u32> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find_map(|text| text.trim().parse().ok())
}

fn tell(version: Version, arguments: &Arguments, publisher: &Publisher, dirs: &[std::path::PathBuf], shape: &Shape) {
    static BEGUN: Once = Once::new();
    let Some(writer) = publisher.writer() else {
        static SILENT: Once = Once::new();
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let text = format!(
            "no progress page (v{version}): {} absent, full or not writable; the job runs as without it",
            dirs.join(" and ")
        );
        return report::info(arguments.logger, &SILENT, &text);
    };
    let dir = dirs.iter().find(|dir| dir.join(writer.file_name()).exists());
    let path = dir.map_or_else(|| writer.file_name().into(), |dir| dir.join(writer.file_name()));
    let rank = if shape.rank == NO_RANK { "?".into() } else { shape.rank.to_string() };
    let text = format!("publishing to {} (v{version}), rank {rank}/{}", path.display(), shape.nranks);
    report::info(arguments.logger, &BEGUN, &text);
}
