//! Array maps mapped into memory: loads and stores instead of system calls. All shared-memory access is here.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::abi::{CTL_RELEASE, Cfg, Counters, Ctl, STAT_LIVE, Stat};

/// The rows of one mmap-able array map.
#[derive(Debug)]
pub struct Mapping<T> {
    base: NonNull<T>,
    rows: u32,
}

// SAFETY: the memory is shared with the kernel anyway; every access below is atomic or copies under a sequence counter.
unsafe impl<T> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Mapping<T> {}

impl<T: Copy> Mapping<T> {
    /// Maps `rows` rows of an array map created with BPF_F_MMAPABLE, whose values have the size of `T`.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn new(fd: &impl AsFd, rows: u32) -> io::Result<Mapping<T>> {
        let len = size_of::<T>() * rows as usize;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else refers to it.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_fd().as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Mapping { base, rows })
    }

    /// How many rows there are.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    fn row(&self, index: u32) -> Option<*mut T> {
        // SAFETY: index < rows lies inside the mapping.
        (index < self.rows).then(|| unsafe { self.base.as_ptr().add(index as usize) })
    }

    fn copy(&self, index: u32) -> Option<T> {
        // SAFETY: the row lies inside the mapping; a concurrent writer can tear it, which callers detect or tolerate.
        self.row(index).map(|row| unsafe { row.read_volatile() })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), size_of::<T>() * self.rows as usize) };
    }
}

fn atomic32<'a>(field: *mut u32) -> &'a AtomicU32 {
    // SAFETY: callers pass an aligned field of a live mapping and drop the reference before the mapping.
    unsafe { AtomicU32::from_ptr(field) }
}

fn atomic64<'a>(field: *mut u64) -> &'a AtomicU64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(field) }
}

impl Mapping<Ctl> {
    /// Writes an order so that a hook sees all of it or none: each store is ordered after the one before.
    pub fn order(&self, index: u32, generation: u32, rate: u64, expiry: u64, release: bool) {
        let Some(row) = self.row(index) else { return };
        // SAFETY: field addresses inside one row of the mapping.
        let (r, e, g, f) = unsafe {
            (&raw mut (*row).rate, &raw mut (*row).expiry, &raw mut (*row).generation, &raw mut (*row).flags)
        };
        atomic32(g).store(0, Ordering::Release);
        atomic64(r).store(rate, Ordering::Release);
        atomic64(e).store(expiry, Ordering::Release);
        atomic32(f).store(if release { CTL_RELEASE } else { 0 }, Ordering::Release);
        atomic32(g).store(generation, Ordering::Release);
    }

    /// Asks to be told when so many bytes have been acknowledged.
    pub fn mark(&self, index: u32, acked: u64) {
        let Some(row) = self.row(index) else { return };
        // SAFETY: field address inside one row of the mapping.
        atomic64(unsafe { &raw mut (*row).mark }).store(acked, Ordering::Release);
    }
}

impl Mapping<Stat> {
    /// The present owner of a row and whether it is alive, without the measurements.
    pub fn owner(&self, index: u32) -> Option<(u32, bool)> {
        let row = self.row(index)?;
        // SAFETY: field addresses inside one row of the mapping.
        let (g, f) = unsafe { (&raw mut (*row).generation, &raw mut (*row).flags) };
        Some((atomic32(g).load(Ordering::Acquire), atomic32(f).load(Ordering::Acquire) & STAT_LIVE != 0))
    }

    /// A row as one hook wrote it; `None` if it does not exist or is being written again and again.
    pub fn read(&self, index: u32) -> Option<Stat> {
        let row = self.row(index)?;
        // SAFETY: field address inside one row of the mapping.
        let seq = atomic32(unsafe { &raw mut (*row).seq });
        for _ in 0..64 {
            let before = seq.load(Ordering::Acquire);
            if before & 1 == 0 {
                let copy = self.copy(index)?;
                fence(Ordering::Acquire);
                if seq.load(Ordering::Acquire) == before {
                    return Some(copy);
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Takes a row away from an owner that has been silent for long: its next hook call sees another generation.
    pub fn reclaim(&self, index: u32, generation: u32) -> bool {
        let Some(row) = self.row(index) else { return false };
        // SAFETY: field addresses inside one row of the mapping.
        let (g, f) = unsafe { (&raw mut (*row).generation, &raw mut (*row).flags) };
        let next = generation.wrapping_add(1).max(1);
        let taken = atomic32(g).compare_exchange(generation, next, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if taken {
            atomic32(f).store(0, Ordering::SeqCst);
        }
        taken
    }
}

impl Mapping<Cfg> {
    /// The configuration as it stands; only this process writes it.
    pub fn get(&self) -> Cfg {
        self.copy(0).unwrap_or_default()
    }

    /// Replaces the configuration. Each field is written once; programs may see a mixture for a moment.
    pub fn set(&self, cfg: Cfg) {
        if let Some(row) = self.row(0) {
            // SAFETY: the row lies inside the mapping; programs only read it.
            unsafe { row.write_volatile(cfg) };
        }
    }

    /// Moves the instant until which new sockets are captured.
    pub fn capture_until(&self, instant: u64) {
        if let Some(row) = self.row(0) {
            // SAFETY: field address inside the row.
            atomic64(unsafe { &raw mut (*row).capture_until }).store(instant, Ordering::Relaxed);
        }
    }
}

impl Mapping<Counters> {
    /// The counters; each is exact, together they may be of slightly different instants.
    pub fn get(&self) -> Counters {
        self.copy(0).unwrap_or_default()
    }
}
