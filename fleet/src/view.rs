//! What a host has heard of the fleet: the last good state, and what is wrong with the rest.
//!
//! A [`View`] is told what etcd said ([`Heard`]) and holds for every key the newest good value that it saw. It never
//! gives anything up by itself: a key that is gone, a value that cannot be read, an etcd that is silent or that went back
//! in time each leave the last good state as it is and become a [`Fault`]. What is newer is decided by etcd's revisions,
//! so that answers may be lost, come twice, or be replaced by a later reading of the whole.
//!
//! An etcd that was restored from a copy is the one case in which revisions lie. It is noticed (a revision, or the one of
//! a key, below what was seen; another cluster's id), and nothing of it is taken until its operator says that it counts,
//! by an epoch above the last one.

mod kept;

use std::collections::BTreeMap;

use sluice_wire::snapshot::Mode;

use crate::Revision;
use crate::key::{Key, MAX_KEYS, MAX_PLANS, MAX_TOTAL, Name, Space};
use crate::value::Value;

pub use kept::MAX_KEPT;

/// A key and its value in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// The whole name.
    pub name: String,
    /// The value; `None`: the key was deleted.
    pub value: Option<Vec<u8>>,
    /// When it was last written.
    pub revision: Revision,
}

/// What etcd said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Everything there is at a revision.
    Whole {
        /// Which etcd this is.
        etcd: u64,
        /// Of the reading.
        revision: Revision,
        /// All keys that hosts read.
        keys: Vec<Raw>,
        /// There are more than were read.
        more: bool,
    },
    /// What has changed since, in order; nothing: it is alive.
    Changes {
        /// Of the last change.
        revision: Revision,
        /// The keys concerned.
        keys: Vec<Raw>,
    },
}

/// A value that is good.
#[derive(Clone, Debug)]
struct Item {
    revision: Revision,
    bytes: Vec<u8>,
    value: Value,
}

/// What a host is to do after it heard something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The mode of this host's group is new, or was set again.
    pub mode: bool,
    /// Topology or switches are.
    pub network: bool,
    /// Plans are.
    pub plans: bool,
    /// It does not fit what is known: everything has to be read once more.
    pub reread: bool,
}

impl Change {
    /// Is there anything to keep?
    pub fn any(&self) -> bool {
        self.mode || self.network || self.plans
    }
}

/// Something that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key; empty: all of it.
    pub subject: String,
    /// What is wrong, in one sentence.
    pub sentence: String,
}

/// The last good state of a host's part of the fleet.
#[derive(Clone, Debug)]
pub struct View {
    space: Space,
    group: Name,
    etcd: Option<u64>,
    revision: Revision,
    epoch: u64,
    items: BTreeMap<Key, Item>,
    /// What is wrong with keys that have no newer good value.
    rejected: BTreeMap<Key, String>,
    /// Why nothing at all is taken.
    held: Option<String>,
    /// Why this host cannot use the network that it was given.
    unusable: Option<String>,
}

impl View {
    /// Of a host that has heard nothing yet.
    pub fn new(space: Space, group: Name) -> View {
        View {
            space,
            group,
            etcd: None,
            revision: Revision::default(),
            epoch: 0,
            items: BTreeMap::new(),
            rejected: BTreeMap::new(),
            held: None,
            unusable: None,
        }
    }
    /// Up to where etcd was heard.
    pub fn revision(&self) -> Revision {
        self.revision
    }
    /// The group of this host.
    pub fn group(&self) -> &Name {
        &self.group
    }
    /// The mode of this host's group, if the fleet has one.
    pub fn mode(&self) -> Option<Mode> {
        match &self.items.get(&Key::Mode(self.group.clone()))?.value {
            Value::Mode(mode) => Some(mode.mode),
            _ => None,
        }
    }
    /// The topology as it was stored, and since when.
    pub fn topology(&self) -> Option<(Revision, &[u8])> {
        self.kept(&Key::Topology)
    }
    /// The switches.
    pub fn switches(&self) -> &[crate::value::SwitchValue] {
        match self.items.get(&Key::Switches).map(|item| &item.value) {
            Some(Value::Switches(switches)) => switches,
            _ => &[],
        }
    }
    /// The plans as they were stored.
    pub fn plans(&self) -> impl Iterator<Item = (&Name, &[u8])> {
        self.items.iter().filter_map(|(key, item)| match (key, &item.value) {
            (Key::Plan(name), Value::Plan) => Some((name, item.bytes.as_slice())),
            _ => None,
        })
    }
    fn kept(&self, key: &Key) -> Option<(Revision, &[u8])> {
        let item = self.items.get(key)?;
        (!matches!(item.value, Value::Removed)).then_some((item.revision, item.bytes.as_slice()))
    }

