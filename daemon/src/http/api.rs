//! The routes.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Extension, FromRequest, Path, Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sluice_schedule::{FlowId, Nanos, Slot};
use sluice_wire::snapshot::{Command, Refused, ReloadRequest, SCHEMA, Snapshot};
use sluice_wire::text::parse_duration;
use sluice_wire::timeline::{Anchor, Filter};
use tokio::sync::{Semaphore, watch};

use super::exposition::{Expositions, prometheus};
use super::guard::{Caller, Rules};
use super::noted::Noted;
use super::places::Readings;
use super::stream::{Streams, Until, stream};
use super::{ALIVE_SLOTS, ALIVE_WITHIN, Control, Lack};

/// Largest body of a request.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;
/// Answers put together at a time; others wait.
pub(super) const RENDERINGS: usize = 2;
/// A flight record is handed out up to this.
const MAX_FLIGHT_BYTES: u64 = 1 << 30;
/// Bytes of a streamed answer per chunk, and chunks that wait for a slow reader.
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS: usize = 4;

#[derive(Clone)]
pub(super) struct App {
    pub control: Arc<dyn Control>,
    /// They change with a reload: see [`App::rules`].
    pub rules: watch::Receiver<Arc<Rules>>,
    pub readings: Readings,
    pub connection_time: Duration,
    /// Answers that may be put together at a time.
    pub renderings: Arc<Semaphore>,
    pub streams: Streams,
    pub expositions: Arc<Expositions>,
}

impl App {
    /// The rules that hold now.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.borrow().clone()
    }
}

/// All routes for one connection's caller, and for as long as the connection lives.
pub(super) fn router(app: App, caller: Caller, until: Until) -> Router {
    let details = Router::new()
        .route("/api/v1/snapshot", get(snapshot))
        .route(
            "/api/v1/host",
            get(async |State(app)| part(app, |snapshot| serde_json::to_value(snapshot.brief())).await),
        )
        .route("/api/v1/jobs", get(async |State(app)| list(app, "jobs", |snapshot| &snapshot.jobs).await))
        .route("/api/v1/flows", get(async |State(app)| list(app, "flows", |snapshot| &snapshot.flows).await))
        .route("/api/v1/links", get(async |State(app)| list(app, "links", |snapshot| &snapshot.links).await))
        .route("/api/v1/switches", get(async |State(app)| list(app, "switches", |snapshot| &snapshot.switches).await))
        .route("/api/v1/schedule", get(schedule))
        .route("/api/v1/conditions", get(conditions))
        .route("/api/v1/config", get(config))
        .route("/api/v1/explain/{flow}", get(explain))
        .route("/api/v1/timeline", get(timeline))
        .route("/api/v1/flight", get(flight))
        .route("/api/v1/stream", get(stream))
        .route("/", get(page))
        .layer(middleware::from_fn_with_state(app.clone(), details_allowed));
    let commands = Router::new()
        .route(
            "/api/v1/mode",
            post(async |State(app), caller, request| asked(app, caller, request, Command::Mode).await),
        )
        .route("/api/v1/reload", post(reload))
        .route(
            "/api/v1/drain",
            post(async |State(app), caller, request| asked(app, caller, request, Command::Drain).await),
        )
        .route("/api/v1/log", post(async |State(app), caller, request| asked(app, caller, request, Command::Log).await))
        .route("/api/v1/audit", get(audit))
        .layer(middleware::from_fn_with_state(app.clone(), commands_allowed));
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(prometheus))
        .merge(details)
        .merge(commands)
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), host_checked))
        .layer(Extension(caller))
        .layer(Extension(until))
        .with_state(app)
}

async fn host_checked(State(app): State<App>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().copied();
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let mut response = match caller {
        Some(Caller::Tcp(_)) if !app.rules().host_is_ours(host) => refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "not-permitted",
            "the Host header is not a name of this host",
            "use localhost, or an address of http.listen",
        ),
        Some(Caller::Tcp(_)) if request.method() != Method::GET && request.method() != Method::HEAD => refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            "not-permitted",
            "over TCP this is read-only",
            "commands are taken on the Unix socket: sluice --socket PATH mode …",
        ),
        Some(_) => next.run(request).await,
        None => refuse(StatusCode::INTERNAL_SERVER_ERROR, "unavailable", "caller unknown", "report this"),
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

