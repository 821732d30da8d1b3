//! A1: what a local user can do with files in the directory of pages.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::stat::{Mode, SFlag};
use sluice_progress::Page;
use sluice_progress::layout::at;

use crate::attacker::{Local, Who, ident, once, turn, until};
use crate::programs::Daemon;

/// A page as its writer leaves it, made here and moved: a file of the attacker's own, that nobody holds.
fn page(dir: &Path) -> Vec<u8> {
    let writer = Page::create(dir, ident("copied")).expect("a page");
    let path = dir.join(writer.file_name());
    let bytes = fs::read(&path).expect("own file");
    drop(writer);
    let _ = fs::remove_file(path); // The writer may have done that.
    bytes
}

/// Every file that is no page, by the name under which it is put there: 19 kinds.
fn hostile_files(dir: &Path) -> usize {
    let good = page(dir);
    let at_name = |name: &str| dir.join(name).with_extension("sp1");
    let put = |name: &str, bytes: &[u8]| fs::write(at_name(name), bytes).expect("own file");
    let with = |at: usize, byte: u8| {
        let mut page = good.clone();
        page[at] = byte;
        page
    };
    fs::write(dir.join("target"), &good).expect("own file");
    symlink(dir.join("target"), at_name("symlink-to-a-page")).expect("a link");
    symlink("/nonexistent", at_name("symlink-to-nothing")).expect("a link");
    symlink("/proc/self/mem", at_name("symlink-out-of-the-file-system")).expect("a link");
    symlink("/", at_name("symlink-to-a-directory")).expect("a link");
    symlink(at_name("symlink-to-itself"), at_name("symlink-to-itself")).expect("a link");
    put("hard-link", &good);
    fs::hard_link(at_name("hard-link"), dir.join("its-other-name")).expect("a link");
    nix::unistd::mkfifo(&at_name("fifo"), Mode::from_bits_truncate(0o600)).expect("a FIFO");
    let socket = UnixListener::bind(at_name("socket")).expect("a socket");
    fs::create_dir(at_name("directory")).expect("a directory");
    put("empty", &[]);
    put("a-byte-short", &good[..4095]);
    put("a-byte-long", &[good.as_slice(), &[0]].concat());
    File::create(at_name("a-tebibyte-of-nothing")).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    put("not-a-page", &[0xff; 4096]);
    put("of-a-later-version", &with(at::ABI_MAJOR, 9));
    put("of-a-later-format", &with(at::MAGIC + 7, b'9'));
    put("lies-about-its-size", &with(at::SEG_BYTES + 1, 0xff));
    put("lies-about-its-peers", &with(at::PEER_CAP + 1, 0xff));
    put("of-another-boot", &with(at::BOOT_ID, good[at::BOOT_ID] ^ 1));
    drop(socket);
    19
}

/// symbolic and hard links, FIFO, socket, directory, sizes, versions, headers that lie.
#[test]
fn what_is_no_page_is_refused_and_counted_and_an_honest_page_is_read() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (_attacker, hostile) = Local::start(Who::attacker(), || hostile_files(&dir));
    let (_victim, _) = Local::start(Who::victim(), || hold(&dir, "honest"));
    until("the honest job is known", || daemon.jobs() == ["honest"]);
    until("every hostile file was refused", || daemon.refused("page") >= hostile as f64);
    assert_eq!(daemon.jobs(), ["honest"]);
    let log = daemon.log();
    for word in ["symbolic link", "FIFO", "directory", "4097", "1099511627776", "link count", "magic", "boot_id"] {
        assert!(log.contains(word), "nothing says {word}");
    }
    daemon.goes_on();
}

/// A page that lives as long as its process.
fn hold(dir: &Path, job: &str) {
    std::mem::forget(Page::create(dir, ident(job)).expect("a page"));
}

/// a file lease, which makes a careless `open` wait for three quarters of a minute.
#[test]
fn a_lease_makes_nobody_wait() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (_attacker, leased) = Local::start(Who::attacker(), || {
        let page = page(&dir);
        // Found only once the lease is held.
        let hidden = dir.join("leased");
        fs::write(&hidden, page).expect("own file");
        let file = File::options().read(true).write(true).open(&hidden).expect("own file");
        // SAFETY: the descriptor is open; the signal of a break is ignored.
        let leased = unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
        };
        fs::rename(&hidden, dir.join("leased.sp1")).expect("renamed");
        std::mem::forget(file);
        usize::from(leased == 0)
    });
    if leased != 1 {
        return sluice_skip::skip!(Thing, "the file system of {} knows no leases", dir.display());
    }
    let began = Instant::now();
    until("the leased page was refused", || daemon.refused("page") >= 1.0);
    assert!(daemon.log().contains("holds a file lease"));
    daemon.goes_on();
    assert!(began.elapsed() < Duration::from_secs(40), "somebody waited for the lease to be broken");
}

