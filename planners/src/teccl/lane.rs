//! What links do with chunks, counted in epochs: how long a chunk is under way, and how many may begin.
//!
//! A chunk that starts on a lane in epoch k can be sent on from epoch k + `after`. It fills the lane's rooms for `kappa`
//! epochs; a room takes so many chunks at a time. A lane is a link, or, where switches are no nodes of their own, a way
//! through one.

use num_integer::Integer as _;
use num_traits::ToPrimitive as _;
use sluice_formats::problem::{Problem, Problems};
use sluice_formats::quantity::{Capacity, Rational};
use sluice_formats::topology::{Kind, Topology};

/// Epochs that a transfer may take at most: what is on a link is kept epoch by epoch.
const MAX_EPOCHS: u64 = 1 << 20;
/// Of the shortest latency, epochs from which on a finer grid is rather a burden.
const MAX_FINE: u64 = 200;

/// The length of an epoch, as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum EpochLength {
    /// What the fastest link takes for a chunk.
    Fast,
    /// What the slowest link takes for a chunk.
    Slow,
    /// So many seconds, above zero.
    Fixed(Rational),
}

/// A link or a node that is slower than the topology says.
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// The link that is slow, or the node whose links are.
    pub place: Place,
    /// Seconds added to the latency.
    pub alpha_add: Rational,
    /// Factor of the time per byte.
    pub beta_mul: Rational,
}

/// A link or a node, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The link of this index alone.
    Link(usize),
    /// All links of this node.
    Node(usize),
}

/// What turns a topology into lanes.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Bytes of a chunk.
    pub chunk: Rational,
    /// Seconds of an epoch.
    pub tau: Rational,
    /// Share of an epoch below which a latency counts as none.
    pub theta: Rational,
    /// Does a link from a switch to a GPU cost its latency alone?
    pub free_second_hop: bool,
    /// Are ways through switches lanes, instead of switches nodes?
    pub hyper_edges: bool,
    /// Who is slower than the topology says.
    pub stragglers: Vec<Straggler>,
}

/// What a node of the topology may do with chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// Does it forward in the very epoch, and store nothing?
    pub is_switch: bool,
    /// May it send what it got once to several others?
    pub copies: bool,
    /// May it add up what comes from several others?
    pub reduces: bool,
    /// Chunks of others that it may hold; `None`: any number.
    pub buffer: Option<u64>,
    /// The same in bytes.
    pub bytes: Option<f64>,
}

/// A way for a chunk from a node to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// The node that sends.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// The links it is made of: one, or two with a switch between.
    pub links: Vec<usize>,
    /// Further epochs for latency.
    pub delta: u64,
    /// Epochs to push a chunk through.
    pub kappa: u64,
    /// Epochs from the start until the receiver can send it on.
    pub after: u64,
    /// Chunks per epoch, by epoch; the last repeats.
    pub rates: Vec<Rational>,
    /// The rooms that a chunk fills while it is pushed through.
    pub rooms: Vec<usize>,
}

impl Lane {
    /// Chunks per epoch in this epoch.
    pub fn rate(&self, epoch: u64) -> &Rational {
        let place = usize::try_from(epoch).unwrap_or(usize::MAX).min(self.rates.len().saturating_sub(1));
        &self.rates[place]
    }
    /// Chunks in the first `epochs` epochs, where they may be cut.
    pub(super) fn rate_until(&self, epochs: u64) -> Rational {
        let known = (self.rates.len() as u64).saturating_sub(1).min(epochs);
        let mut sum = self.rate(known) * &Rational::from(epochs - known);
        (0..known).for_each(|epoch| sum += self.rate(epoch));
        sum
    }
}

/// What takes so many chunks at a time: a link, or a port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Chunks, by epoch; the last repeats.
    pub limits: Vec<u64>,
}

impl Room {
    /// Chunks at a time in this epoch.
    pub fn limit(&self, epoch: u64) -> u64 {
        let place = usize::try_from(epoch).unwrap_or(usize::MAX).min(self.limits.len().saturating_sub(1));
        self.limits.get(place).copied().unwrap_or(0)
    }
}

/// Nodes, lanes between them, and the room there is.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// By their index in the topology.
    pub nodes: Vec<Node>,
    /// By link, or by the links into and out of switches.
    pub lanes: Vec<Lane>,
    /// What lanes fill, of their own or shared with others.
    pub rooms: Vec<Room>,
    /// By node the lanes that leave it.
    pub out: Vec<Vec<usize>>,
    /// By node the lanes that enter it.
    pub into: Vec<Vec<usize>>,
    /// What the caller should know: code and sentence.
    pub warnings: Vec<(&'static str, String)>,
}

