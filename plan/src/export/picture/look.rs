//! What all pictures have in common: colours, and the height of a row.

/// Height of a row of the legend.
pub const ROW: f64 = 18.0;
/// Colours that are told apart, for trees.
pub const TREES: [&str; 12] = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22",
    "#003f5c", "#7a0177",
];
/// From idle to as busy as the busiest.
pub const LOADS: [&str; 5] = ["#fed976", "#feb24c", "#fd8d3c", "#e31a1c", "#800026"];

/// Which of [`LOADS`] is for a limit that is so busy beside the busiest, from 0 to 1.
pub fn load_class(busy: f64) -> usize {
    ((busy * LOADS.len() as f64 - 1e-9).max(0.0) as usize).min(LOADS.len() - 1)
}
