//! F37: whose certificate it is.

use sluice_identity::files::first_certificate;
use sluice_identity::{Kind, Name, Proven};

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses, then a certificate as DER, or one as PEM, or a name.
pub static CERTIFICATES: Target = Target {
    name: "F37-certificates",
    parser: "X.509 certificates and the names in them",
    property: "whoever is named has a name of small letters and digits, and is nobody else; a refusal has no control character and is short",
    shape: Shape::Bytes,
    run: certificates,
    seeds,
};

fn certificates(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 3 {
        0 => proven(rest),
        1 => {
            if let Ok(der) = first_certificate(rest) {
                proven(&der);
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            if let Some(name) = Name::parse(text) {
                assert_eq!(name.to_string(), text, "a name is written in one way only");
                assert_eq!(Name::new(&name.cluster, name.kind, &name.id), Some(name));
            }
        }
    }
}

fn proven(der: &[u8]) {
    match Proven::of(der) {
        Ok(proven) => {
            let text = proven.to_string();
            assert!(text.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{text:?}");
            if let Some(name) = Name::parse(&text) {
                let Name { cluster, kind, id } = &name;
                assert!(proven.is(*kind, cluster, id));
                let other = if *kind == Kind::Host { Kind::Switch } else { Kind::Host };
                assert!(!proven.is(other, cluster, id) && !proven.is(*kind, "", id) && !proven.is(*kind, cluster, ""));
            }
            assert!(!proven.is(Kind::Host, "default", "\n"), "nobody is called so");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1000 && !text.chars().any(char::is_control), "{text:?}");
        }
    }
}

/// One element of DER.
fn element(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = match length {
        0..128 => vec![tag, length as u8],
        128..256 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [head, body.to_vec()].concat()
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

/// A certificate with these alternative names. Nobody has signed it: whoever reads names looks at no signature.
fn certificate(names: &[Vec<u8>]) -> Vec<u8> {
    const BY_CURVE: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
    const CURVE_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    const CURVE: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    let object = |number: &[u8]| element(6, number);
    let algorithm = sequence(&[object(&BY_CURVE)]);
    let called = sequence(&[element(0x31, &sequence(&[object(&[0x55, 4, 3]), element(0x0c, b"default")]))]);
    let time = |text: &[u8]| element(0x17, text);
    let key =
        sequence(&[sequence(&[object(&CURVE_KEY), object(&CURVE)]), element(3, &[&[0, 4][..], &[7; 64]].concat())]);
    let alternative = sequence(&[object(&[0x55, 0x1d, 0x11]), element(4, &sequence(names))]);
    let to_be_signed = sequence(&[
        element(0xa0, &element(2, &[2])),
        element(2, &[1]),
        algorithm.clone(),
        called.clone(),
        sequence(&[time(b"260101000000Z"), time(b"270101000000Z")]),
        called,
        key,
        element(0xa3, &sequence(&[alternative])),
    ]);
    sequence(&[to_be_signed, algorithm, element(3, &[0, 1, 2, 3])])
}

fn seeds() -> Vec<Seed> {
    let uri = |text: &str| element(0x86, text.as_bytes());
    let dns = |text: &str| element(0x82, text.as_bytes());
    let host = certificate(&[uri("spiffe://default/host/node-1")]);
    let pem = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    assert!(
        Proven::of(&host).is_ok_and(|proven| proven.is(Kind::Host, "default", "node-1")),
        "a certificate of our own"
    );
    vec![
        Seed::of(0, "host", host),
        Seed::of(0, "dns", certificate(&[dns("node-1"), dns("Node 2"), uri("https://x")])),
        Seed::of(0, "several", certificate(&[uri("spiffe://default/host/a"), uri("spiffe://default/switch/b")])),
        Seed::of(1, "pem", pem),
        Seed::of(2, "name", "spiffe://c.d/switch/leaf_0.pod"),
    ]
}
