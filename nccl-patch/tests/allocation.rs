//! After `init` nothing allocates: a whole program counts its allocations.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use nccl_profiler_sluice::abi::event;
use nccl_profiler_sluice::ncclProfiler_v6;
use support::headers::{CollV7, Descr, EMPTY, NOWHERE, ProxyOp, ProxyStep};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Promises: P-7
#[test]
fn a_collective_with_its_sockets_operations_and_steps_allocates_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    support::set("SLUICE_SHM_DIR", dir.path());
    let (mut context, mut mask) = (std::ptr::null_mut(), 0);
    let table = &ncclProfiler_v6;
    // SAFETY: the version's own signature and places of ours.
    unsafe { (table.init)(&mut context, 7, &mut mask, std::ptr::null(), 2, 2, 0, None) };
    // Linked into a program, the library's panic hook is the program's.
    let _ = std::panic::take_hook();
    assert_eq!(support::pages(dir.path()).len(), 1, "it publishes");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let _connection = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let start = |descr: &Descr| {
        let mut handle: *mut c_void = std::ptr::null_mut();
        // SAFETY: a descriptor of this version.
        unsafe { (table.start_event)(context, &mut handle, descr.at()) };
        handle as usize
    };
    // SAFETY: any handle may be handed in.
    let stop = |handle: usize| unsafe { (table.stop_event)(handle as *mut c_void) };
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() };
    let coll = CollV7 {
        seq: 1,
        func: c"AllReduce".as_ptr(),
        send_buff: NOWHERE,
        recv_buff: NOWHERE,
        count: 1 << 20,
        root: 0,
        datatype: c"ncclFloat16".as_ptr(),
        n_channels: 1,
        n_warps: 8,
        algo: c"RING".as_ptr(),
        proto: c"SIMPLE".as_ptr(),
        parent_group: NOWHERE,
        kernel_variant: EMPTY,
        is_sym_coll: 0,
        user_tag: 0,
    };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for round in 0..1000 {
        let parent = start(&Descr::new(6, event::COLL, 0, 0, &coll));
        stop(parent);
        let op = ProxyOp {
            pid,
            channel_id: round as u8 % 32,
            peer: 1,
            n_steps: 1,
            chunk_size: 1,
            is_send: i32::from(round % 2 == 0),
        };
        let op = start(&Descr::new(6, event::PROXY_OP, parent, 0, &op));
        let step = start(&Descr::new(6, event::PROXY_STEP, op, 0, &ProxyStep { step: 0 }));
        let bytes = 100_u64;
        // SAFETY: the arguments are eight bytes.
        unsafe { (table.record_event_state)(step as *mut c_void, 9, (&raw const bytes).cast()) };
        stop(step);
        stop(op);
        assert!(parent != 0 && op != 0 && step != 0);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
    let page = support::only(dir.path());
    assert_eq!((page.enq_ops, page.peers.len()), (1000, 1));
    // SAFETY: the context of above.
    unsafe { (table.finalize)(context) };
}
