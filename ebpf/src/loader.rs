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
use aya_obj::btf::BtfKind;
use aya_obj::generated::bpf_insn;
use sluice_struct_ops as struct_ops;
use sluice_struct_ops::verify::{Costs, Kind, costs};

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

/// The kernel's struct of a congestion control, the members that we give it, and the one that has two signatures.
const CONTROL: &str = "tcp_congestion_ops";
const MEMBERS: [&str; 6] = ["init", "release", "cwnd_event", "set_state", "ssthresh", "undo_cwnd"];
const CONG_CONTROL: &str = "cong_control";

/// A longer answer of an iterator, in bytes, is cut: a million sockets.
pub(crate) const MAX_ANSWER: u64 = (1 << 20) * size_of::<VisitedSocket>() as u64;
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
}

/// The kernel's type information, as programs are fitted to it. In memory it takes some 25 MiB, so whoever loads programs has it
/// no longer than that takes.
pub(crate) fn types() -> Result<Btf, Error> {
    Btf::from_sys_fs().map_err(|e| Error::Btf(e.to_string()))
}

/// Changes with every change of the programs.
pub(crate) fn digest() -> u64 {
    let objects = [CC_OBJECT, ATTACH_OBJECT].concat();
    sluice_schedule::units::fnv1a64(&objects)
}

impl Loaded {
    /// Creates the maps, or opens those that are pinned, and loads the attaching programs for a kernel with these types.
    pub(crate) fn new(types: &Btf, pins: Option<&Pins>, max_flows: u32) -> Result<Loaded, Error> {
        let mut loader = EbpfLoader::new();
        loader.btf(Some(types));
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
        let mut loaded = Loaded { ebpf };
        if let Some(pins) = pins {
            loaded.check(pins)?;
        }
        let pace: &mut SockOps = program(&mut loaded.ebpf, "sluice_pace")?;
        pace.load().map_err(|e| Error::bpf("load the cgroup program", &e))?;
        for pass in [Pass::Capture, Pass::TakeOver, Pass::Drain, Pass::Sweep] {
            let iter: &mut Iter = program(&mut loaded.ebpf, pass.program())?;
            iter.load("tcp", types).map_err(|e| Error::bpf("load a TCP iterator", &e))?;
        }
        Ok(loaded)
    }

