//! A row that is read while the kernel writes it is what one hook wrote: ten million reads beside a flow at full speed, and as
//! many that look past the sequence number, which have to see mixtures.

use std::hint::black_box;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aya::maps::MapData;
use sluice_clock::monotonic;
use sluice_ebpf::{Row, traces};
use sluice_schedule::{Nanos, Rate};

use crate::common;

const READS: u64 = 10_000_000;
/// A round of reads, after which the flow's order is renewed.
const ROUND: u64 = 100_000;
/// So often hooks must have written meanwhile: a row at rest is torn by no reader.
const WRITES: u64 = 20_000;
/// As [`sluice_ebpf`] lays a row out; the test compares them with what it says before it relies on them.
const ACKED: usize = 16;
const UNACKNOWLEDGED: usize = 132;

/// What bytes that were acknowledged and the first number that was not are apart: the same for the life of a connection.
fn apart(acked: u64, unacknowledged: u32) -> u32 {
    unacknowledged.wrapping_sub(acked as u32)
}

/// The table of rows, mapped for reading.
struct Table {
    base: *const u8,
    length: usize,
    stride: usize,
    _map: MapData,
}

impl Table {
    fn of(kernel: &common::Kernelled) -> Table {
        let root = &kernel.options.pin_root;
        let mine = |place: &traces::Pinned| place.instance == kernel.options.instance;
        let place = traces::pinned(root).into_iter().find(mine).expect("it has pins");
        let map = MapData::from_pin(place.dir.join("sluice_stat")).expect("pinned");
        let info = map.info().expect("a table");
        let stride = (info.value_size() as usize).next_multiple_of(8);
        let length = stride * info.max_entries() as usize;
        let fd = map.fd().as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
        assert_ne!(base, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Table { base: base.cast_const().cast(), length, stride, _map: map }
    }

    /// Both numbers of a row, one after the other and whatever its sequence number says.
    fn look(&self, row: Row) -> u32 {
        let at = self.stride * row.index as usize;
        assert!(at + self.stride <= self.length);
        // SAFETY: aligned words inside the mapping.
        unsafe {
            let acked = self.base.add(at + ACKED).cast::<u64>().read_volatile();
            let unacknowledged = self.base.add(at + UNACKNOWLEDGED).cast::<u32>().read_volatile();
            apart(acked, unacknowledged)
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.length) };
    }
}

#[test]
fn ten_million_reads_beside_the_hook_are_each_of_one_write() {
    let Some(net) = common::net() else { return };
    let port = common::port();
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, options) else { return };
    let flow = common::Flow::start(&net, port);
    let row = kernel.take(&net, &flow.stream).expect("an Opened event");
    let table = Table::of(&kernel);

    // At rest both ways of reading say the same.
    flow.paused.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let constant = loop {
        let stats = kernel.path().stats(row).expect("a row");
        let numbers = stats.sequence.expect("a row has them");
        let constant = apart(stats.acked.0, numbers.unacknowledged);
        if stats.queued.0 == 0 && table.look(row) == constant {
            break constant;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{stats:?}, {constant}, {}", table.look(row));
        std::thread::sleep(Duration::from_millis(1));
    };
    flow.paused.store(false, Ordering::Relaxed);

    let (mut torn, mut unread, mut writes, mut mixtures) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut last = Nanos::ZERO;
    let mut rounds = 0;
    // On a machine with one processor to spare the flow may stand still through many reads: then there are more of them.
    while rounds * ROUND < READS || writes < WRITES {
        assert!(began.elapsed() < Duration::from_secs(60), "after {rounds} rounds hooks wrote {writes} times");
        kernel.path().order(row, Rate::mbps(100_000), monotonic().plus(Nanos::from_millis(2_000)));
        rounds += 1;
        for _ in 0..ROUND {
            let Some(stats) = kernel.path().stats(row) else {
                unread += 1;
                continue;
            };
            let numbers = stats.sequence.expect("a row has them");
            torn += u64::from(apart(stats.acked.0, numbers.unacknowledged) != constant || stats.updated < last);
            writes += u64::from(stats.updated > last);
            last = stats.updated;
        }
        for _ in 0..ROUND {
            mixtures += u64::from(black_box(table.look(row)) != constant);
        }
    }
    let reads = rounds * ROUND;
    eprintln!("{reads} reads in {:?}: {writes} writes seen, {unread} given up, {mixtures} mixtures", began.elapsed());
    assert!(flow.control().starts_with("sluice"), "it was given back meanwhile");
    assert_eq!(torn, 0, "of {reads} reads");
    assert!(unread * 1000 < reads, "{unread} of {reads} reads were given up");
    assert!(mixtures > 0, "a reader without the sequence number saw none either, so nothing was tried");
}
