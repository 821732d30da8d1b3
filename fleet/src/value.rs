//! What stands under each name in etcd: read with every mistake at once, written as JSON for people.
//!
//! Values come from whoever may write to etcd. A value that is not what its name promises is refused whole; the reader
//! says code, place, what was found and what is allowed, with the key's name in the file's place.

use serde_json::json;
use sluice_formats::document::{Collector, Item, Node, Notation, Table};
use sluice_formats::problem::{E_DUP, E_LIMIT, E_PARSE, E_VERSION, Problem, Problems};
use sluice_formats::topology::Topology;
use sluice_plan::plan::Plan;
use sluice_wire::snapshot::{Mode, Transport};

use crate::key::{Key, MAX_HOSTS, MAX_SWITCHES, MAX_VALUE, NAME, Name};

/// Version of the values that this program reads and writes.
pub const VERSION: u64 = 1;

/// Modes by their words.
pub(crate) const MODES: [(&str, Mode); 3] =
    [("observe", Mode::Observe), ("active", Mode::Active), ("bypass", Mode::Bypass)];

/// The mode of a group of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeValue {
    /// The mode.
    pub mode: Mode,
    /// Who set it, and why, in an operator's words.
    pub note: String,
}

/// A switch, as a host's `[[switches]]` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchValue {
    /// Its name in the topology.
    pub name: Name,
    /// `host:port`.
    pub address: String,
    /// How it is spoken to.
    pub transport: Transport,
}

/// A host of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostValue {
    /// Its node name.
    pub name: Name,
    /// Where its HTTP answers, as `host:port`.
    pub http: String,
}

/// What a value is, once it is read.
#[derive(Clone, Debug)]
pub enum Value {
    /// Of [`Key::Epoch`].
    Epoch(u64),
    /// Of [`Key::Mode`].
    Mode(ModeValue),
    /// Of [`Key::Plan`]: a plan that can be read. Whether a job can follow it is seen when one names it.
    Plan,
    /// Of [`Key::Switches`].
    Switches(Vec<SwitchValue>),
    /// Of [`Key::Topology`]: a topology with rates.
    Topology,
    /// Of [`Key::Plan`], [`Key::Switches`] and [`Key::Topology`]: there was one, and hosts are to do without.
    Removed,
}

impl Value {
    /// Reads the value of a key that hosts read.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(key: &Key, bytes: &[u8]) -> Result<Value, Problems> {
        let name = key.to_string();
        bounded(&name, bytes)?;
        if matches!(key, Key::Plan(_) | Key::Switches | Key::Topology) && bytes == removed().as_bytes() {
            return Ok(Value::Removed);
        }
        match key {
            Key::Epoch => {
                document(&name, bytes, |table| table.require("epoch")?.int(&(0..=u64::MAX))).map(Value::Epoch)
            }
            Key::Mode(_) => read_mode(&name, bytes).map(Value::Mode),
            Key::Plan(_) => Plan::read_at_most(bytes, &name, MAX_VALUE).map(|_| Value::Plan),
            Key::Switches => read_switches(&name, bytes).map(Value::Switches),
            Key::Topology => {
                Topology::read(bytes, &name)?.with_rates(&name)?;
                Ok(Value::Topology)
            }
            Key::Group(_) | Key::Rollout => {
                Err(Problem::new(E_PARSE, "", "not a value that hosts read").in_file(name).into())
            }
        }
    }
}

/// A value of at most [`MAX_VALUE`] bytes.
pub(crate) fn bounded(name: &str, bytes: &[u8]) -> Result<(), Problems> {
    if bytes.len() <= MAX_VALUE {
        return Ok(());
    }
    let problem = Problem::new(E_LIMIT, "", "the value is too large").found(format!("{} bytes", bytes.len()));
    let problem = problem.allowed(format!("at most {MAX_VALUE} bytes"));
    Err(problem.help("give hosts a file, and name it in sluiced.toml").in_file(name).into())
}

