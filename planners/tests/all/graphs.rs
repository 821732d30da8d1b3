//! Graphs from expressions, their breadth-first costs against the published and recomputed tables, and the finder's
//! frontier against the published one.

mod frontier;
mod replay;
mod vectors;

use sluice_planners::direct::{Cost, Graph, Schedule, Send, Shape};
