//! What sequences of flows achieve under strict priority, judged fast: what a sequence shares with the one kept is not
//! placed again.
//!
//! A sequence names groups; the j-th time that it names a group stands for the j-th flow of its chain. So every order of
//! such names is one that the chains allow.

use super::timeline::{Piece, Timeline};
use crate::instance::Instance;
use crate::rules::priority;

/// Pieces kept of all links together at most: what is behind is placed anew each time.
const MAX_KEPT: usize = 4_000_000;

/// A link as it was when the flow at a place of the kept sequence had been placed.
#[derive(Clone, Copy, Debug)]
struct Version {
    place: usize,
    begin: usize,
}

/// All versions of one link, by place, their pieces one after the other.
#[derive(Clone, Debug, Default)]
struct History {
    versions: Vec<Version>,
    pieces: Vec<Piece>,
}

impl History {
    /// The pieces before the flow at `place` was placed; nothing if no flow was.
    fn before(&self, place: usize) -> &[Piece] {
        let after = self.versions.partition_point(|version| version.place < place);
        let Some(last) = after.checked_sub(1).and_then(|last| self.versions.get(last)) else { return &[] };
        let end = self.versions.get(after).map_or(self.pieces.len(), |version| version.begin);
        &self.pieces[last.begin..end]
    }
    /// Forgets what came from `place` on; how many pieces that was.
    fn forget(&mut self, place: usize) -> usize {
        let after = self.versions.partition_point(|version| version.place < place);
        let length = self.pieces.len();
        if let Some(version) = self.versions.get(after) {
            self.pieces.truncate(version.begin);
            self.versions.truncate(after);
        }
        length - self.pieces.len()
    }
}

/// A flow at its place in a sequence.
#[derive(Clone, Copy, Debug)]
struct Placed {
    group: usize,
    flow: usize,
    /// When the flow before it in its chain ended, in s.
    ready: f64,
    /// When it ends, in s.
    end: f64,
}

/// Judges sequences of an instance that is a set of chains.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    timeline: Timeline,
    /// For each group its flows and its collective.
    flows: Vec<Vec<usize>>,
    collective: Vec<usize>,
    /// For each flow what is behind it in its chain at least, in s.
    behind: Vec<f64>,
    /// For each flow its links, ascending.
    links: Vec<Vec<u32>>,
    /// What a second of the sum of the groups' times counts beside one of the sum of the collectives' times.
    minor: f64,
    /// What each collective takes at least, in s.
    bound: Vec<f64>,
    /// The sequence that others are compared with. Up to `recorded` its links are known; they take `pieces` in all.
    kept: Vec<Placed>,
    recorded: usize,
    pieces: usize,
    history: Vec<History>,
    /// The judgement for which each link was loaded last, and the one that is made.
    loaded: Vec<u64>,
    judgement: u64,
    /// Of the sequence that was judged last what stands from `first` on.
    first: usize,
    judged: Vec<Placed>,
    /// While judging: each group's end and how many of its flows have been placed, and what each collective takes at least.
    end_of: Vec<f64>,
    placed: Vec<usize>,
    t: Vec<f64>,
}

impl Judge {
    pub(super) fn new(instance: &Instance, minor: f64) -> Judge {
        let groups = instance.groups();
        let mut bound = vec![0.0_f64; instance.collectives()];
        for group in groups {
            let chain: f64 = group.flows.iter().map(|&flow| instance.duration(flow)).sum();
            bound[group.collective] = bound[group.collective].max(chain);
        }
        let timeline = Timeline::new(instance);
        let sorted = |flow| {
            let mut links = timeline.path(flow).to_vec();
            links.sort_unstable();
            links
        };
        let count = instance.links().len();
        Judge {
            flows: groups.iter().map(|group| group.flows.clone()).collect(),
            collective: groups.iter().map(|group| group.collective).collect(),
            behind: priority::behind(instance),
            links: (0..instance.flows().len()).map(sorted).collect(),
            timeline,
            minor,
            bound,
            kept: Vec::new(),
            recorded: 0,
            pieces: 0,
            history: vec![History::default(); count],
            loaded: vec![0; count],
            judgement: 0,
            first: 0,
            judged: Vec::new(),
            end_of: vec![0.0; groups.len()],
            placed: vec![0; groups.len()],
            t: Vec::new(),
        }
    }

