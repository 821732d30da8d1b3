//! HTTP: health and metrics (`/livez`, `/readyz`, `/metrics`), the page and what it shows. Reads only, and only from this
//! machine unless the listening address says otherwise.

mod page;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sluice_schedule::Nanos;
use sluice_wire::accept::{Connection, Places};
use tokio::net::TcpListener;

use crate::config::Config;
use crate::metrics::{Lack, Metrics};
use crate::shown::Sources;
use crate::tables::{Overview, Tables};

const CONNECTIONS: usize = 32;
/// A connection ends after this long, whatever it does: nothing here takes long.
const LIFE: Duration = Duration::from_secs(10);

struct Shared {
    sources: Sources,
    streams: page::Streams,
}

/// Serves until the listener fails.
pub async fn serve(
    listener: TcpListener,
    config: Arc<Config>,
    tables: Arc<Tables>,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
    let bounded = Bounded { listener, places: Places::new(CONNECTIONS), metrics: metrics.clone() };
    let sources = Sources { tables, metrics, config, started: sluice_clock::monotonic() };
    let shared = Arc::new(Shared { sources, streams: page::Streams::default() });
    let details = Router::new()
        .route("/", get(page::page))
        .route("/api/v1/snapshot", get(page::snapshot))
        .route("/api/v1/stream", get(page::stream))
        .layer(middleware::from_fn_with_state(shared.clone(), page::allowed));
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(exposition))
        .merge(details)
        .layer(middleware::from_fn(check_host))
        .with_state(shared);
    let service = router.into_make_service_with_connect_info::<page::From>();
    axum::serve(bounded, service).await
}

struct Bounded {
    listener: TcpListener,
    places: Places,
    metrics: Arc<Metrics>,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    if let Some(connection) = self.places.admit(stream, Some(LIFE)) {
                        return (connection, address);
                    }
                    self.metrics.turned_away(Lack::Connection);
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Refuses names that are neither an address nor this machine: a page elsewhere must not read here by rebinding a name.
async fn check_host(request: Request, next: Next) -> Response {
    let mut response = match host_allowed(request.headers()) {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, "The Host header must be an address or localhost.\n").into_response(),
    };
    let headers = response.headers_mut();
    // The page has a stricter one.
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static("default-src 'self'"));
    for (name, value) in [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (header::CACHE_CONTROL, "no-store")] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn host_allowed(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// Has the slot loop moved?
fn alive(Sources { tables, config, .. }: &Sources) -> bool {
    let patience = config.grid.slot_length.times(10).max(Nanos::from_millis(5000));
    tables.since_tick() <= patience
}

async fn livez(State(shared): State<Arc<Shared>>) -> Response {
    if alive(&shared.sources) {
        return "ok\n".into_response();
    }
    let text = format!("the slot loop has not moved for {}\n", shared.sources.tables.since_tick());
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let kernel = sluice_clock::kernel().unwrap_or_default();
    let Overview { switches, sessions, .. } = shared.sources.tables.overview();
    let good = kernel.synchronised && kernel.max_error <= shared.sources.config.max_clock_error;
    let clock = match (good, shared.sources.config.require_sync) {
        (true, _) => "ok",
        (false, false) => "unsynchronised (accepted: clock.require_sync = false)",
        (false, true) => "unsynchronised: hosts whose slots differ are refused; start a time daemon",
    };
    let warm = switches.iter().filter(|report| report.warm).count();
    let body = format!(
        "configuration: ok\npeers: {}\nslot loop: {}, {} thread\nclock: {clock}\ntables: {warm} of {} warm\nsessions: {sessions}\n",
        who_may_speak(&shared.sources.config),
        if alive(&shared.sources) { "ok" } else { "stuck" },
        if shared.sources.metrics.is_realtime() { "a real-time" } else { "an ordinary" },
        switches.len(),
    );
    let status = if alive(&shared.sources) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, body).into_response()
}

/// Who is let in, as the readiness page says it.
fn who_may_speak(config: &Config) -> &'static str {
    match (config.open, config.unauthenticated && config.unproven().is_some()) {
        (true, _) => {
            "peers-open: everybody may speak, without proof of who it is (open = true, unauthenticated = true)"
        }
        (false, true) => "unauthenticated: nobody proves who it is (unauthenticated = true)",
        (false, false) => "ok",
    }
}

async fn exposition(State(shared): State<Arc<Shared>>) -> Response {
    match shared.sources.metrics.render(&shared.sources.tables) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_may_be_named() {
        let allowed = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            host_allowed(&headers)
        };
        assert!(allowed("localhost:9606") && allowed("127.0.0.1:9606") && allowed("[::1]:9606") && allowed("10.0.0.1"));
        assert!(!allowed("evil.example:9606") && !allowed("localhost.evil.example"));
        assert!(!host_allowed(&HeaderMap::new()));
    }
}
