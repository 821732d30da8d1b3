//! Array maps mapped into memory: loads and stores instead of system calls. All shared-memory access is here.

use std::io;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aya::Pod;

use sluice_schedule::event::Allowance;

use crate::abi::{CTL_RELEASE, CTL_SURPLUS, CTL_YIELDS, Cfg, Counters, Ctl, STAT_LIVE, Stat, WantedRow};
use crate::words::{self, Order, OrderWords};

/// Who has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The generation that orders and measurements of this owner carry.
    pub generation: u32,
    /// Is its socket still there?
    pub live: bool,
}

/// What a row's owner is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Follow this.
    Follow {
        /// Bytes/s.
        rate: u64,
        /// Until when (CLOCK_MONOTONIC, ns).
        expiry: u64,
        /// What it may send beyond the rate; `None`: nothing.
        surplus: Option<Allowance>,
    },
    /// Go back to the congestion control that it had.
    Release,
}

/// The rows of one mmap-able array map.
#[derive(Debug)]
pub struct Mapping<T> {
    base: NonNull<T>,
    rows: u32,
    writable: bool,
}

// SAFETY: the memory is shared with the kernel anyway; every access below is atomic or copies under a sequence counter.
unsafe impl<T> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Mapping<T> {}

impl<T: Pod> Mapping<T> {
    /// Maps `rows` rows of an array map created with BPF_F_MMAPABLE, whose values have the size of `T`.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn new(fd: &impl AsFd, rows: u32) -> io::Result<Mapping<T>> {
        Mapping::map(fd, rows, true)
    }

    /// The same for reading only, which needs no more than a descriptor for reading: whatever would write does nothing.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn read_only(fd: &impl AsFd, rows: u32) -> io::Result<Mapping<T>> {
        Mapping::map(fd, rows, false)
    }

    fn map(fd: &impl AsFd, rows: u32, writable: bool) -> io::Result<Mapping<T>> {
        let len = size_of::<T>() * rows as usize;
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else refers to it.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_fd().as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Mapping { base, rows, writable })
    }

    /// How many rows there are.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The row, if it may be written.
    fn writable_row(&self, index: u32) -> Option<RowRef<'_, T>> {
        self.row(index).filter(|_| self.writable)
    }

    fn row(&self, index: u32) -> Option<RowRef<'_, T>> {
        // SAFETY: index < rows lies inside the mapping.
        (index < self.rows).then(|| RowRef { row: unsafe { self.base.add(index as usize) }, mapping: PhantomData })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), size_of::<T>() * self.rows as usize) };
    }
}

// SAFETY: integers only, of which every pattern of bits is a value.
unsafe impl Pod for Ctl {}
// SAFETY: as above.
unsafe impl Pod for Stat {}
// SAFETY: as above.
unsafe impl Pod for Cfg {}
// SAFETY: as above.
unsafe impl Pod for Counters {}
// SAFETY: as above.
unsafe impl Pod for WantedRow {}

/// One row inside a live mapping.
struct RowRef<'a, T> {
    row: NonNull<T>,
    mapping: PhantomData<&'a Mapping<T>>,
}

impl<'a, T> RowRef<'a, T> {
    /// The four bytes at `OFFSET` as an atomic.
    fn atomic32<const OFFSET: usize>(&self) -> &'a AtomicU32 {
        const { assert!(OFFSET.is_multiple_of(4) && OFFSET + 4 <= size_of::<T>() && align_of::<T>() >= 4) };
        // SAFETY: aligned bytes inside a row of the mapping, which is borrowed; everybody else uses atomics as well.
        unsafe { AtomicU32::from_ptr(self.row.byte_add(OFFSET).cast().as_ptr()) }
    }

    /// The eight bytes at `OFFSET` as an atomic.
    fn atomic64<const OFFSET: usize>(&self) -> &'a AtomicU64 {
        const { assert!(OFFSET.is_multiple_of(8) && OFFSET + 8 <= size_of::<T>() && align_of::<T>() >= 8) };
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.row.byte_add(OFFSET).cast().as_ptr()) }
    }

    /// A copy that a concurrent writer can tear, which callers detect or tolerate. Word by word: of a volatile struct every
    /// byte of an address would be a load of its own.
    fn copy(&self) -> T
    where
        T: Pod,
    {
        const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() >= 8) };
        let (from, mut copy) = (self.row.cast::<u64>(), MaybeUninit::<T>::uninit());
        let to = copy.as_mut_ptr().cast::<u64>();
        for word in 0..size_of::<T>() / 8 {
            // SAFETY: an aligned word inside the row, which lies inside the mapping, and the same one inside the copy.
            unsafe { to.add(word).write(from.add(word).read_volatile()) };
        }
        // SAFETY: every byte is written, and whatever bytes there are are a value, as `Pod` promises.
        unsafe { copy.assume_init() }
    }
}

