//! Whom a ban hits.

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
