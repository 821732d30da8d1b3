//! What all drafts of a program's columns share.

use sluice_solver::Row;

/// Columns that a solver gets through at most.
pub(crate) const MAX_COLUMNS: usize = 4_000_000;

/// Sorts the entries of a column and adds up those of one row: a solver takes each row once.
pub(crate) fn add_up(entries: &mut Vec<(Row, f64)>) {
    entries.sort_unstable_by_key(|(row, _)| *row);
    entries.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.1 += next.1;
        }
        same
    });
}
