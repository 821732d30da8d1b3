//! The switch process from outside: what hosts get from it, and what it must refuse.

mod background;
mod exchange;
mod hostile;
mod routes;
mod support;
mod urgency;
