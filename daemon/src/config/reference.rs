//! The table of keys as data for people and programs: the generated reference, the JSON schema, and what holds with where
//! it was set. It says what `settings` says and decides nothing.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::keys::{Key, is_required};
use super::read::{MAX_LINKS, MAX_SWITCHES};
use super::settings::{Config, KEYS, LINK_KEYS, LinkEntry, SWITCH_KEYS, SwitchEntry};
use super::value::Rule;
use super::{Loaded, Origin};

/// Address of the schema's dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What is known of one key, whatever it is set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyReference {
    /// Dotted path; keys of table arrays as `links[].gbps`.
    pub key: String,
    /// The unit; empty: none.
    pub unit: &'static str,
    /// The type in words.
    pub kind: &'static str,
    /// The default as TOML; empty: not set.
    pub default: String,
    /// What may stand there, in words.
    pub allowed: String,
    /// A change waits for a restart.
    pub restart: bool,
    /// One sentence.
    pub meaning: &'static str,
}

/// Every key of `sluiced.toml` in the order of the commented defaults, those of table arrays last.
pub fn reference() -> Vec<KeyReference> {
    let (roots, tabled): (Vec<_>, Vec<_>) = KEYS.iter().partition(|key| !key.path.contains('.'));
    let all = roots.into_iter().chain(tabled).map(|key| entry(key, ""));
    let links = LINK_KEYS.iter().map(|key| entry::<LinkEntry>(key, "links[]."));
    let switches = SWITCH_KEYS.iter().map(|key| entry::<SwitchEntry>(key, "switches[]."));
    all.chain(links).chain(switches).collect()
}

fn entry<T: Default>(key: &Key<T>, prefix: &str) -> KeyReference {
    KeyReference {
        key: format!("{prefix}{}", key.path),
        unit: key.unit,
        kind: key.kind,
        default: (key.get)(&T::default()),
        allowed: key.rule.in_words(key.kind),
        restart: key.restart,
        meaning: key.meaning,
    }
}

/// One key as it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Dotted path; of a table array's entry `links.eth0.gbps`.
    pub key: String,
    /// The value as TOML; empty: not set.
    pub value: String,
    /// The default as TOML; empty: none.
    pub default: String,
    /// Where it was set; `None`: its default holds.
    pub origin: Option<Origin>,
}

/// Every key with what holds and where it was set.
pub fn holding(loaded: &Loaded) -> Vec<Holding> {
    let config = &loaded.config;
    let defaults = Config::default();
    let plain = KEYS.iter().map(|key| Holding {
        key: key.path.into(),
        value: (key.get)(config),
        default: (key.get)(&defaults),
        origin: loaded.origins.get(key.path).cloned(),
    });
    let links = config.links.iter().flat_map(|link| of_entry(loaded, "links", &link.name, LINK_KEYS, link));
    let switches =
        config.switches.iter().flat_map(|switch| of_entry(loaded, "switches", &switch.name, SWITCH_KEYS, switch));
    plain.chain(links).chain(switches).collect()
}

fn of_entry<T: Default>(loaded: &Loaded, list: &str, name: &str, keys: &[Key<T>], entry: &T) -> Vec<Holding> {
    let place = format!("{list}.{name}");
    let one = |key: &Key<T>| Holding {
        key: format!("{place}.{}", key.path),
        value: (key.get)(entry),
        default: (key.get)(&T::default()),
        origin: loaded.origins.get(&place).cloned(),
    };
    keys.iter().map(one).collect()
}

/// A JSON schema of `sluiced.toml`, for editors and for checks of files that are generated. What keys say together, and what
/// only a host knows, is judged by `sluice config check`.
pub fn schema() -> Value {
    let mut root = Map::new();
    let mut tables: Vec<(&str, Map<String, Value>)> = Vec::new();
    for key in KEYS {
        let Some((head, name)) = key.path.split_once('.') else {
            root.insert(key.path.into(), key_schema(key, true));
            continue;
        };
        match tables.iter_mut().find(|(known, _)| *known == head) {
            Some((_, table)) => drop(table.insert(name.into(), key_schema(key, true))),
            None => tables.push((head, Map::from_iter([(name.to_owned(), key_schema(key, true))]))),
        }
    }
    root.extend(tables.into_iter().map(|(name, table)| (name.to_owned(), table_schema(table, &[]))));
    for (list, items, most) in
        [("links", list_schema(LINK_KEYS), MAX_LINKS), ("switches", list_schema(SWITCH_KEYS), MAX_SWITCHES)]
    {
        root.insert(list.into(), json!({ "type": "array", "maxItems": most, "items": items }));
    }
    let mut schema = table_schema(root, &[]);
    schema["$schema"] = DIALECT.into();
    schema["title"] = "sluiced.toml".into();
    schema["description"] = "Configuration of sluiced, the daemon of one host.".into();
    schema
}