/// A capacity with what slows its link, before there are epochs.
struct Slowed {
    /// Latency in seconds, what stragglers add included.
    alpha: Rational,
    /// Bytes per second, divided by what slows a straggler.
    rate: Rational,
    /// By epoch the rate, where it changes with time.
    per_epoch: Option<Vec<Rational>>,
}

impl Lanes {
    /// The lanes of a topology.
    ///
    /// # Errors
    /// With pointers into the topology: `BadLink`, `SwitchChain`, `VaryingNeedsUnitKappa`, `BadEpoch`. `divisible`
    /// chunks may vary at will.
    pub fn new(topology: &Topology, terms: &Terms, divisible: bool) -> Result<Lanes, Problems> {
        let slowed = slowed(topology, &terms.stragglers)?;
        let switch = |node: usize| matches!(topology.nodes()[node].kind, Kind::Switch | Kind::Nic);
        let room_for =
            |bytes: &Rational| bytes.checked_div(&terms.chunk).and_then(|chunks| floor(&chunks)).unwrap_or(0);
        let nodes = topology.nodes().iter().enumerate().map(|(i, node)| Node {
            is_switch: switch(i),
            copies: !switch(i) || node.can.copy,
            reduces: !switch(i) || node.can.reduce,
            buffer: node.buffer.as_ref().map(room_for),
            bytes: node.buffer.as_ref().map(Rational::to_f64),
        });
        let mut made = Lanes {
            nodes: nodes.collect(),
            lanes: Vec::with_capacity(slowed.len()),
            rooms: Vec::new(),
            out: vec![Vec::new(); topology.nodes().len()],
            into: vec![Vec::new(); topology.nodes().len()],
            warnings: Vec::new(),
        };
        if terms.hyper_edges {
            made.hyper_edges(topology, terms, &slowed)?;
        } else {
            for (i, (link, slow)) in topology.links().iter().zip(&slowed).enumerate() {
                let lane = lane(topology, terms, i, slow, divisible)?;
                made.warn_of_rounding(topology, &lane, divisible);
                made.rooms.push(Room { limits: lane.rates.iter().map(|rate| most(rate, lane.kappa)).collect() });
                let free = terms.free_second_hop && switch(link.from) && !switch(link.to);
                let after = if free { lane.delta } else { lane.after };
                made.push(Lane { after, rooms: vec![made.rooms.len() - 1], ..lane });
            }
        }
        let shortest = slowed.iter().map(|slow| &slow.alpha).filter(|alpha| alpha.is_positive()).min();
        if shortest.is_some_and(|alpha| *alpha > &terms.tau * &Rational::from(MAX_FINE)) {
            let message = format!("the shortest latency is more than {MAX_FINE} epochs; longer epochs are as good");
            made.warnings.push(("FineGrid", message));
        }
        Ok(made)
    }

    /// The same lanes the other way round, in time that runs backwards: to copy there is to add up here.
    #[must_use]
    pub fn reversed(mut self) -> Lanes {
        for lane in &mut self.lanes {
            std::mem::swap(&mut lane.from, &mut lane.to);
        }
        for node in &mut self.nodes {
            std::mem::swap(&mut node.copies, &mut node.reduces);
        }
        std::mem::swap(&mut self.out, &mut self.into);
        self
    }

    fn push(&mut self, lane: Lane) {
        self.out[lane.from].push(self.lanes.len());
        self.into[lane.to].push(self.lanes.len());
        self.lanes.push(lane);
    }

    /// Lanes through switches: latencies add up, the slower link counts, and every port takes one chunk at a time.
    fn hyper_edges(&mut self, topology: &Topology, terms: &Terms, slowed: &[Slowed]) -> Result<(), Problems> {
        let links = topology.links();
        let is_switch: Vec<bool> = self.nodes.iter().map(|node| node.is_switch).collect();
        if let Some(link) = links.iter().find(|link| is_switch[link.from] && is_switch[link.to]) {
            let id = |node: usize| &topology.nodes()[node].id;
            let message = format!("{} and {} are switches in a row", id(link.from), id(link.to));
            let error = Problem::new("SwitchChain", format!("/links/{}", link.entry), message);
            return Err(error.allowed("without --hyper-edges: any").into());
        }
        for (i, link) in links.iter().enumerate().filter(|(_, link)| !is_switch[link.from] && !is_switch[link.to]) {
            let lane = lane(topology, terms, i, &slowed[i], false)?;
            self.rooms.push(Room { limits: lane.rates.iter().map(|rate| most(rate, lane.kappa)).collect() });
            debug_assert_ne!(link.from, link.to);
            self.push(Lane { rooms: vec![self.rooms.len() - 1], ..lane });
        }
        for switch in (0..is_switch.len()).filter(|node| is_switch[*node]) {
            let ends = |of: fn(&sluice_formats::topology::Link) -> usize| {
                (0..links.len()).filter(|i| of(&links[*i]) == switch).collect::<Vec<usize>>()
            };
            let (into, out) = (ends(|link| link.to), ends(|link| link.from));
            let first = self.rooms.len();
            self.rooms.push(Room { limits: vec![into.len().min(out.len()) as u64] });
            self.rooms.extend((0..into.len() + out.len()).map(|_| Room { limits: vec![1] }));
            for (i, from) in into.iter().enumerate() {
                for (j, to) in out.iter().enumerate() {
                    let (begin, end) = (links[*from].from, links[*to].to);
                    if begin == end || links.iter().any(|link| link.from == begin && link.to == end) {
                        continue;
                    }
                    let [a, b] = [&slowed[*from], &slowed[*to]];
                    let slow =
                        Slowed { alpha: &a.alpha + &b.alpha, rate: (&a.rate).min(&b.rate).clone(), per_epoch: None };
                    let lane = lane(topology, terms, *from, &slow, false)?;
                    let rooms = vec![first, first + 1 + i, first + 1 + into.len() + j];
                    self.push(Lane { from: begin, to: end, links: vec![*from, *to], rooms, ..lane });
                }
            }
        }
        Ok(())
    }

