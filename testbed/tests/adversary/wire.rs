//! A8: what somebody on the network can do to connections: certificates that prove nothing, bytes that were changed or kept.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_identity::authority::{Authority, Issued, Subject, subject};
use sluice_identity::credentials::unix_now;
use sluice_identity::{Credentials, Expected, Files, Kind};
use sluice_wire::dial::Dial;
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::{SessionClient, SessionError};

use crate::attacker::{PATIENCE, turn, until};
use crate::programs::Switch;
use crate::speaker::{admitted, announcement, s0};

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// As [`until`], while the sessions of this runtime go on.
fn until_on(runtime: &tokio::runtime::Runtime, what: &str, mut so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "never happened: {what}");
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    }
}

fn files(dir: &Path, name: &str) -> Files {
    let path = |ending: &str| dir.join(format!("{name}.{ending}"));
    Files { authorities: path("ca"), certificate: path("pem"), key: path("key") }
}

fn written(dir: &Path, name: &str, issued: &Issued) -> Files {
    let files = files(dir, name);
    issued.write(&files).expect("written");
    files
}

fn named(kind: Kind, id: &str) -> Subject {
    subject("default", kind, id).expect("a name")
}

/// A switch whose hosts have to prove who they are.
pub struct Proven {
    authority: Authority,
    dir: tempfile::TempDir,
    pub switch: Switch,
}

impl Proven {
    fn start() -> Proven {
        let (dir, authority) = (crate::attacker::dir(), Authority::new("default", 10).expect("made"));
        let own = authority.issue(&named(Kind::Switch, "s0"), 1).expect("issued");
        Proven::of(authority, dir, &own)
    }

    fn of(authority: Authority, dir: tempfile::TempDir, own: &Issued) -> Proven {
        let switch = Switch::start(&tls(&written(dir.path(), "s0", own)));
        Proven { authority, dir, switch }
    }

    /// With what a topology says of where hosts are attached: `s0` leads to `h0`, `h1` and `s1`, and `s1` to `h2`.
    pub fn in_topology() -> Proven {
        let (dir, authority) = (crate::attacker::dir(), Authority::new("default", 10).expect("made"));
        let own = authority.issue(&named(Kind::Switch, "s0"), 1).expect("issued");
        let cable = |a: &str, b: &str| {
            let one =
                |from: &str, to: &str| format!("{{\"from\":\"{from}\",\"to\":\"{to}\",\"capacity\":\"10Gbit/s\"}}");
            one(a, b) + "," + &one(b, a)
        };
        let host = |n: u32| format!("{{\"id\":\"h{n}\",\"kind\":\"host\",\"addresses\":[\"10.0.0.{}\"]}}", n + 1);
        let text = format!(
            "{{\"sluice_topology\":1,\"nodes\":[{},{},{},{{\"id\":\"s0\",\"kind\":\"switch\"}},\
             {{\"id\":\"s1\",\"kind\":\"switch\"}}],\"links\":[{},{},{},{}]}}",
            host(0),
            host(1),
            host(2),
            cable("s0", "h0"),
            cable("s0", "h1"),
            cable("s0", "s1"),
            cable("s1", "h2")
        );
        let topology = dir.path().join("topology.json");
        std::fs::write(&topology, text).expect("written");
        let keys = format!("{}\ntopology = {topology:?}", tls(&written(dir.path(), "s0", &own)));
        let switch = Switch::of(&keys, "[[switches]]\nname = \"s0\"\nfrom_topology = true\n");
        Proven { authority, dir, switch }
    }

    fn dial(&self, name: &str, issued: &Issued) -> Dial {
        let credentials = Credentials::open(written(self.dir.path(), name, issued));
        Dial::Tls { credentials, expected: expected() }
    }

    pub fn host(&self, id: &str) -> Dial {
        self.dial(id, &self.authority.issue(&named(Kind::Host, id), 1).expect("issued"))
    }

    fn connect(&self, dial: &Dial, as_host: &str) -> Result<SessionClient, SessionError> {
        self.connect_at(dial, as_host, self.switch.grpc)
    }

    fn connect_at(&self, dial: &Dial, as_host: &str, at: SocketAddr) -> Result<SessionClient, SessionError> {
        // Who connects may learn only by its first call that it was not let in.
        runtime().block_on(admitted(dial, &format!("http://{at}"), as_host, 1))
    }

    fn refused(&self, reason: &str) -> f64 {
        self.switch.metric("sluice_switchd_connections_refused_total", reason)
    }

    /// An honest host is let in all the same.
    fn serves(&self) {
        let honest = self.host("h9");
        self.connect(&honest, "h9").expect("an honest host is let in");
    }
}

fn tls(Files { authorities, certificate, key }: &Files) -> String {
    format!("tls = {{ ca = {authorities:?}, cert = {certificate:?}, key = {key:?} }}")
}

