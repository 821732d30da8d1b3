//! The command line of `sluice-switch`.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]

use std::convert::Infallible;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use sluice_logs::{Form, NotifyState, ServiceManager};
use sluice_switch::args::{Arguments, Command};
use sluice_switch::config::{Config, LogFormat};
use sluice_switch::server::{Bound, Server};
use sluice_switch::{control, links, urgency, vectors};
use tokio::signal::unix::{SignalKind, signal};

/// What the service manager had no room for is said again after this time.
const SAID_AGAIN: Duration = Duration::from_millis(500);

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
    let _log = start_log(&Config::default());
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
    let log = start_log(&config);
    let cost = "hosts do without its tables until it runs again; then these are full within two slots";
    sluice_logs::abort_on_panic(cost, || {});
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
        let unproven = config.unproven().filter(|_| config.unauthenticated).map(|(_, address)| address);
        let server = Server::bind(config).await?;
        let bound = server.bound()?;
        tracing::info!(event = "start", version = env!("CARGO_PKG_VERSION"), grpc = %bound.grpc, boot = %bound.boot, "{told}");
        if let Some(address) = open {
            tracing::warn!(
                event = "peers-open",
                cost = "any machine that reaches the port can hold the cluster at its floor",
                next = "write the hosts' networks into peers, and leave open out",
                "everybody who reaches {address} may speak (open = true)"
            );
        }
        if let Some(address) = unproven {
            tracing::warn!(
                event = "unauthenticated",
                cost = "any machine that reaches it from a listed network can speak as any host",
                next = "give hosts and this process certificates under [tls]: sluice tls --help",
                "nobody proves who it is at {address} (unauthenticated = true)"
            );
        }
        announce(&bound)?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!(event = "stop", "sessions are told");
            log.finish();
        };
        let urgent = urgency::keep(realtime, server.metrics());
        tokio::select! {
            result = server.run(stop) => result,
            never = urgent => match never {},
            never = tell_ready(ServiceManager::of_environment()) => match never {},
        }
    })
}

/// Tells the service manager that this serves, and again while it has no room for that word: it ends a process that never says it.
async fn tell_ready(mut manager: ServiceManager) -> Infallible {
    manager.tell(&NotifyState::Ready);
    while !manager.settle() {
        tokio::time::sleep(SAID_AGAIN).await;
    }
    std::future::pending().await
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
    Ok(())
}

fn start_log(config: &Config) -> sluice_logs::Started {
    let form = match config.log_format {
        LogFormat::Json => Form::Json,
        LogFormat::Auto => Form::Auto,
        LogFormat::Text => Form::Text,
    };
    sluice_logs::start(form, config.log_level.0.clone(), "sluice-switch")
}
