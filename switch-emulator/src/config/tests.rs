//! What the configuration file may say, and what is refused with which words.

use sluice_formats::problem::{E_CONFLICT, E_DUP, E_MISSING, E_PARSE, E_RANGE, E_VERSION};

use super::*;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse(Path::new("sluice-switch.toml"), text)
}

const SMALL: &str = "[[switches]]\nname = \"leaf0\"\nports = [{ id = 3, to = \"h0\", gbps = 25 }]\n";

#[test]
fn defaults_fill_what_is_not_said() {
    let config = parse(&format!("open = true\nunauthenticated = true\n{SMALL}")).unwrap();
    let port = PortConfig { id: 3, to: "h0".into(), wire: Rate::mbps(25_000), background: Rate::ZERO, routes: vec![] };
    let switches = vec![SwitchConfig { name: "leaf0".into(), ports: vec![port], interfaces: vec![] }];
    assert_eq!(config, Config { switches, open: true, unauthenticated: true, ..Config::default() });
}

#[test]
fn every_key_is_read() {
    let text = r#"
        version = 1
        cluster = "green"
        realtime = false
        table = "double-buffer"
        lease_slots = 3
        guard_slots = 1
        max_hosts = 16
        max_flows = 1000
        peers = ["10.0.0.0/8"]
        unauthenticated = true
        [slot]
        length_ms = 20
        horizon = 10
        [clock]
        source = "tai"
        tai_offset_s = 36
        max_error_ms = 5
        require_sync = false
        [log]
        level = "debug"
        format = "json"
        [listen]
        grpc = "127.0.0.1:0"
        udp = "127.0.0.1:0"
        http = "off"
        rcvbuf_bytes = 65536
        [background]
        source = "file"
        path = "load.json"
        [[switches]]
        name = "s0"
        ports = [{ id = 0, to = "h0", gbps = 0.5, background_gbps = 0.1, routes = ["10.0.0.1"] }]
    "#;
    let config = parse(text).unwrap();
    assert_eq!((config.grid.cluster.as_str(), config.grid.slot_length), ("green", Nanos::from_millis(20)));
    assert_eq!((config.table, config.lease_slots, config.max_hosts), (TableKind::DoubleBuffer, 3, 16));
    assert!(!config.realtime && Config::default().realtime);
    assert_eq!((config.grid.clock, config.tai_offset_s, config.require_sync), (ClockSource::Tai, 36, false));
    assert_eq!((config.http, config.rcvbuf_bytes), (None, 65_536));
    assert_eq!((config.log_level.0.to_string().as_str(), config.log_format), ("debug", LogFormat::Json));
    assert_eq!(config.background, Background::File("load.json".into()));
    assert_eq!(config.switches[0].ports[0].wire, Rate::mbps(500));
    assert_eq!(config.switches[0].ports[0].background, Rate::mbps(100));
}

