//! Rows on the desk: sockets that are to be captured, and what became of each.

use sluice_ebpf::{MAX_WANTED, Wanted};
use sluice_schedule::{Nanos, Rate};

/// Bytes of a row of a question: cookie, rate in bit/s, expiry in ns.
pub const WANTED_BYTES: usize = 24;
/// Bytes of a row of an answer: cookie, and 0, a number of the kernel's or a negative errno.
pub const ANSWER_BYTES: usize = 12;

fn u64_at(row: &[u8], at: usize) -> u64 {
    row.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The rows of these sockets.
pub fn of_wanted(wanted: &[Wanted]) -> Vec<u8> {
    let words = |wanted: &Wanted| [wanted.cookie, wanted.rate.0, wanted.expires.0];
    wanted.iter().flat_map(words).flat_map(u64::to_le_bytes).collect()
}

/// The sockets of so many rows, which only a cookie is known of; a row that is not whole is none.
pub fn wanted(bytes: &[u8]) -> Vec<Wanted> {
    let nowhere = std::net::SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, 0, 0, 0);
    let wanted = |row: &[u8]| Wanted {
        cookie: u64_at(row, 0),
        local: nowhere,
        remote: nowhere,
        pid: 0,
        rate: Rate(u64_at(row, 8)),
        expires: Nanos(u64_at(row, 16)),
    };
    bytes.chunks_exact(WANTED_BYTES).take(MAX_WANTED).map(wanted).collect()
}

/// The rows of what the kernel answered, by cookie.
pub fn of_answers(answers: impl IntoIterator<Item = (u64, i32)>) -> Vec<u8> {
    let row = |(cookie, result): (u64, i32)| [&cookie.to_le_bytes()[..], &result.to_le_bytes()[..]].concat();
    answers.into_iter().flat_map(row).collect()
}

/// What the kernel answered.
pub fn answers(bytes: &[u8]) -> Vec<(u64, i32)> {
    let result = |row: &[u8]| row.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_le_bytes);
    bytes.chunks_exact(ANSWER_BYTES).map(|row| (u64_at(row, 0), result(row))).collect()
}
