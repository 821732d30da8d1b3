//! `sluice bugreport`: what somebody needs who was not there, in one file, with addresses and host names hashed. It works with a
//! daemon, without one, and as any user: what could not be had is said in the report.

pub mod args;
mod redact;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sluice_wire::snapshot::{SCHEMA, Snapshot};
use sluiced::config::{self, reference};

use crate::client::Client;
use crate::doctor;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use args::BugreportArgs;
use redact::Redactor;

/// Log lines that are taken.
const LOG_LINES: &str = "2000";
/// Bytes of one piece at most; the rest of it is left out, and that is said.
const MAX_PIECE: usize = 64 << 20;

/// A piece of the report before anything is hidden in it.
enum Piece {
    Document(Value),
    /// Lines, each of which may be a document.
    Lines(String),
    Text(String),
    /// Why it is not there.
    Missing(String),
}

pub fn run(global: &Global, args: &BugreportArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    let snapshot = client.snapshot();
    let seconds = sluice_clock::realtime().0 / 1_000_000_000;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("sluice-bugreport-{seconds}.tar.gz")));
    // Refused before anything is gathered.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&out).map_err(|error| {
        Failure::failed(format!("{}: {error}\n  help: name another file with --out", out.display()))
    })?;
    let done = write(global, args, &client, &snapshot, file, &out, seconds);
    if done.is_err() {
        // Half a report is none.
        let _ = std::fs::remove_file(&out);
    }
    done
}

fn write(
    global: &Global,
    args: &BugreportArgs,
    client: &Client<'_>,
    snapshot: &Result<Snapshot, Failure>,
    file: File,
    out: &Path,
    seconds: u64,
) -> Result<(), Failure> {
    let pieces = gather(global, client, args.config.as_deref(), snapshot);
    let names = names(args.config.as_deref(), snapshot.as_ref().ok());
    let mut redactor = (!args.no_redact).then(|| Redactor::new(salt(), names));
    let mut written = Vec::new();
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    let mut about = String::new();
    for (name, what, piece) in pieces {
        let (text, note) = said(piece, redactor.as_mut());
        about += &format!("{name:<16} {what}{note}\n");
        if let Some(text) = text {
            add(&mut archive, name, &text, seconds)?;
            written.push(json!({ "name": name, "bytes": text.len() }));
        }
    }
    let (addresses, hosts) = redactor.as_ref().map_or((0, 0), Redactor::counts);
    let readme = readme(&about, redactor.is_some(), addresses, hosts);
    add(&mut archive, "README.txt", &readme, seconds)?;
    written.push(json!({ "name": "README.txt", "bytes": readme.len() }));
    archive.into_inner().and_then(GzEncoder::finish)?.sync_all()?;
    if global.quiet {
        return Ok(());
    }
    let value = json!({
        "schema": SCHEMA,
        "file": out.display().to_string(),
        "redacted": redactor.is_some(),
        "addresses": addresses,
        "names": hosts,
        "entries": written,
    });
    output::one(global, &value, || format!("{readme}\nwrote {}: look into it before you send it\n", out.display()))
}

/// Everything that can be had, with a word on each.
fn gather(
    global: &Global,
    client: &Client<'_>,
    file: Option<&Path>,
    snapshot: &Result<Snapshot, Failure>,
) -> Vec<(&'static str, &'static str, Piece)> {
    let of_daemon = |path: &str| match client.get(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(failure) => Err(first_line(&failure)),
    };
    let lines = |path: &str| of_daemon(path).map_or_else(Piece::Missing, Piece::Lines);
    let document = |value: Result<Value, String>| value.map_or_else(Piece::Missing, Piece::Document);
    let snapshot_value =
        snapshot.as_ref().map_err(first_line).and_then(|s| serde_json::to_value(s).map_err(|e| e.to_string()));
    let conditions = snapshot_value.clone().map(|value| json!({ "schema": SCHEMA, "conditions": value["conditions"] }));
    let checks = serde_json::to_value(doctor::checks(global, file)).map_err(|error| error.to_string());
    vec![
        (
            "versions.json",
            "versions of the programs, the kernel and the distribution",
            Piece::Document(versions(snapshot.as_ref().ok())),
        ),
        (
            "doctor.json",
            "what sluice doctor found",
            document(checks.map(|checks| json!({ "schema": SCHEMA, "checks": checks }))),
        ),
        ("config.json", "every key that holds, and which line set it", configuration(client, file)),
        ("conditions.json", "what was wrong at that moment", document(conditions)),
        ("snapshot.json", "the state of the daemon: jobs, flows, links, switches, counters", document(snapshot_value)),
        (
            "timeline.json",
            "the last 60 s, slot by slot: for ui.perfetto.dev, or sluice top --replay",
            lines("/api/v1/timeline?last=60s&format=chrome"),
        ),
        ("metrics.txt", "the metrics page", of_daemon("/metrics").map_or_else(Piece::Missing, Piece::Text)),
        ("crash.jsonl", "what the daemon was told last before it crashed for the second time, or again", crash(file)),
        ("log.txt", "the last log lines of the units, where journald has them", log()),
    ]
}

