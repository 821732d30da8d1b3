//! The record of a host's first round: for tests, and for `sluice-fuzz-targets` and nobody else.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use sluice_schedule::host::{Host, HostConfig};
use sluice_schedule::{BootId, Bytes, Event, FlowId, FlowSpec, Hop, HostId, JobId, LinkId, Nanos, Now, Rate, Slot};

use super::Recorder;

/// Bytes that a recorder has written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A flow is opened, its round begins, and a slot is over; a decision after each.
pub fn round() -> String {
    let written = Written::default();
    let mut recorder = Recorder::new(Box::new(written.clone()));
    let me = HostId::of("h0");
    let config = HostConfig::new(me, BootId(1));
    let mut host = Host::new(config.clone());
    recorder.start(&config);
    let now = |ms: u64| Now {
        mono: Nanos::from_millis(60_000 + ms),
        wall: Nanos::from_millis(60_000 + ms),
        slot: Slot(1000 + (ms / 60) as u32),
        into_slot: Nanos::from_millis(ms % 60),
    };
    let id = FlowId(u64::from(me.0) << 32 | 1);
    let path = vec![Hop { link: LinkId::egress(me), capacity: Rate::mbps(10_000), holder: None }];
    let spec = FlowSpec { flow: id, job: JobId(5), path, ..FlowSpec::default() };
    let began = Event::RoundBegan { job: JobId(5), flows: vec![(id, Bytes(1_000_000))] };
    for (ms, event) in [(0, Event::FlowOpened(spec)), (1, began), (60, Event::SlotEdge)] {
        recorder.event(now(ms), &event);
        host.handle(now(ms), event);
        let mut actions = Vec::new();
        host.decide(now(ms), &mut actions);
        recorder.decision(now(ms), &actions);
    }
    drop(recorder);
    let bytes = written.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8_lossy(&bytes).into_owned()
}
