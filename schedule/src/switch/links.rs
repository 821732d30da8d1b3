//! The links of a holder: who promises there in which rank, who watches, and what a watcher is shown.

use std::collections::{BTreeMap, HashMap};

use super::change::{Change, NOBODY, Ticket, moved};
use super::hosts::{Host, Hosts};
use super::rest::Rest;
use super::{Limits, LinkConfig, Switch};
use crate::message::{Announcement, FlowPromise, LinkView, Rank};
use crate::table::{Entry, LoadTable, Promises};
use crate::units::{FlowId, HostId, LinkId, Rate};

/// Load of one link, for status and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkLoad {
    /// The link that these sums are of.
    pub link: LinkId,
    /// Its payload rate.
    pub capacity: Rate,
    /// Unmanaged load: what was configured or what a host measured, the larger.
    pub cross: Rate,
    /// Sums of all hosts' promises for the next K slots.
    pub load: Vec<Rate>,
    /// Flows that promise there; 0 where the table keeps only sums.
    pub flows: usize,
    /// Hosts that watch it.
    pub watchers: usize,
}

/// The place of a promise in a link's list: flows of one round go by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListKey {
    rank: Rank,
    flow: FlowId,
}

/// What [`Links::flatten`] makes of an announcement.
pub(super) struct Flattened {
    pub promises: Promises,
    /// Whether any rate was scaled down.
    pub clipped: bool,
}

/// One entry of a host's promises.
#[derive(Clone, Copy)]
struct Promised<'a> {
    host: &'a Host,
    entry: usize,
}

impl<'a> Promised<'a> {
    fn entry(self) -> Entry {
        self.host.promises.entries[self.entry]
    }
    /// The announced flow; `None` where views list no flows.
    fn flow(self) -> Option<&'a FlowPromise> {
        self.host.flows.get(self.entry().which as usize)
    }
    fn rate_at(self, slot: u64, horizon: usize) -> Rate {
        self.host.promises.rate_at(self.entry, slot, horizon)
    }
}

/// Where a listed promise stands.
#[derive(Clone, Copy, Debug)]
struct Listed {
    host: u32,
    entry: u32,
}

#[derive(Debug)]
struct Link {
    config: LinkConfig,
    listed: BTreeMap<ListKey, Listed>,
    watchers: Vec<u32>,
    /// Unmanaged traffic that hosts measured.
    measured: BTreeMap<u32, Rate>,
    change: Change,
    changed: bool,
}

impl Link {
    fn cross(&self) -> Rate {
        self.measured.values().copied().fold(self.config.cross, Rate::max).min(self.config.capacity)
    }
}

impl Switch {
    /// Keeps a link with this configuration from here on, whether it was kept before or not.
    pub fn keep_link(&mut self, config: LinkConfig) {
        self.links.add(config);
        self.set_link(config);
    }
}

#[derive(Debug)]
pub(super) struct Links {
    index: HashMap<LinkId, u32>,
    links: Vec<Link>,
    changed: Vec<u32>,
}

impl Links {
    pub(super) fn new(configs: &[LinkConfig]) -> Links {
        let mut links = Links { index: HashMap::new(), links: Vec::new(), changed: Vec::new() };
        for &config in configs {
            links.add(config);
        }
        links
    }

