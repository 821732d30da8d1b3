//! What is wrong: stable codes, each with a severity, a sentence, a cost and a next step.

use serde::{Deserialize, Serialize};

words! {
    /// How bad a condition is.
    Severity {
        /// Everything works as configured.
        #[default]
        Info = "info",
        /// Something works less well than configured.
        Degraded = "degraded",
        /// Nothing is scheduled at all.
        Inactive = "inactive",
    }
    /// Worst of the conditions.
    State {
        /// Nothing is wrong, this is only worth knowing.
        #[default]
        Ok = "ok",
        /// Something works less well.
        Degraded = "degraded",
        /// Nothing is scheduled while it holds.
        Inactive = "inactive",
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident, $text:literal, $severity:ident, $cost:literal, $next:literal;)*) => {
        /// The stable codes. Never renamed; a new cause gets a new code.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ConditionCode {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
            /// A code of a later version.
            #[default]
            #[serde(other, rename = "unknown")]
            Unknown,
        }
        impl ConditionCode {
            /// Every code of this version.
            pub const ALL: &'static [ConditionCode] = &[$(ConditionCode::$variant),*];

            /// The word for people, JSON and labels.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ConditionCode::$variant => $text,)*
                    ConditionCode::Unknown => "unknown",
                }
            }
            /// How bad it usually is.
            pub const fn severity(self) -> Severity {
                match self {
                    $(ConditionCode::$variant => Severity::$severity,)*
                    ConditionCode::Unknown => Severity::Degraded,
                }
            }
            /// What the condition costs, in one sentence.
            pub const fn cost(self) -> &'static str {
                match self {
                    $(ConditionCode::$variant => $cost,)*
                    ConditionCode::Unknown => "",
                }
            }
            /// What to do about it, in one sentence.
            pub const fn next(self) -> &'static str {
                match self {
                    $(ConditionCode::$variant => $next,)*
                    ConditionCode::Unknown => "update sluice",
                }
            }
        }
    };
}

