//! What the links have left over time, while flows are placed one after the other: strict priority without a clock.
//!
//! A flow that goes before all others is not touched by them. So flows placed in the order of their priority, each taking
//! all that those before it left on its route, run as under the rule of strict priority.

use crate::instance::Instance;
use crate::layout::Layout;
use crate::rules::priority::NOTHING;

/// A remainder below this part of a link's capacity is rounding.
const ROUNDING: f64 = 1e-12;

/// From an instant on a link has this much left, until the next one of its list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    from: f64,
    left: f64,
}

/// A stretch of time in which a flow has one rate.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: f64,
    to: f64,
    rate: f64,
}

/// The links' remainders, and room to place flows on them. A link's list begins at 0 and its last piece never ends.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    layout: Layout,
    size: Vec<f64>,
    release: Vec<f64>,
    least: Vec<f64>,
    links: Vec<Vec<Piece>>,
    /// The piece that the flow is in, for each link of its route; and the one that its first stretch is in, or one before.
    at: Vec<usize>,
    first: Vec<usize>,
    stretches: Vec<Stretch>,
    made: Vec<Piece>,
    /// Pieces looked at so far: a measure of work that is the same on every machine.
    pub(super) work: u64,
}

impl Timeline {
    pub(super) fn new(instance: &Instance) -> Timeline {
        let flows = instance.flows();
        let layout = Layout::of(instance);
        Timeline {
            size: flows.iter().map(|flow| flow.size).collect(),
            release: flows.iter().map(|flow| flow.release).collect(),
            least: (0..flows.len()).map(|flow| NOTHING * instance.alone(flow)).collect(),
            links: layout.capacity.iter().map(|&left| vec![Piece { from: 0.0, left }]).collect(),
            layout,
            at: Vec::new(),
            first: Vec::new(),
            stretches: Vec::new(),
            made: Vec::new(),
            work: 0,
        }
    }
    /// The links of a flow.
    pub(super) fn path(&self, flow: usize) -> &[u32] {
        self.layout.path(flow)
    }
    /// The pieces of a link.
    pub(super) fn pieces(&self, link: usize) -> &[Piece] {
        &self.links[link]
    }
    /// Puts a link back to what it was; nothing: to when nothing of it was taken.
    pub(super) fn restore(&mut self, link: usize, pieces: &[Piece]) {
        // Copying is faster than placing.
        self.work += pieces.len() as u64 / 4;
        let to = &mut self.links[link];
        to.clear();
        to.extend_from_slice(pieces);
        if pieces.is_empty() {
            to.push(Piece { from: 0.0, left: self.layout.capacity[link] });
        }
    }

    /// Places a flow that may begin at `ready`; when it ends, in s.
    pub(super) fn place(&mut self, flow: usize, ready: f64) -> f64 {
        let Timeline { layout, links, at, first, stretches, made, work, .. } = self;
        let path = layout.path(flow);
        let begin = ready.max(self.release[flow]);
        at.clear();
        for &link in path {
            at.push(links[link as usize].partition_point(|piece| piece.from <= begin) - 1);
        }
        stretches.clear();
        let (mut t, mut left, least) = (begin, self.size[flow], self.least[flow]);
        let end = loop {
            *work += path.len() as u64;
            let (mut rate, mut until) = (f64::INFINITY, f64::INFINITY);
            for (&link, at) in path.iter().zip(at.iter_mut()) {
                let pieces = &links[link as usize];
                let mut next = pieces.get(*at + 1).map_or(f64::INFINITY, |piece| piece.from);
                while next <= t {
                    *at += 1;
                    next = pieces.get(*at + 1).map_or(f64::INFINITY, |piece| piece.from);
                }
                let room = pieces[*at].left;
                if room < least {
                    // Nothing goes before this link has something: no other link matters until then.
                    (rate, until) = (0.0, next);
                    break;
                }
                rate = rate.min(room);
                until = until.min(next);
            }
            if rate > 0.0 {
                if stretches.is_empty() {
                    first.clone_from(at);
                }
                let end = t + left / rate;
                if end <= until {
                    stretches.push(Stretch { from: t, to: end, rate });
                    break end;
                }
                stretches.push(Stretch { from: t, to: until, rate });
                left = (left - rate * (until - t)).max(0.0);
            }
            t = until;
        };
        for (&link, &first) in path.iter().zip(first.iter()) {
            take(&mut links[link as usize], first, stretches, made, ROUNDING * layout.capacity[link as usize]);
        }
        end
    }
}

/// Takes the rates of stretches of time, each of which lies in one piece, from a link; the first lies in the piece
/// `begin` or a later one.
fn take(pieces: &mut Vec<Piece>, mut begin: usize, stretches: &[Stretch], made: &mut Vec<Piece>, rounding: f64) {
    let Some(first) = stretches.first() else { return };
    while pieces.get(begin + 1).is_some_and(|next| next.from <= first.from) {
        begin += 1;
    }
    made.clear();
    let mut last = if begin > 0 { pieces[begin - 1].left } else { f64::NAN };
    // Neighbours with the same remainder are one piece.
    let mut add = |from: f64, left: f64| {
        if left != last {
            made.push(Piece { from, left });
            last = left;
        }
    };
    let mut stretches = stretches.iter();
    let mut stretch = stretches.next();
    let mut end = begin;
    while let Some(piece) = pieces.get(end) {
        let next = pieces.get(end + 1).map_or(f64::INFINITY, |next| next.from);
        let mut from = piece.from;
        while let Some(&Stretch { from: begins, to, rate }) = stretch.filter(|stretch| stretch.from < next) {
            if begins > from {
                add(from, piece.left);
            }
            let rest = piece.left - rate;
            add(begins, if rest < rounding { 0.0 } else { rest });
            from = to;
            stretch = stretches.next();
        }
        if from < next {
            add(from, piece.left);
            // Behind the last stretch everything stays, but for a first piece that has become one with that before it.
            if stretch.is_none() {
                end += 1;
                break;
            }
        }
        end += 1;
        if stretch.is_none() {
            if let Some(piece) = pieces.get(end) {
                add(piece.from, piece.left);
                end += 1;
            }
            break;
        }
    }
    replace(pieces, begin, end, made);
}

/// Puts `made` in the place of the pieces from `begin` to `end`.
fn replace(pieces: &mut Vec<Piece>, begin: usize, end: usize, made: &[Piece]) {
    let (length, new_end) = (pieces.len(), begin + made.len());
    let new_length = length - end + new_end;
    if new_length > length {
        pieces.resize(new_length, Piece { from: 0.0, left: 0.0 });
    }
    pieces.copy_within(end..length, new_end);
    pieces.truncate(new_length);
    pieces[begin..new_end].copy_from_slice(made);
}
