//! F18: what the preload library reads of a process's ZeroMQ connections.

use crate::meta;
use crate::mutate::Shape;
use crate::van::{Decoder, Fact};
use crate::{Seed, Target};

/// Two bytes that say how the stream comes in pieces, then the stream of one direction of a connection.
pub static PSLITE: Target = Target {
    name: "F18-pslite",
    parser: "ZMTP framing and PS-Lite's meta, in pieces of any size",
    property: "the same facts however the stream is cut; state of a fixed size; a lost stream stays lost",
    shape: Shape::Bytes,
    run: pslite,
    seeds,
};

fn pslite(bytes: &[u8]) {
    let Some(([piece, skip], stream)) = bytes.split_first_chunk::<2>() else { return };
    let _ = meta::read(stream);
    let whole = facts(stream, stream.len().max(1), false);
    let pieces = facts(stream, 1 + usize::from(*piece), false);
    assert_eq!(whole, pieces, "the same facts in pieces of {}", 1 + usize::from(*piece));
    if skip % 2 == 1 {
        assert_eq!(whole, facts(stream, 1 + usize::from(*piece), true), "bytes that are passed over say nothing");
    }
    let one = size_of::<Decoder>();
    assert!(one <= 512, "a direction keeps {one} bytes");
}

/// What a stream says in pieces of `piece` bytes, and whether it was lost; with `skips`, bodies are passed over where they may be.
fn facts(stream: &[u8], piece: usize, skips: bool) -> (Vec<Fact>, bool) {
    let (mut decoder, mut facts, mut lost) = (Decoder::new(), Vec::new(), false);
    for piece in stream.chunks(piece) {
        if skips && decoder.skip(piece.len()) {
            continue;
        }
        let fed = decoder.feed(piece, |fact| facts.push(fact));
        assert!(!lost || fed.is_err(), "what is lost stays lost");
        lost |= fed.is_err();
    }
    (facts, lost)
}

fn greeting() -> Vec<u8> {
    let mut greeting = vec![0; 64];
    (greeting[0], greeting[9], greeting[10], greeting[11]) = (0xff, 0x7f, 3, 1);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// A frame: whether more follow, and its body.
fn frame(more: bool, body: &[u8]) -> Vec<u8> {
    let flags = u8::from(more);
    match u8::try_from(body.len()) {
        Ok(size) => [&[flags, size], body].concat(),
        Err(_) => [&[flags | 2][..], &(body.len() as u64).to_be_bytes(), body].concat(),
    }
}

/// A push of a key with these values: meta, keys, values, lengths.
fn push(meta: &[u8], values: usize) -> Vec<u8> {
    let keys = 7_u64.to_le_bytes();
    [frame(true, meta), frame(true, &keys), frame(true, &vec![1; values]), frame(false, &[4, 0, 0, 0])].concat()
}

fn seeds() -> Vec<Seed> {
    // dmlc's protobuf: request, push; and bytedance's struct of 112 bytes with the same.
    let protobuf = [0x20, 1, 0x28, 1];
    let mut packed = vec![0; 112];
    (packed[32], packed[68]) = (1, 1);
    let ready = [&[4, 25][..], b"\x05READY\x08Identity\0\0\0\x03ps9\0\0"].concat();
    let stream = |parts: &[Vec<u8>]| [greeting(), parts.concat()].concat();
    let with = |name: &str, how: [u8; 2], stream: Vec<u8>| Seed::new(name, [&how[..], &stream].concat());
    vec![
        with("dmlc", [6, 1], stream(&[ready.clone(), push(&protobuf, 300), push(&protobuf, 10)])),
        with("bytedance", [40, 0], stream(&[ready, push(&packed, 500)])),
        with("pull", [0, 1], stream(&[frame(true, &[0x20, 1]), frame(false, &9_u64.to_le_bytes())])),
        with("greeting", [2, 0], greeting()),
    ]
}
