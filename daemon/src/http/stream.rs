//! `GET /api/v1/stream`: the snapshot as server-sent events, for the page.
//!
//! A stream asks for what is newest when its connection has room for it, so a reader that is slow skips snapshots and none
//! waits for it here. What several streams show at a time is put together once. Streams have few places of their own among
//! the connections, for TCP and for the Unix socket each, and end by themselves shortly before their connection would: a
//! browser connects again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde::Deserialize;
use sluice_page::events;
use sluice_page::host::{self, HISTORY, RECENT};
use sluice_page::pace::{Hz, Pace};
use sluice_schedule::Nanos;
use sluice_wire::snapshot::{Label, Snapshot};
use sluice_wire::timeline::Lanes;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::api::{App, blocking, refuse};
use super::guard::Caller;
use super::{Control, Lack};
use crate::clock::monotonic;

/// Streams over TCP at a time, of its 32 connections.
pub(super) const STREAMS_TCP: usize = 8;
/// And over the Unix socket.
const STREAMS_UNIX: usize = 4;
/// A browser whose stream ended connects again after this time.
const RETRY: Nanos = Nanos::from_millis(250);

/// The end of a connection, whatever it does then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until(pub Instant);

/// A stream ends so long before its connection: in order, not in the middle of an event.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(2);

/// All streams: their places, and what they show.
#[derive(Clone)]
pub(super) struct Streams {
    tcp: Arc<Semaphore>,
    unix: Arc<Semaphore>,
    newest: Arc<Mutex<Newest>>,
}

/// What is shown of the newest snapshot.
#[derive(Default)]
struct Newest {
    of: Option<Arc<Snapshot>>,
    lanes: Arc<Lanes>,
    /// The events that were put together, by the job whose flows they have.
    frames: BTreeMap<Option<Label>, Bytes>,
}

impl Default for Streams {
    fn default() -> Streams {
        let places = |most| Arc::new(Semaphore::new(most));
        Streams { tcp: places(STREAMS_TCP), unix: places(STREAMS_UNIX), newest: Arc::default() }
    }
}

impl Streams {
    /// A place for one more.
    pub fn place(&self, caller: Caller) -> Option<OwnedSemaphorePermit> {
        let places = if let Caller::Tcp(_) = caller { &self.tcp } else { &self.unix };
        Arc::clone(places).try_acquire_owned().ok()
    }

    /// The event of the newest snapshot: from memory if another stream had it already.
    async fn frame(
        &self,
        control: &Arc<dyn Control>,
        seen: &watch::Receiver<Arc<Snapshot>>,
        job: &Option<Label>,
    ) -> Option<Bytes> {
        let mut newest = self.newest.lock().await;
        let snapshot = seen.borrow().clone();
        if !newest.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &snapshot)) {
            let (control, shown) = (Arc::clone(control), Arc::clone(&snapshot));
            let lanes = blocking(move || host::lanes(&control.timeline(), &shown, RECENT)).await?;
            *newest = Newest { of: Some(Arc::clone(&snapshot)), lanes: Arc::new(lanes), frames: BTreeMap::new() };
        }
        if let Some(frame) = newest.frames.get(job) {
            return Some(frame.clone());
        }
        let (lanes, wanted) = (Arc::clone(&newest.lanes), job.clone());
        let frame = blocking(move || host::frame(&snapshot, &lanes, wanted.as_ref())).await?.ok()?;
        let frame = Bytes::from(frame);
        newest.frames.insert(job.clone(), frame.clone());
        Some(frame)
    }
}

#[derive(Deserialize)]
pub(super) struct StreamQuery {
    hz: Option<String>,
    job: Option<String>,
}

pub(super) async fn stream(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(until): Extension<Until>,
    Query(query): Query<StreamQuery>,
) -> Response {
    let hz = match query.hz.as_deref().unwrap_or("1").parse::<Hz>() {
        Ok(hz) => hz,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "invalid", &error.to_string(), "hz=1 or hz=4"),
    };
    let Some(place) = app.streams.place(caller) else {
        app.control.turned_away(Lack::Stream);
        let message = format!("{STREAMS_TCP} pages are open already, or {STREAMS_UNIX} streams on the Unix socket");
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &message, "close one, or use sluice top");
    };
    let job = query.job.filter(|job| !job.is_empty()).map(|job| Label::new(&job));
    let ends = until.0.checked_sub(FAREWELL).unwrap_or(until.0);
    let body = Body::from_stream(told(app.control, app.streams, (hz, job), ends, place));
    let mut response = body.into_response();
    // Nothing else comes over this connection, so that the next stream has one with all of its time.
    for (name, value) in [(header::CONTENT_TYPE, events::CONTENT_TYPE), (header::CONNECTION, "close")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What a stream says until it ends, each event when it is asked for.
pub(super) fn told(
    control: Arc<dyn Control>,
    streams: Streams,
    (hz, job): (Hz, Option<Label>),
    ends: Instant,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let (seen, pace) = (control.published(), Pace::new(hz));
    let source = Source { seen, control, streams, job, hz, pace, ends, begun: false, _place: place };
    futures_util::stream::unfold(source, Source::next)
}

/// One stream, between two events.
struct Source {
    control: Arc<dyn Control>,
    seen: watch::Receiver<Arc<Snapshot>>,
    streams: Streams,
    job: Option<Label>,
    hz: Hz,
    pace: Pace,
    ends: Instant,
    begun: bool,
    /// Until the stream is over.
    _place: OwnedSemaphorePermit,
}

impl Drop for Source {
    /// The last one leaves nothing in memory.
    fn drop(&mut self) {
        let Streams { tcp, unix, newest } = &self.streams;
        if tcp.available_permits() + unix.available_permits() + 1 == STREAMS_TCP + STREAMS_UNIX
            && let Ok(mut newest) = newest.try_lock()
        {
            *newest = Newest::default();
        }
    }
}

impl Source {
    /// The next event, as soon as it is time for it; none: the stream is over.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Source)> {
        let bytes = if self.begun { self.later().await? } else { self.first().await? };
        Some((Ok(bytes), self))
    }

    async fn first(&mut self) -> Option<Bytes> {
        self.begun = true;
        let (control, snapshot) = (Arc::clone(&self.control), self.seen.borrow_and_update().clone());
        let history = move || host::history(&host::lanes(&control.timeline(), &snapshot, HISTORY)).ok();
        let mut first = events::retry(RETRY);
        first.extend(blocking(history).await??);
        first.extend(self.streams.frame(&self.control, &self.seen, &self.job).await?);
        self.pace.take(monotonic());
        Some(first.into())
    }

    async fn later(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                changed = self.seen.changed() => changed.ok()?,
                () = tokio::time::sleep_until(self.ends) => return None,
            }
            // Whoever wants four a second says so, or the loop would publish one.
            if self.hz == Hz::Four {
                drop(self.control.snapshot());
            }
            if self.pace.take(monotonic()) {
                return self.streams.frame(&self.control, &self.seen, &self.job).await;
            }
        }
    }
}
