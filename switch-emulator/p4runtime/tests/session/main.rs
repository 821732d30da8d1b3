//! A real client, the agent, and the server in front of the twin, over TCP on the loopback.

mod agent;
mod finsy;
mod hostile;
mod primary;
mod support;
mod tables;