fn expected() -> Expected {
    Expected { cluster: "default".into(), kind: Kind::Switch, ids: vec!["s0".into()] }
}

/// who proves nothing, or who proves to be somebody else.
#[test]
fn who_cannot_prove_to_be_a_host_of_the_cluster_is_not_heard() {
    let Some(_turn) = turn() else { return };
    let proven = Proven::start();
    let now = unix_now();
    let foreign = Authority::new("default", 10).expect("made");
    // Its own side believes this cluster's authority; nothing else would let it see the answer.
    let mut stranger = foreign.issue(&named(Kind::Host, "h0"), 1).expect("issued");
    stranger.authorities = proven.authority.certificate();
    let over = proven.authority.issue_between(&named(Kind::Host, "h0"), now - 1_000, now - 10).expect("issued");
    let early = proven.authority.issue_between(&named(Kind::Host, "h0"), now + 1_000, now + 2_000).expect("issued");
    for (name, issued, reason) in [
        ("stranger", stranger, "unknown-authority"),
        ("over", over, "cert-expired"),
        ("early", early, "cert-not-yet-valid"),
    ] {
        let dial = proven.dial(name, &issued);
        proven.connect(&dial, "h0").expect_err("not let in");
        until(reason, || proven.refused(reason) >= 1.0);
    }
    proven.connect(&Dial::Plain, "h0").expect_err("not let in");
    until("plain bytes", || proven.refused("protocol") >= 1.0);
    // A certificate of the cluster, and another host's name; and a switch's in a host's.
    let other = proven.host("h1");
    let error = proven.connect(&other, "h0").expect_err("not in that name");
    assert_eq!(error.refusal_id(), Some(RefusalId::IdentityNotHost), "{error}");
    let switch = proven.dial("s1", &proven.authority.issue(&named(Kind::Switch, "h0"), 1).expect("issued"));
    let error = proven.connect(&switch, "h0").expect_err("a switch is no host");
    assert_eq!(error.refusal_id(), Some(RefusalId::IdentityNotHost), "{error}");
    let elsewhere = subject("other", Kind::Host, "h0").expect("a name");
    let elsewhere = proven.dial("elsewhere", &proven.authority.issue(&elsewhere, 1).expect("issued"));
    proven.connect(&elsewhere, "h0").expect_err("another cluster");
    assert!(proven.switch.log().contains("connection-refused"));
    proven.serves();
}

/// Passes bytes on between a client and `to`, as somebody on the path does; keeps what the client sent.
struct OnPath {
    at: SocketAddr,
    sent: Arc<Mutex<Vec<u8>>>,
    changes: Arc<AtomicBool>,
}

impl OnPath {
    fn to(to: SocketAddr) -> OnPath {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let path =
            OnPath { at: listener.local_addr().expect("an address"), sent: Arc::default(), changes: Arc::default() };
        let (sent, changes) = (path.sent.clone(), path.changes.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(to) else { return };
                let (from, back) = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
                let (sent, changes) = (sent.clone(), changes.clone());
                std::thread::spawn(move || {
                    pass(from, server, |bytes| {
                        sent.lock().expect("nobody panics with it").extend_from_slice(bytes);
                        if changes.load(Ordering::Relaxed)
                            && let Some(last) = bytes.last_mut()
                        {
                            *last ^= 1;
                        }
                    })
                });
                std::thread::spawn(move || pass(back, client, |_| ()));
            }
        });
        path
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut act: impl FnMut(&mut [u8])) {
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let bytes = &mut buffer[..length];
        act(bytes);
        if to.write_all(bytes).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// reads, alters, and says again what it heard.
#[test]
fn who_is_on_the_path_can_neither_read_nor_change_nor_repeat_a_word() {
    let Some(_turn) = turn() else { return };
    let proven = Proven::start();
    let path = OnPath::to(proven.switch.grpc);
    let dial = proven.host("h0");
    let runtime = runtime();
    let uri = format!("http://{}", path.at);
    let mut session = runtime.block_on(admitted(&dial, &uri, "h0", 1)).expect("let in");
    let heard = path.sent.lock().expect("nobody panics with it").clone();
    let find = |text: &[u8]| heard.windows(text.len()).any(|window| window == text);
    assert!(
        heard.len() > 500 && !find(b"default") && !find(b"PRI * HTTP/2.0") && !find(b"sluice.v1"),
        "it can be read"
    );
    // A byte is changed: the session is over, and nothing was taken for it.
    path.changes.store(true, Ordering::Relaxed);
    let word = || announcement("h0", 1, 1, sluice_schedule::Rate::mbps(100));
    session.sender.announce(s0(), word());
    let ended = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if !matches!(session.receiver.next().await, Ok(Some(_))) {
                    return;
                }
            }
        })
        .await
    });
    assert!(ended.is_ok(), "the session goes on though a byte was changed");
    // This only grows, and the page of metrics is a second old at most.
    let taken = || proven.switch.metric("sluice_switchd_updates_total", "applied");
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(taken(), 0.0, "a changed word was taken");
    // All that the host said, once more: the other end has drawn new numbers.
    let refused_before = proven.refused("");
    let mut replay = TcpStream::connect(proven.switch.grpc).expect("connected");
    replay.set_read_timeout(Some(PATIENCE)).expect("set");
    let _ = replay.write_all(&heard);
    let mut answer = Vec::new();
    let _ = replay.read_to_end(&mut answer);
    until("the repeated bytes are refused", || proven.refused("") > refused_before);
    assert_eq!(taken(), 0.0);
    assert_eq!(proven.switch.metric("sluice_switchd_sessions", ""), 0.0);
    // By the same way, left alone, the same word is taken.
    path.changes.store(false, Ordering::Relaxed);
    let session = runtime.block_on(admitted(&dial, &uri, "h0", 1)).expect("let in");
    // Said after each look, which takes as long as it takes: what was said before it would be of a slot that is over.
    until_on(&runtime, "an unchanged word is taken", || {
        let so = taken() >= 1.0;
        session.sender.announce(s0(), word());
        so
    });
    proven.serves();
}

