//! Every version in NCCL's order, and every way to break it. Each test runs in a process of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;
use nccl_profiler_sluice::abi::log;
use sluice_progress::{Liveness, Pattern, Reader, Source, State};

/// A directory of pages that exists, and the library under its own name.
struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(root.path().join("pages")).expect("created");
        std::fs::copy(library(), root.path().join("libnccl-profiler-sluice.so")).expect("copied");
        set("SLUICE_SHM_DIR", &root.path().join("pages"));
        Bench { root }
    }
    fn pages(&self) -> std::path::PathBuf {
        self.root.path().join("pages")
    }
    fn load(&self, version: u8) -> Nccl {
        Nccl::load(&self.root.path().join("libnccl-profiler-sluice.so"), version)
    }
}

/// One collective all the way: enqueued, an operation each way on each channel, done.
fn through(nccl: &Nccl, context: usize, count: usize, channels: u8) {
    let coll = nccl.coll(context, &all_reduce(count, channels));
    let ops: Vec<_> =
        (0..channels).flat_map(|channel| [true, false].map(|send| nccl.op(context, coll, channel, 1, send))).collect();
    for op in ops {
        nccl.state(op, 19, None);
        nccl.stop(op);
    }
}

#[test]
fn every_version_publishes_what_is_enqueued_and_when_it_moves() {
    let variables = [("WORLD_SIZE", "2"), ("RANK", "0"), ("SLUICE_JOB_ID", "vgg")];
    alone(&variables, || {
        let bench = Bench::new();
        for version in VERSIONS {
            let nccl = bench.load(version);
            assert_eq!(nccl.name(), c"Sluice");
            let (context, mask) = nccl.init(PAIR, logger());
            assert_eq!((mask, context != 0), (0b1110, true), "version {version}");
            let page = only(&bench.pages());
            assert_eq!((page.source, page.job_id.as_str()), (Source::NcclProfiler, "vgg"));
            assert_eq!((page.producer, page.rank, page.nranks), (format!("nccl v{version}"), Some(0), 2));
            assert_eq!((page.comm_id, page.nnodes), if version <= 3 { (0, 0) } else { (0x1234, 2) });
            assert_eq!((page.state, page.enq_ops), (State::Init, 0));

            let coll = nccl.coll(context, &all_reduce(1000, 2));
            let page = only(&bench.pages());
            assert_eq!((page.enq_bytes, page.enq_ops, page.state), (4000, 1, State::Enqueued));
            assert_eq!(page.pattern, Pattern::Ring);
            // Without the number of hosts only the operations show that the bytes leave at all.
            assert_eq!(page.enq_wire_bytes, if version <= 3 { 0 } else { 4000 });
            let send = nccl.op(context, coll, 0, 1, true);
            let receive = nccl.op(context, coll, 0, 1, false);
            let page = only(&bench.pages());
            assert_eq!((page.enq_wire_bytes, page.state, page.inflight), (4000, State::OnWire, 2));
            assert_eq!((page.ring_prev, page.ring_next, page.iteration.count), (Some(1), Some(1), 1));
            nccl.stop(send);
            assert_eq!(only(&bench.pages()).state, State::OnWire);
            nccl.stop(receive);
            let page = only(&bench.pages());
            assert_eq!((page.state, page.inflight, page.phase_seq), (State::Compute, 0, 1));

            // From the second collective on, all versions say it ahead.
            nccl.coll(context, &all_reduce(1000, 2));
            let page = only(&bench.pages());
            assert_eq!((page.enq_wire_bytes, page.iteration.count, page.iteration.base_bytes), (8000, 2, 4000));
            assert_eq!((page.drops, page.errors), (0, 0));
            nccl.finalize(context);
            assert!(pages(&bench.pages()).is_empty(), "the page goes with its communicator");
        }
        let lines = LINES.lock().expect("no panic");
        // Each version's file is one library here: loaded once, it says one line.
        assert_eq!(lines.len(), 1, "{lines:?}");
        let (level, subsystems, text) = &lines[0];
        assert_eq!((*level, *subsystems), (log::INFO, 0x4001));
        assert!(text.starts_with("SLUICE/Profiler: publishing to ") && text.ends_with("(v4), rank 0/2"), "{text}");
    });
}

