//! What the running daemon's own figures say: free rows, pins of other versions, cgroups that are paced twice, log lines that
//! journald dropped, and whether each switch would understand this host.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sluice_ebpf::traces::{Pinned, doubled, pinned};
use sluice_wire::snapshot::{Backend, Snapshot};
use sluiced::config::Loaded;
use sluiced::handshake::{Answer, Greeted, greet};

use super::Check;
use crate::format::grouped;

/// A table so full is worth a word before it is full.
const NEARLY_FULL: f64 = 0.9;
/// For one switch to answer.
const ANSWER: Duration = Duration::from_millis(1_500);
/// Log lines of journald that are looked at.
const LINES: &str = "200";

/// Rows of the kernel's tables; nothing where no order is enforced.
pub fn rows(snapshot: &Snapshot) -> Option<Check> {
    let enforcement = &snapshot.enforcement;
    if enforcement.backend == Backend::None || enforcement.rows == 0 {
        return None;
    }
    let found = format!(
        "{} of {} rows of the flow table are in use",
        grouped(enforcement.rows_used),
        grouped(enforcement.rows)
    );
    if (enforcement.rows_used as f64) < NEARLY_FULL * enforcement.rows as f64 {
        return Some(Check::ok("rows", found));
    }
    Some(
        Check::warn("rows", found)
            .expected("a tenth of them free")
            .cost("flows without a row run under ordinary TCP")
            .fix("enforce.max_flows = the next power of 2, then systemctl restart sluiced"),
    )
}

/// Pins of every instance below `root`: of another version, or of one cgroup twice.
pub fn pins(root: &Path) -> Vec<Check> {
    let places: Vec<Pinned> = pinned(root).into_iter().filter(|place| !place.is_folder()).collect();
    let mut checks = Vec::new();
    let foreign: Vec<String> =
        places.iter().filter(|place| place.is_foreign()).map(|place| place.dir.display().to_string()).collect();
    let ours = sluice_ebpf::ABI;
    checks.push(match (places.is_empty(), foreign.is_empty()) {
        (true, _) => Check::ok("abi", format!("nothing is pinned; this version's kernel interface is {ours}")),
        (false, true) => Check::ok("abi", format!("pins are of this version's kernel interface ({ours})")),
        (false, false) => Check::warn(
            "abi",
            format!("pins of another kernel interface than this version's ({ours}): {}", foreign.join(", ")),
        )
        .cost("their flows go back to ordinary TCP before they are taken over")
        .fix("systemctl restart sluiced removes them; without a daemon: sluiced cleanup"),
    });
    let twice = doubled(&places);
    if !twice.is_empty() {
        let told: Vec<String> = twice
            .iter()
            .map(|(inode, places)| {
                let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
                format!("cgroup {inode} by {}", places.join(" and "))
            })
            .collect();
        checks.push(
            Check::warn("attachments", format!("paced twice: {}", told.join("; ")))
                .expected("one daemon for each cgroup")
                .cost("two daemons give orders to the same sockets, and the later one holds")
                .fix("stop one of them; capture.cgroups keeps two daemons of one kernel apart"),
        );
    } else if !places.is_empty() {
        checks.push(Check::ok("attachments", "no cgroup is paced by two daemons"));
    }
    checks
}

/// Log lines that journald dropped; nothing where there is no journal.
pub fn journal() -> Option<Check> {
    let arguments =
        ["-q", "-b", "-o", "cat", "-n", LINES, "--no-pager", "_COMM=systemd-journal", "--grep=Suppressed .* sluice"];
    let output = Command::new("journalctl").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    dropped(&String::from_utf8_lossy(&output.stdout), output.status.success())
}

/// From journald's own lines, as in `Suppressed 31 messages from sluiced.service`.
fn dropped(said: &str, ran: bool) -> Option<Check> {
    let of_line = |line: &str| {
        let (number, unit) = line.trim().strip_prefix("Suppressed ")?.split_once(" messages from ")?;
        unit.contains("sluice").then(|| number.parse::<u64>().ok())?
    };
    match said.lines().filter_map(of_line).sum::<u64>() {
        0 if !ran => None,
        0 => Some(Check::ok("journal", "journald dropped no log lines of Sluice since the boot")),
        lines => Some(
            Check::warn("journal", format!("journald dropped {} log lines of Sluice since the boot", grouped(lines)))
                .cost("what happened then is not all in the log; conditions and metrics are not affected")
                .fix("sluice log info, if it was more; else LogRateLimitBurst= in a drop-in of the unit"),
        ),
    }
}

/// One hello to every switch that the files name; needs no daemon.
pub fn handshakes(loaded: &Loaded) -> Vec<Check> {
    if loaded.config.switches.is_empty() {
        return Vec::new();
    }
    match greet(loaded, ANSWER) {
        Ok(greeted) => greeted.iter().map(|one| judge(one, loaded)).collect(),
        Err(error) => vec![Check::warn("handshake", format!("no switch could be asked: {error}")).fix("try again")],
    }
}

