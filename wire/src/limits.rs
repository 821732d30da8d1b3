//! Every bound on what is accepted from the network, in one place, and the gRPC server settings that go with them.

use std::time::Duration;

use tonic::transport::{Endpoint, Server};

/// Promises in one announcement.
pub const FLOWS: usize = 8192;
/// Links of one promise.
pub const LINKS_PER_FLOW: usize = 16;
/// Jobs of one host.
pub const JOBS: usize = 256;
/// Job statuses in one message: of each job the host's own, and of others as many as are told one by one.
pub(crate) const STATUSES: usize = JOBS * (1 + sluice_schedule::deciding::MAX_TOLD);
/// Links watched by one announcement, and views in one feedback.
pub const WATCH: usize = 4096;
/// Slots of one schedule.
pub const HORIZON: usize = 32;
/// Holders addressed by one message.
pub const HOLDERS: usize = 256;
/// Distinct promises in one feedback: as many as fit a message.
pub const LISTED: usize = 16_384;
/// Bytes of a name in a handshake.
pub(crate) const NAME: usize = 253;
/// Bytes of one gRPC message, before it is decoded.
pub const MESSAGE: usize = 256 * 1024;
/// Bytes of one HTTP/2 header list.
pub const HEADER_LIST: u32 = 8 * 1024;
/// Streams on one connection at a time.
pub const STREAMS: u32 = 4;
/// Bytes of one HTTP/2 frame.
const FRAME: u32 = 16 * 1024;
/// HTTP/2 flow-control window, of a stream and of a connection, in bytes.
const WINDOW: u32 = 64 * 1024;
/// Streams reset by the peer before they were accepted.
const PENDING_RESETS: usize = 20;
/// Streams that this side had to reset for what the peer did.
const LOCAL_RESETS: usize = 64;
/// From the connection to the end of the handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(2);
/// An idle connection is probed this often.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// And closed this long after a probe without an answer: two seconds after its last word.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// A gRPC server with every limit set (`tonic` and `h2` leave several of them off).
pub fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS)
        .http2_max_header_list_size(HEADER_LIST)
        .max_frame_size(FRAME)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS))
        .http2_max_local_error_reset_streams(Some(LOCAL_RESETS))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .tcp_nodelay(true)
}

/// The client side of [`server`]: connection, keep-alive and header limits for `uri`, such as `http://10.0.0.7:9604`.
/// Fails on a malformed URI.
pub fn endpoint(uri: &str) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(uri.to_owned())?
        .connect_timeout(HANDSHAKE)
        .tcp_nodelay(true)
        .http2_max_header_list_size(HEADER_LIST)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}
