//! Whom a ban hits, and who finds a place.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use sluice_schedule::{FlowId, FlowPromise};

use super::*;

#[test]
fn whoever_claims_a_name_bans_itself_and_not_the_host_of_that_name() {
    let text = "open = true\nunauthenticated = true\n[[switches]]\nname = \"s0\"\nports = [{ id = 0, to = \"h0\", gbps = 10 }]\n";
    let tables = Tables::new(&Config::parse(Path::new("test.toml"), text).expect("valid"), BootId(1), None);
    let at = |last| Source::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
    let (rogue, own) = (at(9), at(1));
    let (holder, victim) = (HolderId::of("s0"), HostId::of("h0"));
    let slot = |tables: &Tables| tables.now(&mut tables.lock()).slot;
    let says = |tables: &Tables, seq, flows| {
        let flow = |n: u64| FlowPromise { flow: FlowId(u64::from(victim.0) << 32 | n), ..FlowPromise::default() };
        let flows = (0..flows).map(flow).collect();
        Announcement { host: victim, boot: BootId(3), seq, slot: slot(tables), flows, ..Announcement::default() }
    };
    for seq in 1..=11 {
        let refused = tables.announce((rogue, Transport::Session), holder, &says(&tables, seq, 9000)).refused;
        assert_eq!(refused, Some(Refusal::Quota));
    }
    assert_eq!(
        tables.announce((rogue, Transport::Session), holder, &says(&tables, 12, 1)).refused,
        Some(Refusal::Quota),
        "banned"
    );
    assert_eq!(tables.announce((own, Transport::Session), holder, &says(&tables, 13, 1)).refused, None);
}

/// The hosts that somebody makes up have no session.
#[test]
fn names_that_are_made_up_take_no_place_of_those_with_a_session() {
    let text = "open = true\nunauthenticated = true\nmax_hosts = 4\nlease_slots = 10\nslot.length_ms = 200\n\
                [[switches]]\nname = \"s0\"\nports = [{ id = 0, to = \"h0\", gbps = 10 }]\n";
    let tables = Tables::new(&Config::parse(Path::new("test.toml"), text).expect("valid"), BootId(1), None);
    let (source, holder) = (Source::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9))), HolderId::of("s0"));
    let says = |name: &str, transport| {
        let slot = tables.now(&mut tables.lock()).slot;
        let host = HostId::of(name);
        let announcement = Announcement { host, boot: BootId(3), seq: 1, slot, ..Announcement::default() };
        tables.announce((source, transport), holder, &announcement).refused
    };
    let crowd: Vec<_> = (0..6).map(|n| says(&format!("made-up-{n}"), Transport::Udp)).collect();
    let quota = Some(Refusal::Quota);
    assert_eq!(crowd, [None, None, None, None, quota, quota]);
    assert_eq!(says("called", Transport::Unary), quota);
    let honest: Vec<_> = (0..5).map(|n| says(&format!("h{n}"), Transport::Session)).collect();
    assert_eq!(honest, [None, None, None, None, quota], "no more have a session");
    assert_eq!(tables.lock().switches[0].brain.host_count(), 8);
}