/// Reads a JSON table with a version. `of` reads the other keys; it may say what is wrong and return `None`.
pub(crate) fn document<T>(name: &str, bytes: &[u8], of: impl FnOnce(&Table<'_>) -> Option<T>) -> Result<T, Problems> {
    let refuse = |problem: Problem| Problems::from(problem.in_file(name));
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refuse(Problem::new(E_PARSE, "", format!("not UTF-8 at byte {}", error.valid_up_to())).allowed("JSON"))
    })?;
    let collector = Collector::new(name, text, Notation::Json);
    let node = Node::parse(&collector);
    let read = Item::root(&node, &collector).table().and_then(|table| {
        let version = table.require("version")?;
        if version.int(&(1..=u64::MAX))? != VERSION {
            version.fail(E_VERSION, "a version that this program does not know", &VERSION.to_string());
            return None;
        }
        let value = of(&table);
        table.finish();
        value
    });
    match (Problems::collect(collector.into_problems(), name), read) {
        (None, Some(value)) => Ok(value),
        (Some(problems), _) => Err(problems),
        (None, None) => Err(refuse(Problem::new(E_PARSE, "", "not readable").allowed("a JSON object"))),
    }
}

/// A name under a key.
pub(crate) fn name(table: &Table<'_>, key: &'static str) -> Option<Name> {
    table.require(key)?.parse(NAME, Name::parse)
}

fn host_port(table: &Table<'_>, key: &'static str) -> Option<String> {
    table.require(key)?.parse("host:port", |text| {
        let (host, port) = text.rsplit_once(':')?;
        let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
        let ok = !host.is_empty() && host.len() <= 253 && plain && port.parse::<u16>().is_ok_and(|port| port > 0);
        ok.then(|| text.to_owned())
    })
}

fn read_mode(name: &str, bytes: &[u8]) -> Result<ModeValue, Problems> {
    document(name, bytes, |table| {
        let note = table.text("note").unwrap_or_default().to_owned();
        Some(ModeValue { mode: table.require("mode")?.choice(&MODES)?, note })
    })
}

fn read_switches(name: &str, bytes: &[u8]) -> Result<Vec<SwitchValue>, Problems> {
    let words = Transport::ALL.map(|transport| (transport.as_str(), transport));
    let entry = |item: Item<'_>| {
        let table = item.table()?;
        let transport =
            if table.has("transport") { table.choice("transport", &words) } else { Some(Transport::Session) };
        let read = (self::name(&table, "name"), host_port(&table, "address"));
        // Asked for also where it is not there, so that it counts as known.
        let _ = table.get("transport");
        table.finish();
        let (Some(name), Some(address), Some(transport)) = (read.0, read.1, transport) else { return None };
        Some(SwitchValue { name, address, transport })
    };
    document(name, bytes, |table| {
        let items = table.require("switches")?.list_of(MAX_SWITCHES)?;
        distinct(items, entry, |switch: &SwitchValue| &switch.name)
    })
}

/// The hosts of a group.
///
/// # Errors
/// Everything that is wrong with the value.
pub fn read_hosts(key: &Key, bytes: &[u8]) -> Result<Vec<HostValue>, Problems> {
    let name = key.to_string();
    bounded(&name, bytes)?;
    let entry = |item: Item<'_>| {
        let table = item.table()?;
        let (host, http) = (self::name(&table, "name"), host_port(&table, "http"));
        table.finish();
        Some(HostValue { name: host?, http: http? })
    };
    document(&name, bytes, |table| {
        let items = table.require("hosts")?.list_of(MAX_HOSTS)?;
        distinct(items, entry, |host: &HostValue| &host.name)
    })
}

/// Every element read, each name once; `None` if one could not be read.
fn distinct<'a, T>(
    items: Vec<Item<'a>>,
    read: impl Fn(Item<'a>) -> Option<T>,
    name: impl Fn(&T) -> &Name,
) -> Option<Vec<T>> {
    let mut seen = std::collections::BTreeSet::new();
    let mut all = Vec::new();
    for item in items {
        let place = item.clone();
        let Some(value) = read(item) else { continue };
        if seen.insert(name(&value).clone()) {
            all.push(value);
        } else {
            let problem = Problem::new(E_DUP, "", "the same name twice").found(name(&value).as_str());
            place.refuse(problem.allowed("each name once"));
        }
    }
    Some(all)
}

