//! A link's state: what its holder last said, how much that still counts, and what unmanaged traffic takes.

mod promises;
mod rounds;
mod unmanaged;
mod views;

use std::collections::BTreeMap;

use super::LinkStatus;
use super::change::Change;
use super::config::{HostConfig, MAX_LINKS, Reserve, SurplusRule};
use crate::event::{Allowance, Hop, Now};
use crate::message::LinkView;
use crate::path::{self, CrossTraffic};
use crate::policy::{JobLoad, Other};
use crate::units::{HolderId, JobId, LinkId, Rate, Slot};
pub(super) use rounds::Foreign;
use rounds::RoundOnLink;
use unmanaged::Unmanaged;
pub(super) use views::Trust;
pub use views::ViewState;
use views::{Clocks, HolderView};

/// One link that some flow's path crosses.
#[derive(Debug)]
pub(super) struct Link {
    pub link: LinkId,
    configured: Rate,
    pub holder: Option<HolderId>,
    /// Part of it that is left free.
    reserve: f64,
    /// Flows whose path crosses it.
    uses: u32,
    view: LinkView,
    view_slot: Slot,
    /// The word of its holder's that this is, as [`HolderView::words`] counts them.
    word: u64,
    /// The view's promises that move bytes, best rank first.
    others: Vec<Other>,
    /// The sum of what has moved there by changes each of which is small, since the last plan.
    moved: Rate,
    /// What other hosts' promises say of each job here.
    foreign: Vec<Foreign>,
    /// Their sums slot by slot from the view's slot on, by job; kept only if asked for.
    jobs: Vec<JobLoad>,
    keeps_jobs: bool,
    /// Unmanaged traffic, measured here: only of own links.
    cross: CrossTraffic,
    /// Whether unmanaged traffic is there, here or by the holder's word.
    unmanaged: Unmanaged,
    rounds: BTreeMap<JobId, RoundOnLink>,
}

/// A link that this host receives by, and the unmanaged traffic that it measures there.
#[derive(Debug)]
struct Ingress {
    /// Its place among all links.
    index: usize,
    cross: CrossTraffic,
}

/// All links, by index in order of first use.
#[derive(Debug)]
pub(super) struct Links {
    all: Vec<Link>,
    index: BTreeMap<LinkId, usize>,
    holders: BTreeMap<HolderId, HolderView>,
    clocks: Clocks,
    ingress: Vec<Ingress>,
    reserve: f64,
    reserves: Vec<Reserve>,
    /// Does the policy ask what each job has in every slot?
    keeps_jobs: bool,
}

impl Link {
    /// Where no flow goes what was said is old news once the holder has said something else.
    fn forget_unused(&mut self, holders: &BTreeMap<HolderId, HolderView>) {
        let spoke = |holder: HolderId| holders.get(&holder).is_some_and(|view| view.words > self.word);
        if self.uses == 0 && self.word > 0 && self.holder.is_some_and(spoke) {
            self.forget();
        }
    }

    /// What was said of traffic there is old news.
    fn forget(&mut self) {
        self.word = 0;
        self.view.cross = Rate::ZERO;
        self.view.load.clear();
        self.view.flows.clear();
        self.view.rest.clear();
        self.others.clear();
        self.foreign.clear();
        self.jobs.clear();
    }