    /// Takes what etcd said.
    pub fn hear(&mut self, heard: Heard) -> Change {
        match heard {
            Heard::Whole { etcd, revision, keys, more } => self.whole(etcd, revision, keys, more),
            Heard::Changes { revision, keys } => self.changes(revision, keys),
        }
    }

    fn whole(&mut self, etcd: u64, revision: Revision, keys: Vec<Raw>, more: bool) -> Change {
        let keys: Vec<Raw> = keys.into_iter().filter(|raw| self.concerns(raw).is_some()).collect();
        let bytes: usize = keys.iter().map(|raw| raw.value.as_ref().map_or(0, Vec::len)).sum();
        let plans = keys.iter().filter(|raw| matches!(self.space.key(&raw.name), Some(Key::Plan(_)))).count();
        if more || keys.len() > MAX_KEYS || plans > MAX_PLANS || bytes > MAX_TOTAL {
            self.held = Some(format!(
                "there is more in etcd than hosts take (at most {MAX_KEYS} keys, {MAX_PLANS} plans, {MAX_TOTAL} bytes)"
            ));
            return Change::default();
        }
        let epoch = self.epoch_of(&keys);
        let anew = epoch.is_some_and(|epoch| epoch > self.epoch) && self.etcd.is_some();
        if !anew && let Some(why) = self.went_back(etcd, revision, &keys) {
            self.held = Some(why);
            return Change::default();
        }
        if anew {
            // The restored etcd counts: what it holds is newer than anything from before, whatever its revisions say.
            self.items.values_mut().for_each(|item| item.revision = Revision::default());
            self.rejected.clear();
        }
        self.held = None;
        (self.etcd, self.revision) = (Some(etcd), revision);
        let gone: Vec<Key> = self.items.keys().filter(|key| !named(&self.space, &keys, key)).cloned().collect();
        // What is not there any more is no mistake any more either.
        let space = &self.space;
        self.rejected.retain(|key, _| named(space, &keys, key));
        for raw in &keys {
            // The newest that is known of a key is what is there: whatever was heard of it in between is over.
            let key = self.space.key(&raw.name);
            if let Some(key) = key.filter(|key| self.items.get(key).is_some_and(|item| item.revision == raw.revision)) {
                self.rejected.remove(&key);
            }
        }
        let mut change = Change::default();
        keys.into_iter().for_each(|raw| self.take(raw, &mut change));
        for key in gone {
            let revision = self.items.get(&key).map_or(revision, |item| item.revision);
            self.gone(key, revision);
        }
        change
    }

    fn changes(&mut self, revision: Revision, keys: Vec<Raw>) -> Change {
        // Nothing was read yet, or nothing may be taken: only a reading of the whole can say more.
        if self.etcd.is_none() || self.held.is_some() {
            return Change { reread: !keys.is_empty(), ..Change::default() };
        }
        let mut change = Change::default();
        for raw in keys {
            match (self.concerns(&raw), &raw.value) {
                (None, _) => {}
                (Some(key), None) => {
                    if self.items.get(&key).is_some_and(|item| item.revision < raw.revision) {
                        self.gone(key, raw.revision);
                    } else if !self.items.contains_key(&key) {
                        self.rejected.remove(&key);
                    }
                }
                // Their bounds are those of the whole.
                (Some(key @ Key::Plan(_)), Some(_)) => {
                    change.reread |= self.items.get(&key).is_none_or(|item| item.revision < raw.revision);
                }
                (Some(_), Some(_)) => self.take(raw, &mut change),
            }
        }
        self.revision = self.revision.max(revision);
        change
    }

