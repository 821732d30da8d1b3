//! A statement survives the way through an entry, and whatever comes is answered.

use proptest::prelude::*;
use prost::Message;
use sluice_pipeline::PORTS;

use super::*;
use crate::info::info;

fn ids() -> Ids {
    Ids::of(&info()).unwrap()
}

fn hops() -> impl Strategy<Value = NextHop> {
    let parts = (0..PORTS, any::<[u8; 6]>(), any::<[u8; 6]>());
    parts.prop_map(|(port, destination, source)| NextHop { port, destination, source })
}

fn nets() -> impl Strategy<Value = Ipv4Net> {
    (any::<u32>(), 0_u8..=32).prop_map(|(address, length)| Ipv4Net::new(address.into(), length).unwrap())
}

/// Statements that write entries.
pub(crate) fn statements() -> impl Strategy<Value = Statement> {
    prop_oneof![
        (nets(), hops()).prop_map(|(to, hop)| Statement::Route(to, Action::Hop(hop))),
        (nets(), any::<u16>(), 1_u16.., any::<u32>())
            .prop_map(|(to, id, size, seed)| Statement::Route(to, Action::Group(Group { id, size, seed }))),
        (any::<u16>(), any::<u16>(), hops())
            .prop_map(|(group, bucket, hop)| Statement::Member(Member { group, bucket }, hop)),
        (0..PORTS, nets()).prop_map(|(port, sources)| Statement::Edge(port, sources)),
        (0..PORTS, 0_u32..1 << 31, 0..=MAX_UNIT, any::<u32>()).prop_map(|(port, capacity, unit, signature)| {
            Statement::Link(port, Link { capacity, unit, signature })
        }),
        any::<u32>().prop_map(|slot| Statement::Guard(Slot(slot))),
    ]
}

/// What a switch keeps of a statement.
fn kept(statement: Statement) -> Statement {
    match statement {
        Statement::Route(to, action) => Statement::Route(to.trunc(), action),
        Statement::Edge(port, sources) => Statement::Edge(port, sources.trunc()),
        other => other,
    }
}

/// Entries of any numbers, near those that the program has.
pub(crate) fn entries() -> impl Strategy<Value = TableEntry> {
    let near = prop::sample::select(vec![
        0_u32,
        1,
        2,
        3,
        4,
        0x0200_0001,
        0x0200_0002,
        0x0200_0003,
        0x0200_0004,
        0x0200_0005,
        0x0100_0002,
        0x0100_0004,
        0x0100_0005,
        0x0100_0006,
        0x0100_0007,
    ]);
    let value = || prop::collection::vec(any::<u8>(), 0..12);
    let fields = (near.clone(), value(), any::<i32>(), 0..4_u8).prop_map(|(field_id, value, prefix_len, kind)| {
        let field_match_type = match kind {
            0 => None,
            1 => Some(field_match::FieldMatchType::Exact(field_match::Exact { value })),
            _ => {
                let prefix_len = if kind == 2 { prefix_len } else { prefix_len & 63 };
                Some(field_match::FieldMatchType::Lpm(field_match::Lpm { value, prefix_len }))
            }
        };
        FieldMatch { field_id, field_match_type }
    });
    let params = (near.clone(), value()).prop_map(|(param_id, value)| p4::action::Param { param_id, value });
    let actions = (near.clone(), prop::collection::vec(params, 0..5)).prop_map(|(action_id, params)| TableAction {
        r#type: Some(table_action::Type::Action(p4::Action { action_id, params })),
    });
    let parts = (
        near,
        prop::collection::vec(fields, 0..4),
        prop::option::of(actions),
        prop::sample::select(vec![0, 0, 0, 1, i32::MIN]),
        any::<bool>(),
    );
    parts.prop_map(|(table_id, r#match, action, priority, is_default_action)| TableEntry {
        table_id,
        r#match,
        action,
        priority,
        is_default_action,
        metadata: Vec::new(),
    })
}

