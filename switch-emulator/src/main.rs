//! The command line of `sluice-switch`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use sluice_switch::config::{Config, LogFormat};
use sluice_switch::server::{Bound, Server};
use sluice_switch::{control, links, urgency, vectors};
use tokio::signal::unix::{SignalKind, signal};

/// Keeps the load tables of switches that cannot be programmed.
///
/// Hosts announce what they will send over which links, slot by slot, and hear what others announced. One process serves
/// many switches. It forwards traffic only with a [data_plane], as a programmable switch in software. Tables live in memory only: after a restart they are full again within two
/// slots, because hosts repeat their announcements in every slot.
#[derive(Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// File with the configuration
    #[arg(long, default_value = "/etc/sluice/sluice-switch.toml")]
    config: PathBuf,
    /// Check the configuration and exit: 0 if it is good, 2 if not.
    #[arg(long)]
    check: bool,
    /// Threads that serve. One is best up to a thousand hosts: the tables are behind one lock anyway.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
}

#[derive(Subcommand)]
enum Command {
    /// Write the stories that a programmable switch is tested with
    ///
    /// Each story is a row of phases, a folder each: commands for BMv2's simple_switch_CLI, what comes in by each port and
    /// what must leave by it, as captures (N_in.pcap, N_out.pcap) that simple_switch --use-files reads. The program is
    /// switch-emulator/p4/sluice.p4.
    Vectors {
        /// Folder for the stories
        #[arg(long, value_name = "DIR")]
        pcap: PathBuf,
    },
    /// Keep a P4 switch's tables filled and its guard in time, over P4Runtime
    ///
    /// The switch runs switch-emulator/p4/sluice.p4. Without this agent it refuses all packets of Sluice two slots later,
    /// and hosts do without it. Several agents of one switch take turns by their --election.
    Control(control::Control),
    /// Print the link statements of a programmable switch's tables
    ///
    /// Ports are numbered as the topology has the switch's links; the rest of the tables is the operator's. Hosts that have the same
    /// topology know by the signatures which way a flow goes.
    Links(links::Links),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        None => return serve(&arguments),
        Some(Command::Vectors { pcap }) => {
            vectors::write(pcap).map(|stories| println!("{}: {stories} stories", pcap.display()))
        }
        Some(Command::Control(control)) => keep_in_time(control),
        Some(Command::Links(of)) => links::print(of).map(|text| print!("{text}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn keep_in_time(control: &control::Control) -> anyhow::Result<()> {
    start_log(&Config::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        control::run(control, stop).await
    })
}

fn serve(arguments: &Arguments) -> ExitCode {
    let config = match Config::load(&arguments.config) {
        Ok(config) => config,
        Err(problems) => {
            eprintln!("{problems}. Nothing was started.");
            return ExitCode::from(2);
        }
    };
    if arguments.check {
        let ports: usize = config.switches.iter().map(|switch| switch.ports.len()).sum();
        println!("{}: good; {} switches with {ports} ports", arguments.config.display(), config.switches.len());
        return ExitCode::SUCCESS;
    }
    match run(config, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: Config, arguments: &Arguments) -> anyhow::Result<()> {
    start_log(&config);
    // A process with a dead task would look alive to some hosts and not to others: better none, restarted.
    std::panic::set_hook(Box::new(|info| {
        let backtrace = std::backtrace::Backtrace::force_capture();
        tracing::error!(event = "panic", %backtrace, "{info}");
        std::process::abort();
    }));
    let mut builder = match arguments.workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(arguments.workers.into()).enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        let told = format!(
            "{} switches, slot {}, horizon {}, clock {}, {}",
            config.switches.len(),
            config.grid.slot_length,
            config.grid.horizon,
            config.grid.clock,
            arguments.config.display()
        );
        // Several threads that never wait could leave a machine nothing.
        let realtime = config.realtime && arguments.workers == 1 && config.data_plane.is_none();
        let open = config.open.then(|| config.beyond_loopback()).flatten().map(|(_, address)| address);
        let server = Server::bind(config).await?;
        let bound = server.bound()?;
        tracing::info!(event = "started", version = env!("CARGO_PKG_VERSION"), grpc = %bound.grpc, boot = %bound.boot, "{told}");
        if let Some(address) = open {
            tracing::warn!(
                event = "peers-open",
                cost = "any machine that reaches the port can hold the cluster at its floor",
                next = "write the hosts' networks into peers, and leave open out",
                "everybody who reaches {address} may speak (open = true)"
            );
        }
        announce(&bound)?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!(event = "stopping", "sessions are told");
        };
        let urgent = urgency::keep(realtime, server.metrics());
        tokio::select! {
            result = server.run(stop) => result,
            never = urgent => match never {},
        }
    })
}

/// Says on stdout, in one line of JSON, where the process listens; port 0 in the configuration is an answered question.
fn announce(bound: &Bound) -> anyhow::Result<()> {
    let text = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string());
    let line = serde_json::json!({
        "grpc": text(Some(bound.grpc)),
        "http": text(bound.http),
        "udp": text(bound.udp),
        "boot": bound.boot.to_string(),
    });
    let mut out = std::io::stdout();
    // A closed stdout is no reason not to serve.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    Ok(())
}

fn start_log(config: &Config) {
    let builder = tracing_subscriber::fmt().with_env_filter(config.log_level.0.clone()).with_writer(std::io::stderr);
    let terminal = std::io::stderr().is_terminal();
    match config.log_format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Auto if !terminal => builder.json().init(),
        LogFormat::Auto | LogFormat::Text => builder.with_ansi(terminal).compact().init(),
    }
}
