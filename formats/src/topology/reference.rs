//! The keys of `topology.json` in words, for the reference page and the manual. What they do is in `file` and `build`; a test
//! holds this and the reader together: the same keys in the same objects, and the same of them that have to be there.

/// What is known of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyReference {
    /// Dotted path; keys of the objects of a list as `nodes[].id`.
    pub key: &'static str,
    /// What holds where it is absent, as JSON; empty: nothing, or the key has to be there.
    pub default: &'static str,
    /// What may stand there.
    pub allowed: &'static str,
    /// Has it to be there?
    pub required: bool,
    /// One sentence.
    pub meaning: &'static str,
}

const fn required(key: &'static str, allowed: &'static str, meaning: &'static str) -> KeyReference {
    KeyReference { key, default: "", allowed, required: true, meaning }
}

const fn optional(
    key: &'static str,
    default: &'static str,
    allowed: &'static str,
    meaning: &'static str,
) -> KeyReference {
    KeyReference { key, default, allowed, required: false, meaning }
}

const FLAG: &str = "true or false";
const NAME: &str = "a text of 1 to 256 bytes";
const NODE: &str = "the id of a node";
const CAPACITY: &str = "a decimal or a fraction p/q with B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, bit/s, kbit/s, Mbit/s, \
                        Gbit/s or Tbit/s, more than 0, or \"unlimited\"";

