//! The kernel's program run on frames without an interface that carries any: for `sluice-fuzz-targets` and nobody else.

use aya::programs::SchedClassifier;
use aya::{TestRun, TestRunOptions};
use nix::net::if_::if_nametoindex;
use sluice_pipeline::control::Statement;

use crate::entries::Entries;
use crate::kernel::{Kernel, KernelError, PROGRAM};

/// What the program answers: nothing decided, and sent on.
const LEFT: u32 = u32::MAX;
const DONE: u32 = 2;

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is the pipeline's, and is as these bytes.
    Left(Vec<u8>),
    /// It left by this port, as these bytes.
    Sent(u16, Vec<u8>),
    /// The program answered something that it never answers, or counted at no port or at several.
    Strange(u32),
}

/// The program, attached nowhere.
pub struct Program {
    kernel: Kernel,
    ports: u16,
    counted: Vec<u64>,
}

impl Program {
    /// Loads it for so many ports, all of them the loopback, with these tables.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn load(udp_port: u16, ports: u16, tables: impl Iterator<Item = Statement>) -> Result<Program, KernelError> {
        let loopback = if_nametoindex("lo").map_err(|error| KernelError::Interface { name: "lo".into(), error })?;
        let mut kernel = Kernel::load(udp_port, &vec![loopback; ports.into()], 1 << 10)?;
        kernel.take_over(&Entries::of(tables))?;
        Ok(Program { kernel, ports, counted: vec![0; ports.into()] })
    }

    /// Runs it on a frame; `None`: this kernel makes no packet of it.
    pub fn run(&mut self, frame: &[u8]) -> Option<Fate> {
        let mut bytes = vec![0; frame.len() + 64];
        let program: &SchedClassifier = self.kernel.ebpf.as_ref()?.program(PROGRAM)?.try_into().ok()?;
        let options = TestRunOptions { data_in: Some(frame), data_out: Some(&mut bytes), ..TestRunOptions::new() };
        let result = program.test_run(options).ok()?;
        bytes.truncate(result.data_size_out as usize);
        if result.return_value == LEFT {
            return Some(Fate::Left(bytes));
        }
        let now: Vec<u64> = (0..self.ports).map(|port| self.kernel.count(port).frames).collect();
        let before = std::mem::replace(&mut self.counted, now);
        let mut more = (0..self.ports).filter(|port| before[usize::from(*port)] != self.counted[usize::from(*port)]);
        match (more.next(), more.next()) {
            (Some(port), None) if result.return_value == DONE => Some(Fate::Sent(port, bytes)),
            _ => Some(Fate::Strange(result.return_value)),
        }
    }
}
