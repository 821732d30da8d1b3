//! The brains through their public face: the slot grid, the guide's examples, table holders.

mod attached;
mod clock;
mod crowded;
mod primal_dual_reference;
mod scheduling_guide;
mod switch;
mod tables;
