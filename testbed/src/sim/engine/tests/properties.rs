//! Properties over random scenarios.
