//! A writer and a reader on real files: liveness over processes, groups that are never torn, and hostile files.
//!
//! The writer always lives in another process: locks of the own one do not show, and closing a reader would drop them.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sluice_progress::layout::{self, PAGE_BYTES, at};
use sluice_progress::{
    Budget, Found, Ident, Liveness, Page, PageError, PageView, Pattern, Peer, PeerKind, Reader, Scan, Source, State,
    Writer,
};
use sluice_skip::skip;

/// A forked writer process; killed and waited for when dropped.
struct Job {
    pid: i32,
}

impl Job {
    /// Forks; the child runs `act` with its page and then sleeps until it is killed. Returns once the page is ready.
    fn start(dir: &Path, act: impl FnOnce(&Writer)) -> Job {
        let mut pipe = [0; 2];
        // SAFETY: `pipe` holds two descriptors; the child only uses its own memory and never returns.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let pid = libc::fork();
            assert!(pid >= 0, "fork");
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if let Some(writer) = Page::create(dir, ident("4711")) {
                    libc::write(pipe[1], [1_u8].as_ptr().cast(), 1);
                    act(&writer);
                    libc::write(pipe[1], [1_u8].as_ptr().cast(), 1);
                    loop {
                        libc::pause();
                    }
                }
                libc::_exit(1);
            }
            libc::close(pipe[1]);
            let job = Job { pid };
            let mut byte = [0];
            File::from_raw_fd(pipe[0]).read_exact(&mut byte).expect("the child has its page");
            job
        }
    }

    fn kill(&self) {
        // SAFETY: the pid is that of a child not yet waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.kill();
    }
}

fn ident(job: &str) -> Ident {
    let mut ident = Ident::new(Source::Application);
    ident.job_id = job.into();
    ident.producer = "test 1".into();
    ident.rank = 3;
    ident.nranks = 8;
    ident.pattern = Pattern::Ring;
    ident
}

fn only_page(dir: &Path) -> PathBuf {
    let mut pages = pages_in(dir);
    assert_eq!(pages.len(), 1);
    pages.remove(0)
}

fn pages_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|ext| ext == "sp1")).collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

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
fn two_writers_one_scan_and_a_killed_job_is_reaped() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let one = Job::start(dir.path(), |page| page.enqueue(1, 1));
    let _two = Job::start(dir.path(), |page| page.enqueue(2, 2));
    let mut scan = Scan::new(dir.path(), Budget::default());
    let step = scan.step().expect("the directory is readable");
    assert!(step.complete);
    assert_eq!(scan.len(), 2);
    assert!(scan.reap().is_empty());
    one.kill();
    assert_eq!(scan.reap().len(), 1);
    assert_eq!((scan.len(), pages_in(dir.path()).len()), (1, 1));
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

/// A page as a finished writer of this boot would have left it.
fn good_page(dir: &Path) -> Vec<u8> {
    let writer = Page::create(dir, ident("x")).expect("a page");
    let bytes = fs::read(dir.join(writer.file_name())).expect("readable");
    drop(writer);
    bytes
}

#[test]
fn every_hostile_file_has_its_own_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let good = good_page(dir.path());
    let with = |at: usize, byte: u8| {
        let mut page = good.clone();
        page[at] = byte;
        page
    };
    let path = |name: &str| dir.path().join(name).with_extension("sp1");
    let open = |name: &str| Reader::open(path(name)).map(drop).expect_err("must be refused");
    let put = |name: &str, bytes: &[u8]| fs::write(path(name), bytes).expect("write");

    let fifo = CString::new(path("fifo").as_os_str().as_bytes()).expect("a name");
    // SAFETY: the name is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    assert!(matches!(open("fifo"), PageError::NotRegular { kind: "FIFO", .. }));
    fs::create_dir(path("dir")).expect("mkdir");
    assert!(matches!(open("dir"), PageError::NotRegular { kind: "directory", .. }));
    put("target", &good);
    symlink(path("target"), path("symlink")).expect("symlink");
    assert!(matches!(open("symlink"), PageError::Symlink { .. }));
    fs::hard_link(path("target"), path("hard")).expect("link");
    assert!(matches!(open("hard"), PageError::Linked { links: 2, .. }));
    put("short", &good[..4095]);
    assert!(matches!(open("short"), PageError::WrongSize { size: 4095, .. }));
    put("empty", &[]);
    assert!(matches!(open("empty"), PageError::WrongSize { size: 0, .. }));
    File::create(path("sparse")).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    assert!(matches!(open("sparse"), PageError::WrongSize { size, .. } if size == 1 << 40));
    put("magic", &with(at::MAGIC, b'X'));
    assert!(matches!(open("magic"), PageError::BadMagic { .. }));
    put("major", &with(at::ABI_MAJOR, 2));
    assert!(matches!(open("major"), PageError::Major { found: 2, .. }));
    put("digit", &with(at::MAGIC + 7, b'2'));
    assert!(matches!(open("digit"), PageError::Major { .. }));
    put("peers-off", &with(at::PEERS_OFF, 1));
    assert!(matches!(open("peers-off"), PageError::Header { field: "peers_off", found: 513, allowed: 512, .. }));
    put("boot", &with(at::BOOT_ID, good[at::BOOT_ID] ^ 1));
    assert!(matches!(open("boot"), PageError::OtherBoot { .. }));
    assert!(matches!(open("absent"), PageError::Open { .. }));
    for name in ["fifo", "dir", "symlink", "hard", "short", "magic", "major", "boot", "absent"] {
        let message = open(name).to_string();
        assert!(message.contains(&format!("{name}.sp1")), "{message}");
    }

    let mut scan = Scan::new(dir.path(), Budget::default());
    let first = scan.step().expect("readable").found;
    assert!(first.iter().all(|found| matches!(found, Found::Refused(_))), "{first:?}");
    assert!(first.len() >= 12, "{first:?}");
    assert!(scan.step().expect("readable").found.is_empty(), "a refusal is reported once");
}

