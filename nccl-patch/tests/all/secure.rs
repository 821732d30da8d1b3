//! The plug-in in a program with more rights than its caller, whose environment is the caller's: it does nothing there.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use sluice_skip::skip;

use crate::rights::{CALLER, allow, apart};
use crate::support::*;

/// Where the library is.
const LIBRARY: &str = "SLUICE_TEST_LIBRARY";
/// What stands before what the program has seen.
const SEEN: &str = "seen: ";

/// The program: it uses the library as NCCL does, in every version.
#[test]
#[ignore = "run by the other test, as another user"]
fn program() {
    let library = PathBuf::from(std::env::var_os(LIBRARY).expect("told"));
    let dir = PathBuf::from(std::env::var_os("SLUICE_SHM_DIR").expect("told"));
    // SAFETY: getauxval has no preconditions.
    let more = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    println!("{SEEN}more rights {more}");
    for version in VERSIONS {
        let nccl = Nccl::load(&library, version);
        let (context, mask) = nccl.init(PAIR, logger());
        let coll = nccl.coll(context, &all_reduce(1000, 1));
        let op = nccl.op(context, coll, 0, 1, true);
        let (asks, follows, handles) = (mask != 0, context != 0, coll != 0 && op != 0);
        println!("{SEEN}{version}: asks {asks} follows {follows} handles {handles} pages {}", pages(&dir).len());
        nccl.stop(op);
        nccl.finalize(context);
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("its own");
    println!("{SEEN}another library {}", maps.contains("libnext.so"));
    println!("{SEEN}lines {}", !LINES.lock().expect("no panic").is_empty());
}

/// what the caller's environment names is neither written to nor loaded.
#[test]
fn in_a_program_with_more_rights_than_its_caller_it_does_nothing_and_loads_nothing() {
    let done = apart(|place| {
        let library = place.library(&library());
        let next = compile(place.path(), "libnext.so", "int next;\n", &[]);
        allow(&next, 0o755);
        for more in [false, true] {
            let dir = place.open(if more { "pages of more" } else { "pages of same" });
            let mut command = Command::new(place.program(more));
            command.args(["--exact", "secure::program", "--ignored", "--nocapture", "--test-threads=1"]);
            clean(&mut command);
            command.env(LIBRARY, &library).env("SLUICE_SHM_DIR", &dir).env("SLUICE_NCCL_NEXT", &next);
            let output = command.uid(CALLER).gid(CALLER).output().expect("it starts");
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && err.is_empty(), "{}\n{out}\n{err}", output.status);
            let seen: Vec<&str> = out.lines().filter_map(|line| Some(line.split_once(SEEN)?.1)).collect();
            // Where it has no more rights than its caller, the same program shows that there is something to be kept from.
            let on = !more;
            let mut expected = vec![format!("more rights {more}")];
            let pages = usize::from(on);
            let of = |version: u8| format!("{version}: asks {on} follows {on} handles {on} pages {pages}");
            expected.extend(VERSIONS.map(of));
            expected.extend([format!("another library {on}"), format!("lines {on}")]);
            assert_eq!(seen, expected);
            assert_eq!(std::fs::read_dir(&dir).expect("readable").count(), 0, "pages go with their communicators");
        }
    });
    if let Err(why) = done {
        skip!(Privilege, "no mounts here: {why}");
    }
}
