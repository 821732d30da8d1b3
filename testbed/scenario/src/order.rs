//! What comes after what, as indices.

/// An order of `0..count` in which everything comes after its predecessors; who is in a circle, or after one, is left out.
pub(crate) fn topological<P: Iterator<Item = usize>>(count: usize, preds: impl Fn(usize) -> P) -> Vec<usize> {
    let mut open: Vec<usize> = (0..count).map(|i| preds(i).count()).collect();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    (0..count).for_each(|i| preds(i).for_each(|p| next[p].push(i)));
    let mut order: Vec<usize> = (0..count).filter(|&i| open[i] == 0).collect();
    let mut at = 0;
    while let Some(&i) = order.get(at) {
        at += 1;
        for &follower in &next[i] {
            open[follower] -= 1;
            if open[follower] == 0 {
                order.push(follower);
            }
        }
    }
    order
}
