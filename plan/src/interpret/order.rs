//! Which steps come before which in every run, and whether two that touch one chunk are in order.
//!
//! A step comes after the one before it in its block, after the one it waits for, and after the one whose message it
//! received. That is all a transport with buffers promises: a send may be over before anybody has received. Two steps
//! of one rank that touch one chunk, at least one of them writing, must be in that order, or some run goes wrong.

/// The number that no step has.
pub const NONE: u32 = u32::MAX;

/// The steps that ran so far, by when they did, and who came before whom.
pub struct Order {
    /// Per step: the one before it in its block, the one it waits for, the one whose message it received.
    before: Vec<[u32; 3]>,
    /// Per step: when it touched memory.
    when: Vec<u32>,
    clock: u32,
    /// Steps seen by the search with this number.
    seen: Vec<u32>,
    search: u32,
    /// Steps that all searches together may still look at.
    budget: u64,
    /// Per cell: the last step that wrote it, and those that have read it since.
    cells: Vec<(u32, Vec<u32>)>,
    /// Per step: the last step that was found to come after it. Chunks that a step touches together mostly share
    /// their history.
    known: Vec<u32>,
}

/// Why a step may not touch a cell.
pub enum Refused {
    /// It is in no order with this step.
    Race(u32),
    /// The search took too long.
    Budget,
}

impl Order {
    /// Nothing has run yet.
    pub fn new(steps: usize, cells: usize, budget: u64) -> Order {
        Order {
            before: vec![[NONE; 3]; steps],
            when: vec![NONE; steps],
            clock: 0,
            seen: vec![0; steps],
            search: 0,
            budget,
            cells: vec![(NONE, Vec::new()); cells],
            known: vec![NONE; steps],
        }
    }
    /// The step runs now, after these.
    pub fn run(&mut self, step: u32, before: [u32; 3]) {
        self.before[step as usize] = before;
        self.when[step as usize] = self.clock;
        self.clock += 1;
    }
    /// The step that runs reads a cell.
    pub fn read(&mut self, step: u32, cell: usize) -> Result<(), Refused> {
        let writer = self.cells[cell].0;
        self.is_after(step, writer)?;
        let readers = &mut self.cells[cell].1;
        if readers.last() != Some(&step) {
            readers.push(step);
        }
        Ok(())
    }
    /// The step that runs writes a cell.
    pub fn write(&mut self, step: u32, cell: usize) -> Result<(), Refused> {
        let (writer, readers) = std::mem::replace(&mut self.cells[cell], (step, Vec::new()));
        self.is_after(step, writer)?;
        readers.into_iter().try_for_each(|reader| self.is_after(step, reader))
    }

    /// Is the step that runs after an earlier one, whatever the run?
    fn is_after(&mut self, step: u32, earlier: u32) -> Result<(), Refused> {
        if earlier == NONE || earlier == step || self.known[earlier as usize] == step {
            return Ok(());
        }
        self.search += 1;
        let (search, bound) = (self.search, self.when[earlier as usize]);
        let mut stack = vec![step];
        while let Some(at) = stack.pop() {
            for before in self.before[at as usize] {
                if before == earlier {
                    self.known[earlier as usize] = step;
                    return Ok(());
                }
                // Whoever ran before the earlier one cannot lead to it.
                if before != NONE && self.when[before as usize] > bound && self.seen[before as usize] != search {
                    self.seen[before as usize] = search;
                    stack.push(before);
                }
            }
            self.budget = self.budget.checked_sub(1).ok_or(Refused::Budget)?;
        }
        Err(Refused::Race(earlier))
    }
}