#[test]
fn between_two_collectives_in_a_row_the_phase_goes_on() {
    alone(&[], || {
        let bench = Bench::new();
        let nccl = bench.load(5);
        let (context, _) = nccl.init(PAIR, None);
        let colls = [0; 3].map(|_| nccl.coll(context, &all_reduce(1000, 1)));
        for (n, coll) in colls.into_iter().enumerate() {
            let op = nccl.op(context, coll, 0, 1, true);
            nccl.stop(op);
            let page = only(&bench.pages());
            let last = n == 2;
            assert_eq!(page.state, if last { State::Compute } else { State::OnWire }, "after {n}");
            assert_eq!((page.phase_seq, page.iteration.count), (1, 1));
            assert_eq!(page.inflight, u64::from(!last), "the page waits for the next");
        }
        assert_eq!(only(&bench.pages()).enq_wire_bytes, 12_000);
    });
}

#[test]
fn of_several_ranks_per_host_each_says_what_leaves_it() {
    alone(&[], || {
        let bench = Bench::new();
        let nccl = bench.load(6);
        // Four ranks on two hosts; this one's ring leaves the host on two of four channels.
        let (context, _) = nccl.init(Shape { nranks: 4, ..PAIR }, None);
        let whole = 4000 * 2 * 3 / 4;
        let mut said = 0;
        for round in 0..3 {
            let coll = nccl.coll(context, &all_reduce(1000, 4));
            let ahead = only(&bench.pages()).enq_wire_bytes;
            assert_eq!(ahead - said, if round == 0 { 0 } else { whole / 2 }, "round {round}");
            let ops = [0, 2].map(|channel| nccl.op(context, coll, channel, 2, true));
            ops.into_iter().for_each(|op| nccl.stop(op));
            said = only(&bench.pages()).enq_wire_bytes;
            assert_eq!(said, whole / 2 * (round + 1));
        }
        // One with no edge at all says nothing, whatever it enqueues.
        let (inner, _) = nccl.init(Shape { id: 2, nranks: 4, rank: 1, ..PAIR }, None);
        for _ in 0..10 {
            nccl.coll(inner, &all_reduce(1000, 4));
        }
        let views: Vec<_> = pages(&bench.pages()).iter().map(|page| view(page)).collect();
        let inner = views.iter().find(|page| page.comm_id == 2).expect("its page");
        assert_eq!((inner.enq_bytes, inner.enq_wire_bytes, inner.iteration.count), (40_000, 0, 0));
    });
}

#[test]
fn sends_receives_tags_and_unknown_names() {
    alone(&[], || {
        let bench = Bench::new();
        let nccl = bench.load(7);
        let (context, _) = nccl.init(PAIR, None);
        nccl.p2p(context, true, 1, 100, 1);
        nccl.p2p(context, false, 1, 100, 1);
        nccl.p2p(context, true, 0, 100, 1);
        let page = only(&bench.pages());
        assert_eq!((page.enq_bytes, page.enq_wire_bytes, page.pattern), (400, 400, Pattern::PeerToPeer));
        // The application's own count of iterations takes the place of phases.
        for (tag, iterations) in [(7, 2), (7, 2), (8, 3)] {
            nccl.coll(context, &CollOf { user_tag: tag, ..all_reduce(1000, 1) });
            assert_eq!(only(&bench.pages()).iteration.count, iterations);
        }
        nccl.coll(context, &CollOf { datatype: c"ncclFloat5", ..all_reduce(1000, 1) });
        let page = only(&bench.pages());
        assert_eq!((page.errors, page.enq_bytes, page.enq_ops), (1, 12_400, 5));
        nccl.coll(context, &CollOf { func: c"", algo: c"A name much longer than any there is", ..all_reduce(9, 1) });
        assert_eq!(only(&bench.pages()).errors, 1);
    });
}

#[test]
fn with_steps_the_bytes_are_counted_as_they_move() {
    alone(&[("SLUICE_NCCL_STEPS", "1")], || {
        let bench = Bench::new();
        for version in [4, 5, 6, 7] {
            let nccl = bench.load(version);
            let (context, mask) = nccl.init(PAIR, None);
            assert_eq!(mask, 0b1001_1110, "what the transport reports comes with the steps");
            let coll = nccl.coll(context, &all_reduce(1000, 1));
            for send in [true, false] {
                let op = nccl.op(context, coll, 0, 1, send);
                for (step, bytes) in [(0, 1500), (1, 500 + u64::from(send))] {
                    let handle = nccl.step(context, op, step);
                    nccl.state(handle, 8, Some(77)); // Not yet on its way: no bytes.
                    nccl.state(handle, if send { 9 } else { 12 }, Some(bytes));
                    nccl.state(handle, if send { 9 } else { 12 }, None);
                    nccl.stop(handle);
                    nccl.state(handle, 9, Some(1_000_000)); // After the stop.
                    nccl.stop(handle);
                }
                nccl.stop(op);
            }
            let page = only(&bench.pages());
            assert_eq!((page.tx_bytes, page.rx_bytes), (2001, 2000), "version {version}");
            nccl.finalize(context);
        }
    });
}