    fn warn_of_rounding(&mut self, topology: &Topology, lane: &Lane, divisible: bool) {
        let Some(rate) = lane.rates.first().filter(|_| !divisible) else { return };
        let whole = Rational::from(most(rate, lane.kappa)).checked_div(&Rational::from(lane.kappa));
        let least = Rational::new(19, 20).map(|share| rate * &share);
        if whole < least && self.warnings.iter().all(|(code, _)| *code != "RateRoundedDown") {
            let id = |node: usize| &topology.nodes()[node].id;
            let message = format!(
                "{} → {} carries {:.3} chunks per epoch, and whole chunks use {:.3} of it; other epochs may fit better",
                id(lane.from),
                id(lane.to),
                rate.to_f64(),
                whole.map_or(0.0, |whole| whole.to_f64()),
            );
            self.warnings.push(("RateRoundedDown", message));
        }
    }

    /// Epochs that a chunk needs at least from a node to every other one; `u64::MAX` where no way leads.
    pub fn distances(&self, from: usize) -> Vec<u64> {
        self.search(from, &self.out, |lane| lane.to).0
    }
    /// Epochs that a chunk needs at least from every node to this one.
    pub fn distances_to(&self, to: usize) -> Vec<u64> {
        self.search(to, &self.into, |lane| lane.from).0
    }
    /// The distances from a node, and by node the last lane of a shortest way there.
    pub fn ways(&self, from: usize) -> (Vec<u64>, Vec<Option<usize>>) {
        self.search(from, &self.out, |lane| lane.to)
    }

    fn search(&self, at: usize, next: &[Vec<usize>], end: impl Fn(&Lane) -> usize) -> (Vec<u64>, Vec<Option<usize>>) {
        use std::cmp::Reverse;
        let (mut distance, mut last) = (vec![u64::MAX; self.nodes.len()], vec![None; self.nodes.len()]);
        distance[at] = 0;
        let mut queue = std::collections::BinaryHeap::from([Reverse((0, at))]);
        while let Some(Reverse((so_far, node))) = queue.pop() {
            if so_far > distance[node] {
                continue;
            }
            for lane in &next[node] {
                let (there, other) = (so_far + self.lanes[*lane].after, end(&self.lanes[*lane]));
                if there < distance[other] {
                    (distance[other], last[other]) = (there, Some(*lane));
                    queue.push(Reverse((there, other)));
                }
            }
        }
        (distance, last)
    }
}

/// The length of an epoch in seconds, times the multiplier.
///
/// # Errors
/// As [`Lanes::new`], for links without a rate.
pub fn tau(
    topology: &Topology,
    chunk: &Rational,
    length: &EpochLength,
    multiplier: &Rational,
    stragglers: &[Straggler],
) -> Result<Rational, Problems> {
    let slowed = slowed(topology, stragglers)?;
    let rates = slowed.iter().map(|slow| &slow.rate);
    let seconds = match length {
        EpochLength::Fixed(seconds) => Some(seconds.clone()),
        EpochLength::Fast => rates.max().and_then(|rate| chunk.checked_div(rate)),
        EpochLength::Slow => rates.min().and_then(|rate| chunk.checked_div(rate)),
    };
    let error =
        || Problem::new("BadEpoch", "epoch", "without links there is nothing that an epoch could be as long as");
    Ok(&seconds.ok_or_else(error)? * multiplier)
}