/// truncated while it is read, and a name that is a page and a link by turns.
#[test]
fn truncating_and_renaming_under_the_reader_drop_the_page_only() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (racer, _) = Local::start(Who::attacker(), || {
        let writer = Page::create(&dir, ident("truncated")).expect("a page");
        let own = dir.join(writer.file_name());
        std::mem::forget(writer);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(2));
            File::options().write(true).open(own).and_then(|file| file.set_len(100)).expect("own file");
        });
        let (page, link, name) = (dir.join("a"), dir.join("b"), dir.join("flips.sp1"));
        let bytes = page_of_nobody(&dir);
        std::thread::spawn(move || {
            loop {
                let _ = fs::write(&page, &bytes).and_then(|()| fs::rename(&page, &name));
                let _ = symlink("/proc/self/environ", &link).and_then(|()| fs::rename(&link, &name));
            }
        });
    });
    until("the page is read", || daemon.jobs().contains(&"truncated".to_owned()));
    until("the page is dropped", || !daemon.jobs().contains(&"truncated".to_owned()));
    until("some flips were seen", || daemon.refused("page") >= 1.0);
    daemon.goes_on();
    racer.kill();
    let (_victim, _) = Local::start(Who::victim(), || hold(&dir, "honest"));
    until("the honest job is known", || daemon.jobs() == ["honest"]);
}

fn page_of_nobody(dir: &Path) -> Vec<u8> {
    let mut bytes = page(dir);
    bytes[at::MAGIC] = b'?';
    bytes
}

/// other users' pages, and devices: what the kernel keeps an attacker from, given the modes that the daemon sets.
#[test]
fn nobody_removes_replaces_reads_or_takes_over_anothers_page() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (_victim, name) = Local::start(Who::victim(), || {
        let writer = Page::create(&dir, ident("honest")).expect("a page");
        let name = writer.file_name().to_owned();
        std::mem::forget(writer);
        name
    });
    until("the honest job is known", || daemon.jobs() == ["honest"]);
    let theirs = dir.join(&name);
    let through = once(Who::attacker(), || {
        let got = |what: &str, worked: bool| worked.then(|| what.to_owned());
        let device =
            nix::sys::stat::mknod(&dir.join("null.sp1"), SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), 0x103);
        let mut page = page(&dir);
        page[at::MAGIC] = b'S';
        fs::write(dir.join("mine"), page).expect("own file");
        let all = [
            got("removed it", fs::remove_file(&theirs).is_ok()),
            got("replaced it", fs::rename(dir.join("mine"), &theirs).is_ok()),
            got("renamed it", fs::rename(&theirs, dir.join("elsewhere.sp1")).is_ok()),
            got("wrote to it", File::options().write(true).open(&theirs).is_ok()),
            got("read it", File::open(&theirs).is_ok()),
            got("made a device", device.is_ok()),
            got("removed the directory", fs::remove_dir_all(&dir).is_ok()),
            got("wrote beside the socket", fs::write(dir.join("../x"), "x").is_ok()),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    });
    assert_eq!(through, "");
    // Where the kernel lets anybody link to it (fs.protected_hardlinks = 0), it has two names, and neither is a page.
    let linked = once(Who::attacker(), || usize::from(fs::hard_link(&theirs, dir.join("linked.sp1")).is_ok()));
    daemon.goes_on();
    if linked == 0 {
        assert_eq!(daemon.jobs(), ["honest"]);
    } else {
        until("a page with two names is refused", || daemon.refused("page") >= 1.0);
        assert!(daemon.jobs().len() <= 1, "{:?}", daemon.jobs());
    }
    assert!(fs::metadata(&theirs).is_ok(), "it is still there");
}

