//! The keys of `sluice-switch.toml`, one by one.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sluice_formats::network;
use sluice_schedule::table::TableKind;
use sluice_schedule::{HolderId, Nanos, Rate};
use sluice_wire::hello::ClockSource;
use toml::de::DeValue;

use super::problem::{Code, Problem, Problems};
use super::reader::{Reader, Section, Value};
use super::topology::Topology;
use super::{Config, LogFormat, PORTS, PortConfig, SWITCHES, SwitchConfig};

const ROOT: [&str; 17] = [
    "version",
    "cluster",
    "slot",
    "clock",
    "log",
    "listen",
    "table",
    "lease_slots",
    "guard_slots",
    "max_hosts",
    "max_flows",
    "peers",
    "open",
    "tls",
    "switches",
    "background",
    "topology",
];
const NAMES: &str = "1 to 63 of [a-z0-9._-]";
const ADDRESS: &str = "an address with port, such as \"[::]:9604\", or \"off\"";

/// Reads the text of `path`.
pub fn config(path: &Path, text: &str) -> Result<Config, Problems> {
    let mut reader = Reader::new(path, text);
    let tree = reader.tree();
    let r = &mut reader;
    let mut config = Config::default();
    let root = r.open("", tree.get_ref(), &ROOT);

    if r.integer(root, "version", 1, 0..=u64::MAX) != 1 {
        let span = root.get("version").map_or(0..0, Value::span);
        r.refuse(Code::Version, span, "unknown format version".into(), "allowed 1".into());
    }
    config.grid.cluster = r.text(root, "cluster", config.grid.cluster.clone(), NAMES, name);

    let slot = r.section(root, "slot", "slot.", &["length_ms", "horizon"]);
    config.grid.slot_length = Nanos::from_millis(r.integer(slot, "length_ms", 60, 5..=200));
    config.grid.horizon = r.integer(slot, "horizon", 10, 4..=32) as u32;

    let clock = r.section(root, "clock", "clock.", &["source", "tai_offset_s", "max_error_ms", "require_sync"]);
    let sources = [("realtime", ClockSource::Realtime), ("tai", ClockSource::Tai)];
    config.grid.clock = r.word(clock, "source", ClockSource::Realtime, &sources);
    config.tai_offset_s = r.integer(clock, "tai_offset_s", 37, 0..=100);
    let half_a_slot = config.grid.slot_length.0 / 2_000_000;
    config.max_clock_error = Nanos::from_millis(r.integer(clock, "max_error_ms", half_a_slot.max(1), 1..=1000));
    config.require_sync = r.boolean(clock, "require_sync", true);

    let log = r.section(root, "log", "log.", &["level", "format"]);
    config.log_level = r.text(log, "level", "info".into(), "a filter, such as \"info\"", |text| {
        text.parse::<tracing_subscriber::filter::EnvFilter>().ok().map(|_| text.to_owned())
    });
    let formats = [("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];
    config.log_format = r.word(log, "format", LogFormat::Auto, &formats);

    let listen = r.section(root, "listen", "listen.", &["grpc", "udp", "http", "rcvbuf_bytes"]);
    config.grpc =
        r.text(listen, "grpc", config.grpc, "an address with port, such as \"[::]:9604\"", |t| t.parse().ok());
    config.udp = r.text(listen, "udp", config.udp, ADDRESS, address);
    config.http = r.text(listen, "http", config.http, ADDRESS, address);
    config.rcvbuf_bytes = r.integer(listen, "rcvbuf_bytes", 8 << 20, 4096..=(1 << 30)) as usize;

    let tables = [("exact", TableKind::Exact), ("double-buffer", TableKind::DoubleBuffer)];
    config.table = r.word(root, "table", TableKind::Exact, &tables);
    config.lease_slots = r.integer(root, "lease_slots", 2, 2..=10) as u32;
    r.integer(root, "guard_slots", 1, 1..=1);
    config.max_hosts = r.integer(root, "max_hosts", 4096, 1..=65_536) as usize;
    config.max_flows = r.integer(root, "max_flows", 262_144, 1..=16_777_216) as usize;
    config.peers = r.texts(root, "peers", 1024, "an address or a range such as \"10.0.0.0/8\"", network::parse);
    config.open = r.boolean(root, "open", false);
    if let Some(tls) = root.get("tls") {
        r.refuse(Code::Env, tls.span(), "TLS is not part of this build".into(), "allowed: no [tls] table".into());
        r.help("keep the control network separate, and list it in `peers`");
    }
    read_background(r, root, path, &mut config);
    read_switches(r, root, path, &mut config);
    if config.udp.is_some_and(|udp| !udp.ip().to_canonical().is_ipv4() && !udp.ip().is_unspecified()) {
        let span = listen.get("udp").map_or(0..0, Value::span);
        r.refuse(Code::Range, span, "listen.udp is out of range".into(), "the UDP format v1 is IPv4 only".into());
    }
    if config.udp.is_some() && config.grid.horizon != 10 {
        let span = listen.get("udp").map_or(0..0, Value::span);
        let message = format!("listen.udp and slot.horizon = {} disagree", config.grid.horizon);
        r.refuse(Code::Conflict, span, message, "the UDP format v1 carries exactly 10 slots".into());
        r.help("write slot.horizon = 10, or listen.udp = \"off\"");
    }
    check_peers(r, root, listen, path, &config);
    reader.finish(config)
}

/// Where other machines can announce, it must be said which of them may.
fn check_peers<'t>(r: &mut Reader<'t>, root: Section<'_, 't>, listen: Section<'_, 't>, path: &Path, config: &Config) {
    if config.open && !config.peers.is_empty() {
        let span = root.get("open").map_or(0..0, Value::span);
        let message = "open = true lets everybody speak, peers does not".into();
        r.refuse(Code::Conflict, span, message, "allowed: one of them".into());
    }
    let Some((key, address)) = config.beyond_loopback().filter(|_| !config.open && config.peers.is_empty()) else {
        return;
    };
    let message = format!("listen.{key} = \"{address}\" is beyond this machine, and nothing says who may speak");
    let allowed = "allowed: a loopback address, or any address together with peers or open";
    match listen.get(key) {
        Some(value) => r.refuse(Code::Conflict, value.span(), message, allowed.into()),
        None => r.add(Problem::of_file(Code::Conflict, path, format!("{message} ({allowed})"), "")),
    }
    r.help("write peers = [\"10.0.0.0/8\"] with the hosts' networks, or open = true to let everybody speak");
}

fn read_background<'t>(r: &mut Reader<'t>, root: Section<'_, 't>, path: &Path, config: &mut Config) {
    let background = r.section(root, "background", "background.", &["source", "path"]);
    let from_file = r.word(background, "source", false, &[("none", false), ("file", true)]);
    let file = r.text(background, "path", None, "a path", |text| Some(Some(beside(path, text))));
    match (from_file, file) {
        (true, Some(file)) => config.background = Some(file),
        (true, None) => {
            let span = background.get("source").map_or(0..0, Value::span);
            r.missing(span, "background.path", "the path of the file that background.source = \"file\" reads");
        }
        (false, Some(_)) => {
            let span = background.get("path").map_or(0..0, Value::span);
            let message = "background.path without background.source = \"file\"".into();
            r.refuse(Code::Conflict, span, message, "nothing would read it".into());
        }
        (false, None) => {}
    }
}

