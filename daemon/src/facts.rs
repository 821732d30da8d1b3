//! What the loop itself does not know of the process.

use sluice_schedule::Nanos;

use crate::clock;
use crate::config::{Config, KEYS, MetricFlows, Mode};
use crate::core::Core;
use crate::numbers::Numbers;

/// What the loop itself does not know of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// CLOCK_MONOTONIC at the start.
    pub started: Nanos,
    /// The first turn is done and the backend is decided.
    pub ready: bool,
    /// The kernel side is open.
    pub enforcing: bool,
    pub reload_ok: bool,
    /// When the configuration was last taken, ns since 1970.
    pub reload_unix_ns: u64,
    /// Low 48 bits of the hash of the effective configuration.
    pub config_hash: u64,
    pub kernel: String,
    /// The loop is a real-time thread.
    pub realtime: bool,
    /// What takes privileges is done by another process.
    pub split: bool,
    /// Why the clock was last not trusted.
    pub last_refusal: String,
    /// Numbers of flows, where metrics are to tell them apart.
    pub numbers: Numbers,
}

impl Facts {
    pub fn new(core: &Core) -> Facts {
        let kernel = nix::sys::utsname::uname().map(|uts| uts.release().to_string_lossy().into_owned());
        let mut facts = Facts {
            started: clock::monotonic(),
            enforcing: core.mode() == Mode::Active,
            reload_ok: true,
            kernel: kernel.unwrap_or_default(),
            ..Facts::default()
        };
        facts.reloaded(clock::wall(core.config().clock.source).0, core);
        facts
    }
    /// Numbers the flows anew, if metrics are to tell them apart; forgets the numbers otherwise.
    pub fn number(&mut self, core: &Core) {
        if core.config().metrics.flows == MetricFlows::Index {
            self.numbers.follow(core.host().flows().map(|status| (status.spec.job, status.spec.flow)));
        } else {
            self.numbers = Numbers::default();
        }
    }
    pub fn reloaded(&mut self, unix_ns: u64, core: &Core) {
        self.reload_ok = true;
        self.reload_unix_ns = unix_ns;
        self.config_hash = hash(core.config());
    }
}

/// Low 48 bits of a hash over every key's value; keys that differ from host to host by nature are left out, and so is the mode,
/// which is rolled out rack by rack and is a metric of its own.
fn hash(config: &Config) -> u64 {
    let own = [
        "mode",
        "node.name",
        "node.run_dir",
        "node.state_dir",
        "node.instance",
        "peer.listen",
        "http.listen",
        "record.file",
        "fleet.group",
        "fleet.tls_cert",
        "fleet.tls_key",
        "tls.cert",
        "tls.key",
    ];
    let mut text = String::new();
    for key in KEYS.iter().filter(|key| !own.contains(&key.path)) {
        text.push_str(key.path);
        text.push_str(&(key.get)(config));
        text.push('\n');
    }
    sluice_schedule::units::fnv1a64(text.as_bytes()) & 0xffff_ffff_ffff
}
