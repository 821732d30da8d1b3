//! Giving up what a process does not need: user, capabilities, and the system calls that it never makes.
//!
//! A call that the filter refuses is not made: the kernel raises SIGSYS in the thread that tried, the handler here names the call on
//! standard error, once for each, and the thread goes on with EPERM as if the kernel had said so. Killing the process instead
//! would turn a library's harmless try, on a kernel of tomorrow, into an outage; saying nothing would hide an attack.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use caps::{CapSet, Capability, CapsHashSet};
use nix::unistd::{Gid, Uid, User};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::calls::{Call, GROUPS, NAMED, Only, Process};

/// Capabilities that the helper keeps.
pub const HELPERS: [Capability; 5] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_DAC_READ_SEARCH,
];
/// And this one if environments are read.
pub const FOR_ENVIRONMENTS: Capability = Capability::CAP_SYS_PTRACE;

/// Why something was not given up.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    #[error("{what}: {error}")]
    System { what: &'static str, error: io::Error },
    #[error("the filter of system calls: {0}")]
    Filter(String),
    #[error("this processor has no filter of system calls here; privilege.split needs x86_64 or aarch64")]
    Processor,
}

fn system(what: &'static str) -> impl Fn(nix::Error) -> ConfineError {
    move |errno| ConfineError::System { what, error: errno.into() }
}

/// Keeps these capabilities, as far as the process has them, and no way to any other.
///
/// # Errors
/// What the system refused.
pub fn keep(kept: &[Capability]) -> Result<(), ConfineError> {
    let wanted: CapsHashSet = kept.iter().copied().collect();
    forbid_others(&wanted)?;
    let permitted = caps::read(None, CapSet::Permitted)?;
    let wanted: CapsHashSet = wanted.intersection(&permitted).copied().collect();
    let _ = caps::clear(None, CapSet::Ambient); // Linux before 4.3 has none.
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new())?;
    caps::set(None, CapSet::Effective, &wanted)?;
    caps::set(None, CapSet::Permitted, &wanted)?;
    nix::sys::prctl::set_no_new_privs().map_err(system("no new privileges"))
}

/// Takes all but these out of the bounding set, if that is permitted; without new privileges nothing would come of them anyway.
fn forbid_others(kept: &CapsHashSet) -> Result<(), ConfineError> {
    if !caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        return Ok(());
    }
    for capability in caps::read(None, CapSet::Bounding)?.difference(kept) {
        caps::drop(None, CapSet::Bounding, *capability)?;
    }
    Ok(())
}

/// Becomes this user, if the process is root, and keeps no capability.
///
/// # Errors
/// What the system refused.
pub fn become_nobody(user: Option<&User>) -> Result<(), ConfineError> {
    forbid_others(&CapsHashSet::new())?;
    if let Some(User { name, uid, gid, .. }) = user {
        let name = std::ffi::CString::new(name.as_str()).unwrap_or_default();
        nix::unistd::initgroups(&name, *gid).map_err(system("the user's groups"))?;
        nix::unistd::setresgid(*gid, *gid, *gid).map_err(system("the user's group"))?;
        nix::unistd::setresuid(*uid, *uid, *uid).map_err(system("the user"))?;
        let root = nix::unistd::setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok();
        if root || nix::unistd::getegid() == Gid::from_raw(0) && *gid != Gid::from_raw(0) {
            let error = io::Error::other("the process is root still");
            return Err(ConfineError::System { what: "the user", error });
        }
    }
    keep(&[])
}

/// From here on this process makes the calls of its list only, in all its threads.
///
/// # Errors
/// What the system refused.
pub fn filter(process: Process) -> Result<(), ConfineError> {
    name_refused(process)?;
    let wrong = |error: &dyn std::fmt::Display| ConfineError::Filter(error.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| ConfineError::Processor)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for group in GROUPS.iter().filter(|group| group.is_of(process)) {
        for call in group.calls {
            let Some(number) = call.number else { continue };
            rules.insert(number, rules_of(call).map_err(|error| wrong(&error))?);
        }
    }
    // C libraries start threads by `clone` where there is no `clone3`, whose arguments no filter can see.
    rules.insert(libc::SYS_clone3, Vec::new());
    let listed = SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, arch);
    let absent = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch,
    );
    let programs = [absent, listed]
        .map(|filter| filter.and_then(seccompiler::BpfProgram::try_from).map_err(|error| wrong(&error)));
    for program in programs {
        seccompiler::apply_filter_all_threads(&program?).map_err(|error| wrong(&error))?;
    }
    Ok(())
}

