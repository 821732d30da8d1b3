//! Bounds on the mean time of any plan, as prices of rows from which whoever checks them adds the bound up again.
//!
//! A row is a link with some of the collectives on it, the volumes of which take p seconds of its capacity each: whatever the
//! method, Σ p·T ≥ ½[(Σp)² + Σp²]. What the prices of its rows leave of a collective's 1/K in the mean counts for the time
//! that its longest chain takes alone. The best prices need a solver; [`of_each`] has those of each collective by itself.

#[cfg(test)]
mod tests;

use crate::instance::Instance;

/// A link and some of its collectives, with a price.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The link.
    pub link: usize,
    /// Some collectives with flows over it, ascending.
    pub collectives: Vec<usize>,
    /// At least 0, in 1/s.
    pub price: f64,
}

/// A bound and what proves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The mean time of any plan is at least this, in s.
    pub value: f64,
    /// The rows that prove it, beside the chains.
    pub rows: Vec<Row>,
}

impl Bound {
    /// What rows prove. Prices that ask more of a collective than its part in the mean are lowered together; rows of links or
    /// collectives that the instance does not have, and prices that are none, prove nothing.
    pub fn of_rows(instance: &Instance, mut rows: Vec<Row>) -> Bound {
        let count = instance.collectives();
        let share = 1.0 / count as f64;
        rows.retain(|row| row.price.is_finite() && row.price > 0.0 && !row.collectives.is_empty());
        let needs: Vec<Vec<f64>> = rows.iter().map(|row| needs(instance, row)).collect();
        let mut asked = vec![0.0; count];
        let mut value = 0.0;
        for (row, needs) in rows.iter().zip(&needs) {
            let (sum, squares) =
                needs.iter().fold((0.0, 0.0), |(sum, squares), need| (sum + need, squares + need * need));
            value += row.price * 0.5 * (sum * sum + squares);
            for (collective, need) in row.collectives.iter().zip(needs) {
                if let Some(asked) = asked.get_mut(*collective) {
                    *asked += row.price * need;
                }
            }
        }
        let excess = asked.iter().fold(1.0_f64, |excess, asked| excess.max(asked / share));
        rows.iter_mut().for_each(|row| row.price /= excess);
        let left = asked.iter().zip(longest(instance)).map(|(asked, time)| (share - asked / excess).max(0.0) * time);
        Bound { value: value / excess + left.sum::<f64>(), rows }
    }
}

/// How long the link of a row needs for each of its collectives, in s.
fn needs(instance: &Instance, row: &Row) -> Vec<f64> {
    let mut needs = vec![0.0; row.collectives.len()];
    let Some(link) = instance.links().get(row.link) else { return needs };
    for &flow in instance.flows_on(row.link) {
        let flow = &instance.flows()[flow];
        if let Ok(place) = row.collectives.binary_search(&flow.collective) {
            needs[place] += flow.size / link.capacity;
        }
    }
    needs
}

/// By collective the time of its longest chain, each flow alone on its route, in s.
fn longest(instance: &Instance) -> Vec<f64> {
    let mut longest = vec![0.0_f64; instance.collectives()];
    for group in instance.groups() {
        let mut now = 0.0_f64;
        for &flow in &group.flows {
            now = now.max(instance.flows()[flow].release) + instance.duration(flow);
        }
        longest[group.collective] = longest[group.collective].max(now);
    }
    longest
}

/// The bound that each collective gives by itself: its longest chain, or the link that takes longest to serve it.
pub fn of_each(instance: &Instance) -> Bound {
    let mut best: Vec<(f64, Option<usize>)> = longest(instance).into_iter().map(|time| (time, None)).collect();
    let mut served = vec![0.0; best.len()];
    for (link, of) in instance.links().iter().enumerate() {
        let on = instance.flows_on(link);
        for &flow in on {
            let flow = &instance.flows()[flow];
            let time = &mut served[flow.collective];
            *time += flow.size / of.capacity;
            if *time > best[flow.collective].0 {
                best[flow.collective] = (*time, Some(link));
            }
        }
        on.iter().for_each(|&flow| served[instance.flows()[flow].collective] = 0.0);
    }
    let count = best.len() as f64;
    let row = |(collective, (time, link)): (usize, (f64, Option<usize>))| {
        Some(Row { link: link?, collectives: vec![collective], price: 1.0 / (count * time) })
    };
    let rows = best.into_iter().enumerate().filter_map(row).collect();
    Bound::of_rows(instance, rows)
}
