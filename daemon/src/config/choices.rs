//! Settings that are one of a few words. What a word means stands with its key in [`super::settings`].

use sluice_formats::document::Value;

use super::value::{Element, Refusal, Rule, Setting, quoted, text_of, words};

words! {
    Mode {
        /// Look and plan, change nothing.
        Observe = "observe",
        /// Tell switches and enforce.
        Active = "active",
        /// Do nothing to flows; those that were managed are given back.
        Bypass = "bypass",
    }
    /// The clock that slots are counted on.
    ClockSource {
        /// CLOCK_REALTIME.
        Realtime = "realtime",
        /// CLOCK_TAI, where the kernel's offset is set.
        Tai = "tai",
    }
    Backend {
        Auto = "auto",
        StructOps = "struct_ops",
        /// A pacing ceiling.
        SetSockOpt = "setsockopt",
        None = "none",
    }
    /// The least enforcement the daemon starts with.
    Require {
        None = "none",
        StructOps = "struct_ops",
        Any = "any",
    }
    /// The congestion control a socket gets back.
    ReleaseTo {
        Earlier = "earlier",
        Cubic = "cubic",
        Bbr = "bbr",
        Reno = "reno",
    }
    Policy {
        /// Least remaining round first, promoted when old.
        SrptP = "srpt-p",
        /// The paper's algorithms, with our repairs.
        PrimalDual = "primal-dual",
        /// The paper's algorithms to the letter.
        PrimalDualLiteral = "primal-dual-literal",
        Fair = "fair",
    }
    /// What a flow may take beyond its order.
    Surplus {
        /// What is idle.
        Idle = "idle",
        /// Its part of what is left where unmanaged traffic was seen of late.
        Greedy = "greedy",
        Never = "never",
        Always = "always",
    }
    Transport {
        /// One stream per host.
        Session = "session",
        /// Two calls per slot.
        Unary = "unary",
        Udp = "udp",
        /// Datagrams that programmable switches write to on the way.
        Inband = "inband",
    }
    /// Where the load of unmanaged traffic on own links is read.
    CrossSource {
        None = "none",
        /// Byte counters of the network card.
        Nic = "nic",
        File = "file",
    }
    /// A way to recognise a job: what wrote its progress page, or whose environment variables name it.
    #[derive(Default)]
    JobSource {
        /// The profiler plug-in of NCCL.
        Nccl = "nccl",
        /// The preload library of PS-Lite, or its environment.
        PsLite = "pslite",
        /// torchrun's environment, or the preload library of other frameworks.
        Torch = "torch",
        Mpi = "mpi",
        Slurm = "slurm",
        /// `SLUICE_JOB_ID`, or the application's own page.
        #[default]
        Env = "env",
    }
    /// Who may read the page and `/api`.
    #[derive(Default)]
    Details {
        /// Everybody on this machine.
        #[default]
        Loopback = "loopback",
        /// Everybody who can connect.
        All = "all",
        /// Whoever may give commands.
        Operators = "operators",
    }
    MetricJobs {
        Off = "off",
        Id = "id",
    }
    /// Whether flows have series of their own.
    MetricFlows {
        Off = "off",
        /// Each has, by a number that is free again when it is gone.
        Index = "index",
    }
    LogFormat {
        /// journald under systemd, text on a terminal, else json.
        Auto = "auto",
        /// For journald: no time of its own.
        Journald = "journald",
        Json = "json",
        Text = "text",
    }
}
