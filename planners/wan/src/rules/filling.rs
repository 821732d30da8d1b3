//! Progressive filling: what links have left, divided weighted max-min fair among flows.
//!
//! All free flows rise together, each in proportion to its weight, until a link is full; the flows over it stop there, and
//! the others rise on.

use crate::layout::Layout;

/// Links this near to the smallest room, relatively, are full together with it.
const SAME: f64 = 1e-12;
/// A sum of weights that has shrunk to this part of itself is added up anew.
const SHRUNK: f64 = 1e-3;

/// Room for one filling after the other.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    /// What each link has left, in MB/s.
    pub(super) left: Vec<f64>,
    /// The weights of the free flows over each link, and that sum when it was last added up.
    sum: Vec<(f64, f64)>,
    free_on: Vec<u32>,
    /// For each link where its flows begin in `over`.
    first: Vec<u32>,
    over: Vec<u32>,
    /// Links with free flows.
    open: Vec<u32>,
    free: Vec<bool>,
    stopped: Vec<usize>,
}

impl Filling {
    pub(super) fn new(links: usize) -> Filling {
        Filling {
            left: vec![0.0; links],
            sum: vec![(0.0, 0.0); links],
            free_on: vec![0; links],
            first: vec![0; links],
            over: Vec::new(),
            open: Vec::new(),
            free: Vec::new(),
            stopped: Vec::new(),
        }
    }

    /// Adds to the rates of `ready` what `left` allows; a weight of 0 gets nothing.
    pub(super) fn fill(&mut self, layout: &Layout, ready: &[usize], weight: &[f64], rates: &mut [f64]) {
        self.lay_out(layout, ready, weight);
        let mut level = 0.0;
        while !self.open.is_empty() {
            let room = |&link: &u32| (self.left[link as usize] / self.sum[link as usize].0).max(0.0);
            let rise = self.open.iter().map(room).fold(f64::INFINITY, f64::min);
            level += rise;
            self.stopped.clear();
            for &link in &self.open {
                let at = link as usize;
                let full = (self.left[at] / self.sum[at].0).max(0.0) <= rise * (1.0 + SAME);
                self.left[at] = if full { 0.0 } else { self.left[at] - rise * self.sum[at].0 };
                if full {
                    let first = self.first[at] as usize;
                    let over = self.over[first..].iter().take_while(|&&place| place != END);
                    for &place in over {
                        let place = place as usize;
                        if std::mem::replace(&mut self.free[place], false) {
                            self.stopped.push(place);
                        }
                    }
                }
            }
            if self.stopped.is_empty() {
                // Not a number somewhere: nothing will ever be full.
                return;
            }
            for index in 0..self.stopped.len() {
                let place = self.stopped[index];
                let flow = ready[place];
                rates[place] += level * weight[flow];
                for &link in layout.path(flow) {
                    self.free_on[link as usize] -= 1;
                    self.sum[link as usize].0 -= weight[flow];
                }
            }
            self.close(ready, weight);
        }
    }

    /// Who is on which link.
    fn lay_out(&mut self, layout: &Layout, ready: &[usize], weight: &[f64]) {
        self.open.clear();
        self.free.clear();
        for &flow in ready {
            let is_free = weight[flow] > 0.0;
            self.free.push(is_free);
            if !is_free {
                continue;
            }
            for &link in layout.path(flow) {
                let at = link as usize;
                if self.free_on[at] == 0 {
                    self.open.push(link);
                    self.sum[at] = (0.0, 0.0);
                }
                self.free_on[at] += 1;
                self.sum[at].0 += weight[flow];
            }
        }
        let mut length = 0;
        for &link in &self.open {
            let at = link as usize;
            self.sum[at].1 = self.sum[at].0;
            self.first[at] = length;
            // One place more, for the end.
            length += self.free_on[at] + 1;
            self.free_on[at] = 0;
        }
        self.over.clear();
        self.over.resize(length as usize, END);
        for (place, &flow) in ready.iter().enumerate().filter(|&(place, _)| self.free[place]) {
            for &link in layout.path(flow) {
                let at = link as usize;
                self.over[(self.first[at] + self.free_on[at]) as usize] = place as u32;
                self.free_on[at] += 1;
            }
        }
    }

    /// Takes the links without free flows out, and adds sums up anew that have lost their digits.
    fn close(&mut self, ready: &[usize], weight: &[f64]) {
        let Filling { sum, free_on, first, over, open, free, .. } = self;
        open.retain(|&link| free_on[link as usize] > 0);
        for &link in open.iter() {
            let at = link as usize;
            let (now, whole) = sum[at];
            if now < whole * SHRUNK {
                let over = over[first[at] as usize..].iter().take_while(|&&place| place != END);
                let still = over.filter(|&&place| free[place as usize]).map(|&place| weight[ready[place as usize]]);
                let exact: f64 = still.sum();
                sum[at] = (exact, exact);
            }
        }
    }
}

/// Behind the last flow of a link.
const END: u32 = u32::MAX;
