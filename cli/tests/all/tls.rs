//! `sluice tls`: an authority, certificates of it, and what is refused.

use std::os::unix::fs::PermissionsExt as _;

use sluice_identity::authority::{Authority, subject};
use sluice_identity::credentials::unix_now;
use sluice_identity::{Files, Kind};

use super::desk::{Desk, stderr, stdout};

#[test]
fn a_cluster_without_an_authority_gets_one_and_certificates_of_it() {
    let desk = Desk::new();
    let made = desk.run("tls init --dir ca --cluster pod-a");
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert!(stdout(&made).contains("keep it off the hosts"), "{}", stdout(&made));
    let again = desk.run("tls init --dir ca --cluster pod-a");
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("never replaced"), "{}", stderr(&again));
    let value = desk.json("tls issue --ca ca --host gpu-17 --switch leaf-1 --out issued --days 30");
    let identities: Vec<&str> =
        value["certificates"].as_array().expect("a list").iter().filter_map(|row| row["identity"].as_str()).collect();
    assert_eq!(identities, ["spiffe://pod-a/host/gpu-17", "spiffe://pod-a/switch/leaf-1"]);
    let mode = |name: &str| {
        let meta = std::fs::metadata(desk.path(&format!("issued/gpu-17/{name}"))).expect("there");
        meta.permissions().mode() & 0o777
    };
    assert_eq!((mode("key.pem") & 0o037, mode("cert.pem") & 0o022), (0, 0));
    let twice = desk.run("tls issue --ca ca --host gpu-17 --out issued");
    assert_eq!(twice.status.code(), Some(1));
    assert!(stderr(&twice).contains("not overwritten") && stderr(&twice).contains("rotate"), "{}", stderr(&twice));
    // None is due; all are when they are asked for.
    let before = desk.read("issued/gpu-17/cert.pem");
    assert_eq!(desk.json("tls rotate --ca ca --due issued/gpu-17")["certificates"].as_array().map(Vec::len), Some(0));
    assert_eq!(desk.read("issued/gpu-17/cert.pem"), before);
    let value = desk.json("tls rotate --ca ca issued/gpu-17");
    assert_eq!(value["certificates"][0]["identity"], "spiffe://pod-a/host/gpu-17");
    assert_eq!(value["certificates"][0]["state"], "good");
    assert_ne!(desk.read("issued/gpu-17/cert.pem"), before);
    // And the one that is, of two.
    let files = Files::in_directory(&desk.path("issued/gpu-17"));
    let authority = Authority::load(&desk.path("ca")).expect("made above");
    let (name, now) = (subject("pod-a", Kind::Host, "gpu-17").expect("a name"), unix_now());
    authority.issue_between(&name, now - 1_000, now + 100).expect("issued").write(&files).expect("written");
    assert_eq!(desk.json("tls show issued/gpu-17")["certificates"][0]["state"], "expires soon");
    let value = desk.json("tls rotate --ca ca --due issued/gpu-17 issued/leaf-1");
    assert_eq!(value["certificates"].as_array().map(Vec::len), Some(1));
    assert_eq!(value["certificates"][0]["state"], "good");
    let left: Vec<String> = std::fs::read_dir(desk.path("issued/gpu-17"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left.len(), 3, "nothing half-written is left: {left:?}");
}

#[test]
fn what_is_wrong_with_a_certificate_is_shown_and_the_answer_is_no() {
    let desk = Desk::new();
    desk.run("tls init --dir ca");
    desk.run("tls issue --ca ca --host h0 --out .");
    assert_eq!(desk.run("tls show h0").status.code(), Some(0));
    let key = desk.path("h0/key.pem");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("set");
    let shown = desk.run("tls show h0");
    assert_eq!(shown.status.code(), Some(3));
    assert!(stdout(&shown).contains("key-file-mode"), "{}", stdout(&shown));
    for (command, part) in [
        ("tls issue --ca ca --host H0", "[a-z0-9._-]"),
        ("tls issue --ca nowhere --host h1", "ca.key"),
        ("tls init --dir other --cluster Pod", "[a-z0-9._-]"),
        ("tls issue --ca ca", "--host"),
    ] {
        let refused = desk.run(command);
        assert_eq!(refused.status.code(), Some(2), "{command}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(part), "{command}: {}", stderr(&refused));
    }
    let help = stdout(&desk.run("tls --help"));
    for part in ["spiffe://CLUSTER/host/NAME", "sluice tls init", "sluice tls rotate", "SPIRE"] {
        assert!(help.contains(part), "{part} in {help}");
    }
}
