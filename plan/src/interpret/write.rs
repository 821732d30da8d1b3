//! The text of a program: always the same attributes in the same order.

use std::fmt::Write as _;

use super::program::{Program, Step};
use sluice_formats::topology::draw::escape;

impl Program {
    /// The program as XML, which [`super::read()`] reads back as the same program.
    pub fn to_xml(&self) -> String {
        let mut out = format!(
            "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\" \
         outofplace=\"{}\" minBytes=\"{}\" maxBytes=\"{}\" redop=\"{}\">\n",
            escape(&self.name),
            escape(&self.protocol),
            self.channels(),
            self.chunks,
            self.gpus.len(),
            self.word,
            u8::from(self.in_place),
            u8::from(self.out_of_place),
            self.min_bytes,
            self.max_bytes,
            if self.reduces() { "sum" } else { "nop" }
        );
        let or_none = |number: Option<u32>| number.map_or(-1, i64::from);
        for (id, gpu) in self.gpus.iter().enumerate() {
            let (input, output, scratch) = (gpu.input, gpu.output, gpu.scratch);
            let _ =
                writeln!(out, "  <gpu id=\"{id}\" i_chunks=\"{input}\" o_chunks=\"{output}\" s_chunks=\"{scratch}\">");
            for (id, block) in gpu.blocks.iter().enumerate() {
                let (send, receive) = (or_none(block.send), or_none(block.receive));
                let _ =
                    writeln!(out, "    <tb id=\"{id}\" send=\"{send}\" recv=\"{receive}\" chan=\"{}\">", block.channel);
                for (s, step) in block.steps.iter().enumerate() {
                    write_step(&mut out, s, step);
                }
                out.push_str("    </tb>\n");
            }
            out.push_str("  </gpu>\n");
        }
        out.push_str("</algo>\n");
        out
    }
}

fn write_step(out: &mut String, s: usize, step: &Step) {
    let idle = step.count == 0;
    let offset = |offset: u32| if idle { -1 } else { i64::from(offset) };
    let (block, of) = step.after.map_or((-1, -1), |after| (i64::from(after.block), i64::from(after.step)));
    let _ = writeln!(
        out,
        "      <step s=\"{s}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" \
         depid=\"{block}\" deps=\"{of}\" hasdep=\"{}\"/>",
        step.op.word(),
        step.src.buffer.word(),
        offset(step.src.offset),
        step.dst.buffer.word(),
        offset(step.dst.offset),
        step.count,
        u8::from(step.awaited)
    );
}
