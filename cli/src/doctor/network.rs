//! Sysctls, congestion controls, namespaces, interfaces, ports and the clock.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;

use sluice_schedule::Nanos;
use sluice_wire::snapshot::{Snapshot, SwitchState, SwitchStatus, Transport};
use sluiced::config::Loaded;

use super::Check;
use super::fix::Remedy;

/// Least maximum of `tcp_wmem` that does not hold back a fast flow.
const MIN_WMEM: u64 = 4 << 20;

fn sysctl(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok().map(|text| text.trim().to_owned())
}

/// The sysctls that pacing depends on.
pub fn sysctls() -> Check {
    let fix = "enforce.sysctls = true (default) sets them while the daemon runs, and gives them back; now: sluice doctor --fix";
    let mut off = Vec::new();
    if let Some(value) = sysctl("tcp_tso_rtt_log").and_then(|text| text.parse::<u64>().ok())
        && value != 0
    {
        off.push(format!("tcp_tso_rtt_log = {value}: slow rates on short paths come in large bursts"));
    }
    let wmem = sysctl("tcp_wmem")
        .and_then(|text| text.split_ascii_whitespace().nth(2).and_then(|max| max.parse::<u64>().ok()));
    if let Some(max) = wmem
        && max < MIN_WMEM
    {
        off.push(format!("tcp_wmem maximum = {max}: a fast flow cannot fill its path"));
    }
    if off.is_empty() {
        return Check::ok("sysctls", "tcp_tso_rtt_log and tcp_wmem are as pacing needs them");
    }
    let check = Check::warn("sysctls", off.join("; ")).cost("rates are less exact until the daemon sets them");
    check.fix(fix).remedy(Remedy::Sysctls)
}

/// Congestion controls that are registered; a left-over of ours is named.
pub fn congestion_controls() -> Check {
    let default = sysctl("tcp_congestion_control").unwrap_or_default();
    let available = sysctl("tcp_available_congestion_control").unwrap_or_default();
    let ours: Vec<&str> = available.split_ascii_whitespace().filter(|name| name.starts_with("sluice")).collect();
    match (default.starts_with("sluice"), ours.is_empty()) {
        (true, _) => Check::warn("congestion-control", format!("the system's default is {default}"))
            .cost("every socket of the host would depend on the daemon")
            .fix("sluice doctor --fix, or sysctl net.ipv4.tcp_congestion_control=cubic")
            .remedy(Remedy::DefaultControl("cubic")),
        (false, true) => Check::ok("congestion-control", format!("default {default}; available: {available}")),
        (false, false) => {
            Check::info("congestion-control", format!("default {default}; of ours registered: {}", ours.join(", ")))
        }
    }
}

/// Network namespaces of processes.
pub fn namespaces() -> Check {
    let own = fs::metadata("/proc/self/ns/net").map(|meta| meta.ino()).unwrap_or(0);
    let mut seen = BTreeSet::new();
    let mut hidden = 0_u32;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            match fs::metadata(entry.path().join("ns/net")) {
                Ok(meta) => drop(seen.insert(meta.ino())),
                Err(_) => hidden += 1,
            }
        }
    }
    seen.remove(&own);
    if seen.is_empty() && hidden == 0 {
        return Check::ok("namespaces", "all processes are in one network namespace");
    }
    let more = if hidden > 0 { format!("; {hidden} processes may not be looked at") } else { String::new() };
    Check::info("namespaces", format!("{} other network namespaces with processes{more}", seen.len()))
        .cost("sysctls inside them stay as they are unless the daemon may enter them")
        .fix("containers: install sluiced-containers.conf")
}

