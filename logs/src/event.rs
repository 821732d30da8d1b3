//! The names of all events, each with its level, who writes it and what it means. Conditions of `sluiced` are events too:
//! their names are their codes (`sluice_wire::snapshot::ConditionCode`), which have a table of their own.

use tracing::Level;

/// Who writes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// `sluiced`.
    Host,
    /// `sluice-switch`.
    Switch,
    /// Both.
    Both,
}

impl Who {
    /// As tables show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Who::Host => "`sluiced`",
            Who::Switch => "`sluice-switch`",
            Who::Both => "both",
        }
    }
}

macro_rules! events {
    ($($variant:ident, $name:literal, $level:ident, $who:ident, $means:literal;)*) => {
        /// Everything that is told at `info` or above. Names are stable: a new cause gets a new one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Event {
            $(#[doc = $means] $variant,)*
        }

        impl Event {
            /// Every event.
            pub const ALL: &'static [Event] = &[$(Event::$variant),*];

            /// What stands in the field `event`.
            pub const fn name(self) -> &'static str {
                match self { $(Event::$variant => $name,)* }
            }
            /// How loud it is: error, a person must act; warn, something began that costs; info, something changed.
            pub const fn level(self) -> Level {
                match self { $(Event::$variant => Level::$level,)* }
            }
            /// Who writes it.
            pub const fn who(self) -> Who {
                match self { $(Event::$variant => Who::$who,)* }
            }
            /// What it means, for people.
            pub const fn means(self) -> &'static str {
                match self { $(Event::$variant => $means,)* }
            }
        }
    };
}

