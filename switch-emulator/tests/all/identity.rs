//! Who is let in where hosts and the process prove who they are: by real processes over loopback.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluice_identity::authority::{Authority, Subject, subject};
use sluice_identity::credentials::unix_now;
use sluice_identity::{Credentials, Expected, Files, Kind};
use sluice_schedule::{HolderId, Rate};
use sluice_wire::dial::Dial;
use sluice_wire::session::SessionClient;

use crate::support::{PATIENCE, Switch, admitted, announcement, hear, until};

/// A cluster's authority, with a directory for everybody's files.
struct Cluster {
    authority: Authority,
    directory: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster { authority: Authority::new("default", 10).unwrap(), directory: tempfile::tempdir().unwrap() }
    }

    fn files(&self, of: &str) -> Files {
        let directory = self.directory.path().join(of);
        std::fs::create_dir_all(&directory).unwrap();
        Files::in_directory(&directory)
    }

    fn name(&self, kind: Kind, id: &str) -> Subject {
        subject("default", kind, id).unwrap()
    }

    /// A certificate of this authority for so many seconds from now, in the directory `of`.
    fn issue(&self, of: &str, subject: &Subject, seconds: i64) -> Files {
        let (files, now) = (self.files(of), unix_now());
        self.authority.issue_between(subject, now - 1_000, now + seconds).unwrap().write(&files).unwrap();
        files
    }

    /// How somebody with these files connects to the switch `s0`.
    fn dial(&self, files: Files) -> Dial {
        let expected = Expected { cluster: "default".into(), kind: Kind::Switch, ids: vec!["s0".into()] };
        Dial::Tls { credentials: Credentials::open(files), expected }
    }

    fn host(&self, name: &str) -> Dial {
        self.dial(self.issue(name, &self.name(Kind::Host, name), 10_000))
    }

    /// A switch with a certificate for so many seconds.
    fn switch(&self, seconds: i64) -> Switch {
        let Files { authorities, certificate, key } = self.issue("s0", &self.name(Kind::Switch, "s0"), seconds);
        let keys = format!("tls = {{ ca = {authorities:?}, cert = {certificate:?}, key = {key:?} }}");
        Switch::start_with(&keys, "127.0.0.1:0".parse().unwrap())
    }
}

fn s0() -> HolderId {
    HolderId::of("s0")
}

fn refused(switch: &Switch, reason: &str) -> f64 {
    let line = format!("sluice_switchd_connections_refused_total{{reason=\"{reason}\"}}");
    switch.metric(&line).unwrap_or(f64::NAN)
}

async fn connect(switch: &Switch, dial: &Dial, name: &str) -> Result<SessionClient, String> {
    match admitted(dial, &switch.uri(), name).await {
        Ok(client) => Ok(client),
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(inner) = cause {
                text = format!("{text}: {inner}");
                cause = inner.source();
            }
            Err(text)
        }
    }
}

#[tokio::test]
async fn hosts_that_prove_who_they_are_exchange_and_all_others_are_refused_counted_and_named() {
    let cluster = Cluster::new();
    let switch = cluster.switch(10_000);
    let mut h0 = connect(&switch, &cluster.host("h0"), "h0").await.unwrap();
    let mut h1 = connect(&switch, &cluster.host("h1"), "h1").await.unwrap();
    h0.sender.announce(s0(), announcement("h0", 1, 1, Rate::mbps(100)));
    h1.sender.announce(s0(), announcement("h1", 1, 1, Rate::mbps(50)));
    let heard = hear(&mut h0.receiver, |f| f.links.iter().any(|link| link.load.first() == Some(&Rate::mbps(50)))).await;
    assert_eq!(heard.refused, None);
    // The identity by a DNS name is one too.
    let by_dns = cluster.dial(cluster.issue("dns", &Subject::Dns("h2".into()), 10_000));
    connect(&switch, &by_dns, "h2").await.unwrap();

    // Another host's identity, with a good certificate of one's own.
    let text = connect(&switch, &cluster.host("h3"), "h0").await.unwrap_err();
    assert!(text.contains("identity-not-host") && text.contains("spiffe://default/host/h3"), "{text}");
    until(async || refused(&switch, "identity-not-host") >= 1.0).await;
    assert!(switch.metric("sluice_switchd_identities_refused_total") >= Some(1.0));

    // Nobody who is believed signed it.
    let foreign = Cluster::new();
    let files = cluster.files("foreign");
    let mut issued = foreign.authority.issue(&cluster.name(Kind::Host, "h0"), 1).unwrap();
    issued.authorities = cluster.authority.certificate();
    issued.write(&files).unwrap();
    connect(&switch, &cluster.dial(files), "h0").await.map(drop).unwrap_err();
    until(async || refused(&switch, "unknown-authority") >= 1.0).await;

    // It is over.
    let over = cluster.dial(cluster.issue("over", &cluster.name(Kind::Host, "h0"), -10));
    connect(&switch, &over, "h0").await.map(drop).unwrap_err();
    until(async || refused(&switch, "cert-expired") >= 1.0).await;

    // It shows none: plain bytes.
    connect(&switch, &Dial::Plain, "h0").await.map(drop).unwrap_err();
    until(async || refused(&switch, "protocol") >= 1.0).await;

    // And the other way round: a switch that is another than was called, or that nobody believes.
    let expected = Expected { cluster: "default".into(), kind: Kind::Switch, ids: vec!["s9".into()] };
    let Dial::Tls { credentials, .. } = cluster.host("h0") else { unreachable!("made so") };
    let text = connect(&switch, &Dial::Tls { credentials, expected }, "h0").await.unwrap_err();
    assert!(text.contains("identity-not-host") && text.contains("switch s9"), "{text}");
    let text = connect(&switch, &foreign.host("h0"), "h0").await.unwrap_err();
    assert!(text.contains("unknown-authority"), "{text}");

    // Those who were let in go on. Whoever was silent for a while has to ask anew.
    h1.sender.announce(s0(), announcement("h1", 2, 1, Rate::mbps(50)));
    hear(&mut h1.receiver, |f| f.seq == 2).await;
    h0.sender.announce(s0(), announcement("h0", 2, 1, Rate::mbps(70)));
    hear(&mut h1.receiver, |f| f.links.iter().any(|link| link.load.first() == Some(&Rate::mbps(70)))).await;
}