    /// What is pinned under a map's name must be that map: through another layout everything would be misread.
    fn check(&self, pins: &Pins) -> Result<(), Error> {
        let object = Object::parse(ATTACH_OBJECT).map_err(|e| Error::bpf("read the maps of the programs", &e))?;
        for name in MAPS {
            let wanted = object.maps.get(name).ok_or_else(|| no_map(name))?;
            let found = self.map(name)?.info().map_err(|e| Error::bpf("look at a map", &e))?;
            let kind = found.map_type().map_or(u32::MAX, |kind| kind as u32);
            let seen = [kind, found.key_size(), found.value_size(), found.map_flags()];
            let meant = [wanted.map_type(), wanted.key_size(), wanted.value_size(), wanted.map_flags()];
            if seen != meant {
                return Err(Error::ForeignMap { path: pins.path(name), seen, meant });
            }
        }
        Ok(())
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

    /// Pins a pass: whoever reads the file makes it, in the network namespace that the reader is in.
    pub(crate) fn pin(&mut self, pass: Pass, path: &Path) -> Result<(), Error> {
        let what = "pin a TCP iterator";
        let iter: &mut Iter = program(&mut self.ebpf, pass.program())?;
        let id = iter.attach().map_err(|e| Error::bpf(what, &e))?;
        let link = iter.take_link(id).map_err(|e| Error::bpf(what, &e))?;
        let link = FdLink::try_from(link).map_err(|e| Error::bpf(what, &e))?;
        link.pin(path).map_err(|e| Error::bpf(what, &e))?;
        Ok(())
    }

    /// Walks all TCP sockets of the caller's network namespace.
    pub(crate) fn pass(&mut self, pass: Pass) -> Result<Vec<VisitedSocket>, Error> {
        let what = "run a TCP iterator";
        let iter: &mut Iter = program(&mut self.ebpf, pass.program())?;
        let id = iter.attach().map_err(|e| Error::bpf(what, &e))?;
        let link = iter.take_link(id).map_err(|e| Error::bpf(what, &e))?;
        let file = link.into_file().map_err(|e| Error::bpf(what, &e))?;
        let mut bytes = Vec::new();
        file.take(MAX_ANSWER).read_to_end(&mut bytes).map_err(|e| Error::bpf(what, &e))?;
        Ok(records(&bytes))
    }

    /// Registers the congestion control under `name`, by a link if `with_link`.
    pub(crate) fn register(&self, types: &Btf, name: &str, with_link: bool) -> Result<struct_ops::Registration, Error> {
        let kernel = vmlinux()?;
        let object = self.relocated(types, CC_OBJECT)?;
        let members = members(&kernel, &object)?;
        let request = struct_ops::Request { structure: CONTROL, name, flags: RESTRICTED, members };
        Ok(struct_ops::prepare(&kernel, &request, with_link)?)
    }

    /// What the kernel's verifier had to do for each program of both objects that this kernel takes.
    pub(crate) fn costs(&self, types: &Btf) -> Result<Vec<(String, Costs)>, Error> {
        let kernel = vmlinux()?;
        let missing = || Error::Btf(format!("{CONTROL} is missing: struct_ops needs Linux 5.6"));
        let structure = kernel.structure(CONTROL).ok_or_else(missing)?;
        let control = self.relocated(types, CC_OBJECT)?;
        let mut found = Vec::new();
        for program in members(&kernel, &control)? {
            let (member, _) = structure.member(program.name).ok_or_else(missing)?;
            let kind = Kind::StructOps { structure: structure.id, member: member as u32 };
            let name = if program.name == CONG_CONTROL { chosen_control(&kernel)? } else { program.name };
            found.push((name.to_owned(), costs(name, program.instructions, kind)?));
        }
        let attaching = self.relocated(types, ATTACH_OBJECT)?;
        let walk = types.id_by_type_name_kind("bpf_iter_tcp", BtfKind::Func);
        let function = walk.map_err(|e| Error::Btf(format!("bpf_iter_tcp is missing: {e}")))?;
        let passes = [Pass::Capture, Pass::TakeOver, Pass::Drain, Pass::Sweep];
        let iterators = passes.map(|pass| (pass.program(), Kind::Iter { function }));
        for (name, kind) in [("sluice_pace", Kind::SockOps)].into_iter().chain(iterators) {
            found.push((name.to_owned(), costs(name, instructions(&attaching, name)?, kind)?));
        }
        Ok(found)
    }

    fn relocated(&self, types: &Btf, data: &[u8]) -> Result<Object, Error> {
        let what = "relocate the programs";
        let mut object = Object::parse(data).map_err(|e| Error::bpf(what, &e))?;
        object.relocate_btf(types).map_err(|e| Error::bpf(what, &e))?;
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

/// The kernel's own type information, for the struct of functions.
fn vmlinux() -> Result<struct_ops::Btf, Error> {
    let vmlinux = Path::new("/sys/kernel/btf/vmlinux");
    let raw = std::fs::read(vmlinux).map_err(|e| Error::file("read", vmlinux, e))?;
    struct_ops::Btf::parse(raw).map_err(|e| Error::Btf(e.to_string()))
}

/// The programs that this kernel's struct is filled with.
fn members<'a>(kernel: &struct_ops::Btf, object: &'a Object) -> Result<Vec<struct_ops::Program<'a>>, Error> {
    let control = chosen_control(kernel)?;
    let chosen = MEMBERS.into_iter().map(|member| (member, member)).chain([(CONG_CONTROL, control)]);
    let member =
        |(member, program)| Ok(struct_ops::Program { name: member, instructions: instructions(object, program)? });
    chosen.map(member).collect()
}

fn instructions<'a>(object: &'a Object, program: &str) -> Result<&'a [bpf_insn], Error> {
    let found = object.programs.get(program).and_then(|p| object.functions.get(&p.function_key()));
    let found = found.ok_or_else(|| Error::Btf(format!("the object has no program {program}")))?;
    Ok(&found.instructions)
}

