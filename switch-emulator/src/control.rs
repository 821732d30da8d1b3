//! The agent of a P4 switch as a program: `sluice-switch control`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use sluice_p4runtime::agent::{self, News, Settings};
use sluice_p4runtime::client::program::Program;
use sluice_p4runtime::client::{Deadlines, Target};
use sluice_pipeline::control::{Statement, statements};
use sluice_schedule::Nanos;
use sluice_wire::hello::ClockSource;

use crate::time;

/// Bytes of a file at most: compiled programs are large.
const MAX_BYTES: u64 = 64 << 20;

/// What the agent is told.
#[derive(Args, Debug)]
pub struct Control {
    /// The switch's P4Runtime server, such as http://leaf7:9559
    #[arg(long, value_name = "URI")]
    target: String,
    /// Its number at that server
    #[arg(long, default_value_t = 1)]
    device: u64,
    /// File of statements, one a line: route, member, edge, link
    #[arg(long, value_name = "FILE")]
    tables: PathBuf,
    /// What the compiler says of sluice.p4, as binary protobuf; default: the numbers of this build's own server
    #[arg(long, value_name = "FILE", requires = "device_config")]
    p4info: Option<PathBuf>,
    /// The compiled program for the switch's target
    #[arg(long, value_name = "FILE", requires = "p4info")]
    device_config: Option<PathBuf>,
    /// Higher than that of other agents if this one is to be primary
    #[arg(long, default_value_t = 1)]
    election: u64,
    /// Length of a slot
    #[arg(long, value_name = "MS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=200))]
    slot_ms: u64,
    /// How long before it begins the switch is told a slot
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=100))]
    lead_ms: u64,
    /// How often counters are read and tables looked at
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    poll_s: u64,
}

/// Runs the agent until `stop` completes; what it tells goes to the log.
///
/// # Errors
/// A file that cannot be read, or what no further try can change.
pub async fn run(arguments: &Control, stop: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
    let program = match (&arguments.p4info, &arguments.device_config) {
        (Some(info), Some(config)) => {
            Program::new(bytes(info)?, bytes(config)?).with_context(|| info.display().to_string())?
        }
        _ => Program::twin()?,
    };
    let settings = Settings {
        target: Target { uri: arguments.target.clone(), device: arguments.device, deadlines: Deadlines::default() },
        election: arguments.election.into(),
        program: Arc::new(program),
        tables: tables(&arguments.tables)?,
        slot_length: Nanos::from_millis(arguments.slot_ms),
        lead: Nanos::from_millis(arguments.lead_ms),
        poll: Duration::from_secs(arguments.poll_s),
    };
    agent::run(settings, || time::wall(ClockSource::Realtime), say, stop).await.context("the agent ends")
}

fn tables(path: &Path) -> anyhow::Result<Vec<Statement>> {
    let text = String::from_utf8(bytes(path)?).with_context(|| format!("{}: no UTF-8", path.display()))?;
    let read = |(line, statement): (usize, Result<Statement, _>)| {
        statement.with_context(|| format!("{}, line {line}", path.display()))
    };
    statements(&text).map(read).collect()
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    use std::io::Read;
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| path.display().to_string())?;
    anyhow::ensure!(bytes.len() as u64 <= MAX_BYTES, "{}: more than 64 MiB", path.display());
    Ok(bytes)
}

fn say(news: News) {
    match news {
        News::Waits { highest } => {
            tracing::info!(event = "waits", ?highest, "another agent is primary, or nobody is yet")
        }
        News::Primary => tracing::info!(event = "primary", "this agent writes"),
        News::Filled { restarted, written, removed } => {
            tracing::info!(event = "filled", restarted, written, removed, "the tables are as they are to be");
        }
        News::Slot(slot) => tracing::debug!(event = "slot", slot = slot.0, "the guard has it"),
        News::Late(slot) => tracing::warn!(
            event = "late",
            slot = slot.0,
            cost = "hosts' packets of that slot may be refused, and they do without the switch",
            next = "a longer slot, or an agent nearer to the switch, if it comes often",
            "the switch has not answered within a slot"
        ),
        News::Counted(counts) => {
            let sum =
                |of: fn(&sluice_pipeline::counters::PortCounters) -> u64| counts.ports.values().map(of).sum::<u64>();
            tracing::info!(
                event = "counted",
                announcements = sum(|port| port.announcements),
                repeated = sum(|port| port.duplicates),
                guarded = sum(|port| port.rejected),
                frames = sum(|port| port.frames),
                "what the switch counted so far"
            );
        }
        News::Unread(error) => tracing::warn!(
            event = "unread",
            %error,
            cost = "what the switch counts is not known until it is read again",
            next = "nothing if it passes; else look at the switch's P4Runtime server",
            "counters or tables could not be read"
        ),
        News::Lost { error, pause } => {
            tracing::warn!(
                event = "lost",
                %error,
                ?pause,
                cost = "two slots later the switch refuses hosts' packets, and they do without it",
                next = "nothing if it passes; else look at the switch's P4Runtime server",
                "another session begins after a pause"
            );
        }
    }
}
