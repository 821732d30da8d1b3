//! The names under which a fleet's things lie in etcd, and the bounds of what may lie there.
//!
//! ```text
//! PREFIX/CLUSTER/hosts/epoch          counted up by whoever restores etcd from a copy
//! PREFIX/CLUSTER/hosts/modes/GROUP    the mode of a group of hosts
//! PREFIX/CLUSTER/hosts/plans/NAME     a plan.json
//! PREFIX/CLUSTER/hosts/switches       the switches of the cluster
//! PREFIX/CLUSTER/hosts/topology       a topology.json
//! PREFIX/CLUSTER/groups/GROUP         which hosts a group has, and where they answer
//! PREFIX/CLUSTER/rollout              the present rollout, or the last one
//! ```
//!
//! Hosts read and watch what is below `hosts/` and nothing else, so that an operator's notes wake none of them.

use std::fmt;

/// Bytes of one value. etcd itself takes 1.5 MiB in a request as it comes.
pub const MAX_VALUE: usize = 1 << 20;
/// Keys below one prefix.
pub const MAX_KEYS: usize = 512;
/// Bytes of all values below `hosts/`.
pub const MAX_TOTAL: usize = 16 << 20;
/// Plans.
pub const MAX_PLANS: usize = 64;
/// Hosts of one group.
pub const MAX_HOSTS: usize = 4096;
/// Groups of one rollout.
pub const MAX_GROUPS: usize = 256;
/// Switches, as in `sluiced.toml`.
pub const MAX_SWITCHES: usize = 32;

/// A name of a group, a plan or a host: 1 to 63 characters of `[a-z0-9._-]` that do not begin with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// What a [`Name`] may be, in words.
pub const NAME: &str = "1 to 63 characters of [a-z0-9._-], no dot first";

impl Name {
    /// The name, if it is one.
    pub fn parse(text: &str) -> Option<Name> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        let ok = (1..=63).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(allowed);
        ok.then(|| Name(text.to_owned()))
    }
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What lies under a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Counted up by whoever restores etcd.
    Epoch,
    /// The mode of a group.
    Mode(Name),
    /// A plan.
    Plan(Name),
    /// The switches.
    Switches,
    /// The network.
    Topology,
    /// The hosts of a group.
    Group(Name),
    /// The rollout.
    Rollout,
}

impl Key {
    /// Reads a name below the cluster's.
    pub fn parse(text: &str) -> Option<Key> {
        let named = |folder: &str| Name::parse(text.strip_prefix(folder)?);
        match text {
            "hosts/epoch" => Some(Key::Epoch),
            "hosts/switches" => Some(Key::Switches),
            "hosts/topology" => Some(Key::Topology),
            "rollout" => Some(Key::Rollout),
            _ => named("hosts/modes/")
                .map(Key::Mode)
                .or_else(|| named("hosts/plans/").map(Key::Plan))
                .or_else(|| named("groups/").map(Key::Group)),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Epoch => f.write_str("hosts/epoch"),
            Key::Mode(group) => write!(f, "hosts/modes/{group}"),
            Key::Plan(name) => write!(f, "hosts/plans/{name}"),
            Key::Switches => f.write_str("hosts/switches"),
            Key::Topology => f.write_str("hosts/topology"),
            Key::Group(name) => write!(f, "groups/{name}"),
            Key::Rollout => f.write_str("rollout"),
        }
    }
}

/// Where a cluster's keys begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    base: String,
}

impl Space {
    /// The keys of a cluster below a prefix, such as `/sluice`.
    pub fn new(prefix: &str, cluster: &str) -> Space {
        Space { base: format!("{}/{cluster}/", prefix.trim_end_matches('/')) }
    }
    /// The beginning of every key.
    pub fn all(&self) -> &str {
        &self.base
    }
    /// The beginning of every key that hosts read.
    pub fn hosts(&self) -> String {
        format!("{}hosts/", self.base)
    }
    /// The whole name of a key.
    pub fn name(&self, key: &Key) -> String {
        format!("{}{key}", self.base)
    }
    /// The key of a whole name; `None`: not of this cluster, or nothing that this version knows.
    pub fn key(&self, name: &str) -> Option<Key> {
        Key::parse(name.strip_prefix(&self.base)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = |text| Name::parse(text).expect("a name");
        let keys = [
            Key::Epoch,
            Key::Mode(name("rack1")),
            Key::Plan(name("ring-8.a")),
            Key::Switches,
            Key::Topology,
            Key::Group(name("rack1")),
            Key::Rollout,
        ];
        let space = Space::new("/sluice/", "train");
        for key in keys {
            assert_eq!(space.key(&space.name(&key)), Some(key.clone()));
            let read_by_hosts = !matches!(key, Key::Group(_) | Key::Rollout);
            assert_eq!(space.name(&key).starts_with(&space.hosts()), read_by_hosts, "{key}");
        }
        assert_eq!(space.name(&Key::Rollout), "/sluice/train/rollout");
        assert_eq!(space.key("/sluice/other/rollout"), None);
    }

    #[test]
    fn a_name_never_leads_out_of_its_directory() {
        for wrong in ["", ".", "..", ".a", "a/b", "A", "a b", &"a".repeat(64)] {
            assert_eq!(Name::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_none(text in "(hosts/(modes|plans)/|groups/)?.{0,70}") {
            if let Some(key) = Key::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
