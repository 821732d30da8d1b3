//! The filters of both processes, attacked: a child puts one on, makes every call that there is, and says what came of it.
//!
//! The kernel says EPERM for reasons of its own too. So of a call that depends on no argument it counts as the filter's only where
//! the handler has named it as well; of others those are tried to which no kernel says EPERM.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, pipe2};

use super::*;
use crate::privilege::line::End;
use crate::privilege::message::{Reply, Request};
use crate::sock_diag;

/// Seconds after which a child is ended, however it hangs.
const PATIENCE: u32 = 60;
/// Beyond all numbers of calls: the last that kernels have is below 480.
const NUMBERS: i64 = 512;
/// What x86_64 takes for a call of its third kind, x32, which has numbers of its own: getpid, execve and ptrace.
const X32: [i64; 3] = [0x4000_0000 | 39, 0x4000_0000 | 520, 0x4000_0000 | 521];
/// Behind these a process does not go on. A child makes all three: at its end, at the end of its thread, after each refusal.
const ENDS: [&str; 3] = ["exit", "exit_group", "rt_sigreturn"];
/// uretprobe and uprobe: kernels let them past every filter, and end who makes them without a probe.
const PAST_FILTERS: [i64; 2] = [335, 336];

type Named = (&'static str, i64);

macro_rules! calls {
    ($($symbol:ident),* $(,)?) => {
        &[$((stringify!($symbol), libc::$symbol)),*]
    };
}

/// What would give either process more than it has. Not made of the lists: whoever adds one of these has to say so here.
const NEVER: &[Named] = calls![
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_mount,
    SYS_umount2,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_capset,
    SYS_setuid,
    SYS_setresuid,
    SYS_setgroups,
    SYS_keyctl,
    SYS_add_key,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_memfd_create,
    SYS_seccomp,
    SYS_kill,
    SYS_tkill,
    SYS_pidfd_send_signal,
    SYS_swapon,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
];

/// What the helper must not do besides: reach a network, and write files.
const NEVER_OF_THE_HELPER: &[Named] = calls![
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept4,
    SYS_socketpair,
    SYS_sendmmsg,
    SYS_recvfrom,
    SYS_renameat2,
    SYS_linkat,
    SYS_fchmodat,
    SYS_fchownat,
    SYS_truncate,
];

/// What the brain has a helper for.
const NEVER_OF_THE_BRAIN: &[Named] = calls![SYS_bpf, SYS_setns];

/// Says a line, past what catches the output of tests.
fn say(line: &str) {
    let line = format!("{line}\n");
    // SAFETY: the bytes live until the call returns.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Makes a call by its number: what it returned, and errno.
fn make(number: i64, arguments: [i64; 6]) -> (i64, i32) {
    let [a, b, c, d, e, f] = arguments;
    Errno::clear();
    // SAFETY: a call that is refused looks at nothing. What is let through finds no descriptor, no address and no flags that it
    // knows; or what the caller has for it. A process that came of it ends at once.
    let result = unsafe {
        let result = libc::syscall(number, a, b, c, d, e, f);
        if result == 0 && number == libc::SYS_clone {
            libc::_exit(3);
        }
        result
    };
    (result, Errno::last_raw())
}

/// Makes it, and says as what, for [`Child::results`].
fn tell(name: i64, number: i64, arguments: [i64; 6]) {
    let (result, errno) = make(number, arguments);
    say(&format!("{name} {result} {errno}"));
}

/// A child that has ended.
struct Child {
    status: WaitStatus,
    said: String,
}

impl Child {
    /// Runs `act` in a child without a capability and with this filter.
    fn under(process: Process, act: impl FnOnce()) -> Child {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        // SAFETY: the child has a copy of memory and of this thread alone, runs nothing of the parent's ends, and leaves by _exit.
        let pid = match unsafe { fork() }.expect("a process") {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                // SAFETY: a number each, and a descriptor that is open.
                unsafe {
                    libc::alarm(PATIENCE);
                    libc::dup2(writer.as_raw_fd(), 2);
                }
                let done = catch_unwind(AssertUnwindSafe(|| match keep(&[]).and_then(|()| filter(process)) {
                    Ok(()) => act(),
                    Err(error) => say(&format!("there is no filter: {error}")),
                }));
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(done.is_err())) }
            }
        };
        drop(writer);
        let mut said = String::new();
        File::from(reader).read_to_string(&mut said).expect("text");
        Child { status: waitpid(pid, None).expect("it ends"), said }
    }

    /// As [`Child::under`], of one that ends by itself.
    fn well(process: Process, act: impl FnOnce()) -> Child {
        let child = Child::under(process, act);
        assert!(matches!(child.status, WaitStatus::Exited(_, 0)), "{:?}: {}", child.status, child.said);
        child
    }

    /// Numbers of the calls that the handler has named.
    fn named(&self, process: Process) -> BTreeSet<i64> {
        let end = format!(" is refused in the {}: ", if process == Process::Brain { "brain" } else { "helper" });
        let lines = self.said.lines().filter(|line| line.contains(end.as_str()));
        lines.filter_map(|line| line.strip_prefix("sluiced: system call ")?.split(' ').next()?.parse().ok()).collect()
    }

    /// What [`tell`] has said: result and errno.
    fn results(&self) -> BTreeMap<i64, (i64, i32)> {
        let mut results = BTreeMap::new();
        for line in self.said.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let [name, result, errno] = words[..]
                && let (Ok(name), Ok(result), Ok(errno)) = (name.parse(), result.parse(), errno.parse())
            {
                results.insert(name, (result, errno));
            }
        }
        results
    }
}

