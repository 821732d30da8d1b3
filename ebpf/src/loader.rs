//! Brings the programs into the kernel: maps (new or pinned), the cgroup program, the iterators, the congestion control.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use aya::maps::{Map, MapData};
use aya::programs::links::FdLink;
use aya::programs::{CgroupAttachMode, Iter, SockOps};
use aya::{Btf, Ebpf, EbpfLoader};
use aya_obj::Object;
use sluice_struct_ops as struct_ops;

use crate::abi::{VisitedSocket, records};
use crate::options::Error;
use crate::pins::Pins;

static CC_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sluice_cc.bpf.o"));
static ATTACH_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sluice_attach.bpf.o"));

/// Every map, by the name the programs use; the pins have the same names.
pub(crate) const MAPS: [&str; 8] = [
    "sluice_ctl",
    "sluice_stat",
    "sluice_cfg",
    "sluice_counters",
    "sluice_free",
    "sluice_events",
    "sluice_wanted",
    "sluice_socks",
];

/// A longer answer of an iterator than this many sockets is cut.
const MAX_VISITED: u64 = 1 << 20;
/// Only administrators may choose the congestion control by name, and our programs, which need no leave.
const RESTRICTED: u32 = 0;

/// Which pass over all TCP sockets of this network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Capture the sockets that are asked for.
    Capture,
    /// Take over those of an earlier program of this instance.
    TakeOver,
    /// Give every socket back.
    Drain,
    /// Give back those whose order has expired.
    Sweep,
}

impl Pass {
    fn program(self) -> &'static str {
        match self {
            Pass::Capture => "sluice_capture",
            Pass::TakeOver => "sluice_take_over",
            Pass::Drain => "sluice_drain",
            Pass::Sweep => "sluice_sweep",
        }
    }
}

/// Maps and attaching programs, loaded.
pub(crate) struct Loaded {
    ebpf: Ebpf,
    btf: Btf,
}

/// Changes with every change of the programs.
pub(crate) fn digest() -> u64 {
    let objects = [CC_OBJECT, ATTACH_OBJECT].concat();
    sluice_schedule::units::fnv1a64(&objects)
}