impl Mapping<Ctl> {
    /// Writes an order so that a hook sees all of it or none.
    pub fn order(&self, index: u32, generation: u32, command: Command) {
        let Some(row) = self.writable_row(index) else { return };
        let order = match command {
            Command::Follow { rate, expiry, surplus: None } => Order { rate, expiry, link: 0, flags: 0 },
            Command::Follow { rate, expiry, surplus: Some(Allowance { up_to, yields }) } => {
                let flags = if yields { CTL_SURPLUS | CTL_YIELDS } else { CTL_SURPLUS };
                Order { rate, expiry, link: up_to.bytes_per_second(), flags }
            }
            Command::Release => Order { rate: 0, expiry: 0, link: 0, flags: CTL_RELEASE },
        };
        let words = OrderWords {
            generation: row.atomic32::<{ offset_of!(Ctl, generation) }>(),
            rate: row.atomic64::<{ offset_of!(Ctl, rate) }>(),
            expiry: row.atomic64::<{ offset_of!(Ctl, expiry) }>(),
            link: row.atomic64::<{ offset_of!(Ctl, link) }>(),
            flags: row.atomic32::<{ offset_of!(Ctl, flags) }>(),
        };
        words.write(generation, order);
    }

    /// Asks to be told when so many bytes have been acknowledged.
    pub fn mark(&self, index: u32, acked: u64) {
        if let Some(row) = self.writable_row(index) {
            row.atomic64::<{ offset_of!(Ctl, mark) }>().store(acked, Ordering::Release);
        }
    }
}

impl Mapping<Stat> {
    /// The present owner of a row and whether it is alive, without the measurements.
    pub fn owner(&self, index: u32) -> Option<Owner> {
        let row = self.row(index)?;
        let generation = row.atomic32::<{ offset_of!(Stat, generation) }>().load(Ordering::Acquire);
        let flags = row.atomic32::<{ offset_of!(Stat, flags) }>().load(Ordering::Acquire);
        Some(Owner { generation, live: flags & STAT_LIVE != 0 })
    }

    /// A row as one hook wrote it; `None` if it does not exist or is being written again and again.
    pub fn read(&self, index: u32) -> Option<Stat> {
        let row = self.row(index)?;
        let seq = row.atomic32::<{ offset_of!(Stat, seq) }>();
        for _ in 0..64 {
            if let Some(copy) = words::read(seq, || row.copy()) {
                return Some(copy);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Takes a row away from an owner that has been silent for long: its next hook call sees another generation.
    pub fn reclaim(&self, index: u32, generation: u32) -> bool {
        let Some(row) = self.writable_row(index) else { return false };
        let (owner, flags) =
            (row.atomic32::<{ offset_of!(Stat, generation) }>(), row.atomic32::<{ offset_of!(Stat, flags) }>());
        words::reclaim(owner, flags, generation)
    }
}

impl Mapping<Cfg> {
    /// The configuration as it stands; only this process writes it.
    pub fn get(&self) -> Cfg {
        self.row(0).map(|row| row.copy()).unwrap_or_default()
    }

    /// Replaces the configuration. Each field is written once; programs may see a mixture for a moment.
    pub fn set(&self, cfg: Cfg) {
        if let Some(row) = self.writable_row(0) {
            // SAFETY: the row lies inside the mapping; programs only read it.
            unsafe { row.row.write_volatile(cfg) };
        }
    }
}

impl Mapping<Counters> {
    /// The counters; each is exact, together they may be of slightly different instants.
    pub fn get(&self) -> Counters {
        self.row(0).map(|row| row.copy()).unwrap_or_default()
    }
}
