//! The ways that flows go: one for all flows that go the same way, so that thousands of them share what is looked at with each.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use crate::event::FlowSpec;
use crate::units::HolderId;

/// Links on the way, as indices into the host's, the own egress first; and who keeps their tables, each once.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    links: Vec<usize>,
    pub holders: Vec<HolderId>,
}

impl Path {
    /// Of a flow with these facts, whose links have these places.
    pub fn new(links: Vec<usize>, spec: &FlowSpec) -> Path {
        let mut holders: Vec<HolderId> = spec.path.iter().filter_map(|hop| hop.holder).collect();
        holders.sort_unstable();
        holders.dedup();
        Path { links, holders }
    }
}

impl Deref for Path {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.links
    }
}

/// All paths that flows go.
#[derive(Debug, Default)]
pub(super) struct Paths {
    known: BTreeSet<Arc<Path>>,
    /// Those that nobody goes any more are forgotten when there are so many.
    room: usize,
}

impl Paths {
    /// The one that is the same as this.
    pub fn of(&mut self, path: Path) -> Arc<Path> {
        if let Some(known) = self.known.get(&path) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.room {
            self.known.retain(|path| Arc::strong_count(path) > 1);
            self.room = (2 * self.known.len()).max(64);
        }
        let path = Arc::new(path);
        self.known.insert(Arc::clone(&path));
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Hop;
    use crate::units::{LinkId, Rate};

    fn path(links: &[usize], holders: &[u32]) -> Path {
        let hop = |holder: &u32| Hop { link: LinkId(0), capacity: Rate(1), holder: Some(HolderId(*holder)) };
        Path::new(links.to_vec(), &FlowSpec { path: holders.iter().map(hop).collect(), ..FlowSpec::default() })
    }

    #[test]
    fn one_for_all_that_go_the_same_way() {
        let mut paths = Paths::default();
        let first = paths.of(path(&[0, 3], &[7, 5, 7]));
        assert_eq!((&first[..], &first.holders[..]), (&[0, 3][..], &[HolderId(5), HolderId(7)][..]));
        assert!(Arc::ptr_eq(&first, &paths.of(path(&[0, 3], &[5, 7]))));
        assert!(!Arc::ptr_eq(&first, &paths.of(path(&[0, 3], &[5]))), "another keeps the tables");
    }

    #[test]
    fn what_nobody_goes_is_forgotten_in_time() {
        let mut paths = Paths::default();
        let kept: Vec<Arc<Path>> = (0..100).map(|n| paths.of(path(&[n], &[]))).collect();
        (100..10_000).for_each(|n| drop(paths.of(path(&[n], &[]))));
        assert!(paths.known.len() <= 200, "{}", paths.known.len());
        assert!(kept.iter().enumerate().all(|(n, kept)| Arc::ptr_eq(kept, &paths.of(path(&[n], &[])))));
    }
}
