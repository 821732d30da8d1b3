//! A writer and a reader on real files: liveness over processes, and groups that are never torn.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use sluice_progress::layout::{self, at};
use sluice_progress::{Liveness, Page, PageView, Pattern, Peer, PeerKind, Reader, Source, State};

use crate::support::{Job, ident, only_page, until};

#[test]
fn what_a_job_writes_is_what_the_daemon_reads() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let job = Job::start(dir.path(), |page| {
        page.ring(2, 4);
        page.peer(&Peer {
            rank: Some(4),
            kind: PeerKind::Connected,
            local: "10.0.0.3:5000".parse().expect("an address"),
            remote: "[fd00::4]:6000".parse().expect("an address"),
            cookie: 99,
            tx_bytes: 0,
        });
        page.enqueue(100, 175);
        page.iteration();
        page.enqueue(1000, 1750);
        page.net_begin();
        page.sent(7);
        page.received(8);
    });
    let mut reader = Reader::open(only_page(dir.path())).expect("a good page");
    until("the last event", || reader.read().expect("readable").rx_bytes == 8);
    let view = reader.read().expect("readable");
    assert_eq!((view.job_id.as_str(), view.producer.as_str()), ("4711", "test 1"));
    assert_eq!((view.rank, view.nranks, view.pattern, view.source), (Some(3), 8, Pattern::Ring, Source::Application));
    assert_eq!((view.enq_bytes, view.enq_ops, view.enq_wire_bytes), (1100, 2, 1925));
    assert_eq!((view.iteration.count, view.iteration_bytes()), (1, 1000));
    assert_eq!((view.state, view.inflight, view.phase_seq, view.tx_bytes), (State::OnWire, 1, 1, 7));
    assert_eq!((view.ring_prev, view.ring_next), (Some(2), Some(4)));
    assert_eq!(view.peers.len(), 1);
    assert_eq!(view.peers[0].local.to_string(), "10.0.0.3:5000");
    assert_eq!(view.peers[0].remote.to_string(), "[fd00::4]:6000");
    assert_eq!(reader.owner(), Liveness::Alive { pid: Some(job.pid as u32) });
    job.kill();
    assert_eq!(reader.owner(), Liveness::Dead);
    assert_eq!(reader.read().expect("the file stays").enq_bytes, 1100);
}

#[test]
fn counters_and_groups_hold_while_threads_write() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _job = Job::start(dir.path(), |page| {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        page.enqueue(10, 10);
                        page.iteration();
                    }
                });
            }
        });
    });
    let mut reader = Reader::open(only_page(dir.path())).expect("a good page");
    let (mut last, mut turn, mut view) = ((0, 0), 0, PageView::default());
    until("both writers are done", || {
        turn += 1;
        // Whole readings and refreshed ones in turn.
        if turn % 2 == 0 || !reader.refresh(&mut view).expect("readable") {
            view = reader.read().expect("readable");
        }
        let now = (view.iteration.count, view.iteration.base_bytes);
        assert!(now.0 >= last.0 && now.1 >= last.1, "the group went back: {last:?} to {now:?}");
        // Each of the two threads enqueues 10 before each iteration.
        assert!(now.1 + 20 >= now.0 * 10, "base {} does not belong to iteration {}", now.1, now.0);
        last = now;
        view.enq_bytes == 400_000 && view.iteration.count == 40_000
    });
}

#[test]
fn a_refreshed_reading_is_a_new_one_until_connections_change() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let peer = |port| Peer {
        rank: Some(4),
        kind: PeerKind::Connected,
        local: format!("10.0.0.3:{port}").parse().expect("an address"),
        remote: "10.0.0.4:6000".parse().expect("an address"),
        cookie: 0,
        tx_bytes: 0,
    };
    let _job = Job::start(dir.path(), |page| {
        page.peer(&peer(5000));
        page.enqueue(100, 175);
    });
    let path = only_page(dir.path());
    let mut reader = Reader::open(&path).expect("a good page");
    until("the round", || reader.read().expect("readable").enq_bytes == 100);
    let mut view = reader.read().expect("readable");
    let file = File::options().write(true).open(&path).expect("own file");
    for (at, value) in [(at::ENQ_BYTES, 300_u64), (at::RX_BYTES, 9), (at::STATE, 2), (at::ITER, 5), (at::ITER_SEQ, 8)] {
        file.write_all_at(&value.to_le_bytes(), at as u64).expect("write");
    }
    assert!(reader.refresh(&mut view).expect("readable"));
    assert_eq!(view, reader.read().expect("readable"));
    assert_eq!((view.enq_bytes, view.rx_bytes, view.iteration.count, view.peers.len()), (300, 9, 5, 1));
    // Half-written groups, and other connections: nothing is taken over.
    let seq = |offset: usize, value: u32| file.write_all_at(&value.to_le_bytes(), offset as u64).expect("write");
    let topology =
        u32::from_le_bytes(std::fs::read(&path).expect("readable")[at::TOPO_SEQ..][..4].try_into().expect("4"));
    for (offset, odd, even) in [(at::ITER_SEQ, 9, 10), (at::TOPO_SEQ, topology + 1, topology + 2)] {
        seq(offset, odd);
        seq(at::ENQ_OPS, 77);
        let before = view.clone();
        assert!(!reader.refresh(&mut view).expect("readable"), "{offset:#x} is odd");
        assert_eq!(view, before);
        seq(offset, even);
    }
    assert!(!reader.refresh(&mut view).expect("readable"), "the connections are new");
    view = reader.read().expect("readable");
    assert!(reader.refresh(&mut view).expect("readable"));
}

