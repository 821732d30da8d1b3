//! The thread that forwards, where a data plane is configured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;
use sluice_data_plane::{DataPlane, Settings, Tally};
use sluice_schedule::BootId;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::time;
use crate::urgency::Urgency;

/// A thread that forwards until this is dropped.
pub struct Forwarding {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It looks once a slot; a panic in it has ended the process.
            drop(thread.join());
        }
    }
}

/// Opens the data plane, if the configuration has one.
pub fn open(config: &Config, boot: BootId) -> anyhow::Result<Option<DataPlane>> {
    let Some(plane) = &config.data_plane else { return Ok(None) };
    let settings = Settings {
        interfaces: plane.interfaces.clone(),
        tables: plane.tables.clone(),
        udp_port: plane.udp_port,
        slot: config.grid.slot_length,
        boot: boot.0,
        kernel: plane.kernel,
    };
    DataPlane::open(&settings).map(Some).context("E_ENV: data_plane")
}

/// Forwards from now on.
pub fn start(mut plane: DataPlane, config: &Config, metrics: &Arc<Metrics>) -> anyhow::Result<Forwarding> {
    let stop = Arc::new(AtomicBool::new(false));
    let tally = Arc::new(Tally::default());
    metrics.forwards(tally.clone());
    let (stopped, metrics, wanted, clock) = (stop.clone(), metrics.clone(), config.realtime, config.grid.clock);
    let body = move || {
        let mut urgency = Urgency::new(wanted, metrics);
        if let Err(error) = plane.run(&stopped, &tally, || time::wall(clock), || urgency.look()) {
            // A process that forwards no more would look alive.
            tracing::error!(
                event = "data-plane-failed",
                %error,
                cost = "nothing is forwarded until the process runs again",
                next = "the service manager starts it again; ip link says how the ports are",
                "ports cannot be waited for; the process ends"
            );
            std::process::abort();
        }
    };
    let thread = std::thread::Builder::new().name("forward".into()).spawn(body).context("starting a thread")?;
    Ok(Forwarding { stop, thread: Some(thread) })
}
