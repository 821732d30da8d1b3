//! What the kernel's programs write, read back from any bytes: for `sluice-fuzz-targets` and nobody else.

use crate::abi::{self, Event, Stat, VisitedSocket};
use crate::datapath::{SocketEvent, SocketEventKind};
use crate::table::Table;

/// Bytes of a record of the ring buffer, and of a line of an iterator.
pub const RECORD_BYTES: [usize; 2] = [size_of::<Event>(), size_of::<VisitedSocket>()];

/// What a reader of so many rows hears of these records of the ring buffer, and how many rows it then takes for alive; each
/// record's row belongs to the owner that `owner` gives for it. After all of them one row is compared with `rows` as they are.
pub fn events(bytes: &[u8], rows: u32, owner: impl Fn(u32) -> Option<u32>) -> (Vec<SocketEvent>, u32) {
    let (mut table, mut heard) = (Table::new(rows), Vec::new());
    for event in abi::records::<Event>(bytes) {
        heard.extend(table.event(&event, owner(event.index)));
    }
    for index in 0..rows {
        let stat = owner(index).map(|generation| Stat { generation, ..Stat::default() });
        table.rescan(index, stat.as_ref().map(|stat| (stat, true)), SocketEventKind::Released, &mut heard);
    }
    (heard, table.live())
}

/// Cookies and results in an iterator's answer.
pub fn visited(bytes: &[u8]) -> Vec<(u64, i32)> {
    abi::records::<VisitedSocket>(bytes).into_iter().map(|socket| (socket.cookie, socket.result)).collect()
}

/// A name as the kernel keeps it, and its text.
pub fn name(text: &str) -> Option<String> {
    abi::name16(text).map(|name| abi::text16(&name))
}