fn first_line(failure: &Failure) -> String {
    failure.to_string().lines().next().unwrap_or_default().to_owned()
}

fn versions(snapshot: Option<&Snapshot>) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let distribution = read("/etc/os-release").and_then(|text| {
        text.lines().find_map(|line| Some(line.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()))
    });
    json!({
        "schema": SCHEMA,
        "sluice": env!("CARGO_PKG_VERSION"),
        "sluiced": snapshot.map(|s| json!({ "version": s.daemon.version, "revision": s.daemon.revision })),
        "kernel_interface": sluice_ebpf::ABI,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "kernel_build": read("/proc/sys/kernel/version"),
        "distribution": distribution,
        "architecture": std::env::consts::ARCH,
    })
}

/// Of the running daemon, else by the files.
fn configuration(client: &Client<'_>, file: Option<&Path>) -> Piece {
    if let Ok(value) = client.json::<Value>("/api/v1/config") {
        return Piece::Document(value);
    }
    match config::load(file, true) {
        Ok(loaded) => {
            let row = |key: reference::Holding| {
                let origin = key.origin.map(|origin| format!("{}:{}", origin.file.display(), origin.line));
                json!({ "key": key.key, "value": key.value, "origin": origin })
            };
            let keys: Vec<Value> = reference::holding(&loaded).into_iter().map(row).collect();
            Piece::Document(json!({ "schema": SCHEMA, "of": "files", "keys": keys }))
        }
        Err(problems) => Piece::Text(problems.to_string()),
    }
}

/// Of a daemon that crashed again within a minute.
fn crash(file: Option<&Path>) -> Piece {
    let dir = config::load(file, true).unwrap_or_default().config.node.state_dir;
    match sluiced::crashed::kept(&dir).map(std::fs::read_to_string) {
        Some(Ok(text)) => Piece::Lines(text),
        Some(Err(error)) => Piece::Missing(error.to_string()),
        None => Piece::Missing("it did not".into()),
    }
}

fn log() -> Piece {
    let arguments = ["-q", "--no-pager", "-o", "short-iso", "-n", LOG_LINES, "-u", "sluiced", "-u", "sluice-switch"];
    match Command::new("journalctl").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => Piece::Text(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Piece::Missing(format!("journalctl: {}", output.status)),
        Err(error) => Piece::Missing(format!("journalctl: {error}")),
    }
}

/// Names of hosts and switches that this host knows.
fn names(file: Option<&Path>, snapshot: Option<&Snapshot>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut host = |text: &str| {
        let name = text.rsplit_once(':').map_or(text, |(name, _)| name);
        names.insert(name.to_owned());
        names.extend(name.split_once('.').map(|(short, _)| short.to_owned()));
    };
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        host(name.trim());
    }
    if let Ok(loaded) = config::load(file, true) {
        host(&loaded.config.node.name);
        for switch in &loaded.config.switches {
            host(&switch.name);
            host(&switch.address.to_string());
        }
    }
    if let Some(snapshot) = snapshot {
        host(&snapshot.daemon.host);
        for switch in &snapshot.switches {
            host(&switch.name);
            host(&switch.address);
        }
        snapshot.links.iter().map(|link| link.holder.as_str()).filter(|name| !name.is_empty()).for_each(&mut host);
    }
    names
}