fn judge(greeted: &Greeted, loaded: &Loaded) -> Check {
    let Greeted { name, address, answer } = greeted;
    match answer {
        Answer::Understood(switches) if switches.contains(name) => {
            let (slot, horizon) = (loaded.config.slot.length_ms, loaded.config.slot.horizon);
            let cluster = &loaded.config.node.cluster;
            Check::ok(
                "handshake",
                format!("{name} at {address}: cluster {cluster}, slots of {slot} ms, horizon {horizon}"),
            )
        }
        Answer::Understood(switches) => {
            let there = if switches.is_empty() { "none".into() } else { switches.join(", ") };
            Check::warn("handshake", format!("{address} answers and keeps no switch {name} (it keeps: {there})"))
                .cost("nobody keeps the tables of its links: they follow this host's own")
                .fix("the same name in [[switches]] here and in sluice-switch.toml there")
        }
        Answer::Refused(why) => Check::fail("handshake", format!("{name} at {address} refuses this host: {why}"))
            .cost("nothing is exchanged with it: its links follow this host's own table")
            .fix("make cluster, slot and clock equal on both"),
        Answer::Silent(why) => Check::warn("handshake", format!("{name} at {address} does not answer: {why}"))
            .cost("its links follow this host's own table")
            .fix("is sluice-switch running there, is its address reachable, does its peers list have this host?"),
        Answer::NotAsked => {
            Check::info("handshake", format!("{name} at {address} is spoken to by datagrams, which have no hello"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_table_that_is_nearly_full_is_told_before_it_is() {
        let mut snapshot = Snapshot::default();
        assert_eq!(rows(&snapshot), None, "nothing is enforced");
        snapshot.enforcement.backend = Backend::StructOps;
        (snapshot.enforcement.rows, snapshot.enforcement.rows_used) = (4096, 3000);
        assert_eq!(rows(&snapshot).map(|check| check.state), Some(State::Ok));
        snapshot.enforcement.rows_used = 3900;
        let check = rows(&snapshot).expect("a check");
        assert!(check.state == State::Warn && check.found.starts_with("3 900 of 4 096"), "{check:?}");
    }

    #[test]
    fn pins_of_other_versions_and_cgroups_paced_twice_are_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let states = |root: &Path| pins(root).iter().map(|check| (check.id, check.state)).collect::<Vec<_>>();
        assert_eq!(states(dir.path()), [("abi", State::Ok)]);
        std::fs::create_dir(dir.path().join("sluice")).expect("made");
        assert_eq!(states(dir.path()), [("abi", State::Ok)], "nothing is in it yet");
        let own = format!("abi{}", sluice_ebpf::ABI);
        for place in [format!("sluice/{own}"), format!("sluiceb/{own}")] {
            std::fs::create_dir_all(dir.path().join(&place)).expect("made");
        }
        std::fs::write(dir.path().join(format!("sluice/{own}/cg-7")), "").expect("written");
        assert_eq!(states(dir.path()), [("abi", State::Ok), ("attachments", State::Ok)]);
        std::fs::write(dir.path().join(format!("sluiceb/{own}/cg-7")), "").expect("written");
        std::fs::create_dir(dir.path().join("sluice/abi1")).expect("made");
        assert_eq!(states(dir.path()), [("abi", State::Warn), ("attachments", State::Warn)]);
        let checks = pins(dir.path());
        assert!(checks[0].found.contains("sluice/abi1") && checks[1].found.contains("cgroup 7 by "), "{checks:?}");
    }

    #[test]
    fn what_journald_dropped_is_summed() {
        let said = "Suppressed 31 messages from sluiced.service\nSuppressed 5 messages from cron.service\nSuppressed 11 messages from sluice-switch.service\nSuppressed x messages from sluiced.service\n";
        let check = dropped(said, true).expect("lines");
        assert!(check.state == State::Warn && check.found.contains("42 log lines"), "{check:?}");
        assert_eq!(dropped("", true).map(|check| check.state), Some(State::Ok));
        assert_eq!(dropped("", false), None, "there is no journal");
    }

    #[test]
    fn every_answer_of_a_switch_has_its_judgement() {
        let loaded = Loaded::default();
        let state = |answer| {
            let check = judge(&Greeted { name: "s0".into(), address: "a:1".into(), answer }, &loaded);
            assert!(check.state == State::Ok || check.state == State::Info || !check.fix.is_empty(), "{check:?}");
            check.state
        };
        assert_eq!(state(Answer::Understood(vec!["s0".into()])), State::Ok);
        assert_eq!(state(Answer::Understood(vec!["s1".into()])), State::Warn);
        assert_eq!(state(Answer::Refused("slot-length-mismatch: …".into())), State::Fail);
        assert_eq!(state(Answer::Silent("refused".into())), State::Warn);
        assert_eq!(state(Answer::NotAsked), State::Info);
    }
}