async fn details_allowed(State(app): State<App>, request: Request, next: Next) -> Response {
    let rules = app.rules();
    match request.extensions().get::<Caller>() {
        Some(&caller) if rules.may_read_details(caller) => next.run(request).await,
        _ => {
            let (message, help) = rules.refused_details();
            refuse(StatusCode::FORBIDDEN, "not-permitted", message, &help)
        }
    }
}

/// Before the body is read: who may not command cannot make the daemon wait for one either.
async fn commands_allowed(State(app): State<App>, request: Request, next: Next) -> Response {
    match request.extensions().get::<Caller>() {
        Some(&caller) if app.rules().may_command(caller) => next.run(request).await,
        caller => {
            super::noted::refused(caller.copied(), request.uri().path());
            let help = app.rules().how_to_command();
            refuse(StatusCode::FORBIDDEN, "not-permitted", "this user may not give commands", &help)
        }
    }
}

async fn livez(State(app): State<App>) -> Response {
    let snapshot = app.control.snapshot();
    let slots = std::time::Duration::from_nanos(snapshot.clock.slot_length_ns) * ALIVE_SLOTS;
    let allowed = slots.max(ALIVE_WITHIN);
    // Before the first slot the start itself is what moves; a supervisor has its own time-out for it.
    match app.control.loop_age() {
        Some(age) if age > allowed => {
            let message = format!("the slot loop has not moved for {:.1} s\n", age.as_secs_f64());
            (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
        }
        _ => "ok\n".into_response(),
    }
}

async fn readyz(State(app): State<App>) -> Response {
    let snapshot = app.control.snapshot();
    let first_slot = app.control.loop_age().is_some();
    let ready = snapshot.daemon.ready && first_slot;
    let word = |good: bool| if good { "ok" } else { "not yet" };
    let body = format!(
        "configuration ok\nbackend {} ({})\nfirst slot {}\n",
        word(snapshot.daemon.ready),
        snapshot.enforcement.backend.as_str(),
        word(first_slot)
    );
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body).into_response()
}

async fn page() -> Response {
    let sluice_page::Page { html, policy } = sluice_page::HOST;
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    ([kind, (header::CONTENT_SECURITY_POLICY, policy)], html).into_response()
}

async fn snapshot(State(app): State<App>) -> Response {
    part(app, |snapshot| serde_json::to_value(snapshot)).await
}

/// One list of the snapshot.
async fn list<T: Serialize + 'static>(app: App, name: &'static str, of: fn(&Snapshot) -> &Vec<T>) -> Response {
    part(app, move |snapshot| Ok(json!({ "schema": SCHEMA, name: serde_json::to_value(of(snapshot))? }))).await
}

async fn conditions(State(app): State<App>) -> Response {
    part(app, |snapshot| {
        let conditions = serde_json::to_value(&snapshot.conditions)?;
        Ok(json!({ "schema": SCHEMA, "state": snapshot.daemon.state, "conditions": conditions }))
    })
    .await
}

async fn schedule(State(app): State<App>) -> Response {
    part(app, |snapshot| {
        let flows: Vec<Value> = snapshot
            .flows
            .iter()
            .map(|flow| json!({ "id": flow.id, "job": flow.job, "to": flow.to, "next_bps": flow.next_bps, "why": flow.why }))
            .collect();
        let links: Vec<Value> = snapshot
            .links
            .iter()
            .map(|link| json!({ "name": link.name, "capacity_bps": link.capacity_bps, "next_bps": link.next_bps }))
            .collect();
        let (slot, length) = (snapshot.clock.slot, snapshot.clock.slot_length_ns);
        Ok(json!({ "schema": SCHEMA, "slot": slot, "slot_length_ns": length, "flows": flows, "links": links }))
    })
    .await
}

