//! What is known on a branch of the search, and the way back from it.
//!
//! Everything that a branch changes stands in one row of 64-bit cells, and each change is logged, so that going back
//! is undoing the log. Known are, closed under transitivity, who precedes whom; for each job its earliest start
//! (head); for each job and owner the longest way from the job's end to the owner's last end (tail, −∞ where there is
//! no way); for each owner the least last end; for each job the latest end that leaves room under the limit.

use super::bits;
use super::jobs::{Jobs, Pair};

/// A cell with its value before a change.
#[derive(Clone, Copy, Debug)]
struct Change {
    cell: usize,
    was: u64,
}

/// A place in the log to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

/// Where in the cells things stand.
#[derive(Clone, Copy, Debug)]
struct Layout {
    words: usize,
    after: usize,
    before: usize,
    heads: usize,
    tails: usize,
    least: usize,
    latest: usize,
    /// How many pairs are still open.
    open: usize,
    /// The limit that latest ends were last worked out for.
    limit: usize,
}

/// The knowledge of a branch.
#[derive(Debug)]
pub struct Order<'a> {
    pub jobs: &'a Jobs,
    pub pairs: Vec<Pair>,
    layout: Layout,
    cells: Vec<u64>,
    log: Vec<Change>,
    /// Indices of pairs; those of open pairs come first. What is taken off their end comes back in its place.
    open: Vec<usize>,
    /// Jobs whose head may have to grow, for each owner the jobs whose tail may, and jobs that moved since pairs were
    /// last looked at.
    pub stale_heads: Vec<u64>,
    pub stale_tails: Vec<Vec<u64>>,
    pub moved: Vec<u64>,
    /// Copies of rows of the relation that is being extended.
    rows: [Vec<u64>; 2],
}