/// A piece as it is written, and what to say of it.
fn said(piece: Piece, redactor: Option<&mut Redactor>) -> (Option<String>, String) {
    let text = match (piece, redactor) {
        (Piece::Missing(why), redactor) => {
            let why = redactor.map_or_else(|| why.clone(), |redactor| redactor.text(&why));
            return (None, format!(" (missing: {why})"));
        }
        (Piece::Document(value), None) => format!("{value:#}\n"),
        (Piece::Document(value), Some(redactor)) => format!("{:#}\n", redactor.value(&value)),
        (Piece::Lines(text) | Piece::Text(text), None) => text,
        (Piece::Text(text), Some(redactor)) => redactor.text(&text),
        (Piece::Lines(text), Some(redactor)) => text.lines().map(|line| hidden(line, redactor) + "\n").collect(),
    };
    if text.len() <= MAX_PIECE {
        return (Some(text), String::new());
    }
    let cut = (0..=MAX_PIECE).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (text.get(..cut).map(str::to_owned), format!(" (cut: it had {} bytes)", text.len()))
}

/// A line that is a document with a comma behind it keeps its form.
fn hidden(line: &str, redactor: &mut Redactor) -> String {
    let (body, comma) = line.strip_suffix(',').map_or((line, ""), |body| (body, ","));
    match serde_json::from_str::<Value>(body) {
        Ok(value) => format!("{}{comma}", redactor.value(&value)),
        Err(_) => redactor.text(line),
    }
}

fn add(archive: &mut tar::Builder<GzEncoder<File>>, name: &str, text: &str, seconds: u64) -> Result<(), Failure> {
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(seconds);
    archive.append_data(&mut header, Path::new("sluice-bugreport").join(name), text.as_bytes())?;
    Ok(())
}

fn readme(about: &str, redacted: bool, addresses: usize, hosts: usize) -> String {
    let hidden = if redacted {
        format!(
            "Hidden: {addresses} addresses (addr-…) and {hosts} names of hosts and switches (host-…), each by a hash with a salt that \
             was drawn for this report and is not in it: the same one is the same everywhere in it. Loopback addresses stay. Values of keys that \
             name a secret are never in it.\nNot hidden: names of jobs, users' numbers, interfaces, ports, paths of files, and Sluice's own \
             ids of flows, hosts and links, by which a name that is guessed can be tried.\n"
        )
    } else {
        "Nothing is hidden (--no-redact) but values of keys that name a secret.\n".into()
    };
    format!("A report of sluice {}.\n\n{about}\n{hidden}", env!("CARGO_PKG_VERSION"))
}

/// From the system; without its source of randomness, from the hasher's keys, which are drawn from there too.
fn salt() -> [u8; 16] {
    let mut salt = [0; 16];
    if File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut salt)).is_err() {
        for part in salt.chunks_mut(8) {
            let drawn = std::collections::hash_map::RandomState::new().build_hasher().finish().to_ne_bytes();
            part.iter_mut().zip(drawn).for_each(|(to, from)| *to = from);
        }
    }
    salt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_trace_stay_lines_of_a_trace() {
        let mut redactor = Redactor::new([1; 16], ["gpu-17".to_owned()]);
        let line = r#"{"name":"links on gpu-17","args":{"to":"10.0.0.1:5"}},"#;
        let said = hidden(line, &mut redactor);
        assert!(said.ends_with("},") && !said.contains("gpu-17") && !said.contains("10.0.0.1"), "{said}");
        assert!(serde_json::from_str::<Value>(said.trim_end_matches(',')).is_ok());
        let broken = hidden(r#"{"otherData":{"host":"gpu-17"},"traceEvents":["#, &mut redactor);
        assert!(!broken.contains("gpu-17") && broken.ends_with('['), "{broken}");
    }

    #[test]
    fn what_is_missing_says_why_without_saying_where() {
        let mut redactor = Redactor::new([1; 16], []);
        let (text, note) = said(Piece::Missing("10.0.0.7: refused".into()), Some(&mut redactor));
        assert!(text.is_none() && note.contains("missing") && !note.contains("10.0.0.7"), "{note}");
    }

    #[test]
    fn salts_differ() {
        assert_ne!(salt(), salt());
    }
}
