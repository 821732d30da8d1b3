//! The offsets that the library reads by, against the structs of NCCL's headers and the published table.

use std::mem::{offset_of, size_of};

use crate::support::headers::*;
use nccl_profiler_sluice::abi::{InitV2, InitV4, InitV5, Profiler};
use nccl_profiler_sluice::descr::{at, size};

/// Where the union begins.
const UNION: usize = 24;

#[test]
fn the_head_is_as_long_in_every_version() {
    for (kind, parent, rank, union) in [
        (offset_of!(Head8, kind), offset_of!(Head8, parent_obj), offset_of!(Head8, rank), offset_of!(Head8, union_at)),
        (
            offset_of!(Head64, kind),
            offset_of!(Head64, parent_obj),
            offset_of!(Head64, rank),
            offset_of!(Head64, union_at),
        ),
    ] {
        assert_eq!((kind, parent, rank, union), (at::TYPE, at::PARENT, 16, UNION));
    }
}

#[test]
fn a_table_is_six_pointers() {
    assert_eq!([size_of::<Profiler<InitV2>>(), size_of::<Profiler<InitV4>>(), size_of::<Profiler<InitV5>>()], [48; 3]);
    let order = [
        offset_of!(Profiler<InitV5>, name),
        offset_of!(Profiler<InitV5>, init),
        offset_of!(Profiler<InitV5>, start_event),
        offset_of!(Profiler<InitV5>, stop_event),
        offset_of!(Profiler<InitV5>, record_event_state),
        offset_of!(Profiler<InitV5>, finalize),
    ];
    assert_eq!(order, [0, 8, 16, 24, 32, 40]);
}

/// Each row: what the struct gives, what the library reads by, what is published.
#[track_caller]
fn rows(rows: &[(usize, usize, usize)]) {
    for (struct_at, read_at, published) in rows {
        assert_eq!((UNION + struct_at, *read_at), (*published, *published));
    }
}

#[test]
fn collectives_of_versions_4_to_7() {
    use at::v4;
    rows(&[
        (offset_of!(CollV7, func), v4::COLL_FUNC, 32),
        (offset_of!(CollV7, count), v4::COLL_COUNT, 56),
        (offset_of!(CollV7, root), v4::COLL_ROOT, 64),
        (offset_of!(CollV7, datatype), v4::COLL_DATATYPE, 72),
        (offset_of!(CollV7, n_channels), v4::COLL_CHANNELS, 80),
        (offset_of!(CollV7, algo), v4::COLL_ALGO, 88),
        (offset_of!(CollV7, parent_group), v4::COLL_PARENT_GROUP, 104),
        (offset_of!(CollV7, user_tag), v4::COLL_USER_TAG, 128),
    ]);
    // Each version ends where the next one's new fields begin.
    assert_eq!(size(4), UNION + offset_of!(CollV7, parent_group));
    assert_eq!((size(5), size(6)), (UNION + offset_of!(CollV7, kernel_variant), 112));
    assert_eq!(size(7), UNION + size_of::<CollV7>());
    assert_eq!([size(2), size(3), size(4), size(5), size(6), size(7)], [128, 120, 104, 112, 112, 136]);
    assert_eq!([size(0), size(1), size(8), size(255)], [0; 4]);
}

#[test]
fn collectives_of_versions_2_and_3() {
    use at::v2;
    rows(&[
        (offset_of!(CollV2, func), v2::COLL_FUNC, 48),
        (offset_of!(CollV2, count), v2::COLL_COUNT, 72),
        (offset_of!(CollV2, datatype), v2::COLL_DATATYPE, 88),
        (offset_of!(CollV2, algo), v2::COLL_ALGO_V2, 112),
        (offset_of!(CollV3, func), v2::COLL_FUNC, 48),
        (offset_of!(CollV3, count), v2::COLL_COUNT, 72),
        (offset_of!(CollV3, datatype), v2::COLL_DATATYPE, 88),
        (offset_of!(CollV3, algo), v2::COLL_ALGO_V3, 104),
    ]);
    assert_eq!((UNION + size_of::<CollV2>(), UNION + size_of::<CollV3>()), (size(2), size(3)));
}

#[test]
fn what_the_socket_transport_reports() {
    use at::net;
    rows(&[(offset_of!(NetPlugin, id), net::ID, 24), (offset_of!(NetPlugin, data), net::DATA, 32)]);
    let sock = offset_of!(NetSocket, sock);
    let of_data = [
        offset_of!(NetSocket, kind),
        sock + offset_of!(NetSock, fd),
        sock + offset_of!(NetSock, op),
        sock + offset_of!(NetSock, length),
    ];
    assert_eq!(of_data, [net::SOCKET_KIND, net::SOCKET_FD, net::SOCKET_OP, net::SOCKET_BYTES]);
    assert_eq!((of_data, size_of::<NetSocket>()), ([0, 8, 12, 16], 24));
}

#[test]
fn sends_receives_and_operations() {
    use at::{op, v2, v4};
    rows(&[
        (offset_of!(P2pV7, func), v4::P2P_FUNC, 24),
        (offset_of!(P2pV7, datatype), v4::P2P_DATATYPE, 40),
        (offset_of!(P2pV7, count), v4::P2P_COUNT, 48),
        (offset_of!(P2pV7, peer), v4::P2P_PEER, 56),
        (offset_of!(P2pV7, n_channels), v4::P2P_CHANNELS, 60),
        (offset_of!(P2pV7, parent_group), v4::P2P_PARENT_GROUP, 64),
        (offset_of!(P2pV7, user_tag), v4::P2P_USER_TAG, 72),
        (offset_of!(P2pV2, func), v2::P2P_FUNC, 40),
        (offset_of!(P2pV2, datatype), v2::P2P_DATATYPE, 56),
        (offset_of!(P2pV2, count), v2::P2P_COUNT, 64),
        (offset_of!(P2pV2, peer), v2::P2P_PEER, 72),
        (offset_of!(ProxyOp, pid), op::PID, 24),
        (offset_of!(ProxyOp, channel_id), op::CHANNEL, 28),
        (offset_of!(ProxyOp, peer), op::PEER, 32),
        (offset_of!(ProxyOp, is_send), op::IS_SEND, 44),
    ]);
}
