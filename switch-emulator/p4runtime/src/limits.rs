//! Every bound on what is taken from the network, in one place.

use std::time::Duration;

/// Bytes of a message, before it is decoded: a compiled program is the longest.
pub const MESSAGE: usize = 8 << 20;
/// Updates of a write that the server takes.
pub const UPDATES: usize = 1024;
/// Updates of a write that the client sends: what became of each of them has to fit one header of the answer.
pub const BATCH: usize = 64;
/// Entities that one read may ask for.
pub const ASKED: usize = 64;
/// Entities of one message of a read's answer.
pub const PART: usize = 512;
/// Entities of a whole answer that the client takes: all tables and counters of a switch together are fewer.
pub const ENTITIES: usize = 1 << 16;
/// Bytes of a write's answer that tell what became of each update; beyond it the answer is told in one sentence.
pub const DETAILS: usize = 8 << 10;
/// Bytes of the headers that the client takes, so that those of a write's answer fit.
pub const HEADERS: u32 = 64 << 10;
/// Bytes of an entry's metadata.
pub const METADATA: usize = 256;
/// Bytes of a frame.
pub const FRAME: usize = 9216;
/// Messages that wait for the reader of a stream.
pub const QUEUE: usize = 64;
/// Streams of controllers at a time.
pub const STREAMS: usize = 16;
/// Connections at a time.
pub const CONNECTIONS: usize = 64;
/// Frames that the server keeps of those that it sent by its ports.
pub const KEPT: usize = 256;
/// From the beginning of a stream to its first message.
pub const FIRST_MESSAGE: Duration = Duration::from_secs(2);
