//! How many copies of which part of the data each node holds: the state that schedules are replayed on.
//!
//! An item (a shard, a chunk) is cut into equal units; what a node holds of it is a list of runs of units with the same
//! number of copies, so that a whole shard costs one run however finely it is cut.

use std::collections::HashMap;

/// Runs looked at in one replay at most, so that a plan cut into splinters ends in a refusal and not next week.
const MAX_WORK: u64 = 1 << 33;
/// Places up to which there is a cell for each, touched or not: memory that is not touched costs nothing.
const MAX_CELLS: usize = 1 << 25;

/// Units with the same number of copies: where they end, and the number.
type Run = (u64, u32);

/// Whose copies of what.
pub type Place = (usize, u64);

/// What a node holds of an item: 0 is what it began with; else, doubled, one more than the copies of all units, or, odd,
/// where its runs are. Half as wide as a count, so that more of them are close at hand; what does not fit is in runs.
type Cell = u32;
/// What a cell has room for: copies, or lists of runs.
const MAX_IN_CELL: u32 = u32::MAX / 2 - 1;

/// What all nodes hold.
pub struct Ledger<F> {
    /// Units of an item.
    units: u64,
    /// What a node holds of an item before anything happened.
    initial: F,
    cells: Cells,
    runs: Vec<Vec<Run>>,
    /// Those of `runs` that nobody uses.
    free: Vec<usize>,
    /// What runs are changed into, used again and again.
    scratch: Vec<Run>,
    work: u64,
}

/// A cell per place, by item, then node: plans list their sends by item, and ends are looked at item by item.
enum Cells {
    All { nodes: usize, cells: Vec<Cell> },
    Touched(HashMap<Place, Cell>),
}

impl Cells {
    fn get(&self, (node, item): Place) -> Cell {
        match self {
            Cells::All { nodes, cells } => cells[item as usize * nodes + node],
            Cells::Touched(cells) => cells.get(&(node, item)).copied().unwrap_or(0),
        }
    }
    fn at(&mut self, (node, item): Place) -> &mut Cell {
        match self {
            Cells::All { nodes, cells } => &mut cells[item as usize * *nodes + node],
            Cells::Touched(cells) => cells.entry((node, item)).or_insert(0),
        }
    }
}

/// The cell of no copies.
const NOTHING: Cell = 1 << 1;

/// The cell of so many copies of all units, if it has room for them.
fn whole(copies: u32) -> Option<Cell> {
    (copies < MAX_IN_CELL).then(|| (copies + 1) << 1)
}

/// What a cell says.
enum Held {
    Whole(u32),
    Runs(usize),
}

impl<F: Fn(Place) -> u32> Ledger<F> {
    /// Items `0..items` of so many units, of which nodes `0..nodes` hold `initial` copies.
    pub fn new(units: u64, nodes: usize, items: u64, initial: F) -> Ledger<F> {
        let all = usize::try_from(items).ok().and_then(|items| nodes.checked_mul(items));
        let cells = match all.filter(|all| *all <= MAX_CELLS) {
            Some(all) => Cells::All { nodes, cells: vec![0; all] },
            None => Cells::Touched(HashMap::new()),
        };
        Ledger { units, initial, cells, runs: Vec::new(), free: Vec::new(), scratch: Vec::new(), work: 0 }
    }
    /// Has it taken more work than any plan is worth?
    pub fn is_tired(&self) -> bool {
        self.work > MAX_WORK
    }
    /// The first unit of a part that is not there.
    pub fn missing(&mut self, place: Place, lo: u64, hi: u64) -> Option<u64> {
        let runs = match self.held(place) {
            Held::Whole(copies) => {
                self.work = self.work.saturating_add(1);
                return (copies == 0).then_some(lo);
            }
            Held::Runs(runs) => &self.runs[runs],
        };
        let mut begin = 0;
        for (end, copies) in runs {
            self.work = self.work.saturating_add(1);
            if *copies == 0 && begin < hi && *end > lo {
                return Some(begin.max(lo));
            }
            begin = *end;
        }
        None
    }
    /// Takes one copy of a part away, which is there.
    pub fn take(&mut self, place: Place, lo: u64, hi: u64) {
        self.change(place, lo, hi, |copies| copies.saturating_sub(1));
    }
    /// One more copy of a part; where parts `merge`, never more than one.
    pub fn give(&mut self, place: Place, lo: u64, hi: u64, merge: bool) {
        self.change(place, lo, hi, |copies| if merge { 1 } else { copies.saturating_add(1) });
    }
    /// Nothing is left of it.
    pub fn clear(&mut self, place: Place) {
        if let Held::Runs(at) = self.held(place) {
            self.free.push(at);
        }
        *self.cells.at(place) = NOTHING;
    }
    /// Does a node hold exactly so many copies of all units?
    pub fn holds(&self, place: Place, copies: u32) -> bool {
        match self.held(place) {
            Held::Whole(held) => held == copies,
            Held::Runs(runs) => self.runs[runs].iter().all(|(_, held)| *held == copies),
        }
    }
    /// Everything that anybody ever gave or took, in no order.
    pub fn touched(&self) -> Vec<Place> {
        match &self.cells {
            Cells::All { nodes, cells } => {
                let touched = cells.iter().enumerate().filter(|(_, cell)| **cell != 0);
                touched.map(|(place, _)| (place % nodes, (place / nodes) as u64)).collect()
            }
            Cells::Touched(cells) => cells.keys().copied().collect(),
        }
    }

