//! How many connections one identity has: two, and the newest stay.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Connections of one identity at a time.
pub const PER_IDENTITY: usize = 2;

/// The connections of each identity, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Newest(Arc<Mutex<HashMap<String, VecDeque<oneshot::Sender<Infallible>>>>>);

impl Newest {
    /// One more connection of this identity. What it gets resolves when it has to end, as the oldest of too many does now.
    pub fn join(&self, identity: String) -> oneshot::Receiver<Infallible> {
        let (end, ends) = oneshot::channel();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(identity).or_default();
        own.retain(|end| !end.is_closed());
        own.push_back(end);
        while own.len() > PER_IDENTITY {
            own.pop_front();
        }
        // Identities whose connections have all ended are forgotten now and then.
        if all.len() > 64 && all.len().is_power_of_two() {
            all.retain(|_, own| own.iter().any(|end| !end.is_closed()));
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_connection_ends_the_first_and_touches_no_other_identity() {
        let newest = Newest::default();
        let mut other = newest.join("b".into());
        let mut ends: Vec<_> = (0..3).map(|_| newest.join("a".into())).collect();
        let over =
            |ends: &mut oneshot::Receiver<Infallible>| ends.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        assert_eq!(ends.iter_mut().map(over).collect::<Vec<_>>(), [true, false, false]);
        assert!(!over(&mut other));
        // One that ended by itself makes room.
        drop(ends.remove(1));
        let _fourth = newest.join("a".into());
        assert!(!over(&mut ends[1]));
    }
}
