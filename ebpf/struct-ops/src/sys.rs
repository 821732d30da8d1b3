//! The bpf(2) calls behind a struct_ops registration; all `unsafe` of this crate.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aya_obj::generated::bpf_insn;

const MAP_CREATE: u32 = 0;
const MAP_UPDATE_ELEM: u32 = 2;
const MAP_DELETE_ELEM: u32 = 3;
const PROG_LOAD: u32 = 5;
const OBJ_PIN: u32 = 6;
const OBJ_GET: u32 = 7;
const BTF_LOAD: u32 = 18;
const LINK_CREATE: u32 = 28;
const LINK_DETACH: u32 = 34;

const MAP_TYPE_STRUCT_OPS: u32 = 26;
pub(crate) const PROG_TYPE_STRUCT_OPS: u32 = 27;
const ATTACH_STRUCT_OPS: u32 = 44;
/// The registration is made by a link, not by the update of the map.
const F_LINK: u32 = 1 << 13;
/// A verifier log this long holds the lines that matter.
const LOG_SIZE: usize = 256 * 1024;
const LOG_LINES: usize = 20;
/// The verifier tells only what the program cost it.
const LOG_FIGURES: u32 = 4;

/// A refused bpf(2) call, in the kernel's words.
#[derive(Debug, thiserror::Error)]
#[error("{call} {of}: {error}{}", if log.is_empty() { String::new() } else { format!("; the verifier says:\n{log}") })]
pub struct BpfError {
    /// The command of bpf(2).
    pub call: &'static str,
    /// What it was about.
    pub of: String,
    /// The errno that the kernel answered.
    pub error: io::Error,
    /// The verifier's last lines, at most 20, printable characters only.
    pub log: String,
}

impl BpfError {
    fn new(call: &'static str, of: impl Into<String>, error: io::Error) -> BpfError {
        BpfError { call, of: of.into(), error, log: String::new() }
    }
}

fn bpf<T>(command: u32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: each caller passes the #[repr(C)] attribute struct of its command, whose pointers outlive the call; the
    // kernel reads at most the given size and treats what lies beyond as zero.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just returned this descriptor and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn name16(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().zip(name.bytes().filter(|b| b.is_ascii_alphanumeric() || *b == b'_').take(15)) {
        *to = from;
    }
    out
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

fn prog_load(name: &str, instructions: &[bpf_insn], prog_type: u32, attach_type: u32, btf_id: u32) -> ProgLoad {
    let license = c"Dual MIT/GPL";
    ProgLoad {
        prog_type,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        prog_name: name16(name),
        expected_attach_type: attach_type,
        attach_btf_id: btf_id,
        ..ProgLoad::default()
    }
}

/// Loads a program for what the verifier says of its cost, and unloads it.
pub(crate) fn costs(
    name: &str,
    instructions: &[bpf_insn],
    prog_type: u32,
    attach_type: u32,
    btf_id: u32,
) -> Result<String, BpfError> {
    let mut log = vec![0_u8; LOG_SIZE];
    let mut attr = prog_load(name, instructions, prog_type, attach_type, btf_id);
    attr.log_level = LOG_FIGURES;
    attr.log_size = LOG_SIZE as u32;
    attr.log_buf = log.as_mut_ptr() as u64;
    let loaded = bpf(PROG_LOAD, &mut attr).map(owned);
    let said = last_lines(&log);
    match loaded {
        Ok(_) => Ok(said),
        Err(error) => Err(BpfError { log: said, ..BpfError::new("BPF_PROG_LOAD", format!("of {name}"), error) }),
    }
}

/// Loads one struct_ops program: a function for member number `member` of the struct with BTF id `btf_id`.
pub(crate) fn load_program(
    name: &str,
    instructions: &[bpf_insn],
    btf_id: u32,
    member: u32,
) -> Result<OwnedFd, BpfError> {
    let mut attr = prog_load(name, instructions, PROG_TYPE_STRUCT_OPS, member, btf_id);
    let first = match bpf(PROG_LOAD, &mut attr) {
        Ok(fd) => return Ok(owned(fd)),
        Err(error) => error,
    };
    // Only a refused program is worth a log; the second attempt is made for its words.
    let mut log = vec![0_u8; LOG_SIZE];
    attr.log_level = 1;
    attr.log_size = LOG_SIZE as u32;
    attr.log_buf = log.as_mut_ptr() as u64;
    match bpf(PROG_LOAD, &mut attr) {
        Ok(fd) => Ok(owned(fd)),
        Err(_) => {
            Err(BpfError { log: last_lines(&log), ..BpfError::new("BPF_PROG_LOAD", format!("of {name}"), first) })
        }
    }
}

fn last_lines(log: &[u8]) -> String {
    let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(log.get(..end).unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
    tail.join("\n").chars().filter(|c| !c.is_control() || *c == '\n').collect()
}

#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    log_buf: u64,
    btf_size: u32,
    log_size: u32,
    log_level: u32,
}

/// Loads the smallest BTF there is: the kernel wants one for the map although it does not look into it.
pub(crate) fn load_minimal_btf() -> Result<OwnedFd, BpfError> {
    let mut blob = Vec::new();
    blob.extend_from_slice(&0xeb9f_u16.to_ne_bytes());
    blob.extend_from_slice(&[1, 0]);
    // Header length, one type of 16 bytes, then five bytes of strings.
    for word in [24_u32, 0, 16, 16, 5, /* int: */ 1, 1 << 24, 4, 1 << 24 | 32] {
        blob.extend_from_slice(&word.to_ne_bytes());
    }
    blob.extend_from_slice(b"\0int\0");
    let mut attr = BtfLoad { btf: blob.as_ptr() as u64, btf_size: blob.len() as u32, ..BtfLoad::default() };
    bpf(BTF_LOAD, &mut attr).map(owned).map_err(|error| BpfError::new("BPF_BTF_LOAD", "of a minimal blob", error))
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
    map_ifindex: u32,
    btf_fd: u32,
    btf_key_type_id: u32,
    btf_value_type_id: u32,
    btf_vmlinux_value_type_id: u32,
    map_extra: u64,
}

