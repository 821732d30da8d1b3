//! A8: HTTP/2 that asks for too much, frame by frame.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prost::Message as _;
use sluice_wire::dial::Dial;
use sluice_wire::pb;

use crate::attacker::{PATIENCE, turn};
use crate::programs::Switch;
use crate::speaker::{admitted, hello};
use crate::wire::runtime;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The header of a call, in HPACK without the dynamic table (RFC 7541).
fn header() -> Vec<u8> {
    let literal = |head: &[u8], value: &[u8]| [head, &[value.len() as u8], value].concat();
    [
        vec![0x83, 0x86],
        literal(&[0x04], b"/sluice.v1.Switch/Session"),
        literal(&[0x01], b"x"),
        literal(&[0x0f, 0x10], b"application/grpc"),
        [literal(&[0x00], b"te"), literal(&[], b"trailers")].concat(),
    ]
    .concat()
}

fn begun(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("connected");
    stream.set_read_timeout(Some(Duration::from_millis(2_500))).expect("set");
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("set");
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).expect("written");
    stream
}

/// A frame that came.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// Frames that come.
fn frames(stream: &mut TcpStream) -> impl Iterator<Item = Frame> + '_ {
    std::iter::from_fn(move || {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).ok()?;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream: id, payload })
    })
}

/// Does a stream under the good header become a session, if this is the first message on it? `None`: neither that nor
/// its end comes within a second and a half.
fn becomes_session(to: SocketAddr, message: &[u8]) -> Option<bool> {
    let mut stream = begun(to);
    stream.set_read_timeout(Some(Duration::from_millis(1_500))).expect("set");
    let _ = stream.write_all(&frame(HEADERS, END_HEADERS, 1, &header()));
    let _ = stream.write_all(&frame(DATA, 0, 1, message));
    frames(&mut stream).filter(|frame| frame.stream == 1).find_map(|frame| match frame.kind {
        RST_STREAM => Some(false),
        DATA if !frame.payload.is_empty() => Some(true),
        HEADERS | DATA if frame.flags & END_STREAM != 0 => Some(false),
        _ => None,
    })
}

/// A good first message of a session of `h0`, as gRPC frames it: that it is not compressed, its length, itself.
fn good_message() -> Vec<u8> {
    let message = pb::HostMessage { hello: Some((&hello("h0", 1)).into()), announcements: Vec::new() };
    let bytes = message.encode_to_vec();
    let length = (bytes.len() as u32).to_be_bytes();
    [&[0_u8][..], &length, &bytes].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Does the other end close this without a word? Not if it only says nothing.
fn is_closed(stream: &mut TcpStream) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    match stream.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => !matches!(error.kind(), TimedOut | WouldBlock),
    }
}

/// connections that say nothing, or a byte now and then.
#[test]
fn half_open_and_slow_connections_are_closed_and_hold_nobody_up() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    let mut silent: Vec<TcpStream> = (0..120).map(|_| TcpStream::connect(switch.grpc).expect("connected")).collect();
    let closed = Arc::new(AtomicUsize::new(0));
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(switch.grpc).expect("connected");
            let closed = closed.clone();
            std::thread::spawn(move || {
                // The first 23 bytes of the beginning, and never the last.
                for byte in PREFACE.iter().take(23) {
                    if stream.write_all(&[*byte]).is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(150));
                }
                closed.fetch_add(usize::from(is_closed(&mut stream)), Ordering::Relaxed);
            })
        })
        .collect();
    let began = Instant::now();
    runtime().block_on(admitted(&Dial::Plain, &switch.uri(), "h0", 1)).expect("an honest host is let in");
    assert!(began.elapsed() < Duration::from_secs(10), "it waited for {:?}", began.elapsed());
    for stream in &mut silent {
        assert!(is_closed(stream), "silence is answered, or borne");
    }
    slow.into_iter().for_each(|slow| slow.join().expect("it ends"));
    assert_eq!(closed.load(Ordering::Relaxed), 20);
}