/// Interfaces that carry jobs, and whether their rate is known, from the kernel or from the configuration.
pub fn interfaces(loaded: &Loaded) -> Vec<Check> {
    let mut checks = Vec::new();
    for entry in fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        let up = fs::read_to_string(path.join("operstate")).is_ok_and(|state| state.trim() == "up");
        if !path.join("device").exists() || !up {
            continue;
        }
        let speed = fs::read_to_string(path.join("speed")).ok().and_then(|text| text.trim().parse::<i64>().ok());
        let card = speed.filter(|mbps| *mbps > 0).map(|mbps| mbps as f64 / 1e3);
        let told = loaded.config.links.iter().find(|link| link.name == name).and_then(|link| link.gbps);
        checks.push(rate(&name, card, told));
    }
    if checks.is_empty() {
        checks.push(Check::info(
            "interface",
            "no physical interface is up (a container, or a virtual machine without one)",
        ));
    }
    checks
}

/// A link's rate as the kernel and as `[[links]]` has it, in Gbit/s.
fn rate(name: &str, card: Option<f64>, told: Option<f64>) -> Check {
    match (card, told) {
        (Some(card), Some(told)) if told > card => {
            Check::warn("interface", format!("{name} is up, {card} Gbit/s, and [[links]] says {told}"))
                .cost("the smaller rate counts")
                .fix("mend gbps in [[links]]")
        }
        (Some(card), Some(told)) => {
            Check::ok("interface", format!("{name} is up, {card} Gbit/s; [[links]] says {told}"))
        }
        (Some(card), None) => Check::ok("interface", format!("{name} is up, {card} Gbit/s")),
        (None, Some(told)) => {
            Check::ok("interface", format!("{name} is up, {told} Gbit/s by [[links]]; the kernel does not know"))
        }
        (None, None) => Check::warn("interface", format!("{name} is up, but its rate is not known"))
            .cost("the link is scheduled only after its rate has been seen")
            .fix(format!("add [[links]] name = \"{name}\", gbps = …")),
    }
}

/// The ports of the daemon; taken ports are right when it runs.
pub fn ports(running: bool, loaded: &Loaded) -> Vec<Check> {
    let tcp = |at: &SocketAddr| TcpListener::bind(at).map(drop);
    let udp = |at: &SocketAddr| UdpSocket::bind(at).map(drop);
    let mut tried: Vec<(String, io::Result<()>)> = Vec::new();
    for at in &loaded.config.peer.listen {
        tried.push((format!("TCP {at} (between hosts)"), tcp(at)));
        tried.push((format!("UDP {at} (between hosts)"), udp(at)));
    }
    tried.extend(loaded.config.http.listen.iter().map(|at| (format!("TCP {at} (HTTP)"), tcp(at))));
    // Where the machine has no IPv6 nothing can have taken a port of it.
    let absent = |error: &&io::Error| error.raw_os_error() == Some(libc::EAFNOSUPPORT);
    let taken: Vec<String> = tried
        .iter()
        .filter_map(|(name, result)| {
            let error = result.as_ref().err().filter(|error| !absent(error))?;
            Some(format!("{name}: {error}"))
        })
        .collect();
    vec![match (taken.is_empty(), running) {
        (true, _) if tried.is_empty() => Check::ok("ports", "the daemon is to listen on no port"),
        (true, _) => {
            let free: Vec<&str> = tried.iter().map(|(name, _)| name.as_str()).collect();
            Check::ok("ports", format!("free: {}", free.join(", ")))
        }
        (false, true) => Check::ok("ports", format!("in use while the daemon runs: {}", taken.join("; "))),
        (false, false) => Check::warn("ports", taken.join("; "))
            .expected("free while no daemon runs")
            .cost("the daemon does not start on these ports")
            .fix("ss -ltnup says who has them; or set peer.listen and http.listen"),
    }]
}

/// The switches that the daemon speaks to, and how.
pub fn switches(snapshot: &Snapshot) -> Option<Check> {
    let switches: Vec<&SwitchStatus> = snapshot.switches.iter().filter(|switch| !switch.peer).collect();
    let told =
        |switch: &&SwitchStatus| format!("{} by {}: {}", switch.name, switch.transport.as_str(), switch.state.as_str());
    let found = switches.iter().map(told).collect::<Vec<_>>().join(", ");
    let silent = |switch: &&&SwitchStatus| switch.state == SwitchState::Silent;
    match switches.iter().find(silent) {
        _ if switches.is_empty() => None,
        None => Some(Check::ok("switches", found)),
        Some(silent) => Some(
            Check::warn("switches", found)
                .cost("links of a switch that does not answer are scheduled from this host's own table")
                .fix(match silent.transport == Transport::Udp {
                    true => format!("sluice switches; does sluice-switch at {} have listen.udp?", silent.address),
                    false => format!("sluice switches; does sluice-switch listen at {}?", silent.address),
                }),
        ),
    }
}