#[test]
fn all_mistakes_are_told_at_once_with_their_place() {
    let text = "lease_slot = 2\n[slot]\nlength_ms = 600\nhorizon = \"ten\"\n[[switches]]\nname = \"s0\"\nports = [{ id = 0, to = \"h0\" }, { id = 0, to = \"h1\", gbps = 1 }]\n";
    let problems = parse(text).unwrap_err();
    let codes: Vec<_> = problems.all().iter().map(|p| (p.code, p.line)).collect();
    assert_eq!(
        codes,
        [("E_CONFLICT", 0), ("E_KEY", 1), ("E_RANGE", 3), ("E_PARSE", 4), ("E_MISSING", 7), ("E_DUP", 7)]
    );
    let text = problems.to_string();
    assert!(text.contains("unknown key `lease_slot` in the file\n"), "{text}");
    assert!(text.contains("= help: did you mean `lease_slots`?\n"), "{text}");
    assert!(text.contains("error[E_RANGE]: slot.length_ms is out of range\n  --> sluice-switch.toml:3:13\n"), "{text}");
    assert!(
        text.contains(" 3 | length_ms = 600\n   |             ^^^ 600; allowed: a whole number from 5 to 200\n"),
        "{text}"
    );
    assert!(text.ends_with("6 errors"), "{text}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let code =
        |text: &str| parse(&format!("open = true\nunauthenticated = true\n{text}\n{SMALL}")).unwrap_err().all()[0].code;
    assert_eq!(code("tls = {}"), E_MISSING);
    assert_eq!(code("version = 2"), E_VERSION);
    assert_eq!(code("slot.horizon = 12\nlisten.udp = \"127.0.0.1:0\""), E_CONFLICT);
    assert_eq!(code("background.path = \"x\""), E_CONFLICT);
    assert_eq!(code("log.level = \"sluice_switch=loud\""), E_RANGE);
    assert_eq!(code("[[switches]]\nname = \"leaf0\"\nports = [{ id = 0, to = \"h0\", gbps = 1 }]"), E_DUP);
    assert!(parse("").unwrap_err().has(E_MISSING));
    assert!(parse("= 1").unwrap_err().has(E_PARSE));
}

#[test]
fn beyond_loopback_it_is_said_who_may_speak() {
    let refused = |text: &str| parse(&format!("{text}\n{SMALL}")).unwrap_err().into_all().remove(0);
    let listed = |grpc: &str| format!("listen.grpc = \"{grpc}\"");
    assert!(refused("").message.contains("listen.grpc = \"[::]:9604\" is beyond this machine"));
    for (text, line) in [(listed("10.0.0.1:1"), 1), ("listen.udp = \"0.0.0.0:1\"\nlisten.grpc = \"[::1]:1\"".into(), 1)]
    {
        let problem = refused(&text);
        assert_eq!((problem.code, problem.line), (E_CONFLICT, line), "{problem}");
        assert!(problem.allowed.contains("loopback") && problem.help.contains("peers = ["), "{problem}");
    }
    let tls = "tls = { ca = \"a\", cert = \"b\", key = \"c\" }";
    let proven = format!("{tls}\nlisten.grpc = \"10.0.0.1:1\"");
    let files = parse(&format!("{proven}\n{SMALL}")).unwrap().tls.unwrap();
    assert_eq!(files.key, Path::new("c"), "beside the file");
    // Datagrams prove nothing, with TLS or without.
    let both = refused(&format!("peers = [\"10.0.0.0/8\"]\n{proven}\nlisten.udp = \"10.0.0.1:1\""));
    assert!(both.message.contains("listen.udp") && both.message.contains("datagrams prove nothing"), "{both}");
    for peers in ["open = true", "peers = [\"10.0.0.0/8\"]"] {
        let problem = refused(peers);
        assert_eq!(problem.code, E_CONFLICT);
        assert!(problem.message.contains("there is no [tls]"), "{problem}");
        assert!(problem.allowed.contains("unauthenticated = true") && problem.help.contains("sluice tls"), "{problem}");
    }
    for told in [
        "open = true\nunauthenticated = true",
        "peers = [\"10.0.0.0/8\"]\nunauthenticated = true",
        &listed("127.0.0.1:1"),
        &listed("[::ffff:127.0.0.1]:1"),
        &proven,
    ] {
        parse(&format!("{told}\n{SMALL}")).unwrap_or_else(|problems| panic!("{problems}"));
    }
    assert_eq!(refused("open = true\npeers = [\"10.0.0.0/8\"]").code, E_CONFLICT);
}

#[test]
fn mutated_text_never_panics() {
    let text = format!("cluster = \"x\"\npeers = [\"10.0.0.0/8\"]\nlisten.udp = \"127.0.0.1:0\"\n{SMALL}");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..3000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 20) as u8;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Err(problems) = parse(&text) {
            assert!(!problems.to_string().is_empty());
        }
    }
}

