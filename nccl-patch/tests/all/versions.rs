//! A profiler of every version of the interface behind this one, under an NCCL of every later one: it is told what NCCL
//! itself would tell a plug-in of that version.

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};

use crate::support::headers::*;
use crate::support::*;

const NEXT: &str = include_str!("../support/next.c");

/// What the next library was told since it was last asked.
fn told(library: &Path) -> Vec<String> {
    let path = CString::new(library.to_str().expect("text")).expect("no NUL");
    // SAFETY: the library is loaded already; its function has this signature and returns a text of its own.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        let function = libc::dlsym(library, c"what_was_told".as_ptr());
        assert!(!function.is_null());
        let function: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(function);
        CStr::from_ptr(function()).to_string_lossy().lines().map(str::to_owned).collect()
    }
}

/// The next library, named in the environment and with a directory of pages.
fn next(root: &Path, options: &[&str]) -> PathBuf {
    let library = compile(root, "libnext.so", NEXT, options);
    set("SLUICE_NCCL_NEXT", &library);
    set("SLUICE_SHM_DIR", root);
    library
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Two {
    first: u64,
    second: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct GroupApi {
    captured: u8,
    depth: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CollApi {
    func: *const c_char,
    count: u64,
}

/// Everything that NCCL of this version tells of one collective and one send.
fn all_of_it(nccl: &Nccl) {
    let of = nccl.version;
    let (context, _) = nccl.init(PAIR, None);
    let put = |kind: u64, parent: Handle, union: &dyn Fn(u64, usize) -> Descr| {
        nccl.start_raw(context, union(kind, parent).at())
    };
    let head = |kind, parent| Descr::new(of, kind, parent, 0, &ProxyStep { step: 0 });
    let mut call = 0;
    let mut group_api = 0;
    if of >= 5 {
        group_api =
            put(1 << 8, 0, &|kind, parent| Descr::new(of, kind, parent, 0, &GroupApi { captured: 0, depth: 3 }));
        let api = CollApi { func: c"AllReduce".as_ptr(), count: 1000 };
        call = put(1 << 9, group_api, &|kind, parent| Descr::new(of, kind, parent, 0, &api));
        nccl.state(group_api, 23, None);
    }
    let group = put(1, 0, &head);
    let coll = all_reduce(1000, 2);
    let mut union = coll.union(of);
    if of >= 5 {
        union.v7.parent_group = group as *const _;
    }
    let coll = put(2, if of >= 5 { call } else { group }, &|kind, parent| Descr::new(of, kind, parent, 0, &union));
    let send = P2pV7 {
        func: c"Send".as_ptr(),
        buff: NOWHERE,
        datatype: c"ncclInt8".as_ptr(),
        count: 77,
        peer: 1,
        n_channels: 2,
        parent_group: group as *const _,
        user_tag: 9,
    };
    let before = P2pV2 {
        name: EMPTY,
        comm_hash: 1,
        func: send.func,
        buff: NOWHERE,
        datatype: send.datatype,
        count: 77,
        peer: 1,
    };
    let below = if of >= 5 { group_api } else { group };
    let p2p = put(4, below, &|kind, parent| {
        if of <= 3 { Descr::new(of, kind, parent, 0, &before) } else { Descr::new(of, kind, parent, 0, &send) }
    });
    let op = nccl.op(context, coll, 1, 1, true);
    nccl.state(op, 19, None);
    let step = nccl.step(context, op, 5);
    nccl.state(step, 20, Some(0));
    nccl.state(step, 9, Some(1500));
    let mut more = Vec::new();
    if of >= 3 {
        let net = Two { first: 0x1_0001, second: 0x40 };
        more.push(put(1 << 7, step, &|kind, parent| Descr::new(of, kind, parent, 0, &net)));
        nccl.state(more[0], 21, Some(0x50));
        let kernel = Two { first: 3, second: 99 };
        more.push(put(1 << 6, coll, &|kind, parent| Descr::new(of, kind, parent, 0, &kernel)));
        nccl.state(more[1], 22, Some(123));
    }
    let control = put(1 << 5, 0, &head);
    nccl.state(control, 17, Some(0xffff_ffff_0000_0006));
    if of >= 6 {
        more.push(put(1 << 12, call, &head));
        nccl.state(*more.last().expect("some"), 25, None);
    }
    for handle in more.into_iter().chain([control, step, op, p2p, coll, group, call, group_api]) {
        nccl.stop(handle);
        nccl.stop(handle);
    }
    nccl.finalize(context);
}

/// What a plug-in of version `own` is told of that by an NCCL of version `of`.
fn expected(of: u8, own: u8) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(line);
    let known = |args: u64| if of == own || of <= 3 || own >= 4 { args } else { 0 };
    say(if own <= 3 { "begun".into() } else { "begun world 1234 hosts 2 ranks 2 rank 0".into() });
    if own >= 5 {
        say("groupApi depth 3".into());
        say("collApi rank 0 below groupApi AllReduce count 1000".into());
        say(if own == of { "groupApi is in 23".into() } else { "groupApi is in 23 with 0".into() });
    }
    say("group".into());
    let (parent, group) = if own >= 5 { ("collApi", "group") } else { ("group", "-") };
    let (channels, warps) = match of {
        // The words between, of which these two bytes are the first, are not filled by the double.
        2 | 3 => (0, 0),
        _ => (2, 8),
    };
    say(format!(
        "coll rank 0 below {parent} in {group} seq 1 AllReduce count 1000 root 0 ncclFloat32 channels {channels} warps {warps} \
         RING SIMPLE hash {}",
        u8::from(of <= 3)
    ));
    let parent = if own >= 5 { "groupApi" } else { "group" };
    say(format!(
        "p2p rank 0 below {parent} in {group} Send ncclInt8 count 77 peer 1 channels {}",
        if own >= 4 { 2 } else { 0 }
    ));
    say("op rank 0 below coll channel 1 peer 1 steps 1 chunk 524288 send 1".into());
    // Versions 2 and 3 know neither; an NCCL that speaks them does not say them.
    if own >= 4 || of <= 3 {
        say(if own == of { "op is in 19".into() } else { "op is in 19 with 0".into() });
    }
    say("step rank 0 below op number 5".into());
    if own >= 4 || of <= 3 {
        say("step is in 20 with 0".into());
    }
    say(format!("step is in 9 with {}", known(1500)));
    if own >= 3 {
        say("net rank 0 below step id 10001 data 40".into());
        if own >= 4 || of <= 3 {
            say("net is in 21 with 80".into());
        }
        say(format!("kernel rank 0 below coll channel 3 time {}", if own >= 4 { 99 } else { 0 }));
        if own >= 4 || of <= 3 {
            say("kernel is in 22 with 123".into());
        }
    }
    say("control".into());
    say("control is in 17 with 6".into());
    if own >= 6 {
        say("ceColl rank 0 below collApi".into());
        say(if own == of { "ceColl is in 25".into() } else { "ceColl is in 25 with 0".into() });
    }
    say("over".into());
    lines
}

/// Behind an NCCL of this version and of every later one.
fn behind(own: u8) {
    alone(&[], || {
        let root = tempfile::tempdir().expect("a directory");
        let library = next(root.path(), &[&format!("-DV={own}")]);
        for of in own..=7 {
            all_of_it(&Nccl::load(&crate::support::library(), of));
            assert_eq!(told(&library), expected(of, own), "version {own} under version {of}");
        }
    });
}

macro_rules! versions {
    ($($name:ident $version:literal;)*) => {$(
        #[test]
        fn $name() {
            behind($version);
        }
    )*};
}

versions! {
    a_profiler_of_version_2_under_every_later_one 2;
    a_profiler_of_version_3_under_every_later_one 3;
    a_profiler_of_version_4_under_every_later_one 4;
    a_profiler_of_version_5_under_every_later_one 5;
    a_profiler_of_version_6_under_every_later_one 6;
    a_profiler_of_version_7_under_its_own 7;
}

#[test]
fn of_several_versions_the_one_is_taken_that_nccl_would_take() {
    alone(&[], || {
        let root = tempfile::tempdir().expect("a directory");
        let library = next(root.path(), &["-DSEVERAL"]);
        for (of, own) in
            [(3, Some("v3")), (4, Some("v3")), (5, Some("v5")), (6, Some("v5")), (7, Some("v7")), (2, None)]
        {
            let nccl = Nccl::load(&crate::support::library(), of);
            let (context, _) = nccl.init(PAIR, logger());
            assert_eq!(told(&library).first().map(String::as_str), own, "under version {of}");
            nccl.finalize(context);
        }
    });
}

#[test]
fn one_that_is_too_new_for_this_nccl_is_left_out_as_nccl_leaves_it_out() {
    alone(&[], || {
        let root = tempfile::tempdir().expect("a directory");
        let library = next(root.path(), &["-DV=6"]);
        let nccl = Nccl::load(&crate::support::library(), 5);
        for _ in 0..2 {
            assert_eq!(nccl.init(PAIR, logger()).1, 0b1110, "Sluice runs");
        }
        assert!(told(&library).is_empty());
        let lines = LINES.lock().expect("no panic");
        let warnings: Vec<_> = lines.iter().filter(|(level, ..)| *level == 2).collect();
        assert!(
            warnings.len() == 1 && warnings[0].2.contains("has v6") && warnings[0].2.contains("v2 to v5"),
            "{lines:?}"
        );
    });
}

#[test]
fn who_asks_for_steps_gets_their_parents_and_nothing_else() {
    alone(&[("NEXT_ASKS", "16")], || {
        let root = tempfile::tempdir().expect("a directory");
        let library = next(root.path(), &["-DV=4"]);
        all_of_it(&Nccl::load(&crate::support::library(), 7));
        let told = told(&library);
        let starts: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(starts, ["begun", "group", "coll", "p2p", "op", "op", "step", "step", "step", "over"], "{told:?}");
        assert!(told.iter().any(|line| line.starts_with("step rank 0 below op")), "{told:?}");
    });
}
