//! A file that is played: which slot is shown, and what keys do to that. No terminal and no clock in here.

use std::time::Duration;

use crossterm::event::KeyCode;

use super::app::Playing;
use crate::past::Past;

/// Fastest and slowest, in slots a slot's time.
const SPEEDS: (f64, f64) = (0.125, 64.0);

/// The file and where it is.
#[derive(Debug)]
pub struct Player {
    past: Past,
    at: u64,
    speed: f64,
    /// Part of a slot that is over, in nanoseconds of the file.
    over_ns: f64,
}

/// What became of the shown slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is the same.
    No,
    /// It is a later one, and those between were played.
    On,
    /// It was jumped to.
    Jumped,
}

impl Player {
    /// At so long after the beginning, or at the end.
    pub fn new(past: Past, from: Duration) -> Player {
        let at = from.as_nanos() / u128::from(past.slot_length_ns.max(1));
        let at = u64::try_from(at).unwrap_or(u64::MAX).min(past.slots.saturating_sub(1));
        Player { past, at, speed: 1.0, over_ns: 0.0 }
    }

    pub fn past(&self) -> &Past {
        &self.past
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn playing(&self) -> Playing {
        Playing { at: self.at, slots: self.past.slots, speed: self.speed }
    }

    /// Time went by; at the end it stands.
    pub fn advance(&mut self, elapsed: Duration) -> Moved {
        self.over_ns += elapsed.as_secs_f64() * 1e9 * self.speed;
        let slots = (self.over_ns / self.past.slot_length_ns.max(1) as f64).floor();
        self.over_ns -= slots * self.past.slot_length_ns.max(1) as f64;
        self.to(self.at.saturating_add(slots as u64), Moved::On)
    }

    /// What a key does; `None`: it is none of a replay's. A step also stops the playing, which the caller does.
    pub fn key(&mut self, code: KeyCode) -> Option<Moved> {
        let seconds = |seconds: u64| (seconds * 1_000_000_000).div_ceil(self.past.slot_length_ns.max(1));
        let (second, ten) = (seconds(1), seconds(10));
        Some(match code {
            KeyCode::Char('.') => self.to(self.at.saturating_add(1), Moved::On),
            KeyCode::Char(',') => self.to(self.at.saturating_sub(1), Moved::Jumped),
            KeyCode::Right => self.to(self.at.saturating_add(second), Moved::Jumped),
            KeyCode::Left => self.to(self.at.saturating_sub(second), Moved::Jumped),
            KeyCode::PageDown => self.to(self.at.saturating_add(ten), Moved::Jumped),
            KeyCode::PageUp => self.to(self.at.saturating_sub(ten), Moved::Jumped),
            KeyCode::Char('g') => self.to(0, Moved::Jumped),
            KeyCode::Char('G') => self.to(u64::MAX, Moved::Jumped),
            KeyCode::Char('+') => {
                self.speed = (self.speed * 2.0).min(SPEEDS.1);
                Moved::No
            }
            KeyCode::Char('-') => {
                self.speed = (self.speed / 2.0).max(SPEEDS.0);
                Moved::No
            }
            _ => return None,
        })
    }

    fn to(&mut self, at: u64, how: Moved) -> Moved {
        let at = at.min(self.past.slots.saturating_sub(1));
        if at == self.at {
            return Moved::No;
        }
        self.at = at;
        if how == Moved::Jumped {
            self.over_ns = 0.0;
        }
        how
    }
}

/// Does the key stop the playing?
pub fn is_step(code: KeyCode) -> bool {
    matches!(code, KeyCode::Char('.' | ','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_plays_it_and_keys_step_seek_and_change_the_speed() {
        let past = Past { slot_length_ns: 60_000_000, slots: 1000, ..Past::default() };
        let mut player = Player::new(past.clone(), Duration::from_millis(600));
        assert_eq!(player.at(), 10);
        assert_eq!(player.advance(Duration::from_millis(50)), Moved::No);
        assert_eq!((player.advance(Duration::from_millis(50)), player.at()), (Moved::On, 11));
        assert_eq!((player.key(KeyCode::Char('.')), player.at()), (Some(Moved::On), 12));
        assert_eq!((player.key(KeyCode::Char(',')), player.at()), (Some(Moved::Jumped), 11));
        assert_eq!((player.key(KeyCode::Right), player.at()), (Some(Moved::Jumped), 28));
        assert_eq!((player.key(KeyCode::PageUp), player.at()), (Some(Moved::Jumped), 0));
        assert_eq!(player.key(KeyCode::Left), Some(Moved::No), "it stands at its ends");
        assert_eq!((player.key(KeyCode::Char('G')), player.at()), (Some(Moved::Jumped), 999));
        assert_eq!(player.advance(Duration::from_secs(9)), Moved::No);
        assert_eq!((player.key(KeyCode::Char('g')), player.at()), (Some(Moved::Jumped), 0));
        for _ in 0..20 {
            player.key(KeyCode::Char('+'));
        }
        assert_eq!(player.playing().speed, 64.0);
        assert_eq!((player.advance(Duration::from_millis(60)), player.at()), (Moved::On, 64));
        assert_eq!(player.key(KeyCode::Char('q')), None);
        assert_eq!(Player::new(past, Duration::from_secs(9999)).at(), 999);
        assert!(is_step(KeyCode::Char('.')) && !is_step(KeyCode::Char('p')));
    }
}
