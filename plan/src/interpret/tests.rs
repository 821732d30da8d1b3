//! Programs written by hand: right ones, and one for every way to go wrong.

use super::*;
use sluice_formats::problem::{E_KEY, E_MISSING, E_PARSE, E_RANGE};

/// A block: send peer, receive peer, channel, steps.
type Tb<'a> = (i32, i32, u32, &'a [&'a str]);

/// A program of blocks per rank; a step is `type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep`.
fn xml(coll: &str, chunks: u32, sizes: &[(u32, u32, u32)], mode: (u32, u32), ranks: &[&[Tb<'_>]]) -> String {
    let all = ranks.iter().flat_map(|blocks| blocks.iter());
    let channels = all.clone().map(|block| block.2 + 1).max().unwrap_or(0);
    let sums = all.flat_map(|block| block.3).any(|step| step.starts_with("rr") || step.starts_with("re"));
    let mut out = format!(
        "<algo name=\"t\" proto=\"Simple\" nchannels=\"{channels}\" nchunksperloop=\"{chunks}\" ngpus=\"{}\" coll=\"{coll}\" \
         inplace=\"{}\" outofplace=\"{}\" minBytes=\"0\" maxBytes=\"0\" redop=\"{}\">",
        ranks.len(),
        mode.0,
        mode.1,
        if sums { "sum" } else { "nop" }
    );
    for (id, (blocks, size)) in ranks.iter().zip(sizes).enumerate() {
        out += &format!("<gpu id=\"{id}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">", size.0, size.1, size.2);
        for (id, (send, receive, channel, steps)) in blocks.iter().enumerate() {
            out += &format!("<tb id=\"{id}\" send=\"{send}\" recv=\"{receive}\" chan=\"{channel}\">");
            for (s, step) in steps.iter().enumerate() {
                out += &format!("<step s=\"{s}\"");
                let keys = ["type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"];
                for (key, value) in keys.iter().zip(step.split(' ')) {
                    out += &format!(" {key}=\"{value}\"");
                }
                out += "/>";
            }
            out += "</tb>";
        }
        out += "</gpu>";
    }
    out + "</algo>"
}

/// What a program is found to do wrong.
fn fault(xml: &str) -> Option<Kind> {
    interpret(xml.as_bytes(), "t").expect("readable").fault.map(|fault| fault.kind)
}

const COPY: [&str; 2] = ["cpy i 0 o 0 1 -1 -1 0", "cpy i 0 o 1 1 -1 -1 0"];

/// Two ranks, each sends its part to the other.
fn gather(blocks: [[&[&str]; 2]; 2]) -> String {
    let ranks: Vec<Vec<Tb<'_>>> = (0..2)
        .map(|me| {
            vec![
                (-1, -1, 0, &COPY[me..=me]),
                (1 - me as i32, -1, 0, blocks[me][0]),
                (-1, 1 - me as i32, 0, blocks[me][1]),
            ]
        })
        .collect();
    xml("allgather", 2, &[(1, 2, 0); 2], (1, 1), &[&ranks[0], &ranks[1]])
}

const SENDS: [&str; 2] = ["s i 0 o 0 1 -1 -1 0", "s i 0 o 1 1 -1 -1 0"];
const RECEIVES: [&str; 2] = ["r i 0 o 1 1 -1 -1 0", "r i 0 o 0 1 -1 -1 0"];

#[test]
fn an_all_gather_of_two() {
    let report = interpret(gather([[&SENDS[..1], &RECEIVES[..1]], [&SENDS[1..], &RECEIVES[1..]]]).as_bytes(), "t");
    let report = report.expect("readable");
    assert_eq!(report.fault, None);
    assert_eq!((report.ranks, report.chunks, report.channels, report.blocks, report.steps), (2, 2, 1, 3, 6));
}

#[test]
fn ends_of_a_message_must_agree() {
    let with = |sends: &str, receives: &str| fault(&gather([[&[sends], &RECEIVES[..1]], [&SENDS[1..], &[receives]]]));
    assert_eq!(with(SENDS[0], RECEIVES[1]), None);
    assert_eq!(with("s i 0 o 1 1 -1 -1 0", RECEIVES[1]), Some(Kind::Mismatch));
    assert_eq!(with(SENDS[0], "r o 0 o 0 1 -1 -1 0"), Some(Kind::Mismatch));
    assert_eq!(with(SENDS[0], "r i 0 o 0 2 -1 -1 0"), Some(Kind::Mismatch));
    assert_eq!(with("s i 0 o 1 1 -1 -1 0", "r i 0 o 1 1 -1 -1 0"), Some(Kind::Race), "over its own part");
    assert_eq!(with("s o 1 o 0 1 -1 -1 0", "r o 1 o 0 1 -1 -1 0"), Some(Kind::Unwritten));
}

#[test]
fn what_waits_for_ever_is_found() {
    // Each rank sends before it receives, in one block: with messages that meet, neither gets on.
    let ranks: Vec<Vec<Tb<'_>>> = (0..2)
        .map(|me| {
            let peer = 1 - me as i32;
            vec![
                (-1, -1, 0, &COPY[me..=me]),
                (
                    peer,
                    peer,
                    0,
                    if me == 0 {
                        &["s i 0 o 0 1 -1 -1 0", "r i 0 o 1 1 -1 -1 0"]
                    } else {
                        &["s i 0 o 1 1 -1 -1 0", "r i 0 o 0 1 -1 -1 0"]
                    },
                ),
            ]
        })
        .map(|blocks: Vec<Tb<'_>>| blocks)
        .collect();
    let both =
        |first: &[Tb<'_>], second: &[Tb<'_>]| fault(&xml("allgather", 2, &[(1, 2, 0); 2], (1, 1), &[first, second]));
    assert_eq!(both(&ranks[0], &ranks[1]), Some(Kind::Deadlock));
    // One of them the other way round, and both get on.
    let turned: Vec<Tb<'_>> = vec![ranks[1][0], (0, 0, 0, &["r i 0 o 0 1 -1 -1 0", "s i 0 o 1 1 -1 -1 0"])];
    assert_eq!(both(&ranks[0], &turned), None);
    // A circle of steps that wait for each other.
    let circle: &[Tb<'_>] = &[
        (-1, -1, 0, &["cpy i 0 o 0 1 1 0 1"]),
        (-1, -1, 0, &["nop i -1 o -1 0 0 0 1"]),
        (1, 1, 0, &["s i 0 o 0 1 -1 -1 0", "r i 0 o 1 1 -1 -1 0"]),
    ];
    assert_eq!(both(circle, &turned), Some(Kind::Deadlock));
    // Nobody at the other end.
    assert_eq!(both(&ranks[0], &ranks[1][..1]), Some(Kind::BadConnection));
    let twice = [&ranks[0][..], &[(1, -1, 0, &[])]].concat();
    assert_eq!(both(&twice, &turned), Some(Kind::BadConnection));
}

/// Three ranks in a row, 0 → 1 → 2, as a broadcast; rank 1 sends on in a block of its own.
fn relay(sends_on: &[&str], receives: &str) -> Option<Kind> {
    let ranks: [&[Tb<'_>]; 3] = [
        &[(-1, -1, 0, &["cpy i 0 o 0 1 -1 -1 0"]), (1, -1, 0, &["s i 0 o 0 1 -1 -1 0"])],
        &[(2, -1, 0, sends_on), (-1, 0, 0, &[receives])],
        &[(-1, 1, 0, &["r o 0 o 0 1 -1 -1 0"])],
    ];
    fault(&xml("broadcast", 1, &[(1, 1, 0), (0, 1, 0), (0, 1, 0)], (1, 1), &ranks))
}

#[test]
fn steps_that_touch_one_chunk_must_be_in_order() {
    let (alone, awaited) = ("r i 0 o 0 1 -1 -1 0", "r i 0 o 0 1 -1 -1 1");
    assert_eq!(relay(&["s o 0 o 0 1 1 0 0"], awaited), None);
    assert_eq!(
        relay(&["nop i -1 o -1 0 1 0 0", "s o 0 o 0 1 -1 -1 0"], awaited),
        None,
        "through a step that does nothing"
    );
    // Here the send is tried first and finds nothing.
    assert_eq!(relay(&["s o 0 o 0 1 -1 -1 0"], alone), Some(Kind::Unwritten));
}

#[test]
fn an_unlucky_order_is_a_race_even_if_this_run_was_lucky() {
    // Rank 1 receives two parts; another block, awaited by nobody, copies the first one over the second.
    let ranks: [&[Tb<'_>]; 2] = [
        &[(-1, -1, 0, &["cpy i 0 o 0 2 -1 -1 0"]), (1, -1, 0, &["s i 0 o 0 1 -1 -1 0", "s i 1 o 1 1 -1 -1 0"])],
        &[(-1, 0, 0, &["r i 0 o 0 1 -1 -1 1", "r i 1 o 1 1 -1 -1 0"]), (-1, -1, 0, &["cpy o 0 o 1 1 0 0 0"])],
    ];
    assert_eq!(fault(&xml("broadcast", 2, &[(2, 2, 0), (0, 2, 0)], (1, 1), &ranks)), Some(Kind::Race));
}

#[test]
fn sums_count_every_input_once() {
    let reduce = |first: &[&str], second: &[&str]| {
        let ranks: [&[Tb<'_>]; 2] = [&[(-1, 1, 0, first)], &[(0, -1, 0, second)]];
        fault(&xml("reduce", 2, &[(2, 2, 0), (2, 0, 0)], (1, 0), &ranks))
    };
    let sends = ["s i 0 i 0 2 -1 -1 0"];
    assert_eq!(reduce(&["rrc i 0 i 0 2 -1 -1 0"], &sends), None);
    assert_eq!(reduce(&["rrc i 0 i 0 2 -1 -1 0", "rrc i 0 i 0 2 -1 -1 0"], &[sends[0]; 2]), Some(Kind::WrongSum));
    let crossed = ["s i 1 i 0 1 -1 -1 0", "s i 0 i 1 1 -1 -1 0"];
    assert_eq!(reduce(&["rrc i 0 i 0 1 -1 -1 0", "rrc i 1 i 1 1 -1 -1 0"], &crossed), Some(Kind::WrongSum));
    assert_eq!(reduce(&["rrc i 0 i 0 1 -1 -1 0"], &["s i 0 i 0 1 -1 -1 0"]), Some(Kind::WrongResult));
    // Received beside and added in a step of its own.
    let ranks: [&[Tb<'_>]; 2] =
        [&[(-1, 1, 0, &["r i 0 s 0 2 -1 -1 0", "re s 0 i 0 2 -1 -1 0"])], &[(0, -1, 0, &["s i 0 s 0 2 -1 -1 0"])]];
    assert_eq!(fault(&xml("reduce", 2, &[(2, 2, 2), (2, 0, 0)], (1, 0), &ranks)), None);
}

#[test]
fn all_to_all_puts_every_part_in_its_place() {
    let exchange = |offset: [u32; 2]| {
        let step = |me: usize| {
            let peer = 1 - me;
            [
                format!("s i {peer} o {me} 1 -1 -1 0"),
                format!("r i {me} o {peer} 1 -1 -1 0"),
                format!("cpy i {me} o {} 1 -1 -1 0", offset[me]),
            ]
        };
        let steps = [step(0), step(1)];
        let words: Vec<Vec<&str>> = steps.iter().map(|steps| steps.iter().map(String::as_str).collect()).collect();
        let ranks: Vec<Vec<Tb<'_>>> = (0..2)
            .map(|me| {
                let peer = 1 - me as i32;
                vec![(peer, -1, 0, &words[me][..1]), (-1, peer, 0, &words[me][1..2]), (-1, -1, 0, &words[me][2..])]
            })
            .collect();
        fault(&xml("alltoall", 2, &[(2, 2, 0); 2], (0, 1), &[&ranks[0], &ranks[1]]))
    };
    assert_eq!(exchange([0, 1]), None);
    assert_eq!(exchange([0, 0]), Some(Kind::Race));
}

#[test]
fn sums_over_many_ranks() {
    let all = memory::Sum::all(3, 70);
    let mut sum = memory::Sum::of(3, 0, 70);
    for rank in 1..70 {
        sum = sum.plus(&memory::Sum::of(3, rank, 70)).expect("new");
    }
    assert_eq!(sum, all);
    assert!(sum.plus(&memory::Sum::of(3, 65, 70)).is_err_and(|message| message.contains("rank 65")));
}

#[test]
fn what_is_no_program_is_refused_with_its_line() {
    let good = gather([[&SENDS[..1], &RECEIVES[..1]], [&SENDS[1..], &RECEIVES[1..]]]).replace("><", ">\n<");
    let code = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        let errors = interpret(good.replacen(from, to, 1).as_bytes(), "t").expect_err("refused");
        (errors.code(), errors.all()[0].key.clone())
    };
    let line = |line: u32, key: &str| format!("line {line}{key}");
    assert_eq!(code("nchannels=\"1\"", "nchannels=\"2\""), (E_RANGE, "nchannels".into()));
    assert_eq!(code("ngpus=\"2\"", "ngpus=\"3\""), (E_RANGE, "ngpus".into()));
    assert_eq!(code("redop=\"nop\"", "redop=\"sum\""), (E_RANGE, "redop".into()));
    assert_eq!(code(" proto=\"Simple\"", ""), (E_MISSING, line(1, "")));
    assert_eq!(code(" proto", " prot"), (E_KEY, line(1, "")));
    assert_eq!(code("allgather", "custom"), (E_RANGE, line(1, " coll")));
    assert_eq!(code("send=\"1\"", "send=\"0\""), (E_RANGE, line(6, " send")));
    assert_eq!(code("send=\"1\"", "send=\"2\""), (E_RANGE, line(6, " send")));
    assert_eq!(code("send=\"1\"", "send=\"-1\""), (E_RANGE, line(7, " type")));
    assert_eq!(code("cnt=\"1\"", "cnt=\"2\""), (E_RANGE, line(4, " srcbuf")));
    assert_eq!(code("cnt=\"1\"", "cnt=\"01\""), (E_RANGE, line(4, " cnt")));
    assert_eq!(code("depid=\"-1\"", "depid=\"0\""), (E_RANGE, line(4, " depid")));
    assert_eq!(code("hasdep=\"0\"", "hasdep=\"1\""), (E_RANGE, "rank 0, block 0, step 0".into()));
    assert_eq!(code("depid=\"-1\" deps=\"-1\"", "depid=\"7\" deps=\"0\"").0, E_RANGE);
    assert_eq!(code("<tb id=\"1\"", "<tb id=\"2\""), (E_RANGE, line(6, " id")));
    assert_eq!(code("<gpu", "<cpu").0, E_PARSE);
    assert_eq!(code("</algo>", "").0, E_PARSE);
    for text in ["", "<a/>", "\u{0}", "<algo", "<!DOCTYPE algo>"] {
        assert!(interpret(text.as_bytes(), "t").is_err(), "{text}");
    }
    assert_eq!(interpret(&[0xff, 0xfe], "t").expect_err("refused").code(), E_PARSE);
}

#[test]
fn a_small_text_cannot_ask_for_much_memory() {
    let most = 1 << 24;
    let hungry = xml("allreduce", most, &[(most, most, most); 4], (1, 0), &[&[], &[], &[], &[]]);
    assert_eq!(interpret(hungry.as_bytes(), "t").expect_err("refused").code(), E_LIMIT);
    let step = format!("cpy i 0 s 0 {} -1 -1 0", 1 << 20);
    let busy = vec![step.as_str(); 33];
    let busy = xml("allreduce", 1 << 20, &[(1 << 20, 1 << 20, 1 << 20)], (1, 0), &[&[(-1, -1, 0, &busy)]]);
    assert_eq!(interpret(busy.as_bytes(), "t").expect_err("refused").code(), E_LIMIT);
}
