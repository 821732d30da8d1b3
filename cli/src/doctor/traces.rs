//! `sluice doctor --traces`: everything of Sluice on this host that is outside the files of this very command: processes,
//! what the kernel holds, and what lies on disks. It looks and changes nothing.

mod disk;
mod kernel;

use serde::Serialize;
use serde_json::json;
use sluice_wire::snapshot::SCHEMA;

use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::output;

/// What a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Process,
    CongestionControl,
    Socket,
    Program,
    Pin,
    Sysctl,
    Cgroup,
    Namespace,
    Mount,
    Package,
    Unit,
    File,
    User,
    Group,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Process => "process",
            Kind::CongestionControl => "congestion control",
            Kind::Socket => "socket",
            Kind::Program => "program",
            Kind::Pin => "pin",
            Kind::Sysctl => "sysctl",
            Kind::Cgroup => "cgroup",
            Kind::Namespace => "namespace",
            Kind::Mount => "mount",
            Kind::Package => "package",
            Kind::Unit => "unit",
            Kind::File => "file",
            Kind::User => "user",
            Kind::Group => "group",
        }
    }
}

/// One thing that is there because of Sluice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Trace {
    pub kind: Kind,
    pub what: String,
    /// How it goes.
    pub undo: String,
}

impl Trace {
    fn new(kind: Kind, what: impl Into<String>, undo: impl Into<String>) -> Trace {
        Trace { kind, what: what.into(), undo: undo.into() }
    }
}

/// What was found, and what could not be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    pub traces: Vec<Trace>,
    /// Where this user may not look, in sentences.
    pub unseen: Vec<String>,
}

/// Prints what is there; exit status 3 where something is.
pub fn run(global: &Global) -> Result<(), Failure> {
    let mut found = Found::default();
    kernel::look(&mut found);
    disk::look(std::path::Path::new("/"), &mut found);
    found.traces.sort();
    found.traces.dedup();
    if !global.quiet {
        if matches!(global.format(), Format::Csv | Format::Jsonl) {
            output::list(global, "traces", &found.traces, String::new)?;
        } else {
            let value = json!({ "schema": SCHEMA, "traces": found.traces, "unseen": found.unseen });
            output::one(global, &value, || text(&found))?;
        }
    }
    match found.traces.len() {
        0 => Ok(()),
        1 => Err(Failure::no("1 trace of Sluice on this host")),
        many => Err(Failure::no(format!("{many} traces of Sluice on this host"))),
    }
}

fn text(found: &Found) -> String {
    let mut out = String::new();
    let mut last = None;
    for trace in &found.traces {
        let word = if last == Some(trace.kind) { "" } else { trace.kind.word() };
        out += &format!("  {word:<18}  {}\n", trace.what);
        last = Some(trace.kind);
    }
    let mut ways: Vec<&str> = found.traces.iter().map(|trace| trace.undo.as_str()).collect();
    ways.dedup();
    let mut told = Vec::new();
    for way in ways.into_iter().filter(|way| !way.is_empty()) {
        if !told.contains(&way) {
            out += &format!("  to undo: {way}\n");
            told.push(way);
        }
    }
    if found.traces.is_empty() {
        out += "nothing\n";
    }
    for sentence in &found.unseen {
        out += &format!("  not seen: {sentence}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_host_has_nothing_and_what_was_not_seen_is_said() {
        let mut found = Found::default();
        assert_eq!(text(&found), "nothing\n");
        found.unseen.push("programs in the kernel: permission refused".into());
        assert_eq!(text(&found), "nothing\n  not seen: programs in the kernel: permission refused\n");
    }

    #[test]
    fn traces_stand_together_by_kind_with_one_way_to_undo_each() {
        let pin = |name: &str| Trace::new(Kind::Pin, name, "sluiced cleanup");
        let found = Found { traces: vec![pin("a"), pin("b")], unseen: vec![] };
        assert_eq!(text(&found), "  pin                 a\n                      b\n  to undo: sluiced cleanup\n");
    }
}
