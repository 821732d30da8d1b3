//! Random loss on an interface, for tests: a tc program, since the machine may have no netem.

use aya::maps::{Array, MapData};
use aya::programs::{SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, Pod};

use crate::options::Error;

static PATH_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sluice_path.bpf.o"));
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
    /// [`Error::Bpf`] with the kernel's words (needs CAP_BPF and CAP_NET_ADMIN).
    pub fn attach(interface: &str, probability: f64) -> Result<Dropper, Error> {
        let what = "attach the dropper";
        let mut ebpf = attach(interface)?;
        let map = ebpf.take_map("sluice_loss").ok_or_else(|| Error::Btf("no map sluice_loss".into()))?;
        let loss = Array::try_from(map).map_err(|e| Error::bpf(what, &e))?;
        let mut dropper = Dropper { _ebpf: ebpf, loss };
        dropper.set(probability)?;
        Ok(dropper)
    }

    /// Changes the probability; the counters begin anew.
    ///
    /// # Errors
    /// [`Error::Bpf`] with the kernel's words.
    pub fn set(&mut self, probability: f64) -> Result<(), Error> {
        let scaled = (probability.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
        let row = Loss { probability: scaled, shortest: MIN_PACKET, passed: 0, dropped: 0 };
        self.loss.set(0, row, 0).map_err(|e| Error::bpf("set the probability of loss", &e))
    }

    /// Packets passed and dropped since the probability was set.
    pub fn counts(&self) -> (u64, u64) {
        self.loss.get(&0, 0).map_or((0, 0), |row| (row.passed, row.dropped))
    }
}

fn attach(interface: &str) -> Result<Ebpf, Error> {
    let name = "sluice_drop";
    let mut ebpf = Ebpf::load(PATH_OBJECT).map_err(|e| Error::bpf("load the path programs", &e))?;
    // Exists already on a second attachment; where the kernel takes links it is not needed at all.
    let _ = tc::qdisc_add_clsact(interface);
    let found = ebpf.program_mut(name).ok_or_else(|| Error::Btf(format!("the object has no program {name}")))?;
    let program: &mut SchedClassifier = found.try_into().map_err(|e| Error::bpf(name, &e))?;
    program.load().map_err(|e| Error::bpf(name, &e))?;
    program.attach(interface, TcAttachType::Egress).map_err(|e| Error::bpf(name, &e))?;
    Ok(ebpf)
}