/// Makes every call under this filter: what is in no list is refused and named, and what is in one comes through to the kernel.
fn attack(process: Process, never: &[Named]) {
    let of = GROUPS.iter().filter(|group| group.is_of(process)).flat_map(|group| group.calls);
    let list: BTreeMap<i64, &Call> = of.filter_map(|call| Some((call.number?, call))).collect();
    let child = Child::well(process, || {
        if make(libc::SYS_execve, [-1; 6]) != (-1, libc::EPERM) {
            return say("not even execve is refused, and nothing else is tried");
        }
        for number in (0..NUMBERS).chain(X32) {
            let left_out = match list.get(&number) {
                Some(call) => call.only != Only::Any || ENDS.contains(&call.name()),
                None => cfg!(target_arch = "x86_64") && PAST_FILTERS.contains(&number),
            };
            if !left_out {
                tell(number, number, [-1; 6]);
            }
        }
    });
    let (named, results) = (child.named(process), child.results());
    assert!(results.len() > 480, "{process:?}: {} calls were tried: {}", results.len(), child.said);
    let mut wrong = Vec::new();
    for (number, result) in &results {
        let right = match list.get(number) {
            Some(_) => !named.contains(number),
            // As if the kernel had none.
            None if *number == libc::SYS_clone3 => *result == (-1, libc::ENOSYS) && !named.contains(number),
            None => *result == (-1, libc::EPERM) && named.contains(number),
        };
        if !right {
            wrong.push((*number, *result, named.contains(number)));
        }
    }
    assert!(wrong.is_empty(), "{process:?}: number, result and errno, was it named: {wrong:?}");
    for (name, number) in NEVER.iter().chain(never) {
        assert!(!list.contains_key(number) && named.contains(number), "{process:?}: {name} is not refused");
    }
    assert_eq!(child.said.matches("(execve) is refused").count(), 1, "it is named once, however often it is tried");
    if process == Process::Helper {
        assert_eq!(results.get(&libc::SYS_setns), Some(&(-1, libc::EBADF)), "what it is there for reaches the kernel");
    }
}

#[test]
fn every_call_that_is_not_the_helpers_is_refused_and_named() {
    attack(Process::Helper, NEVER_OF_THE_HELPER);
}

#[test]
fn every_call_that_is_not_the_brains_is_refused_and_named() {
    attack(Process::Brain, NEVER_OF_THE_BRAIN);
}

/// Calls of which the arguments decide: what it would be, the call, and whether brain and helper may.
fn by_arguments() -> Vec<(&'static str, i64, [i64; 6], [bool; 2])> {
    use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};
    let socket = |family: i32, kind: i32, protocol: i32| [family, kind, protocol, 0, 0, 0].map(i64::from);
    let sendto = |flags: i32| [-1, 0, 0, flags, 0, 0].map(i64::from);
    let sendmsg = |flags: i32| [-1, 0, flags, 0, 0, 0].map(i64::from);
    let fast_open = libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL;
    vec![
        ("a process", libc::SYS_clone, [i64::from(libc::SIGCHLD), 0, 0, 0, 0, 0], [false, false]),
        ("a Unix socket", libc::SYS_socket, socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), [true, true]),
        ("sock_diag", libc::SYS_socket, socket(AF_NETLINK, SOCK_RAW, libc::NETLINK_SOCK_DIAG), [true, true]),
        ("a stream", libc::SYS_socket, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), [true, true]),
        ("datagrams", libc::SYS_socket, socket(AF_INET, SOCK_DGRAM, 0), [true, false]),
        ("a stream over IPv6", libc::SYS_socket, socket(AF_INET6, SOCK_STREAM, 0), [true, false]),
        ("a stream of SCTP", libc::SYS_socket, socket(AF_INET, SOCK_STREAM, libc::IPPROTO_SCTP), [true, false]),
        ("a stream of MPTCP", libc::SYS_socket, socket(AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP), [true, false]),
        ("a socket of virtual machines", libc::SYS_socket, socket(libc::AF_VSOCK, SOCK_STREAM, 0), [false, false]),
        ("the kernel's ciphers", libc::SYS_socket, socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0), [false, false]),
        ("sending", libc::SYS_sendto, sendto(libc::MSG_NOSIGNAL), [true, true]),
        ("sending that raises a signal", libc::SYS_sendto, sendto(0), [true, false]),
        ("connecting by sending", libc::SYS_sendto, sendto(fast_open), [true, false]),
        ("a message", libc::SYS_sendmsg, sendmsg(libc::MSG_NOSIGNAL), [true, true]),
        ("a message that raises a signal", libc::SYS_sendmsg, sendmsg(0), [true, false]),
        ("connecting by a message", libc::SYS_sendmsg, sendmsg(fast_open), [true, false]),
    ]
}