    /// The link's payload rate: the holder's word, else the configured one.
    pub fn capacity(&self) -> Rate {
        match (self.view.capacity, self.configured) {
            (Rate::ZERO, configured) => configured,
            (told, Rate::ZERO) => told,
            (told, configured) => told.min(configured),
        }
    }
    /// What is left to unmanaged traffic: as measured here, or the holder's word as far as that still counts.
    fn cross(&self, trust: f64) -> Rate {
        self.cross.reserved(self.capacity()).max(self.view.cross.times(trust))
    }
    /// The payload rate as configured.
    pub fn configured(&self) -> Rate {
        self.configured
    }
    /// What other hosts promised there from slot `now` on, as far as it is known.
    pub fn load_from(&self, now: Slot) -> &[Rate] {
        let passed = usize::try_from(now.since(self.view_slot)).unwrap_or(0);
        self.view.load.get(passed..).unwrap_or_default()
    }
    /// What of it each job has, into memory that held the same before.
    pub fn jobs_from(&self, now: Slot, out: &mut Vec<JobLoad>) {
        let passed = usize::try_from(now.since(self.view_slot)).unwrap_or(0);
        out.resize_with(self.jobs.len(), JobLoad::default);
        for (of, out) in self.jobs.iter().zip(out) {
            (out.job, out.flows) = (of.job, of.flows);
            out.load.clear();
            out.load.extend_from_slice(of.load.get(passed..).unwrap_or_default());
        }
    }
    pub fn view(&self) -> &LinkView {
        &self.view
    }
    pub fn others(&self) -> &[Other] {
        &self.others
    }
    /// What other hosts of this job have on the link.
    pub fn foreign(&self, job: JobId) -> Option<&Foreign> {
        self.foreign.iter().find(|foreign| foreign.job == job)
    }
    /// For people, at this trust in the view.
    pub fn status(&self, trust: f64) -> LinkStatus<'_> {
        LinkStatus { link: self.link, capacity: self.capacity(), load: &self.view.load, cross: self.cross(trust) }
    }
    /// Whether unmanaged traffic used the link in the last ten seconds: short flows come back.
    pub fn unmanaged_lately(&self, now: Now) -> bool {
        self.unmanaged.lately(now.mono)
    }
    /// Whether a flow may send more there than it is ordered, and how.
    pub fn allowance(&self, now: Now, config: &HostConfig) -> Option<Allowance> {
        let paper = config.policy.is_by_slots();
        let yields = match config.surplus {
            SurplusRule::Never => return None,
            SurplusRule::Always => false,
            SurplusRule::Idle | SurplusRule::Greedy if paper => return None,
            SurplusRule::Idle => true,
            SurplusRule::Greedy => !self.unmanaged_lately(now),
        };
        Some(Allowance { up_to: self.capacity(), yields }).filter(|allowance| allowance.up_to > Rate::ZERO)
    }
    /// What managed flows may use beside unmanaged traffic, at this trust in the view.
    pub fn usable(&self, trust: f64) -> Rate {
        let capacity = self.capacity();
        capacity.times(1.0 - self.reserve).min(capacity.minus(self.cross(trust)))
    }
}

impl Links {
    pub fn new(config: &HostConfig) -> Links {
        let mut links = Links {
            all: Vec::new(),
            index: BTreeMap::new(),
            holders: BTreeMap::new(),
            clocks: Clocks::default(),
            ingress: Vec::new(),
            reserve: config.reserve,
            reserves: config.reserves.clone(),
            keeps_jobs: config.policy.is_by_slots(),
        };
        for hop in &config.ingress {
            let ingress = Ingress { index: links.take_up(hop), cross: CrossTraffic::default() };
            links.ingress.push(ingress);
        }
        links
    }

    /// A flow's path begins to use a hop's link: its index, made if it is new. [`Links::drop_path`] is the end of it.
    pub fn take_up(&mut self, hop: &Hop) -> usize {
        let index = self.adopt(hop);
        let link = &mut self.all[index];
        link.forget_unused(&self.holders);
        link.uses += 1;
        if let Some(view) = link.holder.and_then(|holder| self.holders.get_mut(&holder)) {
            view.uses += 1;
        }
        index
    }

    /// A flow does not use these links any more. What was known of promises on one that nobody uses is forgotten as soon as
    /// its holder speaks without naming it, and not before: where flows end and begin in one moment, nobody there is not what
    /// was heard.
    pub fn drop_path(&mut self, path: &[usize]) {
        for &index in path {
            let link = &mut self.all[index];
            link.uses = link.uses.saturating_sub(1);
            if let Some(view) = link.holder.and_then(|holder| self.holders.get_mut(&holder)) {
                view.uses = view.uses.saturating_sub(1);
            }
        }
    }

