//! What a row says of TCP's numbers is what the socket itself says of them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use sluice_ebpf::Sequence;

use crate::common::{self, B};

/// Of the kernel's TCP_REPAIR_QUEUE: the bytes received, and those sent.
const RECEIVED: libc::c_int = 1;
const SENT: libc::c_int = 2;

fn set(stream: &TcpStream, option: libc::c_int, value: libc::c_int) {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option is read from `value`, which is as long as is said.
    let result = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, option, std::ptr::from_ref(&value).cast(), length)
    };
    assert_eq!(result, 0, "{option}: {}", std::io::Error::last_os_error());
}

/// The next number of a queue of a socket under repair.
fn next_of(stream: &TcpStream, queue: libc::c_int) -> u32 {
    set(stream, libc::TCP_REPAIR_QUEUE, queue);
    let (mut value, mut length) = (0_u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes to `value`.
    let result = unsafe {
        let value = std::ptr::from_mut(&mut value).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, value, &mut length)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    value
}

#[test]
fn a_row_has_the_numbers_of_its_socket() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let listener = net.in_b(|| TcpListener::bind((B, port))).expect("bind in an own namespace");
    let connect = || TcpStream::connect_timeout(&SocketAddr::from((B, port)), Duration::from_secs(5));
    let mut stream = net.in_a(connect).expect("connect over the pair");
    let (mut peer, _) = listener.accept().expect("accept");
    let row = kernel.take(&net, &stream).expect("an Opened event");
    let mut buffer = vec![0; 100_000];
    for round in 1..=3_u64 {
        // The other end speaks first: the row is written when what this end sends is acknowledged.
        peer.write_all(&[7; 100]).expect("written");
        stream.read_exact(&mut buffer[..100]).expect("read");
        stream.write_all(&[8; 50_000]).expect("written");
        peer.read_exact(&mut buffer[..50_000]).expect("read");
        let began = Instant::now();
        while kernel.path().stats(row).is_none_or(|stats| stats.acked.0 < round * 50_000) {
            assert!(began.elapsed() < Duration::from_secs(10), "not acknowledged: {:?}", kernel.path().stats(row));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let said = kernel.path().stats(row).expect("live").sequence;
    set(&stream, libc::TCP_REPAIR, 1);
    let unacknowledged = next_of(&stream, SENT);
    assert_eq!(said, Some(Sequence { unacknowledged, expected: next_of(&stream, RECEIVED) }));
}