/// limits as they are told, and what becomes of who does not keep to them.
#[test]
fn http2_has_limits_that_are_told_and_kept() {
    let Some(_turn) = turn() else { return };
    let switch = Switch::start("");
    // Told: streams, window, frame, header list (RFC 9113, section 6.5.2).
    let mut stream = begun(switch.grpc);
    let settings = frames(&mut stream).find(|frame| frame.kind == SETTINGS && !frame.payload.is_empty());
    let settings = settings.expect("it tells its settings").payload;
    let told: std::collections::BTreeMap<u16, u32> = settings
        .chunks_exact(6)
        .map(|one| (u16::from_be_bytes([one[0], one[1]]), u32::from_be_bytes([one[2], one[3], one[4], one[5]])))
        .collect();
    assert_eq!(told.get(&3), Some(&4), "{told:?}");
    assert!(told.get(&4).is_none_or(|window| *window <= 64 << 10), "{told:?}");
    assert!(told.get(&5).is_none_or(|frame| *frame <= 16 << 10), "{told:?}");
    assert_eq!(told.get(&6), Some(&(8 << 10)), "{told:?}");

    // More streams than that: the rest is refused.
    for stream_id in (1..=127).step_by(2) {
        let _ = stream.write_all(&frame(1, 4, stream_id, &header()));
    }
    let refused =
        frames(&mut stream).take(200).filter(|frame| matches!(frame.kind, RST_STREAM | GOAWAY)).take(60).count();
    assert_eq!(refused, 60, "more than four streams are open");

    // Streams that are reset as soon as they are opened (rapid reset).
    let mut stream = begun(switch.grpc);
    for batch in 0..200_u32 {
        let mut bytes = Vec::new();
        for n in 0..50 {
            let id = 1 + 2 * (batch * 50 + n);
            bytes.extend(frame(1, 4, id, &header()));
            bytes.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        }
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    assert!(told_off(&mut stream), "ten thousand resets are borne");

    // A header without an end, of small fields that are all well made.
    let mut stream = begun(switch.grpc);
    let fields: Vec<u8> = std::iter::repeat_n([0x00, 0x01, b'a', 0x01, b'b'], 3_000).flatten().collect();
    let mut written = stream.write_all(&frame(1, 0, 1, &header())).is_ok();
    for _ in 0..200 {
        written = written && stream.write_all(&frame(9, 0, 1, &fields)).is_ok();
    }
    assert!(told_off(&mut stream), "three megabytes of a header are borne");

    // Under this header a good message begins a session, so that what is refused below is the message. Its slot may be
    // over before a busy machine reads it.
    let began = Instant::now();
    while becomes_session(switch.grpc, &good_message()) != Some(true) {
        assert!(began.elapsed() < PATIENCE, "no good message begins a session");
    }
    // A message that says to have two gigabytes, and one that is compressed, which nothing here is.
    for (what, message) in
        [("a huge one", vec![0, 0x7f, 0xff, 0xff, 0xff]), ("a compressed one", vec![1, 0, 0, 0, 2, 0x1f, 0x8b])]
    {
        // Who only waits for more is told so after two seconds; on a busy machine one of three tries is quick.
        let at_once = (0..3).any(|_| {
            let began = Instant::now();
            let outcome = becomes_session(switch.grpc, &message);
            assert_ne!(outcome, Some(true), "{what} begins a session");
            outcome == Some(false) && began.elapsed() < Duration::from_millis(1_700)
        });
        assert!(at_once, "{what} is waited for");
    }
    runtime().block_on(admitted(&Dial::Plain, &switch.uri(), "h0", 1)).expect("an honest host is let in");
}

/// Is the connection ended for what was done on it? (GOAWAY with an error, or the stream reset.)
fn told_off(stream: &mut TcpStream) -> bool {
    let told = frames(stream).any(|frame| match frame.kind {
        GOAWAY => frame.payload.get(4..8).is_some_and(|code| code != [0; 4]),
        RST_STREAM => true,
        _ => false,
    });
    // A reset may overtake what was said before it.
    told || matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset)
}