/// Every key, object by object.
pub const KEYS: &[KeyReference] = &[
    required("sluice_topology", "1", "Version of this file's format."),
    optional("name", "", "a text", "What the topology is called."),
    required("nodes", "a list of objects", "The nodes; their order numbers them."),
    required("links", "a list of objects", "The links; their order numbers them."),
    optional("groups", "", "a list of objects", "Limits that several links share."),
    optional("box", "", "an object of node ids, each with a text", "The machine that each node belongs to."),
    optional("routing", "", "an object", "How flows find their way."),
    required("nodes[].id", NAME, "What the node is called; every id stands once."),
    required(
        "nodes[].kind",
        "gpu, host, memory, nic, site, switch",
        "gpu, host and site take part in collectives, switch and nic forward, memory stores.",
    ),
    optional(
        "nodes[].addresses",
        "",
        "a list of at most 16 IPv4 or IPv6 addresses or ranges; of a switch or nic one host:port",
        "Where the sockets of a host are, those of its cards first; where a switch answers daemons.",
    ),
    optional(
        "nodes[].port_addresses",
        "",
        "a list of at most 2048 IPv4 or IPv6 addresses",
        "By which a switch that routes answers for itself (ICMP), those of its ports.",
    ),
    optional(
        "nodes[].weight",
        "1",
        "a whole number from 0 to 9223372036854775807",
        "Share of the data that it holds in collectives; 0 only receives.",
    ),
    optional(
        "nodes[].buffer",
        "null",
        "a decimal or a fraction p/q with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, or null",
        "What it may hold for others; null is unlimited.",
    ),
    optional("nodes[].can", "", "an object", "What it can do, where that is not what its kind can."),
    optional("nodes[].can.store", "", FLAG, "Keep data for later."),
    optional("nodes[].can.copy", "", FLAG, "Send what it got to several others."),
    optional("nodes[].can.reduce", "", FLAG, "Add up what it got."),
    optional("nodes[].can.multicast", "", FLAG, "Of a switch or nic: the same as copy."),
    optional("nodes[].can.aggregate", "", FLAG, "Of a switch or nic: the same as reduce."),
    required("links[].from", NODE, "The node that the link leaves."),
    required("links[].to", NODE, "The node that it enters."),
    required("links[].capacity", CAPACITY, "What each of these links carries."),
    optional(
        "links[].duplex",
        "false",
        FLAG,
        "There is one in the other direction too, with the same capacity of its own.",
    ),
    optional("links[].count", "1", "a whole number from 1", "So many of them in parallel."),
    optional(
        "links[].latency",
        "\"0s\"",
        "a decimal or a fraction p/q with ns, us, ms or s, 0 or more",
        "Time that data takes one way.",
    ),
    optional(
        "links[].capacity_per_epoch",
        "",
        "a list of capacities, at least one",
        "Its capacity in each epoch of a planner, the last one repeats.",
    ),
    optional(
        "links[].cost",
        "\"1\"",
        "a decimal or a fraction p/q, 0 or more",
        "Its weight where planners choose among equally good plans.",
    ),
    required("groups[].capacity", CAPACITY, "What the links of the group carry together."),
    required(
        "groups[].links",
        "a list of [from, to] or [from, to, i], at least one",
        "The links: all between two nodes in this direction, or the i-th of them, from 0.",
    ),
    optional("groups[].name", "", "a text", "What the group is called."),
    optional(
        "routing.kind",
        "\"ecmp\"",
        "ecmp, explicit",
        "ecmp: over one of the shortest paths; explicit: as the paths say.",
    ),
    optional("routing.paths", "", "a list of objects", "The paths; kind explicit needs them."),
    required("routing.paths[].src", NODE, "The node that the path begins at."),
    required("routing.paths[].dst", NODE, "The node that it ends at."),
    optional(
        "routing.paths[].via",
        "[]",
        "a list of node ids",
        "The nodes between, in order, each with a link to the next.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::{File, Kind, RoutingKind, Topology};
    use super::*;
    use crate::problem::{E_KEY, Problem};

    const LEAST: &str = r#""sluice_topology":1,"nodes":[{"id":"h","kind":"host"},{"id":"s","kind":"switch"}],"links":[{"from":"h","to":"s","capacity":"1Gbit/s"}]"#;

    fn problems(text: &str) -> Vec<Problem> {
        match File::read(text.as_bytes(), "t.json") {
            Ok(_) => Vec::new(),
            Err(problems) => problems.into_all(),
        }
    }

    /// A file in which one object of the table has these keys and no others.
    fn file(table: &str, keys: &str) -> String {
        let nodes = |node: &str| LEAST.replace(r#"[{"id":"h","kind":"host"}"#, &format!(r#"[{{{node}}}"#));
        let inside = match table {
            "" => keys.to_owned(),
            "nodes[]" => nodes(keys),
            "nodes[].can" => nodes(&format!(r#""id":"h","kind":"host","can":{{{keys}}}"#)),
            "links[]" => LEAST.replace(r#""from":"h","to":"s","capacity":"1Gbit/s""#, keys),
            "groups[]" => format!(r#"{LEAST},"groups":[{{{keys}}}]"#),
            "routing" => format!(r#"{LEAST},"routing":{{{keys}}}"#),
            "routing.paths[]" => format!(r#"{LEAST},"routing":{{"paths":[{{{keys}}}]}}"#),
            other => panic!("no example of {other}"),
        };
        format!("{{{inside}}}")
    }

    /// What a file could say of a key that has to be there.
    fn example(key: &str) -> &'static str {
        match key {
            "sluice_topology" => "1",
            "nodes" | "links" => "[]",
            "nodes[].kind" => r#""host""#,
            "links[].capacity" | "groups[].capacity" => r#""1Gbit/s""#,
            "groups[].links" => r#"[["h","s"]]"#,
            _ => r#""h""#,
        }
    }

    fn split(key: &str) -> (&str, &str) {
        key.rsplit_once('.').unwrap_or(("", key))
    }

    #[test]
    fn the_reader_knows_these_keys_and_no_others() {
        let mut tables: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for row in KEYS {
            let (table, name) = split(row.key);
            assert!(tables.entry(table).or_default().insert(name), "{} stands twice", row.key);
        }
        for (table, names) in tables {
            let all = problems(&file(table, r#""zz_nobody":1"#));
            let unknown: Vec<&Problem> = all.iter().filter(|problem| problem.code == E_KEY).collect();
            assert_eq!(unknown.len(), 1, "{table}: {all:?}");
            let known: BTreeSet<&str> = unknown[0].allowed.split(", ").collect();
            assert_eq!(known, names, "{table}");
        }
    }

    #[test]
    fn exactly_those_have_to_be_there_that_are_said_to() {
        let tables: BTreeSet<&str> = KEYS.iter().map(|row| split(row.key).0).collect();
        for table in tables {
            let needed: Vec<&KeyReference> =
                KEYS.iter().filter(|row| row.required && split(row.key).0 == table).collect();
            let with = |left_out: Option<&str>| {
                let keys = needed.iter().filter(|row| Some(row.key) != left_out);
                let keys: Vec<String> =
                    keys.map(|row| format!(r#""{}":{}"#, split(row.key).1, example(row.key))).collect();
                problems(&file(table, &keys.join(",")))
            };
            assert!(with(None).is_empty(), "{table}: {:?}", with(None));
            for row in &needed {
                assert!(!with(Some(row.key)).is_empty(), "{} is not missed", row.key);
            }
        }
    }

    #[test]
    fn words_limits_and_defaults_are_those_of_the_reader() {
        let row = |key: &str| KEYS.iter().find(|row| row.key == key).expect(key);
        let words = |all: Vec<&str>| all.join(", ");
        assert_eq!(row("nodes[].kind").allowed, words(Kind::ALL.iter().map(|kind| kind.word()).collect()));
        assert_eq!(row("routing.kind").allowed, words(RoutingKind::ALL.iter().map(|kind| kind.word()).collect()));
        // What is written as it holds without being written means the same.
        let plain = Topology::read(format!("{{{LEAST}}}").as_bytes(), "t.json").expect("valid");
        let told = |table: &str| {
            let told = KEYS.iter().filter(|row| split(row.key).0 == table && !row.default.is_empty());
            told.map(|row| format!(r#","{}":{}"#, split(row.key).1, row.default)).collect::<String>()
        };
        let whole = LEAST.replace(r#""kind":"host""#, &format!(r#""kind":"host"{}"#, told("nodes[]")));
        let whole = whole.replace(r#""1Gbit/s""#, &format!(r#""1Gbit/s"{}"#, told("links[]")));
        assert_ne!(whole, LEAST);
        let whole = Topology::read(format!("{{{whole}}}").as_bytes(), "t.json").expect("valid");
        assert_eq!((whole.nodes(), whole.links()), (plain.nodes(), plain.links()));
        // Capacities are told by the words of a refusal.
        let refused = LEAST.replace("1Gbit/s", "fast");
        let refused =
            Topology::read(format!("{{{refused}}}").as_bytes(), "t.json").expect_err("no capacity").into_all();
        assert_eq!(CAPACITY.replace(", more than 0", ""), refused[0].allowed);
    }
}