/// a certificate that is over, and one that is renewed in time.
#[test]
fn a_certificate_is_renewed_without_a_restart_and_one_that_is_over_is_told() {
    let Some(_turn) = turn() else { return };
    let runtime = runtime();
    // On a busy machine some seconds may be over before anybody has connected: then it is another try with more of them.
    let begun = [6, 12, 24].into_iter().find_map(|life| {
        let (dir, authority) = (crate::attacker::dir(), Authority::new("default", 10).expect("made"));
        let now = unix_now();
        let short = authority.issue_between(&named(Kind::Switch, "s0"), now - 60, now + life).expect("issued");
        let proven = Proven::of(authority, dir, &short);
        let host = proven.host("h0");
        let session = runtime.block_on(admitted(&host, &proven.switch.uri(), "h0", 1)).ok()?;
        Some((proven, host, session))
    });
    let (proven, host, mut session) = begun.expect("somebody connects while it is good");
    until("its end is told", || proven.switch.log().contains("cert-expires-soon"));
    until("that it is over is told", || proven.switch.log().contains("cert-expired"));
    proven.connect(&host, "h0").expect_err("hosts refuse a certificate that is over");
    // The host's own connection was good as long as what the other end proved.
    let ended = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async { while matches!(session.receiver.next().await, Ok(Some(_))) {} }).await
    });
    assert!(ended.is_ok(), "a session outlives the other end's certificate");
    let anew = proven.authority.issue(&named(Kind::Switch, "s0"), 1).expect("issued");
    written(proven.dir.path(), "s0", &anew);
    until("the new one is in force", || proven.connect(&host, "h0").is_ok());
    assert!(proven.switch.log().contains("certificates-read"));
    // A session that stands when the files change stays.
    let mut session = runtime.block_on(admitted(&host, &proven.switch.uri(), "h0", 1)).expect("let in");
    let read = || proven.switch.log().matches("certificates-read").count();
    let before = read();
    let again = proven.authority.issue(&named(Kind::Switch, "s0"), 2).expect("issued");
    written(proven.dir.path(), "s0", &again);
    until_on(&runtime, "they are read again", || read() > before);
    runtime.block_on(async { tokio::time::sleep(Duration::from_secs(1)).await });
    let stands = runtime
        .block_on(async { tokio::time::timeout(Duration::from_millis(200), session.receiver.next()).await.is_err() });
    assert!(stands, "new files ended a session");
    // A key that others may read is not taken.
    crate::attacker::allow(&files(proven.dir.path(), "s0").key, 0o644);
    until("a key that others may read is told", || proven.switch.log().contains("certificates-unusable"));
    proven.serves();
}

/// one identity with many connections.
#[test]
fn of_one_identity_the_newest_connections_win() {
    let Some(_turn) = turn() else { return };
    let proven = Proven::start();
    let dial = proven.host("h1");
    let runtime = runtime();
    let mut sessions: Vec<SessionClient> =
        (0..12).map(|_| runtime.block_on(admitted(&dial, &proven.switch.uri(), "h1", 1)).expect("let in")).collect();
    let mut open: Vec<usize> = (0..sessions.len()).collect();
    until("all but two are closed", || {
        open.retain(|at| {
            let next = async { tokio::time::timeout(Duration::from_millis(300), sessions[*at].receiver.next()).await };
            runtime.block_on(next).is_err()
        });
        open.len() <= 2
    });
    assert!(
        open.last() == Some(&11) && open.iter().all(|at| *at >= 10),
        "of twelve connections these are open: {open:?}"
    );
    proven.serves();
}
