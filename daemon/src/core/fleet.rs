//! How this host stands in its fleet: whose mode holds here, and what is wrong with the fleet's word.
//!
//! The word comes from `crate::fleet`, which talks to etcd; whose mode holds is decided by [`sluice_fleet::standing`]. A
//! host in no fleet has none of this.

use std::collections::BTreeMap;

use sluice_fleet::standing::Standing;
use sluice_fleet::view::Fault;
use sluice_schedule::Now;
use sluice_wire::snapshot::{FleetStatus, Mode as WireMode};

use super::Core;
use crate::conditions::ConditionCode;
use crate::config::Mode;

/// What is heard of the fleet, as the loop is told it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetWord {
    /// The group of this host.
    pub group: String,
    /// The mode of that group, if there is one.
    pub mode: Option<WireMode>,
    /// Up to where in etcd's history.
    pub revision: u64,
    pub connected: bool,
    /// When etcd was last heard, ns since 1970.
    pub heard_unix_ns: Option<u64>,
    /// A silence that is to be told.
    pub silence: Option<String>,
    /// What was heard and not taken.
    pub faults: Vec<Fault>,
}

/// A host in a fleet.
#[derive(Debug)]
pub struct Member {
    standing: Standing,
    word: FleetWord,
}

impl Core {
    /// This host is in a fleet. `by_hand`: the mode it begins with was set by hand, or for a reason of its own.
    pub fn join_fleet(&mut self, now: Now, word: FleetWord, by_hand: bool) {
        self.fleet = Some(Member { standing: Standing::new(by_hand), word: FleetWord::default() });
        self.hear_fleet(now, word);
    }

    /// The fleet's word has changed, or how well it is heard.
    pub fn hear_fleet(&mut self, now: Now, word: FleetWord) {
        let Some(member) = &mut self.fleet else { return };
        let wanted = member.standing.heard(word.mode);
        member.word = word;
        self.follow_fleet(now, wanted, "the fleet's word");
        self.judge_fleet(now);
    }

    /// Somebody set a mode on this host; `for_a_time`: it returns by itself.
    pub fn mode_set_by_hand(&mut self, now: Now, for_a_time: bool) {
        if let Some(member) = &mut self.fleet {
            member.standing.set_by_hand(for_a_time);
            self.judge_fleet(now);
        }
    }

    /// The fleet's mode holds again; `false`: this host is in no fleet.
    pub fn give_back_to_fleet(&mut self, now: Now) -> bool {
        let Some(member) = &mut self.fleet else { return false };
        let wanted = member.standing.give_back();
        // What was to return by itself has nothing to return from any more.
        self.mode_returns = None;
        self.follow_fleet(now, wanted, "given back to the fleet");
        self.judge_fleet(now);
        true
    }

    /// The time of a mode that was set for a time is over; the fleet's, if that is to follow.
    pub(super) fn fleet_after_time(&mut self) -> Option<Mode> {
        self.fleet.as_mut().and_then(|member| member.standing.time_over()).map(mode)
    }

    /// The fleet's mode, if it is to hold.
    pub fn fleet_wants(&self) -> Option<Mode> {
        self.fleet.as_ref().and_then(|member| member.standing.wanted()).map(mode)
    }

    fn follow_fleet(&mut self, now: Now, wanted: Option<WireMode>, why: &str) {
        if let Some(wanted) = wanted.map(mode)
            && wanted != self.mode
        {
            tracing::info!(event = "fleet-mode", to = wanted.word(), why, "the mode follows the fleet's");
            self.set_mode(now, wanted, None);
        }
    }

    /// Which conditions hold, by what was last heard.
    pub(super) fn judge_fleet(&mut self, now: Now) {
        let Some(member) = &self.fleet else { return };
        let unix = now.wall.0;
        let (silence, by_hand) = (member.word.silence.clone(), member.standing.by_hand());
        let faults: BTreeMap<String, String> =
            member.word.faults.iter().map(|fault| (fault.subject.clone(), fault.sentence.clone())).collect();
        let fleet = member.standing.fleet().map_or("none yet", WireMode::as_str);
        let text = format!("the mode {} holds by hand on this host; the fleet's is {fleet}", self.mode.word());
        self.conditions.hold(unix, ConditionCode::FleetByHand, "", by_hand.then_some(text));
        self.conditions.hold(unix, ConditionCode::FleetUnreachable, "", silence);
        let known = self.conditions.iter().filter(|condition| condition.code == ConditionCode::FleetRejected);
        let over: Vec<String> =
            known.map(|c| c.subject.clone()).filter(|subject| !faults.contains_key(subject)).collect();
        over.iter().for_each(|subject| self.conditions.clear(ConditionCode::FleetRejected, subject));
        for (subject, sentence) in faults {
            self.conditions.set(unix, ConditionCode::FleetRejected, &subject, sentence);
        }
    }

    /// How it stands; `None`: this host is in no fleet.
    pub fn fleet_status(&self) -> Option<FleetStatus> {
        let Member { standing, word } = self.fleet.as_ref()?;
        Some(FleetStatus {
            group: word.group.clone(),
            mode: standing.fleet(),
            by_hand: standing.by_hand(),
            revision: word.revision,
            connected: word.connected,
            heard_unix_ns: word.heard_unix_ns,
        })
    }
}

fn mode(mode: WireMode) -> Mode {
    match mode {
        WireMode::Observe => Mode::Observe,
        WireMode::Active => Mode::Active,
        WireMode::Bypass => Mode::Bypass,
    }
}
