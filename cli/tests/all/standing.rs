//! A network that stands: made by one command, used by others, taken away by a third, and by nobody who did not make it.

use std::path::Path;

use super::desk::{Desk, stderr, stdout};

const PAIR: &str = "version = 1\nname = \"pair\"\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 1\ngbps = 10\n[testbed]\nscale = 100\n[[jobs]]\nid = \"a\"\narch = \"ring\"\nbytes = 1000000\ncompute_s = 0.1\nworkers = 2\niterations = 3\n";

/// How many cgroups there are of the networks that a process made, where control groups of version 2 are alone and where
/// they are beside those of version 1.
fn cgroups(pid: i64) -> usize {
    let of_it = format!("sluice-testbed-{pid}-");
    let in_dir = |dir| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let all = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter().flat_map(in_dir);
    all.filter(|name| name.to_string_lossy().starts_with(&of_it)).count()
}

#[test]
fn a_network_stands_until_it_is_taken_down() {
    if !nix::unistd::geteuid().is_root() {
        return sluice_skip::skip!(Privilege, "namespaces need root");
    }
    let desk = Desk::new();
    desk.write("pair.toml", PAIR);
    let value = desk.json("testbed up pair.toml --name stood --dir up");
    let network = &value["network"];
    let (pid, address) =
        (network["pid"].as_i64().expect("a pid"), network["hosts"][1]["address"].as_str().expect("an address"));
    let again = desk.run("testbed up pair.toml --name stood --dir up");
    assert!(again.status.code() == Some(3) && stderr(&again).contains("up already"), "{}", stderr(&again));
    // Another host is there, and this machine's own network is not.
    let seen = stdout(&desk.run("testbed exec stood h0 --dir up -- ip -o address"));
    assert!(
        seen.contains(network["hosts"][0]["address"].as_str().expect("an address")) && !seen.contains(address),
        "{seen}"
    );
    let route = desk.run(&format!("testbed exec stood h0 --dir up -- ip route get {address}"));
    assert_eq!(route.status.code(), Some(0), "{}", stderr(&route));
    assert_eq!(desk.run("testbed exec stood h0 --dir up -- sh -c exit").status.code(), Some(0));
    for (line, status) in [
        ("testbed exec stood h9 --dir up -- true", 2),
        ("testbed exec other h0 --dir up -- true", 3),
        ("testbed down other --dir up", 3),
        ("testbed down ../x --dir up", 2),
    ] {
        assert_eq!(desk.run(line).status.code(), Some(status), "{line}");
    }
    // Of a process that did not make it nothing is entered and nothing ended.
    let note = desk.read("up/stood.json");
    let began = network["began"].as_u64().expect("a time");
    desk.write("up/forged.json", &note.replace("stood", "forged").replace(&began.to_string(), "1"));
    assert_eq!(desk.run("testbed down forged --dir up").status.code(), Some(3));
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(desk.json("testbed down --dir up")["networks"].as_array().map(Vec::len), Some(1));
    assert!(cgroups(pid) >= 1, "where they are looked for there are none of it");
    let down = desk.run("testbed down stood --dir up");
    assert_eq!(down.status.code(), Some(0), "{}", stderr(&down));
    assert!(!desk.path("up/stood.json").exists(), "no note is left");
    let ended = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(!ended, "its keeper has ended");
    assert_eq!(cgroups(pid), 0, "a cgroup is left");
}
