//! `sluice config`: files judged and shown without a daemon, and the page of all keys.

use std::path::Path;

use super::desk::{Desk, stderr, stdout};

const GOOD: &str = "mode = \"active\"\n\n[enforce]\nmax_flows = 1024\nfloor_mbps = 10\n\n[[links]]\nname = \"eth0\"\ngbps = 25\n\n[node]\nstate_dir = \"/nonexistent/state\"\n";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("sluiced.toml", GOOD);
    std::fs::create_dir(desk.path("sluiced.d")).expect("made");
    desk.write("sluiced.d/10-site.toml", "[enforce]\nmax_flows = 2048\n");
    desk
}

#[test]
fn what_holds_is_shown_with_the_line_that_set_it() {
    let desk = desk();
    let line = "config show --config sluiced.toml --changed";
    let value = desk.json(line);
    assert_eq!(value["schema"], 1);
    let keys = value["keys"].as_array().expect("a list");
    let one = |key: &str| keys.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key} in {value:#}"));
    assert_eq!((&one("mode")["value"], &one("mode")["default"]), (&"active".into(), &"observe".into()));
    assert_eq!(one("mode")["origin"], "sluiced.toml:1");
    assert_eq!(
        (&one("enforce.max_flows")["value"], &one("enforce.max_flows")["origin"]),
        (&2048.into(), &"sluiced.d/10-site.toml:2".into())
    );
    assert_eq!(one("links.eth0.gbps")["origin"], "sluiced.toml:7");
    assert!(keys.iter().all(|row| row["key"] != "enforce.floor_mbps"), "set to its default: {value:#}");
    let text = stdout(&desk.run(&format!("{line} --origin enforce")));
    assert_eq!(text, "enforce.max_flows  2048   # sluiced.d/10-site.toml:2\n");
    let all = stdout(&desk.run("config show --config sluiced.toml slot --origin"));
    assert!(all.contains("slot.length_ms  60   # default"), "{all}");
    let unknown = desk.run("config show --config sluiced.toml slot.lenght_ms");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean `slot.length_ms`"), "{}", stderr(&unknown));
}

#[test]
fn a_configuration_is_judged_whole_and_without_a_daemon() {
    let desk = desk();
    assert_eq!(desk.json("config check sluiced.toml --offline")["valid"], true);
    let said = stdout(&desk.run("config check sluiced.toml --offline"));
    assert!(said.contains("sluiced.d/10-site.toml") && said.contains("keys are set"), "{said}");
    desk.write("sluiced.toml", "mode = \"fast\"\n[slot]\nlength_ms = 600\n[metrics]\nflowz = \"off\"\n");
    assert_eq!(desk.refused("config check sluiced.toml --offline"), ("E_RANGE".into(), "mode".into()));
    let all = stderr(&desk.run("config check sluiced.toml --offline"));
    for piece in [
        "slot.length_ms",
        "allowed: 5 to 200",
        "error[E_KEY]",
        "unknown key `flowz` in [metrics]",
        "did you mean `flows`",
    ] {
        assert!(all.contains(piece), "{piece} in {all}");
    }
    desk.write("switch.toml", "[[switches]]\nname = \"s\"\nports = [{ id = 0, to = \"h\", gbps = 1 }]\n");
    assert_eq!(desk.refused("config check --switch switch.toml"), ("E_CONFLICT".into(), "listen.grpc".into()));
    desk.write("switch.toml", &format!("open = true\nunauthenticated = true\n{}", desk.read("switch.toml")));
    assert_eq!(desk.json("config check --switch switch.toml")["valid"], true);
}

#[test]
fn defaults_and_schema_are_documents() {
    let desk = Desk::new();
    let defaults = stdout(&desk.run("config defaults"));
    // Not what a daemon of this machine may keep.
    desk.write("all.toml", &defaults.replace("/var/lib/sluice", "/nonexistent/state"));
    assert_eq!(desk.json("config check all.toml --offline")["valid"], true);
    assert_eq!(stdout(&desk.run("config show --config all.toml --changed mode")), "every key has its default\n");
    let keys = desk.json("config defaults");
    assert!(keys["keys"].as_array().is_some_and(|keys| keys.len() > 80), "{keys:#}");
    let schema: serde_json::Value = serde_json::from_slice(&desk.run("config schema").stdout).expect("JSON");
    assert_eq!(schema["properties"]["slot"]["properties"]["horizon"]["maximum"], 32);
}

#[test]
fn the_page_of_all_keys_is_what_the_code_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let said = stdout(&Desk::new().run("config reference"));
    if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
        std::fs::write(&page, &said).expect("write");
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    let differs = said.lines().zip(written.lines()).find(|(said, written)| said != written);
    assert!(said == written, "docs/configuration.md is not what `sluice config reference` prints: {differs:?}");
}

#[test]
fn without_a_daemon_it_says_that_files_can_be_shown() {
    let desk = Desk::new();
    let output = desk.run("config show --socket /nonexistent/d.sock");
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("sluice config show --files"), "{}", stderr(&output));
}