events! {
    BackgroundRead, "background-read", INFO, Switch, "the file of unmanaged loads was read again";
    BackgroundUnreadable, "background-unreadable", WARN, Switch, "the file of unmanaged loads cannot be read; the last loads stay";
    CaptureFailed, "capture-failed", WARN, Host, "live sockets could not be captured";
    CertExpired, "cert-expired", WARN, Switch, "the certificate of the process is over, or not yet good";
    CertExpiresSoon, "cert-expires-soon", WARN, Switch, "less than three tenths of the life of the process's certificate are left";
    CertificatesRead, "certificates-read", INFO, Both, "another certificate is in force for new connections";
    CertificatesUnusable, "certificates-unusable", WARN, Switch, "the files of the certificate cannot be used; what was in force before stays";
    CleanupLeft, "cleanup-left", WARN, Host, "sockets that a dead daemon left could not be looked through";
    ClockStep, "clock-step", WARN, Switch, "the clock was stepped";
    ClockUnsynchronised, "clock-unsynchronised", WARN, Switch, "no time daemon steers the clock, or not well";
    Command, "command", INFO, Host, "an operator gave a command: who, what, why, and what came of it";
    CommandRefused, "command-refused", WARN, Host, "somebody who may not gave a command; nothing was done";
    CommandsUnrecorded, "commands-unrecorded", WARN, Host, "commands could not be written to the audit file; they were carried out all the same";
    ConfigRejected, "config-rejected", WARN, Host, "a configuration was not taken; the earlier one stays";
    ConfigReloaded, "config-reloaded", INFO, Host, "the configuration was read again";
    ConnectionRefused, "connection-refused", WARN, Both, "a connection was refused: it proves nothing, or something else than it says";
    Counted, "counted", INFO, Switch, "what a P4 switch counted";
    DataPlaneFailed, "data-plane-failed", ERROR, Switch, "ports cannot be waited for; the process ends";
    DataPlaneKernelOff, "data-plane-kernel-off", WARN, Switch, "the kernel forwards nothing any more; user space does";
    DataPlaneWithoutKernel, "data-plane-without-kernel", WARN, Switch, "the kernel cannot forward; user space does";
    Filled, "filled", INFO, Switch, "a P4 switch's tables are as they are to be";
    FleetHeard, "fleet-heard", INFO, Host, "the fleet's etcd is heard";
    FleetKept, "fleet-kept", WARN, Host, "the fleet's word cannot be kept, or read again, on this host";
    FleetMode, "fleet-mode", INFO, Host, "the mode follows the fleet's";
    FleetNetwork, "fleet-network", INFO, Host, "the fleet's switches and topology are in force";
    Flight, "flight", INFO, Host, "the last minutes of jobs are kept from now on, for sluice why";
    FlightAnew, "flight-anew", INFO, Host, "an earlier flight record is replaced: of another host or version";
    FlightFailed, "flight-failed", WARN, Host, "the flight recorder ends or did not begin";
    FlowReleased, "flow-released", INFO, Host, "a flow was given back to ordinary congestion control";
    GnmiEnded, "gnmi-ended", WARN, Switch, "a gNMI target tells nothing any more; it is asked again";
    GnmiMalformed, "gnmi-malformed", WARN, Switch, "a counter of a gNMI target cannot be read";
    HelloRefused, "hello-refused", WARN, Switch, "a host was refused";
    HelperEnded, "helper-ended", ERROR, Host, "the helper has ended, and the brain ends with it";
    HelperEntered, "helper-entered", INFO, Host, "the helper has found a job's process in another network namespace, which may be looked into from now on";
    HelperOpened, "helper-opened", INFO, Host, "the helper has loaded or adopted the kernel's programs and lent their maps";
    HelperReady, "helper-ready", INFO, Host, "the helper has confined itself and serves the brain";
    HelperRefused, "helper-refused", WARN, Host, "the helper did not do what the brain asked; told at the first, second, fourth, eighth time and so on";
    HostOverQuota, "host-over-quota", WARN, Both, "a host asked for more than its quota and is not listened to for a while";
    HttpFailed, "http-failed", ERROR, Switch, "health and metrics are no longer served";
    IterationLearned, "iteration-learned", INFO, Host, "how long a job computes and what it sends were found";
    JobBegin, "job-begin", INFO, Host, "a job appeared";
    JobEnd, "job-end", INFO, Host, "a job is gone";
    JobReleased, "job-released", WARN, Host, "a job was slower with Sluice than without, and is left alone";
    JobTriedAgain, "job-tried-again", INFO, Host, "a job that was left alone is managed again";
    KernelEvents, "kernel-events", WARN, Host, "the kernel's events cannot be waited for";
    Late, "late", WARN, Switch, "a P4 switch has not answered within a slot";
    LinksChanged, "links-changed", INFO, Host, "links came, went, or changed their speed";
    LogFallback, "log-fallback", WARN, Both, "journald does not take lines with fields; they are plain text";
    LogFilter, "log-filter", WARN, Host, "a filter of log lines cannot be used";
    Lost, "lost", WARN, Switch, "the session with a P4 switch ended; another begins";
    ModeChanged, "mode-changed", INFO, Host, "the mode changed";
    NetnsLost, "netns-lost", ERROR, Host, "there is no way back into the own network namespace; the process ends";
    PageForgotten, "page-forgotten", INFO, Host, "no connection that a progress page names has existed for ten minutes";
    PageIgnored, "page-ignored", INFO, Host, "what a page claims is not what the kernel counts; for a minute only the counts count";
    Panic, "panic", ERROR, Both, "a bug; the process ends";
    PeerRefused, "peer-refused", WARN, Both, "a connection from outside the listed networks was closed unread";
    PeerService, "peer-service", ERROR, Host, "other hosts cannot connect";
    PeersOpen, "peers-open", WARN, Switch, "everybody who reaches the port may speak";
    PlaceGiven, "place-given", INFO, Host, "where no place was free, a user or cgroup with more jobs or flows gave one to who has fewer";
    PlanFollowed, "plan-followed", INFO, Host, "a job runs a plan";
    Primary, "primary", INFO, Switch, "this agent writes a P4 switch's tables";
    Realtime, "realtime", INFO, Switch, "by which kind of thread hosts are served";
    RealtimeOverrun, "realtime-overrun", INFO, Switch, "the serving thread took too much to stay a real-time one";
    RealtimeRefused, "realtime-refused", INFO, Switch, "the kernel refuses a real-time thread";
    Record, "record", INFO, Host, "what jobs do is recorded from now on";
    RecordFailed, "record-failed", WARN, Host, "nothing more is recorded";
    RecordFull, "record-full", WARN, Host, "the record has its full size; nothing more is recorded";
    RowLost, "row-lost", WARN, Host, "a row of the kernel's tables could not be freed";
    SflowMalformed, "sflow-malformed", WARN, Switch, "an sFlow datagram cannot be read";
    SflowRefused, "sflow-refused", WARN, Switch, "sFlow from outside the allowed networks";
    SflowSocket, "sflow-socket", WARN, Switch, "the sFlow socket cannot be read";
    SockDiag, "sock-diag", WARN, Host, "the kernel does not tell of sockets";
    Socket, "socket", WARN, Host, "the Unix socket for commands cannot be opened";
    SocketsCaptured, "sockets-captured", INFO, Host, "sockets of jobs were captured";
    Split, "split", INFO, Host, "with privilege.split: who the brain runs as, and the helper's pid";
    SplitUser, "split-user", WARN, Host, "the brain's user is missing, and it runs as nobody";
    Start, "start", INFO, Both, "the program runs, with all that matters in one line";
    StateFileUnwritten, "state-file-unwritten", WARN, Host, "a small file for the next start cannot be written";
    Stop, "stop", INFO, Both, "the program ends in order";
    Suppressed, "suppressed", INFO, Both, "how many lines were left out, and of which events";
    SwitchDown, "switch-down", INFO, Host, "a holder of tables is lost";
    SwitchUp, "switch-up", INFO, Host, "a holder of tables answers";
    SysctlLeft, "sysctl-left", WARN, Host, "a setting of the kernel was not put back";
    SysctlRefused, "sysctl-refused", WARN, Host, "a setting of the kernel may not be changed";
    SysctlSet, "sysctl-set", INFO, Host, "a setting of the kernel was changed; it is put back at the end";
    TablesRead, "tables-read", INFO, Switch, "the tables of a data plane were read";
    TablesUnreadable, "tables-unreadable", WARN, Switch, "the tables of a data plane cannot be read; the last stay";
    Unauthenticated, "unauthenticated", WARN, Switch, "other machines can speak without proof of who they are";
    Unread, "unread", WARN, Switch, "counters or tables of a P4 switch could not be read";
    Waits, "waits", INFO, Switch, "another agent is primary at a P4 switch, or nobody is yet";
}

