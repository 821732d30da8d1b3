//! What runs that kept all invariants have to say.

use std::collections::BTreeMap;

use sluice_schedule::units::{Nanos, mixed};

use crate::situations::Seen;

/// How links were promised, (link, slot) by (link, slot), at the moment in which the slot began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Promised {
    /// How many were looked at.
    pub samples: u64,
    /// How many of them were more than 5 % over.
    pub over_5: u64,
    /// How many were more than 25 % over.
    pub over_25: u64,
    /// Slots in a row that a link was more than 5 % over, at most.
    pub longest: u64,
    /// Largest promise as part of a link's rate.
    pub worst: f64,
}

/// What was counted.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of every action with its time, and of all bytes delivered.
    pub hash: u64,
    /// Rounds begun.
    pub rounds: u64,
    /// Announcements made.
    pub announcements: u64,
    /// Tables compared with the reference.
    pub tables: u64,
    /// (link, moment) pairs of which the orders in force were summed, the fill included.
    pub samples: u64,
    /// How many of them were more than 5 % over.
    pub over_5: u64,
    /// How many were more than 25 % over.
    pub over_25: u64,
    /// Largest sum of orders as part of a link's rate.
    pub worst: f64,
    /// What holders had accepted, by policy and kind of table.
    pub promised: BTreeMap<String, Promised>,
    /// Windows of fairness that were long enough to be judged.
    pub windows: u64,
    /// Least part of its max-min share that an honest job got, by policy.
    pub least_part: BTreeMap<String, f64>,
    /// Those of them that took 30 s and twenty rounds or more.
    pub long_windows: u64,
    /// Least part of its max-min share that an honest job got in one of these, by policy.
    pub least_long_part: BTreeMap<String, f64>,
    /// Announcements of a host in a slot in which nothing moved, at most.
    pub most_said_at_rest: u64,
    /// Cores that were healed, and those whose job had finished a round twenty slots later.
    pub cores: u64,
    /// See above.
    pub cores_in_time: u64,
    /// Time that passed in the runs.
    pub virtual_time: Nanos,
    /// How often named situations came up.
    pub seen: Seen,
}

impl Default for Report {
    fn default() -> Self {
        Report {
            hash: 0xcbf2_9ce4_8422_2325,
            rounds: 0,
            announcements: 0,
            tables: 0,
            samples: 0,
            over_5: 0,
            over_25: 0,
            worst: 0.0,
            promised: BTreeMap::new(),
            windows: 0,
            least_part: BTreeMap::new(),
            long_windows: 0,
            least_long_part: BTreeMap::new(),
            most_said_at_rest: 0,
            cores: 0,
            cores_in_time: 0,
            virtual_time: Nanos::ZERO,
            seen: Seen::default(),
        }
    }
}

impl Report {
    /// Adds what another run counted; in whatever order runs are added, the sum is the same.
    pub fn add(&mut self, other: &Report) {
        self.hash = self.hash.wrapping_add(mixed(other.hash));
        self.rounds += other.rounds;
        self.announcements += other.announcements;
        self.tables += other.tables;
        self.samples += other.samples;
        self.over_5 += other.over_5;
        self.over_25 += other.over_25;
        self.worst = self.worst.max(other.worst);
        self.windows += other.windows;
        self.most_said_at_rest = self.most_said_at_rest.max(other.most_said_at_rest);
        self.cores += other.cores;
        self.cores_in_time += other.cores_in_time;
        self.virtual_time = self.virtual_time.plus(other.virtual_time);
        self.seen.add(&other.seen);
        self.long_windows += other.long_windows;
        let both = [(&mut self.least_part, &other.least_part), (&mut self.least_long_part, &other.least_long_part)];
        for (sum, more) in both {
            for (policy, part) in more {
                let least = sum.entry(policy.clone()).or_insert(f64::INFINITY);
                *least = least.min(*part);
            }
        }
        for (kind, more) in &other.promised {
            let sum = self.promised.entry(kind.clone()).or_default();
            sum.samples += more.samples;
            sum.over_5 += more.over_5;
            sum.over_25 += more.over_25;
            sum.longest = sum.longest.max(more.longest);
            sum.worst = sum.worst.max(more.worst);
        }
    }
}
