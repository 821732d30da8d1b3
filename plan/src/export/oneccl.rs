//! `oneccl-xml`: a schedule of steps or sends as a list of instructions per rank, for runtimes on processors.
//!
//! Within a step a rank sends what it had before, then receives, one after the other; a `sync` ends the step: everything
//! begun before it is done after it. Chunks and buffers are those of the MSCCL program.

use std::fmt::Write as _;

use super::messages::{Message, Messages, OwnPart};
use crate::interpret::Place;
use sluice_formats::topology::draw::escape;

pub fn write(name: &str, messages: &Messages) -> String {
    let (ranks, chunks) = (messages.ranks(), messages.chunks);
    let word = messages.collective.word();
    let name = escape(name);
    let mut out = format!("<algo name=\"{name}\" coll=\"{word}\" nchunksperloop=\"{chunks}\" nranks=\"{ranks}\">\n");
    let mut of_ranks: Vec<Vec<&Message>> = vec![Vec::new(); ranks as usize];
    for message in &messages.all {
        of_ranks[message.from as usize].push(message);
        of_ranks[message.to as usize].push(message);
    }
    for (rank, own) in (0..ranks).zip(&of_ranks) {
        let [input, output, scratch] = messages.sizes(rank);
        let sizes = format!("i_chunks=\"{input}\" o_chunks=\"{output}\" s_chunks=\"{scratch}\"");
        let _ = writeln!(out, "  <rank id=\"{rank}\" {sizes}>");
        let mut lines = Lines { out: &mut out, next: 0 };
        let mut own = own.as_slice();
        for step in 0..messages.steps {
            if let Some(own) = messages.own_part(rank).filter(|_| step == 0) {
                lines.own_part(own);
            }
            let (now, later) = own.split_at(own.partition_point(|message| message.step == step));
            own = later;
            for message in now.iter().filter(|message| message.from == rank) {
                lines.step("send", message.to, message.source, message.target, message.count);
            }
            for message in now.iter().filter(|message| message.to == rank) {
                let (op, from) = if message.adds { ("reduce", message.target) } else { ("recv", message.source) };
                lines.step(op, message.from, from, message.target, message.count);
            }
            lines.sync();
        }
        out.push_str("  </rank>\n");
    }
    out.push_str("</algo>\n");
    out
}

/// The instructions of a rank, counted.
struct Lines<'a> {
    out: &'a mut String,
    next: u32,
}

impl Lines<'_> {
    fn step(&mut self, op: &str, peer: u32, src: Place, dst: Place, count: u32) {
        let end = |place: Place| (place.buffer.word(), i64::from(place.offset));
        self.line(op, peer.into(), end(src), end(dst), count);
    }
    fn own_part(&mut self, own: OwnPart) {
        let end = |place: Place| (place.buffer.word(), i64::from(place.offset));
        self.line("copy", -1, end(own.source), end(own.target), own.count);
    }
    fn sync(&mut self) {
        self.line("sync", -1, ("i", -1), ("i", -1), 0);
    }
    fn line(&mut self, op: &str, peer: i64, src: (&str, i64), dst: (&str, i64), count: u32) {
        let _ = writeln!(
            self.out,
            "    <step s=\"{}\" type=\"{op}\" peer=\"{peer}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" \
             cnt=\"{count}\"/>",
            self.next, src.0, src.1, dst.0, dst.1
        );
        self.next += 1;
    }
}
