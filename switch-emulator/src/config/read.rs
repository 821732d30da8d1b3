//! The keys of `sluice-switch.toml`, one by one.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_formats::document::{Collector, Item, Node, Notation, Table};
use sluice_formats::network;
use sluice_formats::problem::{E_CONFLICT, E_DUP, E_RANGE, E_REF, E_VERSION, Problem, Problems};
use sluice_formats::quantity::{Rational, gbps};
use sluice_identity::Files;
use sluice_schedule::table::TableKind;
use sluice_schedule::{HolderId, Nanos, Rate};
use sluice_wire::hello::ClockSource;

use super::topology::Topology;
use super::{
    Background, Config, CountedLink, Counter, DataPlaneConfig, LogFilter, LogFormat, MAX_PORTS, MAX_SWITCHES,
    PortConfig, SwitchConfig, Telemetry,
};

const NAMES: &str = "1 to 63 of [a-z0-9._-]";
const ADDRESS: &str = "an address with port, such as \"[::]:9604\"";
const ADDRESS_OR_OFF: &str = "an address with port, such as \"[::]:9604\", or \"off\"";
const NETWORK: &str = "an address or a range such as \"10.0.0.0/8\"";
const PORT: &str = "a port is { id, to, gbps, background_gbps = 0 }";
const INTERFACE: &str = "the name of an interface, such as \"eth0\"";
/// Where sFlow agents send, unless told otherwise.
const SFLOW_PORT: u16 = 6343;
/// Networks in one list at most.
const MAX_NETWORKS: usize = 1024;

/// Reads the text of `path`.
pub fn config(path: &Path, text: &str) -> Result<Config, Problems> {
    let name = path.display().to_string();
    let collector = Collector::new(&name, text, Notation::Toml);
    let node = Node::parse(&collector);
    let mut config = Config::default();
    if let Some(root) = Item::root(&node, &collector).table() {
        read(&root, path, &mut config);
        root.finish();
    }
    Problems::of(collector.into_problems()).map_or(Ok(config), Err)
}