impl<'a> Order<'a> {
    /// What the dependencies alone say.
    pub fn new(jobs: &'a Jobs) -> Order<'a> {
        let (count, owners) = (jobs.count(), jobs.owner_count);
        let words = bits::words(count);
        let after = 0;
        let before = after + count * words;
        let heads = before + count * words;
        let tails = heads + count;
        let least = tails + count * owners;
        let latest = least + owners;
        let open = latest + count;
        let layout = Layout { words, after, before, heads, tails, least, latest, open, limit: open + 1 };
        let pairs = jobs.pairs();
        let mut order = Order {
            jobs,
            layout,
            cells: vec![0; layout.limit + 1],
            log: Vec::new(),
            open: (0..pairs.len()).collect(),
            pairs,
            stale_heads: vec![0; words],
            stale_tails: vec![vec![0; words]; owners],
            moved: vec![0; words],
            rows: [vec![0; words], vec![0; words]],
        };
        order.cells[layout.open] = order.open.len() as u64;
        order.cells[layout.limit] = f64::INFINITY.to_bits();
        order.cells[layout.heads..layout.tails]
            .iter_mut()
            .zip(&jobs.releases)
            .for_each(|(cell, at)| *cell = at.to_bits());
        order.cells[layout.tails..layout.least].fill(f64::NEG_INFINITY.to_bits());
        for (job, owner) in jobs.owners.iter().enumerate() {
            order.cells[layout.tails + job * owners + owner] = 0.0_f64.to_bits();
        }
        order.cells[layout.least..layout.latest].fill(0.0_f64.to_bits());
        order.cells[layout.latest..layout.open].fill(f64::INFINITY.to_bits());
        for job in jobs.forward() {
            // A chain's jobs come one after the other, so that each pair is put before those that follow from it.
            for &earlier in &jobs.earlier[job] {
                order.put(earlier, job);
            }
        }
        for job in 0..count {
            bits::insert(&mut order.stale_heads, job);
            order.stale_tails.iter_mut().for_each(|stale| bits::insert(stale, job));
            bits::insert(&mut order.moved, job);
        }
        order.log.clear();
        order
    }

    /// The place to go back to from what comes now.
    pub fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Forgets what came since.
    pub fn undo(&mut self, mark: Mark) {
        for change in self.log.drain(mark.0..).rev() {
            self.cells[change.cell] = change.was;
        }
        self.forget_stale();
    }

    /// Nothing is to be worked out any more.
    pub fn forget_stale(&mut self) {
        self.stale_heads.fill(0);
        self.stale_tails.iter_mut().for_each(|stale| stale.fill(0));
        self.moved.fill(0);
    }

    fn set(&mut self, cell: usize, value: u64) {
        let was = std::mem::replace(&mut self.cells[cell], value);
        if was != value {
            self.log.push(Change { cell, was });
        }
    }

    fn number(&self, cell: usize) -> f64 {
        f64::from_bits(self.cells[cell])
    }

    /// Those that come after a job, as a set.
    pub fn after(&self, job: usize) -> &[u64] {
        &self.cells[self.layout.after + job * self.layout.words..][..self.layout.words]
    }
    /// Those that come before a job, as a set.
    pub fn before(&self, job: usize) -> &[u64] {
        &self.cells[self.layout.before + job * self.layout.words..][..self.layout.words]
    }
    /// Is it known that one precedes the other?
    pub fn precedes(&self, one: usize, other: usize) -> bool {
        bits::has(self.after(one), other)
    }
    /// The earliest start of a job.
    pub fn head(&self, job: usize) -> f64 {
        self.number(self.layout.heads + job)
    }
    /// The earliest end of a job.
    pub fn end(&self, job: usize) -> f64 {
        self.head(job) + self.jobs.durations[job]
    }
    /// The longest way from the end of a job to an owner's last end.
    pub fn tail(&self, job: usize, owner: usize) -> f64 {
        self.number(self.layout.tails + job * self.jobs.owner_count + owner)
    }
    /// The least last end of an owner.
    pub fn least(&self, owner: usize) -> f64 {
        self.number(self.layout.least + owner)
    }
    /// The latest end of a job that leaves room under the limit.
    pub fn latest(&self, job: usize) -> f64 {
        self.number(self.layout.latest + job)
    }
    /// The limit that latest ends are worked out for.
    pub fn limit(&self) -> f64 {
        self.number(self.layout.limit)
    }
    /// The sum over owners of least last ends.
    pub fn total(&self) -> f64 {
        (0..self.jobs.owner_count).map(|owner| self.least(owner)).sum()
    }
    /// The earliest starts of all jobs.
    pub fn heads(&self) -> Vec<f64> {
        (0..self.jobs.count()).map(|job| self.head(job)).collect()
    }

    /// A job starts no earlier than this.
    pub fn set_head(&mut self, job: usize, head: f64) {
        self.set(self.layout.heads + job, head.to_bits());
    }
    /// So long is the way from the end of a job to an owner's last end.
    pub fn set_tail(&mut self, job: usize, owner: usize, tail: f64) {
        self.set(self.layout.tails + job * self.jobs.owner_count + owner, tail.to_bits());
    }
    /// An owner's last end is no earlier than this.
    pub fn set_least(&mut self, owner: usize, least: f64) {
        self.set(self.layout.least + owner, least.to_bits());
    }
    /// A job ends no later than this.
    pub fn set_latest(&mut self, job: usize, latest: f64) {
        self.set(self.layout.latest + job, latest.to_bits());
    }
    /// Latest ends are worked out for this limit.
    pub fn set_limit(&mut self, limit: f64) {
        self.set(self.layout.limit, limit.to_bits());
    }

    /// One job precedes another, and all that follows from it by transitivity. False where the opposite is known.
    pub fn put(&mut self, one: usize, other: usize) -> bool {
        if self.precedes(one, other) {
            return true;
        }
        if one == other || self.precedes(other, one) {
            return false;
        }
        let mut rows = std::mem::take(&mut self.rows);
        let [before, after] = &mut rows;
        before.copy_from_slice(self.before(one));
        bits::insert(before, one);
        after.copy_from_slice(self.after(other));
        bits::insert(after, other);
        let Layout { words, after: first_after, before: first_before, .. } = self.layout;
        for job in bits::numbers(before.iter().copied()) {
            if self.join(first_after + job * words, after) {
                self.stale_tails.iter_mut().for_each(|stale| bits::insert(stale, job));
            }
        }
        for job in bits::numbers(after.iter().copied()) {
            if self.join(first_before + job * words, before) {
                bits::insert(&mut self.stale_heads, job);
            }
        }
        self.rows = rows;
        true
    }

    /// Adds a set to the one that begins at a cell. Was there anything new in it?
    fn join(&mut self, cell: usize, set: &[u64]) -> bool {
        let mut new = false;
        for (word, bits) in set.iter().enumerate() {
            let was = self.cells[cell + word];
            new |= was | bits != was;
            self.set(cell + word, was | bits);
        }
        new
    }

    /// Indices of the pairs whose order was not known when they were last sifted.
    pub fn open(&self) -> &[usize] {
        &self.open[..self.cells[self.layout.open] as usize]
    }

    /// Takes those pairs out of the open ones whose order is known by now.
    pub fn sift(&mut self) {
        let mut count = self.open().len();
        let mut at = 0;
        while at < count {
            let Pair { one, other } = self.pairs[self.open[at]];
            if self.precedes(one, other) || self.precedes(other, one) {
                count -= 1;
                self.open.swap(at, count);
            } else {
                at += 1;
            }
        }
        self.set(self.layout.open, count as u64);
    }
}