    /// Another one keeps a link's table, with all flows that cross it.
    fn hand_over(&mut self, index: usize, holder: Option<HolderId>) {
        let link = &mut self.all[index];
        if link.holder == holder {
            return;
        }
        let before = std::mem::replace(&mut link.holder, holder);
        link.forget();
        let uses = link.uses;
        if let Some(view) = before.and_then(|before| self.holders.get_mut(&before)) {
            view.uses = view.uses.saturating_sub(uses);
        }
        if let Some(holder) = holder {
            self.holders.entry(holder).or_default().uses += uses;
        }
    }

    fn adopt(&mut self, hop: &Hop) -> usize {
        if let Some(&known) = self.index.get(&hop.link) {
            self.all[known].configured = hop.capacity;
            self.hand_over(known, hop.holder);
            return known;
        }
        if self.all.len() >= MAX_LINKS {
            return self.all.len() - 1;
        }
        if let Some(holder) = hop.holder {
            self.holders.entry(holder).or_default();
        }
        let own = self.reserves.iter().find(|own| own.link == hop.link);
        self.all.push(Link {
            link: hop.link,
            configured: hop.capacity,
            holder: hop.holder,
            reserve: own.map_or(self.reserve, |own| own.part),
            view: LinkView::default(),
            uses: 0,
            view_slot: Slot::default(),
            word: 0,
            others: Vec::new(),
            moved: Rate::ZERO,
            foreign: Vec::new(),
            jobs: Vec::new(),
            keeps_jobs: self.keeps_jobs,
            cross: CrossTraffic::default(),
            unmanaged: Unmanaged::default(),
            rounds: BTreeMap::new(),
        });
        self.index.insert(hop.link, self.all.len() - 1);
        self.all.len() - 1
    }

    pub fn get(&self, index: usize) -> &Link {
        &self.all[index]
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.all.iter()
    }

