//! The system calls that brain and helper may make, by what for: the one list that filters and `docs/privileges.md` are made of.
//!
//! A call that is in no list is refused: the process is told EPERM, and the call is named on its standard error (`confine`).

/// Who may make a group of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Both,
    Brain,
    Helper,
}

/// One of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    Brain,
    Helper,
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// With `SYS_` before it.
    symbol: &'static str,
    /// `None`: this processor's kernel has none of that name.
    pub number: Option<i64>,
    pub only: Only,
}

/// With which arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    Any,
    /// `clone` of a thread, not of a process.
    Threads,
    /// Sockets of these families: Unix, internet, netlink.
    Families,
    /// The same but for the internet only streams of TCP, which the helper cannot connect.
    UnixNetlinkAndStreams,
    /// Flags that are MSG_NOSIGNAL: not those that connect.
    Plain,
}

impl Call {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.symbol.trim_start_matches("SYS_")
    }
}

/// Calls for one purpose.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What for.
    pub what: &'static str,
    pub whose: Whose,
    pub calls: &'static [Call],
}

impl Group {
    /// May this one make them?
    pub fn is_of(&self, process: Process) -> bool {
        matches!(
            (self.whose, process),
            (Whose::Both, _) | (Whose::Brain, Process::Brain) | (Whose::Helper, Process::Helper)
        )
    }
}

macro_rules! calls {
    ($($symbol:ident $(if $only:ident)?),* $(,)?) => {
        &[$(Call { symbol: stringify!($symbol), number: Some(libc::$symbol), only: calls!(@ $($only)?) }),*]
    };
    (@) => { Only::Any };
    (@ $only:ident) => { Only::$only };
}

/// Calls that newer architectures do without.
macro_rules! old {
    ($($symbol:ident),* $(,)?) => {
        &[$(Call {
            symbol: stringify!($symbol),
            #[cfg(target_arch = "x86_64")]
            number: Some(libc::$symbol),
            #[cfg(not(target_arch = "x86_64"))]
            number: None,
            only: Only::Any,
        }),*]
    };
}

const fn group(what: &'static str, whose: Whose, calls: &'static [Call]) -> Group {
    Group { what, whose, calls }
}

/// All of them.
pub const GROUPS: &[Group] = &[
    group("memory", Whose::Both, calls![SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk]),
    group(
        "threads",
        Whose::Both,
        calls![
            SYS_clone if Threads, SYS_set_robust_list, SYS_rseq, SYS_futex, SYS_exit, SYS_exit_group, SYS_sched_yield,
            SYS_gettid, SYS_getpid, SYS_set_tid_address, SYS_sched_getaffinity, SYS_membarrier, SYS_prctl,
            // The allocator, of each new thread, where there is more than one memory node.
            SYS_getcpu,
        ],
    ),
    group(
        "time",
        Whose::Both,
        calls![
            SYS_clock_gettime,
            SYS_clock_getres,
            SYS_clock_nanosleep,
            SYS_nanosleep,
            SYS_gettimeofday,
            SYS_restart_syscall,
        ],
    ),
    group(
        "signals to itself",
        Whose::Both,
        calls![SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_tgkill],
    ),
    group(
        "reading and writing",
        Whose::Both,
        calls![
            SYS_read,
            SYS_pread64,
            SYS_readv,
            SYS_write,
            SYS_pwrite64,
            SYS_writev,
            SYS_lseek,
            SYS_close,
            SYS_fcntl,
            SYS_ioctl,
            SYS_dup,
        ],
    ),
    group(
        "files",
        Whose::Both,
        calls![
            SYS_openat,
            SYS_openat2,
            SYS_fstat,
            SYS_newfstatat,
            SYS_statx,
            SYS_statfs,
            SYS_fstatfs,
            SYS_faccessat,
            SYS_faccessat2,
            SYS_readlinkat,
            SYS_getdents64,
            SYS_mkdirat,
            SYS_unlinkat,
            SYS_getcwd,
        ],
    ),
    group(
        "files, by calls of older architectures",
        Whose::Both,
        old![SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_unlink, SYS_rmdir, SYS_poll],
    ),
    group(
        "itself",
        Whose::Both,
        calls![
            SYS_getrandom,
            SYS_uname,
            SYS_getuid,
            SYS_geteuid,
            SYS_getgid,
            SYS_getegid,
            SYS_prlimit64,
            SYS_sysinfo,
            SYS_setpriority,
        ],
    ),
    group("messages", Whose::Both, calls![SYS_recvmsg, SYS_ppoll, SYS_getsockopt, SYS_setsockopt]),
    group(
        "keeping state",
        Whose::Brain,
        calls![
            SYS_ftruncate,
            SYS_fallocate,
            SYS_fsync,
            SYS_fdatasync,
            SYS_flock,
            SYS_renameat,
            SYS_renameat2,
            SYS_linkat,
            SYS_fchmod,
            SYS_fchmodat,
            SYS_umask,
            SYS_utimensat,
            SYS_dup3,
        ],
    ),
    group("keeping state, by calls of older architectures", Whose::Brain, old![SYS_rename, SYS_chmod]),
    group(
        "waiting",
        Whose::Brain,
        calls![
            SYS_epoll_create1,
            SYS_epoll_ctl,
            SYS_epoll_pwait,
            SYS_epoll_pwait2,
            SYS_eventfd2,
            SYS_timerfd_create,
            SYS_timerfd_settime,
            SYS_pipe2,
            SYS_wait4,
            SYS_waitid,
        ],
    ),
    group("waiting, by a call of older architectures", Whose::Brain, old![SYS_epoll_wait]),
    group(
        "the network",
        Whose::Brain,
        calls![
            SYS_socket if Families, SYS_socketpair, SYS_bind, SYS_listen, SYS_accept4, SYS_connect, SYS_shutdown,
            SYS_getsockname, SYS_getpeername, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_sendmmsg, SYS_recvmmsg,
        ],
    ),
    group(
        "its place among threads, and the clock's standing",
        Whose::Brain,
        calls![
            SYS_sched_setscheduler,
            SYS_sched_getscheduler,
            SYS_sched_setattr,
            SYS_sched_getattr,
            SYS_sched_setparam,
            SYS_sched_getparam,
            SYS_getpriority,
            SYS_adjtimex,
            SYS_clock_adjtime,
            SYS_getrusage,
        ],
    ),
    group(
        "answers, and sock_diag",
        Whose::Helper,
        calls![SYS_socket if UnixNetlinkAndStreams, SYS_sendmsg if Plain, SYS_sendto if Plain],
    ),
    group("the kernel side", Whose::Helper, calls![SYS_bpf, SYS_setns]),
];

