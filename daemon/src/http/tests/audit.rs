//! Commands are noted with who gave them, and only those who may give some read of them.

use super::*;

#[test]
fn a_command_is_noted_with_its_caller_and_reason_and_only_operators_read_of_it() {
    let daemon = start();
    assert_eq!(daemon.post("/api/v1/mode", r#"{"mode":"bypass","reason":"why not"}"#).0, 200);
    assert_eq!(daemon.post("/api/v1/reload", r#"{"reason":"new file"}"#).0, 422);
    // What is no command is not carried out, and not noted.
    assert_eq!(daemon.post("/api/v1/mode", r#"{"mode":"fast"}"#).0, 400);
    assert_eq!(daemon.post("/api/v1/reload", r#"{"raison":"new file"}"#).0, 400);
    let noted = daemon.fake.noted.lock().expect("lock").clone();
    let of = |entry: &Entry| (entry.command.clone(), entry.asked.clone(), entry.reason.clone(), entry.result);
    let is = [
        ("mode", "bypass", "why not", sluice_wire::audit::Result::Done),
        ("reload", "", "new file", sluice_wire::audit::Result::Refused),
    ];
    let is =
        is.map(|(command, asked, reason, result)| (command.to_owned(), asked.to_owned(), reason.to_owned(), result));
    assert_eq!(noted.iter().map(of).collect::<Vec<_>>(), is);
    let uid = nix::unistd::geteuid().as_raw();
    let own = i32::try_from(std::process::id()).ok();
    assert!(noted.iter().all(|entry| entry.uid == Some(uid) && entry.pid == own), "{noted:?}");
    let (status, body) = daemon.get("/api/v1/audit?last=1", "localhost");
    assert_eq!(status, 403, "{body}");
    let stream = UnixStream::connect(&daemon.unix).expect("connect");
    let request = "GET /api/v1/audit?last=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (status, body) = exchange(stream, request);
    assert!(status == 200 && body.contains("new file") && !body.contains("why not"), "{body}");
}
