//! Opens the best tier that works, by trying, never by version; says why each better one was refused.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use aya::Btf;
use aya::maps::{MapData, Queue};
use aya::programs::links::{FdLink, PinnedLink};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::TcpCongestion};
use sluice_schedule::{Nanos, Rate};
use sluice_struct_ops as struct_ops;

use crate::abi::{self, ABI, Cfg, name16, text16};
use crate::cleanup;
use crate::datapath::{Datapath, Tier};
use crate::grip::{Grip, Gripped, Held};
use crate::kernel::Kernel;
use crate::loader::{self, Loaded, Pass};
use crate::mapping::Mapping;
use crate::missing::Feature;
use crate::observe::Observe;
use crate::options::{Error, Options};
use crate::pins::{DRAIN, Pins};

/// Least length of a loss window: two round trips of a full switch queue and more, for an ordinary flow that overfills
/// the queue makes everybody lose for some milliseconds, and that is no wrong order.
const LOSS_WINDOW: Nanos = Nanos::from_millis(80);
/// A second trip of the loss guard within this gives the socket back ...
const LOSS_RETRIP: Nanos = Nanos::from_millis(10_000);
/// ... and keeps it plain for this long, twice as long with every further time: a flow that ordinary traffic made lose, not a wrong order, is not to slow its
/// whole ring for longer.
const LOSS_BAN: Nanos = Nanos::from_millis(5_000);

/// A datapath that works here.
pub struct Opened {
    /// The best of those asked for that this kernel takes.
    pub datapath: Box<dyn Datapath>,
    /// What it can enforce.
    pub tier: Tier,
    /// Why better tiers were refused, and what else is less good than it could be.
    pub reasons: Vec<String>,
    /// Live sockets that were taken over from an earlier program.
    pub adopted: usize,
}

impl Kernel {
    /// Opens the first tier of `options.tiers` that works: loads, registers and attaches the programs, or takes over
    /// what an earlier process has left in the pins.
    ///
    /// # Errors
    /// [`Error::Option`] for an option out of range; [`Error::NoTier`] if none works and [`Tier::None`] is not allowed.
    pub fn open(options: &Options) -> Result<Opened, Error> {
        options.check()?;
        let mut reasons = Vec::new();
        for &tier in &options.tiers {
            if tier == Tier::None {
                return Ok(Opened { datapath: Box::new(Observe), tier, reasons, adopted: 0 });
            }
            match attempt(options, tier, &mut reasons, Kernel::of) {
                Ok((kernel, adopted)) => return Ok(Opened { datapath: Box::new(kernel), tier, reasons, adopted }),
                Err(error) => reasons.push(format!("{}: {error}{}", tier.name(), hint(tier, &error))),
            }
        }
        Err(Error::NoTier { reasons })
    }

    /// The data path whose hands are this process's own.
    fn of(gripped: Gripped, reasons: &mut Vec<String>) -> Result<(Kernel, usize), Error> {
        let Gripped { grip, tier, name, adopted } = gripped;
        let mut kernel = Kernel::over(tier, grip.descriptors()?, Box::new(grip))?;
        kernel.prove(&name, reasons);
        Ok((kernel, adopted))
    }
}

impl Grip {
    /// As [`Kernel::open`], but for the part that needs privileges: the maps are for somebody else's memory, who has to prove
    /// ([`Kernel::prove`]) what only a connection shows. `None`: no tier works but [`Tier::None`], which is allowed. Adds to
    /// `reasons` why better tiers were refused.
    ///
    /// # Errors
    /// As [`Kernel::open`].
    pub fn open(options: &Options, reasons: &mut Vec<String>) -> Result<Option<Gripped>, Error> {
        options.check()?;
        for &tier in &options.tiers {
            if tier == Tier::None {
                return Ok(None);
            }
            match attempt(options, tier, reasons, |gripped, _| Ok(gripped)) {
                Ok(gripped) => return Ok(Some(gripped)),
                Err(error) => reasons.push(format!("{}: {error}{}", tier.name(), hint(tier, &error))),
            }
        }
        Err(Error::NoTier { reasons: std::mem::take(reasons) })
    }
}

