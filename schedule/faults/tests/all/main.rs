//! Runs of many seeds, defects that must be noticed, and cases that were found once and must not come back.

mod mutants;
mod regress;
mod seeds;
mod shares;
