//! The files of this folder: what they look like, what promtool says of them, and whether every alert has its runbook.

mod committed;
mod promtool;
mod runbooks;
mod structure;