#[test]
fn whatever_is_handed_in_is_success_and_changes_nothing() {
    alone(&[], || {
        let bench = Bench::new();
        for version in VERSIONS {
            let nccl = bench.load(version);
            let (context, _) = nccl.init(PAIR, None);
            let empty = [0_u64; 17];
            assert_eq!(nccl.start_raw(context, std::ptr::null()), 0, "no descriptor");
            assert_eq!(nccl.start_raw(0, empty.as_ptr().cast()), 0, "no context");
            nccl.start_nowhere(context, headers::Descr::new(version, 2, 0, 0, &headers::ProxyStep { step: 0 }).at());
            for kind in [1, 1 << 5, 1 << 6] {
                assert_eq!(nccl.other(context, kind), 0, "an event that was not asked for");
            }
            // Stop without start, state without start, twice, and after the end of everything.
            for handle in [0, 1, context, usize::MAX, 0x5e << 56, (0x5e << 56) | (4096 * 3 + 7)] {
                nccl.stop(handle);
                nccl.state(handle, 9, Some(1));
                nccl.finalize(if handle == context { 0 } else { handle });
            }
            let before = only(&bench.pages());
            assert_eq!((before.enq_ops, before.inflight, before.errors, before.drops), (0, 0, 0, 0));
            through(&nccl, context, 1000, 1);
            let coll = nccl.coll(context, &all_reduce(1000, 1));
            let op = nccl.op(context, coll, 0, 1, true);
            nccl.stop(op);
            let after = only(&bench.pages());
            [op, coll, op, coll].into_iter().for_each(|handle| nccl.stop(handle));
            nccl.state(op, 19, None);
            assert_eq!(only(&bench.pages()), after, "a second stop is nothing");
            // An operation of another process (PXN) with our parent's number is counted, but is nobody's part.
            let foreign = nccl.op_of(context, coll, 1, 3, 1, true);
            let pxn = only(&bench.pages());
            assert_eq!((pxn.inflight, pxn.enq_wire_bytes), (1, after.enq_wire_bytes));
            nccl.finalize(context);
            nccl.finalize(context);
            nccl.stop(foreign);
            assert_eq!(nccl.coll_start(context, &all_reduce(1, 1)), 0, "an event after the end");
            assert_eq!(nccl.op(context, coll, 0, 1, true), 0);
            assert!(pages(&bench.pages()).is_empty());
            nccl.close();
            // The library stays where it is: a late call finds code.
            nccl.stop(foreign);
            assert_eq!(nccl.coll_start(context, &all_reduce(1, 1)), 0);
        }
    });
}

#[test]
fn random_calls_from_many_threads_never_fail() {
    alone(&[("SLUICE_NCCL_STEPS", "1")], || {
        let bench = Bench::new();
        let nccl = bench.load(5);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for seed in 1..=32_u64 {
                let (nccl, stop) = (&nccl, &stop);
                scope.spawn(move || {
                    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let mut next = move || {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                        x
                    };
                    let mut handles = vec![0_usize, 5, usize::MAX];
                    let mut contexts = vec![0_usize, 7];
                    for _ in 0..3000 {
                        let pick = next() as usize;
                        let (handle, context) = (handles[pick % handles.len()], contexts[pick % contexts.len()]);
                        match next() % 9 {
                            0 if contexts.len() < 5 => contexts.push(nccl.init(PAIR, None).0),
                            1 if next() % 64 == 0 => nccl.finalize(context),
                            2 => handles.push(nccl.coll_start(context, &all_reduce(pick % 10_000, 2))),
                            3 => handles.push(nccl.op(context, handle, pick as u8, pick as i32, next() % 2 == 0)),
                            4 => handles.push(nccl.step(context, handle, 1)),
                            5 => nccl.state(handle, pick as i32 % 24, (next() % 2 == 0).then_some(next())),
                            6 => handles.push(nccl.p2p(context, next() % 2 == 0, 1, pick, pick as u8)),
                            _ => nccl.stop(handle),
                        }
                        if handles.len() > 64 {
                            handles.swap_remove(pick % 64);
                        }
                    }
                    contexts.into_iter().for_each(|context| nccl.finalize(context));
                    stop.store(true, Ordering::Relaxed);
                });
            }
        });
        assert!(stop.load(Ordering::Relaxed));
        assert!(pages(&bench.pages()).is_empty(), "every communicator was ended");
        // And it still works.
        let (context, _) = nccl.init(PAIR, None);
        through(&nccl, context, 1000, 2);
        assert_eq!(only(&bench.pages()).state, State::Compute);
    });
}