#[test]
fn of_calls_that_are_listed_with_some_arguments_only_those_come_through() {
    let cases = by_arguments();
    for process in [Process::Brain, Process::Helper] {
        let child = Child::well(process, || {
            for (name, (_, number, arguments, _)) in (0_i64..).zip(&cases) {
                tell(name, *number, *arguments);
            }
        });
        let results = child.results();
        for (name, (what, _, _, may)) in (0_i64..).zip(&cases) {
            let result = results.get(&name).unwrap_or_else(|| panic!("{what} was not tried: {}", child.said));
            let may = may[usize::from(process == Process::Helper)];
            assert_eq!(*result != (-1, libc::EPERM), may, "{process:?}: {what}: {result:?}");
        }
    }
}

/// One answer of the helper's, with a descriptor and something on the desk, and another thread.
fn work(end: &End) -> io::Result<()> {
    let received = end.receive(true)?.ok_or(Errno::EPIPE)?;
    let (_, number) = Request::decode(&received.bytes).map_err(io::Error::other)?;
    let length = end.put(&std::fs::read("/proc/self/stat")?)?;
    let diag = sock_diag::open()?;
    let thread = std::thread::Builder::new().name("looking".into()).spawn(|| ())?;
    thread.join().map_err(|_| Errno::EIO)?;
    end.send(&Reply::Written(length).encode(number), &[diag.as_fd()])
}

#[test]
fn under_its_filter_the_helper_answers_and_connects_to_nobody() {
    let [brain, helper] = End::pair().expect("a line");
    brain.send(&Request::Hello.encode(7), &[]).expect("said");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.set_nonblocking(true).expect("set");
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: listener.local_addr().expect("bound").port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    };
    let child = Child::well(Process::Helper, || {
        match work(&helper) {
            Ok(()) => say("answered"),
            Err(error) => say(&format!("not answered: {error}")),
        }
        let (stream, _) = make(libc::SYS_socket, [i64::from(libc::AF_INET), i64::from(libc::SOCK_STREAM), 0, 0, 0, 0]);
        let (to, size) = (&raw const address as i64, size_of::<libc::sockaddr_in>() as i64);
        let (byte, quiet) = (c"x".as_ptr() as i64, i64::from(libc::MSG_NOSIGNAL));
        tell(0, libc::SYS_connect, [stream, to, size, 0, 0, 0]);
        tell(1, libc::SYS_sendto, [stream, byte, 1, quiet | i64::from(libc::MSG_FASTOPEN), to, size]);
        tell(2, libc::SYS_sendto, [stream, byte, 1, quiet, to, size]);
        say(&format!("3 {stream} 0"));
    });
    assert!(child.said.lines().any(|line| line == "answered"), "{}", child.said);
    let results = child.results();
    let [connect, fast_open, plain, stream] = [0_i64, 1, 2, 3].map(|name| results[&name]);
    assert!(stream.0 >= 0, "it may have a stream: {}", child.said);
    assert_eq!((connect, fast_open), ((-1, libc::EPERM), (-1, libc::EPERM)));
    assert_eq!(plain, (-1, libc::EPIPE), "a stream that is not connected sends nothing");
    assert_eq!(listener.accept().map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
    drop(helper);
    let answer = brain.receive(true).expect("received").expect("an answer");
    let Ok((Reply::Written(length), 7)) = Reply::decode(&answer.bytes) else { panic!("{:?}", answer.bytes) };
    assert!(length > 0 && brain.take(length as usize).is_ok_and(|stat| stat.ends_with(b"\n")));
    assert_eq!(answer.descriptors.len(), 1);
}

/// Another architecture's calls have other numbers: 11 is execve for 32 bits, and munmap for 64.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_by_the_entry_for_32_bits_ends_the_process() {
    use nix::sys::signal::Signal;
    for process in [Process::Brain, Process::Helper] {
        let child = Child::under(process, || {
            say("it begins");
            // SAFETY: getpid of 32 bits takes no argument; the kernel may leave other values in these registers.
            unsafe {
                std::arch::asm!(
                    "int 0x80",
                    inlateout("rax") 20_i64 => _,
                    out("r8") _,
                    out("r9") _,
                    out("r10") _,
                    out("r11") _,
                );
            }
            say("it goes on");
        });
        assert_eq!(child.said, "it begins\n", "{process:?}");
        // A kernel without that entry ends it by itself.
        let ended = matches!(child.status, WaitStatus::Signaled(_, Signal::SIGSYS | Signal::SIGSEGV, _));
        assert!(ended, "{process:?}: {:?}", child.status);
    }
}