impl Tier {
    /// The name in configuration, metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Tier::StructOps => "struct_ops",
            Tier::StructOpsNoLink => "struct_ops_nolink",
            Tier::SetSockOpt => "setsockopt",
            Tier::None => "none",
        }
    }
}

/// Names the capability where the kernel's answer was a refusal of permission.
fn hint(tier: Tier, error: &Error) -> &'static str {
    match (error.denied(), tier) {
        (false, _) => "",
        (true, Tier::SetSockOpt) => " (needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)",
        (true, _) => {
            " (needs CAP_BPF and CAP_PERFMON for the congestion control, CAP_NET_ADMIN for the cgroup program)"
        }
    }
}

fn attempt<R>(
    options: &Options,
    tier: Tier,
    reasons: &mut Vec<String>,
    finish: impl FnOnce(Gripped, &mut Vec<String>) -> Result<R, Error>,
) -> Result<R, Error> {
    let pins = match Pins::open(options) {
        Ok(pins) => Some(pins),
        // Only a link keeps the congestion control without pins; the other tiers' dead man lives in a pinned program.
        Err(error @ Error::File { .. }) if tier == Tier::StructOps => {
            reasons.push(format!("nothing is kept over a restart: {error}"));
            None
        }
        Err(error) => return Err(error),
    };
    let fresh = pins.as_ref().is_some_and(|p| p.names().is_empty());
    let result = open_tier(options, tier, pins.as_ref(), reasons).and_then(|gripped| finish(gripped, reasons));
    if let (Err(_), Some(pins), true) = (&result, &pins, fresh) {
        // A tier that failed leaves no trace; what an earlier process has pinned stays for the next attempt.
        cleanup::remove_fresh(pins);
    }
    result
}

fn open_tier(options: &Options, tier: Tier, pins: Option<&Pins>, reasons: &mut Vec<String>) -> Result<Gripped, Error> {
    if let Some(pins) = pins {
        discard_other_sizes(pins, options.max_flows)?;
    }
    for feature in [Feature::Btf, Feature::RingBuf, Feature::Iter] {
        options.has(feature)?;
    }
    let types = loader::types()?;
    let mut loaded = Loaded::new(&types, pins, options.max_flows)?;
    options.has(Feature::Mmap)?;
    let cfg: Mapping<Cfg> = Mapping::new(loaded.map("sluice_cfg")?.fd(), 1)
        .map_err(|e| Error::bpf("map the configuration into memory", &e))?;
    let old = cfg.get();
    if old.ready != 1 || old.abi != ABI {
        fill_free_rows(&mut loaded, options.max_flows)?;
    }
    let setsockopt_tier = tier == Tier::SetSockOpt;
    let same_programs =
        old.ready == 1 && old.digest == loader::digest() && (old.flags & abi::CFG_SETSOCKOPT != 0) == setsockopt_tier;
    let mut held = Held::default();
    let name = if setsockopt_tier {
        String::new()
    } else {
        register(options, tier, pins, (&loaded, &types), same_programs.then(|| text16(&old.cc_name)), &mut held)?
    };
    let release_to = hold_chain(options, &mut held, reasons);
    if let Some(pins) = pins {
        // Whoever cleans up after this process, of whatever version, gives its sockets back by this.
        pins.remove(DRAIN)?;
        loaded.pin(Pass::Drain, &pins.path(DRAIN))?;
        if !setsockopt_tier {
            detach(pins, &[], reasons);
        }
    }
    cfg.set(configuration(options, tier, &name, &release_to));
    if setsockopt_tier {
        let wanted = attach(options, pins, same_programs, &mut loaded, &mut held)?;
        pins.into_iter().for_each(|pins| detach(pins, &wanted, reasons));
    }
    // Sockets of an earlier program move over before its name goes.
    let adopted = loaded.pass(Pass::TakeOver)?.iter().filter(|seen| seen.result == 0).count();
    if let Some(pins) = pins {
        drop_other_registrations(pins, &name);
    }
    Ok(Gripped { grip: Grip::new(loaded, cfg, options, held)?, tier, name, adopted })
}

