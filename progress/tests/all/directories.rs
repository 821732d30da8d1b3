//! Directories of pages: what a scan of them takes and whom it lets in, and what becomes of a writer that has none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sluice_progress::{Budget, Found, Page, PageError, Scan};
use sluice_skip::skip;

use crate::support::{Job, good_page, ident, pages_in};

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
