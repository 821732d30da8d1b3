//! The recording of this host's work: begun and ended as the configuration says, told of every turn.

use sluice_formats::recording::{Line, Link, VERSION};
use sluice_schedule::{Event, FlowSpec, JobId, JobSpec, Nanos, Now};

use super::Core;
use crate::monitor::Monitor;
use crate::recorder::{Known, Recorder};

impl Known for Monitor {
    fn job(&self, job: JobId) -> Option<(&str, u64)> {
        self.jobs.get(&job).map(|job| (job.name.as_str(), job.rounds))
    }
    fn receiver(&self, spec: &FlowSpec) -> String {
        let address =
            || self.sockets.of_flow(spec.flow).map(|socket| socket.tuple.remote_ip().to_canonical().to_string());
        let named = self.fabric.name_of(spec.to).map(str::to_owned);
        named.or_else(address).unwrap_or_else(|| spec.to.to_string())
    }
}

impl Core {
    /// What this turn's events say of the jobs' work.
    pub(super) fn record(&mut self, now: Now) {
        let Some(recorder) = &mut self.recorder else { return };
        let mut lines = Vec::new();
        recorder.notes.turn(now, &self.events, &self.monitor.ended_rounds, &self.monitor, &mut lines);
        lines.into_iter().for_each(|line| recorder.say(line));
    }

    /// Begins, ends or changes the recording to what the configuration says. `wall`: the clock that slots are counted on.
    pub fn record_as_configured(&mut self, wall: Nanos) {
        let settings = &self.config.record;
        if let Some(recorder) = &mut self.recorder {
            recorder.notes.forget_rounds();
            if settings.file.as_ref() == Some(&recorder.path) && settings.max_bytes == recorder.max_bytes {
                return;
            }
        }
        self.recorder = None;
        let Some(path) = settings.file.clone() else { return };
        let fabric = &self.monitor.fabric;
        let links = fabric.links.iter();
        let start = Line::Start {
            version: VERSION,
            host: self.config.node.name.clone(),
            addresses: links.clone().flat_map(|link| &link.addresses).map(|a| a.to_canonical().to_string()).collect(),
            links: links.filter_map(|l| Some(Link { name: l.name.clone(), rate: l.capacity?.0 })).collect(),
            slot_ms: self.config.slot.length_ms,
            unix_ns: wall.0,
        };
        tracing::info!(event = "record", file = %path.display(), "the work of this host's jobs is recorded");
        match Recorder::start(path, settings.max_bytes, start) {
            Ok(recorder) => self.recorder = Some(recorder),
            Err(error) => tracing::warn!(
                event = "record-failed",
                %error,
                cost = "what jobs do is not recorded; they are scheduled as before",
                next = "name another file in record.file, and start again",
                "nothing is recorded"
            ),
        }
        // What was there before is told as if it came now.
        let jobs = self.monitor.jobs.iter().map(|(job, known)| JobSpec { job: *job, pattern: known.pattern });
        let mut known: Vec<Event> = jobs.map(Event::JobSeen).collect();
        known.extend(self.host.flows().map(|status| Event::FlowOpened(status.spec.clone())));
        std::mem::swap(&mut self.events, &mut known);
        self.record(self.now);
        self.events = known;
    }

    /// Ends the recording, and waits a moment for its last lines.
    pub fn end_recording(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
    }
}
