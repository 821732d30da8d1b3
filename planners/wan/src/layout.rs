//! The routes of an instance laid flat: what the simulator and the rules run through at every event.

use crate::instance::Instance;

/// Links of all flows in one list, and the capacities of the links.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    links: Vec<u32>,
    /// For each flow where its links begin, and the length of `links` at the end.
    first: Vec<usize>,
    /// In MB/s, by link.
    pub capacity: Vec<f64>,
}

impl Layout {
    pub(crate) fn of(instance: &Instance) -> Layout {
        let (mut links, mut first) = (Vec::new(), Vec::with_capacity(instance.flows().len() + 1));
        for flow in instance.flows() {
            first.push(links.len());
            // An instance has at most a million links.
            links.extend(flow.path.iter().map(|&link| link as u32));
        }
        first.push(links.len());
        Layout { links, first, capacity: instance.links().iter().map(|link| link.capacity).collect() }
    }
    /// The links of a flow, in order.
    pub(crate) fn path(&self, flow: usize) -> &[u32] {
        &self.links[self.first[flow]..self.first[flow + 1]]
    }
    /// The least of `of` over a flow's links.
    pub(crate) fn least(&self, flow: usize, of: &[f64]) -> f64 {
        self.path(flow).iter().fold(f64::INFINITY, |least, &link| least.min(of[link as usize]))
    }
}

/// Loads of links that begin at nothing for each event, and know which links they are on.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    pub load: Vec<f64>,
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

impl Loads {
    pub(crate) fn new(links: usize) -> Loads {
        Loads { load: vec![0.0; links], touched: Vec::new(), is_touched: vec![false; links] }
    }
    pub(crate) fn clear(&mut self) {
        for link in self.touched.drain(..) {
            self.load[link as usize] = 0.0;
            self.is_touched[link as usize] = false;
        }
    }
    pub(crate) fn add(&mut self, path: &[u32], load: f64) {
        for &link in path {
            let at = link as usize;
            self.load[at] += load;
            if !self.is_touched[at] {
                self.is_touched[at] = true;
                self.touched.push(link);
            }
        }
    }
    /// The links that something was added to, in the order in which they were first met.
    pub(crate) fn touched(&self) -> &[u32] {
        &self.touched
    }
}
