//! What to write so that a switch's tables are as they are to be, given what is in them.
//!
//! Of a link's signature the file says which link it is ([`MARK`]). The other bits stay as long as the entry does: hosts see by
//! a change that a path or a switch began anew, so one that only its agent has lost sight of must not change. Where
//! the entry is gone the switch has restarted, and they are drawn anew.

use std::collections::BTreeMap;

use sluice_pipeline::control::Statement;
use sluice_pipeline::egress::Link;
use sluice_wire::udp::MARK;

use crate::encode::{self, Key};
use crate::ids::Ids;
use crate::pb::p4::v1::TableEntry;

/// What to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Links are wanted, and the switch has none of them.
    pub restarted: bool,
    /// To be taken out: nobody wants them, or no statement says them. Routes stand first.
    pub stale: Vec<TableEntry>,
    /// To be written, in this order: nothing is sent by a link that is not there yet.
    pub statements: Vec<Statement>,
}

/// The plan. Of statements about the same entry the last one counts.
pub(super) fn plan(wanted: &[Statement], found: &[TableEntry], ids: &Ids, draw: &mut dyn FnMut() -> u32) -> Plan {
    let wanted: BTreeMap<Key, Statement> = wanted
        .iter()
        .filter_map(|statement| Some((Key::of(statement)?, *statement)))
        .filter(|(key, _)| *key != Key::Guard)
        .collect();
    let mut there = BTreeMap::new();
    let mut stale = Vec::new();
    for entry in found {
        match encode::statement(entry, ids).ok().and_then(|statement| Some((Key::of(&statement)?, statement))) {
            Some((key, statement)) if wanted.contains_key(&key) => {
                there.insert(key, statement);
            }
            // Wanted, but it does what no statement says: it is changed.
            None if encode::key(entry, ids).is_ok_and(|key| wanted.contains_key(&key)) => {}
            _ => stale.push(entry.clone()),
        }
    }
    // A route is gone before its group is.
    stale.sort_by_key(|entry| entry.table_id != ids.lpm.id);
    let is_link = |key: &Key| matches!(key, Key::Link(_));
    let restarted = wanted.keys().any(is_link) && !there.keys().any(is_link);
    let mut statements = Vec::new();
    for (key, statement) in wanted {
        let statement = signed(statement, there.get(&key), draw);
        if there.get(&key).is_none_or(|there| *there != kept(statement)) {
            statements.push(statement);
        }
    }
    Plan { restarted, stale, statements }
}

/// A link with the drawn part of the signature that it has, or with a new one.
fn signed(statement: Statement, there: Option<&Statement>, draw: &mut dyn FnMut() -> u32) -> Statement {
    let Statement::Link(port, link) = statement else { return statement };
    let known = match there {
        Some(Statement::Link(_, known)) => known.signature & !MARK,
        _ => 0,
    };
    // Zero is what an entry has that no agent wrote.
    let drawn = if known == 0 { (draw() & !MARK).max(MARK + 1) } else { known };
    Statement::Link(port, Link { signature: drawn | link.signature & MARK, ..link })
}

