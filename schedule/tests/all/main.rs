//! The brains through their public face: the slot grid, the guide's examples, table holders, and whole clusters with faults.

mod clock;
mod crowded;
mod fault_run;
mod primal_dual_reference;
mod scheduling_guide;
mod switch;
mod tables;