fn table_schema(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut table = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn list_schema<T: Default>(keys: &[Key<T>]) -> Value {
    let properties = keys.iter().map(|key| (key.path.to_owned(), key_schema(key, false))).collect();
    let required: Vec<&str> = keys.iter().map(|key| key.path).filter(|path| is_required(path)).collect();
    table_schema(properties, &required)
}

fn key_schema<T: Default>(key: &Key<T>, with_default: bool) -> Value {
    let mut schema = rule_schema(&key.rule, key.kind);
    let unit = if key.unit.is_empty() { String::new() } else { format!(" [{}]", key.unit) };
    let restart = if key.restart { " Needs a restart." } else { "" };
    schema["description"] = format!("{}{unit}{restart}", key.meaning).into();
    // A value of the file's TOML is one of JSON too: numbers, words, lists of texts.
    if let (true, Ok(default)) = (with_default, serde_json::from_str::<Value>(&(key.get)(&T::default())))
        && default != ""
    {
        schema["default"] = default;
    }
    schema
}

fn rule_schema(rule: &Rule, kind: &str) -> Value {
    let texts = |items: Value, most: usize| json!({ "type": "array", "items": items, "maxItems": most });
    match *rule {
        Rule::Any if kind == "true or false" => json!({ "type": "boolean" }),
        Rule::Any | Rule::LogFilter => json!({ "type": "string" }),
        Rule::Int(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Rule::PowerOfTwo(least, most) => {
            let powers = std::iter::successors(Some(least.next_power_of_two()), |power| power.checked_mul(2));
            json!({ "enum": powers.take_while(|power| *power <= most).collect::<Vec<u64>>() })
        }
        Rule::Number(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        Rule::Name => json!({ "type": "string", "pattern": "^[a-z0-9._-]{1,63}$" }),
        Rule::Suffix(most) => json!({ "type": "string", "pattern": format!("^[a-z0-9]{{0,{most}}}$") }),
        Rule::Words(words) if kind == "a list of texts" => texts(json!({ "enum": words }), words.len()),
        Rule::Words(words) => json!({ "enum": words }),
        Rule::List(most) => texts(json!({ "type": "string" }), most),
        Rule::Ports(most) => {
            let port = json!({ "type": "integer", "minimum": 1, "maximum": 65_535 });
            let range = json!({ "type": "string", "pattern": "^[0-9]{1,5}(-[0-9]{1,5})?$" });
            texts(json!({ "anyOf": [port, range] }), most)
        }
        Rule::Networks(most) => texts(json!({ "type": "string", "pattern": "^[0-9a-fA-F.:]+(/[0-9]{1,3})?$" }), most),
        Rule::Addresses(most) => texts(json!({ "type": "string", "pattern": "^[^ ]+:[0-9]{1,5}$" }), most),
        Rule::Endpoints(most) => texts(json!({ "type": "string" }), most),
        Rule::HostPort => json!({ "type": "string", "pattern": "^[^ ]+:[0-9]{1,5}$" }),
        Rule::Path => json!({ "type": "string", "pattern": "^/", "maxLength": 4096 }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{commented_defaults, judge, read::Reader};
    use super::*;

    #[test]
    fn every_key_is_in_the_reference_and_in_the_schema() {
        let all = reference();
        assert_eq!(all.len(), KEYS.len() + LINK_KEYS.len() + SWITCH_KEYS.len());
        let schema = schema();
        for key in &all {
            assert!(!key.meaning.is_empty() && !key.allowed.is_empty(), "{key:?}");
            let place = match key.key.split_once("[].") {
                Some((list, name)) => &schema["properties"][list]["items"]["properties"][name],
                None => key.key.split('.').fold(&schema, |table, name| &table["properties"][name]),
            };
            assert!(
                place["description"].as_str().is_some_and(|text| text.starts_with(key.meaning)),
                "{key:?}: {place}"
            );
        }
        assert_eq!(schema["properties"]["slot"]["properties"]["length_ms"]["maximum"], 200);
        assert_eq!(schema["properties"]["enforce"]["properties"]["max_flows"]["enum"][0], 64);
        assert_eq!(schema["properties"]["switches"]["items"]["required"], json!(["name", "address"]));
    }

    /// A small judge of the words that [`schema`] uses.
    fn fits(schema: &Value, value: &Value) -> bool {
        let number = |key: &str| schema[key].as_f64();
        let typed = match schema["type"].as_str() {
            Some("object") => value.as_object().is_some_and(|map| {
                map.iter()
                    .all(|(key, value)| fits(&schema["properties"][key], value) && !schema["properties"][key].is_null())
            }),
            Some("array") => value.as_array().is_some_and(|list| {
                list.len() <= schema["maxItems"].as_u64().unwrap_or(u64::MAX) as usize
                    && list.iter().all(|item| fits(&schema["items"], item))
            }),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_u64(),
            Some("number") => value.is_number(),
            _ => true,
        };
        let inside = value.as_f64().is_none_or(|n| {
            number("minimum").is_none_or(|least| n >= least) && number("maximum").is_none_or(|most| n <= most)
        });
        let listed = schema["enum"].as_array().is_none_or(|all| all.contains(value));
        let any = schema["anyOf"].as_array().is_none_or(|all| all.iter().any(|one| fits(one, value)));
        typed && inside && listed && any
    }

    #[test]
    fn the_schema_takes_the_defaults_and_refuses_what_the_reader_refuses() {
        let schema = schema();
        let as_json = |text: &str| serde_json::to_value(text.parse::<toml::Table>().expect("TOML")).expect("JSON");
        assert!(fits(&schema, &as_json(&commented_defaults())));
        for (text, good) in [
            ("mode = \"active\"", true),
            ("mode = \"fast\"", false),
            ("[slot]\nlength_ms = 600", false),
            ("[slot]\nlenght_ms = 60", false),
            ("[enforce]\nmax_flows = 100", false),
            ("[capture]\nports_exclude = [22, \"5-6\"]", true),
            ("[capture]\njobs = [\"nccl\", \"none\"]", false),
            ("[[switches]]\nname = \"s\"\naddress = \"s:1\"", true),
            ("[[switches]]\nname = \"s\"\nadress = \"s:1\"", false),
        ] {
            assert_eq!(fits(&schema, &as_json(text)), good, "{text}");
            let mut reader = Reader::default();
            reader.text(Path::new("sluiced.toml"), text);
            assert_eq!(judge(reader, true).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn what_holds_comes_with_its_place_and_its_default() {
        let mut reader = Reader::default();
        reader.text(Path::new("a"), "mode = \"active\"\n\n[[links]]\nname = \"eth0\"\ngbps = 25\n");
        reader.text(Path::new("b"), "[slot]\nlength_ms = 30\n[[links]]\nname = \"eth1\"\ngbps = 10\n");
        let loaded = judge(reader, true).expect("valid");
        let all = holding(&loaded);
        let one = |key: &str| all.iter().find(|one| one.key == key).expect(key).clone();
        let place = |file: &str, line| Some(Origin { file: file.into(), line });
        assert_eq!((one("mode").value.as_str(), one("mode").default.as_str()), ("\"active\"", "\"observe\""));
        assert_eq!((one("mode").origin, one("slot.length_ms").origin), (place("a", 1), place("b", 2)));
        assert_eq!(one("slot.horizon").origin, None);
        assert_eq!((one("links.eth0.gbps").value.as_str(), one("links.eth0.gbps").origin), ("25.0", place("a", 3)));
        assert_eq!((one("links.eth1.gbps").value.as_str(), one("links.eth1.gbps").origin), ("10.0", place("b", 3)));
    }
}