/// The program for the signature that this kernel's `cong_control` has.
fn chosen_control(kernel: &struct_ops::Btf) -> Result<&'static str, Error> {
    let parameters =
        kernel.structure(CONTROL).and_then(|ops| kernel.parameters(ops.member(CONG_CONTROL)?.1.type_id)).ok_or_else(
            || Error::Btf("tcp_congestion_ops.cong_control is missing: struct_ops needs Linux 5.6".into()),
        )?;
    control_program(parameters).ok_or_else(|| {
        Error::Btf(format!("cong_control has {parameters} parameters, 2 or 4 are known: a newer Sluice is needed"))
    })
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

    /// Type information of a kernel whose `cong_control` has so many parameters.
    fn kernel_with(parameters: u32) -> struct_ops::Btf {
        const STRUCT: u32 = 4 << 24;
        const POINTER: u32 = 2 << 24;
        const FUNCTION: u32 = 13 << 24;
        let strings = format!("\0{CONTROL}\0{CONG_CONTROL}\0");
        let (structure, member) = (1, 2 + CONTROL.len() as u32);
        // 1: the function; each parameter is of no type. 2: a pointer to it. 3: the struct.
        let mut words = vec![0, FUNCTION | parameters, 0];
        words.extend(std::iter::repeat_n(0, 2 * parameters as usize));
        words.extend([0, POINTER, 1, structure, STRUCT | 1, 8, member, 2, 0]);
        let types = words.len() as u32 * 4;
        let header = [24, 0, types, types, strings.len() as u32];
        let mut blob = 0xeb9f_u16.to_ne_bytes().to_vec();
        blob.extend([1, 0]);
        blob.extend(header.into_iter().chain(words).flat_map(u32::to_ne_bytes));
        blob.extend(strings.bytes());
        struct_ops::Btf::parse(blob).unwrap()
    }

    #[test]
    fn a_kernel_gets_the_program_of_its_signature_and_an_unknown_one_none() {
        let object = Object::parse(CC_OBJECT).unwrap();
        for (parameters, program) in [(2, "cong_control_old"), (4, "cong_control")] {
            let kernel = kernel_with(parameters);
            assert_eq!(chosen_control(&kernel).unwrap(), program);
            let chosen = members(&kernel, &object).unwrap();
            let names: Vec<&str> = chosen.iter().map(|member| member.name).collect();
            assert_eq!(names, [&MEMBERS[..], &[CONG_CONTROL][..]].concat());
            // Under the member's name stands the program of that signature, which reads the sample from its own place.
            assert_eq!(chosen.last().unwrap().instructions.len(), instructions(&object, program).unwrap().len());
        }
        for parameters in [0, 1, 3, 5] {
            let refused = chosen_control(&kernel_with(parameters)).unwrap_err().to_string();
            assert!(refused.contains(&format!("{parameters} parameters")), "{refused}");
        }
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

    /// The types of this kernel with another name in the place of one of the same length.
    fn kernel_without(names: &[&str]) -> Btf {
        let mut raw = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
        for name in names {
            let bytes = format!("\0{name}\0");
            let at = raw.windows(bytes.len()).position(|window| window == bytes.as_bytes()).expect(name);
            raw[at + 1] = b'x';
        }
        Btf::parse(&raw, aya::Endianness::default()).unwrap()
    }

    #[test]
    fn a_kernel_without_ipv6_or_mptcp_takes_every_program() {
        if !nix::unistd::geteuid().is_root() {
            return sluice_skip::skip!(Privilege, "needs root to load programs");
        }
        // What CONFIG_IPV6=n and CONFIG_MPTCP=n leave out of its structs.
        let btf = kernel_without(&["skc_v6_daddr", "skc_v6_rcv_saddr", "is_mptcp"]);
        let costs = Loaded::new(&btf, None, 64).and_then(|loaded| loaded.costs(&btf));
        assert!(costs.expect("every program is taken").len() >= 12);
    }
}
