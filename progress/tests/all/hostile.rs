//! Files that are no pages, or no longer: each is refused with an error of its own, and none holds or ends its reader.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sluice_progress::layout::{self, PAGE_BYTES, at};
use sluice_progress::{Budget, Found, PageError, Reader, Scan};
use sluice_skip::skip;

use crate::support::good_page;

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