    /// Work done so far, in pieces of links looked at: the same on every machine.
    pub(super) fn work(&self) -> u64 {
        self.timeline.work
    }

    /// The value of a sequence, in s: the sum of the collectives' times, and a little of the groups'. `same` is the place
    /// from which on it differs from the one kept. Infinity as soon as it is clear that the value is not below `below`.
    pub(super) fn value(&mut self, sequence: &[usize], same: usize, below: f64) -> f64 {
        self.judgement += 1;
        let start = self.begin(same);
        for place in start..same {
            self.record(place);
        }
        self.first = same;
        self.judged.clear();
        let mut value = self.t.iter().sum::<f64>() + self.minor * self.end_of.iter().sum::<f64>();
        for &group in sequence.iter().skip(same) {
            if value >= below {
                return f64::INFINITY;
            }
            let placed = self.put(group, same);
            self.judged.push(placed);
            let known = self.t[self.collective[group]];
            value += self.minor * (placed.end - placed.ready) + (self.at_least(placed) - known).max(0.0);
            self.count(placed);
        }
        if value < below { value } else { f64::INFINITY }
    }

    /// Keeps the sequence that was judged last, whose value was found.
    pub(super) fn keep(&mut self) {
        self.kept.truncate(self.first);
        self.kept.append(&mut self.judged);
        for history in &mut self.history {
            self.pieces -= history.forget(self.first);
        }
        self.recorded = self.recorded.min(self.first);
    }

    /// The group at a place of the kept sequence.
    pub(super) fn group(&self, place: usize) -> usize {
        self.kept[place].group
    }

    /// Would it make a difference if the flows at two places of the kept sequence changed theirs? They share a link, and
    /// the times in which they are ready and not done overlap.
    pub(super) fn compete(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.kept[one], &self.kept[other]);
        if one.ready >= other.end || other.ready >= one.end {
            return false;
        }
        let others = &self.links[other.flow];
        self.links[one.flow].iter().any(|link| others.binary_search(link).is_ok())
    }

    /// What the collective of a flow takes at least.
    fn at_least(&self, placed: Placed) -> f64 {
        placed.end + self.behind[placed.flow]
    }

    fn count(&mut self, placed: Placed) {
        let least = self.at_least(placed);
        let t = &mut self.t[self.collective[placed.group]];
        *t = t.max(least);
    }

    /// Sets all but the links to what they are before `same`, or before the place up to which links are known; which.
    fn begin(&mut self, same: usize) -> usize {
        let start = same.min(self.recorded);
        self.end_of.fill(0.0);
        self.placed.fill(0);
        self.t.clone_from(&self.bound);
        for place in 0..start {
            let placed = self.kept[place];
            self.end_of[placed.group] = placed.end;
            self.placed[placed.group] += 1;
            self.count(placed);
        }
        start
    }

    /// Places the flow at a place of the kept sequence, and records its links.
    fn record(&mut self, place: usize) {
        let placed = self.put(self.kept[place].group, place);
        self.count(placed);
        if self.recorded == place && self.pieces < MAX_KEPT {
            self.recorded = place + 1;
            for &link in self.timeline.path(placed.flow) {
                let history = &mut self.history[link as usize];
                let pieces = self.timeline.pieces(link as usize);
                history.versions.push(Version { place, begin: history.pieces.len() });
                history.pieces.extend_from_slice(pieces);
                self.pieces += pieces.len();
            }
        }
    }

    /// Places the next flow of a group. Links not met since the judgement began are loaded as they were before `place`.
    fn put(&mut self, group: usize, place: usize) -> Placed {
        let flow = self.flows[group][self.placed[group]];
        for &link in &self.links[flow] {
            let link = link as usize;
            if self.loaded[link] != self.judgement {
                self.loaded[link] = self.judgement;
                self.timeline.restore(link, self.history[link].before(place));
            }
        }
        let ready = self.end_of[group];
        let end = self.timeline.place(flow, ready);
        self.end_of[group] = end;
        self.placed[group] += 1;
        Placed { group, flow, ready, end }
    }
}