fn read_switches<'t>(r: &mut Reader<'t>, root: Section<'_, 't>, path: &Path, config: &mut Config) {
    let topology = r.text(root, "topology", None, "a path", |text| Some(Some(beside(path, text))));
    let topology = topology.and_then(|file| match Topology::load(&file) {
        Ok(topology) => Some(topology),
        Err(problem) => {
            r.add(*problem);
            None
        }
    });
    let mut ids: HashMap<HolderId, String> = HashMap::new();
    for value in r.list(root, "switches", SWITCHES) {
        let DeValue::Table(table) = value.get_ref() else {
            r.refuse(
                Code::Parse,
                value.span(),
                "an entry of switches has the wrong type".into(),
                "allowed a table".into(),
            );
            continue;
        };
        let section = r.open("switches.", table, &["name", "ports", "from_topology"]);
        let Some(name) = r.text(section, "name", None, NAMES, |text| name(text).map(Some)) else {
            if section.get("name").is_none() {
                r.missing(value.span(), "switches.name", NAMES);
            }
            continue;
        };
        let span = section.get("name").map_or(0..0, Value::span);
        if let Some(other) = ids.insert(HolderId::of(&name), name.clone()) {
            r.refuse(
                Code::Dup,
                span.clone(),
                format!("switch {name} has the id of switch {other}"),
                "allowed: distinct names".into(),
            );
        }
        let mut ports = read_ports(r, section);
        if r.boolean(section, "from_topology", false) {
            match &topology {
                _ if !ports.is_empty() => {
                    r.refuse(
                        Code::Conflict,
                        span.clone(),
                        format!("switch {name} has ports and from_topology"),
                        "allowed one of them".into(),
                    );
                }
                Some(topology) => match topology.ports(&name) {
                    Some(found) => ports = found,
                    None => r.refuse(
                        Code::Ref,
                        span.clone(),
                        format!("the topology has no switch {name}"),
                        "allowed: a node of kind switch".into(),
                    ),
                },
                None if root.get("topology").is_none() => {
                    r.missing(span.clone(), "topology", "the path of a topology.json, since from_topology is set");
                }
                None => {}
            }
        }
        let empty = ports.is_empty() && section.get("ports").is_none() && section.get("from_topology").is_none();
        if empty {
            r.missing(span, "switches.ports", "at least one port { id, to, gbps }, or from_topology = true");
        }
        config.switches.push(SwitchConfig { name, ports });
    }
    if root.get("switches").is_none() {
        r.missing(0..0, "switches", "at least one [[switches]] with a name and ports");
    }
}

