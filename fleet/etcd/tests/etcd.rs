//! The client against Debian's etcd, on loopback: reading, conditions, watching, compaction, a kill, TLS on both sides.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sluice_etcd::client::Unchanged;
use sluice_etcd::endpoint::Own;
use sluice_etcd::{Client, Endpoint, Error, Key, News, Put, Tls, Written};

const PATIENCE: Duration = Duration::from_secs(20);

/// An etcd of its own; killed when dropped.
struct Etcd {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
    peer: u16,
    tls: bool,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Etcd {
    fn start(tls: Option<&Path>) -> Etcd {
        let dir = tempfile::tempdir().expect("a directory");
        if let Some(from) = tls {
            for name in ["ca.pem", "server.pem", "server.key"] {
                std::fs::copy(from.join(name), dir.path().join(name)).expect("copied");
            }
        }
        let (port, peer) = (free_port(), free_port());
        let child = spawn(dir.path(), port, peer, tls.is_some());
        Etcd { child, dir, port, peer, tls: tls.is_some() }
    }
    fn endpoint(&self) -> Endpoint {
        let scheme = if self.tls { "https" } else { "http" };
        Endpoint::parse(&format!("{scheme}://127.0.0.1:{}", self.port)).expect("an endpoint")
    }
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    fn again(&mut self) {
        self.child = spawn(self.dir.path(), self.port, self.peer, self.tls);
    }
    async fn client(&self, tls: Option<&Tls>) -> Client {
        let began = Instant::now();
        loop {
            match Client::connect(&[self.endpoint()], tls, 0).await {
                Ok(client) => return client,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
    fn compact(&self, revision: u64) {
        let endpoints = format!("--endpoints=http://127.0.0.1:{}", self.port);
        let mut etcdctl = Command::new("etcdctl");
        etcdctl.env("ETCDCTL_API", "3").args([&endpoints, "compact", &revision.to_string()]);
        assert!(etcdctl.stdout(Stdio::null()).status().expect("etcdctl").success());
    }
}

/// Two of them at a time would be given the same; a port of a test is free a moment later all the same.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn spawn(dir: &Path, port: u16, peer: u16, tls: bool) -> Child {
    let scheme = if tls { "https" } else { "http" };
    let (client, peer) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let mut etcd = Command::new("etcd");
    etcd.arg("--data-dir").arg(dir.join("data")).args(["--name", "one", "--log-level", "error"]);
    etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
    etcd.args([
        "--initial-advertise-peer-urls",
        &peer,
        "--initial-cluster",
        &format!("one={peer}"),
        "--unsafe-no-fsync",
    ]);
    if tls {
        let path = |name: &str| dir.join(name).display().to_string();
        etcd.args(["--client-cert-auth", "--trusted-ca-file", &path("ca.pem")]);
        etcd.args(["--cert-file", &path("server.pem"), "--key-file", &path("server.key")]);
    }
    etcd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("etcd starts")
}

fn here() -> bool {
    let found = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        sluice_skip::skip!(Thing, "no etcd: apt-get install etcd-server etcd-client");
    }
    found
}

fn put(name: &str, value: &str) -> Put {
    Put { name: name.into(), value: Some(value.into()) }
}

async fn news(watch: &mut sluice_etcd::Watch) -> News {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("in time").expect("it lives")
}

#[tokio::test]
async fn what_is_written_is_read_watched_and_kept_over_a_kill() {
    if !here() {
        return;
    }
    let mut etcd = Etcd::start(None);
    let client = etcd.client(None).await;
    let empty = client.read("/s/", 10).await.expect("reads");
    assert!(empty.keys.is_empty() && !empty.more && empty.etcd != 0);
    let mut watch = client.watch("/s/", empty.revision + 1).await.expect("watches");
    // Both keys or none, and only while nobody else was first.
    let absent = |name: &str| Unchanged { name: name.into(), revision: 0 };
    let puts = || vec![put("/s/a", "1"), put("/s/b", "2"), put("/other", "3")];
    let written = client.write(&[absent("/s/a")], puts()).await.expect("writes");
    let Written::At(revision) = written else { panic!("{written:?}") };
    assert_eq!(client.write(&[absent("/s/a")], puts()).await.expect("answers"), Written::Overtaken);
    let told = news(&mut watch).await;
    let key = |name: &str, value: &str| Key { name: name.into(), value: Some(value.into()), revision };
    assert_eq!(told, News { revision, keys: vec![key("/s/a", "1"), key("/s/b", "2")] });
    watch.ask();
    assert_eq!(news(&mut watch).await, News { revision, keys: vec![] });
    let read = client.read("/s/", 10).await.expect("reads");
    assert_eq!((read.keys, read.revision), (vec![key("/s/a", "1"), key("/s/b", "2")], revision));
    assert!(client.read("/s/", 1).await.expect("reads").more);
    // A key that is deleted is told as such.
    let gone = Put { name: "/s/a".into(), value: None };
    let seen = Unchanged { name: "/s/a".into(), revision };
    client.write(&[seen], vec![gone]).await.expect("writes");
    assert_eq!(news(&mut watch).await.keys[0].value, None);
    // Killed, the watch ends; started again, all of it is there.
    etcd.kill();
    let ended = tokio::time::timeout(PATIENCE, watch.next()).await.expect("in time");
    assert!(matches!(ended, Err(Error::Broken(_))), "{ended:?}");
    let nobody = Client::connect(&[etcd.endpoint()], None, 0).await.expect_err("nobody is there");
    assert!(matches!(&nobody, Error::Unreachable(why) if why.contains(&etcd.endpoint().to_string())), "{nobody}");
    etcd.again();
    let client = etcd.client(None).await;
    assert_eq!(client.read("/s/", 10).await.expect("reads").keys, [key("/s/b", "2")]);
    // What was forgotten cannot be watched from there on.
    for i in 0..3 {
        client.write(&[], vec![put("/s/b", &i.to_string())]).await.expect("writes");
    }
    let now = client.read("/s/", 10).await.expect("reads").revision;
    etcd.compact(now);
    let forgotten = match client.watch("/s/", 2).await {
        Ok(mut watch) => tokio::time::timeout(PATIENCE, watch.next()).await.expect("in time").expect_err("forgotten"),
        Err(error) => error,
    };
    assert!(matches!(forgotten, Error::Compacted(at) if at == now), "{forgotten}");
    // A large value comes whole, one that etcd does not take is refused.
    client.write(&[], vec![put("/s/large", &"x".repeat(1 << 20))]).await.expect("1 MiB is taken");
    assert_eq!(client.read("/s/large", 1).await.expect("reads").keys[0].value.as_ref().map(Vec::len), Some(1 << 20));
    let refused = client.write(&[], vec![put("/s/large", &"x".repeat(2 << 20))]).await.expect_err("too much");
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
}

/// An authority, and certificates that it signed, in a directory.
fn certificates(dir: &Path) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
    };
    let (ours, other) = (authority("ours"), authority("other"));
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("written");
    write("ca.pem", &ours.pem());
    write("other.pem", &other.pem());
    for (name, issuer) in [("server", &ours), ("client", &ours), ("stranger", &other)] {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "etcd.test".to_owned()]).expect("names");
        let certificate = params.signed_by(&key, issuer).expect("signed");
        write(&format!("{name}.pem"), &certificate.pem());
        write(&format!("{name}.key"), &key.serialize_pem());
    }
}

