//! Which directives a unit of ours may have, and what each takes. A directive is added here together with what carries it
//! out; one that is not here is an error.

/// What a directive's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// Words, which several lines add to; an empty line begins anew.
    Words,
    /// As [`Kind::Words`], a line an entry.
    Lines,
    /// `yes` or `no`.
    Yes,
    /// A whole number.
    Number,
    /// A time, `10s` or `100ms`.
    Time,
    /// A size in bytes, `512M`, or `infinity`.
    Size,
    /// `SOFT:HARD` or one value for both, of numbers, times or `infinity`.
    Limit,
    /// Capabilities.
    Capabilities,
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// Who carries a directive out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// This crate, on a process.
    Us,
    /// A service manager: when to start and restart, what a cgroup's controllers bound, and which files it hands over. Read and
    /// checked, not imitated.
    Manager,
}

/// Section, directive, what it takes, who carries it out.
pub(crate) const ALL: &[(&str, &str, Kind, By)] = &[
    ("Unit", "Description", Kind::Text, By::Manager),
    ("Unit", "Documentation", Kind::Words, By::Manager),
    ("Unit", "Wants", Kind::Words, By::Manager),
    ("Unit", "After", Kind::Words, By::Manager),
    ("Unit", "Before", Kind::Words, By::Manager),
    ("Unit", "Conflicts", Kind::Words, By::Manager),
    ("Unit", "DefaultDependencies", Kind::Yes, By::Manager),
    ("Unit", "StartLimitIntervalSec", Kind::Time, By::Manager),
    ("Unit", "StartLimitBurst", Kind::Number, By::Manager),
    ("Mount", "What", Kind::Text, By::Us),
    ("Mount", "Where", Kind::Text, By::Us),
    ("Mount", "Type", Kind::Text, By::Us),
    ("Mount", "Options", Kind::Text, By::Us),
    ("Service", "Type", Kind::OneOf(&["simple", "notify"]), By::Us),
    ("Service", "ExecStart", Kind::Lines, By::Us),
    ("Service", "ExecReload", Kind::Lines, By::Us),
    ("Service", "ExecStopPost", Kind::Lines, By::Us),
    ("Service", "Restart", Kind::OneOf(&["no", "on-failure", "always"]), By::Manager),
    ("Service", "RestartSec", Kind::Time, By::Manager),
    ("Service", "RestartPreventExitStatus", Kind::Words, By::Manager),
    ("Service", "WatchdogSec", Kind::Time, By::Us),
    ("Service", "TimeoutStopSec", Kind::Time, By::Us),
    ("Service", "CPUQuota", Kind::Text, By::Manager),
    ("Service", "MemoryMax", Kind::Size, By::Manager),
    ("Service", "TasksMax", Kind::Number, By::Manager),
    ("Service", "RemoveIPC", Kind::Yes, By::Manager),
    ("Service", "IPAddressDeny", Kind::Words, By::Manager),
    ("Service", "IPAddressAllow", Kind::Words, By::Manager),
    ("Service", "User", Kind::Text, By::Us),
    ("Service", "Group", Kind::Text, By::Us),
    ("Service", "DynamicUser", Kind::Yes, By::Us),
    ("Service", "UMask", Kind::Number, By::Us),
    ("Service", "Nice", Kind::Number, By::Us),
    ("Service", "OOMScoreAdjust", Kind::Number, By::Us),
    ("Service", "LimitRTPRIO", Kind::Limit, By::Us),
    ("Service", "LimitRTTIME", Kind::Limit, By::Us),
    ("Service", "LimitNOFILE", Kind::Limit, By::Us),
    ("Service", "LimitMEMLOCK", Kind::Limit, By::Us),
    ("Service", "StateDirectory", Kind::Words, By::Us),
    ("Service", "LoadCredential", Kind::Words, By::Manager),
    ("Service", "ReadWritePaths", Kind::Words, By::Us),
    ("Service", "AmbientCapabilities", Kind::Capabilities, By::Us),
    ("Service", "CapabilityBoundingSet", Kind::Capabilities, By::Us),
    ("Service", "NoNewPrivileges", Kind::Yes, By::Us),
    ("Service", "ProtectSystem", Kind::OneOf(&["strict"]), By::Us),
    ("Service", "ProtectHome", Kind::Yes, By::Us),
    ("Service", "ProtectControlGroups", Kind::Yes, By::Us),
    ("Service", "ProtectKernelTunables", Kind::Yes, By::Us),
    ("Service", "ProtectKernelModules", Kind::Yes, By::Us),
    ("Service", "ProtectKernelLogs", Kind::Yes, By::Us),
    ("Service", "ProtectHostname", Kind::Yes, By::Us),
    ("Service", "ProtectProc", Kind::OneOf(&["invisible", "default"]), By::Us),
    ("Service", "ProcSubset", Kind::OneOf(&["pid", "all"]), By::Us),
    ("Service", "PrivateTmp", Kind::Yes, By::Us),
    ("Service", "PrivateDevices", Kind::Yes, By::Us),
    ("Service", "PrivateUsers", Kind::Yes, By::Us),
    ("Service", "PrivateMounts", Kind::Yes, By::Us),
    ("Service", "LockPersonality", Kind::Yes, By::Us),
    ("Service", "MemoryDenyWriteExecute", Kind::Yes, By::Us),
    ("Service", "RestrictSUIDSGID", Kind::Yes, By::Us),
    ("Service", "RestrictNamespaces", Kind::Words, By::Us),
    ("Service", "RestrictAddressFamilies", Kind::Words, By::Us),
    ("Service", "KeyringMode", Kind::OneOf(&["private"]), By::Manager),
    ("Service", "SystemCallArchitectures", Kind::OneOf(&["native"]), By::Us),
    ("Service", "SystemCallFilter", Kind::Lines, By::Us),
    ("Service", "SystemCallErrorNumber", Kind::OneOf(&["EPERM"]), By::Us),
    ("Install", "WantedBy", Kind::Words, By::Manager),
];

/// What a directive takes and who carries it out.
pub(crate) fn find(section: &str, key: &str) -> Option<(Kind, By)> {
    ALL.iter().find(|(of, name, ..)| *of == section && *name == key).map(|(_, _, kind, by)| (*kind, *by))
}
