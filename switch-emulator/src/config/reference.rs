//! The keys of `sluice-switch.toml` in words, for the reference page. What they do is in `read`; a test holds the two
//! together: the same keys in the same tables, the same words for what is allowed, the same defaults.

/// What is known of one key. All of them are read at start only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyReference {
    /// Dotted path; keys of table arrays as `switches[].name`.
    pub key: &'static str,
    /// The unit; empty: none.
    pub unit: &'static str,
    /// The default as TOML; empty: not set, or the key must be there.
    pub default: &'static str,
    /// What may stand there, or in the elements of a list.
    pub allowed: &'static str,
    /// It is a list of that.
    pub list: bool,
    /// One sentence.
    pub meaning: &'static str,
}

const fn key(
    key: &'static str,
    unit: &'static str,
    default: &'static str,
    allowed: &'static str,
    meaning: &'static str,
) -> KeyReference {
    KeyReference { key, unit, default, allowed, list: false, meaning }
}

const fn list(key: &'static str, unit: &'static str, allowed: &'static str, meaning: &'static str) -> KeyReference {
    KeyReference { key, unit, default: "[]", allowed, list: true, meaning }
}

const FLAG: &str = "true or false";
const NAME: &str = "1 to 63 of [a-z0-9._-]";
const ADDRESS: &str = "an address with port, such as \"[::]:9604\"";
const ADDRESS_OR_OFF: &str = "an address with port, such as \"[::]:9604\", or \"off\"";
const NETWORK: &str = "an address or a range such as \"10.0.0.0/8\"";
const INTERFACE: &str = "the name of an interface, such as \"eth0\"";
const ANY_NUMBER: &str = "a whole number from 0 to 4294967295";