/// Announces again and again; how often a session ended.
async fn load(switch: String, dial: Dial, name: &'static str, lost: Arc<AtomicU64>, said: Arc<AtomicU64>) {
    let mut seq = 0;
    if let Dial::Tls { credentials, .. } = &dial {
        tokio::spawn(credentials.clone().watch(|_, _| {}));
    }
    loop {
        let Ok(mut session) = admitted(&dial, &switch, name).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        loop {
            seq += 1;
            session.sender.announce(s0(), announcement(name, seq, 1, Rate::mbps(10)));
            match tokio::time::timeout(Duration::from_millis(20), session.receiver.next()).await {
                Ok(Ok(Some(_))) => _ = said.fetch_add(1, Ordering::Relaxed),
                Ok(Ok(None) | Err(_)) => break,
                Err(_) => {}
            }
        }
        lost.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn certificates_that_change_under_load_end_no_session_and_count_for_the_next() {
    let cluster = Cluster::new();
    let switch = cluster.switch(10_000);
    let (lost, said) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for name in ["h0", "h1", "h2", "h3"] {
        tasks.spawn(load(switch.uri(), cluster.host(name), name, lost.clone(), said.clone()));
    }
    until(async || said.load(Ordering::Relaxed) > 20).await;
    let expiry = || switch.metric("sluice_switchd_certificate_expiry_timestamp_seconds").unwrap();
    let before = expiry();
    // The hosts' files too: what is in force for the next connection is another.
    for turn in 1..=3 {
        for name in ["h0", "h1", "h2", "h3"] {
            cluster.issue(name, &cluster.name(Kind::Host, name), 20_000 * turn);
        }
        cluster.issue("s0", &cluster.name(Kind::Switch, "s0"), 20_000 * turn);
        let seen = said.load(Ordering::Relaxed);
        until(async || expiry() > before + 9_000.0 * turn as f64).await;
        until(async || said.load(Ordering::Relaxed) > seen + 20).await;
    }
    assert_eq!(lost.load(Ordering::Relaxed), 0, "a session ended");
    // Files that do not go together change nothing.
    let files = cluster.files("s0");
    std::fs::write(&files.certificate, "rotten").unwrap();
    until(async || switch.get("/api/v1/snapshot").contains("certificates-unusable")).await;
    connect(&switch, &cluster.host("h4"), "h4").await.unwrap();
    assert_eq!(lost.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_session_lives_no_longer_than_what_it_proved() {
    let cluster = Cluster::new();
    let switch = cluster.switch(10_000);
    let brief = cluster.dial(cluster.issue("h0", &cluster.name(Kind::Host, "h0"), 4));
    let mut session = connect(&switch, &brief, "h0").await.unwrap();
    session.sender.announce(s0(), announcement("h0", 1, 1, Rate::mbps(100)));
    let end = async { while let Ok(Some(_)) = session.receiver.next().await {} };
    tokio::time::timeout(PATIENCE, end).await.expect("the certificate is over");
    connect(&switch, &brief, "h0").await.map(drop).unwrap_err();
    until(async || refused(&switch, "cert-expired") >= 1.0).await;
}

#[tokio::test]
async fn a_switch_without_a_good_certificate_serves_nobody_and_says_so() {
    let cluster = Cluster::new();
    let switch = cluster.switch(-10);
    connect(&switch, &cluster.host("h0"), "h0").await.map(drop).unwrap_err();
    assert!(switch.get("/metrics").contains("sluice_switchd_certificate_expiry_timestamp_seconds"));
    // Files that come later are taken.
    cluster.issue("s0", &cluster.name(Kind::Switch, "s0"), 10_000);
    until(async || connect(&switch, &cluster.host("h0"), "h0").await.is_ok()).await;
    // A key that others may read is refused, and what was in force stays.
    let key = cluster.files("s0").key;
    let mode =
        |mode| std::fs::set_permissions::<&Path>(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    until(async || switch.get("/api/v1/snapshot").contains("key-file-mode")).await;
    connect(&switch, &cluster.host("h1"), "h1").await.unwrap();
}
