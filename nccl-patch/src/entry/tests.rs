//! No panic leaves an entry point.

use std::sync::atomic::AtomicBool;

use super::*;

pub(super) static PANIC: AtomicBool = AtomicBool::new(false);

/// Promises: P-7
#[test]
fn a_panic_in_every_entry_point_is_success_for_nccl() {
    let (mut context, mut handle, mut mask) = (ptr::dangling_mut(), ptr::dangling_mut::<c_void>(), 7);
    let descr = [0_u64; 17];
    PANIC.store(true, Ordering::Relaxed);
    // SAFETY: all places are ours.
    let results = unsafe {
        [
            init_v2::<2>(&mut context, &mut mask),
            init_v2::<3>(&mut context, &mut mask),
            init_v4(&mut context, &mut mask, ptr::null(), 1, 2, 2, 0, None),
            init_v5::<5>(&mut context, 1, &mut mask, ptr::null(), 2, 2, 0, None),
            start_event::<5>(context, &mut handle, descr.as_ptr().cast()),
            stop_event(handle),
            record_event_state::<5>(handle, 9, ptr::null()),
            finalize(context),
        ]
    };
    PANIC.store(false, Ordering::Relaxed);
    assert_eq!(results, [SUCCESS; 8]);
    assert!(context.is_null() && handle.is_null(), "nothing is left in NCCL's places that could be taken for ours");
    assert_eq!(mask, 7);
}
