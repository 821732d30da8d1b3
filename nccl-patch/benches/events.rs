//! What an event costs a job: start and stop as NCCL calls them, through the exported table, publishing to a real page.

use std::ffi::c_void;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

#[path = "../tests/support/headers.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod headers;

use headers::{CollV7, Descr, EMPTY, NOWHERE, ProxyOp};
use nccl_profiler_sluice::abi::event;
use nccl_profiler_sluice::ncclProfiler_v5;

/// Events of a batch; after 256 collectives without an operation they are taken to go another way than the network.
const BATCH: u64 = 100;

fn coll() -> CollV7 {
    CollV7 {
        seq: 1,
        func: c"AllReduce".as_ptr(),
        send_buff: NOWHERE,
        recv_buff: NOWHERE,
        count: 1 << 20,
        root: 0,
        datatype: c"ncclBfloat16".as_ptr(),
        n_channels: 8,
        n_warps: 8,
        algo: c"RING".as_ptr(),
        proto: c"SIMPLE".as_ptr(),
        parent_group: NOWHERE,
        kernel_variant: EMPTY,
        is_sym_coll: 0,
        user_tag: 0,
    }
}

fn events(c: &mut Criterion) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("SLUICE_SHM_DIR", dir.path()) };
    let table = &ncclProfiler_v5;
    let (mut context, mut mask) = (std::ptr::null_mut(), 0);
    // SAFETY: the version's own signature and places of ours.
    unsafe { (table.init)(&mut context, 7, &mut mask, std::ptr::null(), 2, 2, 0, None) };
    assert!(std::fs::read_dir(dir.path()).expect("readable").next().is_some(), "it publishes");
    let once = |descr: &Descr| {
        let mut handle: *mut c_void = std::ptr::null_mut();
        // SAFETY: a descriptor of this version.
        unsafe {
            (table.start_event)(context, &mut handle, black_box(descr.at()));
            (table.stop_event)(black_box(handle));
        }
    };
    let start = |descr: &Descr| {
        let mut handle: *mut c_void = std::ptr::null_mut();
        // SAFETY: a descriptor of this version.
        unsafe { (table.start_event)(context, &mut handle, descr.at()) };
        handle as usize
    };
    // SAFETY: any handle may be handed in.
    let stop = |handle: usize| _ = unsafe { (table.stop_event)(handle as *mut c_void) };
    let coll = Descr::new(5, event::COLL, 0, 0, &coll());
    let op = |parent: usize| {
        let op = ProxyOp {
            // SAFETY: getpid has no preconditions.
            pid: unsafe { libc::getpid() },
            channel_id: 0,
            peer: 1,
            n_steps: 1,
            chunk_size: 1 << 19,
            is_send: 1,
        };
        Descr::new(5, event::PROXY_OP, parent, 0, &op)
    };
    let other = Descr::new(5, 1, 0, 0, &0_u64);
    // Looking for sockets ends after a hundred vain looks; so long the first events differ.
    for _ in 0..110 {
        once(&coll);
        std::thread::sleep(Duration::from_millis(51));
    }
    // Batches as in a job: a collective, and operations of it. Only what `timed` does is timed.
    let batches = |times: u64, timed: &dyn Fn(&Descr, u64)| {
        let mut spent = Duration::ZERO;
        for done in (0..times).step_by(BATCH as usize) {
            let parent = start(&coll);
            stop(parent);
            let op = op(parent);
            once(&op);
            let begun = Instant::now();
            timed(&op, BATCH.min(times - done));
            spent += begun.elapsed();
        }
        spent
    };
    c.bench_function("collective start+stop", |b| {
        b.iter_custom(|times| batches(times, &|_, n| (0..n).for_each(|_| once(&coll))));
    });
    c.bench_function("network operation that begins and ends a phase start+stop", |b| {
        b.iter_custom(|times| batches(times, &|op, n| (0..n).for_each(|_| once(op))));
    });
    let under_way = start(&op(start(&coll)));
    c.bench_function("network operation among others start+stop", |b| {
        b.iter_custom(|times| batches(times, &|op, n| (0..n).for_each(|_| once(op))));
    });
    stop(under_way);
    c.bench_function("event not asked for start+stop", |b| b.iter(|| once(&other)));
    // SAFETY: the context of above.
    unsafe { (table.finalize)(context) };
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = events
}
criterion_main!(benches);