fn written(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// The value that takes a plan, the switches or the topology away from hosts.
pub fn removed() -> String {
    written(&json!({ "version": VERSION, "removed": true }))
}

/// The value of an epoch.
pub fn epoch(number: u64) -> String {
    written(&json!({ "version": VERSION, "epoch": number }))
}

impl ModeValue {
    /// As it is stored.
    pub fn write(&self) -> String {
        written(&json!({ "version": VERSION, "mode": self.mode.as_str(), "note": self.note }))
    }
}

/// Switches as they are stored.
pub fn write_switches(switches: &[SwitchValue]) -> String {
    let one = |switch: &SwitchValue| {
        let (name, address) = (switch.name.as_str(), &switch.address);
        json!({ "name": name, "address": address, "transport": switch.transport.as_str() })
    };
    written(&json!({ "version": VERSION, "switches": switches.iter().map(one).collect::<Vec<_>>() }))
}

/// The hosts of a group as they are stored.
pub fn write_hosts(hosts: &[HostValue]) -> String {
    let one = |host: &HostValue| json!({ "name": host.name.as_str(), "http": host.http });
    written(&json!({ "version": VERSION, "hosts": hosts.iter().map(one).collect::<Vec<_>>() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_key() -> Key {
        Key::Mode(Name::parse("rack1").expect("a name"))
    }

    fn problems(key: &Key, text: &str) -> String {
        Value::read(key, text.as_bytes()).expect_err("refused").to_string()
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let mode = ModeValue { mode: Mode::Active, note: "rollout by ops".into() };
        let read = Value::read(&mode_key(), mode.write().as_bytes()).expect("a mode");
        assert!(matches!(read, Value::Mode(read) if read == mode));
        let name = |text| Name::parse(text).expect("a name");
        let address = "10.0.0.1:9604".to_owned();
        let switches = [SwitchValue { name: name("leaf-1"), address, transport: Transport::Udp }];
        let read = Value::read(&Key::Switches, write_switches(&switches).as_bytes()).expect("switches");
        assert!(matches!(read, Value::Switches(read) if read == switches));
        let hosts = [HostValue { name: name("gpu-1"), http: "[fd00::1]:9605".into() }];
        let key = Key::Group(name("rack1"));
        assert_eq!(read_hosts(&key, write_hosts(&hosts).as_bytes()).expect("hosts"), hosts);
        assert!(matches!(Value::read(&Key::Epoch, epoch(7).as_bytes()), Ok(Value::Epoch(7))));
        assert!(matches!(Value::read(&Key::Topology, removed().as_bytes()), Ok(Value::Removed)));
    }

    #[test]
    fn a_refusal_names_key_place_value_and_what_is_allowed() {
        let text = problems(&mode_key(), r#"{"version":1,"mode":"actve","why":1}"#);
        assert!(text.contains("hosts/modes/rack1 at /mode") && text.contains("did you mean `active`"), "{text}");
        assert!(text.contains("E_KEY") && text.contains("2 errors"), "{text}");
        assert!(problems(&mode_key(), r#"{"version":2,"mode":"active"}"#).contains("E_VERSION"));
        assert!(problems(&mode_key(), "active").contains("E_PARSE"));
        assert!(problems(&mode_key(), r#"{"version":1}"#).contains("E_MISSING"));
        let twice = r#"{"version":1,"switches":[{"name":"a","address":"h:1"},{"name":"a","address":"h:2"}]}"#;
        assert!(problems(&Key::Switches, twice).contains("E_DUP"));
        let injected = r#"{"version":1,"switches":[{"name":"a","address":"h\"]\n:1"}]}"#;
        assert!(problems(&Key::Switches, injected).contains("host:port"));
        assert!(problems(&Key::Topology, &"x".repeat(MAX_VALUE + 1)).contains("E_LIMIT"));
        // A mode cannot be taken away: what else would hold?
        assert!(problems(&mode_key(), &removed()).contains("E_"));
    }
}
