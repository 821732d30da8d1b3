//! Who asks and is turned away, counted by what there was no more of. Nothing is logged: a flood would be one of lines too.

use std::sync::atomic::{AtomicU64, Ordering};

use sluice_wire::snapshot::Counters;

/// What there was no more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A place among connections, of all or of the user.
    Connection,
    /// File descriptors.
    Descriptor,
    /// A place among the streams of the page.
    Stream,
    /// A place among readings of the timeline and of the flight record.
    Reading,
    /// A place among readers of the metrics.
    Metrics,
}

/// How many were turned away so far.
#[derive(Debug, Default)]
pub struct TurnedAway {
    connections: AtomicU64,
    descriptors: AtomicU64,
    streams: AtomicU64,
    readings: AtomicU64,
    metrics: AtomicU64,
}

impl TurnedAway {
    /// One more.
    pub fn add(&self, lack: Lack) {
        let count = match lack {
            Lack::Connection => &self.connections,
            Lack::Descriptor => &self.descriptors,
            Lack::Stream => &self.streams,
            Lack::Reading => &self.readings,
            Lack::Metrics => &self.metrics,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts all counts in the place of those that are there.
    pub fn tell(&self, counters: &mut Counters) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        counters.askers_refused_connections = read(&self.connections);
        counters.askers_refused_descriptors = read(&self.descriptors);
        counters.askers_refused_streams = read(&self.streams);
        counters.askers_refused_readings = read(&self.readings);
        counters.askers_refused_metrics = read(&self.metrics);
    }
}