    fn held(&self, place: Place) -> Held {
        match self.cells.get(place) {
            0 => Held::Whole((self.initial)(place)),
            cell if cell & 1 == 1 => Held::Runs((cell >> 1) as usize),
            cell => Held::Whole((cell >> 1) - 1),
        }
    }

    fn change(&mut self, place: Place, lo: u64, hi: u64, new: impl Fn(u32) -> u32) {
        let units = self.units;
        match self.held(place) {
            Held::Whole(copies) => {
                self.work = self.work.saturating_add(1);
                let all = (lo, hi) == (0, units);
                if let Some(cell) = whole(new(copies)).filter(|_| all) {
                    *self.cells.at(place) = cell;
                    return;
                }
                change(&mut self.scratch, &[(units, copies)], lo, hi, new);
                let at = self.free.pop().unwrap_or_else(|| {
                    self.runs.push(Vec::new());
                    self.runs.len() - 1
                });
                self.runs[at].clone_from(&self.scratch);
                match u32::try_from(at).ok().filter(|at| *at <= MAX_IN_CELL) {
                    Some(at) => *self.cells.at(place) = at << 1 | 1,
                    None => self.work = u64::MAX,
                }
            }
            Held::Runs(at) => {
                let runs = &mut self.runs[at];
                self.work = self.work.saturating_add(runs.len() as u64);
                change(&mut self.scratch, runs, lo, hi, new);
                std::mem::swap(runs, &mut self.scratch);
                if let [(_, copies)] = runs[..]
                    && let Some(cell) = whole(copies)
                {
                    *self.cells.at(place) = cell;
                    self.free.push(at);
                }
            }
        }
    }
}

/// Writes the runs with `new` copies of a part.
fn change(changed: &mut Vec<Run>, runs: &[Run], lo: u64, hi: u64, new: impl Fn(u32) -> u32) {
    changed.clear();
    let mut begin = 0;
    for (end, copies) in runs {
        for (from, to, copies) in [
            (begin, *end.min(&lo), *copies),
            (begin.max(lo), *end.min(&hi), new(*copies)),
            (begin.max(hi), *end, *copies),
        ] {
            if from >= to {
                continue;
            }
            match changed.last_mut() {
                Some(last) if last.1 == copies => last.0 = to,
                _ => changed.push((to, copies)),
            }
        }
        begin = *end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any changes, against a counter per unit.
        #[test]
        fn it_counts_like_a_list_of_counters(
            initial in 0_u32..2,
            changes in proptest::collection::vec((0_u64..12, 1_u64..12, 0_u8..4), 0..40),
        ) {
            let place = (3, 7);
            // With a cell for every place, and with one for each that is touched.
            for items in [9, 1 << 40] {
            let mut ledger = Ledger::new(12, 4, items, |of| if of == place { initial } else { 9 });
            let mut counters = [initial; 12];
            for &(lo, length, what) in &changes {
                let hi = (lo + length).min(12);
                let part = &mut counters[lo as usize..hi as usize];
                let missing = part.iter().position(|copies| *copies == 0).map(|at| lo + at as u64);
                prop_assert_eq!(ledger.missing(place, lo, hi), missing);
                match what {
                    0 if missing.is_none() => {
                        ledger.take(place, lo, hi);
                        part.iter_mut().for_each(|copies| *copies -= 1);
                    }
                    1 => {
                        ledger.give(place, lo, hi, true);
                        part.fill(1);
                    }
                    2 => {
                        ledger.give(place, lo, hi, false);
                        part.iter_mut().for_each(|copies| *copies += 1);
                    }
                    _ => {}
                }
                for copies in 0..3 {
                    prop_assert_eq!(ledger.holds(place, copies), counters.iter().all(|held| *held == copies));
                }
            }
            ledger.clear(place);
            prop_assert!(ledger.holds(place, 0) && ledger.holds((3, 8), 9));
            prop_assert_eq!(ledger.touched(), [place]);
            }
        }
    }
}
