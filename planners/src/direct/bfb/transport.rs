//! Shipping: jobs that may each be split over some links, and links that take so much; a flow, or the cut that forbids it.

/// What amounts are counted in.
pub trait Amount: Clone + Ord {
    /// Nothing.
    const ZERO: Self;
    /// The sum.
    fn plus(&self, other: &Self) -> Self;
    /// The difference; never below zero here.
    fn minus(&self, other: &Self) -> Self;
    /// A part for each of so many, rounded down if at all.
    fn share(&self, parts: u64) -> Self;
}

impl Amount for u64 {
    const ZERO: u64 = 0;
    fn plus(&self, other: &u64) -> u64 {
        self + other
    }
    fn minus(&self, other: &u64) -> u64 {
        self - other
    }
    fn share(&self, parts: u64) -> u64 {
        self / parts
    }
}

/// Groups of jobs with the same usable links.
#[derive(Default)]
pub struct Jobs {
    /// Words of a set.
    words: usize,
    /// Sets of links, group by group.
    sets: Vec<u64>,
    /// Jobs in each group.
    counts: Vec<u64>,
}

impl Jobs {
    /// No groups; sets of so many words.
    pub fn clear(&mut self, words: usize) {
        self.words = words;
        self.sets.clear();
        self.counts.clear();
    }
    /// One more group.
    pub fn push(&mut self, set: &[u64], count: u64) {
        self.sets.extend_from_slice(set);
        self.counts.push(count);
    }
    /// Jobs in each group.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
    /// The links that a group may use.
    pub fn set(&self, group: usize) -> &[u64] {
        &self.sets[group * self.words..][..self.words]
    }
    /// Jobs of all groups.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The members of a set, ascending.
pub fn members(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(word, &bits)| {
        std::iter::successors((bits != 0).then_some(bits), |bits| Some(bits & (bits - 1)).filter(|rest| *rest != 0))
            .map(move |bits| word * 64 + bits.trailing_zeros() as usize)
    })
}

fn has(set: &[u64], member: usize) -> bool {
    set[member / 64] >> (member % 64) & 1 == 1
}

/// A flow of jobs over links, with tables that are used again.
pub struct Transport<T> {
    links: usize,
    /// What each group has on each link.
    flow: Vec<T>,
    /// What each link still takes.
    room: Vec<T>,
    /// Links from which no way leads to room.
    dead: Vec<u64>,
    seen: Vec<u64>,
    /// How the search came to a link: over which group, from which link.
    came: Vec<(usize, Option<usize>)>,
    queue: Vec<usize>,
}

impl<T> Default for Transport<T> {
    fn default() -> Transport<T> {
        let (flow, room, dead, seen, came, queue) = Default::default();
        Transport { links: 0, flow, room, dead, seen, came, queue }
    }
}

impl<T: Amount> Transport<T> {
    /// Ships `supply` of each group within the links' capacities; false if that cannot be. The flow depends on the
    /// arguments only.
    pub fn ship(&mut self, jobs: &Jobs, supply: impl Fn(usize) -> T, capacities: impl Iterator<Item = T>) -> bool {
        self.room.clear();
        self.room.extend(capacities);
        self.links = self.room.len();
        self.flow.clear();
        self.flow.resize(jobs.counts.len() * self.links, T::ZERO);
        self.dead.clear();
        self.dead.resize(jobs.words, 0);
        self.came.resize(self.links, (0, None));
        let left: Vec<T> = (0..jobs.counts.len()).map(|group| self.spread(jobs, group, supply(group))).collect();
        let mut all = true;
        for (group, mut left) in left.into_iter().enumerate() {
            while left > T::ZERO {
                match self.search(jobs, group) {
                    Some(end) => left = left.minus(&self.augment(&left, end)),
                    None => {
                        all = false;
                        break;
                    }
                }
            }
        }
        all
    }
    /// What a group has on a link.
    pub fn flow(&self, group: usize, link: usize) -> &T {
        &self.flow[group * self.links + link]
    }
    /// After shipping failed: the links that are too few for the groups confined to them.
    pub fn cut(&self) -> &[u64] {
        &self.dead
    }
    /// Jobs confined to the cut.
    pub fn confined(&self, jobs: &Jobs) -> u64 {
        let inside = |group: &usize| jobs.set(*group).iter().zip(&self.dead).all(|(set, dead)| set & !dead == 0);
        (0..jobs.counts.len()).filter(inside).map(|group| jobs.counts[group]).sum()
    }

    /// A first guess: even shares, then what is left where most room is. Gives what found none.
    fn spread(&mut self, jobs: &Jobs, group: usize, supply: T) -> T {
        let set = jobs.set(group);
        let size = set.iter().map(|word| u64::from(word.count_ones())).sum::<u64>().max(1);
        let share = supply.share(size);
        let mut left = supply;
        if share > T::ZERO {
            for link in members(set) {
                let part = share.clone().min(self.room[link].clone());
                left = left.minus(&part);
                self.put(group, link, &part);
            }
        }
        while left > T::ZERO {
            let Some(link) = members(set).max_by_key(|&link| (&self.room[link], self.links - link)) else { break };
            let part = left.clone().min(self.room[link].clone());
            if part == T::ZERO {
                break;
            }
            left = left.minus(&part);
            self.put(group, link, &part);
        }
        left
    }
    fn put(&mut self, group: usize, link: usize, part: &T) {
        let flow = &mut self.flow[group * self.links + link];
        *flow = flow.plus(part);
        self.room[link] = self.room[link].minus(part);
    }
    /// A link with room that moving flow about can free for the group; without one, all that was seen is dead.
    fn search(&mut self, jobs: &Jobs, group: usize) -> Option<usize> {
        let Transport { links, flow, room, dead, seen, came, queue } = self;
        seen.clone_from(dead);
        queue.clear();
        let mut over = |group: usize, from: Option<usize>, queue: &mut Vec<usize>| {
            for (word, (set, seen)) in jobs.set(group).iter().zip(seen.iter_mut()).enumerate() {
                let mut fresh = set & !*seen;
                *seen |= fresh;
                while fresh != 0 {
                    let link = word * 64 + fresh.trailing_zeros() as usize;
                    came[link] = (group, from);
                    queue.push(link);
                    fresh &= fresh - 1;
                }
            }
        };
        over(group, None, queue);
        let mut next = 0;
        while let Some(&link) = queue.get(next) {
            next += 1;
            if room[link] > T::ZERO {
                return Some(link);
            }
            for other in 0..jobs.counts.len() {
                if has(jobs.set(other), link) && flow[other * *links + link] > T::ZERO {
                    over(other, Some(link), queue);
                }
            }
        }
        std::mem::swap(dead, seen);
        None
    }
    /// Moves as much as goes along the way that ends at `end`; gives how much.
    fn augment(&mut self, left: &T, end: usize) -> T {
        let mut part = left.clone().min(self.room[end].clone());
        let mut link = end;
        while let (group, Some(from)) = self.came[link] {
            part = part.min(self.flow(group, from).clone());
            link = from;
        }
        self.room[end] = self.room[end].minus(&part);
        let mut link = end;
        loop {
            let (group, from) = self.came[link];
            let flow = &mut self.flow[group * self.links + link];
            *flow = flow.plus(&part);
            let Some(from) = from else { return part };
            let flow = &mut self.flow[group * self.links + from];
            *flow = flow.minus(&part);
            link = from;
        }
    }
}
