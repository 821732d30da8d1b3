//! The kernel's part of forwarding: a program at each port that forwards plain packets by the pipeline's routes
//! (`bpf/sluice_forward.bpf.c`, checked in as the object that clang makes of it).
//!
//! What it leaves alone comes to the packet sockets as if it were not there. Routes are taken over as a whole or not at
//! all: a generation of them is complete in the maps before its number is put in force, and the last one is taken out a
//! slot later, when no packet is on its way by it any more. The program is detached when this is dropped, and by the
//! kernel when the process dies.

use std::error::Error;
use std::mem;

use aya::maps::lpm_trie::Key as Prefix;
use aya::maps::{Array, HashMap, LpmTrie, Map, MapData, MapError, PerCpuArray};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfError, EbpfLoader};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;

use crate::entries::{Entries, Hop, Key, Route, key};

#[cfg(test)]
mod tests;

static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/sluice_forward.bpf.o");
pub(crate) const PROGRAM: &str = "sluice_forward";
/// Prefixes of a generation at most, and buckets.
const MOST: u32 = 1 << 16;
/// The number of no generation: nothing is forwarded.
const NONE: u32 = 0;
/// Lines of an error at most: the verifier tells all that it has seen, and in the end what it did not like.
const LINES: usize = 20;

/// Why the kernel does not forward.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The object does not fit this source.
    #[error("the object has no {0}")]
    Object(&'static str),
    /// An interface is gone.
    #[error("interface {name}: {error}")]
    Interface {
        /// Its name.
        name: String,
        /// What the kernel says.
        error: Errno,
    },
    /// The object was refused.
    #[error("making the maps: {}", told(.0))]
    Load(#[from] EbpfError),
    /// The program was refused, or cannot be attached.
    #[error("loading or attaching the program: {}", told(.0))]
    Program(#[from] ProgramError),
    /// A map was refused, or an entry of it.
    #[error("writing the maps: {}", told(.0))]
    Map(#[from] MapError),
    /// The maps have no room for that many entries.
    #[error("{count} {what}; allowed are 0 to {most}")]
    TooMany {
        /// Of which kind.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: u32,
    },
}

/// What the kernel forwarded by a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the frames, those for which the port's queue dropped one.
    pub refused: u64,
}

/// The keys of entries that were written, so that they can be taken out.
#[derive(Default)]
struct Written {
    routes: Vec<Prefix<Key>>,
    members: Vec<Key>,
}

/// The program and its maps.
pub struct Kernel {
    /// Holds the program and where it is attached; `None` once it had to be taken away.
    pub(crate) ebpf: Option<Ebpf>,
    /// The generation that is in force, and the port of Sluice packets.
    plane: Array<MapData, [u32; 2]>,
    routes: LpmTrie<MapData, Key, Route>,
    members: HashMap<MapData, Key, Hop>,
    counts: PerCpuArray<MapData, [u64; 3]>,
    udp_port: u16,
    /// Entries of either kind in a generation at most.
    most: u32,
    /// The number that was drawn last.
    drawn: u32,
    in_force: u32,
    present: Written,
    /// What is in the maps and not in force.
    stale: Written,
}

impl Kernel {
    /// Loads the program and attaches it to these interfaces, which are ports 0, 1, …; it forwards nothing yet.
    ///
    /// # Errors
    /// [`KernelError`]; then nothing is attached.
    pub fn open(udp_port: u16, interfaces: &[String]) -> Result<Kernel, KernelError> {
        let index = |name: &String| {
            if_nametoindex(name.as_str()).map_err(|error| KernelError::Interface { name: name.clone(), error })
        };
        let indices = interfaces.iter().map(index).collect::<Result<Vec<u32>, _>>()?;
        let mut kernel = Kernel::load(udp_port, &indices, MOST)?;
        kernel.attach(interfaces)?;
        Ok(kernel)
    }

    /// Loads the program for ports that are these interfaces.
    pub(crate) fn load(udp_port: u16, ports: &[u32], most: u32) -> Result<Kernel, KernelError> {
        let mut loader = EbpfLoader::new();
        // Two generations are there at once.
        loader.map_max_entries("sluice_routes", 2 * most).map_max_entries("sluice_members", 2 * most);
        let mut ebpf = loader.load(OBJECT)?;
        // It holds its maps from here on, those too that nobody writes any more.
        program(&mut ebpf)?.load()?;
        let mut interfaces: Array<MapData, u32> = map(&mut ebpf, "sluice_ports")?;
        for (port, index) in ports.iter().enumerate() {
            interfaces.set(port as u32, *index, 0)?;
        }
        let mut kernel = Kernel {
            plane: map(&mut ebpf, "sluice_plane")?,
            routes: map(&mut ebpf, "sluice_routes")?,
            members: map(&mut ebpf, "sluice_members")?,
            counts: map(&mut ebpf, "sluice_counts")?,
            ebpf: Some(ebpf),
            udp_port,
            most,
            drawn: NONE,
            in_force: NONE,
            present: Written::default(),
            stale: Written::default(),
        };
        kernel.put_in_force(NONE)?;
        // Counters that cannot be read would be counters that stand still.
        kernel.counts.get(&0, 0)?;
        Ok(kernel)
    }

    /// Behind whatever looks at the packets of these interfaces already.
    fn attach(&mut self, interfaces: &[String]) -> Result<(), KernelError> {
        let program = program(self.ebpf.as_mut().ok_or(KernelError::Object(PROGRAM))?)?;
        for name in interfaces {
            let order = TcAttachOptions::TcxOrder(LinkOrder::default());
            program.attach_with_options(name, TcAttachType::Ingress, order)?;
        }
        Ok(())
    }

    /// Forwards by these entries from here on; if that fails, by none.
    ///
    /// # Errors
    /// [`KernelError`]; then nothing is forwarded.
    pub fn take_over(&mut self, entries: &Entries) -> Result<(), KernelError> {
        self.sweep();
        self.drawn = self.drawn.wrapping_add(1).max(1);
        let (next, mut written) = (self.drawn, Written::default());
        let complete = self.write(next, entries, &mut written);
        let flipped = self.put_in_force(if complete.is_ok() { next } else { NONE });
        let outdated = mem::replace(&mut self.present, written);
        self.retire(outdated);
        if self.in_force == NONE {
            let unused = mem::take(&mut self.present);
            self.retire(unused);
        }
        complete.and(flipped)
    }

    fn write(&mut self, generation: u32, entries: &Entries, written: &mut Written) -> Result<(), KernelError> {
        for (what, count) in [("prefixes", entries.routes.len()), ("buckets of groups", entries.members.len())] {
            if count > self.most as usize {
                return Err(KernelError::TooMany { what, count, most: self.most });
            }
        }
        for entry in &entries.routes {
            // All bits of the generation, and those of the prefix.
            let prefix = Prefix::new(32 + u32::from(entry.length), key(generation, entry.address));
            self.routes.insert(&prefix, entry.route, 0)?;
            written.routes.push(prefix);
        }
        for entry in &entries.members {
            let key = key(generation, entry.bucket);
            self.members.insert(key, entry.hop, 0)?;
            written.members.push(key);
        }
        Ok(())
    }

    /// A program that cannot be told what holds is taken away.
    fn put_in_force(&mut self, generation: u32) -> Result<(), KernelError> {
        let written = self.plane.set(0, [generation, self.udp_port.into()], 0);
        self.in_force = if written.is_ok() { generation } else { NONE };
        if written.is_err() {
            self.ebpf = None;
        }
        Ok(written?)
    }

    fn retire(&mut self, mut outdated: Written) {
        self.stale.routes.append(&mut outdated.routes);
        self.stale.members.append(&mut outdated.members);
    }

    /// Takes out what is not in force. To be called once a slot: then no packet that found the last generation in force is
    /// still being forwarded by it.
    pub fn sweep(&mut self) {
        let Written { routes, members } = mem::take(&mut self.stale);
        // What cannot be taken out is in nobody's way but the room's.
        for prefix in &routes {
            let _ = self.routes.remove(prefix);
        }
        for key in &members {
            let _ = self.members.remove(key);
        }
    }

    /// Is anything forwarded here?
    pub fn forwards(&self) -> bool {
        self.ebpf.is_some() && self.in_force != NONE
    }

    /// What was forwarded by a port since the start.
    pub fn count(&self, port: u16) -> Count {
        let Ok(processors) = self.counts.get(&port.into(), 0) else { return Count::default() };
        processors.iter().fold(Count::default(), |sum, [frames, bytes, refused]| Count {
            frames: sum.frames + frames,
            bytes: sum.bytes + bytes,
            refused: sum.refused + refused,
        })
    }
}

fn program(ebpf: &mut Ebpf) -> Result<&mut SchedClassifier, KernelError> {
    let program = ebpf.program_mut(PROGRAM).ok_or(KernelError::Object(PROGRAM))?;
    Ok(program.try_into()?)
}

fn map<M: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &'static str) -> Result<M, KernelError> {
    let map = ebpf.take_map(name).ok_or(KernelError::Object(name))?;
    Ok(map.try_into()?)
}

/// An error with all its causes, since its own text names only the outermost.
fn told(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}
