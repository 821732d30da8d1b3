//! Starts everything and stops it again.
//!
//! | task | does | ends |
//! | --- | --- | --- |
//! | gRPC | serves sessions and calls | with the process |
//! | acceptor | lets connections in | with gRPC |
//! | certificates | reads them again when they change, if configured | with the process |
//! | slots | ends leases at every slot edge, reads the background file | with the process |
//! | counters | hears what switches count, if configured | with the process |
//! | pusher | tells hosts of changes, what comes together at once ([`push`]) | with the process |
//! | HTTP, UDP | if configured | with the process |
//! | routes | a thread that asks the kernel for them, if configured | with the tables |
//! | forwarding | a thread with the data plane, if configured | with the server |
//!
//! At a signal every session is told, connections get `FAREWELL` to read it, then the process is done: tables are soft
//! state, nothing has to be saved.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sluice_identity::Credentials;
use sluice_schedule::{BootId, Nanos};
use sluice_wire::accept::refused::Refusals;
use sluice_wire::accept::{self, Gate, Places};
use sluice_wire::hello::ClockSource;
use sluice_wire::refusal::RefusalId;
use sluice_wire::{limits, push};
use tokio::net::TcpListener;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::background::counted::Watch;
use crate::background::file::Background as BackgroundFile;
use crate::config::{Background, Config};
use crate::grpc::Service;
use crate::metrics::Metrics;
use crate::plane::Forwarding;
use crate::tables::Tables;
use crate::{certificates, http, plane, routes, time, udp};

/// How long hosts may take to read that this process goes.
const FAREWELL: Duration = Duration::from_millis(200);

/// A process that is ready to serve: tables are there, sockets are bound.
pub struct Server {
    config: Arc<Config>,
    tables: Arc<Tables>,
    metrics: Arc<Metrics>,
    credentials: Option<Arc<Credentials>>,
    refusals: Refusals,
    grpc: TcpListener,
    http: Option<TcpListener>,
    udp: Option<udp::Socket>,
    forwarding: Option<Forwarding>,
    watch: Option<Watch>,
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Where hosts open sessions and call, over TCP.
    pub grpc: SocketAddr,
    /// Where health and metrics are served; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Where the UDP format is answered; `None`: nowhere.
    pub udp: Option<SocketAddr>,
    /// Drawn at the start of this process; hosts see by it that the tables began anew.
    pub boot: BootId,
}

