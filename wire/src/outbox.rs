//! A queue between one writer and one stream that keeps only the newest value per key.
//!
//! Announcements and feedback replace their predecessors, so what a slow peer has not read yet is worth nothing once a
//! newer one exists. The queue holds at most one value per key beside the message in flight; nothing waits for it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tonic::codegen::tokio_stream::Stream;

struct Shared<K, V> {
    pending: BTreeMap<K, V>,
    closed: bool,
    waker: Option<Waker>,
}

/// The writing end; clones write to the same queue.
pub struct Outbox<K, V>(Arc<Mutex<Shared<K, V>>>);

/// The reading end: a stream of messages, each made of all values that were pending.
pub struct Drain<K, V, M> {
    shared: Arc<Mutex<Shared<K, V>>>,
    make: fn(BTreeMap<K, V>) -> M,
    first: Option<M>,
}

/// A queue whose reader first yields `first` (if any), then what `make` makes of the pending values.
pub fn outbox<K: Ord, V, M>(first: Option<M>, make: fn(BTreeMap<K, V>) -> M) -> (Outbox<K, V>, Drain<K, V, M>) {
    let shared = Shared { pending: BTreeMap::new(), closed: false, waker: None };
    let shared = Arc::new(Mutex::new(shared));
    (Outbox(shared.clone()), Drain { shared, make, first })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Ord, V> Outbox<K, V> {
    /// Queues `value`, in place of an unsent one of the same key. False: nobody reads any more.
    pub fn put(&self, key: K, value: V) -> bool {
        let waker = {
            let mut shared = lock(&self.0);
            if shared.closed {
                return false;
            }
            shared.pending.insert(key, value);
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Ends the stream after what is pending.
    pub fn close(&self) {
        let waker = {
            let mut shared = lock(&self.0);
            shared.closed = true;
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// True once the stream was closed or dropped.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).closed
    }
}

impl<K, V> Clone for Outbox<K, V> {
    fn clone(&self) -> Self {
        Outbox(self.0.clone())
    }
}

impl<K, V> std::fmt::Debug for Outbox<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl<K: Ord, V, M: Unpin> Stream for Drain<K, V, M> {
    type Item = M;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<M>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let pending = {
            let mut shared = lock(&self.shared);
            if shared.pending.is_empty() {
                if shared.closed {
                    return Poll::Ready(None);
                }
                shared.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            std::mem::take(&mut shared.pending)
        };
        Poll::Ready(Some((self.make)(pending)))
    }
}

impl<K, V, M> Drop for Drain<K, V, M> {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.closed = true;
        shared.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
        Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
    }

    /// Promises: P-17
    #[test]
    fn newest_value_per_key_survives() {
        let (outbox, mut drain) = outbox(Some(vec![]), |pending| pending.into_iter().collect::<Vec<(u32, &str)>>());
        assert_eq!(poll(&mut drain), Poll::Ready(Some(vec![])));
        assert!(poll(&mut drain).is_pending());
        assert!(outbox.put(2, "old") && outbox.put(1, "one") && outbox.put(2, "new"));
        assert_eq!(poll(&mut drain), Poll::Ready(Some(vec![(1, "one"), (2, "new")])));
        outbox.close();
        assert_eq!(poll(&mut drain), Poll::Ready(None));
    }

    /// Promises: P-17, P-18
    #[test]
    fn writer_learns_that_nobody_reads() {
        let (outbox, drain) = outbox::<u32, u32, usize>(None, |pending| pending.len());
        drop(drain);
        assert!(!outbox.put(1, 1));
        assert!(outbox.is_closed());
    }
}