/// Calls whose names are worth a word when they are refused.
pub const NAMED: &[Call] = calls![
    SYS_bpf,
    SYS_setns,
    SYS_ptrace,
    SYS_execve,
    SYS_execveat,
    SYS_unshare,
    SYS_mount,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_clone,
    SYS_kill,
    SYS_setuid,
    SYS_setresuid,
    SYS_capset,
    SYS_init_module,
    SYS_keyctl,
    SYS_chroot,
    SYS_pivot_root,
    SYS_sendmsg,
    SYS_sendto,
    SYS_accept4,
    SYS_perf_event_open,
    SYS_io_uring_setup,
    SYS_memfd_create,
    SYS_userfaultfd,
];

/// The table of `docs/privileges.md`.
pub fn table() -> String {
    let mut text = String::from("| for | brain | helper | calls |\n| --- | --- | --- | --- |\n");
    let mark = |may: bool| if may { "yes" } else { "" };
    for group in GROUPS {
        let name = |call: &Call| match call.only {
            Only::Any => format!("`{}`", call.name()),
            Only::Threads => format!("`{}` of threads", call.name()),
            Only::Families => format!("`{}` of Unix, internet and netlink", call.name()),
            Only::UnixNetlinkAndStreams => {
                format!("`{}` of Unix and netlink, and streams that it cannot connect", call.name())
            }
            Only::Plain => format!("`{}` that does not connect", call.name()),
        };
        let calls = group.calls.iter().map(name).collect::<Vec<_>>().join(", ");
        let (brain, helper) = (mark(group.is_of(Process::Brain)), mark(group.is_of(Process::Helper)));
        text.push_str(&format!("| {} | {brain} | {helper} | {calls} |\n", group.what));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- table of calls -->\n";
    const END: &str = "<!-- end -->";

    #[test]
    fn the_page_has_the_table_of_what_either_may_call() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/privileges.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let (before, rest) = page.split_once(BEGIN).expect("a place for the table");
        let (_, behind) = rest.split_once(END).expect("its end");
        let made = format!("{before}{BEGIN}{}{END}{behind}", table());
        if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
            std::fs::write(path, &made).expect("written");
            return;
        }
        assert!(page == made, "docs/privileges.md is not what is made: SLUICE_UPDATE_EXPECTED=1 writes it anew");
    }

    #[test]
    fn no_call_is_in_two_lists_of_one_process_and_what_must_not_be_is_in_none() {
        for process in [Process::Brain, Process::Helper] {
            let groups = GROUPS.iter().filter(|group| group.is_of(process));
            let mut names: Vec<&str> = groups.flat_map(|group| group.calls).map(Call::name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{process:?}: {names:?}");
            let has = |name| names.binary_search(&name).is_ok();
            assert!(
                ["execve", "execveat", "ptrace", "mount", "unshare", "clone3", "capset"].iter().all(|name| !has(name))
            );
            assert_eq!([has("bpf"), has("setns")], [process == Process::Helper; 2]);
            let network = ["connect", "bind", "listen", "accept4", "recvfrom"].map(has);
            assert_eq!(network, [process == Process::Brain; 5]);
        }
    }
}
