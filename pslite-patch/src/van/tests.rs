//! Streams of messages, built as PS-Lite does, in any pieces, against what went in.

use proptest::prelude::*;

use super::*;
use crate::meta::tests::{bytedance, dmlc};
use crate::zmtp::tests::{frame, hello};

/// A READY command as libzmq writes it.
fn ready_of(name: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity".to_vec();
    body.extend((name.len() as u32).to_be_bytes());
    body.extend(name.as_bytes());
    frame(4, &body)
}

#[derive(Clone, Debug)]
enum Sent {
    Push { key: u64, size: usize },
    PullRequest { key: u64 },
    PullReply { key: u64, size: usize, named: bool },
    PushReply,
    Control,
    Nodes,
    Ping,
    Strange,
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        (any::<u64>(), 1_usize..2000).prop_map(|(key, size)| Sent::Push { key, size }),
        any::<u64>().prop_map(|key| Sent::PullRequest { key }),
        (any::<u64>(), 1_usize..2000, any::<bool>()).prop_map(|(key, size, named)| Sent::PullReply {
            key,
            size,
            named
        }),
        Just(Sent::PushReply),
        Just(Sent::Control),
        Just(Sent::Nodes),
        Just(Sent::Ping),
        Just(Sent::Strange),
    ]
}

/// The frames of a message, and what a reader should learn of it.
fn written(sent: &Sent, form: usize, timestamp: u32) -> (Vec<u8>, Vec<Fact>) {
    let meta = |data, request, push| {
        let meta = Meta { data, request, push };
        if form == 0 { dmlc(meta, timestamp.into(), b"") } else { bytedance(form - 1, meta, timestamp, b"", 3) }
    };
    let message = |frames: &[Vec<u8>]| {
        let last = frames.len() - 1;
        frames.iter().enumerate().flat_map(|(at, body)| frame(u8::from(at < last), body)).collect::<Vec<u8>>()
    };
    let tensor = |frames: Vec<Vec<u8>>, key: u64, size: usize| {
        let bytes = message(&frames);
        let rest = frame(0, frames.last().expect("lengths")).len();
        let mut facts = vec![
            Fact::Tensor { key, bytes: size as u64, wire: (bytes.len() - rest) as u64 },
            Fact::Rest { wire: rest as u64 },
            Fact::TensorEnds { key },
        ];
        if frames[0] == b"ps10" {
            facts.insert(0, Fact::Sender(Node(10)));
        }
        (bytes, facts)
    };
    let keys = |key: u64| key.to_le_bytes().to_vec();
    match *sent {
        Sent::Push { key, size } => {
            tensor(vec![meta(true, true, true), keys(key), vec![0xab; size], vec![1, 0, 0, 0]], key, size)
        }
        Sent::PullReply { key, size, named } => {
            let mut frames = vec![meta(true, false, false), keys(key), vec![0xcd; size], vec![1, 0, 0, 0]];
            if named {
                frames.insert(0, b"ps10".to_vec());
            }
            tensor(frames, key, size)
        }
        Sent::PullRequest { key } => {
            let bytes = message(&[meta(true, true, false), keys(key), Vec::new()]);
            let wire = bytes.len() as u64;
            (bytes, vec![Fact::Rest { wire }, Fact::Pull { key }])
        }
        Sent::PushReply => {
            let bytes = message(&[meta(true, false, true)]);
            let wire = bytes.len() as u64;
            (bytes, vec![Fact::Rest { wire }])
        }
        Sent::Control => (message(&[meta(false, true, false)]), vec![]),
        Sent::Nodes => (message(&[vec![0xee; 900]]), vec![]),
        Sent::Ping => (frame(4, b"\x04PING\0\x0a"), vec![]),
        Sent::Strange => (message(&[vec![0xee; 40], vec![1; 300]]), vec![Fact::Unknown]),
    }
}

proptest! {
    #[test]
    fn facts_come_out_as_messages_went_in_however_they_are_split(
        all in prop::collection::vec(sent(), 0..12),
        node in 0_u32..2000,
        form in 0_usize..4,
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let mut stream = hello();
        stream.extend(ready_of(&format!("ps{node}")));
        let mut wanted = vec![Fact::Sender(Node(node))];
        for (at, sent) in all.iter().enumerate() {
            let (bytes, facts) = written(sent, form, at as u32);
            stream.extend(bytes);
            wanted.extend(facts);
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % stream.len()).collect();
        cuts.push(stream.len());
        cuts.sort_unstable();
        let (mut decoder, mut facts, mut at) = (Decoder::new(), Vec::new(), 0);
        for cut in cuts {
            prop_assert_eq!(decoder.feed(&stream[at..cut], |fact| facts.push(fact)), Ok(()));
            at = cut;
        }
        prop_assert_eq!(facts, wanted);
    }

    #[test]
    fn what_is_passed_over_unread_changes_nothing(
        all in prop::collection::vec(sent(), 1..8),
        cuts in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let mut stream = hello();
        stream.extend(all.iter().flat_map(|sent| written(sent, 0, 7).0));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % stream.len()).collect();
        cuts.push(stream.len());
        cuts.sort_unstable();
        let (mut one, mut other, mut at) = (Decoder::new(), Decoder::new(), 0);
        for cut in cuts {
            let (mut read, mut skipped) = (Vec::new(), Vec::new());
            prop_assert_eq!(one.feed(&stream[at..cut], |fact| read.push(fact)), Ok(()));
            if !other.skip(cut - at) {
                prop_assert_eq!(other.feed(&stream[at..cut], |fact| skipped.push(fact)), Ok(()));
            }
            prop_assert_eq!(read, skipped);
            at = cut;
        }
    }

    #[test]
    fn anything_is_read_or_ends_the_stream(garbage in prop::collection::vec(any::<u8>(), 0..2000), greeted: bool) {
        let mut stream = if greeted { hello() } else { Vec::new() };
        stream.extend(garbage);
        let (mut decoder, mut facts) = (Decoder::new(), 0);
        for byte in stream {
            let _ = decoder.feed(&[byte], |_| facts += 1);
        }
        prop_assert!(greeted || facts == 0);
    }
}

#[test]
fn only_bytes_within_values_are_passed_over() {
    let mut decoder = Decoder::new();
    let mut stream = hello();
    stream.extend(written(&Sent::Push { key: 5, size: 1000 }, 0, 7).0);
    let mut skipped = 0;
    for byte in &stream {
        if decoder.skip(1) {
            skipped += 1;
        } else {
            assert_eq!(decoder.feed(&[*byte], |_| {}), Ok(()));
        }
    }
    // All but the last of the values, and of the lengths.
    assert_eq!(skipped, 999 + 3);
}

#[test]
fn names_are_numbers_of_nodes_or_nothing() {
    assert_eq!(Node::named(b"ps11").and_then(Node::rank), Some(1));
    assert_eq!(Node::named(b"ps8").and_then(Node::rank), Some(0));
    assert_eq!(Node::named(b"ps1").map(Node::rank), Some(None));
    for name in [&b"ps"[..], b"", b"p8", b"ps8 ", b"ps-1", b"ps9999999999", b"Ps8"] {
        assert_eq!(Node::named(name), None);
    }
    // A connection to the scheduler has no name yet; a command that is cut or strange says nothing.
    for body in [&b"\x05READY\x08Identity\0\0\0\0"[..], b"\x05READY\x08Identity\0\0\0\x09ps8", b"\x05READY", b""] {
        assert_eq!(ready(body), None);
    }
}
