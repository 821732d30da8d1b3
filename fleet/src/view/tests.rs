use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::value::{self, ModeValue};

const ETCD: u64 = 0xe7cd;

fn space() -> Space {
    Space::new("/sluice", "train")
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn view() -> View {
    View::new(space(), name("rack1"))
}

fn mode_key() -> Key {
    Key::Mode(name("rack1"))
}

fn mode(mode: Mode) -> Vec<u8> {
    ModeValue { mode, note: String::new() }.write().into_bytes()
}

fn raw(key: &Key, value: Option<&[u8]>, revision: u64) -> Raw {
    Raw { name: space().name(key), value: value.map(<[u8]>::to_vec), revision: Revision(revision) }
}

fn whole(revision: u64, keys: Vec<Raw>) -> Heard {
    Heard::Whole { etcd: ETCD, revision: Revision(revision), keys, more: false }
}

fn changes(revision: u64, keys: Vec<Raw>) -> Heard {
    Heard::Changes { revision: Revision(revision), keys }
}

fn active_at(revision: u64) -> View {
    let mut view = view();
    let change = view.hear(whole(revision, vec![raw(&mode_key(), Some(&mode(Mode::Active)), revision)]));
    assert!(change.mode && view.faults().is_empty());
    view
}

#[test]
fn the_groups_mode_is_taken_and_no_other() {
    let mut view = active_at(5);
    let other = Key::Mode(name("rack2"));
    let change = view.hear(changes(6, vec![raw(&other, Some(&mode(Mode::Bypass)), 6)]));
    assert_eq!((change, view.mode(), view.revision()), (Change::default(), Some(Mode::Active), Revision(6)));
    let change = view.hear(changes(7, vec![raw(&mode_key(), Some(&mode(Mode::Observe)), 7)]));
    assert!(change.mode && view.mode() == Some(Mode::Observe));
    // Once more, and an older one: nothing.
    let again = vec![raw(&mode_key(), Some(&mode(Mode::Observe)), 7), raw(&mode_key(), Some(&mode(Mode::Active)), 5)];
    assert_eq!(view.hear(changes(7, again)), Change::default());
    assert_eq!(view.mode(), Some(Mode::Observe));
}

#[test]
fn what_is_gone_or_malformed_leaves_the_last_good_state_and_is_told() {
    let mut view = active_at(5);
    view.hear(changes(6, vec![raw(&mode_key(), Some(b"{\"version\":1,\"mode\":\"on\"}"), 6)]));
    assert_eq!(view.mode(), Some(Mode::Active));
    let faults = view.faults();
    assert!(faults[0].subject == "hosts/modes/rack1" && faults[0].sentence.contains("E_RANGE"), "{faults:?}");
    view.hear(changes(7, vec![raw(&mode_key(), None, 7)]));
    assert!(view.faults()[0].sentence.contains("deleted"), "{:?}", view.faults());
    assert_eq!(view.mode(), Some(Mode::Active));
    // The same by a reading of the whole.
    view.hear(whole(8, vec![]));
    assert_eq!((view.mode(), view.faults().len()), (Some(Mode::Active), 1));
    view.hear(changes(9, vec![raw(&mode_key(), Some(&mode(Mode::Observe)), 9)]));
    assert_eq!((view.mode(), view.faults().len()), (Some(Mode::Observe), 0));
}

#[test]
fn plans_come_and_go_by_a_word_and_only_by_that() {
    let key = Key::Plan(name("ring"));
    let mut view = active_at(5);
    // A plan that was not there needs a reading of the whole, which bounds them all.
    assert!(view.hear(changes(6, vec![raw(&key, Some(b"{}"), 6)])).reread);
    let topology = br#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"host"},{"id":"b","kind":"host"}],"links":[{"from":"a","to":"b","capacity":"25Gbit/s","duplex":true}]}"#;
    let change = view.hear(whole(7, vec![raw(&Key::Topology, Some(topology), 7)]));
    assert!(change.network, "{:?}", view.faults());
    assert_eq!(view.topology().map(|(revision, _)| revision), Some(Revision(7)));
    view.hear(changes(8, vec![raw(&Key::Topology, None, 8)]));
    assert!(view.topology().is_some());
    let change = view.hear(changes(9, vec![raw(&Key::Topology, Some(value::removed().as_bytes()), 9)]));
    assert!(change.network && view.topology().is_none());
    view.network_used(Some("no node h0".into()));
    assert!(view.faults().iter().any(|fault| fault.sentence.contains("no node h0")));
}

#[test]
fn an_etcd_that_went_back_is_not_believed_until_its_operator_says_so() {
    let observe = mode(Mode::Observe);
    let older = [
        whole(4, vec![raw(&mode_key(), Some(&observe), 3)]),
        whole(9, vec![raw(&mode_key(), Some(&observe), 3)]),
        whole(9, vec![raw(&mode_key(), Some(&observe), 5)]),
        Heard::Whole { etcd: 1, revision: Revision(9), keys: vec![raw(&mode_key(), Some(&observe), 9)], more: false },
    ];
    for heard in older {
        let mut view = active_at(5);
        assert_eq!(view.hear(heard.clone()), Change::default());
        assert_eq!(view.mode(), Some(Mode::Active), "{heard:?}");
        assert_eq!(view.faults().len(), 1);
        // News of it are not believed either, they only ask for another reading.
        let change = view.hear(changes(10, vec![raw(&mode_key(), Some(&observe), 10)]));
        assert!(change.reread && view.mode() == Some(Mode::Active));
        let Heard::Whole { etcd, mut keys, .. } = heard else { unreachable!("only readings") };
        keys.push(raw(&Key::Epoch, Some(value::epoch(1).as_bytes()), 4));
        let change = view.hear(Heard::Whole { etcd, revision: Revision(4), keys, more: false });
        assert!(change.mode && view.mode() == Some(Mode::Observe) && view.faults().is_empty());
    }
}

#[test]
fn more_than_a_host_takes_is_refused_whole() {
    let mut view = active_at(5);
    let plan = |i: usize| raw(&Key::Plan(name(&format!("p{i}"))), Some(b"{}"), 6);
    view.hear(whole(6, (0..=MAX_PLANS).map(plan).collect()));
    assert!(view.faults()[0].sentence.contains("64 plans") && view.mode() == Some(Mode::Active));
    view.hear(Heard::Whole { etcd: ETCD, revision: Revision(7), keys: vec![], more: true });
    assert_eq!(view.mode(), Some(Mode::Active));
}

#[test]
fn a_host_begins_as_it_ended() {
    let view = active_at(5);
    let text = view.write().expect("something to keep");
    let read = |group: &str, text: &str| View::read(space(), name(group), text.as_bytes(), "fleet.json");
    let mut again = read("rack1", &text).expect("good");
    assert_eq!((again.mode(), again.revision()), (Some(Mode::Active), Revision(5)));
    // It has not forgotten how far it was.
    again.hear(whole(4, vec![]));
    assert_eq!((again.mode(), again.faults().len()), (Some(Mode::Active), 1));
    assert_eq!(read("rack2", &text).expect("good").mode(), None);
    let other = View::read(Space::new("/sluice", "other"), name("rack1"), text.as_bytes(), "f").expect("good");
    assert_eq!((other.mode(), other.etcd), (None, None));
    assert_eq!(read("rack1", "{}").expect_err("refused").code(), "E_PARSE");
    assert_eq!(super::View::new(space(), name("rack1")).write(), None);
}

/// What a history comes to for somebody who saw these states of its keys: by key the good value of the highest revision.
fn naive(seen: &[(Key, u64, Vec<u8>)]) -> BTreeMap<Key, Vec<u8>> {
    let mut best: BTreeMap<Key, (u64, Vec<u8>)> = BTreeMap::new();
    for (key, revision, bytes) in seen {
        let newer = best.get(key).is_none_or(|(known, _)| known < revision);
        if newer && Value::read(key, bytes).is_ok() {
            best.insert(key.clone(), (*revision, bytes.clone()));
        }
    }
    best.into_iter().map(|(key, (_, bytes))| (key, bytes)).collect()
}

#[derive(Clone, Debug)]
enum Act {
    /// Somebody writes a value, deletes one, or writes rubbish.
    Put(u8, Option<u8>),
    /// The host hears of the last so many changes, some of them again.
    Watch(usize),
    Read,
    /// The host starts again from its file.
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3u8, proptest::option::of(0..5u8)).prop_map(|(key, value)| Act::Put(key, value)),
        3 => (1..6usize).prop_map(Act::Watch),
        1 => Just(Act::Read),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    #[test]
    fn a_view_is_the_newest_good_of_what_was_seen(acts in proptest::collection::vec(act(), 1..60)) {
        let keys = [mode_key(), Key::Switches, Key::Epoch];
        let value_of = |key: &Key, value: u8| match (key, value) {
            (_, 4) => b"rubbish".to_vec(),
            (Key::Switches, value) => {
                let switch = value::SwitchValue { name: name(&format!("leaf-{value}")), address: "h:1".into(), transport: Default::default() };
                value::write_switches(&[switch]).into_bytes()
            }
            // An etcd that never went back has no reason for another epoch.
            (Key::Epoch, _) => value::epoch(0).into_bytes(),
            (_, value) => mode([Mode::Observe, Mode::Active, Mode::Bypass, Mode::Active][usize::from(value)]),
        };
        let mut history: Vec<Raw> = Vec::new();
        let mut seen: Vec<(Key, u64, Vec<u8>)> = Vec::new();
        let mut view = view();
        view.hear(whole(0, vec![]));
        for act in acts {
            let revision = history.len() as u64;
            match act {
                Act::Put(key, value) => {
                    let key = &keys[usize::from(key)];
                    let bytes = value.map(|value| value_of(key, value));
                    history.push(raw(key, bytes.as_deref(), revision + 1));
                }
                Act::Watch(back) => {
                    let news: Vec<Raw> = history.iter().rev().take(back).rev().cloned().collect();
                    seen.extend(news.iter().filter_map(|raw| Some((space().key(&raw.name)?, raw.revision.0, raw.value.clone()?))));
                    view.hear(changes(revision, news));
                }
                Act::Read => {
                    let mut now: BTreeMap<String, Raw> = BTreeMap::new();
                    for raw in &history {
                        match raw.value {
                            Some(_) => drop(now.insert(raw.name.clone(), raw.clone())),
                            None => drop(now.remove(&raw.name)),
                        }
                    }
                    let all: Vec<Raw> = now.into_values().collect();
                    seen.extend(all.iter().filter_map(|raw| Some((space().key(&raw.name)?, raw.revision.0, raw.value.clone()?))));
                    view.hear(whole(revision, all));
                }
                Act::Restart => {
                    let text = view.write().expect("it has read once");
                    view = View::read(space(), name("rack1"), text.as_bytes(), "fleet.json").expect("its own file");
                }
            }
            let known: BTreeMap<Key, Vec<u8>> = view.items.iter().map(|(key, item)| (key.clone(), item.bytes.clone())).collect();
            prop_assert_eq!(&known, &naive(&seen));
            prop_assert!(view.held.is_none());
        }
    }
}
