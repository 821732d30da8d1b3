//! What the daemon asks of the kernel side, and the errors that opening it may end with.

use std::path::PathBuf;

use sluice_schedule::{Nanos, Rate};

use crate::abi;
use crate::datapath::Tier;
use crate::missing::Feature;

/// Most rows a table may have.
pub const MAX_FLOWS: u32 = 65_536;

/// How to open the datapath.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Suffix of the congestion control's name and of the pin directory: at most 8 of a-z and 0-9, so that several
    /// daemons can share a kernel.
    pub instance: String,
    /// Where bpffs is mounted.
    pub pin_root: PathBuf,
    /// cgroup v2 directories in which sockets can be paced without the congestion control ([`Tier::SetSockOpt`]); the other
    /// tiers need none.
    pub cgroups: Vec<PathBuf>,
    /// Rows of the tables, 1 to [`MAX_FLOWS`].
    pub max_flows: u32,
    /// No flow is ever paced below this.
    pub floor: Rate,
    /// No flow is ever paced above this.
    pub ceiling: Rate,
    /// The longest an order may be made to live: the grace of a planned restart, with room.
    pub longest_order: Nanos,
    /// Congestion control that released sockets get; `None`: each its own earlier one.
    pub release_to: Option<String>,
    /// Lost over delivered above which the loss guard trips.
    pub loss_guard: f64,
    /// Silence after which a send is reported as `Started`.
    pub idle: Nanos,
    /// When fewer than a tenth of the rows are free, those of flows that have been silent for this long, or of which
    /// nothing was acknowledged, are taken back.
    pub reclaim_after: Nanos,
    /// The tiers to try, in this order.
    pub tiers: Vec<Tier>,
    /// For tests: what is taken for missing in this kernel. Nothing else sets it.
    pub pretend_missing: Vec<Feature>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            instance: String::new(),
            pin_root: PathBuf::from("/sys/fs/bpf"),
            cgroups: Vec::new(),
            max_flows: 4096,
            floor: Rate::mbps(10),
            ceiling: Rate::mbps(100_000),
            longest_order: Nanos::from_millis(10_000),
            release_to: None,
            loss_guard: 0.05,
            idle: Nanos::from_millis(2),
            reclaim_after: Nanos::from_millis(60_000),
            tiers: vec![Tier::StructOps, Tier::StructOpsNoLink, Tier::SetSockOpt, Tier::None],
            pretend_missing: Vec::new(),
        }
    }
}