fn rules_of(call: &Call) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq};
    let is = |argument, value: i32| SeccompCondition::new(argument, Dword, Eq, u64::from(value.unsigned_abs()));
    let rules = match call.only {
        Only::Any => Vec::new(),
        Only::Threads => {
            let thread = libc::CLONE_THREAD as u64;
            vec![vec![SeccompCondition::new(0, Qword, MaskedEq(thread), thread)?]]
        }
        Only::Families => [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
            .into_iter()
            .map(|family| is(0, family).map(|condition| vec![condition]))
            .collect::<Result<_, _>>()?,
        Only::UnixNetlinkAndStreams => {
            let stream = SeccompCondition::new(1, Dword, MaskedEq(0xf), libc::SOCK_STREAM as u64)?;
            // The family's own stream, TCP: one of SCTP connects by sending, and by an option.
            let own = is(2, 0)?;
            vec![vec![is(0, libc::AF_UNIX)?], vec![is(0, libc::AF_NETLINK)?], vec![is(0, libc::AF_INET)?, stream, own]]
        }
        Only::Plain => {
            let flags = if call.name() == "sendto" { 3 } else { 2 };
            vec![vec![is(flags, libc::MSG_NOSIGNAL)?]]
        }
    };
    rules.into_iter().map(SeccompRule::new).collect()
}

/// Numbers of calls that were named already.
static TOLD: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
/// 0: nobody; 1: the brain; 2: the helper.
static WHO: AtomicU8 = AtomicU8::new(0);

fn name_refused(process: Process) -> Result<(), ConfineError> {
    WHO.store(if process == Process::Brain { 1 } else { 2 }, Ordering::Relaxed);
    // SAFETY: all fields are integers or pointers, of which zero is a value; the handler calls nothing but what a handler may.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = refused as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(ConfineError::System { what: "SIGSYS", error: io::Error::last_os_error() }) }
}

/// Names the call that was refused, and lets the thread go on with EPERM.
extern "C" fn refused(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives a siginfo of SIGSYS, in which the number of the call lies after three integers, four
    // bytes of padding and a pointer, and the registers that the thread goes on with.
    let number = unsafe {
        let number = info.cast::<u8>().add(24).cast::<i32>().read();
        let context = context.cast::<libc::ucontext_t>();
        #[cfg(target_arch = "x86_64")]
        {
            (*context).uc_mcontext.gregs[libc::REG_RAX as usize] = -i64::from(libc::EPERM);
        }
        #[cfg(target_arch = "aarch64")]
        {
            (*context).uc_mcontext.regs[0] = (-i64::from(libc::EPERM)) as u64;
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = context;
        number
    };
    let Ok(at) = usize::try_from(number) else { return };
    let bit = 1_u64 << (at % 64);
    let told = TOLD.get(at / 64).map_or(0, |told| told.fetch_or(bit, Ordering::Relaxed));
    if told & bit != 0 {
        return;
    }
    let mut line = Line { bytes: [0; 192], length: 0 };
    let who = if WHO.load(Ordering::Relaxed) == 1 { "brain" } else { "helper" };
    let name = NAMED.iter().find(|call| call.number == Some(i64::from(number))).map_or("", Call::name);
    line.put("sluiced: system call ").number(at).put(" (").put(name).put(") is refused in the ").put(who);
    line.put(": it is not among those of docs/privileges.md\n");
    // SAFETY: the bytes live until the call returns; write(2) may be called in a handler.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.length) };
}

/// A line that is put together without memory from anywhere.
struct Line {
    bytes: [u8; 192],
    length: usize,
}

impl Line {
    fn put(&mut self, text: &str) -> &mut Line {
        for byte in text.bytes() {
            if let Some(to) = self.bytes.get_mut(self.length) {
                *to = byte;
                self.length += 1;
            }
        }
        self
    }
    fn number(&mut self, number: usize) -> &mut Line {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            let digit = b'0' + (number / divisor % 10) as u8;
            self.put(char::from(digit).encode_utf8(&mut [0; 4]));
            divisor /= 10;
        }
        self
    }
}

#[cfg(test)]
mod tests;