/// a file that one user owns and another user's process holds: nothing of it may be believed.
#[test]
fn a_page_whose_lock_another_user_holds_is_not_believed() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    // A user who lets everybody write to his page: another one's process holds its lock.
    let (_careless, name) = Local::start(Who::victim(), || {
        let bytes = page(&dir);
        let path = dir.join("open-to-all");
        fs::write(&path, bytes).expect("own file");
        crate::attacker::allow(&path, 0o666);
        format!("{}", path.display())
    });
    let (_attacker, _) = Local::start(Who::attacker(), || {
        let file = File::options().read(true).write(true).open(&name).expect("open to all");
        file.write_all_at(b"stolen\0", at::JOB_ID as u64).expect("written");
        let lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: F_SETLK reads one flock, which `lock` is.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) }, 0, "locked");
        std::mem::forget(file);
    });
    fs::rename(&name, dir.join("open-to-all.sp1")).expect("as root");
    until("it was refused", || daemon.refused("page") >= 1.0);
    assert!(daemon.log().contains("runs as another user"));
    assert_eq!(daemon.jobs(), [""; 0]);
}

/// names that look like something. They are never read for meaning, and never printed raw.
#[test]
fn the_name_of_a_page_means_nothing() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (_attacker, files) = Local::start(Who::attacker(), || {
        let names: [&[u8]; 5] =
            [b"..sp1.sp1", b"\x1b]0;x\x07.sp1", b"a\nb.sp1", b"\xff\xfe.sp1", b"65533-1-honest.sp1"];
        for name in names {
            fs::write(dir.join(std::ffi::OsStr::from_bytes(name)), [0; 4096]).expect("own file");
        }
        names.len()
    });
    until("all were refused", || daemon.refused("page") >= files as f64);
    let log = daemon.log();
    assert_eq!(crate::programs::unsafe_in(&log), [], "{log}");
    assert!(log.lines().all(|line| line.starts_with('{')), "a name forged a line: {log}");
    daemon.goes_on();
}

/// a directory with very many files, and names that change all the time.
#[test]
fn a_flood_of_files_costs_hints_and_no_slot() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (_attacker, _) = Local::start(Who::attacker(), || {
        for n in 0..8_000 {
            File::create(dir.join(format!("{n}.sp1"))).expect("own file");
        }
        std::thread::spawn(move || {
            for n in 0_u64.. {
                let name = |n: u64| dir.join(format!("moving-{n}.sp1"));
                let _ = File::create(name(n)).and_then(|_| fs::rename(name(n), name(n + 1)));
                std::thread::sleep(Duration::from_micros(500));
            }
        });
    });
    let dir = daemon.pages();
    let (_victim, _) = Local::start(Who::victim(), || hold(&dir, "honest"));
    until("the honest job is known", || daemon.jobs() == ["honest"]);
    // On a busy machine slots are late for other reasons: of three tries one must be good.
    let counts = || {
        let counters = &daemon.snapshot()["counters"];
        ["slots", "slots_late"].map(|name| counters[name].as_u64().expect("a count"))
    };
    let tries: Vec<[u64; 2]> = (0..3)
        .map(|_| {
            let before = counts();
            std::thread::sleep(Duration::from_millis(1_500));
            let after = counts();
            [after[0] - before[0], after[1] - before[1]]
        })
        .collect();
    let good = tries.iter().any(|[slots, late]| *slots >= 15 && late * 10 <= *slots);
    assert!(good, "slots, and those decided late: {tries:?}");
    assert!(daemon.refused("page") >= 1_000.0, "{}", daemon.refused("page"));
}

/// processes with as many pages as they like, each of whose locks is held.
#[test]
fn a_user_with_many_pages_that_live_keeps_nobody_out() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (bomb, _) = Local::start(Who::attacker(), || {
        for n in 0..200 {
            hold(&dir, &format!("bomb-{n}"));
        }
    });
    let (_victim, _) = Local::start(Who::victim(), || hold(&dir, "honest"));
    until("the honest job is known", || daemon.jobs().contains(&"honest".to_owned()));
    until("the rest was refused", || daemon.refused("page") >= 136.0);
    let of_the_bomb = daemon.jobs().iter().filter(|job| job.starts_with("bomb")).count();
    assert!(of_the_bomb <= 64, "{of_the_bomb}");
    bomb.kill();
    until("the dead are forgotten", || daemon.jobs() == ["honest"]);
    until("their pages are gone", || fs::read_dir(&dir).expect("readable").flatten().count() <= 140);
}
