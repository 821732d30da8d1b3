//! Shipping: jobs that may each be split over some links, and links that take so much; a flow, or the cut that forbids it.

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
#[derive(Default)]
pub struct Transport {
    links: usize,
    /// What each group has on each link.
    flow: Vec<u64>,
    /// What each link still takes.
    room: Vec<u64>,
    /// Links from which no way leads to room.
    dead: Vec<u64>,
    seen: Vec<u64>,
    /// How the search came to a link: over which group, from which link.
    came: Vec<(usize, Option<usize>)>,
    queue: Vec<usize>,
}

impl Transport {
    /// Ships `supply` of each group within the links' capacities; false if that cannot be. The flow depends on the
    /// arguments only.
    pub fn ship(&mut self, jobs: &Jobs, supply: impl Fn(usize) -> u64, capacities: impl Iterator<Item = u64>) -> bool {
        self.room.clear();
        self.room.extend(capacities);
        self.links = self.room.len();
        self.flow.clear();
        self.flow.resize(jobs.counts.len() * self.links, 0);
        self.dead.clear();
        self.dead.resize(jobs.words, 0);
        self.came.resize(self.links, (0, None));
        let left: Vec<u64> = (0..jobs.counts.len()).map(|group| self.spread(jobs, group, supply(group))).collect();
        let mut all = true;
        for (group, mut left) in left.into_iter().enumerate() {
            while left > 0 {
                match self.search(jobs, group) {
                    Some(end) => left -= self.augment(left, end),
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
    pub fn flow(&self, group: usize, link: usize) -> u64 {
        self.flow[group * self.links + link]
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
    fn spread(&mut self, jobs: &Jobs, group: usize, supply: u64) -> u64 {
        let set = jobs.set(group);
        let size = set.iter().map(|word| u64::from(word.count_ones())).sum::<u64>().max(1);
        let share = supply / size;
        let mut left = supply;
        if share > 0 {
            for link in members(set) {
                let part = share.min(self.room[link]);
                left -= part;
                self.put(group, link, part);
            }
        }
        while left > 0 {
            let Some(link) = members(set).max_by_key(|&link| (self.room[link], self.links - link)) else { break };
            let part = left.min(self.room[link]);
            if part == 0 {
                break;
            }
            left -= part;
            self.put(group, link, part);
        }
        left
    }
    fn put(&mut self, group: usize, link: usize, part: u64) {
        self.flow[group * self.links + link] += part;
        self.room[link] -= part;
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
            if room[link] > 0 {
                return Some(link);
            }
            for other in 0..jobs.counts.len() {
                if has(jobs.set(other), link) && flow[other * *links + link] > 0 {
                    over(other, Some(link), queue);
                }
            }
        }
        std::mem::swap(dead, seen);
        None
    }
    /// Moves as much as goes along the way that ends at `end`; gives how much.
    fn augment(&mut self, left: u64, end: usize) -> u64 {
        let mut part = left.min(self.room[end]);
        let mut link = end;
        while let (group, Some(from)) = self.came[link] {
            part = part.min(self.flow(group, from));
            link = from;
        }
        self.room[end] -= part;
        let mut link = end;
        loop {
            let (group, from) = self.came[link];
            self.flow[group * self.links + link] += part;
            let Some(from) = from else { return part };
            self.flow[group * self.links + from] -= part;
            link = from;
        }
    }
}