/// What a switch tells of this statement.
fn kept(statement: Statement) -> Statement {
    match statement {
        Statement::Route(to, action) => Statement::Route(to.trunc(), action),
        Statement::Edge(port, sources) => Statement::Edge(port, sources.trunc()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::{entries, statements};
    use crate::info::info;
    use proptest::prelude::*;

    fn ids() -> Ids {
        Ids::of(&info()).unwrap()
    }

    fn lines(lines: &[&str]) -> Vec<Statement> {
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    fn written(statements: &[Statement]) -> Vec<TableEntry> {
        statements.iter().filter_map(|statement| encode::entry(statement, &ids())).collect()
    }

    /// A plan that draws 100, 101 and so on.
    fn planned(wanted: &[Statement], found: &[TableEntry]) -> Plan {
        let mut next = 99;
        plan(wanted, found, &ids(), &mut || {
            next += 1;
            next << 20
        })
    }

    const WANTED: &[&str] = &[
        "route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01",
        "route 10.0.2.0/24 group 7 size 1 seed 99",
        "member 7 0 via 2 02:00:00:00:02:01 02:00:00:00:00:02",
        "edge 0 10.0.0.1/32",
        "link 1 capacity 500 unit 0 signature 0x000abc01",
        "link 2 capacity 500 unit 0 signature 0x000abc02",
        "guard 5",
        "restart",
    ];

    fn text(statements: &[Statement]) -> Vec<String> {
        statements.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_empty_switch_gets_everything_in_order_with_signatures_drawn_anew() {
        let plan = planned(&lines(WANTED), &[]);
        assert!(plan.restarted && plan.stale.is_empty());
        let expected = [
            "edge 0 10.0.0.1/32",
            "link 1 capacity 500 unit 0 signature 0x064abc01",
            "link 2 capacity 500 unit 0 signature 0x065abc02",
            "member 7 0 via 2 02:00:00:00:02:01 02:00:00:00:00:02",
            "route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01",
            "route 10.0.2.0/24 group 7 size 1 seed 99",
        ];
        assert_eq!(text(&plan.statements), expected);
    }

    #[test]
    fn what_is_there_keeps_what_was_drawn_for_it() {
        let first = planned(&lines(WANTED), &[]);
        let again = planned(&lines(WANTED), &written(&first.statements));
        assert_eq!(again, Plan::default());
        let mut wanted = lines(WANTED);
        wanted.push("link 2 capacity 700 unit 0 signature 0xfff0bc03".parse().unwrap());
        wanted.push("link 3 capacity 500 unit 0 signature 0x00000000".parse().unwrap());
        let changed = planned(&wanted, &written(&first.statements));
        assert!(!changed.restarted);
        let expected =
            ["link 2 capacity 700 unit 0 signature 0x0650bc03", "link 3 capacity 500 unit 0 signature 0x06400000"];
        assert_eq!(text(&changed.statements), expected);
    }

    #[test]
    fn what_nobody_wants_is_taken_out() {
        let there = lines(&["edge 9 10.0.0.9/32", "route 10.9.0.0/16 via 1 02:00:00:00:01:01 02:00:00:00:00:01"]);
        let mut found = written(&there);
        let ids = ids();
        let mut odd = found[1].clone();
        odd.action = None;
        odd.r#match = written(&lines(&[WANTED[0]]))[0].r#match.clone();
        found.push(odd);
        let plan = planned(&lines(WANTED), &found);
        let tables: Vec<u32> = plan.stale.iter().map(|entry| entry.table_id).collect();
        assert_eq!(tables, [ids.lpm.id, ids.edge.id]);
        assert_eq!(plan.statements.len(), 6, "what is there without an action that is known is written again");
    }

    proptest! {
        /// Doing what the plan says leaves nothing to do.
        #[test]
        fn a_plan_that_is_carried_out_is_empty(
            wanted in prop::collection::vec(statements(), 0..20),
            there in prop::collection::vec(statements(), 0..20),
            odd in prop::collection::vec(entries(), 0..5)
        ) {
            let ids = ids();
            let mut found = written(&there);
            found.retain(|entry| !entry.is_default_action);
            found.extend(odd);
            let plan = planned(&wanted, &found);
            let key = |entry: &TableEntry| (entry.table_id, entry.r#match.clone());
            let mut table: Vec<TableEntry> = found.into_iter().filter(|entry| !plan.stale.contains(entry)).collect();
            for entry in written(&plan.statements) {
                let same = encode::key(&entry, &ids);
                table.retain(|other| key(other) != key(&entry) && encode::key(other, &ids) != same);
                table.push(entry);
            }
            let again = planned(&wanted, &table);
            prop_assert!(again.stale.is_empty(), "{:?}", again.stale);
            prop_assert!(again.statements.is_empty(), "{:?}", again.statements);
        }
    }
}