fn read_ports<'t>(r: &mut Reader<'t>, section: Section<'_, 't>) -> Vec<PortConfig> {
    let (mut ports, mut seen) = (Vec::new(), HashSet::new());
    for value in r.list(section, "ports", PORTS) {
        let DeValue::Table(table) = value.get_ref() else {
            r.refuse(
                Code::Parse,
                value.span(),
                "an entry of switches.ports has the wrong type".into(),
                "allowed a table".into(),
            );
            continue;
        };
        let port = r.open("switches.ports.", table, &["id", "to", "gbps", "background_gbps", "routes"]);
        for key in ["id", "to", "gbps"] {
            if port.get(key).is_none() {
                r.missing(
                    value.span(),
                    &format!("switches.ports.{key}"),
                    "a port is { id, to, gbps, background_gbps = 0 }",
                );
            }
        }
        let id = r.integer(port, "id", 0, 0..=u64::from(u32::MAX)) as u32;
        if !seen.insert(id) {
            let span = port.get("id").map_or(value.span(), Value::span);
            r.refuse(
                Code::Dup,
                span,
                format!("two ports of one switch have the id {id}"),
                "allowed: distinct ids".into(),
            );
        }
        let to = r.text(port, "to", String::new(), NAMES, name);
        let gbps = r.number(port, "gbps", 1.0, 0.001..=100_000.0);
        let background = r.number(port, "background_gbps", 0.0, 0.0..=100_000.0);
        if background > gbps {
            let span = port.get("background_gbps").map_or(value.span(), Value::span);
            let message = format!("background_gbps = {background} is more than gbps = {gbps}");
            r.refuse(Code::Conflict, span, message, format!("allowed 0 to {gbps}"));
        }
        let routes = r.texts(port, "routes", 1024, "an IPv4 address or range", network::parse);
        ports.push(PortConfig { id, to, wire: rate(gbps), background: rate(background), routes });
    }
    ports
}

fn rate(gbps: f64) -> Rate {
    Rate((gbps * 1e9).round() as u64)
}

fn name(text: &str) -> Option<String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    ((1..=63).contains(&text.len()) && text.bytes().all(fits)).then(|| text.to_owned())
}

fn address(text: &str) -> Option<Option<SocketAddr>> {
    if text == "off" { Some(None) } else { text.parse().ok().map(Some) }
}

/// A path in the file is relative to the file.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}