#[test]
fn a_forked_child_writes_nothing_and_the_page_stays_the_parents() {
    alone(&[], || {
        let bench = Bench::new();
        let nccl = bench.load(6);
        let (context, _) = nccl.init(PAIR, None);
        let coll = nccl.coll(context, &all_reduce(1000, 1));
        let op = nccl.op(context, coll, 0, 1, true);
        // Not looked into before the child has looked: reading it here would drop this process's lock.
        let (page, parent) = (pages(&bench.pages()).remove(0), std::process::id());
        // SAFETY: the child only calls the library, looks, and leaves.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                nccl.stop(op);
                through(&nccl, context, 5000, 1);
                let owner = Reader::open(&page).map(|reader| reader.owner());
                nccl.finalize(context);
                libc::_exit(i32::from(!matches!(owner, Ok(Liveness::Alive { pid: Some(pid) }) if pid == parent)));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            assert_eq!(status, 0, "the child saw the parent alive, and nothing of its own");
        }
        let page = only(&bench.pages());
        assert_eq!((page.enq_ops, page.enq_bytes, page.inflight, page.state), (1, 4000, 1, State::OnWire));
        nccl.stop(op);
        assert_eq!(only(&bench.pages()).state, State::Compute);
    });
}

/// Calls the library, which cannot publish, through a whole round.
fn nothing_happens(nccl: &Nccl, wanted: bool) {
    let (context, mask) = nccl.init(PAIR, logger());
    assert_eq!((mask != 0, context != 0), (wanted, wanted));
    for _ in 0..100 {
        through(nccl, context, 1000, 2);
    }
    nccl.finalize(context);
}

#[test]
fn an_absent_directory_is_one_line() {
    alone(&[], || {
        let bench = Bench::new();
        std::fs::remove_dir(bench.pages()).expect("removed");
        nothing_happens(&bench.load(5), true);
        let lines = LINES.lock().expect("no panic");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].2.contains("no progress page") && lines[0].2.contains("pages"), "{lines:?}");
    });
}

#[test]
fn a_directory_that_takes_no_page_is_one_line() {
    alone(&[], || {
        let bench = Bench::new();
        set("SLUICE_SHM_DIR", Path::new("/proc/self/fd"));
        nothing_happens(&bench.load(5), true);
        assert_eq!(LINES.lock().expect("no panic").len(), 1);
    });
}

/// Promises: P-7
#[test]
fn a_full_file_system_is_one_line() {
    alone(&[], || {
        let bench = Bench::new();
        // No file may grow: to a writer as good as a full file system.
        // SAFETY: the limit is this process's, whose only test this is.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &none), 0);
        }
        nothing_happens(&bench.load(5), true);
        assert_eq!(LINES.lock().expect("no panic").len(), 1);
        assert!(std::fs::read_dir(bench.pages()).expect("readable").next().is_none(), "no half page stays");
    });
}

#[test]
fn switched_off_it_asks_for_nothing() {
    alone(&[("SLUICE_DISABLE", "1")], || {
        let bench = Bench::new();
        nothing_happens(&bench.load(6), false);
        assert!(pages(&bench.pages()).is_empty() && LINES.lock().expect("no panic").is_empty());
    });
}

#[test]
fn a_communicator_within_one_host_has_no_page() {
    alone(&[], || {
        let bench = Bench::new();
        let nccl = bench.load(5);
        let (context, _) = nccl.init(Shape { nnodes: 1, nranks: 8, ..PAIR }, logger());
        through(&nccl, context, 1000, 2);
        assert!(pages(&bench.pages()).is_empty());
        let all: Vec<_> = (0..70).map(|id| nccl.init(Shape { id, ..PAIR }, logger()).0).collect();
        assert_eq!(pages(&bench.pages()).len(), 63, "of the 64 places the first has none");
        assert_eq!(all.iter().filter(|context| **context == 0).count(), 7);
        let warnings = LINES.lock().expect("no panic").iter().filter(|(level, ..)| *level == log::WARN).count();
        assert_eq!(warnings, 1, "one warning per cause");
    });
}