impl Event {
    /// The event of this name.
    pub fn of(name: &str) -> Option<Event> {
        Event::ALL.iter().copied().find(|event| event.name() == name)
    }

    /// Is every line told, however soon after one like it? So for what a person did, or what ends a process: the last of
    /// them is the one that counts.
    pub const fn is_told_each_time(self) -> bool {
        use Event::{Command, ConfigReloaded, ModeChanged, Panic, Start, Stop, Suppressed};
        matches!(self, Command | ConfigReloaded | ModeChanged | Panic | Start | Stop | Suppressed)
    }

    /// Is it told even when there were too many lines of all kinds? There can be few of these.
    pub(crate) const fn is_beyond_limits(self) -> bool {
        matches!(self, Event::Panic | Event::Suppressed)
    }

    /// The table of the documentation: Markdown, a row for each event.
    pub fn table() -> String {
        let mut table = String::from("| event | level | written by | means |\n| --- | --- | --- | --- |\n");
        for event in Event::ALL {
            let level = event.level().as_str().to_ascii_lowercase();
            let (name, who, means) = (event.name(), event.who().as_str(), event.means());
            table += &format!("| `{name}` | {level} | {who} | {means} |\n");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_with_hyphens_in_order_and_once_each() {
        let names: Vec<&str> = Event::ALL.iter().map(|event| event.name()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for (name, event) in names.iter().zip(Event::ALL) {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
            assert_eq!(Event::of(name), Some(*event));
        }
        assert_eq!(Event::of("no-such"), None);
    }

    #[test]
    fn the_page_of_events_has_this_table() {
        let page = include_str!("../../docs/events.md");
        let table = Event::table();
        assert!(page.contains(&table), "docs/events.md is to have this table:\n{table}");
        assert_eq!(page.matches("\n| `").count(), Event::ALL.len(), "and no other rows");
    }
}