codes! {
    /// The slot clock cannot be trusted.
    ClockUnsafe, "clock-unsafe", Degraded,
        "no coordination between hosts; flows follow this host's own links only", "install and start chrony, then: sluice status";
    /// `tai` was asked for, but the kernel has no offset.
    ClockTaiUnset, "clock-tai-unset", Degraded,
        "slot numbers would differ from other hosts' by the offset, so this host schedules alone",
        "let the time service set the TAI offset, or use clock.source = \"realtime\"";
    /// A holder does not answer.
    SwitchUnreachable, "switch-unreachable", Degraded,
        "its links are scheduled from this host's own table: other hosts' plans are not seen there", "sluice switches";
    /// A holder's view is older than the horizon.
    FeedbackStale, "feedback-stale", Degraded,
        "shares on its links fall to an equal share; training is not affected otherwise", "sluice switches";
    /// A holder is not believed.
    FeedbackDoubted, "feedback-doubted", Degraded,
        "its links fall to an equal share until what it says fits what is measured", "sluice switches; look at the switch that is named";
    /// No holder's view counts: only own links are known.
    FeedbackLocalOnly, "feedback-local-only", Degraded,
        "hosts do not see each other's plans; flows share as without Sluice or better", "check the network to the switches";
    /// A switch is spoken to by a transport that carries no ranks, and the policy goes by ranks.
    RanksUnknown, "ranks-unknown", Info,
        "on its links whoever promised first keeps what he has until his round ends, whatever round has less left",
        "write transport = \"session\", or \"unary\", in [[switches]]";
    /// A worse backend than the best is in use.
    EnforcementFallback, "enforcement-fallback", Degraded,
        "rates follow orders less exactly", "sluice doctor";
    /// No backend works, or none was asked for.
    EnforcementNone, "enforcement-none", Inactive,
        "flows run under ordinary congestion control; training is not affected", "sluice doctor";
    /// Network namespaces this daemon may not enter.
    NetnsUncovered, "netns-uncovered", Degraded,
        "new connections there are paced; live ones, and jobs without a page, are not found",
        "install sluiced-containers.conf, which gives the daemon CAP_SYS_ADMIN";
    /// The flow table has no free row.
    FlowTableFull, "flow-table-full", Degraded,
        "further flows run under ordinary congestion control", "raise enforce.max_flows and restart";
    /// Flows are capped because of loss.
    LossGuard, "loss-guard", Degraded,
        "the flows concerned are held at what is delivered", "look for a bad link: sluice flows";
    /// Decisions come later than they should.
    SlotsLate, "slots-late", Degraded,
        "orders change later than planned; none expires", "give sluiced more CPU, or lengthen the slot";
    /// The deciding loop is no real-time thread, since the kernel refuses it.
    RealtimeRefused, "realtime-refused", Info,
        "where other programs keep the processors busy, decisions wait for their turn and come later",
        "sluice doctor; to do without: schedule.realtime = false";
    /// The deciding loop took too much to stay a real-time thread.
    RealtimeOverrun, "realtime-overrun", Info,
        "for a second, or up to a minute if it comes again, the deciding loop waits for its turn as other programs do",
        "none if it passes; else sluice status says what the daemon takes";
    /// Kernel events were lost.
    EventsLost, "events-lost", Info,
        "flows were found again by a scan a moment later", "none needed";
    /// A reload was refused.
    ConfigRejected, "config-rejected", Degraded,
        "the earlier configuration stays", "sluiced --check";
    /// What flows cross beyond this host's own links is not known.
    PathsUnknown, "paths-unknown", Degraded,
        "nothing is promised to any other host or switch: flows follow this host's own links only",
        "name a topology.json that has this node under `topology`, then: sluiced --check";
    /// The rate of an own link is not known.
    LinkSpeedUnknown, "link-speed-unknown", Degraded,
        "flows there run under ordinary congestion control", "set gbps in a [[links]] entry";
    /// A link is said to carry far more than its card does.
    LinkSpeedDiffers, "link-speed-differs", Degraded,
        "the smaller rate counts", "mend gbps in [[links]], or the capacity in the topology";
    /// Probes are to find the paths of flows, and cannot.
    RoutesUnprobed, "routes-unprobed", Degraded,
        "flows of which no switch says by which of several equal paths they go are scheduled on the links that all have in common",
        "install sluiced-probes.conf, which gives the daemon CAP_NET_RAW, and name switches' port_addresses in the topology";
    /// A job's plan cannot be followed.
    PlanRejected, "plan-rejected", Degraded,
        "the job runs as if it had no plan", "mend the plan and start the job again: sluice plan check FILE";
    /// A job was slower with Sluice than without, and is left alone for a while.
    NotHelping, "not-helping", Info,
        "the job's flows run under ordinary congestion control until it is tried again",
        "sluice jobs ID; to keep it managed all the same: enforce.benefit = false";
    /// Somebody changed a sysctl or an attachment of ours.
    ForeignChange, "foreign-change", Degraded,
        "rates may be off; Sluice does not fight over settings", "sluice doctor";
    /// Another host or switch has another slot grid or cluster.
    ClusterMismatch, "cluster-mismatch", Degraded,
        "the host or switch concerned is not listened to", "make slot.length_ms, slot.horizon and node.cluster equal";
    /// The host has RDMA devices.
    RdmaUnmanaged, "rdma-unmanaged", Info,
        "what jobs move by RDMA (InfiniBand, RoCE) passes no socket and is neither managed nor measured",
        "none where jobs use TCP; NCCL_IB_DISABLE=1 in a job's environment makes NCCL use it";
    /// The peer service lets everybody connect.
    PeersOpen, "peers-open", Info,
        "any host that reaches the port can hold this host's flows at their floor",
        "write the hosts' networks into peer.peers, and leave peer.open out";
    /// Other machines can speak without proof of who they are.
    Unauthenticated, "unauthenticated", Info,
        "any machine that reaches the port from a listed network can speak as any host, and hold flows at their floor",
        "give hosts and switches certificates, and leave unauthenticated out: sluice tls --help";
    /// The own certificate is over, or its time has not come.
    CertExpired, "cert-expired", Degraded,
        "no other host or switch exchanges anything with this one; flows follow its own links only",
        "issue it anew: sluice tls rotate, or see what renews it; is the clock right?";
    /// Little of the own certificate's life is left.
    CertExpiresSoon, "cert-expires-soon", Info,
        "nothing yet; after that no other host or switch exchanges anything with this one",
        "issue it anew: sluice tls rotate, or see what renews it";
    /// The files of the own certificate cannot be used.
    CertificatesUnusable, "certificates-unusable", Degraded,
        "what was in force before stays; without any, nothing is exchanged with other hosts and switches",
        "mend the files that [tls] names: sluice tls show";
    /// etcd, from which the fleet's word comes, is not heard.
    FleetUnreachable, "fleet-unreachable", Degraded,
        "nothing by itself: mode, network and plans stay as they were last heard, but no news of the fleet comes",
        "check the network to the fleet.etcd addresses and the certificates: sluice fleet show";
    /// Something that the fleet says was not taken.
    FleetRejected, "fleet-rejected", Degraded,
        "what held before still holds on this host; other hosts may have taken the news",
        "mend the value: sluice fleet show KEY, sluice fleet set; after etcd was restored from a copy: sluice fleet set epoch";
    /// The mode was set by hand, and the fleet's does not hold.
    FleetByHand, "fleet-by-hand", Info,
        "the mode of this host's group in the fleet does not hold here until the host is given back",
        "sluice mode fleet";
    /// Too many starts in a short time, none of which ended in order.
    RestartLoop, "restart-loop", Inactive,
        "Sluice stays out of the way: its mode is bypass until somebody asks for another or stops it in order",
        "read the log of the last start, then: sluice mode active";
}

