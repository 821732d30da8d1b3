//! The page of this process: whose it is, and what sent and received messages mean for it.
//!
//! What can be known when the process starts is made ready then. The page itself is made when the process tells its
//! own number, with its second connection: long before tensors, and in no process that only inherits the variables.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use sluice_progress::{Ident, Pattern, Publisher, Role, Source, Writer, default_dirs};

use crate::rounds::{Rounds, id};
use crate::van::Node;

static READY: OnceLock<(Vec<PathBuf>, Ident)> = OnceLock::new();
static MAKING: AtomicBool = AtomicBool::new(false);
static PAGE: OnceLock<Publisher> = OnceLock::new();
/// Tensors that this process sends: pushes of a worker, replies of a server to pulls.
static SENT: Rounds = Rounds::new();
/// Pulls that it asks for.
static ASKED: Rounds = Rounds::new();
/// Is a round on the wire?
static ON_WIRE: AtomicBool = AtomicBool::new(false);

/// Reads the environment. False: this is no process of PS-Lite, or nothing is to be published.
#[cold]
pub fn prepare() -> bool {
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let (role, dirs) = (text("DMLC_ROLE"), default_dirs());
    if role.is_empty() || dirs.is_empty() {
        return false;
    }
    let _ = READY.set((dirs, ident(&role, text).with_environment()));
    true
}

#[cold]
fn ident(role: &str, variable: impl Fn(&str) -> String) -> Ident {
    let number = |name: &str| variable(name).trim().parse().unwrap_or(0);
    let mut ident = Ident::new(Source::PslitePreload);
    "ps-lite".clone_into(&mut ident.producer);
    ident.pattern = Pattern::ParameterServer;
    (ident.role, ident.nranks) = match role {
        "worker" => (Role::Worker, number("DMLC_NUM_WORKER")),
        "server" => (Role::Server, number("DMLC_NUM_SERVER")),
        "scheduler" => (Role::Scheduler, 0),
        _ => (Role::Peer, 0),
    };
    let root = format!("{}:{}", variable("DMLC_PS_ROOT_URI"), variable("DMLC_PS_ROOT_PORT"));
    if root != ":" {
        // FNV-1a: the same in every process of the job, on every machine.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        ident.comm_id = root.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    }
    ident
}

/// This process has this number.
#[cold]
pub fn is(node: Node) {
    if PAGE.get().is_some() || MAKING.swap(true, Ordering::Acquire) {
        return;
    }
    if let Some((dirs, ident)) = READY.get() {
        let mut ident = ident.clone();
        ident.rank = node.rank().unwrap_or(ident.rank);
        let _ = PAGE.set(Publisher::new(dirs.clone(), ident));
    }
}

/// The page, if there is one by now.
pub fn writer() -> Option<&'static Writer> {
    PAGE.get()?.writer()
}

/// A tensor begins to leave. `peer` names the other end; `wire`: bytes of its message that are known of.
pub fn tensor(writer: &Writer, peer: u64, key: u64, bytes: u64, wire: u64) {
    if SENT.comes(id(peer, key), bytes) {
        if ON_WIRE.swap(false, Ordering::Relaxed) {
            writer.net_end();
        }
        writer.iteration();
        if let Some(bytes) = SENT.usual() {
            writer.usual_iteration(bytes);
        }
    }
    writer.enqueue(bytes, wire);
    if !ON_WIRE.load(Ordering::Relaxed) && !ON_WIRE.swap(true, Ordering::Relaxed) {
        writer.net_begin();
    }
}

/// The last byte of its message was handed over.
pub fn tensor_ends(writer: &Writer, peer: u64, key: u64) {
    if SENT.is_through(id(peer, key)) && ON_WIRE.swap(false, Ordering::Relaxed) {
        writer.net_end();
    }
}

/// A pull is asked for. A process that pushes has its rounds by that, one that does not by its pulls.
pub fn pull(writer: &Writer, peer: u64, key: u64) {
    if !SENT.any() && ASKED.comes(id(peer, key), 0) {
        writer.iteration();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(role: &str, variables: &[(&str, &str)]) -> Ident {
        ident(role, |name| {
            variables.iter().find(|(known, _)| *known == name).map_or_else(String::new, |(_, value)| (*value).into())
        })
    }

    #[test]
    fn all_processes_of_a_job_agree_on_its_number_and_not_those_of_another() {
        let job = |port| {
            [
                ("DMLC_PS_ROOT_URI", "10.0.0.1"),
                ("DMLC_PS_ROOT_PORT", port),
                ("DMLC_NUM_WORKER", "2"),
                ("DMLC_NUM_SERVER", "3"),
            ]
        };
        let (worker, server) = (of("worker", &job("9000")), of("server", &job("9000")));
        assert_eq!((worker.role, worker.nranks), (Role::Worker, 2));
        assert_eq!((server.role, server.nranks), (Role::Server, 3));
        assert!(worker.comm_id != 0 && worker.comm_id == server.comm_id);
        assert_ne!(worker.comm_id, of("worker", &job("9001")).comm_id);
        let (strange, bare) = (of("joint", &[("DMLC_NUM_WORKER", "x")]), of("worker", &[]));
        assert_eq!((strange.role, strange.nranks, bare.comm_id), (Role::Peer, 0, 0));
    }
}
