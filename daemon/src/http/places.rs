//! Who finds room: places that are few, shared so that no user takes them all, with some kept for operators.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of one user at a time, who is no operator.
pub(crate) const PER_USER: usize = 8;
/// Connections that only operators may have.
const KEPT: usize = 8;
/// Readings of the timeline at a time. Each may keep one state of the ring in memory for as long as its connection lives.
pub(crate) const READINGS: usize = 4;
/// Readings that only operators may begin.
const KEPT_READINGS: usize = 2;

/// Connections over the Unix socket, where the kernel tells whose they are.
#[derive(Debug)]
pub struct Places {
    most: usize,
    /// By user.
    taken: Mutex<BTreeMap<u32, usize>>,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub struct Place {
    uid: u32,
    places: Arc<Places>,
}

impl Places {
    pub fn new(most: usize) -> Arc<Places> {
        Arc::new(Places { most, taken: Mutex::default() })
    }

    /// A place for one more connection of this user, if there is one.
    pub fn take(self: &Arc<Places>, uid: u32, operator: bool) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let mine = taken.get(&uid).copied().unwrap_or(0);
        let room = if operator { all < self.most } else { all + KEPT < self.most && mine < PER_USER };
        room.then(|| {
            taken.insert(uid, mine + 1);
            Place { uid, places: Arc::clone(self) }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = taken.get_mut(&self.uid) {
            *mine = mine.saturating_sub(1);
        }
        taken.retain(|_, mine| *mine > 0);
    }
}

/// Readings of the timeline that are under way.
#[derive(Clone, Debug)]
pub struct Readings {
    all: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

impl Default for Readings {
    fn default() -> Readings {
        Readings { all: Arc::new(Semaphore::new(READINGS)), kept: Arc::new(Semaphore::new(KEPT_READINGS)) }
    }
}

impl Readings {
    /// One more, unless there are too many. Whether it is an operator's is asked only if nobody else may.
    pub async fn begin(&self, operator: impl AsyncFnOnce() -> bool) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.all).try_acquire_owned() {
            return Some(place);
        }
        let kept = Arc::clone(&self.kept).try_acquire_owned().ok()?;
        operator().await.then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_takes_all_places_and_operators_find_one() {
        let places = Places::new(32);
        let take = |uid, operator| places.take(uid, operator);
        let first: Vec<Place> = (0..100).filter_map(|_| take(1000, false)).collect();
        assert_eq!(first.len(), PER_USER);
        // Another finds as many as if the first were not there, and all of them together leave some for operators.
        let others: Vec<Place> = (1001..2000)
            .flat_map(|uid| (0..100).map_while(move |_| Some(uid)))
            .filter_map(|uid| take(uid, false))
            .collect();
        assert_eq!(
            (others.iter().filter(|place| place.uid == 1001).count(), others.len()),
            (PER_USER, 32 - KEPT - PER_USER)
        );
        let kept: Vec<Place> = (0..100).filter_map(|_| take(0, true)).collect();
        assert_eq!(kept.len(), KEPT);
        drop((first, others, kept));
        assert!(places.taken.lock().expect("no panic").is_empty());
        assert!(take(1000, false).is_some());
    }
}