fn read(root: &Table<'_>, path: &Path, config: &mut Config) {
    if let Some(version) = root.get("version").filter(|version| version.int(&(0..=u64::MAX)).is_some_and(|n| n != 1)) {
        version.fail(E_VERSION, "a version this program does not know", "1");
    }
    set(&mut config.grid.cluster, root.parse("cluster", NAMES, name));
    if let Some(slot) = root.table("slot") {
        set(&mut config.grid.slot_length, slot.int("length_ms", 5..=200).map(Nanos::from_millis));
        set(&mut config.grid.horizon, slot.int32("horizon", 4..=32));
        slot.finish();
    }
    config.max_clock_error = Nanos::from_millis((config.grid.slot_length.0 / 2_000_000).max(1));
    if let Some(clock) = root.table("clock") {
        let sources = [("realtime", ClockSource::Realtime), ("tai", ClockSource::Tai)];
        set(&mut config.grid.clock, clock.choice("source", &sources));
        set(&mut config.tai_offset_s, clock.int("tai_offset_s", 0..=100));
        set(&mut config.max_clock_error, clock.int("max_error_ms", 1..=1000).map(Nanos::from_millis));
        set(&mut config.require_sync, clock.flag("require_sync"));
        clock.finish();
    }
    if let Some(log) = root.table("log") {
        let filter = |text: &str| sluice_logs::filter(text).ok().map(LogFilter);
        set(&mut config.log_level, log.parse("level", "a filter, such as \"info\"", filter));
        let forms = [("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];
        set(&mut config.log_format, log.choice("format", &forms));
        log.finish();
    }
    set(&mut config.realtime, root.flag("realtime"));
    let tables = [("exact", TableKind::Exact), ("double-buffer", TableKind::DoubleBuffer)];
    set(&mut config.table, root.choice("table", &tables));
    set(&mut config.lease_slots, root.int32("lease_slots", 2..=10));
    root.int("guard_slots", 1..=1);
    set(&mut config.max_hosts, root.int32("max_hosts", 1..=65_536).map(|hosts| hosts as usize));
    set(&mut config.max_flows, root.int32("max_flows", 1..=16_777_216).map(|flows| flows as usize));
    config.peers = networks(root, "peers", NETWORK);
    set(&mut config.open, root.flag("open"));
    set(&mut config.unauthenticated, root.flag("unauthenticated"));
    if let Some(tls) = root.table("tls") {
        config.tls = read_tls(&tls, path);
        tls.finish();
    }
    if let Some(background) = root.table("background") {
        read_background(&background, path, config);
        background.finish();
    }
    if let Some(plane) = root.table("data_plane") {
        config.data_plane = read_data_plane(&plane, path, config.grid.horizon);
        plane.finish();
    }
    read_switches(root, path, config);
    let listen = root.table("listen");
    if let Some(listen) = &listen {
        read_listen(listen, config);
        listen.finish();
    }
    check_peers(root, listen.as_ref(), config);
}

fn read_listen(listen: &Table<'_>, config: &mut Config) {
    let address = |text: &str| if text == "off" { Some(None) } else { text.parse().ok().map(Some) };
    set(&mut config.grpc, listen.parse("grpc", ADDRESS, |text| text.parse().ok()));
    set(&mut config.udp, listen.parse("udp", ADDRESS_OR_OFF, address));
    set(&mut config.http, listen.parse("http", ADDRESS_OR_OFF, address));
    set(&mut config.details_for_all, listen.choice("details", &[("loopback", false), ("all", true)]));
    set(&mut config.rcvbuf_bytes, listen.int32("rcvbuf_bytes", 4096..=(1 << 30)).map(|bytes| bytes as usize));
    let (Some(udp), Some(item)) = (config.udp, listen.get("udp")) else { return };
    if !udp.ip().to_canonical().is_ipv4() && !udp.ip().is_unspecified() {
        item.fail(E_RANGE, "listen.udp is out of range", "an IPv4 address: the UDP format v1 carries no other");
    }
    if config.grid.horizon != 10 {
        let message = format!("listen.udp and slot.horizon = {} disagree", config.grid.horizon);
        let problem = Problem::new(E_CONFLICT, "", message).allowed("10 slots, which the UDP format v1 carries");
        item.refuse(problem.help("write slot.horizon = 10, or listen.udp = \"off\""));
    }
}

/// Where other machines can announce, it must be said which of them may.
fn check_peers(root: &Table<'_>, listen: Option<&Table<'_>>, config: &Config) {
    if config.open && !config.peers.is_empty() {
        let problem = Problem::new(E_CONFLICT, "", "open = true lets everybody speak, peers does not");
        root.get("open").iter().for_each(|open| open.refuse(problem.clone().allowed("one of them")));
    }
    // Whoever proves who it is may come from anywhere.
    let Some((key, address)) = config.unproven() else { return };
    let problem = if !config.open && config.peers.is_empty() {
        let message = format!("listen.{key} = \"{address}\" is beyond this machine, and nothing says who may speak");
        Problem::new(E_CONFLICT, "", message)
            .allowed("a loopback address, or any address together with [tls], or with unauthenticated and peers or open")
            .help(
                "write [tls] with ca, cert and key (sluice tls --help makes them); without TLS: unauthenticated = true, and \
                 peers = [\"10.0.0.0/8\"] with the hosts' networks",
            )
    } else if !config.unauthenticated {
        let how = if key == "udp" { "datagrams prove nothing of who sends them" } else { "there is no [tls]" };
        let message = format!(
            "listen.{key} = \"{address}\" is beyond this machine, and {how}: any machine of `peers` can speak as any host"
        );
        Problem::new(E_CONFLICT, "", message)
            .allowed("a loopback address, [tls] (of listen.grpc), or unauthenticated = true")
            .help(
                "write [tls] with ca, cert and key (sluice tls --help makes them), or unauthenticated = true where every \
                 machine of that network is trusted",
            )
    } else {
        return;
    };
    match listen.and_then(|listen| listen.get(key)) {
        Some(item) => item.refuse(problem),
        // The default address stands in no line.
        None => {
            let file = root.item.collector.source().file;
            root.item.collector.push(Problem { key: format!("listen.{key}"), ..problem }.in_file(file));
        }
    }
}

/// The three files; all or none.
fn read_tls(tls: &Table<'_>, path: &Path) -> Option<Files> {
    let keys = ["ca", "cert", "key"].map(|key| {
        tls.require(key);
        tls.text(key).map(|text| beside(path, text))
    });
    let [authorities, certificate, key] = keys;
    Some(Files { authorities: authorities?, certificate: certificate?, key: key? })
}

fn read_background(background: &Table<'_>, path: &Path, config: &mut Config) {
    let sources = [("none", Source::None), ("file", Source::File), ("sflow", Source::Sflow), ("gnmi", Source::Gnmi)];
    let source = background.choice("source", &sources).unwrap_or(Source::None);
    for (key, readers) in [
        ("path", &[Source::File][..]),
        ("listen", &[Source::Sflow]),
        ("peers", &[Source::Sflow]),
        ("interval_s", &[Source::Sflow, Source::Gnmi]),
        ("links", &[Source::Sflow, Source::Gnmi]),
    ] {
        let idle = background.get(key).filter(|_| !readers.contains(&source));
        let problem =
            || Problem::new(E_CONFLICT, "", format!("background.{key} with background.source = {:?}", source.word()));
        let words: Vec<String> = readers.iter().map(|reader| format!("source = {:?}", reader.word())).collect();
        idle.iter().for_each(|item| {
            item.refuse(problem().help(format!("write {}: nothing reads it otherwise", words.join(" or "))))
        });
    }
    match source {
        Source::None => {}
        Source::File => match background.text("path") {
            Some(text) => config.background = Background::File(beside(path, text)),
            None => background.missing("path", "the path of the file that background.source = \"file\" reads"),
        },
        Source::Sflow | Source::Gnmi => {
            if let Some(telemetry) = read_telemetry(background, source) {
                config.background = Background::Counted(telemetry);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    None,
    File,
    Sflow,
    Gnmi,
}

impl Source {
    fn word(self) -> &'static str {
        match self {
            Source::None => "none",
            Source::File => "file",
            Source::Sflow => "sflow",
            Source::Gnmi => "gnmi",
        }
    }
}

fn read_telemetry(background: &Table<'_>, source: Source) -> Option<Telemetry> {
    let interval = background.int("interval_s", 1..=600).unwrap_or(5);
    let sflow = source == Source::Sflow;
    let listen = background.parse("listen", ADDRESS, |text| text.parse().ok());
    let links = background.get("links").and_then(|item| item.list_of(MAX_PORTS)).unwrap_or_default();
    if links.is_empty() {
        background.missing("links", "at least one { switch, port, agent or target, interface }");
    }
    let link = |table: Table<'_>| {
        let place = if sflow { "agent" } else { "target" };
        for key in ["switch", "port", place, "interface"] {
            table.require(key);
        }
        let (switch, port) = (table.parse("switch", NAMES, name), table.int32("port", 0..=u32::MAX));
        let counter = if sflow {
            let agent = table.parse("agent", "an address such as 10.9.0.7", |text| text.parse().ok());
            let interface = table.int32("interface", 0..=u32::MAX);
            agent.zip(interface).map(|(agent, interface)| Counter::Sflow { agent, interface })
        } else {
            let target = table.parse("target", ADDRESS, |text| host_port(text).then(|| format!("http://{text}")));
            let interface = table
                .parse("interface", "1 to 255 bytes", |text| (1..=255).contains(&text.len()).then(|| text.to_owned()));
            target.zip(interface).map(|(uri, interface)| Counter::Gnmi { uri, interface })
        };
        table.finish();
        Some(CountedLink { switch: switch?, port: port?, counter: counter? })
    };
    let links: Vec<CountedLink> = links.iter().filter_map(Item::table).filter_map(link).collect();
    let listen = sflow.then(|| listen.unwrap_or(SocketAddr::from(([0, 0, 0, 0], SFLOW_PORT))));
    let interval = Nanos::from_millis(1000 * interval);
    Some(Telemetry { listen, peers: networks(background, "peers", NETWORK), interval, links })
}

/// A host by name or address, and a port.
fn host_port(text: &str) -> bool {
    let port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
    text.len() <= 255 && !text.contains('/') && text.rsplit_once(':').is_some_and(port)
}

fn read_data_plane(plane: &Table<'_>, path: &Path, horizon: u32) -> Option<DataPlaneConfig> {
    plane.require("interfaces");
    plane.require("tables");
    let names = plane.get("interfaces").and_then(|item| item.list_of(MAX_PORTS.min(512))).unwrap_or_default();
    let interfaces: Vec<String> = names.iter().filter_map(|item| item.parse(INTERFACE, interface)).collect();
    let (item, problem) = (plane.get("interfaces"), Problem::new(E_RANGE, "", "a data plane without a port"));
    item.filter(|_| names.is_empty()).iter().for_each(|item| item.refuse(problem.clone().allowed("1 to 512 names")));
    if horizon != 10 {
        let message = format!("data_plane and slot.horizon = {horizon} disagree");
        let problem = Problem::new(E_CONFLICT, "", message).allowed("10 slots, which the UDP format v1 carries");
        plane.item.refuse(problem);
    }
    let udp_port = plane.int32("udp_port", 1..=65_535).and_then(|port| u16::try_from(port).ok());
    let kernel = plane.flag("kernel").unwrap_or(true);
    let tables = beside(path, plane.text("tables")?);
    Some(DataPlaneConfig { interfaces, tables, udp_port: udp_port.unwrap_or(sluice_pipeline::UDP_PORT), kernel })
}

fn read_switches(root: &Table<'_>, path: &Path, config: &mut Config) {
    let topology = root.text("topology").map(|text| Topology::load(&beside(path, text)));
    let topology = topology.and_then(|read| match read {
        Ok(topology) => Some(topology),
        Err(problems) => {
            problems.into_all().into_iter().for_each(|problem| root.item.collector.push(problem));
            None
        }
    });
    config.places = topology.as_ref().map(|topology| Arc::new(topology.places()));
    let Some(list) = root.get("switches") else {
        return root.missing("switches", "at least one [[switches]] with a name and ports");
    };
    let mut ids: HashMap<HolderId, String> = HashMap::new();
    for section in list.list_of(MAX_SWITCHES).unwrap_or_default().iter().filter_map(Item::table) {
        let Some(item) = section.get("name") else {
            section.missing("name", NAMES);
            continue;
        };
        let Some(name) = item.parse(NAMES, name) else { continue };
        if let Some(other) = ids.insert(HolderId::of(&name), name.clone()) {
            item.fail(E_DUP, format!("switch {name} has the id of switch {other}"), "distinct names");
        }
        let mut ports = section.get("ports").and_then(|ports| ports.list_of(MAX_PORTS)).map(read_ports);
        if section.flag("from_topology").unwrap_or(false) {
            match &topology {
                _ if ports.is_some() => {
                    item.fail(E_CONFLICT, format!("switch {name} has ports and from_topology"), "one of them");
                }
                Some(topology) => {
                    ports = topology.ports(&name);
                    if ports.is_none() {
                        item.fail(E_REF, format!("the topology has no switch {name}"), "a node of kind switch");
                    }
                }
                None if !root.has("topology") => {
                    root.missing("topology", "the path of a topology.json, since from_topology is set");
                }
                None => {}
            }
        } else if ports.is_none() && !section.has("ports") {
            section.missing("ports", "at least one port { id, to, gbps }, or from_topology = true");
        }
        let ports = ports.unwrap_or_default();
        let interfaces = read_interfaces(&section, &name, ports.len());
        let other = config.switches.iter().find(|other| !other.interfaces.is_empty() && !interfaces.is_empty());
        if let (Some(other), Some(item)) = (other, section.get("routes")) {
            let message = format!("switch {name} and switch {} have the routes of one kernel", other.name);
            item.fail(E_CONFLICT, message, "one switch for each network namespace, with a process there");
        }
        section.finish();
        config.switches.push(SwitchConfig { name, ports, interfaces });
    }
}

/// The interfaces that are the ports of a switch whose routes are the kernel's.
fn read_interfaces(section: &Table<'_>, switch: &str, ports: usize) -> Vec<String> {
    let kernel = section.choice("routes", &[("none", false), ("kernel", true)]).unwrap_or(false);
    let listed = section.get("interfaces");
    let names = listed.as_ref().and_then(|list| list.list_of(MAX_PORTS)).unwrap_or_default();
    let names: Vec<String> = names.iter().filter_map(|item| item.parse(INTERFACE, interface)).collect();
    match listed {
        None if kernel => section.missing("interfaces", "the interface of each port, in the order of the ports"),
        Some(item) if !kernel => {
            let message = format!("switch {switch} has interfaces without routes = \"kernel\"");
            item.fail(E_CONFLICT, message, "both or neither");
        }
        Some(item) if names.len() != ports || names.iter().collect::<HashSet<_>>().len() != ports => {
            let message = format!("switch {switch} has {} interfaces and {ports} ports", names.len());
            item.fail(E_CONFLICT, message, "one interface for each port, all different");
        }
        _ => {}
    }
    names
}

fn read_ports(list: Vec<Item<'_>>) -> Vec<PortConfig> {
    let (mut ports, mut seen) = (Vec::new(), HashSet::new());
    let most = Rational::from(100_000);
    let least = Rational::new(1, 1000).unwrap_or(Rational::ONE);
    for port in list.iter().filter_map(Item::table) {
        for key in ["id", "to", "gbps"] {
            if !port.has(key) {
                port.missing(key, PORT);
            }
        }
        let id = port.int32("id", 0..=u32::MAX).unwrap_or(0);
        if !seen.insert(id) {
            let twice = format!("two ports of one switch have the id {id}");
            port.get("id").iter().for_each(|item| item.fail(E_DUP, twice.clone(), "distinct ids"));
        }
        let to = port.parse("to", NAMES, name).unwrap_or_default();
        let wire = port.number("gbps", &least, &most).unwrap_or(Rational::ONE);
        let background = port.number("background_gbps", &Rational::ZERO, &most).unwrap_or(Rational::ZERO);
        if background > wire {
            let message = format!("background_gbps is more than gbps = {wire}");
            let allowed = format!("0 to {wire}");
            port.get("background_gbps").iter().for_each(|item| item.fail(E_CONFLICT, message.clone(), &allowed));
        }
        let routes = networks(&port, "routes", "an IPv4 address or range");
        let rate = |number: Rational| Rate(gbps(number).unwrap_or(0));
        ports.push(PortConfig { id, to, wire: rate(wire), background: rate(background), routes });
        port.finish();
    }
    ports
}

/// What was read, if anything was.
fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn networks(table: &Table<'_>, key: &'static str, allowed: &str) -> Vec<ipnet::IpNet> {
    let list = table.get(key).and_then(|item| item.list_of(MAX_NETWORKS)).unwrap_or_default();
    list.iter().filter_map(|item| item.parse(allowed, network::parse)).collect()
}

/// A name that an interface can have.
fn interface(text: &str) -> Option<String> {
    let fits = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':';
    ((1..=15).contains(&text.len()) && text.bytes().all(fits)).then(|| text.to_owned())
}

fn name(text: &str) -> Option<String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    ((1..=63).contains(&text.len()) && text.bytes().all(fits)).then(|| text.to_owned())
}

/// A path in the file is relative to the file.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}