/// Pins of tables with another number of rows are of no use.
fn discard_other_sizes(pins: &Pins, max_flows: u32) -> Result<(), Error> {
    let path = pins.path("sluice_ctl");
    if !path.exists() {
        return Ok(());
    }
    let info =
        MapData::from_pin(&path).and_then(|map| map.info()).map_err(|e| Error::bpf("open the pinned orders", &e))?;
    if info.max_entries() != max_flows || info.value_size() as usize != size_of::<abi::Ctl>() {
        let ended = cleanup::end(pins);
        if !attachments(pins).is_empty() {
            // New programs would know nothing of the ceilings that the old ones have set.
            return Err(Error::PinsStay { path: pins.path(""), left: ended.left });
        }
        std::fs::create_dir_all(pins.path("")).map_err(|e| Error::file("make the directory", pins.path(""), e))?;
    }
    Ok(())
}

fn fill_free_rows(loaded: &mut Loaded, rows: u32) -> Result<(), Error> {
    let what = "fill the queue of free rows";
    let mut free: Queue<_, u32> = loaded.map_mut("sluice_free")?.try_into().map_err(|e| Error::bpf(what, &e))?;
    while free.pop(0).is_ok() {}
    for index in 0..rows {
        free.push(index, 0).map_err(|e| Error::bpf(what, &e))?;
    }
    Ok(())
}

/// Keeps the registration that an earlier process pinned, or makes one under a name that is free.
fn register(
    options: &Options,
    tier: Tier,
    pins: Option<&Pins>,
    (loaded, types): (&Loaded, &Btf),
    earlier: Option<String>,
    held: &mut Held,
) -> Result<String, Error> {
    let with_link = tier == Tier::StructOps;
    options.has(Feature::StructOps)?;
    if with_link {
        options.has(Feature::Link)?;
    }
    if let (Some(pins), Some(name)) = (pins, earlier) {
        let pin = if with_link { format!("cc-{name}") } else { format!("ccmap-{name}") };
        let other = pins.path(&format!("cc-{name}")).exists() && !with_link;
        if !other && let Ok(fd) = struct_ops::object_get(&pins.path(&pin)) {
            held.registration.push(fd);
            return Ok(name);
        }
    }
    if !with_link && pins.is_none() {
        let error = io::Error::other("a registration without a link can only be undone through its pin");
        return Err(Error::file("use for pins", &options.pin_root, error));
    }
    let mut last = None;
    for name in options.names() {
        if pins.is_some_and(|p| p.path(&format!("ccmap-{name}")).exists()) {
            continue;
        }
        match loaded.register(types, &name, with_link) {
            Ok(made) => {
                if let Some(pins) = pins {
                    struct_ops::object_pin(&made.map, &pins.path(&format!("ccmap-{name}")))?;
                    if let Some(link) = &made.link {
                        struct_ops::object_pin(link, &pins.path(&format!("cc-{name}")))?;
                    }
                }
                held.registration.extend(made.link);
                held.registration.push(made.map);
                return Ok(name);
            }
            Err(Error::StructOps(struct_ops::Error::Kernel(error)))
                if error.error.raw_os_error() == Some(libc::EEXIST) =>
            {
                last = Some(Error::Syscall(error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::Btf(format!("both names {:?} are taken by pins", options.names()))))
}

fn drop_other_registrations(pins: &Pins, name: &str) {
    for pin in pins.names() {
        let Some(of) = pin.strip_prefix("ccmap-").or_else(|| pin.strip_prefix("cc-")) else { continue };
        if of != name {
            cleanup::remove_registration(pins, &pin);
        }
    }
}

/// Proves that each congestion control of the hand-over chain can be chosen and keeps a socket under it. Returns the
/// configured one if it can.
fn hold_chain(options: &Options, held: &mut Held, reasons: &mut Vec<String>) -> String {
    let mut usable = String::new();
    let choices = [options.release_to.clone(), Some(system_default())];
    for (number, name) in choices.into_iter().enumerate() {
        let Some(name) = name.filter(|n| !n.is_empty() && !n.starts_with("sluice")) else { continue };
        match probe(&name) {
            Ok(socket) => {
                held.chain.push(socket);
                if number == 0 {
                    usable = name;
                }
            }
            Err(error) => reasons.push(format!(
                "released sockets cannot get {name}: {error}; they get their earlier control or reno instead"
            )),
        }
    }
    usable
}

fn probe(name: &str) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, TcpCongestion, &name.into())?;
    Ok(socket)
}

fn system_default() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default().trim().to_owned()
}