async fn config(State(app): State<App>) -> Response {
    blocking(move || app.control.config()).await.map_or_else(unavailable, |config| Json(config).into_response())
}

async fn explain(State(app): State<App>, Path(flow): Path<String>) -> Response {
    let digits = flow.strip_prefix("0x").unwrap_or(&flow);
    let Ok(id) = u64::from_str_radix(digits, 16) else {
        return refuse(StatusCode::BAD_REQUEST, "invalid", "a flow id is up to 16 hexadecimal digits", "sluice flows");
    };
    match blocking(move || app.control.explain(FlowId(id))).await {
        Some(Some(explanation)) => Json(explanation).into_response(),
        Some(None) => refuse(StatusCode::NOT_FOUND, "not-found", "no flow with this id is known now", "sluice flows"),
        None => unavailable(),
    }
}

#[derive(Deserialize)]
struct TimelineQuery {
    last: Option<String>,
    job: Option<String>,
    format: Option<String>,
}

async fn timeline(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<TimelineQuery>,
) -> Response {
    let last = match query.last.as_deref().map(parse_duration).transpose() {
        Ok(last) => last,
        Err(message) => return refuse(StatusCode::BAD_REQUEST, "invalid", &message, "last=60s"),
    };
    let filter = Filter { last, job: query.job };
    let format = query.format.unwrap_or_else(|| "chrome".into());
    let kind = match format.as_str() {
        "chrome" | "otlp-json" => "application/json",
        "csv" => "text/csv; charset=utf-8",
        "jsonl" => "application/x-ndjson",
        _ => {
            return refuse(
                StatusCode::BAD_REQUEST,
                "invalid",
                "format is not known",
                "format=chrome, csv, jsonl or otlp-json",
            );
        }
    };
    let operator = || blocking_command(app.rules(), caller);
    let Some(place) = app.readings.begin(operator).await else {
        app.control.turned_away(Lack::Reading);
        let help = "others are reading it; try again in some seconds";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the timeline is being read too often", help);
    };
    let (send, receive) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(CHUNKS);
    tokio::task::spawn_blocking(move || {
        // Until all is written, or the connection is over.
        let _place = place;
        let ring = app.control.timeline();
        let mut out = io::BufWriter::with_capacity(CHUNK_BYTES, Chunks(send));
        // A reader that goes away ends the writing; there is nobody left to tell.
        let _ = match format.as_str() {
            "csv" => ring.csv(&mut out, &filter),
            "otlp-json" => ring.otlp(&mut out, &filter, anchor(&app.control.snapshot())),
            "jsonl" => ring.jsonl(&mut out, &filter),
            _ => ring.chrome(&mut out, &filter),
        }
        .and_then(|()| out.flush());
    });
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receive));
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// The flight record, as it lies on disk.
async fn flight(State(app): State<App>, Extension(caller): Extension<Caller>) -> Response {
    let operator = || blocking_command(app.rules(), caller);
    let Some(place) = app.readings.begin(operator).await else {
        app.control.turned_away(Lack::Reading);
        let help = "others are reading it; try again in some seconds";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the record is being read too often", help);
    };
    let control = app.control.clone();
    let opened = blocking(move || control.flight().map(std::fs::File::open)).await.flatten();
    let file = match opened {
        Some(Ok(file)) => file,
        Some(Err(error)) => {
            let help = "see the daemon's log for flight-failed";
            return refuse(StatusCode::NOT_FOUND, "not-found", &format!("the flight record: {error}"), help);
        }
        None => {
            let help = "set flight.file, or make node.state_dir, and reload";
            return refuse(StatusCode::NOT_FOUND, "not-found", "this daemon keeps no flight record", help);
        }
    };
    let (send, receive) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(CHUNKS);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let mut out = io::BufWriter::with_capacity(CHUNK_BYTES, Chunks(send));
        // A reader that goes away ends the copying; a file that is written meanwhile ends with what it has.
        let _ = io::copy(&mut io::Read::take(file, MAX_FLIGHT_BYTES), &mut out).and_then(|_| out.flush());
    });
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receive));
    ([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response()
}

/// Which moment a slot is, for those who do not count in slots.
fn anchor(snapshot: &Snapshot) -> Anchor {
    let clock = &snapshot.clock;
    let ahead = if clock.source == "tai" {
        Nanos::from_millis(u64::try_from(clock.tai_offset_s).unwrap_or(0) * 1000)
    } else {
        Nanos::ZERO
    };
    let unix = Nanos(snapshot.taken_unix_ns).minus(Nanos(clock.into_slot_ns)).minus(ahead);
    Anchor { slot: Slot(clock.slot), unix }
}

async fn blocking_command(rules: Arc<Rules>, caller: Caller) -> bool {
    blocking(move || rules.may_command(caller)).await == Some(true)
}

/// Writes into a body that is read elsewhere; blocks while the reader is slow.
struct Chunks(tokio::sync::mpsc::Sender<io::Result<Bytes>>);

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = Bytes::copy_from_slice(bytes);
        self.0.blocking_send(Ok(chunk)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A command that takes a body.
async fn asked<T: DeserializeOwned>(
    app: App,
    Extension(caller): Extension<Caller>,
    request: Request,
    make: fn(T) -> Command,
) -> Response {
    match body(request).await {
        Ok(request) => command(app, caller, make(request), None).await,
        Err(refused) => *refused,
    }
}

async fn reload(State(app): State<App>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    match body::<ReloadRequest>(request).await {
        Ok(request) => command(app, caller, Command::Reload, Some(request.reason)).await,
        Err(refused) => *refused,
    }
}

async fn command(app: App, caller: Caller, command: Command, reason: Option<String>) -> Response {
    let act = move || {
        let (noted, began) = (Noted::new(&command, reason), Instant::now());
        let answer = app.control.command(command);
        app.control.note(noted.entry(caller, &answer, began.elapsed()));
        answer
    };
    match blocking(act).await {
        Some(Ok(outcome)) => Json(outcome).into_response(),
        Some(Err(refused)) => (StatusCode::UNPROCESSABLE_ENTITY, Json(refused)).into_response(),
        None => unavailable(),
    }
}

/// The JSON body of a command; an empty one is `{}`.
async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Box<Response>> {
    let bytes = Bytes::from_request(request, &()).await.map_err(|rejection| Box::new(rejection.into_response()))?;
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(text).map_err(|error| {
        let message = format!("the body is not what this command takes: {error}");
        Box::new(refuse(StatusCode::BAD_REQUEST, "invalid", &message, "see `sluice help mode`"))
    })
}

#[derive(Deserialize)]
struct AuditQuery {
    last: Option<u32>,
}

/// The commands that were given; for those who may give some.
async fn audit(State(app): State<App>, Query(query): Query<AuditQuery>) -> Response {
    let last = query.last.unwrap_or(20) as usize;
    blocking(move || app.control.audit(last)).await.map_or_else(unavailable, |audit| Json(audit).into_response())
}

async fn part(app: App, render: impl FnOnce(&Snapshot) -> serde_json::Result<Value> + Send + 'static) -> Response {
    // Of many flows an answer takes many times its length while it is put together.
    let Ok(_turn) = app.renderings.clone().acquire_owned().await else { return unavailable() };
    match blocking(move || render(&app.control.snapshot())).await {
        Some(Ok(value)) => Json(value).into_response(),
        _ => unavailable(),
    }
}

/// Runs what may block; `None` when the daemon is shutting down.
pub(super) async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(act).await.ok()
}

async fn not_found() -> Response {
    refuse(StatusCode::NOT_FOUND, "not-found", "no such page", "/ /livez /readyz /metrics /api/v1/snapshot")
}

pub(super) fn unavailable() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the daemon cannot answer now", "try again")
}

pub(super) fn refuse(status: StatusCode, code: &str, message: &str, help: &str) -> Response {
    (status, Json(Refused::new(code, message, help))).into_response()
}
