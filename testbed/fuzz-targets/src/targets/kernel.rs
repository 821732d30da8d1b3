//! F5, F16 and F17: what the kernel answers, and what its programs write. The kernel lies to nobody; a wrong offset of ours would
//! make it seem so, and what is read here decides where memory is read.

use sluice_ebpf::SocketEventKind;
use sluice_ebpf::fuzz::{RECORD_BYTES, events, name, visited};
use sluice_struct_ops::Btf;

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that says who owns the rows, then records.
pub static RECORDS: Target = Target {
    name: "F05-records",
    parser: "records of the ring buffer, and lines of the kernel's iterators",
    property: "no row beyond the table, no more alive than rows; a row is opened before it is closed, and closed once",
    shape: Shape::Bytes,
    run: records,
    seeds: records_seeds,
};

/// A byte that chooses, then an answer.
pub static NETLINK: Target = Target {
    name: "F16-netlink",
    parser: "netlink: answers of sock_diag and of route lookups",
    property: "lengths that lie end the reading: no more sockets and names than messages fit, and a route's interface is a number that was sent",
    shape: Shape::Bytes,
    run: netlink,
    seeds: netlink_seeds,
};

/// BTF.
pub static BTF: Target = Target {
    name: "F17-btf",
    parser: "BTF, walked for the congestion control's struct",
    property: "members lie in the order and number that the blob says; no chain of types is followed for ever",
    shape: Shape::Bytes,
    run: btf,
    seeds: btf_seeds,
};

/// Rows of the table that records are about.
const ROWS: u32 = 16;

fn records(bytes: &[u8]) {
    let Some((owners, rest)) = bytes.split_first() else { return };
    let owner = |index: u32| (index < ROWS && owners >> (index % 8) & 1 == 1).then_some(index % 3);
    let (heard, live) = events(rest, ROWS, owner);
    assert!(live <= ROWS, "{live} rows alive");
    let mut open = [None; ROWS as usize];
    for event in &heard {
        let row = event.row;
        assert!(row.index < ROWS, "{event:?}");
        let place = &mut open[row.index as usize];
        match event.kind {
            SocketEventKind::Opened => *place = Some(row.generation),
            SocketEventKind::Started | SocketEventKind::Finished => {
                assert_eq!(*place, Some(row.generation), "{event:?}")
            }
            _ => assert_eq!(place.take(), Some(row.generation), "{event:?}"),
        }
    }
    assert_eq!(open.iter().flatten().count(), live as usize);
    assert_eq!(visited(rest).len(), rest.len() / RECORD_BYTES[1]);
    if let Ok(text) = std::str::from_utf8(rest)
        && let Some(back) = name(text)
    {
        let ascii = text.is_ascii();
        assert!(back.chars().count() <= 15 && (back == text || !ascii), "{text:?} came back as {back:?}");
    }
}

fn netlink(bytes: &[u8]) {
    let Some((choice, answer)) = bytes.split_first() else { return };
    if choice % 2 == 0 {
        let (sockets, names) = sluiced::fuzz::sock_diag(answer);
        // A message has a header of 16 bytes, and a body of 72.
        assert!(sockets.len() <= answer.len() / 88 && names.len() <= answer.len() / 88);
        assert!(names.iter().map(String::len).sum::<usize>() <= 3 * answer.len());
        for socket in sockets {
            assert_eq!((socket.local.scope_id(), socket.remote.scope_id()), (0, 0));
            assert!(socket.stats.delivery_rate.0 % 8 == 0 || socket.stats.delivery_rate.0 == u64::MAX);
        }
    } else if let Some(interface) = sluice_route::outgoing(answer) {
        assert!(answer.windows(4).any(|word| word == interface.to_ne_bytes()), "a number that the answer has");
    }
}

fn btf(bytes: &[u8]) {
    let Ok(btf) = Btf::parse(bytes.to_vec()) else { return };
    for name in ["ops", "tcp_congestion_ops", "a", ""] {
        let Some(found) = btf.structure(name) else { continue };
        assert!(found.members.len() * 12 <= bytes.len());
        for (index, member) in found.members.iter().enumerate().take(64) {
            assert!(member.name.len() <= 3 * 512, "many members may share one name");
            let (first, same) = found.member(&member.name).expect("a member has its name");
            assert!(first <= index && same.name == member.name);
            if let Some(parameters) = btf.parameters(member.type_id) {
                assert!(parameters <= usize::from(u16::MAX));
            }
        }
    }
    let _ = (btf.parameters(0), btf.parameters(u32::MAX));
}

