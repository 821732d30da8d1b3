//! Who has not seen the last change yet: a counter of changes and, per thing, its last change by each side.
//!
//! A host need not be told of its own change, so a thing remembers its last change and the last one by anybody else.

/// Numbers all changes of one holder.
#[derive(Debug, Default)]
pub(super) struct Ticket(u64);

impl Ticket {
    pub(super) fn draw(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
    pub(super) const fn last(&self) -> u64 {
        self.0
    }
}

/// A change by no host, such as one of the configuration.
pub(super) const NOBODY: u32 = u32::MAX;

/// The latest changes of one thing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    last: u64,
    by: u32,
    before_by_others: u64,
}

impl Change {
    pub(super) fn note(&mut self, ticket: u64, by: u32) {
        if by != self.by {
            self.before_by_others = self.last;
            self.by = by;
        }
        self.last = ticket;
    }

    /// Did somebody else than `me` change it after ticket `seen`?
    pub(super) fn unseen(&self, me: u32, seen: u64) -> bool {
        seen < if self.by == me { self.before_by_others } else { self.last }
    }
}

/// Did a number move by at least `percent` of `scale`? To and from zero always counts.
pub(super) fn moved(old: u64, new: u64, percent: u64, scale: u64) -> bool {
    let by = old.abs_diff(new);
    by != 0 && (old == 0 || new == 0 || u128::from(by) * 100 > u128::from(scale) * u128::from(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_changes_hide_no_other() {
        let mut change = Change::default();
        change.note(5, 1);
        change.note(6, 2);
        change.note(7, 2);
        assert!(change.unseen(1, 5) && change.unseen(2, 4) && !change.unseen(2, 5));
        assert!(change.unseen(3, 6) && !change.unseen(3, 7));
    }

    #[test]
    fn small_moves_do_not_count() {
        assert!(!moved(1000, 1009, 1, 1000) && moved(1000, 1011, 1, 1000));
        assert!(moved(0, 1, 1, 1000) && !moved(0, 0, 1, 1000));
    }
}
