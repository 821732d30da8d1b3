//! What a real process exports, held against dashboards and rules, against promtool, and against the bound of its series.

use std::net::SocketAddr;

use crate::support::{Switch, announcement, connect, until};
use sluice_monitoring::exported::Exported;
use sluice_monitoring::promtool;
use sluice_schedule::{HolderId, Rate};
use sluice_skip::skip;

/// Series of one switch, of one link and of the process, without a data plane and sources of background load.
const OF_A_SWITCH: usize = 31;
const OF_A_LINK: usize = 4;
const OF_THE_PROCESS: usize = 45;

fn page(switch: &Switch) -> String {
    let answer = switch.get("/metrics");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

fn series(page: &str) -> usize {
    page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count()
}

#[test]
fn dashboards_and_rules_name_only_what_a_process_exports_from_its_start() {
    let page = page(&Switch::start());
    let mut exported = Exported::default();
    exported.page(&page);
    // There with `[tls]` only; the tests of identities see it.
    exported.metric("sluice_switchd_certificate_expiry_timestamp_seconds", &[]);
    let faults = sluice_monitoring::faults(&exported, |name| name.starts_with("sluice_switchd_"));
    assert!(faults.is_empty(), "{faults:#?}");
    for line in [
        "sluice_switchd_cluster_info{cluster=\"default\",horizon=\"10\",slot_ms=\"200\"} 1",
        "sluice_switchd_updates_total{result=\"applied\",switch=\"s0\",transport=\"udp\"} 0",
        "sluice_switchd_updates_total{result=\"slot-guard\",switch=\"s1\",transport=\"session\"} 0",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    let build = page.lines().find(|line| line.starts_with("sluice_switchd_build_info")).expect("it is there");
    assert!(build.contains("revision=\"") && !build.contains("boot="), "{build}");
    assert_eq!(series(&page), OF_THE_PROCESS + 2 * OF_A_SWITCH + 3 * OF_A_LINK);
}

#[tokio::test]
async fn hosts_add_no_series_and_promtool_is_content() {
    let switch = Switch::start();
    let before = series(&page(&switch));
    let one = connect(&switch, "h0").await;
    one.sender.announce(HolderId::of("s0"), announcement("h0", 1, 1, Rate::mbps(100)));
    let applied = "sluice_switchd_updates_total{result=\"applied\",switch=\"s0\",transport=\"session\"}";
    until(async || switch.metric(applied) == Some(1.0)).await;
    let page = page(&switch);
    assert_eq!(series(&page), before);
    match promtool::find("promtool") {
        Ok(program) => promtool::check_metrics(&program, &page).unwrap_or_else(|said| panic!("{said}")),
        Err(why) => skip!(Thing, "{why}"),
    }
}

#[test]
fn series_grow_by_what_a_switch_and_a_link_take_and_by_nothing_else() {
    let switches = |count: usize, ports: usize| {
        let port = |port| format!("{{ id = {port}, to = \"n{port}\", gbps = 10 }}");
        let ports: Vec<String> = (0..ports).map(port).collect();
        let one = |at| format!("[[switches]]\nname = \"s{at}\"\nports = [{}]\n", ports.join(", "));
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let head = format!(
            "peers = [\"127.0.0.1/32\"]\nclock.require_sync = false\n[listen]\ngrpc = \"{listen}\"\nudp = \"{listen}\"\nhttp = \"{listen}\"\n"
        );
        Switch::of(&(head + &(0..count).map(one).collect::<String>()))
    };
    // 32 leaves with 64 ports each, as of 1000 hosts with two cards, in one process.
    for (count, ports) in [(1, 1), (32, 64)] {
        let page = page(&switches(count, ports));
        assert_eq!(series(&page), OF_THE_PROCESS + count * (OF_A_SWITCH + ports * OF_A_LINK));
        assert!(page.len() < 2 << 20, "{} bytes", page.len());
    }
}
