//! The writer on a page of ordinary memory, where Miri can follow every access (`cargo xtask verify --long miri`).

use std::mem::ManuallyDrop;
use std::sync::atomic::fence;

use super::*;
use crate::view::PeerKind;

const ROUNDS: u64 = if cfg!(miri) { 12 } else { 2_000 };

/// A writer whose page nobody maps; it is never dropped, since there is nothing to unmap.
fn on_heap() -> ManuallyDrop<Writer> {
    // Miri knows no pthread_atfork, and nobody forks there.
    if !cfg!(miri) {
        sys::watch_forks();
    }
    // SAFETY: integers and arrays of integers, of which zero is a value.
    let page = Box::leak(Box::new(unsafe { std::mem::zeroed::<RawPage>() }));
    let nothing = || File::open("/dev/null").expect("it is there");
    ManuallyDrop::new(Writer {
        raw: NonNull::from(page),
        dir: nothing().into(),
        name: CString::default(),
        pid: sys::current_pid(),
        _file: nothing(),
        iteration: Mutex::new(()),
        peers: Mutex::new(0),
        said_iter_bytes: false,
    })
}

#[test]
fn threads_that_write_side_by_side_are_read_whole_and_counted_fully() {
    let writer = &*on_heap();
    let page = writer.page().expect("nobody forked");
    std::thread::scope(|scope| {
        for rank in 1..3 {
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    writer.iteration();
                    writer.enqueue(10, 5);
                    writer.net_begin();
                    writer.sent(5);
                    writer.net_end();
                    writer.ring(rank, rank);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let before = page.topo_seq.load(Ordering::Acquire);
                let ring = (page.ring_prev.load(Ordering::Relaxed), page.ring_next.load(Ordering::Relaxed));
                fence(Ordering::Acquire);
                if before & 1 == 0 && page.topo_seq.load(Ordering::Relaxed) == before {
                    assert_eq!(ring.0, ring.1, "a torn group");
                }
            }
        });
    });
    let count = |word: &AtomicU64| word.load(Ordering::Relaxed);
    assert_eq!((count(&page.iter), count(&page.enq_ops)), (2 * ROUNDS, 2 * ROUNDS));
    assert_eq!((count(&page.enq_bytes), count(&page.tx_bytes)), (20 * ROUNDS, 10 * ROUNDS));
    assert_eq!((count(&page.inflight), count(&page.errors)), (0, 0));
}

#[test]
fn every_entry_has_room_for_a_peer_and_the_next_one_is_said_to_be_left_out() {
    let writer = on_heap();
    let (local, remote) = (([10, 0, 0, 1], 1).into(), ([0xfd00, 0, 0, 0, 0, 0, 0, 1], 2).into());
    let peer = Peer { rank: None, kind: PeerKind::Connected, local, remote, cookie: 0, tx_bytes: 0 };
    let slots: Vec<_> = (0..PEER_CAP).filter_map(|_| writer.peer(&peer)).collect();
    assert_eq!(slots.len(), PEER_CAP);
    assert_eq!(writer.peer(&peer), None);
    slots.iter().for_each(|slot| writer.peer_gone(*slot));
    let page = writer.page().expect("nobody forked");
    assert!(page.peers.iter().all(|entry| entry.flags.load(Ordering::Relaxed) == 0));
    assert_ne!(page.feature_bits.load(Ordering::Relaxed) & layout::FEATURE_MORE_PEERS, 0);
}
