use serde_json::json;

use super::*;

fn redactor(names: &[&str]) -> Redactor {
    Redactor::new([7; 16], names.iter().map(|name| (*name).to_owned()))
}

/// Draws that are the same in every run.
fn random(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 17
    }
}

#[test]
fn no_address_of_any_text_survives() {
    let mut next = random(5);
    let around = [
        "", " ", "\"", "=", "[", "]", "(", ")", ",", "/", "@", "\n", "-", "_", ";", "<", "peer ", "from:", ": ", "|",
        "ä",
    ];
    for _ in 0..20_000 {
        let mut draw = |n: usize| (next() % n as u64) as usize;
        let (before, after) = (around[draw(around.len())], around[draw(around.len())]);
        // A letter right behind a digit may belong to the address: then it is none.
        let after = if after.starts_with(|c: char| c.is_ascii_alphanumeric()) { " " } else { after };
        let v4 = Ipv4Addr::new(1 + draw(126) as u8, draw(256) as u8, draw(256) as u8, draw(256) as u8);
        let segments: [u16; 8] =
            std::array::from_fn(|i| if i > 0 && draw(3) == 0 { 0 } else { 1 + draw(65_535) as u16 });
        let v6 = Ipv6Addr::from(segments);
        let mac: Vec<String> = (0..6).map(|_| format!("{:02x}", draw(256))).collect();
        let mac = mac.join(":");
        // A colon right before an address of colons makes it another one.
        let before = if before.ends_with(':') { "from " } else { before };
        for address in [v4.to_string(), v6.to_string(), mac, format!("::ffff:{v4}")] {
            if address.starts_with("127.") {
                continue;
            }
            for written in [
                format!("{before}{address}{after}"),
                format!("{before}[{address}]:9604{after}"),
                format!("{before}{address}/24{after}"),
            ] {
                let hidden = redactor(&[]).text(&written);
                assert!(!hidden.contains(&address), "{written:?} became {hidden:?}");
                assert!(hidden.contains("addr-"), "{written:?} became {hidden:?}");
            }
        }
    }
}

#[test]
fn an_address_is_the_same_within_a_report_and_another_in_the_next() {
    let mut one = redactor(&[]);
    let (a, b) = (one.text("10.0.3.21:40118 and ::ffff:10.0.3.21"), one.text("10.0.3.21"));
    assert_eq!(a, format!("{b}:40118 and {b}"), "also as IPv6 carries it");
    assert_ne!(one.text("10.0.3.22"), b);
    assert_ne!(Redactor::new([8; 16], []).text("10.0.3.21"), b);
    assert_eq!(one.counts(), (2, 0));
}

#[test]
fn what_points_at_nobody_stays() {
    let text = "listen 127.0.0.1:9605, [::]:9604, ::1 at 12:34:56.789 on kernel 6.18.0-1, sluiced::monitor=debug, 0.1.0, 50 % of 1.25 Gbit/s";
    assert_eq!(redactor(&[]).text(text), text);
}

#[test]
fn names_of_hosts_go_with_their_domains_and_longer_words_stay() {
    let mut redactor = redactor(&["gpu-1", "leaf-1", "GPU-17.pod-a.example", "x", "localhost", ""]);
    let hidden =
        redactor.text("gpu-1 speaks to leaf-1:7 and GPU-1.pod-b.example, not gpu-11; gpu-17.pod-a.example x localhost");
    for gone in ["gpu-1 ", "leaf-1", "pod-b", "pod-a", "GPU-1"] {
        assert!(!hidden.contains(gone), "{gone} in {hidden}");
    }
    assert!(hidden.contains("not gpu-11;") && hidden.ends_with(" x localhost"), "{hidden}");
    let one = redactor.text("gpu-1");
    assert!(
        hidden.starts_with(&format!("{one} speaks to host-")) && hidden.contains(&format!("and {one},")),
        "{hidden}"
    );
    assert_eq!(redactor.counts(), (0, 3));
}

#[test]
fn documents_keep_their_form_and_secrets_are_never_in_them() {
    let document = json!({
        "switches": [{ "name": "leaf-1", "address": "10.0.0.11:9604", "up": true, "age": 3 }],
        "by": { "10.0.0.11": 1 },
        "fleet": { "password": "hunter2", "etcd.tls_key": "/etc/key.pem" },
        "keys": [{ "key": "peer.tls.key", "value": "/etc/sluice/key.pem" }, { "key": "mode", "value": "active" }],
    });
    let hidden = redactor(&["leaf-1"]).value(&document);
    let text = hidden.to_string();
    for gone in ["leaf-1", "10.0.0.11", "hunter2", "key.pem"] {
        assert!(!text.contains(gone), "{gone} in {text}");
    }
    assert_eq!((&hidden["switches"][0]["up"], &hidden["switches"][0]["age"]), (&true.into(), &3.into()));
    assert_eq!((&hidden["keys"][1]["key"], &hidden["keys"][1]["value"]), (&"mode".into(), &"active".into()));
}

#[test]
fn any_text_is_survived() {
    let mut next = random(11);
    for _ in 0..20_000 {
        let length = next() % 60;
        let text: String = (0..length)
            .map(|_| ["::", "1", "a", ".", "10.", "é", ":", "/", "gpu-1", "\u{0}"][(next() % 10) as usize])
            .collect();
        redactor(&["gpu-1"]).text(&text);
    }
}