proptest! {
    #[test]
    fn a_statement_survives(given in statements()) {
        let ids = ids();
        let entry = entry(&given, &ids).unwrap();
        let bytes = entry.encode_to_vec();
        let read = TableEntry::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(statement(&read, &ids), Ok(kept(given)));
        prop_assert_eq!(key(&read, &ids).ok(), Key::of(&given));
        prop_assert_eq!(Key::of(&given).unwrap().entry(&ids), TableEntry { action: None, ..entry });
    }

    #[test]
    fn any_entry_is_answered_and_what_is_taken_is_written_again(given in entries()) {
        let ids = ids();
        let _ = key(&given, &ids);
        if let Ok(read) = statement(&given, &ids) {
            let again = entry(&read, &ids).unwrap();
            prop_assert_eq!(statement(&again, &ids), Ok(read));
        }
    }
}

#[test]
fn restarts_write_no_entry() {
    assert_eq!(entry(&Statement::Restart, &ids()), None);
}

#[test]
fn errors_name_the_field_the_value_and_what_is_allowed() {
    let ids = ids();
    let link = Statement::Link(3, Link { capacity: 500, unit: 0, signature: 7 });
    let good = entry(&link, &ids).unwrap();
    let error = |entry: &TableEntry| statement(entry, &ids).unwrap_err().to_string();
    let with = |change: fn(&mut TableEntry)| {
        let mut entry = good.clone();
        change(&mut entry);
        error(&entry)
    };
    let unknown = with(|entry| entry.table_id = 9);
    assert!(unknown.starts_with("table_id is 0x00000009; allowed are 0x02000001 (SluiceIngress.lpm), "), "{unknown}");
    assert_eq!(
        with(|entry| entry.r#match.clear()),
        "the match of `standard.egress_port` is missing; allowed is an exact match"
    );
    assert_eq!(
        with(|entry| entry.r#match[0].field_id = 5),
        "field_id of a match of `SluiceEgress.links` is 5; allowed is 0x00000001 (standard.egress_port)"
    );
    assert_eq!(with(|entry| entry.priority = 1), "priority is 1; allowed is 0, for no key of the program is ternary");
    assert_eq!(with(|entry| entry.is_default_action = true), "is_default_action is true; allowed is false");
    assert_eq!(with(|entry| entry.action = None), "action is missing; allowed is 0x01000006 (SluiceEgress.link)");
    assert_eq!(
        with(|entry| entry.r#match.push(entry.r#match[0].clone())),
        "the match of `standard.egress_port` is there twice; allowed is once"
    );
    let params = |change: fn(&mut Vec<p4::action::Param>)| {
        let mut entry = good.clone();
        let Some(table_action::Type::Action(action)) = entry.action.as_mut().and_then(|action| action.r#type.as_mut())
        else {
            panic!("an action");
        };
        change(&mut action.params);
        error(&entry)
    };
    assert_eq!(
        params(|params| params.truncate(2)),
        "parameter `signature` of `SluiceEgress.link` is missing; allowed is a number of 32 bits"
    );
    assert_eq!(
        params(|params| params[1].value = vec![1, 0]),
        "parameter `unit` of `SluiceEgress.link` is 0x0100; allowed is a number of 8 bits"
    );
    assert_eq!(
        params(|params| params[1].value = vec![17]),
        "parameter `unit` of `SluiceEgress.link` is 17; allowed is 0 to 16"
    );
    assert_eq!(
        params(|params| params[0].value = vec![0x80, 0, 0, 0]),
        "parameter `capacity` of `SluiceEgress.link` is 2147483648; allowed is 0 to 2147483647"
    );
}

#[test]
fn a_prefix_of_no_bits_is_a_match_that_is_left_out() {
    let ids = ids();
    let all: Ipv4Net = "0.0.0.0/0".parse().unwrap();
    let hop = NextHop { port: 1, destination: [2; 6], source: [4; 6] };
    let mut written = entry(&Statement::Route(all, Action::Hop(hop)), &ids).unwrap();
    assert!(written.r#match.is_empty());
    let lpm = field_match::Lpm { value: vec![0], prefix_len: 0 };
    let said = FieldMatch { field_id: 1, field_match_type: Some(field_match::FieldMatchType::Lpm(lpm)) };
    written.r#match.push(said);
    let error = statement(&written, &ids).unwrap_err().to_string();
    assert_eq!(error, "prefix_len is 0; allowed is 1 to 32; a prefix of 0 bits is a match that is left out");
}
