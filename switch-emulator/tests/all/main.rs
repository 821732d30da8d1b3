//! The switch process from outside: what hosts get from it, and what it must refuse; and the program's other commands.

mod background;
mod control;
mod exchange;
mod hostile;
mod identity;
mod keys;
mod lost;
mod manager;
mod monitoring;
mod page;
mod routes;
mod support;
mod twin;
mod urgency;
mod vectors;