/// Every key, in the order of the file.
pub const KEYS: &[KeyReference] = &[
    key("version", "", "1", "a whole number from 0 to 18446744073709551615", "Version of this file's format: 1."),
    key("cluster", "", "\"default\"", NAME, "Hosts of another cluster are refused."),
    key(
        "realtime",
        "",
        "true",
        FLAG,
        "Serve in a real-time thread (SCHED_RR, priority 1), where the kernel lets it and one thread serves.",
    ),
    key(
        "table",
        "",
        "\"exact\"",
        "exact, double-buffer",
        "Form of the load tables; double-buffer is what a P4 switch does.",
    ),
    key(
        "lease_slots",
        "slots",
        "2",
        "a whole number from 2 to 10",
        "A promise that is not repeated for so long is forgotten.",
    ),
    key("guard_slots", "slots", "1", "1", "Accepted distance of a message's slot from the own; fixed."),
    key(
        "max_hosts",
        "hosts",
        "4096",
        "a whole number from 1 to 65536",
        "Hosts with a session at most; one without finds a place in a table that has fewer.",
    ),
    key(
        "max_flows",
        "promises",
        "262144",
        "a whole number from 1 to 16777216",
        "Promises of all hosts at most; more are refused and counted.",
    ),
    list("peers", "networks", NETWORK, "Who may speak, at most 1024 networks."),
    key("open", "", "false", FLAG, "Let everybody speak who reaches the ports."),
    key(
        "unauthenticated",
        "",
        "false",
        FLAG,
        "Listen beyond this machine to hosts that prove nothing of who they are: without [tls], or by datagrams.",
    ),
    key("topology", "path", "", "a text", "A topology.json, relative to this file, for switches with from_topology."),
    key("slot.length_ms", "ms", "60", "a whole number from 5 to 200", "Length of a slot; that of the hosts."),
    key(
        "slot.horizon",
        "slots",
        "10",
        "a whole number from 4 to 32",
        "Slots that tables reach ahead; that of the hosts.",
    ),
    key("clock.source", "", "\"realtime\"", "realtime, tai", "Clock that slots are counted on; that of the hosts."),
    key("clock.tai_offset_s", "s", "37", "a whole number from 0 to 100", "TAI minus UTC; must equal the kernel's."),
    key(
        "clock.max_error_ms",
        "ms",
        "30",
        "a whole number from 1 to 1000",
        "Error bound of the clock above which it is told; default: half a slot.",
    ),
    key("clock.require_sync", "", "true", FLAG, "false: an unsynchronised clock is not worth a warning."),
    key(
        "tls.ca",
        "path",
        "",
        "a text",
        "PEM file of the authorities that are believed, relative to this file; [tls] has all three keys. The files are read \
         again when they change.",
    ),
    key(
        "tls.cert",
        "path",
        "",
        "a text",
        "PEM file of this process's certificate: spiffe://CLUSTER/switch/NAME of one of its switches.",
    ),
    key("tls.key", "path", "", "a text", "PEM file of its key, mode 0640 or stricter."),
    key("log.level", "", "\"info\"", "a filter, such as \"info\"", "Filter of log lines."),
    key("log.format", "", "\"auto\"", "auto, text, json", "Form of log lines; auto: text on a terminal, else json."),
    key(
        "listen.grpc",
        "",
        "\"[::]:9604\"",
        ADDRESS,
        "Where hosts open sessions and call; beyond loopback with [tls], or unauthenticated and peers or open.",
    ),
    key(
        "listen.udp",
        "",
        "\"off\"",
        ADDRESS_OR_OFF,
        "Where datagrams are answered, over IPv4; needs slot.horizon = 10.",
    ),
    key("listen.http", "", "\"127.0.0.1:9606\"", ADDRESS_OR_OFF, "Health, metrics and the page."),
    key(
        "listen.details",
        "",
        "\"loopback\"",
        "loopback, all",
        "Who may read the page and its JSON, which name hosts: this machine, or everybody who can connect.",
    ),
    key(
        "listen.rcvbuf_bytes",
        "bytes",
        "8388608",
        "a whole number from 4096 to 1073741824",
        "Receive buffer of the UDP socket.",
    ),
    key(
        "background.source",
        "",
        "\"none\"",
        "none, file, sflow, gnmi",
        "Who says what unmanaged traffic takes of links.",
    ),
    key(
        "background.path",
        "path",
        "",
        "a text",
        "source = \"file\": the file, relative to this one, read again when it changes.",
    ),
    key("background.listen", "", "\"0.0.0.0:6343\"", ADDRESS, "source = \"sflow\": where agents are heard."),
    list("background.peers", "networks", NETWORK, "source = \"sflow\": which agents are listened to; empty: all."),
    key(
        "background.interval_s",
        "s",
        "5",
        "a whole number from 1 to 600",
        "sflow, gnmi: time between two readings of a counter.",
    ),
    list("background.links", "", "a table", "sflow, gnmi: the links that are counted, at least one."),
    key("background.links[].switch", "", "", NAME, "Name of the link's switch."),
    key("background.links[].port", "", "", ANY_NUMBER, "Number of its port."),
    key("background.links[].agent", "", "", "an address such as 10.9.0.7", "sflow: by which the agent names itself."),
    key("background.links[].target", "", "", ADDRESS, "gnmi: where the switch answers."),
    key(
        "background.links[].interface",
        "",
        "",
        ANY_NUMBER,
        "The interface: sflow its index, gnmi its name (1 to 255 bytes).",
    ),
    list("data_plane.interfaces", "", INTERFACE, "The interfaces that are ports 0, 1, …, 1 to 512 of them."),
    key("data_plane.tables", "path", "", "a text", "The file of statements, relative to this one."),
    key("data_plane.udp_port", "", "9604", "a whole number from 1 to 65535", "Port of Sluice's datagrams."),
    key("data_plane.kernel", "", "true", FLAG, "Plain packets are forwarded in the kernel, where it can."),
    key("switches[].name", "", "", NAME, "The switch's name, as in the topology."),
    key("switches[].from_topology", "", "false", FLAG, "Its ports are those of the topology."),
    list("switches[].ports", "", "a table", "Its ports, at most 4096; or from_topology."),
    key(
        "switches[].routes",
        "",
        "\"none\"",
        "none, kernel",
        "kernel: this machine forwards for it, and is asked by which port a flow goes.",
    ),
    list(
        "switches[].interfaces",
        "",
        INTERFACE,
        "routes = \"kernel\": the interface of each port, in the order of the ports.",
    ),
    key("switches[].ports[].id", "", "", ANY_NUMBER, "Number of the port, as in ids of links."),
    key("switches[].ports[].to", "", "", NAME, "The node at the other end."),
    key("switches[].ports[].gbps", "Gbit/s", "", "1/1000 to 100000", "Rate on the wire, 10^9 bit/s."),
    key("switches[].ports[].background_gbps", "Gbit/s", "0", "0 to 100000", "What unmanaged traffic takes of it."),
    list(
        "switches[].ports[].routes",
        "networks",
        "an IPv4 address or range",
        "Destinations behind the port, for datagrams.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use sluice_formats::problem::{E_KEY, Problem};

    use super::super::Config;
    use super::*;

    const SWITCH: &str = "[[switches]]\nname = \"s\"\nports = [{ id = 0, to = \"h\", gbps = 1 }]\n";

    fn problems(text: &str) -> Vec<Problem> {
        match Config::parse(Path::new("/t/sluice-switch.toml"), text) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.into_all(),
        }
    }

    /// A file with this line in the table, and what makes the reader look at it.
    fn file(table: &str, line: &str, source: &str) -> String {
        match table {
            "" => format!("{line}\n{SWITCH}"),
            "switches[]" => format!("[[switches]]\nname = \"s\"\nroutes = \"kernel\"\n{line}\n")
                .replace("routes = \"kernel\"\nroutes", "routes")
                .replace("name = \"s\"\nroutes = \"kernel\"\nname", "name"),
            "switches[].ports[]" => format!("[[switches]]\nname = \"s\"\nports = [{{ {line} }}]\n"),
            "background.links[]" => format!("[background]\nsource = \"{source}\"\nlinks = [{{ {line} }}]\n{SWITCH}"),
            "background" if line.starts_with("source") => format!("[background]\n{line}\n{SWITCH}"),
            "background" => format!("[background]\nsource = \"{source}\"\n{line}\n{SWITCH}"),
            table => format!("[{table}]\n{line}\n{SWITCH}"),
        }
    }

    fn split(key: &str) -> (&str, &str) {
        key.rsplit_once('.').unwrap_or(("", key))
    }

    #[test]
    fn what_is_allowed_is_what_the_reader_says() {
        for row in KEYS {
            let (table, name) = split(row.key);
            let source = match name {
                "path" => "file",
                "target" => "gnmi",
                _ => "sflow",
            };
            let wrong = match (row.list, row.allowed) {
                (true, "a table") => "[7]",
                (true, _) => "[{}]",
                (false, _) => "{}",
            };
            let text = file(table, &format!("{name} = {wrong}"), source);
            let all = problems(&text);
            let said: Vec<&str> = all.iter().map(|problem| problem.allowed.as_str()).collect();
            assert!(said.contains(&row.allowed), "{}: {said:?} of\n{text}", row.key);
        }
    }

    #[test]
    fn the_reader_knows_these_keys_and_no_others() {
        let mut tables: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for row in KEYS {
            let (table, name) = split(row.key);
            tables.entry(table).or_default().insert(name);
        }
        // Tables that are named by their keys only, and what is known to be refused.
        tables.entry("").or_default().extend([
            "slot",
            "clock",
            "log",
            "listen",
            "background",
            "data_plane",
            "switches",
            "tls",
        ]);
        for (table, names) in tables {
            let mut known = BTreeSet::new();
            for source in ["sflow", "gnmi"] {
                let text = file(table, "zz_nobody = 1", source);
                let unknown: Vec<Problem> =
                    problems(&text).into_iter().filter(|problem| problem.code == E_KEY).collect();
                assert_eq!(unknown.len(), 1, "{table}: {text}");
                known.extend(unknown[0].allowed.split(", ").map(str::to_owned));
            }
            assert_eq!(known, names.iter().map(|name| (*name).to_owned()).collect(), "[{table}]");
        }
    }

    #[test]
    fn defaults_are_those_of_the_reader() {
        let line = |row: &&KeyReference| format!("{} = {}\n", split(row.key).1, row.default);
        let of =
            |table: &'static str| KEYS.iter().filter(move |row| split(row.key).0 == table && !row.default.is_empty());
        let lines = |table: &'static str| of(table).map(|row| line(&row)).collect::<String>();
        let read = |text: &str| {
            Config::parse(Path::new("/t/sluice-switch.toml"), text).unwrap_or_else(|e| panic!("{e}\n{text}"))
        };
        // Somebody must be let in, and there must be a switch.
        let root = lines("").replace("open = false", "open = true").replace("switches = []\n", "");
        let root = root.replace("unauthenticated = false", "unauthenticated = true");
        let mut text = root;
        for table in ["slot", "clock", "log", "listen"] {
            text += &format!("[{table}]\n{}", lines(table));
        }
        assert_eq!(
            read(&format!("{text}[background]\nsource = \"none\"\n{SWITCH}")),
            read(&format!("open = true\nunauthenticated = true\n{SWITCH}"))
        );
        let rows = lines("background")
            .replace("links = []\n", "links = [{ switch = \"s\", port = 0, agent = \"10.0.0.1\", interface = 1 }]\n");
        let counted = rows.replace("source = \"none\"", "source = \"sflow\"");
        let least: String = counted
            .lines()
            .filter(|line| line.starts_with("source") || line.starts_with("links"))
            .map(|line| format!("{line}\n"))
            .collect();
        let with = |background: &str| {
            read(&format!("open = true\nunauthenticated = true\n[background]\n{background}{SWITCH}"))
        };
        assert_eq!(with(&counted), with(&least));
        let plane = "interfaces = [\"e0\"]\ntables = \"t\"\n";
        let rows = lines("data_plane").replace("interfaces = []\n", "");
        let with =
            |rows: &str| read(&format!("open = true\nunauthenticated = true\n[data_plane]\n{plane}{rows}{SWITCH}"));
        assert_eq!(with(&rows), with(""));
        let port =
            |more: &str| read(&format!("open = true\nunauthenticated = true\n[[switches]]\nname = \"s\"\n{more}"));
        let rows = lines("switches[]").replace("ports = []\n", "");
        assert_eq!(
            port(&format!(
                "{}ports = [{{ id = 0, to = \"h\", gbps = 1, background_gbps = 0, routes = [] }}]\n",
                rows.replace("interfaces = []\n", "")
            )),
            port("ports = [{ id = 0, to = \"h\", gbps = 1 }]\n")
        );
    }
}
