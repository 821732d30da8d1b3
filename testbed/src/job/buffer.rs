//! Gradient values whose sum over all ranks is known exactly, and the reduction itself.
//!
//! Element e of rank r in iteration i is base(e) · coefficient(r, i), both small integers, so that every partial sum
//! is an integer below 2²⁴ and f32 adds it without rounding, in whatever order. Coefficients differ between
//! iterations and neighbouring ranks: a lost, doubled, misplaced or stale contribution shows in the sum.

use std::ops::Range;

use sluice_plan::plan::Collective;

/// An element that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The lane of a plan that it came by; none: it is of the gradient.
    pub lane: Option<usize>,
    /// Its index in the gradient, or in its lane.
    pub element: usize,
    pub seen: f32,
    pub expected: f32,
}

/// base(e): 0 to 255, scattered, so that a shifted buffer is a wrong one.
fn base(element: usize) -> f32 {
    ((element as u32).wrapping_mul(2_654_435_761) >> 24) as f32
}

/// coefficient(r, i): 1 to 61.
fn coefficient(rank: usize, iteration: u64) -> f32 {
    (1 + (rank as u64 * 7 + iteration * 11) % 61) as f32
}

/// Writes this rank's gradient; elements at and after `real` are padding and get 0.
pub fn fill(buffer: &mut [f32], real: usize, rank: usize, iteration: u64) {
    let c = coefficient(rank, iteration);
    let real = real.min(buffer.len());
    for (e, x) in buffer[..real].iter_mut().enumerate() {
        *x = base(e) * c;
    }
    buffer[real..].fill(0.0);
}

/// The same before a collective of which rank `r` owns the elements `own[r]`; `rank` is whose buffer it is.
pub fn fill_before(collective: Collective, buffer: &mut [f32], own: &[Range<usize>], rank: usize, iteration: u64) {
    let real = buffer.len();
    fill(buffer, real, rank, iteration);
    if collective == Collective::AllGather {
        // Only the own part is known at first.
        buffer[..own[rank].start].fill(0.0);
        buffer[own[rank].end..].fill(0.0);
    }
}

/// The first element of `buffer` (whose element 0 is element `first` of the gradient) that is not the exact sum over
/// `ranks` ranks.
pub fn wrong(buffer: &[f32], first: usize, real: usize, ranks: usize, iteration: u64) -> Option<Difference> {
    differs(buffer, first, real, (0..ranks).map(|r| coefficient(r, iteration)).sum())
}

/// The same where `buffer` should hold what `rank` alone filled in.
pub fn wrong_copy(buffer: &[f32], first: usize, real: usize, rank: usize, iteration: u64) -> Option<Difference> {
    differs(buffer, first, real, coefficient(rank, iteration))
}

/// The same after a collective of which rank `r` owns the elements `own[r]`; `rank` is whose buffer it is.
pub fn wrong_after(
    collective: Collective,
    buffer: &[f32],
    own: &[Range<usize>],
    rank: usize,
    iteration: u64,
) -> Option<Difference> {
    let (real, ranks) = (buffer.len(), own.len());
    let part = |range: &Range<usize>| &buffer[range.clone()];
    match collective {
        Collective::AllGather => {
            let mut owners = own.iter().enumerate();
            owners.find_map(|(rank, own)| wrong_copy(part(own), own.start, real, rank, iteration))
        }
        Collective::ReduceScatter => wrong(part(&own[rank]), own[rank].start, real, ranks, iteration),
        _ => wrong(buffer, 0, real, ranks, iteration),
    }
}

fn differs(buffer: &[f32], first: usize, real: usize, total: f32) -> Option<Difference> {
    let inside = real.saturating_sub(first).min(buffer.len());
    // Branch-free first, so that it runs at memory speed; the search only when something is wrong.
    let off = buffer[..inside]
        .iter()
        .enumerate()
        .fold(0_u32, |off, (i, x)| off | u32::from(x.to_bits() != (base(first + i) * total).to_bits()));
    if off == 0 && buffer[inside..].iter().all(|&x| x == 0.0) {
        return None;
    }
    let expected = |i: usize| if i < inside { base(first + i) * total } else { 0.0 };
    let (i, &seen) = buffer.iter().enumerate().find(|&(i, &x)| x != expected(i))?;
    Some(Difference { lane: None, element: first + i, seen, expected: expected(i) })
}

/// Adds `incoming` to `into`, element by element, or puts it there.
pub fn take(into: &mut [f32], incoming: &[f32], adds: bool) {
    if adds {
        into.iter_mut().zip(incoming).for_each(|(a, b)| *a += b);
    } else {
        into.copy_from_slice(incoming);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_for_the_largest_job() {
        let total: f64 = (0..1024).map(|r| f64::from(coefficient(r, 3))).sum::<f64>() * 255.0;
        assert!(total < f64::from(1 << 24));
    }

    #[test]
    fn one_missing_rank_shows() {
        let mut sum = vec![0.0; 100];
        let mut mine = vec![0.0; 100];
        for r in 0..4 {
            fill(&mut mine, 97, r, 5);
            take(&mut sum, &mine, true);
        }
        assert_eq!(wrong(&sum, 0, 97, 4, 5), None);
        assert_eq!(wrong(&sum[50..], 50, 97, 4, 5), None);
        assert!(wrong(&sum, 0, 97, 3, 5).is_some());
        assert!(wrong(&sum, 0, 97, 4, 6).is_some());
        sum[98] = 1.0;
        assert_eq!(wrong(&sum, 0, 97, 4, 5), Some(Difference { lane: None, element: 98, seen: 1.0, expected: 0.0 }));
    }
}