    /// All links as people see them, in order of first use.
    pub fn statuses(&self) -> impl Iterator<Item = LinkStatus<'_>> {
        self.all.iter().map(|link| link.status(views::trust(&self.holders, link.holder).weight))
    }

    /// The holders of links that are used.
    pub fn holders(&self) -> impl Iterator<Item = (HolderId, ViewState)> + '_ {
        self.holders.iter().filter(|(_, view)| view.uses > 0).map(|(id, view)| (*id, view.state))
    }

    /// Is any link of this holder used?
    pub fn in_use(&self, holder: HolderId) -> bool {
        self.holders.get(&holder).is_some_and(|view| view.uses > 0)
    }

    /// The links that are used, each with its holder.
    pub fn in_use_by_holder(&self) -> impl Iterator<Item = (HolderId, LinkId)> {
        self.all.iter().filter(|link| link.uses > 0).filter_map(|link| Some((link.holder?, link.link)))
    }

    /// The floor of a flow that has this path to itself.
    pub fn floor(&self, path: &[usize], config: &HostConfig) -> Rate {
        let bottleneck = path.iter().map(|&l| self.all[l].capacity()).min().unwrap_or(Rate::ZERO);
        path::floor(bottleneck, config.floor, config.floor_ratio, 1)
    }

    /// Links only this host sends on, with what managed flows may use.
    pub fn own_usable(&self) -> Vec<(usize, Rate)> {
        let own = self.all.iter().enumerate().filter(|(_, link)| link.holder.is_none());
        own.map(|(index, link)| (index, link.usable(1.0))).collect()
    }

    /// What managed flows may use of a link beside unmanaged traffic.
    pub fn usable(&self, index: usize) -> Rate {
        self.all[index].usable(self.trust(index).weight)
    }

    /// A plan was made by all that is known.
    pub fn planned(&mut self) {
        self.all.iter_mut().for_each(|link| link.moved = Rate::ZERO);
    }

    /// Takes a holder's views in; says how much they say that is new and that rates depend on.
    pub fn heard(&mut self, now: Now, holder: HolderId, slot: Slot, warm: bool, views: Vec<LinkView>) -> Change {
        let Some(state) = self.holders.get_mut(&holder) else { return Change::None };
        let first = state.heard.is_none();
        state.heard = Some(now.mono);
        state.warm = warm;
        if !warm && !first {
            return Change::None; // A restarted holder's table is not full yet: what it said before its restart is worth more.
        }
        state.words += 1;
        let word = state.words;
        let mut new = Change::None;
        for mut view in views {
            let Some(&index) = self.index.get(&view.link) else { continue };
            let link = &mut self.all[index];
            if link.holder != Some(holder) {
                continue;
            }
            view.flows.truncate(LinkView::MAX_FLOWS);
            view.rest.truncate(LinkView::MAX_SUMS);
            view.flows.sort_unstable_by_key(|promise| (promise.rank(), promise.flow));
            let before = link.capacity().minus(link.cross(1.0));
            (link.view, link.view_slot, link.word) = (view, slot, word);
            new.note(link.take_promises(now));
            new.note(link.left_otherwise(before));
            link.remember_jobs(now);
        }
        new
    }

    /// A slot has passed.
    pub fn slot_edge(&mut self, now: Now) {
        for link in &mut self.all {
            let (cross, capacity) = (link.cross(views::trust(&self.holders, link.holder).weight), link.capacity());
            link.unmanaged.slot(now.mono, cross, capacity);
            link.forget_unused(&self.holders);
        }
    }

    /// What a slot carried of an own link; `newcomer`: see [`CrossTraffic::record`].
    pub fn measured(&mut self, id: LinkId, total: Rate, managed: Rate, newcomer: f64) {
        let Some(&index) = self.index.get(&id) else { return };
        let capacity = self.all[index].capacity();
        if let Some(ingress) = self.ingress.iter_mut().find(|ingress| ingress.index == index) {
            ingress.cross.record(total, managed, capacity, newcomer);
        } else {
            self.all[index].cross.record(total, managed, capacity, newcomer);
        }
    }

    /// The links that this host receives by and this holder keeps, with what is to be left there to unmanaged traffic.
    pub fn measured_ingress(&self, holder: HolderId) -> impl Iterator<Item = (LinkId, Rate)> {
        let link = move |ingress: &Ingress| {
            let link = &self.all[ingress.index];
            (link.holder == Some(holder)).then(|| (link.link, ingress.cross.reserved(link.capacity())))
        };
        self.ingress.iter().filter_map(link)
    }

    /// The links that this host receives by.
    pub fn ingress(&self) -> impl Iterator<Item = &Link> {
        self.ingress.iter().map(|ingress| &self.all[ingress.index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_another_keeps_from_now_on_takes_its_flows_along() {
        let mut links = Links::new(&HostConfig::new(crate::units::HostId(1), crate::units::BootId(1)));
        let hop =
            |holder: u32| Hop { link: LinkId::new(7, 1), capacity: Rate::mbps(100), holder: Some(HolderId(holder)) };
        let path = [links.take_up(&hop(1))];
        assert_eq!(links.take_up(&hop(1)), path[0]);
        links.all[path[0]].view.load = vec![Rate::mbps(40)];
        assert_eq!(links.take_up(&hop(2)), path[0]);
        assert!(links.in_use(HolderId(2)) && !links.in_use(HolderId(1)));
        assert_eq!(links.in_use_by_holder().collect::<Vec<_>>(), [(HolderId(2), hop(2).link)]);
        assert!(links.all[path[0]].view.load.is_empty(), "what the other said is old news");
        for _ in 0..3 {
            links.drop_path(&path);
        }
        assert!(!links.in_use(HolderId(2)));
    }
}
