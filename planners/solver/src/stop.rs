//! Calling off HiGHS while it works: the one place with raw pointers.

use highs::{HighsStatus, Model, SolvedModel};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// When the work is to end.
pub struct Stop<'a> {
    /// Set to true by another thread.
    pub cancel: &'a AtomicBool,
    /// Looked at between the solver's steps; `None`: no end of time.
    pub deadline: Option<Instant>,
}

impl Stop<'_> {
    fn is_now(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// What HiGHS asks between steps: the kinds of callback by which simplex, interior point and branch and bound are ended.
const INTERRUPTS: [highs_sys::HighsInt; 3] = [
    highs_sys::kHighsCallbackSimplexInterrupt,
    highs_sys::kHighsCallbackIpmInterrupt,
    highs_sys::kHighsCallbackMipInterrupt,
];

/// Seconds that the model has been worked on so far; its time limit counts from the first of them.
pub fn run_time(model: &Model) -> f64 {
    // SAFETY: the pointer is that of a living model, which is only read.
    unsafe { highs_sys::Highs_getRunTime(model.as_ptr()) }
}

/// Solves, looking between steps whether to stop. HiGHS looks neither in presolve nor within one factorisation.
///
/// # Errors
/// What HiGHS says of a program it cannot take.
pub fn solve(mut model: Model, stop: &Stop<'_>) -> Result<SolvedModel, HighsStatus> {
    let data = std::ptr::from_ref(stop).cast_mut().cast::<c_void>();
    let done = |status: highs_sys::HighsInt| if status < 0 { Err(HighsStatus::Error) } else { Ok(()) };
    // SAFETY: `model` is alive. HiGHS keeps `data` and `asked` until they are taken back below, or until the model goes,
    // which `try_solve` sees to where it fails; `stop` outlives both. `asked` has the signature that HiGHS calls.
    unsafe {
        done(highs_sys::Highs_setCallback(model.as_mut_ptr(), Some(asked), data))?;
        for kind in INTERRUPTS {
            done(highs_sys::Highs_startCallback(model.as_mut_ptr(), kind))?;
        }
    }
    let mut solved = model.try_solve()?;
    // SAFETY: the model is alive; after this it knows of `stop` no more.
    unsafe {
        for kind in INTERRUPTS {
            done(highs_sys::Highs_stopCallback(solved.as_mut_ptr(), kind))?;
        }
        done(highs_sys::Highs_setCallback(solved.as_mut_ptr(), None, std::ptr::null_mut()))?;
    }
    Ok(solved)
}

/// Asked by HiGHS whether to go on.
///
/// # Safety
/// `data` is the [`Stop`] that [`solve`] gave, and `answer` is null or HiGHS's own structure for the answer.
unsafe extern "C" fn asked(
    _kind: c_int,
    _message: *const c_char,
    _progress: *const highs_sys::HighsCallbackDataOut,
    answer: *mut highs_sys::HighsCallbackDataIn,
    data: *mut c_void,
) {
    // SAFETY: `solve` gave `data` and takes it back before its borrow ends; a `Stop` is only read, from any thread.
    let stop = unsafe { &*data.cast_const().cast::<Stop<'_>>() };
    // SAFETY: HiGHS passes a structure of its own that nobody else touches during the call, or null.
    if let Some(answer) = unsafe { answer.as_mut() } {
        answer.user_interrupt = c_int::from(stop.is_now());
    }
}