    /// The key of what was heard, if this host has to do with it.
    fn concerns(&self, raw: &Raw) -> Option<Key> {
        let key = self.space.key(&raw.name)?;
        let ours = match &key {
            Key::Epoch | Key::Plan(_) | Key::Switches | Key::Topology => true,
            Key::Mode(group) => *group == self.group,
            Key::Group(_) | Key::Rollout => false,
        };
        ours.then_some(key)
    }

    fn epoch_of(&self, keys: &[Raw]) -> Option<u64> {
        let raw = keys.iter().find(|raw| self.space.key(&raw.name) == Some(Key::Epoch))?;
        match Value::read(&Key::Epoch, raw.value.as_deref()?) {
            Ok(Value::Epoch(epoch)) => Some(epoch),
            _ => None,
        }
    }

    /// Is this another etcd, or the same one as of an earlier time?
    fn went_back(&self, etcd: u64, revision: Revision, keys: &[Raw]) -> Option<String> {
        let known = self.etcd?;
        if known != etcd {
            return Some(format!("this is another etcd: its id is {etcd:x}, that of the one before {known:x}"));
        }
        if revision < self.revision {
            return Some(format!("etcd went back from revision {} to {revision}", self.revision));
        }
        let back = keys.iter().find_map(|raw| {
            let key = self.space.key(&raw.name)?;
            let item = self.items.get(&key)?;
            let other = item.revision == raw.revision && raw.value.as_ref() != Some(&item.bytes);
            (raw.revision < item.revision || other).then_some((key, item.revision, raw.revision))
        });
        back.map(|(key, known, now)| format!("etcd went back: {key} was of revision {known} and is of {now}"))
    }

    /// Takes a value, if it is newer and good.
    fn take(&mut self, raw: Raw, change: &mut Change) {
        let (Some(key), Some(bytes)) = (self.concerns(&raw), raw.value) else { return };
        let known = self.items.get(&key);
        if known.is_some_and(|item| item.revision >= raw.revision) {
            return;
        }
        match Value::read(&key, &bytes) {
            Ok(value) => {
                self.rejected.remove(&key);
                let same = known.is_some_and(|item| item.bytes == bytes);
                match (&key, &value) {
                    (Key::Epoch, Value::Epoch(epoch)) => self.epoch = self.epoch.max(*epoch),
                    (Key::Mode(_), _) => change.mode = true,
                    (Key::Plan(_), _) => change.plans |= !same,
                    _ => change.network |= !same,
                }
                self.items.insert(key, Item { revision: raw.revision, bytes, value });
            }
            Err(problems) => {
                let first = problems.all().first();
                let more = problems.all().len().saturating_sub(1);
                let text =
                    first.map(|p| format!("{}: {} (at {}, found {})", p.code, p.message, or_all(&p.key), p.found));
                let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                let text = text.unwrap_or_default();
                self.rejected.insert(key, format!("revision {} cannot be taken: {text}{more}", raw.revision));
            }
        }
    }

    fn gone(&mut self, key: Key, revision: Revision) {
        let text = match key {
            Key::Epoch => return,
            Key::Mode(_) => format!("the key was deleted after revision {revision}"),
            _ => {
                format!("the key was deleted after revision {revision}; a value that says `removed` would take it away")
            }
        };
        self.rejected.insert(key, text);
    }

    /// Can this host use the network that it was given? If not, why.
    pub fn network_used(&mut self, unusable: Option<String>) {
        self.unusable = unusable;
    }

    /// What was heard and not taken.
    pub fn faults(&self) -> Vec<Fault> {
        let whole = self.held.iter().map(|why| Fault { subject: String::new(), sentence: why.clone() });
        let single = self.rejected.iter().map(|(key, why)| Fault {
            subject: key.to_string(),
            sentence: format!("{key}: {why}; what was there before holds"),
        });
        let unusable = self.unusable.iter().map(|why| Fault {
            subject: "network".to_owned(),
            sentence: format!("this host cannot use the fleet's topology and switches: {why}; those before hold"),
        });
        whole.chain(single).chain(unusable).collect()
    }
}

fn or_all(key: &str) -> &str {
    if key.is_empty() { "/" } else { key }
}

fn named(space: &Space, keys: &[Raw], key: &Key) -> bool {
    let name = space.name(key);
    keys.iter().any(|raw| raw.name == name)
}

#[cfg(test)]
mod tests;
