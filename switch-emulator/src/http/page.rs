//! The page, its JSON, and the stream of events behind it. Names of hosts and their loads are shown on loopback only,
//! unless the configuration opens them.
//!
//! A stream waits for the next common moment, and what several show at it is put together once. It has a place among few,
//! and ends by itself shortly before its connection would: a browser connects again.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Json, Response};
use axum::serve::IncomingStream;
use serde::Deserialize;
use sluice_page::pace::{Hz, Pace};
use sluice_page::{events, holder};
use sluice_schedule::Nanos;
use sluice_wire::snapshot::Refused;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::{Bounded, LIFE, Shared};
use crate::metrics::Lack;
use crate::shown::Sources;

/// Streams at a time, of the connections that there may be.
const STREAMS: usize = 8;
/// A stream ends so long before its connection: in order, not in the middle of an event.
const FAREWELL: Duration = Duration::from_secs(2);
/// A browser whose stream ended connects again after this time.
const RETRY: Nanos = Nanos::from_millis(250);

/// The other end of a connection, and when the connection ends.
#[derive(Clone, Copy, Debug)]
pub struct From {
    address: SocketAddr,
    until: Instant,
}

impl Connected<IncomingStream<'_, Bounded>> for From {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> From {
        From { address: *stream.remote_addr(), until: Instant::now() + LIFE }
    }
}

/// All streams: their places, and what they show.
#[derive(Clone)]
pub struct Streams {
    places: Arc<Semaphore>,
    newest: Arc<Mutex<Newest>>,
}

#[derive(Default)]
struct Newest {
    /// Of which quarter of a second.
    tick: u64,
    frame: Bytes,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams { places: Arc::new(Semaphore::new(STREAMS)), newest: Arc::default() }
    }
}

impl Streams {
    /// The event of the present quarter of a second: from memory if another stream had it already.
    async fn frame(&self, sources: &Sources) -> Option<Bytes> {
        let tick = sluice_clock::monotonic().0 / Hz::Four.every().0;
        let mut newest = self.newest.lock().await;
        if newest.frame.is_empty() || newest.tick != tick {
            let snapshot = sources.take();
            // Not on the thread that answers hosts.
            let frame = tokio::task::spawn_blocking(move || holder::frame(&snapshot)).await.ok()?.ok()?;
            *newest = Newest { tick, frame: frame.into() };
        }
        Some(newest.frame.clone())
    }
}

/// Details are for this machine, unless they were opened.
pub async fn allowed(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<From>,
    request: Request,
    next: Next,
) -> Response {
    if shared.sources.config.details_for_all || from.address.ip().to_canonical().is_loopback() {
        return next.run(request).await;
    }
    let help = "set listen.details = \"all\" to open them";
    refuse(StatusCode::FORBIDDEN, "not-permitted", "details are answered on loopback only", help)
}

pub async fn page() -> Response {
    let sluice_page::Page { html, policy } = sluice_page::SWITCH;
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    ([kind, (header::CONTENT_SECURITY_POLICY, policy)], html).into_response()
}

pub async fn snapshot(State(shared): State<Arc<Shared>>) -> Response {
    Json(shared.sources.take()).into_response()
}

#[derive(Deserialize)]
pub struct StreamQuery {
    hz: Option<String>,
}

pub async fn stream(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<From>,
    Query(query): Query<StreamQuery>,
) -> Response {
    let hz = match query.hz.as_deref().unwrap_or("1").parse::<Hz>() {
        Ok(hz) => hz,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "invalid", &error.to_string(), "hz=1 or hz=4"),
    };
    let Ok(place) = Arc::clone(&shared.streams.places).try_acquire_owned() else {
        shared.sources.metrics.turned_away(Lack::Stream);
        let message = format!("{STREAMS} pages are open already");
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &message, "close one and try again");
    };
    let ends = from.until.checked_sub(FAREWELL).unwrap_or(from.until);
    let source = Source { shared, hz, ends, begun: false, _place: place };
    let mut response = Body::from_stream(futures_util::stream::unfold(source, Source::next)).into_response();
    // Nothing else comes over this connection, so that the next stream has one with all of its time.
    for (name, value) in [(header::CONTENT_TYPE, events::CONTENT_TYPE), (header::CONNECTION, "close")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// One stream, between two events.
struct Source {
    shared: Arc<Shared>,
    hz: Hz,
    ends: Instant,
    begun: bool,
    /// Until the stream is over.
    _place: OwnedSemaphorePermit,
}

impl Source {
    /// The next event, as soon as it is time for it; none: the stream is over.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Source)> {
        if !std::mem::replace(&mut self.begun, true) {
            let mut first = events::retry(RETRY);
            first.extend(self.shared.streams.frame(&self.shared.sources).await?);
            return Some((Ok(first.into()), self));
        }
        let now = sluice_clock::monotonic();
        let wait = Pace::next_common(self.hz, now).minus(now);
        let at = Instant::now() + Duration::from_nanos(wait.0);
        if at >= self.ends {
            return None;
        }
        tokio::time::sleep_until(at).await;
        let frame = self.shared.streams.frame(&self.shared.sources).await?;
        Some((Ok(frame), self))
    }
}

fn refuse(status: StatusCode, code: &str, message: &str, help: &str) -> Response {
    (status, Json(Refused::new(code, message, help))).into_response()
}