#[test]
fn the_routes_of_the_kernel_need_an_interface_for_each_port() {
    let with = |lines: &str| parse(&format!("open = true\nunauthenticated = true\n{SMALL}{lines}"));
    let config = with("routes = \"kernel\"\ninterfaces = [\"eth3\"]\n").unwrap();
    assert_eq!(config.switches[0].interfaces, ["eth3"]);
    assert!(with("routes = \"none\"\n").unwrap().switches[0].interfaces.is_empty());
    let code = |lines: &str| with(lines).unwrap_err().code();
    assert_eq!(code("routes = \"kernel\"\n"), E_MISSING);
    assert_eq!(code("interfaces = [\"eth3\"]\n"), E_CONFLICT);
    assert_eq!(code("routes = \"kernel\"\ninterfaces = [\"eth3\", \"eth4\"]\n"), E_CONFLICT);
    let second = SMALL.replace("leaf0", "leaf1");
    let both =
        format!("routes = \"kernel\"\ninterfaces = [\"eth3\"]\n{second}routes = \"kernel\"\ninterfaces = [\"eth4\"]\n");
    assert_eq!(code(&both), E_CONFLICT);
}

#[test]
fn counters_of_switches_are_named_link_by_link() {
    let links = "links = [{ switch = \"s0\", port = 0, agent = \"10.9.0.7\", interface = 12 }]";
    let config =
        with(&format!("[background]\nsource = \"sflow\"\ninterval_s = 2\npeers = [\"10.9.0.0/24\"]\n{links}")).unwrap();
    let Background::Counted(telemetry) = config.background else { panic!("{:?}", config.background) };
    assert_eq!(telemetry.listen, Some("0.0.0.0:6343".parse().unwrap()));
    assert_eq!((telemetry.interval, telemetry.peers.len()), (Nanos::from_millis(2000), 1));
    let counter = Counter::Sflow { agent: "10.9.0.7".parse().unwrap(), interface: 12 };
    assert_eq!(telemetry.links, [CountedLink { switch: "s0".into(), port: 0, counter }]);
    let target = "links = [{ switch = \"s0\", port = 0, target = \"leaf7:9339\", interface = \"Ethernet12\" }]";
    let config = with(&format!("[background]\nsource = \"gnmi\"\n{target}")).unwrap();
    let Background::Counted(telemetry) = config.background else { panic!("{:?}", config.background) };
    assert_eq!((telemetry.listen, telemetry.interval), (None, Nanos::from_millis(5000)));
    for (wrong, code) in [
        ("source = \"sflow\"", E_MISSING),
        (&format!("source = \"gnmi\"\n{links}"), E_MISSING),
        (&format!("source = \"gnmi\"\nlisten = \"0.0.0.0:1\"\n{target}"), E_CONFLICT),
        (&format!("source = \"file\"\npath = \"x\"\n{links}"), E_CONFLICT),
        (&format!("source = \"sflow\"\ninterval_s = 0\n{links}"), E_RANGE),
    ] {
        let problems = with(&format!("[background]\n{wrong}")).unwrap_err();
        assert!(problems.all().iter().any(|problem| problem.code == code), "{wrong}: {problems}");
    }
}

#[test]
fn a_data_plane_names_its_ports_and_its_tables() {
    let config = with("[data_plane]\ninterfaces = [\"p0\", \"p1\"]\ntables = \"t.tables\"").unwrap();
    let plane = config.data_plane.unwrap();
    assert_eq!((plane.interfaces.len(), plane.tables.as_path(), plane.udp_port), (2, Path::new("t.tables"), 9604));
    assert!(plane.kernel);
    let config = with("[data_plane]\ninterfaces = [\"p0\"]\ntables = \"t\"\nudp_port = 9700\nkernel = false").unwrap();
    let plane = config.data_plane.unwrap();
    assert_eq!((plane.udp_port, plane.kernel), (9700, false));
    for (wrong, code) in [
        ("interfaces = []\ntables = \"t\"", E_RANGE),
        ("interfaces = [\"a/b\"]\ntables = \"t\"", E_RANGE),
        ("interfaces = [\"p0\"]", E_MISSING),
    ] {
        let problems = with(&format!("[data_plane]\n{wrong}")).unwrap_err();
        assert!(problems.all().iter().any(|problem| problem.code == code), "{wrong}: {problems}");
    }
}

/// These tables beside one switch.
fn with(tables: &str) -> Result<Config, Problems> {
    parse(&format!(
        "open = true\nunauthenticated = true\n{tables}\n[[switches]]\nname = \"s0\"\nports = [{{ id = 0, to = \"h0\", gbps = 1 }}]\n"
    ))
}
