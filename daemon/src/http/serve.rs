//! Listeners and connections: at most 32 at a time per kind, two seconds for a request's header.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::Control;
use super::api::{App, router};
use super::guard::{Caller, Rules};

/// Connections at a time, for TCP and for the Unix socket each: neither can shut the other out.
const MAX_CONNECTIONS: usize = 32;
/// From the connection, or the last answer, to the end of the next request's header.
const HEADER_TIME: Duration = Duration::from_secs(2);
/// After a failed accept (descriptors used up): others need the CPU more.
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

/// Answers until `shutdown` is done; then every connection is dropped.
pub async fn serve(listeners: Listeners, control: Arc<dyn Control>, rules: Rules, shutdown: impl Future<Output = ()>) {
    let app = App { control, rules: Arc::new(rules) };
    let mut tasks = JoinSet::new();
    let tcp_slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for listener in listeners.tcp {
        tasks.spawn(accept_tcp(listener, app.clone(), Arc::clone(&tcp_slots)));
    }
    if let Some(listener) = listeners.unix {
        tasks.spawn(accept_unix(listener, app, Arc::new(Semaphore::new(MAX_CONNECTIONS))));
    }
    shutdown.await;
    tasks.shutdown().await;
}

async fn accept_tcp(listener: TcpListener, app: App, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                // No free slot: closing at once says more than a connection that never answers.
                if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
                    connections.spawn(connection(stream, app.clone(), Caller::Tcp(from), slot));
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn accept_unix(listener: UnixListener, app: App, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let credentials = stream.peer_cred();
                if let (Ok(slot), Ok(who)) = (Arc::clone(&slots).try_acquire_owned(), credentials) {
                    let caller = Caller::Unix { uid: who.uid(), gid: who.gid() };
                    connections.spawn(connection(stream, app.clone(), caller, slot));
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection<S>(stream: S, app: App, caller: Caller, _slot: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router(app, caller).into_service::<hyper::body::Incoming>());
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(64 * 1024);
    // A broken connection is the other end's business.
    let _: Result<(), _> = server.serve_connection(TokioIo::new(stream), service).await;
}
