//! The kernel's table of one host: a row for each flow, and a generation that tells its owners apart.
//!
//! A row goes to the next flow as soon as its own is gone, the last one freed first, so that an order that comes late would
//! reach somebody else if the generation did not keep it out.

/// A row as its flow's daemon was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub index: usize,
    pub generation: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    generation: u32,
    flow: Option<usize>,
}

/// All rows of a host.
#[derive(Clone, Debug)]
pub struct Rows {
    rows: Vec<Row>,
    free: Vec<usize>,
}

impl Rows {
    pub fn new(count: usize) -> Rows {
        Rows { rows: vec![Row::default(); count], free: (0..count).rev().collect() }
    }

    /// A row for a flow, if there is one.
    pub fn open(&mut self, flow: usize) -> Option<Place> {
        let index = self.free.pop()?;
        let row = &mut self.rows[index];
        *row = Row { generation: row.generation + 1, flow: Some(flow) };
        Some(Place { index, generation: row.generation })
    }

    pub fn close(&mut self, place: Place) {
        let row = &mut self.rows[place.index];
        if row.generation == place.generation && row.flow.take().is_some() {
            self.free.push(place.index);
        }
    }

    /// The flow that owns the row now, if it is the one of this generation.
    pub fn owner(&self, place: Place) -> Option<usize> {
        let row = self.rows[place.index];
        row.flow.filter(|_| row.generation == place.generation)
    }

    /// The flow that owns the row now, whoever asks.
    pub fn anyone(&self, place: Place) -> Option<usize> {
        self.rows[place.index].flow
    }

    /// Has the row had other owners before this one?
    pub fn is_recycled(&self, place: Place) -> bool {
        place.generation > 1
    }
}