#[tokio::test]
async fn both_sides_prove_who_they_are() {
    if !here() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    certificates(dir.path());
    let etcd = Etcd::start(Some(dir.path()));
    let load = |name: &str| std::fs::read(dir.path().join(name)).expect("read");
    let own = |name: &str| Some(Own { certificate: load(&format!("{name}.pem")), key: load(&format!("{name}.key")) });
    let tls = |ca: &str, own, name: Option<&str>| Tls { authority: load(ca), own, name: name.map(Into::into) };
    let good = tls("ca.pem", own("client"), None);
    let client = etcd.client(Some(&good)).await;
    client.write(&[], vec![put("/s/a", "1")]).await.expect("writes");
    let named = tls("ca.pem", own("client"), Some("etcd.test"));
    assert_eq!(etcd.client(Some(&named)).await.read("/s/", 1).await.expect("reads").keys.len(), 1);
    for (why, wrong) in [
        ("no certificate of its own", tls("ca.pem", None, None)),
        ("a stranger's", tls("ca.pem", own("stranger"), None)),
        ("another authority", tls("other.pem", own("client"), None)),
        ("another name", tls("ca.pem", own("client"), Some("somebody.else"))),
        ("no certificate at all", Tls { authority: b"none".to_vec(), own: None, name: None }),
    ] {
        let refused = Client::connect(&[etcd.endpoint()], Some(&wrong), 0).await;
        assert!(refused.is_err(), "{why}");
    }
    let without = Client::connect(&[etcd.endpoint()], None, 0).await.expect_err("https without an authority");
    assert!(matches!(without, Error::Tls(_)), "{without}");
}
