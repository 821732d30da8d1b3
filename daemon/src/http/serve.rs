//! Listeners and connections: so many at a time of each kind and of each user, and so long for each of them.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::api::{App, RENDERINGS, router};
use super::guard::{Caller, Rules};
use super::places::{Place, Places, Readings};
use super::stream::{Streams, Until};
use super::{Control, Lack};

/// Connections at a time, for TCP and for the Unix socket each: neither can shut the other out.
pub(crate) const MAX_CONNECTIONS: usize = 32;
/// A connection lives this long, or who reads slowly would keep what is being told for as long as it likes. The `sluice`
/// command waits for less.
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// Questions at a time whether somebody is an operator: the system may have to ask a directory.
const MAX_QUESTIONS: usize = 2;
/// From the connection, or the last answer, to the end of the next request's header.
const HEADER_TIME: Duration = Duration::from_secs(2);
/// Who asks while fewer descriptors are free is turned away: those who look at connections open a few for a moment.
const SPARE: usize = 8;
/// After a failed accept, or while descriptors are short: others need the CPU more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct Listeners {
    /// TCP, read-only.
    pub tcp: Vec<TcpListener>,
    pub unix: Option<UnixListener>,
}

/// Binds the Unix socket; a socket that nobody listens on any more is replaced. Everybody may connect: the kernel
/// tells who it is, and commands are checked.
///
/// # Errors
/// The path is taken by something else, or by a daemon that lives.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    if let Ok(meta) = path.symlink_metadata() {
        if !meta.file_type().is_socket() {
            let message = format!("{} exists and is not a socket; move it away", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            let message = format!("another daemon answers on {}", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Answers until `shutdown` is done; then every connection is dropped. Each request is judged by the rules that hold
/// when it comes.
pub async fn serve(
    listeners: Listeners,
    control: Arc<dyn Control>,
    rules: watch::Receiver<Arc<Rules>>,
    shutdown: impl Future<Output = ()>,
) {
    serve_each_for(CONNECTION_TIME, listeners, control, rules, shutdown).await;
}

/// The same with connections that live so long.
pub(super) async fn serve_each_for(
    connection_time: Duration,
    listeners: Listeners,
    control: Arc<dyn Control>,
    rules: watch::Receiver<Arc<Rules>>,
    shutdown: impl Future<Output = ()>,
) {
    let renderings = Arc::new(Semaphore::new(RENDERINGS));
    let (readings, streams) = (Readings::default(), Streams::default());
    let expositions = Arc::default();
    let app = App { control, rules, readings, connection_time, renderings, streams, expositions };
    let mut tasks = JoinSet::new();
    let tcp_slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for listener in listeners.tcp {
        tasks.spawn(accept_tcp(listener, app.clone(), Arc::clone(&tcp_slots)));
    }
    if let Some(listener) = listeners.unix {
        tasks.spawn(accept_unix(listener, app));
    }
    shutdown.await;
    tasks.shutdown().await;
}

/// Are enough descriptors free? Who asks comes after those who look.
fn has_spare(listener: BorrowedFd<'_>) -> bool {
    (0..SPARE).map(|_| listener.try_clone_to_owned()).collect::<io::Result<Vec<_>>>().is_ok()
}

/// What was accepted, if that worked and enough descriptors are free. Otherwise it is turned away, and a pause made.
async fn admitted<T>(accepted: io::Result<T>, listener: BorrowedFd<'_>, app: &App) -> Option<T> {
    match accepted {
        Ok(accepted) if has_spare(listener) => return Some(accepted),
        Ok(turned_away) => {
            app.control.turned_away(Lack::Descriptor);
            // Closed before the pause: its descriptor is one of those that are short.
            drop(turned_away);
        }
        // Whoever that was waits to be accepted, or has gone.
        Err(error) => drop(error),
    }
    tokio::time::sleep(ACCEPT_PAUSE).await;
    None
}

async fn accept_tcp(listener: TcpListener, app: App, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Some((stream, from)) = admitted(listener.accept().await, listener.as_fd(), &app).await else { continue };
        // No free slot: closing at once says more than a connection that never answers.
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            connections.spawn(connection(stream, app.clone(), Caller::Tcp(from), slot));
        } else {
            app.control.turned_away(Lack::Connection);
        }
    }
}

async fn accept_unix(listener: UnixListener, app: App) {
    let (places, questions) = (Places::new(MAX_CONNECTIONS), Arc::new(Semaphore::new(MAX_QUESTIONS)));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Some((stream, _)) = admitted(listener.accept().await, listener.as_fd(), &app).await else { continue };
        let Ok(who) = stream.peer_cred() else { continue };
        let caller = Caller::Unix { uid: who.uid(), gid: who.gid(), pid: who.pid() };
        if let Some(place) = places.take(who.uid(), app.rules().is_own(caller)) {
            connections.spawn(connection(stream, app.clone(), caller, place));
        } else if let Ok(question) = Arc::clone(&questions).try_acquire_owned() {
            connections.spawn(operator(stream, app.clone(), caller, Arc::clone(&places), question));
        } else {
            app.control.turned_away(Lack::Connection);
        }
    }
}

/// Who found no place among all users has one if it is an operator.
async fn operator(stream: UnixStream, app: App, caller: Caller, places: Arc<Places>, question: OwnedSemaphorePermit) {
    let rules = app.rules();
    let may = tokio::task::spawn_blocking(move || rules.may_command(caller)).await;
    drop(question);
    if let (Ok(true), Caller::Unix { uid, .. }) = (may, caller)
        && let Some(place) = places.take(uid, true)
    {
        connection(stream, app, caller, place).await;
    } else {
        app.control.turned_away(Lack::Connection);
    }
}

/// What a connection holds while it lasts.
trait Held: Send + 'static {}
impl Held for OwnedSemaphorePermit {}
impl Held for Place {}

async fn connection<S>(stream: S, app: App, caller: Caller, _held: impl Held)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let time = app.connection_time;
    let until = Until(tokio::time::Instant::now() + time);
    let service = TowerToHyperService::new(router(app, caller, until).into_service::<hyper::body::Incoming>());
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(64 * 1024);
    // A broken connection is the other end's business, and so is one that was too slow.
    drop(tokio::time::timeout(time, server.serve_connection(TokioIo::new(stream), service)).await);
}
