//! The member's progress page: what it will send, to whom, and which iteration it is in.

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use sluice_progress::{Ident, Page, Pattern, Peer, PeerKind, PeerSlot, Role, Source, State, Writer};

use super::JobFile;
use super::connect::Connections;
use super::exchange::Exchange;
use super::file::Arch;
use crate::sys::SocketCookie;

/// The page, if there is a directory for it. All calls are silent without one.
pub struct JobPage {
    writer: Option<Writer>,
    slots: Vec<Option<PeerSlot>>,
}

impl JobPage {
    /// Creates it and publishes the member's connections.
    pub fn open(file: &JobFile, collective: &dyn Exchange, connections: &Connections) -> JobPage {
        let mut ident = Ident::new(Source::Application);
        ident.job_id.clone_from(&file.job);
        ident.producer = concat!("sluice-job ", env!("CARGO_PKG_VERSION")).into();
        ident.comm_id = sluice_schedule::units::fnv1a64(file.job.as_bytes());
        ident.rank = file.rank as u32;
        ident.nranks = file.members.len() as u32;
        ident.local_rank = 0;
        ident.pattern = match file.arch {
            Arch::Ring => Pattern::Ring,
            Arch::Ps => Pattern::ParameterServer,
            Arch::Tree => Pattern::Tree,
            // What follows from a plan is the daemon's to find out; without it, nothing is known.
            Arch::Plan | Arch::None => Pattern::Unknown,
        };
        ident.role = match (file.arch, file.is_worker()) {
            (Arch::Ps, true) => Role::Worker,
            (Arch::Ps, false) => Role::Server,
            _ => Role::Peer,
        };
        ident.hint_iter_bytes = file.bytes;
        ident.hint_compute_ns = file.compute(0);
        let writer = file.progress_dir.as_ref().and_then(|dir| Page::create(dir, ident));
        let mut page = JobPage { writer, slots: Vec::new() };
        if let (Arch::Ring, Some(writer)) = (file.arch, &page.writer) {
            let n = file.workers;
            writer.ring(((file.rank + n - 1) % n) as u32, ((file.rank + 1) % n) as u32);
        }
        let outs = collective.outs().iter().zip(&connections.outs).map(|(s, c)| (s, c, PeerKind::Connected));
        let ins = collective.ins().iter().zip(&connections.ins).map(|(s, c)| (s, c, PeerKind::Accepted));
        for (stream, socket, kind) in outs.chain(ins) {
            let slot = match (&page.writer, socket.local_addr(), socket.peer_addr()) {
                (Some(writer), Ok(local), Ok(remote)) => writer.peer(&Peer {
                    rank: u32::try_from(stream.peer).ok(),
                    kind,
                    local,
                    remote,
                    cookie: getsockopt(socket, SocketCookie).unwrap_or(0),
                    tx_bytes: 0,
                }),
                _ => None,
            };
            page.slots.push(slot);
        }
        page
    }

    pub fn computing(&self) {
        if let Some(writer) = &self.writer {
            writer.state(State::Compute);
        }
    }

    /// A round began: `bytes` of tensors, of which `wire` will leave this member.
    pub fn round(&self, bytes: u64, wire: u64) {
        if let Some(writer) = &self.writer {
            writer.iteration();
            writer.enqueue(bytes, wire);
            writer.net_begin();
        }
    }

    /// The round is over here.
    pub fn round_over(&self) {
        if let Some(writer) = &self.writer {
            writer.net_end();
        }
    }

    /// Bytes handed to the socket of outgoing stream `out`.
    pub fn sent(&self, out: usize, bytes: u64) {
        if let Some(writer) = &self.writer {
            writer.sent(bytes);
            if let Some(slot) = self.slots.get(out).copied().flatten() {
                writer.peer_sent(slot, bytes);
            }
        }
    }

    /// Bytes taken from a socket.
    pub fn received(&self, bytes: u64) {
        if let Some(writer) = &self.writer {
            writer.received(bytes);
        }
    }
}

/// The congestion control of a socket, as the kernel names it; empty when it does not say.
pub fn congestion_control(socket: &std::net::TcpStream) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap_or_default();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}
