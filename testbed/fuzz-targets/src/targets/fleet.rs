//! F27 and F28: what etcd answers, and what lies there.

use sluice_etcd::{Key as Told, fuzz};
use sluice_fleet::key::{Key, MAX_KEYS, MAX_TOTAL, Name, Space};
use sluice_fleet::rollout::Rollout;
use sluice_fleet::value::{self, HostValue, ModeValue, SwitchValue, Value};
use sluice_wire::snapshot::{Mode, Transport};

use super::topologies::{fabrics, refused};
use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses, then the message.
pub static ANSWERS: Target = Target {
    name: "F27-etcd",
    parser: "etcd's answers, to a question and to a watch",
    property: "no more keys than bytes, revisions are never negative; a key that is known is known by one name only",
    shape: Shape::Protobuf(1),
    run: answers,
    seeds: answers_seeds,
};

/// A byte that chooses the key, then its value.
pub static VALUES: Target = Target {
    name: "F28-fleet-values",
    parser: "what lies in etcd: epoch, modes, switches, plans, topology, groups, rollouts",
    property: "a value that is taken is written so that it is taken the same; a refusal names the key; names are names, addresses have a port",
    shape: Shape::ChosenText(&[
        "version",
        "epoch",
        "mode",
        "active",
        "observe",
        "bypass",
        "note",
        "switches",
        "hosts",
        "name",
        "address",
        "transport",
        "udp",
        "http",
        "removed",
        "to",
        "stages",
        "group",
        "earlier",
        "before",
        "notes",
        "status",
        "touched",
        "true",
        "null",
        "\"h:1\"",
        "{",
        "[",
    ]),
    run: values,
    seeds: values_seeds,
};

fn answers(bytes: &[u8]) {
    let Some((choice, message)) = bytes.split_first() else { return };
    let keys = if choice % 2 == 0 {
        fuzz::reading(message).map(|reading| reading.keys)
    } else {
        fuzz::news(message).map(|news| news.keys)
    };
    let keys = keys.unwrap_or_default();
    assert!(keys.len() <= message.len());
    let space = Space::new("/sluice", "c");
    for told in &keys {
        assert!(told.revision <= i64::MAX as u64);
        if let Some(key) = space.key(&told.name) {
            assert_eq!(space.name(&key), told.name, "a name is one key's");
            if let Some(value) = &told.value {
                let _ = Value::read(&key, value);
            }
        }
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn values(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let keys = [Key::Epoch, Key::Mode(name("rack1")), Key::Switches, Key::Topology, Key::Plan(name("p"))];
    match choice % 7 {
        5 => match value::read_hosts(&Key::Group(name("g")), rest) {
            Ok(hosts) => {
                assert!(hosts.iter().all(|host| host.http.contains(':')));
                let again = value::read_hosts(&Key::Group(name("g")), value::write_hosts(&hosts).as_bytes());
                assert_eq!(again.expect("what is written is taken"), hosts);
            }
            Err(problems) => refused(&problems),
        },
        6 => match Rollout::read(rest) {
            Ok(rollout) => {
                let text = rollout.write();
                let again = Rollout::read(text.as_bytes()).expect("what is written is taken");
                assert_eq!(again.write(), text);
                assert!(rollout.touched <= rollout.stages.len() && !rollout.stages.is_empty());
            }
            Err(problems) => refused(&problems),
        },
        number => {
            let key = &keys[usize::from(number)];
            match Value::read(key, rest) {
                Ok(read) => taken(key, &read),
                Err(problems) => {
                    refused(&problems);
                    assert!(problems.all().iter().all(|problem| problem.file == key.to_string()), "{problems}");
                }
            }
        }
    }
}

fn taken(key: &Key, read: &Value) {
    let again = |text: String| Value::read(key, text.as_bytes()).expect("what is written is taken");
    match read {
        Value::Epoch(number) => assert!(matches!(again(value::epoch(*number)), Value::Epoch(same) if same == *number)),
        Value::Mode(mode) => assert!(matches!(again(mode.write()), Value::Mode(same) if same == *mode)),
        Value::Switches(list) => {
            assert!(list.iter().all(|switch| switch.address.contains(':')));
            assert!(matches!(again(value::write_switches(list)), Value::Switches(same) if same == *list));
        }
        Value::Removed => assert!(!matches!(key, Key::Mode(_) | Key::Epoch), "what would hold then?"),
        Value::Plan | Value::Topology => {}
    }
}

fn answers_seeds() -> Vec<Seed> {
    // The bounds of a fleet are far above what an input holds.
    const { assert!(MAX_KEYS > 100 && MAX_TOTAL > 1 << 20) };
    let key = |name: &str, value: Option<&str>, revision| Told {
        name: format!("/sluice/c/{name}"),
        value: value.map(|value| value.as_bytes().to_vec()),
        revision,
    };
    let mode = ModeValue { mode: Mode::Active, note: "by ops".into() }.write();
    let keys = [
        key("hosts/epoch", Some(&value::epoch(3)), 3),
        key("hosts/modes/rack1", Some(&mode), 4),
        key("hosts/plans/p", None, 5),
        key("rollout", Some("{}"), 6),
    ];
    let [reading, news] = fuzz::answers(7, 12, &keys);
    vec![Seed::of(0, "reading", reading), Seed::of(1, "news", news)]
}

fn values_seeds() -> Vec<Seed> {
    let switches = [SwitchValue { name: name("leaf-1"), address: "10.0.0.1:9604".into(), transport: Transport::Udp }];
    let hosts = [HostValue { name: name("gpu-1"), http: "[fd00::1]:9605".into() }];
    let rollout = r#"{"version":1,"to":"active","pause_s":60,"patience_s":120,"unanswered":0,"by":"ops","reason":"","status":"running",
"ended_by":"","touched":1,"touched_unix_s":5,"settled_unix_s":0,"stages":[{"group":"rack1","earlier":"observe","before":{"gpu-1":["x"]}}],
"notes":[{"unix_s":5,"text":"begun"}]}"#;
    let (_, fabric) = fabrics().swap_remove(1);
    vec![
        Seed::of(0, "epoch", value::epoch(7)),
        Seed::of(1, "mode", ModeValue { mode: Mode::Bypass, note: String::new() }.write()),
        Seed::of(2, "switches", value::write_switches(&switches)),
        Seed::of(2, "removed", value::removed()),
        Seed::of(3, "topology", fabric.to_text()),
        Seed::of(5, "hosts", value::write_hosts(&hosts)),
        Seed::of(6, "rollout", rollout),
    ]
}
