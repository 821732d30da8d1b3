//! `sluice timeline`: fetch the ring from the daemon, or follow it, or merge the files of several hosts.

mod follow;

use std::fs;
use std::path::Path;

use serde_json::Value;
use sluice_wire::timeline::merge;

use crate::args::{TimelineArgs, TimelineCmd, TimelineFormat};
use crate::client::Client;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::words::word;

/// Largest trace that is merged.
const MAX_BYTES: u64 = 512 << 20;

/// `sluice timeline` and `sluice timeline merge`.
pub fn run(global: &Global, args: &TimelineArgs) -> Result<(), Failure> {
    if let Some(TimelineCmd::Merge { traces, out }) = &args.merge {
        let mut loaded = Vec::with_capacity(traces.len());
        for path in traces {
            loaded.push((path.display().to_string(), load(path)?));
        }
        let merged = merge(loaded).map_err(Failure::input)?;
        return write(out.as_deref(), format!("{merged}\n").as_bytes());
    }
    let job = args.job.as_ref().map_or(String::new(), |job| format!("&job={}", escaped(job)));
    let (last, rest) = (args.last.0 / 1_000_000, format!("&format={}{job}", word(args.format)));
    let client = Client::new(global)?;
    if args.follow {
        if !matches!(args.format, TimelineFormat::Csv | TimelineFormat::Jsonl) {
            return Err(Failure::input("--follow goes with --format csv or jsonl: other forms are one whole document"));
        }
        let file = args.file.as_deref().filter(|path| path.as_os_str() != "-");
        return follow::run(&client, args.format, last, &rest, file);
    }
    let bytes = client.get(&format!("/api/v1/timeline?last={last}ms{rest}"))?;
    write(args.file.as_deref(), &bytes)
}

fn load(path: &Path) -> Result<Value, Failure> {
    let shown = path.display();
    let size = fs::metadata(path).map_err(|error| Failure::input(format!("{shown}: {error}")))?.len();
    if size > MAX_BYTES {
        return Err(Failure::input(format!(
            "{shown}: {size} bytes, at most {MAX_BYTES} are merged; export a shorter time"
        )));
    }
    let bytes = fs::read(path).map_err(|error| Failure::input(format!("{shown}: {error}")))?;
    serde_json::from_slice(&bytes).map_err(|error| Failure::input(format!("{shown}: not a trace: {error}")))
}

fn write(file: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    match file {
        Some(path) if path.as_os_str() != "-" => {
            fs::write(path, bytes).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
            eprintln!("wrote {} ({} bytes)", path.display(), bytes.len());
            Ok(())
        }
        _ => output::print(&String::from_utf8_lossy(bytes)),
    }
}

/// A query value with everything but unreserved characters escaped.
fn escaped(text: &str) -> String {
    let one = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}
