//! Which keys of etcd a daemon reads: those below its prefix and its cluster's name. In etcd's place is something that
//! answers a question for keys as etcd does, and keeps what was asked.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use sluice_etcd::Key;
use tokio_stream::wrappers::TcpListenerStream;

use super::{PATIENCE, Running, program};

/// Where the mode of the group stands in this etcd, and nothing else does.
const MODE: &str = "/lab/one/train/hosts/modes/default";

/// What was asked for, each the bytes of a message.
type Asked = Arc<Mutex<Vec<Vec<u8>>>>;

fn asks_for(message: &[u8], beginning: &str) -> bool {
    message.windows(beginning.len()).any(|part| part == beginning.as_bytes())
}

/// One call of gRPC: a question for keys is answered with those below the prefix that it names, a watch never hears
/// anything.
async fn answer(State(asked): State<Asked>, request: Request) -> Response<Body> {
    if request.uri().path() != "/etcdserverpb.KV/Range" {
        return std::future::pending().await;
    }
    let question = request.into_body().collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let below = asks_for(&question, MODE.split_once("modes/").map_or(MODE, |(prefix, _)| prefix));
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(question);
    let value = Some(br#"{"version": 1, "mode": "bypass"}"#.to_vec());
    let mode = Key { name: MODE.into(), value, revision: 3 };
    let [reading, _] = sluice_etcd::fuzz::answers(7, 5, if below { std::slice::from_ref(&mode) } else { &[] });
    let length = u32::try_from(reading.len()).expect("short").to_be_bytes();
    let message: Vec<u8> = [0].into_iter().chain(length).chain(reading).collect();
    let well = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from(0))]);
    let well = std::future::ready(Some(Ok(well)));
    let mut response = Response::new(Body::new(Full::new(axum::body::Bytes::from(message)).with_trailers(well)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

/// Something in etcd's place, for as long as its runtime lives.
struct Etcd {
    port: u16,
    asked: Asked,
    _runtime: tokio::runtime::Runtime,
}

impl Etcd {
    fn start() -> Etcd {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("one");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let (port, asked) = (listener.local_addr().expect("bound").port(), Asked::default());
        let routes = axum::Router::new().fallback(answer).with_state(asked.clone());
        let serving = tonic::transport::Server::builder().add_routes(tonic::service::Routes::from(routes));
        runtime.spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
        Etcd { port, asked, _runtime: runtime }
    }

    /// Was something asked for that begins like this?
    fn was_asked(&self, beginning: &str) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().any(|question| asks_for(question, beginning))
    }
}

#[test]
fn a_daemon_reads_the_keys_below_its_prefix_and_no_others() {
    for (prefix, keys, mode) in [
        ("", "/sluice/train/hosts/", "observe"),
        ("prefix = \"/lab/one\"\n", "/lab/one/train/hosts/", "bypass"),
        ("prefix = \"/lab/two\"\n", "/lab/two/train/hosts/", "observe"),
    ] {
        let (etcd, dir) = (Etcd::start(), tempfile::tempdir().expect("a directory"));
        let text = format!("node.cluster = \"train\"\n[fleet]\netcd = [\"http://127.0.0.1:{}\"]\n{prefix}", etcd.port);
        std::fs::create_dir(dir.path().join("sluiced.d")).expect("made");
        std::fs::write(dir.path().join("sluiced.d/fleet.toml"), text).expect("written");
        let mut running = Running::start(dir.path(), program(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()));
        let began = Instant::now();
        running.wait_until(|running| {
            assert!(began.elapsed() < PATIENCE, "{keys} is not asked for");
            let (_, body) = running.ask("GET", "/api/v1/snapshot", "").expect("answers");
            let seen: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            // What was read has been taken when the loop knows its revision.
            etcd.was_asked(keys) && seen["fleet"]["revision"] == 5 && seen["daemon"]["mode"] == mode
        });
        for other in ["/sluice/train/hosts/", "/lab/one/train/hosts/", "/lab/two/train/hosts/"] {
            assert_eq!(etcd.was_asked(other), other == keys, "{other}, where the prefix is that of {keys}");
        }
        running.end();
    }
}