impl Loaded {
    /// Creates the maps, or opens those that are pinned, and loads the attaching programs.
    pub(crate) fn new(pins: Option<&Pins>, max_flows: u32) -> Result<Loaded, Error> {
        let btf = Btf::from_sys_fs().map_err(|e| Error::Btf(e.to_string()))?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf));
        for name in MAPS {
            if let Some(pins) = pins {
                loader.map_pin_path(name, pins.path(name));
            }
        }
        for name in ["sluice_ctl", "sluice_stat", "sluice_free"] {
            loader.map_max_entries(name, max_flows);
        }
        let ebpf = loader.load(ATTACH_OBJECT).map_err(|e| Error::bpf("make the maps", &e))?;
        drop(loader);
        let mut loaded = Loaded { ebpf, btf };
        let pace: &mut SockOps = program(&mut loaded.ebpf, "sluice_pace")?;
        pace.load().map_err(|e| Error::bpf("load the cgroup program", &e))?;
        for pass in [Pass::Capture, Pass::TakeOver, Pass::Drain, Pass::Sweep] {
            let iter: &mut Iter = program(&mut loaded.ebpf, pass.program())?;
            iter.load("tcp", &loaded.btf).map_err(|e| Error::bpf("load a TCP iterator", &e))?;
        }
        Ok(loaded)
    }

    pub(crate) fn map(&self, name: &'static str) -> Result<&MapData, Error> {
        let map = self.ebpf.map(name).ok_or_else(|| no_map(name))?;
        Ok(match map {
            Map::Array(data) | Map::HashMap(data) | Map::Queue(data) => data,
            Map::RingBuf(data) | Map::SkStorage(data) => data,
            _ => return Err(no_map(name)),
        })
    }

    /// A map with the access that its kind gives.
    pub(crate) fn map_mut(&mut self, name: &'static str) -> Result<&mut Map, Error> {
        self.ebpf.map_mut(name).ok_or_else(|| no_map(name))
    }

    /// Takes a map out for good.
    pub(crate) fn take_map(&mut self, name: &'static str) -> Result<Map, Error> {
        self.ebpf.take_map(name).ok_or_else(|| no_map(name))
    }

    /// Attaches the cgroup program; it stays as long as the link or its pin does.
    pub(crate) fn attach(&mut self, cgroup: &File) -> Result<FdLink, Error> {
        let what = "attach to the cgroup";
        let pace: &mut SockOps = program(&mut self.ebpf, "sluice_pace")?;
        // A link is always one of several; the kernel refuses the flag that says so.
        let id = pace.attach(cgroup, CgroupAttachMode::Single).map_err(|e| Error::bpf(what, &e))?;
        let link = pace.take_link(id).map_err(|e| Error::bpf(what, &e))?;
        FdLink::try_from(link).map_err(|e| Error::bpf(what, &e))
    }

    /// Walks all TCP sockets of the caller's network namespace.
    pub(crate) fn pass(&mut self, pass: Pass) -> Result<Vec<VisitedSocket>, Error> {
        let what = "run a TCP iterator";
        let iter: &mut Iter = program(&mut self.ebpf, pass.program())?;
        let id = iter.attach().map_err(|e| Error::bpf(what, &e))?;
        let link = iter.take_link(id).map_err(|e| Error::bpf(what, &e))?;
        let file = link.into_file().map_err(|e| Error::bpf(what, &e))?;
        let mut bytes = Vec::new();
        let limit = MAX_VISITED * size_of::<VisitedSocket>() as u64;
        file.take(limit).read_to_end(&mut bytes).map_err(|e| Error::bpf(what, &e))?;
        Ok(records(&bytes))
    }

    /// Registers the congestion control under `name`, by a link if `with_link`.
    pub(crate) fn register(&self, name: &str, with_link: bool) -> Result<struct_ops::Registration, Error> {
        let vmlinux = Path::new("/sys/kernel/btf/vmlinux");
        let raw = std::fs::read(vmlinux).map_err(|e| Error::file("read", vmlinux, e))?;
        let kernel = struct_ops::Btf::parse(raw).map_err(|e| Error::Btf(e.to_string()))?;
        let object = self.relocated()?;
        let parameters = kernel
            .structure("tcp_congestion_ops")
            .and_then(|ops| kernel.parameters(ops.member("cong_control")?.1.type_id))
            .ok_or_else(|| {
                Error::Btf("tcp_congestion_ops.cong_control is missing: struct_ops needs Linux 5.6".into())
            })?;
        let control = control_program(parameters).ok_or_else(|| {
            Error::Btf(format!("cong_control has {parameters} parameters, 2 or 4 are known: a newer Sluice is needed"))
        })?;
        let members = ["init", "release", "cwnd_event", "set_state", "ssthresh", "undo_cwnd"];
        let chosen = members.into_iter().map(|m| (m, m)).chain([("cong_control", control)]);
        let members = chosen
            .map(|(member, program)| {
                let found = object.programs.get(program).and_then(|p| object.functions.get(&p.function_key()));
                let found = found.ok_or_else(|| Error::Btf(format!("the object has no program {program}")))?;
                Ok(struct_ops::Program { name: member, instructions: &found.instructions })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let request = struct_ops::Request { structure: "tcp_congestion_ops", name, flags: RESTRICTED, members };
        Ok(struct_ops::prepare(&kernel, &request, with_link)?)
    }

    fn relocated(&self) -> Result<Object, Error> {
        let what = "relocate the congestion control";
        let mut object = Object::parse(CC_OBJECT).map_err(|e| Error::bpf(what, &e))?;
        object.relocate_btf(&self.btf).map_err(|e| Error::bpf(what, &e))?;
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let maps = std::mem::take(&mut object.maps);
        let mut wanted = Vec::new();
        for name in MAPS {
            let map = maps.get(name).ok_or_else(|| no_map(name))?;
            wanted.push((name, self.map(name)?.fd().as_fd().as_raw_fd(), map));
        }
        object.relocate_maps(wanted.into_iter(), &text).map_err(|e| Error::bpf(what, &e))?;
        object.relocate_calls(&text).map_err(|e| Error::bpf(what, &e))?;
        Ok(object)
    }
}

/// The program for a kernel whose `cong_control` has so many parameters (4 from Linux 6.10 on, 2 before).
fn control_program(parameters: usize) -> Option<&'static str> {
    match parameters {
        4 => Some("cong_control"),
        2 => Some("cong_control_old"),
        _ => None,
    }
}

fn no_map(name: &str) -> Error {
    Error::Btf(format!("the object has no map {name}: ebpf/prebuilt does not fit this source"))
}

fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = aya::programs::ProgramError>,
{
    let found = ebpf.program_mut(name).ok_or_else(|| Error::Btf(format!("the object has no program {name}")))?;
    found.try_into().map_err(|e: aya::programs::ProgramError| Error::bpf(name, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_signatures_have_their_program() {
        let object = Object::parse(CC_OBJECT).unwrap();
        for parameters in [2, 4] {
            let name = control_program(parameters).unwrap();
            assert!(object.programs.contains_key(name));
        }
        assert!(control_program(3).is_none());
    }

    /// Atomic operations that return a value, which are what orders loads and stores in the BPF memory model.
    #[test]
    fn every_barrier_of_the_source_is_one_in_the_object() {
        const ATOMIC_32: u8 = 0xc3;
        const ATOMIC_64: u8 = 0xdb;
        const FETCH: i32 = 1;
        let object = Object::parse(CC_OBJECT).unwrap();
        // Two around the order that is read, two around the row that is written.
        for name in ["cong_control", "cong_control_old", "cwnd_event"] {
            let program = object.programs.get(name).unwrap();
            let instructions = &object.functions[&program.function_key()].instructions;
            let fences = instructions.iter().filter(|i| [ATOMIC_32, ATOMIC_64].contains(&i.code) && i.imm & FETCH != 0);
            assert!(fences.count() >= 4, "{name}");
        }
    }

    #[test]
    fn both_objects_declare_all_maps() {
        for data in [CC_OBJECT, ATTACH_OBJECT] {
            let object = Object::parse(data).unwrap();
            for name in MAPS {
                assert!(object.maps.contains_key(name), "{name}");
            }
            assert_eq!(object.maps.len(), MAPS.len(), "a constant pool has become a map: {:?}", object.maps.keys());
        }
    }
}
