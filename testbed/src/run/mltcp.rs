//! The baseline `fair:mltcp`: a congestion control that the kernel does not have, registered for the time of a run.
//!
//! The rule is in `bpf/mltcp_rule.h`. Nothing is pinned: the registration is a descriptor of this process, so the kernel
//! takes the control away when the run is over, and also when this process is killed.

use std::collections::HashSet;
use std::path::Path;

use aya_obj::Object;
use aya_obj::btf::Btf;
use sluice_struct_ops as struct_ops;
use thiserror::Error;

use super::RunError;

/// Its name as sockets ask for it.
pub const NAME: &str = "mltcp";
/// Members of `tcp_congestion_ops`, with a program of the same name each.
const MEMBERS: [&str; 5] = ["init", "pkts_acked", "cong_avoid", "ssthresh", "undo_cwnd"];
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// The header of an ELF file is read where it lies.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/sluice_mltcp.bpf.o"));

/// Why the control could not be registered.
#[derive(Debug, Error)]
pub enum MltcpError {
    /// The kernel's description of itself.
    #[error("reading {VMLINUX}: {0}")]
    Btf(String),
    /// The object, or what it asks of this kernel.
    #[error("the BPF object of mltcp: {0}")]
    Object(String),
    /// The kernel refused it; a second run at the same time has it already.
    #[error("registering the congestion control mltcp: {0}")]
    Register(#[from] struct_ops::Error),
}

/// The control, registered until this is dropped.
#[derive(Debug)]
pub struct Mltcp {
    _registration: struct_ops::Registration,
}

impl Mltcp {
    /// Registers it under [`NAME`].
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN, on a kernel without links of struct_ops (before 6.4), or when it is there.
    pub fn register() -> Result<Mltcp, MltcpError> {
        let raw = std::fs::read(Path::new(VMLINUX)).map_err(|e| MltcpError::Btf(e.to_string()))?;
        let kernel = struct_ops::Btf::parse(raw).map_err(|e| MltcpError::Btf(e.to_string()))?;
        let object = relocated()?;
        let member = |name: &'static str| {
            let found = object.programs.get(name).and_then(|p| object.functions.get(&p.function_key()));
            let found = found.ok_or_else(|| MltcpError::Object(format!("has no program {name}")))?;
            Ok(struct_ops::Program { name, instructions: &found.instructions })
        };
        let members = MEMBERS.into_iter().map(member).collect::<Result<Vec<_>, MltcpError>>()?;
        // Without flags only who administers the network may ask for it.
        let request = struct_ops::Request { structure: "tcp_congestion_ops", name: NAME, flags: 0, members };
        Ok(Mltcp { _registration: struct_ops::prepare(&kernel, &request, true)? })
    }

    /// Registers it if this is what the sockets of a run ask for.
    ///
    /// # Errors
    /// As [`Mltcp::register`].
    pub(crate) fn for_sockets(tcp: Option<&str>) -> Result<Option<Mltcp>, RunError> {
        Ok((tcp == Some(NAME)).then(Mltcp::register).transpose()?)
    }
}

fn relocated() -> Result<Object, MltcpError> {
    let failed = |e: &dyn std::error::Error| {
        let mut text = e.to_string();
        let mut source = e.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        MltcpError::Object(text)
    };
    let btf = Btf::from_sys_fs().map_err(|e| MltcpError::Btf(e.to_string()))?;
    let mut object = Object::parse(&OBJECT.0).map_err(|e| failed(&e))?;
    object.relocate_btf(&btf).map_err(|e| failed(&e))?;
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_calls(&text).map_err(|e| failed(&e))?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_has_every_member_and_no_map() {
        let object = Object::parse(&OBJECT.0).expect("an object");
        let mut names: Vec<&str> = object.programs.keys().map(String::as_str).collect();
        names.sort_unstable();
        let mut wanted = MEMBERS;
        wanted.sort_unstable();
        assert_eq!(names, wanted);
        assert!(object.maps.is_empty(), "a constant pool has become a map: {:?}", object.maps.keys());
    }

    #[test]
    fn only_who_asks_for_it_gets_it() {
        for other in [None, Some("cubic"), Some("mltcp2")] {
            assert!(Mltcp::for_sockets(other).expect("nothing to do").is_none());
        }
    }
}