/// Creates the map that holds the struct's one value.
pub(crate) fn create_map(name: &str, value_size: u32, value_type: u32, with_link: bool) -> Result<OwnedFd, BpfError> {
    let btf = load_minimal_btf()?;
    let mut attr = MapCreate {
        map_type: MAP_TYPE_STRUCT_OPS,
        key_size: 4,
        value_size,
        max_entries: 1,
        map_flags: if with_link { F_LINK } else { 0 },
        map_name: name16(name),
        btf_fd: btf.as_raw_fd() as u32,
        btf_vmlinux_value_type_id: value_type,
        ..MapCreate::default()
    };
    bpf(MAP_CREATE, &mut attr).map(owned).map_err(|error| BpfError::new("BPF_MAP_CREATE", format!("of {name}"), error))
}

#[repr(C)]
#[derive(Default)]
struct MapElem {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Writes the struct's value; without a link this registers it.
pub(crate) fn update_map(map: &OwnedFd, value: &[u8]) -> Result<(), BpfError> {
    let key = 0_u32;
    let mut attr = MapElem {
        map_fd: map.as_raw_fd() as u32,
        key: std::ptr::from_ref(&key) as u64,
        value: value.as_ptr() as u64,
        ..MapElem::default()
    };
    bpf(MAP_UPDATE_ELEM, &mut attr).map(drop).map_err(|e| BpfError::new("BPF_MAP_UPDATE_ELEM", "of the struct", e))
}

/// Deletes the struct's value: unregisters what was registered without a link.
///
/// # Errors
/// The kernel's refusal.
pub fn map_delete(map: &impl AsFd) -> Result<(), BpfError> {
    let key = 0_u32;
    let mut attr =
        MapElem { map_fd: map.as_fd().as_raw_fd() as u32, key: std::ptr::from_ref(&key) as u64, ..MapElem::default() };
    bpf(MAP_DELETE_ELEM, &mut attr).map(drop).map_err(|e| BpfError::new("BPF_MAP_DELETE_ELEM", "of the struct", e))
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    map_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// Registers the struct through a link: it stays as long as the link does.
pub(crate) fn create_link(map: &OwnedFd, of: &str) -> Result<OwnedFd, BpfError> {
    let mut attr =
        LinkCreate { map_fd: map.as_raw_fd() as u32, attach_type: ATTACH_STRUCT_OPS, ..LinkCreate::default() };
    bpf(LINK_CREATE, &mut attr).map(owned).map_err(|error| BpfError::new("BPF_LINK_CREATE", format!("of {of}"), error))
}

/// Detaches whatever a link holds, although others may still have the link open.
///
/// # Errors
/// The kernel's refusal; EOPNOTSUPP where this kind of link cannot be detached.
pub fn link_detach(link: &impl AsFd) -> Result<(), BpfError> {
    let mut attr = [link.as_fd().as_raw_fd() as u32];
    bpf(LINK_DETACH, &mut attr).map(drop).map_err(|e| BpfError::new("BPF_LINK_DETACH", "of a link", e))
}

#[repr(C)]
#[derive(Default)]
struct Object {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

fn c_path(path: &Path, call: &'static str) -> Result<CString, BpfError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| BpfError::new(call, path.display().to_string(), io::ErrorKind::InvalidInput.into()))
}

/// Pins a map, program or link under `path`, which must be on bpffs and free.
///
/// # Errors
/// The kernel's refusal.
pub fn object_pin(fd: &impl AsFd, path: &Path) -> Result<(), BpfError> {
    let name = c_path(path, "BPF_OBJ_PIN")?;
    let mut attr =
        Object { pathname: name.as_ptr() as u64, bpf_fd: fd.as_fd().as_raw_fd() as u32, ..Object::default() };
    bpf(OBJ_PIN, &mut attr).map(drop).map_err(|e| BpfError::new("BPF_OBJ_PIN", path.display().to_string(), e))
}

/// Opens what is pinned under `path`.
///
/// # Errors
/// The kernel's refusal.
pub fn object_get(path: &Path) -> Result<OwnedFd, BpfError> {
    let name = c_path(path, "BPF_OBJ_GET")?;
    let mut attr = Object { pathname: name.as_ptr() as u64, ..Object::default() };
    bpf(OBJ_GET, &mut attr).map(owned).map_err(|e| BpfError::new("BPF_OBJ_GET", path.display().to_string(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_cut_to_its_last_printable_lines() {
        let mut log: Vec<u8> = (0..100).flat_map(|i| format!("line {i}\u{7}\n").into_bytes()).collect();
        log.extend_from_slice(&[0, b'x']);
        let lines = last_lines(&log);
        assert_eq!(lines.lines().count(), LOG_LINES);
        assert!(lines.ends_with("line 99"));
        assert!(last_lines(&[]).is_empty());
    }

    #[test]
    fn names_keep_what_the_kernel_allows() {
        assert_eq!(&name16("a-b.c_d"), b"abc_d\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(name16("0123456789abcdefgh")[15], 0);
    }
}
