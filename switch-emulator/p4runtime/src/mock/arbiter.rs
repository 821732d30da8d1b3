//! Who is primary: the controller with the highest election id that was ever seen, as long as its stream lives.

use std::collections::BTreeMap;

use tonic::Code;

use super::fault::Fault;
use crate::limits;

/// The streams that have stood for election, by their numbers.
#[derive(Debug)]
pub(super) struct Arbiter {
    /// When the primary goes, the next one follows by itself.
    promotes: bool,
    standing: BTreeMap<u64, Option<u128>>,
    highest: Option<u128>,
    primary: Option<u64>,
}

/// Who has to hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hears {
    Nobody,
    One(u64),
    All,
}

impl Arbiter {
    pub fn new(promotes: bool) -> Arbiter {
        Arbiter { promotes, standing: BTreeMap::new(), highest: None, primary: None }
    }

    /// A stream stands with this id; without one it never is primary.
    pub fn stand(&mut self, stream: u64, election: Option<u128>) -> Result<Hears, Fault> {
        let others = || self.standing.iter().filter(move |(other, _)| **other != stream);
        if let Some(id) = election
            && others().any(|(_, other)| *other == election)
        {
            return Err(Fault::value("election_id", id, "one that no other controller has"));
        }
        if others().count() >= limits::STREAMS {
            let text = format!("there are {} controllers; allowed are no more", limits::STREAMS);
            return Err(Fault::new(Code::ResourceExhausted, text));
        }
        self.standing.insert(stream, election);
        if election.is_some() && election >= self.highest {
            self.highest = election;
            self.primary = Some(stream);
            return Ok(Hears::All);
        }
        if self.primary == Some(stream) {
            // It has stepped down by a lower id.
            self.primary = None;
            self.promote();
            return Ok(Hears::All);
        }
        if self.primary.is_none() && self.promote() {
            return Ok(Hears::All);
        }
        Ok(Hears::One(stream))
    }

    /// A stream is over.
    pub fn leave(&mut self, stream: u64) -> Hears {
        self.standing.remove(&stream);
        if self.primary != Some(stream) {
            return Hears::Nobody;
        }
        self.primary = None;
        self.promote();
        Hears::All
    }

    /// All streams are over. What ids there were is remembered.
    pub fn clear(&mut self) {
        self.standing.clear();
        self.primary = None;
    }

    fn promote(&mut self) -> bool {
        let next = self.standing.iter().filter(|(_, id)| id.is_some()).max_by_key(|(_, id)| **id);
        if let (true, Some((stream, _))) = (self.promotes, next) {
            self.primary = Some(*stream);
            return true;
        }
        false
    }

    /// The primary's stream.
    pub fn primary(&self) -> Option<u64> {
        self.primary
    }

    /// The highest election id that was seen.
    pub fn highest(&self) -> Option<u128> {
        self.highest
    }

    /// The streams that have stood.
    pub fn streams(&self) -> Vec<u64> {
        self.standing.keys().copied().collect()
    }

    /// Has this stream stood?
    pub fn knows(&self, stream: u64) -> bool {
        self.standing.contains_key(&stream)
    }

    /// May this election id write?
    pub fn may_write(&self, election: Option<u128>) -> bool {
        let primary = self.primary.and_then(|stream| self.standing.get(&stream).copied().flatten());
        election.is_some() && election == primary
    }

    /// What this stream is told of itself.
    pub fn told(&self, stream: u64) -> Code {
        match self.primary {
            Some(primary) if primary == stream => Code::Ok,
            Some(_) => Code::AlreadyExists,
            None => Code::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_highest_id_ever_seen_is_primary() {
        let mut arbiter = Arbiter::new(false);
        assert_eq!(arbiter.stand(1, Some(5)), Ok(Hears::All));
        assert_eq!(arbiter.stand(2, Some(3)), Ok(Hears::One(2)));
        assert_eq!((arbiter.told(1), arbiter.told(2)), (Code::Ok, Code::AlreadyExists));
        assert!(arbiter.may_write(Some(5)) && !arbiter.may_write(Some(3)) && !arbiter.may_write(None));
        assert_eq!(arbiter.stand(3, Some(5)).map_err(|fault| fault.code), Err(Code::InvalidArgument));
        assert_eq!(arbiter.stand(3, None), Ok(Hears::One(3)));
        assert_eq!(arbiter.leave(1), Hears::All);
        assert_eq!((arbiter.told(2), arbiter.highest()), (Code::NotFound, Some(5)));
        assert_eq!(arbiter.stand(2, Some(4)), Ok(Hears::One(2)), "too low");
        assert_eq!(arbiter.stand(2, Some(5)), Ok(Hears::All));
        assert_eq!((arbiter.told(2), arbiter.told(3)), (Code::Ok, Code::AlreadyExists));
        assert_eq!(arbiter.stand(2, Some(1)), Ok(Hears::All), "it steps down");
        assert_eq!(arbiter.told(2), Code::NotFound);
    }

    #[test]
    fn older_servers_promote_the_next() {
        let mut arbiter = Arbiter::new(true);
        for (stream, id) in [(1, 5), (2, 3), (3, 4)] {
            arbiter.stand(stream, Some(id)).unwrap();
        }
        assert_eq!((arbiter.leave(1), arbiter.primary()), (Hears::All, Some(3)));
        assert!(arbiter.may_write(Some(4)));
    }

    proptest! {
        #[test]
        fn there_is_one_primary_at_most_and_it_has_stood(
            steps in prop::collection::vec((0_u64..5, prop::option::of(0_u128..4), any::<bool>()), 0..40),
            promotes: bool
        ) {
            let mut arbiter = Arbiter::new(promotes);
            for (stream, election, leaves) in steps {
                if leaves {
                    arbiter.leave(stream);
                } else {
                    let _ = arbiter.stand(stream, election);
                }
                let primaries = arbiter.streams().into_iter().filter(|one| arbiter.told(*one) == Code::Ok).count();
                prop_assert_eq!(primaries, usize::from(arbiter.primary().is_some()));
                prop_assert!(arbiter.primary().is_none_or(|primary| arbiter.knows(primary)));
            }
        }
    }
}
