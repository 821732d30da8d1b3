//! A programmable switch in Rust: what `switch-emulator/p4/sluice.p4` does to a frame, byte for byte.
//!
//! [`Switch::process`] is the program's pipeline, in its order: parse ([`frame`]), forward by the longest prefix and by
//! ECMP ([`routes`]), and where a Sluice packet leaves by a link of the fabric, count it and add what that link knows
//! ([`egress`]). It forwards IPv4 without options and drops the rest, as the program does. No clock, thread or I/O: the
//! slot is what the control plane says it is, through [`Switch::set_guard`].
//!
//! What a control plane writes are the program's tables, one method for each. [`vectors`] holds stories of frames in and
//! out that the twin is tested with and that a P4 target can replay.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![deny(clippy::iter_over_hash_type)]

pub mod control;
pub mod counters;
pub mod egress;
pub mod frame;
pub mod routes;
pub mod vectors;

use std::fmt;

use ipnet::Ipv4Net;
use sluice_schedule::Slot;
use sluice_schedule::table::soft::DoubleBuffer;
use sluice_wire::udp::{LANES, Packet};

use crate::control::Statement;
use crate::counters::Counters;
use crate::egress::{Link, SeenTables};
use crate::routes::{Action, Member, NextHop, Routes};

/// Ports of a switch, as many as v1model numbers.
pub const PORTS: u16 = 512;
/// Registers that tell repeated announcements from new ones.
pub const SEEN: usize = 1 << 16;
/// The UDP port of Sluice packets, unless a switch is told another one.
pub const UDP_PORT: u16 = 9604;

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves.
    Forward {
        /// By this port.
        port: u16,
        /// It is a Sluice packet that was rewritten here, and its datagram has no checksum.
        answered: bool,
    },
    /// It goes nowhere.
    Drop(Reason),
}

/// Why a frame goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It ends inside a header, or has another version, options, or a wrong checksum.
    Malformed,
    /// It carries something else than IPv4.
    NotIpv4,
    /// A Sluice packet whose source may not send by this port.
    Spoofed,
    /// Its time to live is over.
    TtlExpired,
    /// No route leads on.
    NoRoute,
}

impl Reason {
    /// Every reason, in the order of their counters.
    pub const ALL: [Reason; 5] =
        [Reason::Malformed, Reason::NotIpv4, Reason::Spoofed, Reason::TtlExpired, Reason::NoRoute];

    /// The word for it in vectors and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::NotIpv4 => "not-ipv4",
            Reason::Spoofed => "spoofed",
            Reason::TtlExpired => "ttl-expired",
            Reason::NoRoute => "no-route",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One switch: its tables, its registers, its counters.
#[derive(Debug)]
pub struct Switch {
    udp_port: u16,
    routes: Routes,
    /// Whose Sluice packets come in by a port; a port without an entry leads to another switch.
    edges: Vec<Option<Ipv4Net>>,
    links: Vec<Option<Link>>,
    guard: Option<Slot>,
    registers: DoubleBuffer,
    seen: SeenTables,
    counters: Counters,
}

impl Switch {
    /// A switch as it starts: empty tables, registers of zeros, no slot.
    pub fn new(udp_port: u16) -> Switch {
        let ports = usize::from(PORTS);
        Switch {
            udp_port,
            routes: Routes::default(),
            edges: vec![None; ports],
            links: vec![None; ports],
            guard: None,
            registers: DoubleBuffer::new(ports, LANES, SEEN),
            seen: SeenTables::new(),
            counters: Counters::default(),
        }
    }

    /// Table `lpm`: where packets to this prefix go. The latest entry for a prefix holds.
    pub fn set_route(&mut self, to: Ipv4Net, action: Action) {
        self.routes.set(to, action);
    }

    /// Table `lpm`: the prefix has no entry any more.
    pub fn clear_route(&mut self, to: Ipv4Net) {
        self.routes.clear(to);
    }

    /// Table `ecmp`: where a bucket of a group goes, or that it has no entry any more.
    pub fn set_member(&mut self, member: Member, hop: Option<NextHop>) {
        self.routes.set_member(member, hop);
    }

    /// The tables `lpm` and `ecmp`, as the statements that fill them.
    pub fn routes(&self) -> impl Iterator<Item = Statement> {
        self.routes.statements()
    }

    /// Table `edge`: by this port come Sluice packets of these sources only.
    pub fn set_edge(&mut self, port: u16, sources: Option<Ipv4Net>) {
        if let Some(edge) = self.edges.get_mut(usize::from(port)) {
            *edge = sources;
        }
    }

    /// Table `links`: the link behind a port. Without one, packets leave by that port untouched.
    pub fn set_link(&mut self, port: u16, link: Option<Link>) {
        if let Some(place) = self.links.get_mut(usize::from(port)) {
            *place = link;
        }
    }

    /// Table `guard`, its default action: the present slot. Packets more than one slot away are neither counted nor
    /// answered; without a slot all are.
    pub fn set_guard(&mut self, slot: Option<Slot>) {
        self.guard = slot;
    }

    /// Every table is empty; registers, counters and the guard stay.
    pub fn clear_tables(&mut self) {
        self.routes = Routes::default();
        self.edges.fill(None);
        self.links.fill(None);
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the registers say a link's lane holds, as a packet of the period `slot` with this wrap lane reads it.
    pub fn load(&self, port: u16, lane: usize, slot: Slot, wrap: usize) -> i32 {
        self.registers.read(usize::from(port), lane, slot, wrap)
    }

    /// Takes a frame that came in by `port` through the pipeline, and rewrites it in place.
    pub fn process(&mut self, port: u16, frame: &mut [u8]) -> Verdict {
        let mut sluice = None;
        match self.forward(port, frame, &mut sluice) {
            Ok(out) => {
                let answered = sluice.as_mut().is_some_and(|packet| self.leave(out, packet, frame));
                self.counters.port(out).sent(frame.len());
                Verdict::Forward { port: out, answered }
            }
            Err(reason) => {
                self.counters.dropped(reason);
                Verdict::Drop(reason)
            }
        }
    }

    /// The ingress: by which port the frame leaves, its addresses and time to live rewritten, and what it carries of ours.
    fn forward(&mut self, port: u16, frame: &mut [u8], sluice: &mut Option<Packet>) -> Result<u16, Reason> {
        let parsed = frame::parse(frame, self.udp_port, sluice)?;
        if sluice.is_some()
            && let Some(Some(sources)) = self.edges.get(usize::from(port))
            && !sources.contains(&parsed.source)
        {
            return Err(Reason::Spoofed);
        }
        if parsed.ttl <= 1 {
            return Err(Reason::TtlExpired);
        }
        // A Sluice packet goes where the connection goes that it speaks of.
        let by = || sluice.as_ref().map_or_else(|| parsed.tuple(), |packet| packet.tuple);
        let hop = self.routes.next_hop(parsed.destination, by).ok_or(Reason::NoRoute)?;
        frame::forward(frame, hop);
        Ok(hop.port)
    }
}
