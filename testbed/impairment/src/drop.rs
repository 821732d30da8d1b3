//! Random loss on an interface: a tc program, checked in as the object that clang makes of `sluice_drop.bpf.c`.

use aya::maps::{Array, MapData, MapError};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, EbpfError, Pod};

static OBJECT: &[u8] = aya::include_bytes_aligned!("../sluice_drop.bpf.o");
/// Packets of at most this many bytes pass: bare acknowledgements and handshakes.
const MIN_PACKET: u64 = 100;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Loss {
    probability: u64,
    shortest: u64,
    passed: u64,
    dropped: u64,
}

// SAFETY: four integers without padding.
unsafe impl Pod for Loss {}

/// Why no packets are dropped.
#[derive(Debug, thiserror::Error)]
pub enum DropError {
    /// The object does not fit this source.
    #[error("the object has no program or no map of that name")]
    Object,
    /// The object was refused.
    #[error("loading the dropper: {0}")]
    Load(#[from] EbpfError),
    /// The program was refused or cannot be attached.
    #[error("the dropper's program: {0}")]
    Program(#[from] ProgramError),
    /// The map was refused.
    #[error("the dropper's map: {0}")]
    Map(#[from] MapError),
}

/// Drops packets that leave by one interface, at random, until it is dropped itself.
pub struct Dropper {
    // Holds the program and its attachment.
    _ebpf: Ebpf,
    loss: Array<MapData, Loss>,
}

impl Dropper {
    /// Attaches to the egress of `interface` in the caller's network namespace; `probability` from 0 to 1.
    ///
    /// # Errors
    /// The kernel's refusal (needs CAP_BPF and CAP_NET_ADMIN).
    pub fn attach(interface: &str, probability: f64) -> Result<Dropper, DropError> {
        let mut ebpf = attach(interface)?;
        let loss = Array::try_from(ebpf.take_map("sluice_loss").ok_or(DropError::Object)?)?;
        let mut dropper = Dropper { _ebpf: ebpf, loss };
        dropper.set(probability)?;
        Ok(dropper)
    }

    /// Changes the probability; the counters begin anew.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set(&mut self, probability: f64) -> Result<(), DropError> {
        let scaled = (probability.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
        let row = Loss { probability: scaled, shortest: MIN_PACKET, passed: 0, dropped: 0 };
        Ok(self.loss.set(0, row, 0)?)
    }

    /// Packets passed and dropped since the probability was set.
    pub fn counts(&self) -> (u64, u64) {
        self.loss.get(&0, 0).map_or((0, 0), |row| (row.passed, row.dropped))
    }
}

fn attach(interface: &str) -> Result<Ebpf, DropError> {
    let mut ebpf = Ebpf::load(OBJECT)?;
    // Exists already on a second attachment; where the kernel takes links it is not needed at all.
    let _ = tc::qdisc_add_clsact(interface);
    let program: &mut SchedClassifier = ebpf.program_mut("sluice_drop").ok_or(DropError::Object)?.try_into()?;
    program.load()?;
    program.attach(interface, TcAttachType::Egress)?;
    Ok(ebpf)
}
