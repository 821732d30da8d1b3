//! Joint limits: which links a group means, each once.

use std::collections::HashMap;

use super::Builder;
use crate::problem::{E_LIMIT, EMPTY_GROUP, Problem, REPEATED_EDGE, UNKNOWN_EDGE};
use crate::topology::{Group, GroupEntry, Link, MAX_LINKS, MemberEntry, Text};

impl Builder {
    /// The groups with the links they mean.
    pub(super) fn groups(&mut self, entries: Option<&[GroupEntry]>, links: &[Link]) -> Vec<Group> {
        let entries = entries.unwrap_or_default();
        let mut between: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        if !entries.is_empty() {
            for (i, link) in links.iter().enumerate() {
                between.entry((link.from, link.to)).or_default().push(i);
            }
        }
        let mut groups = Vec::with_capacity(entries.len());
        let mut member_links = 0_u64;
        for (g, entry) in entries.iter().enumerate() {
            let at = format!("/groups/{g}");
            if entry.links.is_empty() {
                let error = Problem::new(EMPTY_GROUP, format!("{at}/links"), "a group without links");
                self.refuse(error.found("[]").allowed("at least one link"));
            }
            let mut members = Vec::new();
            for (m, member) in entry.links.iter().enumerate() {
                let key = format!("{at}/links/{m}");
                for link in self.member(&key, member, &between) {
                    member_links += 1;
                    members.push((link, m));
                }
                // Groups that overlap are fine; a file of few bytes that means billions of members is not.
                if member_links > 8 * MAX_LINKS {
                    let error = Problem::new(E_LIMIT, "/groups", "too many links in groups");
                    self.refuse(error.allowed(format!("at most {} in all", 8 * MAX_LINKS)));
                    return Vec::new();
                }
            }
            members.sort_unstable();
            if let Some(twice) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                let key = format!("{at}/links/{}", twice[1].1);
                let link = &links[twice[0].0];
                let error = Problem::new(REPEATED_EDGE, key, "a link twice in one group");
                let found = format!("link {} from node {} to node {}", twice[0].0, link.from, link.to);
                self.refuse(error.found(found).allowed("every link once"));
            }
            if let Some(capacity) = self.capacity(format!("{at}/capacity"), &entry.capacity, false) {
                let name = entry.name.clone().unwrap_or_else(|| format!("group {g}").into());
                groups.push(Group { name, capacity, links: members.into_iter().map(|(link, _)| link).collect() });
            }
        }
        groups
    }

    /// The links that a member of a group means; says so if there are none.
    fn member(&mut self, key: &str, member: &MemberEntry, between: &HashMap<(usize, usize), Vec<usize>>) -> Vec<usize> {
        let node = |id: &Text| self.by_id.get(id).copied();
        let (from, to) = match (node(&member.from), node(&member.to)) {
            (Some(from), Some(to)) => (from, to),
            (None, _) => {
                self.unknown(format!("{key}/0"), &member.from);
                return Vec::new();
            }
            (_, None) => {
                self.unknown(format!("{key}/1"), &member.to);
                return Vec::new();
            }
        };
        let links = between.get(&(from, to)).map_or(&[][..], Vec::as_slice);
        let chosen = match member.index {
            None => links,
            Some(index) => links.get(index as usize..).and_then(|rest| rest.get(..1)).unwrap_or_default(),
        };
        if chosen.is_empty() {
            let found = format!("{} → {}", member.from, member.to);
            let error = Problem::new(UNKNOWN_EDGE, key, "no such link").found(found);
            self.refuse(error.allowed(format!("one of the {} links of this pair", links.len())));
        }
        chosen.to_vec()
    }
}