fn records_seeds() -> Vec<Seed> {
    let record = |kind: u32, index: u32, generation: u32| {
        let mut bytes = vec![0; RECORD_BYTES[0]];
        for (at, word) in [(0, kind), (4, index), (8, generation), (16, 9)] {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    };
    let life = [record(1, 2, 2), record(3, 2, 2), record(7, 2, 2), record(4, 2, 2), record(1, 3, 0), record(2, 3, 0)];
    let late =
        [record(1, 1, 1), record(1, 1, 1), record(2, 1, 0), record(5, 1, 1), record(6, 15, 0), record(99, 99, 9)];
    let names = vec![
        Seed::of(0, "name", b"sluice"),
        Seed::of(0, "iterator", vec![1; RECORD_BYTES[1] * 2]),
        Seed::of(0xff, "life", life.concat()),
        Seed::of(0x0f, "late", late.concat()),
    ];
    names
}

/// A netlink message with these bytes behind its header.
fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

fn attribute(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + body.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn netlink_seeds() -> Vec<Seed> {
    // inet_diag_msg: family, state, timer, retransmits; ports, addresses, interface, cookie; expires, queues, uid, inode.
    let socket = |family: u8, more: &[u8]| {
        let mut body = vec![0; 72];
        (body[0], body[1]) = (family, 1);
        body[4..8].copy_from_slice(&[0x13, 0x88, 0x9c, 0x40]);
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&[10, 0, 0, 2]);
        body[44..48].copy_from_slice(&77_u32.to_ne_bytes());
        body.extend(more);
        message(20, &body)
    };
    // INET_DIAG_INFO with a tcp_info as this kernel's, and INET_DIAG_CONG.
    let info: Vec<u8> = (0..240_u32).map(|n| n as u8).collect();
    let dump = [
        socket(libc::AF_INET as u8, &attribute(2, &info)),
        socket(libc::AF_INET6 as u8, &[attribute(2, &info), attribute(4, b"cubic\0")].concat()),
        message(3, &[0; 4]),
    ];
    let mut route = vec![0; 12];
    route[0] = libc::AF_INET as u8;
    route.extend(attribute(1, &[10, 0, 0, 2]));
    route.extend(attribute(4, &7_u32.to_ne_bytes()));
    vec![Seed::of(0, "dump", dump.concat()), Seed::of(1, "route", message(24, &route))]
}

/// `struct ops { void (*act)(int, int); int size; }`, and the same behind a typedef that leads to itself.
fn btf_seeds() -> Vec<Seed> {
    let mut strings = vec![0];
    let mut string = |text: &str| {
        let at = strings.len() as u32;
        strings.extend(text.as_bytes());
        strings.push(0);
        at
    };
    let (int, ops, act, size, a) = (string("int"), string("ops"), string("act"), string("size"), string("a"));
    let kind = |kind: u32, count: u32| kind << 24 | count;
    let words: Vec<u32> = [
        // 1: int; 2: a function of two; 3: a pointer to it; 4: const of that; 5: the struct; 6: a typedef of itself.
        vec![int, kind(1, 0), 4, 32],
        vec![0, kind(13, 2), 0, 0, 1, 0, 1],
        vec![0, kind(2, 0), 2],
        vec![0, kind(10, 0), 3],
        vec![ops, kind(4, 2), 16, act, 4, 0, size, 1, 64],
        vec![a, kind(8, 0), 6],
        vec![a, kind(4, 1), 8, a, 6, 0],
    ]
    .concat();
    let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut blob = 0xeb9f_u16.to_ne_bytes().to_vec();
    blob.extend([1, 0]);
    for word in [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32] {
        blob.extend(word.to_ne_bytes());
    }
    blob.extend(types);
    blob.extend(strings);
    vec![Seed::new("struct", blob)]
}