/// Latency and rate of every link, stragglers included.
fn slowed(topology: &Topology, stragglers: &[Straggler]) -> Result<Vec<Slowed>, Problems> {
    let id = |node: usize| &topology.nodes()[node].id;
    let mut pairs = std::collections::HashSet::new();
    let mut errors = Vec::new();
    let mut made = Vec::with_capacity(topology.links().len());
    for (i, link) in topology.links().iter().enumerate() {
        let bad = |key: &str, message: String| Problem::new("BadLink", format!("/links/{}{key}", link.entry), message);
        if link.from == link.to || !pairs.insert((link.from, link.to)) {
            let message = format!("{} → {}: from a node to itself, or the second one", id(link.from), id(link.to));
            errors.push(bad("", message).allowed("one link at most from a node to another"));
            continue;
        }
        let of = |place: Place| match place {
            Place::Link(slow) => slow == i,
            Place::Node(slow) => slow == link.from || slow == link.to,
        };
        let (mut alpha, mut times) = (link.latency.clone(), Rational::ONE);
        for slow in stragglers.iter().filter(|slow| of(slow.place)) {
            alpha = &alpha + &slow.alpha_add;
            times = &times * &slow.beta_mul;
        }
        let rate = |capacity: &Capacity| capacity.finite()?.checked_div(&times);
        let Some(nominal) = rate(&link.capacity).filter(Rational::is_positive) else {
            let error = bad("/capacity", format!("{} → {} has no limit of its own", id(link.from), id(link.to)));
            errors.push(error.allowed("a capacity above zero"));
            continue;
        };
        let per_epoch = link.per_epoch.as_ref().map(|list| list.iter().map(rate).collect::<Option<Vec<_>>>());
        let Some(per_epoch) = per_epoch.map_or(Some(None), |list| list.map(Some)) else {
            errors.push(bad("/capacity_per_epoch", "a capacity without limit in some epoch".into()));
            continue;
        };
        made.push(Slowed { alpha, rate: nominal, per_epoch });
    }
    match Problems::of(errors) {
        Some(problems) => Err(problems),
        None => Ok(made),
    }
}

/// The lane of a link, in no room yet.
fn lane(topology: &Topology, terms: &Terms, link: usize, slow: &Slowed, divisible: bool) -> Result<Lane, Problems> {
    let of = &topology.links()[link];
    let bad = |code, key: &str, message: &str| {
        let (from, to) = (&topology.nodes()[of.from].id, &topology.nodes()[of.to].id);
        let error = Problem::new(code, format!("/links/{}{key}", of.entry), format!("{from} → {to}: {message}"));
        error.allowed(format!("at most {MAX_EPOCHS} epochs")).help("take longer epochs, as with --epoch slow")
    };
    let chunks = |rate: &Rational| (rate * &terms.tau).checked_div(&terms.chunk);
    let none = || bad("BadLink", "/capacity", "a chunk takes too many epochs");
    let nominal = chunks(&slow.rate).ok_or_else(none)?;
    let kappa = nominal.recip().and_then(|epochs| ceiling(&epochs)).ok_or_else(none)?.max(1);
    let epochs = slow.alpha.checked_div(&terms.tau).ok_or_else(none)?;
    let delta = if epochs <= terms.theta { Some(0) } else { ceiling(&epochs) };
    let delta = delta.ok_or_else(|| bad("BadLink", "/latency", "a latency of too many epochs"))?;
    let rates = match &slow.per_epoch {
        Some(_) if kappa > 1 && !divisible => {
            let error = bad("VaryingNeedsUnitKappa", "/capacity_per_epoch", "a chunk takes several epochs here");
            let help = "take longer epochs, as with --epoch slow, or --solver lp where nothing is copied";
            return Err(error.found(format!("{kappa} epochs")).allowed("one").help(help).into());
        }
        Some(list) => list.iter().map(chunks).collect::<Option<Vec<_>>>().unwrap_or_default(),
        None => vec![nominal],
    };
    let kappa = if divisible { 1 } else { kappa };
    Ok(Lane {
        from: of.from,
        to: of.to,
        links: vec![link],
        delta,
        kappa,
        after: delta + kappa,
        rates,
        rooms: Vec::new(),
    })
}

/// Whole chunks in a row of `kappa` epochs.
fn most(rate: &Rational, kappa: u64) -> u64 {
    floor(&(rate * &Rational::from(kappa))).unwrap_or(u64::MAX)
}

/// Ratios of lengths that are often themselves rounded are rounded with this tolerance.
fn tolerance() -> Rational {
    Rational::new(1, 1_000_000_000).unwrap_or(Rational::ZERO)
}

/// The whole number above; `None` where it is absurd.
fn ceiling(value: &Rational) -> Option<u64> {
    let below = value - &tolerance();
    let whole = below.numerator().div_ceil(&below.denominator()).to_i128()?.max(0);
    u64::try_from(whole).ok().filter(|whole| *whole <= MAX_EPOCHS)
}

/// The whole number below.
fn floor(value: &Rational) -> Option<u64> {
    let above = value + &tolerance();
    above.numerator().div_floor(&above.denominator()).to_u64()
}
