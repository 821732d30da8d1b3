//! Situations that runs should come to: a simulator that no longer does proves nothing about them.

macro_rules! situations {
    ($($name:ident = $text:literal,)*) => {
        /// Something that happened in a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Situation {
            $(#[doc = $text] $name,)*
        }

        /// All of them with what is said of each, in the order of their numbers.
        pub const SITUATIONS: &[(Situation, &str)] = &[$((Situation::$name, $text),)*];
    };
}

situations! {
    OrderExpired = "an order had expired on a sending flow",
    Promoted = "a round was promoted",
    ViewHeld = "a view was held",
    ViewDecayed = "a view decayed",
    ViewLocal = "a view was given up",
    NotWarm = "a restarted holder answered before its table was full",
    Wrapped = "slot numbers wrapped",
    HalfWrapped = "slot numbers passed the half of their range",
    WrappedWhileHolding = "slot numbers wrapped while a view was held",
    LastingCut = "a cut lasted into the calm",
    ClockDistrusted = "a host lost trust in its clock",
    ClockTrustedAgain = "a host trusted its clock again",
    SteppedAhead = "a clock was set ahead",
    SteppedBack = "a clock was set back",
    SteppedBackInGrace = "a clock was set back while last orders lived on",
    SlotsSkipped = "a host skipped slots",
    SlotWaited = "a host waited for a clock that was set back",
    MachinePaused = "a machine stood still and its clock with it",
    RouteLearned = "a route was learned",
    RouteForgotten = "a route was not known any more",
    PathChanged = "a path changed",
    PathChangedInRound = "a path changed in mid-round",
    Repeated = "an announcement was repeated",
    TooLate = "an announcement came after a later one",
    Overtaken = "an announcement was overtaken on its way",
    GuardRefused = "the slot guard refused an announcement",
    GuardEdge = "an announcement for the next slot was taken",
    LeaseEnded = "a lease ended",
    LeaseEndedWhileDialing = "a lease ended while its host dialed",
    BackInsideLease = "a host came back inside its lease",
    QuotaRefused = "a limit refused an announcement",
    HostsFull = "a holder had no room for one more host",
    Clipped = "a host promised more than a link carries",
    StatusLeftOut = "a status was left out",
    OldBootAnswered = "an answer of a dead process came in",
    OldBootAnnounced = "an announcement of a dead process came in",
    AnsweredTheDead = "an answer came to a host whose daemon was dead",
    AnnouncedToTheDead = "an announcement came to a holder that was dead",
    DaemonCrashed = "a daemon died",
    DaemonCrashedInRound = "a daemon died while its flows were sending",
    DaemonStopped = "a daemon ended in order",
    BackInsideGrace = "a daemon came back while last orders lived on",
    GraceRanOut = "last orders ran out before a daemon came back",
    AdoptedLiveOrder = "a daemon adopted a flow whose order still lived",
    OwnerDiedMeanwhile = "a flow that the last daemon knew was gone when the next one came",
    DaemonHung = "a daemon hung",
    HungPastLease = "a daemon hung longer than its orders live",
    DaemonSlow = "a daemon was slow",
    OtherVersion = "a daemon came back in another version",
    HolderDied = "a holder died",
    HolderHung = "a holder hung",
    DialFailed = "a host dialed in vain",
    DialedOften = "a host dialed in vain four times in a row",
    DialedTogether = "two hosts dialed one holder within a millisecond",
    Reconnected = "a host reached a holder again",
    ConnectionReset = "a corrupted stream was closed",
    MessageLost = "a message was lost",
    MessageCopied = "a message was copied",
    MessageLate = "a message came more than a slot late",
    CutBothWays = "a host and a holder were cut off from each other",
    CutThere = "a host was not heard and heard",
    CutBack = "a host was heard and did not hear",
    JobDied = "a job died",
    JobDiedInRound = "a job died in mid-round",
    JobBorn = "a job came later",
    ShortRound = "a round was much shorter than the ones before",
    ClaimTooLarge = "a job claimed more than it had",
    ClaimTooSmall = "a job claimed less than it had",
    RoundBeganUnseen = "a round began while a daemon of its was dead",
    RoundEndedUnseen = "a round ended while a daemon of its was dead",
    WaitedForPredecessor = "a flow waited for what feeds it",
    RowRecycled = "a row of the kernel's table went to another flow",
    OrderForRecycled = "an order for a recycled row was refused",
    TableFull = "a flow found no row",
    FlowsReconnected = "a host's flows connected anew",
    SocketEventLate = "the end of a connection was told late",
    SumsOnly = "a holder kept sums only",
    MixedSchedules = "a second schedule of a slot met a double buffer",
    PromisedOver = "a link was promised more than it carries",
    CoreHealed = "a core was healed while the rest stayed broken",
    CoreBesideOneWay = "a core was healed beside a host that is only heard or only hears",
    CoreBesideDead = "a core was healed beside a dead host",
    CoreBesideWrongClock = "a core was healed beside a host in another slot",
    CoreBesideFlapping = "a core was healed beside a host that keeps restarting",
}

/// How often each of them came up.
#[derive(Clone, Debug)]
pub struct Seen(Vec<u64>);

impl Default for Seen {
    fn default() -> Self {
        Seen(vec![0; SITUATIONS.len()])
    }
}

impl Seen {
    pub(crate) fn note(&mut self, what: Situation, times: u64) {
        self.0[what as usize] += times;
    }

    /// Adds what another run came to.
    pub fn add(&mut self, other: &Seen) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, times)| *sum += times);
    }

    /// Every situation with how often it came up.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        SITUATIONS.iter().zip(&self.0).map(|((_, text), times)| (*text, *times))
    }
}