    /// Keeps one link more, unless it is kept already.
    pub(super) fn add(&mut self, config: LinkConfig) {
        if self.index.contains_key(&config.link) {
            return;
        }
        self.index.insert(config.link, self.links.len() as u32);
        self.links.push(Link {
            config,
            listed: BTreeMap::new(),
            watchers: Vec::new(),
            measured: BTreeMap::new(),
            change: Change::default(),
            changed: false,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn find(&self, link: LinkId) -> Option<u32> {
        self.index.get(&link).copied()
    }

    pub(super) fn largest_capacity(&self) -> Rate {
        self.links.iter().map(|link| link.config.capacity).max().unwrap_or(Rate::ZERO)
    }

    /// The indices of the links among `wanted` that are kept here, sorted.
    pub(super) fn resolve(&self, wanted: &[LinkId]) -> Vec<u32> {
        let mut found: Vec<u32> = wanted.iter().filter_map(|&link| self.find(link)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(super) fn config(&self, link: LinkId) -> Option<LinkConfig> {
        self.find(link).map(|at| self.links[at as usize].config)
    }

    pub(super) fn set(&mut self, config: LinkConfig, ticket: &mut Ticket) -> bool {
        let Some(at) = self.find(config.link) else { return false };
        if self.links[at as usize].config != config {
            self.links[at as usize].config = config;
            self.note(at, NOBODY, ticket);
        }
        true
    }

    /// Measured traffic by link index, of links kept here to which this host is attached.
    pub(super) fn resolve_measured(&self, host: HostId, measured: &[(LinkId, Rate)]) -> Vec<(u32, Rate)> {
        let first = measured.iter().take(Limits::MEASURED);
        let own = |link: u32| self.links[link as usize].config.attached == Some(host);
        let found = first.filter_map(|&(link, rate)| Some((self.find(link).filter(|link| own(*link))?, rate)));
        found.collect::<BTreeMap<u32, Rate>>().into_iter().collect()
    }

    /// What a host measured now takes the place of what it measured before.
    pub(super) fn remeasure(&mut self, at: u32, old: &[(u32, Rate)], new: &[(u32, Rate)], ticket: &mut Ticket) {
        let kept = |link: u32| new.binary_search_by_key(&link, |(link, _)| *link).is_ok();
        let gone = old.iter().filter(|(link, _)| !kept(*link)).map(|&(link, _)| (link, None));
        for (link, rate) in gone.chain(new.iter().map(|&(link, rate)| (link, Some(rate)))) {
            let place = &mut self.links[link as usize];
            let before = place.cross();
            match rate {
                Some(rate) => place.measured.insert(at, rate),
                None => place.measured.remove(&at),
            };
            if moved(before.0, place.cross().0, 1, place.config.capacity.0) {
                self.note(link, at, ticket);
            }
        }
    }

    /// An announcement as a table takes it: sorted, at most K rates, clipped so that one host cannot promise more than it can
    /// send at all, nor more on a link than the link carries.
    pub(super) fn flatten(
        &self,
        start: u64,
        announcement: &Announcement,
        horizon: usize,
        table: &dyn LoadTable,
        access: Option<Rate>,
    ) -> Flattened {
        let mut entries: Vec<Entry> = Vec::new();
        for (which, promise) in announcement.flows.iter().enumerate() {
            let kept = promise.links.iter().filter_map(|&link| self.find(link));
            entries.extend(kept.map(|link| Entry { link, flow: promise.flow, which: which as u32 }));
        }
        entries.sort_by_key(|entry| (entry.link, entry.flow));
        entries.dedup_by_key(|entry| (entry.link, entry.flow));
        let mut rates = Vec::with_capacity(entries.len() * horizon);
        for entry in &entries {
            let promise = &announcement.flows[entry.which as usize];
            rates.extend((0..horizon).map(|ahead| promise.rate(ahead)));
        }
        let mut clipped = false;
        for ahead in (0..horizon).filter(|_| access.is_some()) {
            // Each flow once, on however many links it is.
            let most = access.map_or(u128::MAX, |access| u128::from(access.0));
            let promised = announcement.flows.iter().filter(|flow| !flow.links.is_empty());
            let sum: u128 = promised.map(|flow| u128::from(flow.rate(ahead).0)).sum();
            if sum > most {
                clipped = true;
                let places = (0..entries.len()).map(|at| at * horizon + ahead);
                places.for_each(|at| rates[at] = Rate((u128::from(rates[at].0) * most / sum) as u64));
            }
        }
        for group in entries.chunk_by(|a, b| a.link == b.link) {
            let first = entries.partition_point(|entry| entry.link < group[0].link);
            let most = self.links[group[0].link as usize].config.capacity;
            for ahead in 0..horizon {
                let places = (first..first + group.len()).map(|at| at * horizon + ahead);
                let sum: u128 = places.clone().map(|at| u128::from(rates[at].0)).sum();
                if sum > u128::from(most.0) {
                    clipped = true;
                    places.for_each(|at| rates[at] = Rate((u128::from(rates[at].0) * u128::from(most.0) / sum) as u64));
                }
            }
        }
        rates.iter_mut().for_each(|rate| *rate = table.quantise(*rate));
        Flattened { promises: Promises { start, entries, rates }, clipped }
    }

    /// Brings the lists of the links to what `new` promises instead of `old`, and notes what watchers should know.
    pub(super) fn relist(&mut self, at: u32, now: u64, old: &Host, new: &Host, horizon: usize, ticket: &mut Ticket) {
        let (mut a, mut b) = (0, 0);
        let key = |entry: &Entry| (entry.link, entry.flow);
        loop {
            let before = old.promises.entries.get(a);
            let after = new.promises.entries.get(b);
            match (before, after) {
                (None, None) => break,
                (Some(x), Some(y)) if key(x) == key(y) => {
                    let (old, new) = (Promised { host: old, entry: a }, Promised { host: new, entry: b });
                    if self.update(at, now, old, new, horizon) {
                        self.note(x.link, at, ticket);
                    }
                    (a, b) = (a + 1, b + 1);
                }
                (Some(x), y) if y.is_none_or(|y| key(x) < key(y)) => {
                    self.unlist(Promised { host: old, entry: a });
                    self.note(x.link, at, ticket);
                    a += 1;
                }
                (_, Some(y)) => {
                    self.list(at, Promised { host: new, entry: b });
                    self.note(y.link, at, ticket);
                    b += 1;
                }
                (Some(_), None) => break,
            }
        }
    }

    /// Takes all promises of a host off the lists.
    pub(super) fn withdraw(&mut self, at: u32, host: &Host, ticket: &mut Ticket) {
        for entry in 0..host.promises.entries.len() {
            self.unlist(Promised { host, entry });
            self.note(host.promises.entries[entry].link, at, ticket);
        }
    }

    pub(super) fn rewatch(&mut self, at: u32, old: &[u32], new: &[u32]) {
        if old == new {
            return;
        }
        let gone: Vec<u32> = old.iter().copied().filter(|link| new.binary_search(link).is_err()).collect();
        self.unwatch(at, &gone);
        for link in new.iter().filter(|link| old.binary_search(link).is_err()) {
            let watchers = &mut self.links[*link as usize].watchers;
            if let Err(place) = watchers.binary_search(&at) {
                watchers.insert(place, at);
            }
        }
    }

    pub(super) fn unwatch(&mut self, at: u32, links: &[u32]) {
        for &link in links {
            let watchers = &mut self.links[link as usize].watchers;
            if let Ok(place) = watchers.binary_search(&at) {
                watchers.remove(place);
            }
        }
    }

    /// What an asker sees of a link, given the load without its own promises.
    pub(super) fn view(
        &self,
        link: u32,
        load: Vec<Rate>,
        asker: Option<(u32, &Host)>,
        now: u64,
        hosts: &Hosts,
        horizon: usize,
    ) -> LinkView {
        let link = &self.links[link as usize];
        let (own_at, own_jobs) = asker.map_or((NOBODY, &[][..]), |(at, host)| (at, &host.jobs[..]));
        let mut flows = Vec::with_capacity(link.listed.len().min(LinkView::MAX_FLOWS));
        let mut rest = Rest::new(own_jobs);
        for listed in link.listed.values() {
            if listed.host == own_at {
                rest.own();
                continue;
            }
            let Some(host) = hosts.get(listed.host) else { continue };
            let promised = Promised { host, entry: listed.entry as usize };
            let Some(flow) = promised.flow() else { continue };
            let rates = (now..now + horizon as u64).map(|slot| promised.rate_at(slot, horizon));
            if flows.len() < LinkView::MAX_FLOWS {
                let told = if own_jobs.binary_search(&flow.job).is_ok() { horizon } else { 1 };
                flows.push(FlowPromise { rates: rates.take(told).collect(), ..flow.clone() });
            } else {
                rest.add(flow, rates);
            }
        }
        let rest = rest.into_sums();
        LinkView { link: link.config.link, capacity: link.config.capacity, cross: link.cross(), load, flows, rest }
    }

    pub(super) fn summary(&self, link: u32, load: Vec<Rate>) -> LinkLoad {
        let link = &self.links[link as usize];
        LinkLoad {
            link: link.config.link,
            capacity: link.config.capacity,
            cross: link.cross(),
            load,
            flows: link.listed.len(),
            watchers: link.watchers.len(),
        }
    }

    /// Has anybody else changed something of a link that this host watches and has not been told of?
    pub(super) fn are_news(&self, at: u32, host: &Host) -> bool {
        host.watch.iter().any(|&link| self.links[link as usize].change.unseen(at, host.seen))
    }

    /// Adds the watchers that have not seen a change to `stale`.
    pub(super) fn drain_changed(&mut self, hosts: &Hosts, stale: &mut Vec<crate::units::HostId>) {
        for at in std::mem::take(&mut self.changed) {
            let link = &mut self.links[at as usize];
            link.changed = false;
            let unseen = link.watchers.iter().filter_map(|&watcher| Some((watcher, hosts.get(watcher)?)));
            stale.extend(unseen.filter(|(at, host)| link.change.unseen(*at, host.seen)).map(|(_, host)| host.id));
        }
    }

    fn note(&mut self, link: u32, by: u32, ticket: &mut Ticket) {
        let place = &mut self.links[link as usize];
        place.change.note(ticket.draw(), by);
        if !std::mem::replace(&mut place.changed, true) {
            self.changed.push(link);
        }
    }

    fn list(&mut self, at: u32, promised: Promised<'_>) {
        if let Some(promise) = promised.flow() {
            let listed = Listed { host: at, entry: promised.entry as u32 };
            self.links[promised.entry().link as usize].listed.insert(list_key(promise), listed);
        }
    }

    fn unlist(&mut self, promised: Promised<'_>) {
        if let Some(promise) = promised.flow() {
            self.links[promised.entry().link as usize].listed.remove(&list_key(promise));
        }
    }

    /// Keeps a listed promise listed; true if watchers should hear of the difference.
    fn update(&mut self, at: u32, now: u64, old: Promised<'_>, new: Promised<'_>, horizon: usize) -> bool {
        let capacity = self.links[new.entry().link as usize].config.capacity.0;
        let mut tell = false;
        if let (Some(before), Some(after)) = (old.flow(), new.flow()) {
            if list_key(before) != list_key(after) {
                self.unlist(old);
                self.list(at, new);
            } else if old.entry != new.entry {
                self.list(at, new);
            }
            tell = before.promoted != after.promoted
                || before.job != after.job
                || before.t0 != after.t0
                || moved(before.key.0, after.key.0, 25, before.key.0)
                || before.until != after.until
                || moved(before.takes.0.min(capacity), after.takes.0.min(capacity), 1, capacity);
        }
        // The slots both schedules speak of; what lies beyond the older one's horizon is not news.
        let both = now.max(new.host.promises.start)..old.host.promises.start + horizon as u64;
        tell || both
            .into_iter()
            .any(|slot| moved(old.rate_at(slot, horizon).0, new.rate_at(slot, horizon).0, 1, capacity))
    }
}

fn list_key(promise: &FlowPromise) -> ListKey {
    ListKey { rank: promise.rank(), flow: promise.flow }
}