/// One thing that is wrong now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Which condition it is.
    pub code: ConditionCode,
    /// How bad it is.
    pub severity: Severity,
    /// The switch, link, file or flow concerned; empty: the host.
    pub subject: String,
    /// What happened, in one sentence.
    pub sentence: String,
    /// What it costs, in one sentence.
    pub cost: String,
    /// What to do about it, in one sentence.
    pub next: String,
    /// Since when, ns since 1970; 0: not known.
    pub since_unix_ns: u64,
}

impl Condition {
    /// A condition with the usual severity, cost and next step of its code.
    pub fn new(code: ConditionCode, subject: impl Into<String>, sentence: impl Into<String>) -> Condition {
        Condition {
            code,
            severity: code.severity(),
            subject: subject.into(),
            sentence: sentence.into(),
            cost: code.cost().to_owned(),
            next: code.next().to_owned(),
            since_unix_ns: 0,
        }
    }
}

impl Severity {
    /// The state a host with this condition is in at best.
    pub const fn state(self) -> State {
        match self {
            Severity::Info => State::Ok,
            Severity::Degraded => State::Degraded,
            Severity::Inactive => State::Inactive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_each_with_cost_and_next_step() {
        for code in ConditionCode::ALL {
            assert!(!code.cost().is_empty() && !code.next().is_empty(), "{}", code.as_str());
            let json = serde_json::to_string(code).expect("serialises");
            assert_eq!(json, format!("\"{}\"", code.as_str()));
            assert_eq!(serde_json::from_str::<ConditionCode>(&json).expect("parses"), *code);
        }
        let later = serde_json::from_str::<ConditionCode>("\"of-a-later-version\"").expect("parses");
        assert_eq!(later, ConditionCode::Unknown);
    }
}
