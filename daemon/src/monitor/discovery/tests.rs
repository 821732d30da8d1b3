//! Connections over virtual time, and the holder of a real socket.

use std::net::{SocketAddrV6, TcpListener, TcpStream};

use sluice_ebpf::FlowStats;
use sluice_skip::skip;

use super::*;
use crate::sock_diag;
use crate::testing::at;

const MIB: u64 = 1 << 20;

fn v6(address: std::net::SocketAddr) -> SocketAddrV6 {
    match address {
        std::net::SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
        std::net::SocketAddr::V6(v6) => v6,
    }
}

fn seen(cookie: u64, sent: u64, received: u64) -> DiagSocket {
    DiagSocket {
        cookie,
        inode: cookie as u32,
        local: v6(at(0, 4000 + cookie as u16)),
        remote: v6(at(1, 5000)),
        uid: 0,
        received: Bytes(received),
        stats: FlowStats { acked: Bytes(sent), ..FlowStats::default() },
    }
}

/// One look at these sockets, all of them held by this process.
fn look(tracked: &mut Tracked, ms: u64, sockets: &[DiagSocket]) -> Vec<News> {
    let now = Nanos::from_millis(ms);
    tracked.begin();
    sockets.iter().for_each(|seen| tracked.look(now, false, seen));
    let mut out = Vec::new();
    let own = |wanted: &mut Wanted| wanted.values().map(|(tuple, _)| (*tuple, std::process::id())).collect();
    tracked.end(now, own, &mut out);
    out
}

fn told(news: &[News]) -> Vec<(u16, bool, bool)> {
    let found = news.iter().filter_map(|item| match item {
        News::Found(origin) => Some((origin.tuple.local.1, origin.sends, origin.receives)),
        News::Lost(..) | News::Uncovered(_) => None,
    });
    found.collect()
}

#[test]
fn what_sends_little_is_left_alone_and_what_sends_much_is_told_once() {
    let mut tracked = Tracked { threshold: Bytes(MIB), ..Tracked::default() };
    assert_eq!(look(&mut tracked, 0, &[seen(1, 3_000, 2_000), seen(2, 0, 0)]), []);
    let news = look(&mut tracked, 200, &[seen(1, 3_100, 2_000), seen(2, 2 * MIB, 4_000)]);
    assert_eq!(told(&news), [(4002, true, false)], "the rendezvous is no tensor flow");
    assert_eq!(look(&mut tracked, 400, &[seen(1, 3_100, 2_000), seen(2, 4 * MIB, 9_000)]), []);
    let tuple = Tuple::of(at(0, 4002), at(1, 5000));
    assert_eq!(look(&mut tracked, 600, &[seen(1, 3_100, 2_000)]), [News::Lost(tuple, std::process::id())]);
}

#[test]
fn the_accepting_side_and_a_change_of_direction_are_told() {
    let mut tracked = Tracked { threshold: Bytes(MIB), ..Tracked::default() };
    // First the model comes in, then gradients go out, on one connection.
    assert_eq!(told(&look(&mut tracked, 0, &[seen(1, 200, 30 * MIB)])), [(4001, false, true)]);
    let (mut last, mut sent) = (Vec::new(), 0);
    for i in 1..60 {
        sent += 10 * MIB;
        let news = look(&mut tracked, i * 500, &[seen(1, sent, 30 * MIB + i * 5_000)]);
        last.extend(told(&news));
    }
    assert_eq!(last, [(4001, true, true), (4001, true, false)]);
    // At rest nothing is news.
    assert_eq!(told(&look(&mut tracked, 90_000, &[seen(1, sent, 30 * MIB + 59 * 5_000)])), []);
}

#[test]
fn a_socket_that_was_asked_for_is_told_however_little_it_sent() {
    let mut tracked = Tracked { threshold: Bytes(MIB), ..Tracked::default() };
    tracked.ask(std::iter::once(Tuple::of(at(0, 4001), at(1, 5000))));
    assert_eq!(told(&look(&mut tracked, 0, &[seen(1, 10, 0)])), [(4001, true, false)]);
}

#[test]
fn the_process_behind_a_socket_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let tuple = Tuple::of(stream.local_addr().expect("bound"), stream.peer_addr().expect("connected"));
    let netlink = match sock_diag::open() {
        Ok(netlink) => netlink,
        Err(why) => return skip!(Kernel, "no sock_diag here: {why}"),
    };
    let sockets = sock_diag::dump(&netlink);
    let Some(seen) = sockets.iter().find(|seen| Tuple::of_v6(seen.local, seen.remote) == tuple) else {
        return skip!(Kernel, "sock_diag shows no sockets here");
    };
    let mut wanted = Wanted::from([(u64::from(seen.inode), (tuple, seen.uid))]);
    assert_eq!(holders_of(&mut wanted), [(tuple, std::process::id())]);
    let mut nobodys = Wanted::from([(u64::from(seen.inode), (tuple, u32::MAX))]);
    assert_eq!(holders_of(&mut nobodys), []);
}
