//! An NCCL whose socket transport reports its chunks: the page has each connection with its rank and its bytes, and nothing
//! that such a report says can do harm.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use crate::support::headers::*;
use crate::support::*;
use sluice_progress::PageView;

/// The socket transport, version 1.
const SOCKETS: i64 = 0x2_0001;
const SEND: i32 = 0;
const RECEIVE: i32 = 1;

fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let there = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    (there, listener.accept().expect("accepted").0)
}

/// The transport begins to move so many bytes on a descriptor.
fn moves(nccl: &Nccl, context: usize, step: Handle, fd: i32, op: i32, length: usize) -> Handle {
    let data = NetSocket { kind: 1, sock: NetSock { fd, op, length } };
    reports(nccl, context, step, SOCKETS, (&raw const data).cast())
}

fn reports(nccl: &Nccl, context: usize, step: Handle, id: i64, data: *const std::ffi::c_void) -> Handle {
    nccl.start_raw(context, Descr::new(nccl.version, 1 << 7, step, 0, &NetPlugin { id, data }).at())
}

fn peer(page: &PageView, stream: &TcpStream) -> Option<(Option<u32>, u64)> {
    let local = stream.local_addr().expect("bound");
    page.peers.iter().find(|peer| peer.local == local).map(|peer| (peer.rank, peer.tx_bytes))
}

#[test]
fn each_connection_has_its_rank_and_its_bytes() {
    alone(&[("SLUICE_NCCL_STEPS", "1")], || {
        let root = tempfile::tempdir().expect("a directory");
        set("SLUICE_SHM_DIR", root.path());
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        for version in [3, 4, 5, 6, 7] {
            let nccl = Nccl::load(&library(), version);
            // One that was there before the communicator, and is none of the bootstrap's.
            let (early, _early_end) = pair(&listener);
            let (context, mask) = nccl.init(Shape { nranks: 3, nnodes: 3, ..PAIR }, None);
            assert_eq!(mask, 0b1001_1110, "version {version}");
            let (left, _left_end) = pair(&listener);
            let (right, _right_end) = pair(&listener);
            let coll = nccl.coll(context, &all_reduce(1000, 1));
            // Two neighbours in one direction, as in a tree: which connection leads to which, only the transport says.
            let mut total = 0;
            for (rank, streams, bytes) in [(1, [&early, &left], 1000), (2, [&right, &right], 300)] {
                let op = nccl.op(context, coll, 0, rank, true);
                let step = nccl.step(context, op, 0);
                nccl.state(step, 9, Some(2 * bytes as u64));
                let chunks = streams.map(|stream| moves(&nccl, context, step, stream.as_raw_fd(), SEND, bytes));
                assert!(chunks.iter().all(|chunk| *chunk != 0), "version {version}");
                chunks.into_iter().chain(chunks).for_each(|chunk| nccl.stop(chunk));
                nccl.stop(step);
                nccl.stop(op);
                total += 2 * bytes as u64;
            }
            let page = only(root.path());
            assert_eq!(peer(&page, &early), Some((Some(1), 1000)), "version {version}");
            assert_eq!(peer(&page, &left), Some((Some(1), 1000)), "version {version}");
            assert_eq!(peer(&page, &right), Some((Some(2), 600)), "version {version}");
            // The steps count all bytes once. Version 3 does not say how many a step has.
            assert_eq!(page.tx_bytes, if version >= 4 { total } else { 0 }, "version {version}");
            // What is received counts for no connection; the rank of its sender is known.
            let op = nccl.op(context, coll, 0, 2, false);
            let step = nccl.step(context, op, 0);
            let chunk = moves(&nccl, context, step, left.as_raw_fd(), RECEIVE, 50);
            nccl.stop(chunk);
            assert_eq!(peer(&only(root.path()), &left), Some((Some(2), 1000)));
            nccl.finalize(context);
        }
    });
}

#[test]
fn it_is_asked_for_with_the_steps_alone_and_used_whenever_it_comes() {
    alone(&[], || {
        let root = tempfile::tempdir().expect("a directory");
        set("SLUICE_SHM_DIR", root.path());
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let nccl = Nccl::load(&library(), 6);
        let (context, mask) = nccl.init(PAIR, None);
        assert_eq!(mask, 0b1110, "otherwise NCCL would make an event of every step");
        let (stream, _end) = pair(&listener);
        let chunk = moves(&nccl, context, 0, stream.as_raw_fd(), SEND, 70);
        nccl.stop(chunk);
        assert_eq!(peer(&only(root.path()), &stream), Some((None, 70)));
    });
}

#[test]
fn a_version_without_such_events_is_not_asked_for_them() {
    alone(&[("SLUICE_NCCL_STEPS", "1")], || {
        let root = tempfile::tempdir().expect("a directory");
        set("SLUICE_SHM_DIR", root.path());
        assert_eq!(Nccl::load(&library(), 2).init(PAIR, None).1, 0b1_1110, "version 2 has no such event");
    });
}

#[test]
fn no_report_does_harm() {
    alone(&[("SLUICE_NCCL_STEPS", "1")], || {
        let root = tempfile::tempdir().expect("a directory");
        set("SLUICE_SHM_DIR", root.path());
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let nccl = Nccl::load(&library(), 7);
        let (context, _) = nccl.init(PAIR, None);
        // No socket, no connected one, none of TCP; no data, misplaced data, another transport's.
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = 77 };
        for fd in [-1, i32::MAX, 0, listener.as_raw_fd(), udp.as_raw_fd()] {
            for op in [SEND, RECEIVE, 99] {
                assert_eq!(moves(&nccl, context, 3, fd, op, 10), 0, "{fd}");
            }
        }
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77, "NCCL's errno is its own");
        let data = NetSocket { kind: 2, sock: NetSock { fd: 0, op: 0, length: 5 } };
        let at = (&raw const data).cast::<std::ffi::c_void>();
        for (id, at) in
            [(SOCKETS, at), (SOCKETS, NOWHERE), (SOCKETS, at.wrapping_byte_add(1)), (0x1_0001, at), (0, NOWHERE)]
        {
            assert_eq!(reports(&nccl, context, 0, id, at), 0, "{id:#x}");
        }
        assert!(only(root.path()).peers.is_empty());
        // More connections than a page has room for: the first ones are in it, and of all no more is kept.
        let streams: Vec<_> = (0..80).map(|_| pair(&listener)).collect();
        for _ in 0..2 {
            for (stream, _) in &streams {
                let chunk = moves(&nccl, context, 0, stream.as_raw_fd(), SEND, 7);
                nccl.stop(chunk);
            }
        }
        // The look for new ones finds the same sockets, and puts none of them there twice.
        nccl.coll(context, &all_reduce(1000, 1));
        let page = only(root.path());
        assert_eq!(page.peers.len(), sluice_progress::layout::PEER_CAP);
        assert!(page.peers.iter().all(|peer| peer.tx_bytes == 14), "{:?}", page.peers);
        nccl.finalize(context);
    });
}
