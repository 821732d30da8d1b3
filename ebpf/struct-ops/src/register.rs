//! Loads one program per member of a kernel struct, fills the struct's value and registers it.

use std::os::fd::{AsRawFd, OwnedFd};

use aya_obj::generated::bpf_insn;

use crate::btf::{Btf, Structure};
use crate::sys::{self, BpfError};

/// Why a struct could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not have the struct, or has it in another shape.
    #[error("the kernel's BTF has no usable {what}: it is older than 5.6 or was built without BPF struct_ops")]
    Missing {
        /// The struct or member that was looked for.
        what: String,
    },
    /// The name does not fit.
    #[error("name {name:?} of the struct: 1 to 15 letters, digits, '_' or '.' are allowed")]
    Name {
        /// The name asked for.
        name: String,
    },
    /// A call of the kernel failed; the verifier's words come with it.
    #[error(transparent)]
    Kernel(#[from] BpfError),
}

/// One function of the struct.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The member of the kernel's struct.
    pub name: &'a str,
    /// The program, relocated, without calls into other BPF functions.
    pub instructions: &'a [bpf_insn],
}

/// A struct of functions to register, such as a congestion control.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The kernel's struct, `tcp_congestion_ops` for example.
    pub structure: &'a str,
    /// Value of its member `name`.
    pub name: &'a str,
    /// Value of its member `flags`.
    pub flags: u32,
    /// The functions it has; members that are not named stay empty.
    pub members: Vec<Member<'a>>,
}

/// A struct that the kernel has accepted and that is not registered yet, or is through its map.
#[derive(Debug)]
pub struct Registration {
    /// The map that holds the struct.
    pub map: OwnedFd,
    /// The link; `None` where it was registered through the map.
    pub link: Option<OwnedFd>,
    /// The programs. The registered struct holds them too.
    pub programs: Vec<OwnedFd>,
}

/// Loads the programs and registers the struct, by a link if `with_link`. Without one it stays until
/// [`crate::map_delete`].
///
/// # Errors
/// [`Error`] with the kernel's words; nothing stays registered then.
pub fn prepare(btf: &Btf, request: &Request<'_>, with_link: bool) -> Result<Registration, Error> {
    let missing = |what: &str| Error::Missing { what: what.to_owned() };
    let wrapper = format!("bpf_struct_ops_{}", request.structure);
    let structure = btf.structure(request.structure).ok_or_else(|| missing(request.structure))?;
    let value = btf.structure(&wrapper).ok_or_else(|| missing(&wrapper))?;
    let data = value.member("data").ok_or_else(|| missing("data"))?.1.offset;

    let mut bytes = vec![0_u8; value.size.min(1 << 16)];
    put_name(&mut bytes, data, &structure, request.name)?;
    put(&mut bytes, data, &structure, "flags", &request.flags.to_ne_bytes())?;
    let mut programs = Vec::new();
    for member in &request.members {
        let (index, _) = structure.member(member.name).ok_or_else(|| missing(member.name))?;
        let program = sys::load_program(member.name, member.instructions, structure.id, index as u32)?;
        put(&mut bytes, data, &structure, member.name, &(program.as_raw_fd() as u64).to_ne_bytes())?;
        programs.push(program);
    }
    let map = sys::create_map(request.name, value.size as u32, value.id, with_link)?;
    sys::update_map(&map, &bytes)?;
    let link = with_link.then(|| sys::create_link(&map, request.name)).transpose()?;
    Ok(Registration { map, link, programs })
}

fn put_name(bytes: &mut [u8], data: usize, structure: &Structure, name: &str) -> Result<(), Error> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
    if name.is_empty() || name.len() > 15 || !name.bytes().all(allowed) {
        return Err(Error::Name { name: name.to_owned() });
    }
    put(bytes, data, structure, "name", name.as_bytes())
}

fn put(bytes: &mut [u8], data: usize, structure: &Structure, member: &str, value: &[u8]) -> Result<(), Error> {
    let missing = || Error::Missing { what: format!("{member} in its struct") };
    let at = data + structure.member(member).ok_or_else(missing)?.1.offset;
    bytes.get_mut(at..at + value.len()).ok_or_else(missing)?.copy_from_slice(value);
    Ok(())
}