fn configuration(options: &Options, tier: Tier, name: &str, release_to: &str) -> Cfg {
    let mut flags = 0;
    let other = options.names().into_iter().find(|n| n != name).unwrap_or_default();
    // A ceiling reacts once per round trip only: slow flows would be held for too long by a late order.
    let floor = if tier == Tier::SetSockOpt { Rate(options.floor.0.saturating_mul(10)) } else { options.floor };
    let floor = floor.min(options.ceiling);
    if tier == Tier::SetSockOpt {
        flags |= abi::CFG_SETSOCKOPT;
    }
    Cfg {
        floor: floor.bytes_per_second().max(1),
        ceiling: options.ceiling.bytes_per_second().max(1),
        max_expiry: options.longest_order.0,
        idle_ns: options.idle.0,
        loss_window: LOSS_WINDOW.0,
        loss_retrip: LOSS_RETRIP.0,
        loss_ban: LOSS_BAN.0,
        loss_permille: (options.loss_guard * 1000.0) as u32,
        flags,
        digest: loader::digest(),
        cc_name: name16(name).unwrap_or_default(),
        release_to: name16(release_to).unwrap_or_default(),
        system_default: name16(&system_default()).unwrap_or_default(),
        ready: 1,
        abi: ABI,
        other_name: name16(&other).unwrap_or_default(),
        reserved: 0,
    }
}

/// Attaches to each cgroup exactly once: keeps a pinned attachment of the same program, replaces one of another. Returns the
/// names of their pins.
fn attach(
    options: &Options,
    pins: Option<&Pins>,
    same_programs: bool,
    loaded: &mut Loaded,
    held: &mut Held,
) -> Result<Vec<String>, Error> {
    let mut wanted = Vec::new();
    for path in &options.cgroups {
        let dir = File::open(path).map_err(|e| Error::file("open the cgroup", path, e))?;
        let inode = dir.metadata().map_err(|e| Error::file("look at the cgroup", path, e))?.ino();
        let pin = format!("cg-{inode}");
        wanted.push(pin.clone());
        let Some(pins) = pins else {
            held.cgroups.push(loaded.attach(&dir)?);
            continue;
        };
        let there = PinnedLink::from_pin(pins.path(&pin)).ok();
        if same_programs && let Some(link) = there {
            held.cgroups.push(FdLink::from(link));
            continue;
        }
        let link = loaded.attach(&dir)?;
        pins.remove(&pin)?;
        let link = link.pin(pins.path(&pin)).map_err(|e| Error::bpf("pin an attachment", &e))?;
        held.cgroups.push(FdLink::from(link));
    }
    Ok(wanted)
}

/// Ends the attachments to all other cgroups. Where a socket there may still be paced they stay, or nobody would lift its
/// ceiling.
fn detach(pins: &Pins, wanted: &[String], reasons: &mut Vec<String>) {
    let others: Vec<String> = attachments(pins).into_iter().filter(|name| !wanted.contains(name)).collect();
    if let Err(error) = cleanup::detach_all(pins, &others) {
        reasons.push(format!("the attachments {} stay: {error}", others.join(", ")));
    }
}

/// The names of the pinned attachments to cgroups.
fn attachments(pins: &Pins) -> Vec<String> {
    pins.names().into_iter().filter(|name| name.starts_with("cg-")).collect()
}