impl Options {
    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Option`] names the field, the value and what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |field, value: String, allowed| Err(Error::Option { field, value, allowed });
        let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if self.instance.len() > 8 || !self.instance.bytes().all(ok) {
            return bad("instance", self.instance.clone(), "at most 8 characters of a-z and 0-9");
        }
        if self.max_flows == 0 || self.max_flows > MAX_FLOWS {
            return bad("max_flows", self.max_flows.to_string(), "1 to 65536");
        }
        if self.floor.0 < 8 || self.floor > self.ceiling {
            return bad("floor", self.floor.to_string(), "more than 0 and at most the ceiling");
        }
        if let Some(name) = &self.release_to
            && (name.is_empty() || abi::name16(name).is_none() || name.starts_with("sluice") || name == "cdg")
        {
            return bad(
                "release_to",
                name.clone(),
                "a congestion control of at most 15 characters, not sluice, not cdg",
            );
        }
        if !(0.001..=1.0).contains(&self.loss_guard) {
            return bad("loss_guard", self.loss_guard.to_string(), "0.001 to 1");
        }
        if self.cgroups.len() > 64 {
            return bad("cgroups", format!("{} directories", self.cgroups.len()), "at most 64");
        }
        Ok(())
    }

    /// The congestion control's names: the first and the one taken while the first is in use.
    pub fn names(&self) -> [String; 2] {
        let first = format!("sluice{}", self.instance);
        let other = if self.instance.is_empty() { format!("{first}1") } else { format!("{first}_") };
        [first, other]
    }

    /// The directory of this instance's pins, without the ABI number.
    pub fn pin_dir(&self) -> PathBuf {
        self.pin_root.join(format!("sluice{}", self.instance))
    }
}

/// Why the datapath could not be opened, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is out of range.
    #[error("{field}: {value} is not allowed; allowed: {allowed}")]
    Option {
        /// The field of [`Options`].
        field: &'static str,
        /// The value that it was given.
        value: String,
        /// The values that the field takes, in words.
        allowed: &'static str,
    },
    /// A file of the system could not be used.
    #[error("{what} {path}: {error}")]
    File {
        /// What was tried, as a verb such as "write".
        what: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// Pins are there that belong to somebody else.
    #[error(
        "{path} belongs to uid {owner} with mode {mode:o}, expected uid {expected} and no write access for others: \
             remove it if it is not in use"
    )]
    Owner {
        /// The directory of pins.
        path: PathBuf,
        /// The uid that owns it.
        owner: u32,
        /// Its permission bits.
        mode: u32,
        /// The owner it should have.
        expected: u32,
    },
    /// What is pinned under a map's name is another one.
    #[error(
        "use the pin {path}: it is no map of ours (type, key, value, flags {seen:?}, not {meant:?}); sluiced cleanup removes it"
    )]
    ForeignMap {
        /// The pin.
        path: PathBuf,
        /// Its type, bytes of key and value, and flags.
        seen: [u32; 4],
        /// The same as these programs have them.
        meant: [u32; 4],
    },
    /// Sockets may still be paced where nobody can look, so nothing is detached.
    #[error("detach {path}: some network namespaces may not be entered, and sockets there may be paced")]
    Unentered {
        /// The directory of pins.
        path: PathBuf,
    },
    /// Attachments of earlier programs stay, of whose ceilings new ones would know nothing.
    #[error("replace the pins in {path}: {}", left.join("; "))]
    PinsStay {
        /// The directory of pins.
        path: PathBuf,
        /// What could not be given back or removed, and why.
        left: Vec<String>,
    },
    /// The kernel has no BTF, or not in the form it should have.
    #[error("type information of the kernel (/sys/kernel/btf/vmlinux): {0}")]
    Btf(String),
    /// aya refused or was refused.
    #[error("{what}: {error}")]
    Bpf {
        /// What was tried, as a verb with its object.
        what: &'static str,
        /// Every cause, outermost first.
        error: String,
        /// Was it for want of permission?
        denied: bool,
    },
    /// A test takes it for missing.
    #[error("this kernel is taken for one without {feature}, by a test")]
    Pretended {
        /// What is not used.
        feature: Feature,
    },
    /// The struct_ops step failed.
    #[error(transparent)]
    StructOps(#[from] sluice_struct_ops::Error),
    /// A program's costs are not known.
    #[error(transparent)]
    Verify(#[from] sluice_struct_ops::verify::VerifyError),
    /// A bpf(2) call failed.
    #[error(transparent)]
    Syscall(#[from] sluice_struct_ops::BpfError),
    /// The process that has the privileges did not do it.
    #[error("{what}, by the helper: {error}")]
    Helper {
        /// What was asked of it, as a verb with its object.
        what: &'static str,
        /// Its answer, or why there was none.
        error: std::io::Error,
    },
    /// Every tier that was allowed failed.
    #[error("no way to enforce rates works here: {}", reasons.join("; "))]
    NoTier {
        /// Why each was refused.
        reasons: Vec<String>,
    },
}

impl Error {
    /// Wraps an error of aya with all its causes, since its own text names only the outermost.
    pub(crate) fn bpf(what: &'static str, error: &(dyn std::error::Error + 'static)) -> Error {
        let mut text = error.to_string();
        let mut denied = false;
        let mut cause = Some(error);
        while let Some(inner) = cause {
            denied |= inner.downcast_ref::<std::io::Error>().is_some_and(is_denied);
            let more = inner.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = inner.source();
        }
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n");
        Error::Bpf { what, error: tail, denied }
    }

    /// Did the system refuse for want of permission (EPERM, EACCES)?
    pub(crate) fn denied(&self) -> bool {
        match self {
            Error::File { error, .. } | Error::Helper { error, .. } => is_denied(error),
            Error::Bpf { denied, .. } => *denied,
            Error::StructOps(sluice_struct_ops::Error::Kernel(refused)) | Error::Syscall(refused) => {
                is_denied(&refused.error)
            }
            Error::Option { .. }
            | Error::Owner { .. }
            | Error::ForeignMap { .. }
            | Error::Unentered { .. }
            | Error::PinsStay { .. }
            | Error::Btf(_)
            | Error::Pretended { .. }
            | Error::StructOps(_)
            | Error::Verify(_)
            | Error::NoTier { .. } => false,
        }
    }

    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>, error: std::io::Error) -> Error {
        Error::File { what, path: path.into(), error }
    }
}

fn is_denied(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_permission_is_known_by_its_errno_however_deep_it_lies() {
        #[derive(Debug, thiserror::Error)]
        #[error("a layer of a library")]
        struct Layer(#[source] std::io::Error);
        let bpf = |errno| Error::bpf("load", &Layer(std::io::Error::from_raw_os_error(errno)));
        assert!(bpf(libc::EPERM).denied() && bpf(libc::EACCES).denied() && !bpf(libc::EINVAL).denied());
        let text = bpf(libc::EPERM).to_string();
        assert!(text.contains("a layer of a library: Operation not permitted"), "{text}");
        let misled = std::io::Error::other("Permission denied, says a text");
        assert!(!Error::file("read", "/x", misled).denied());
    }

    #[test]
    fn defaults_pass_and_each_bad_field_is_named() {
        Options::default().check().unwrap();
        let cases: [(&str, Options); 6] = [
            ("instance", Options { instance: "Way-too-long".into(), ..Options::default() }),
            ("max_flows", Options { max_flows: 0, ..Options::default() }),
            ("floor", Options { floor: Rate(0), ..Options::default() }),
            ("release_to", Options { release_to: Some("sluice1".into()), ..Options::default() }),
            ("loss_guard", Options { loss_guard: f64::NAN, ..Options::default() }),
            ("cgroups", Options { cgroups: vec![PathBuf::new(); 65], ..Options::default() }),
        ];
        for (field, options) in cases {
            let text = options.check().unwrap_err().to_string();
            assert!(text.contains(field) && text.contains("allowed"), "{text}");
        }
    }

    #[test]
    fn both_names_fit_the_kernel() {
        let options = Options { instance: "abcdefgh".into(), ..Options::default() };
        assert!(options.names().iter().all(|n| abi::name16(n).is_some()));
        assert_eq!(Options::default().names(), ["sluice", "sluice1"]);
    }
}