#[test]
fn a_lease_does_not_block_the_daemon() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("leased.sp1"), good_page(dir.path())).expect("write");
    let path = dir.path().join("leased.sp1");
    let file = File::options().read(true).write(true).open(&path).expect("own file");
    // SAFETY: the descriptor is open; SIGIO for the break is ignored by this process.
    let leased = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_SETLEASE, libc::F_WRLCK)
    };
    if leased != 0 {
        return skip!(Thing, "the file system of {} knows no leases", dir.path().display());
    }
    let started = Instant::now();
    assert!(matches!(Reader::open(&path), Err(PageError::Leased { .. })));
    assert!(started.elapsed() < Duration::from_secs(20), "a lease break takes 45 s");
}

#[test]
fn truncating_under_the_reader_is_an_error_and_not_a_signal() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("page.sp1");
    fs::write(&path, good_page(dir.path())).expect("write");
    let mut reader = Reader::open(&path).expect("a good page");
    File::options().write(true).open(&path).and_then(|file| file.set_len(100)).expect("truncate");
    assert!(matches!(reader.read(), Err(PageError::Short { .. })));
}

#[test]
fn quotas_and_budget_bound_a_scan() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let good = good_page(dir.path());
    for n in 0..40 {
        fs::write(dir.path().join(format!("{n}.sp1")), &good).expect("write");
        fs::write(dir.path().join(format!("{n}.txt")), &good).expect("write");
    }
    let budget = Budget { entries: 16, per_uid: 10, ..Budget::default() };
    let mut scan = Scan::new(dir.path(), budget);
    let mut steps = 0;
    let mut quota = 0;
    loop {
        let step = scan.step().expect("readable");
        quota += step.found.iter().filter(|found| matches!(found, Found::Refused(PageError::Quota { .. }))).count();
        steps += 1;
        if step.complete {
            break;
        }
        assert!(steps < 100);
    }
    assert!(steps > 4, "{steps} steps for 80 entries at 16 each");
    assert_eq!((scan.len(), quota), (10, 30));
    assert!(Scan::new(dir.path().join("absent"), budget).step().is_err());
}

#[test]
fn a_user_with_thousands_of_pages_keeps_nobody_out() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let good = good_page(dir.path());
    let put = |uid: u32, from: usize, to: usize| {
        for n in from..to {
            let path = dir.path().join(format!("{uid}-{n}.sp1"));
            fs::write(&path, &good).expect("write");
            if std::os::unix::fs::chown(&path, Some(uid), None).is_err() {
                return false;
            }
        }
        true
    };
    let budget = Budget { entries: 100_000, time: Duration::from_secs(600), per_uid: 64, pages: 32 };
    let mut scan = Scan::new(dir.path(), budget);
    let mut pass = || {
        let step = scan.step().expect("readable");
        assert!(step.complete);
        let displaced = step.found.iter().filter(|found| matches!(found, Found::Displaced(_))).count();
        let of = |scan: &mut Scan, uid| scan.pages().filter(|(_, page)| page.uid() == uid).count();
        (of(&mut scan, 1000), of(&mut scan, 1001), displaced)
    };
    if !put(1000, 0, 2000) {
        return skip!(Privilege, "only root gives files away");
    }
    assert_eq!(pass(), (32, 0, 0));
    assert!(put(1001, 0, 3));
    assert_eq!(pass(), (29, 3, 3));
    // Those that had to go do not come back for it, nor do others of the same user.
    assert!(put(1000, 2000, 3000));
    assert_eq!(pass(), (29, 3, 0));
    // Two that both want everything have half of it each, and nothing goes to and fro.
    assert!(put(1001, 3, 1000));
    assert_eq!(pass(), (16, 16, 13));
    for _ in 0..3 {
        assert_eq!(pass(), (16, 16, 0));
    }
}

/// Promises: P-7
#[test]
fn a_full_or_absent_directory_is_silence() {
    assert!(Page::create(Path::new("/nonexistent/sluice"), ident("x")).is_none());
    assert!(Page::create(Path::new("/proc"), ident("x")).is_none());
    assert!(Page::create(Path::new("/dev/null"), ident("x")).is_none());
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn mutated_pages_are_refused_or_bounded(changes in prop::collection::vec((0..PAGE_BYTES, any::<u8>()), 0..64)) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut page = good_page(dir.path());
        for (at, byte) in changes {
            page[at] = byte;
        }
        let path = dir.path().join("page.sp1");
        fs::write(&path, page).expect("write");
        if let Ok(mut reader) = Reader::open(&path) {
            let view = reader.read().expect("readable");
            prop_assert!(view.peers.len() <= layout::PEER_CAP);
            let _ = (view.iteration_bytes(), reader.owner());
        }
    }
}