#[test]
fn what_a_library_learns_late_reaches_a_reader_that_only_refreshes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let address = "10.0.0.1:1".parse().expect("an address");
    let peer = Peer { rank: None, kind: PeerKind::Connected, local: address, remote: address, cookie: 0, tx_bytes: 0 };
    let _job = Job::start(dir.path(), |page| {
        let slot = page.peer(&peer);
        std::thread::sleep(Duration::from_millis(50));
        page.dropped();
        page.error();
        page.expect(30);
        if let Some(slot) = slot {
            page.peer_rank(slot, 4);
        }
        page.usual_iteration(77);
        page.pattern(Pattern::Tree);
    });
    let mut reader = Reader::open(only_page(dir.path())).expect("a good page");
    let mut view = reader.read().expect("readable");
    until("the pattern", || {
        let fresh = reader.refresh(&mut view).expect("readable");
        if !fresh {
            view = reader.read().expect("readable");
        }
        view.pattern == Pattern::Tree
    });
    assert_eq!((view.drops, view.errors, view.enq_wire_bytes, view.peers[0].rank), (1, 1, 30, Some(4)));
    assert_eq!(view.hint_iter_bytes, 77);
}

#[test]
fn a_writer_killed_inside_a_group_leaves_the_last_good_copy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let job = Job::start(dir.path(), |page| {
        page.enqueue(5, 5);
        page.iteration();
    });
    let path = only_page(dir.path());
    let mut reader = Reader::open(&path).expect("a good page");
    until("the iteration", || reader.read().expect("readable").iteration.count == 1);
    job.kill();
    // What a kill between the two stores of the sequence number leaves behind.
    let file = File::options().write(true).open(&path).expect("own file");
    file.write_all_at(&3_u64.to_le_bytes(), at::ITER_SEQ as u64).expect("write");
    file.write_all_at(&77_u64.to_le_bytes(), at::ITER as u64).expect("write");
    for _ in 0..3 {
        let view = reader.read().expect("readable");
        assert!(view.iteration_stale && !view.peers_stale);
        assert_eq!((view.iteration.count, view.enq_bytes), (1, 5));
    }
    // A daemon that comes later has no good copy: nothing is better than half of something.
    let view = Reader::open(&path).and_then(|mut late| late.read()).expect("readable");
    assert_eq!(view.iteration, Default::default());
}

#[test]
fn killing_a_writer_at_any_moment_leaves_a_whole_group_or_none() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut torn = 0;
    for round in 0..40_u64 {
        let job = Job::start(dir.path(), |page| {
            loop {
                page.enqueue(10, 10);
                page.iteration();
            }
        });
        let path = only_page(dir.path());
        let mut reader = Reader::open(&path).expect("a good page");
        std::thread::sleep(Duration::from_micros(200 + 37 * round));
        let before = reader.read().expect("readable").iteration;
        job.kill();
        let view = reader.read().expect("readable");
        torn += u32::from(view.iteration_stale);
        assert_eq!(view.iteration.base_bytes, 10 * view.iteration.count, "round {round}");
        assert!(view.iteration.count >= before.count);
        fs::remove_file(path).expect("own file");
    }
    println!("{torn} of 40 writers died inside the group");
}

#[test]
fn a_forked_child_writes_nothing_and_does_not_keep_the_page_alive() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let job = Job::start(dir.path(), |page| {
        page.enqueue(1, 1);
        // SAFETY: the child only calls the writer and sleeps; it dies with its parent.
        unsafe {
            if libc::fork() == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                page.enqueue(1000, 1000);
                page.iteration();
                loop {
                    libc::pause();
                }
            }
        }
        std::thread::sleep(Duration::from_millis(20));
        page.enqueue(1, 1);
    });
    let mut reader = Reader::open(only_page(dir.path())).expect("a good page");
    until("the parent's second event", || reader.read().expect("readable").enq_ops == 2);
    let view = reader.read().expect("readable");
    assert_eq!((view.enq_bytes, view.iteration.count), (2, 0));
    job.kill();
    assert_eq!(reader.owner(), Liveness::Dead);
}

#[test]
fn the_57th_peer_sets_a_bit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let writer = Page::create(dir.path(), ident("x")).expect("a page");
    let address = "10.0.0.1:1".parse().expect("an address");
    let peer = Peer { rank: None, kind: PeerKind::Accepted, local: address, remote: address, cookie: 0, tx_bytes: 0 };
    let slots: Vec<_> = (0..60).filter_map(|_| writer.peer(&peer)).collect();
    assert_eq!(slots.len(), layout::PEER_CAP);
    writer.peer_gone(slots[0]);
    let copy = dir.path().join("copy.sp1");
    fs::write(&copy, fs::read(dir.path().join(writer.file_name())).expect("read")).expect("write");
    let view = Reader::open(copy).and_then(|mut reader| reader.read()).expect("readable");
    assert!(view.more_peers);
    assert_eq!((view.peers.len(), view.peers[0].rank), (layout::PEER_CAP - 1, None));
}
