//! What a page says once, when it is created, and the small enumerations of its fields.

use crate::layout::NO_RANK;

macro_rules! field_enum {
    ($(#[$doc:meta])* $name:ident: $repr:ty, unknown $unknown:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            #[default]
            /// A value this version does not know, or none.
            $unknown,
        }
        impl $name {
            /// The value of the field; 0 for what is not known.
            pub const fn raw(self) -> $repr {
                match self {
                    $($name::$variant => $value,)*
                    $name::$unknown => 0,
                }
            }
            /// Reads the field; every unknown value is the unknown variant.
            pub const fn from_raw(raw: $repr) -> $name {
                match raw {
                    $($value => $name::$variant,)*
                    _ => $name::$unknown,
                }
            }
        }
    };
}
pub(crate) use field_enum;

field_enum! {
    /// Who writes the page.
    Source: u32, unknown Unknown {
        /// The NCCL profiler plug-in.
        NcclProfiler = 1,
        /// The PS-Lite preload library.
        PslitePreload = 2,
        /// A preload library that only sees sockets.
        GenericPreload = 3,
        /// The training program itself, or the testbed's.
        Application = 4,
    }
}

field_enum! {
    /// How the ranks exchange tensors.
    Pattern: u32, unknown Unknown {
        /// Every rank sends to the next.
        Ring = 1,
        /// Reduce up a tree, broadcast down.
        Tree = 2,
        /// Workers and parameter servers.
        ParameterServer = 3,
        /// Any rank to any other.
        PeerToPeer = 4,
    }
}

field_enum! {
    /// The part of this process in its job.
    Role: u32, unknown Peer {
        /// PS-Lite scheduler: moves no tensors.
        Scheduler = 1,
        /// A parameter server, which adds up what workers send.
        Server = 2,
        /// A worker, which sends gradients and fetches parameters.
        Worker = 3,
    }
}

field_enum! {
    /// What the process does now.
    State: u64, unknown Init {
        /// It computes; nothing is queued.
        Compute = 1,
        /// Tensors are queued and wait for the wire.
        Enqueued = 2,
        /// Tensors are on the wire.
        OnWire = 3,
        /// It will send no more.
        Finished = 4,
    }
}

/// What a page says once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The library or plug-in that writes the page.
    pub source: Source,
    /// Text of the job id, at most 64 bytes (longer text is cut); empty: not known.
    pub job_id: String,
    /// Library and version, at most 32 bytes: `nccl 2.28.9 v5`.
    pub producer: String,
    /// Equal on all ranks of one communicator; 0: not known.
    pub comm_id: u64,
    /// Rank of this process, or [`NO_RANK`].
    pub rank: u32,
    /// Number of ranks; 0: not known.
    pub nranks: u32,
    /// Number of hosts; 0: not known.
    pub nnodes: u32,
    /// Rank on this host, or [`NO_RANK`].
    pub local_rank: u32,
    /// How the ranks exchange tensors.
    pub pattern: Pattern,
    /// The part of this process.
    pub role: Role,
    /// Bytes this rank enqueues per iteration; 0: none given.
    pub hint_iter_bytes: u64,
    /// Time of computation per iteration in nanoseconds; 0: none given.
    pub hint_compute_ns: u64,
}

impl Ident {
    /// An identity with everything unknown but the source.
    pub fn new(source: Source) -> Ident {
        Ident {
            source,
            job_id: String::new(),
            producer: String::new(),
            comm_id: 0,
            rank: NO_RANK,
            nranks: 0,
            nnodes: 0,
            local_rank: NO_RANK,
            pattern: Pattern::Unknown,
            role: Role::Peer,
            hint_iter_bytes: 0,
            hint_compute_ns: 0,
        }
    }

    /// Fills what is still unknown from the environment: `SLUICE_JOB_ID`, else `SLURM_JOB_ID`, else
    /// `TORCHELASTIC_RUN_ID`; `SLUICE_ITER_BYTES`.
    pub fn with_environment(mut self) -> Ident {
        if self.job_id.is_empty() {
            let names = ["SLUICE_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"];
            // "none" is what torchrun calls every job that was given no name.
            let named = |text: &String| !text.is_empty() && text != "none";
            let found = names.iter().filter_map(|name| std::env::var(name).ok()).find(named);
            self.job_id = found.unwrap_or_default();
        }
        if self.hint_iter_bytes == 0 {
            let text = std::env::var("SLUICE_ITER_BYTES").unwrap_or_default();
            self.hint_iter_bytes = text.trim().parse().unwrap_or(0);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_value_comes_back_and_unknown_ones_are_unknown() {
        for raw in 0..5_u32 {
            assert_eq!(Source::from_raw(raw).raw(), raw);
            assert_eq!(Pattern::from_raw(raw).raw(), raw);
        }
        for raw in 0..4_u32 {
            assert_eq!(Role::from_raw(raw).raw(), raw);
        }
        for raw in 0..5_u64 {
            assert_eq!(State::from_raw(raw).raw(), raw);
        }
        assert_eq!(Source::from_raw(77), Source::Unknown);
        assert_eq!(State::from_raw(u64::MAX), State::Init);
    }
}
