//! The library before a program with more rights than its caller, whose environment is the caller's: it does nothing there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;

use sluice_skip::skip;

use crate::rights::{CALLER, apart, has_more_rights};
use crate::support::calls::Style;
use crate::support::node::{self, Job};
use crate::support::{Running, clean, library};

/// What a worker and a server came to.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    more_rights: [bool; 2],
    /// Is the library in them?
    loaded: [bool; 2],
    /// What lies in the directory that the caller named.
    files: usize,
    said: [String; 2],
}

/// Runs both, started by [`CALLER`] with all variables of a job.
fn run(program: &Path, meeting: &Path, pages: &Path) -> Seen {
    let job = Job {
        rounds: 2,
        sizes: vec![300, 70_000],
        style: Style::Mixed(0x1234_5678_9abc),
        one_connection: false,
        fork: false,
    };
    let start = |worker: bool| {
        let mut command = clean(program, false);
        node::tell(&mut command, worker, meeting, &job);
        command.env("DMLC_ROLE", if worker { "worker" } else { "server" }).env("SLUICE_SHM_DIR", pages);
        command.uid(CALLER).gid(CALLER);
        Running::start(command)
    };
    let mut both = [start(true), start(false)];
    both.iter_mut().for_each(Running::finish);
    let maps = |pid: u32| fs::read_to_string(format!("/proc/{pid}/maps")).expect("root may read it");
    let seen = Seen {
        more_rights: both.each_ref().map(|running| has_more_rights(running.pid())),
        loaded: both.each_ref().map(|running| maps(running.pid()).contains("libsluice_pslite.so")),
        files: fs::read_dir(pages).expect("readable").count(),
        said: both.each_ref().map(|running| running.said.clone()),
    };
    both.into_iter().for_each(Running::end);
    seen
}

/// A caller cannot have a library loaded before such a program; an administrator can have it loaded before all.
#[test]
fn in_a_program_with_more_rights_than_its_caller_it_does_nothing() {
    let done = apart(|place| {
        let (same, more, library) = (place.program(false), place.program(true), place.library(&library()));
        let seen = |what: &str, program: &Path| {
            run(program, &place.open(&format!("meeting {what}")), &place.open(&format!("pages {what}")))
        };
        let without = seen("without", &more);
        assert_eq!((without.more_rights, without.loaded, without.files), ([true; 2], [false; 2], 0));
        place.preload(&library);
        let ordinary = seen("same", &same);
        assert_eq!((ordinary.more_rights, ordinary.loaded, ordinary.files), ([false; 2], [true; 2], 2));
        assert_eq!(seen("more", &more), Seen { loaded: [true; 2], ..without });
    });
    if let Err(why) = done {
        skip!(Privilege, "no mounts here: {why}");
    }
}