/// Does a time service discipline the clock, as far as slots need it?
pub fn clock(allowed: Nanos) -> Check {
    let fix = "install and start chrony, then: sluice clock";
    let kernel = match sluice_clock::kernel() {
        Ok(kernel) => kernel,
        Err(error) => return Check::warn("clock", format!("the clock's state cannot be read: {error}")).fix(fix),
    };
    let bound = format!("error bound {:.3} ms, allowed {} ms", kernel.max_error.0 as f64 / 1e6, allowed.0 / 1_000_000);
    let cost = "no coordination between hosts: each schedules by its own links only";
    match (kernel.synchronised, kernel.max_error > allowed) {
        (true, false) => Check::ok("clock", format!("clock synchronised, {bound}, TAI offset {} s", kernel.tai_offset)),
        (false, _) => Check::fail("clock", format!("clock not synchronised ({bound})")).cost(cost).fix(fix),
        (true, true) => Check::fail("clock", format!("clock too far off ({bound})")).cost(cost).fix(fix),
    }
}

/// A time namespace with another monotonic clock.
pub fn time_namespace() -> Check {
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let shifted = offsets.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.next() == Some("monotonic") && fields.any(|field| field != "0")
    });
    if shifted {
        return Check::warn("time-namespace", "this process is in a time namespace with another monotonic clock")
            .cost("times in progress pages do not match the host's")
            .fix("run sluice in the host's time namespace");
    }
    Check::ok("time-namespace", "the monotonic clock is the host's")
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_rate_is_the_kernels_or_that_of_the_configuration() {
        assert_eq!(rate("eth0", None, None).state, State::Warn);
        assert_eq!(rate("eth0", None, Some(25.0)).state, State::Ok);
        assert_eq!(rate("eth0", Some(25.0), Some(10.0)).state, State::Ok);
        let check = rate("eth0", Some(10.0), Some(25.0));
        assert!(check.state == State::Warn && check.found.contains("10 Gbit/s, and [[links]] says 25"), "{check:?}");
    }

    #[test]
    fn the_ports_that_are_tried_are_those_of_the_configuration() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut loaded = Loaded::default();
        (loaded.config.peer.listen, loaded.config.http.listen) = (Vec::new(), Vec::new());
        assert_eq!(ports(false, &loaded)[0].state, State::Ok);
        loaded.config.http.listen = vec![taken.local_addr().expect("bound")];
        assert_eq!((ports(false, &loaded)[0].state, ports(true, &loaded)[0].state), (State::Warn, State::Ok));
    }

    #[test]
    fn switches_are_named_with_their_transport_and_a_silent_one_is_a_warning() {
        let mut snapshot = Snapshot::default();
        assert_eq!(switches(&snapshot), None);
        let up = SwitchStatus { name: "s0".into(), state: SwitchState::Up, ..SwitchStatus::default() };
        snapshot.switches.push(up);
        let check = switches(&snapshot).expect("there is one");
        assert_eq!((check.state, check.found.as_str()), (State::Ok, "s0 by session: up"));
        let silent = SwitchStatus {
            name: "s1".into(),
            address: "10.0.0.7:9604".into(),
            transport: Transport::Udp,
            state: SwitchState::Silent,
            ..SwitchStatus::default()
        };
        snapshot.switches.push(silent);
        let check = switches(&snapshot).expect("there are two");
        assert_eq!((check.state, check.found.as_str()), (State::Warn, "s0 by session: up, s1 by udp: silent"));
        assert!(check.fix.contains("10.0.0.7:9604") && check.fix.contains("listen.udp"), "{}", check.fix);
    }
}