impl Server {
    /// Makes tables and binds sockets.
    pub async fn bind(config: Config) -> anyhow::Result<Server> {
        let kernel = sluice_clock::kernel().unwrap_or_default();
        let offset = u64::try_from(kernel.tai_offset).unwrap_or(0);
        if config.grid.clock == ClockSource::Tai && (offset == 0 || offset != config.tai_offset_s) {
            anyhow::bail!(
                "tai-offset-unset: clock.source is tai, but the kernel's TAI offset is {offset} s and clock.tai_offset_s {} s; let a time daemon set it, or use clock.source = \"realtime\" on every host and switch",
                config.tai_offset_s
            );
        }
        if config.require_sync && (!kernel.synchronised || kernel.max_error > config.max_clock_error) {
            tracing::warn!(
                event = "clock-unsynchronised",
                max_error_ms = kernel.max_error.0 / 1_000_000,
                cost = "hosts whose slots differ by more than one are refused",
                next = "start a time daemon; in a test set-up: clock.require_sync = false",
                "no time daemon steers this clock, or not well"
            );
        }
        let boot = time::draw_boot_id().context("cannot draw a boot id from /dev/urandom")?;
        let listen = async |key: &'static str, address: SocketAddr| {
            TcpListener::bind(address).await.with_context(|| format!("E_ENV: {key} = \"{address}\" cannot be bound"))
        };
        let grpc = listen("listen.grpc", config.grpc).await?;
        let http = match config.http {
            Some(address) => Some(listen("listen.http", address).await?),
            None => None,
        };
        let udp = match config.udp {
            Some(address) => Some(
                udp::Socket::bind(address, config.rcvbuf_bytes)
                    .with_context(|| format!("E_ENV: listen.udp = \"{address}\" cannot be bound"))?,
            ),
            None => None,
        };
        let (questions, answers) = routes::open(&config)?.unzip();
        let tables = Arc::new(Tables::new(&config, boot, questions));
        answers.map_or(Ok(()), |answers| routes::start(answers, &tables))?;
        let credentials = config.tls.clone().map(Credentials::open);
        let refusals = Refusals::default();
        let metrics = Arc::new(Metrics::new(&config, credentials.clone(), refusals.clone())?);
        let watch = match &config.background {
            Background::Counted(telemetry) => Some(Watch::open(telemetry).await?),
            Background::None | Background::File(_) => None,
        };
        let plane = plane::open(&config, boot)?;
        let forwarding = plane.map(|plane| plane::start(plane, &config, &metrics)).transpose()?;
        Ok(Server {
            config: Arc::new(config),
            tables,
            metrics,
            credentials,
            refusals,
            grpc,
            http,
            udp,
            forwarding,
            watch,
        })
    }

    /// The addresses with the ports that the kernel chose where the configuration says 0.
    pub fn bound(&self) -> anyhow::Result<Bound> {
        Ok(Bound {
            grpc: self.grpc.local_addr()?,
            http: self.http.as_ref().map(TcpListener::local_addr).transpose()?,
            udp: self.udp.as_ref().map(udp::Socket::local_addr).transpose()?,
            boot: self.tables.boot(),
        })
    }

    /// What it shows of itself.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// Serves until `stop` completes.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Server { config, tables, metrics, credentials, refusals, grpc, http, udp, forwarding, watch } = self;
        let slots = tokio::spawn(slot_loop(config.clone(), tables.clone()));
        let changing = tables.clone();
        let pusher = async move { push::run(changing.changed(), || changing.push()).await };
        let pusher = tokio::spawn(pusher);
        let mut tasks = vec![slots, pusher];
        tasks.extend(watch.map(|watch| tokio::spawn(watch.run(tables.clone(), metrics.clone()))));
        if let Some(listener) = http {
            let serve = http::serve(listener, config.clone(), tables.clone(), metrics.clone());
            tasks.push(tokio::spawn(async move {
                if let Err(error) = serve.await {
                    tracing::error!(
                        event = "http-failed",
                        %error,
                        cost = "nobody sees any more how it does; tables are kept as before",
                        next = "start sluice-switch again",
                        "health and metrics are no longer served"
                    );
                }
            }));
        }
        if let Some(socket) = udp {
            tasks.push(tokio::spawn(udp::serve(socket, config.clone(), tables.clone(), metrics.clone())));
        }
        let (ready, incoming) = tokio::sync::mpsc::channel(64);
        let places = Places::new(config.max_hosts.saturating_mul(2).saturating_add(64));
        let gate = Gate { credentials: credentials.clone(), refusals, ..Gate::plain(config.peers.clone(), places) };
        let service = Service::new(tables.clone(), metrics, gate.refusals.clone()).into_server();
        tasks.push(tokio::spawn(accept::serve(grpc, gate, ready)));
        tasks.extend(credentials.map(|credentials| tokio::spawn(certificates::watch(credentials))));
        let serving = limits::server().add_service(service).serve_with_incoming(ReceiverStream::new(incoming));
        let result = tokio::select! {
            result = serving => result.context("gRPC ended"),
            () = async {
                stop.await;
                let text = "shutting-down: this switch process ends; try again soon.";
                tables.end_all(&RefusalId::ShuttingDown.status(Code::Unavailable, text));
                tokio::time::sleep(FAREWELL).await;
            } => Ok(()),
        };
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        drop(forwarding);
        result
    }
}

async fn slot_loop(config: Arc<Config>, tables: Arc<Tables>) {
    let mut background = match &config.background {
        Background::File(path) => Some(BackgroundFile::new(path)),
        Background::None | Background::Counted(_) => None,
    };
    loop {
        if let Some(loads) = background.as_mut().and_then(BackgroundFile::changed) {
            let unknown = tables.set_background(&loads);
            tracing::info!(
                event = "background-read",
                links = loads.len(),
                unknown,
                "took over the unmanaged load of links"
            );
        }
        let next = tables.tick();
        tokio::time::sleep(Duration::from_nanos(next.max(Nanos::from_millis(1)).0)).await;
    }
}
