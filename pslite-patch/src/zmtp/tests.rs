//! The decoder against one that has the whole stream at once, over any split, any garbage and any cut.

use proptest::prelude::*;

use super::*;

/// What a stream holds: frames with their bodies, and whether it was read to its end.
type Read = (Vec<(Frame, Vec<u8>)>, bool);

fn read<'a>(decoder: &mut Decoder, mut bytes: &'a [u8], mut each: impl FnMut(Part<'a>)) -> Result<(), Lost> {
    while let Some(part) = decoder.next(&mut bytes)? {
        each(part);
    }
    assert_eq!(bytes, b"");
    Ok(())
}

/// Reads the stream in these pieces, and puts the parts together again.
fn in_pieces(stream: &[u8], cuts: &[usize]) -> Read {
    let (mut decoder, mut frames, mut open) = (Decoder::new(), Vec::new(), None::<(Frame, Vec<u8>)>);
    let mut good = true;
    let mut at = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    for cut in cuts {
        good = read(&mut decoder, &stream[at..cut], |part| match part {
            Part::Begins(frame) => assert!(open.replace((frame, Vec::new())).is_none(), "the last one ended"),
            Part::Body(bytes) => open.as_mut().expect("within a frame").1.extend(bytes),
            Part::Ends => frames.push(open.take().expect("it began")),
            Part::Whole(frame, body) => {
                assert!(open.is_none(), "the last one ended");
                frames.push((frame, body.to_vec()));
            }
        })
        .is_ok();
        at = cut;
        if !good {
            assert_eq!(decoder.next(&mut &b"x"[..]), Err(Lost));
            break;
        }
    }
    assert!(frames.iter().all(|(frame, body)| frame.size == body.len() as u64));
    (frames, good)
}

/// The same by the letter of the RFC, with the whole stream in hand.
fn naive(stream: &[u8]) -> Read {
    let mut wanted = [None; 64];
    (wanted[0], wanted[9]) = (Some(0xff), Some(0x7f));
    for (at, byte) in b"NULL".iter().chain(&[0; 16]).enumerate() {
        wanted[12 + at] = Some(*byte);
    }
    let right = |(at, byte): (usize, &u8)| wanted[at].is_none_or(|wanted| wanted == *byte) && (at != 10 || *byte >= 3);
    if !stream.iter().take(64).enumerate().all(right) {
        return (Vec::new(), false);
    }
    let (mut rest, mut frames) = (stream.get(64..).unwrap_or_default(), Vec::new());
    loop {
        let (head, size) = match rest {
            [] => return (frames, true),
            [flags, ..] if *flags > 7 || *flags & 5 == 5 => return (frames, false),
            [flags, long @ ..] if flags & 2 != 0 => match long.first_chunk::<8>() {
                Some(long) => (9, u64::from_be_bytes(*long)),
                None => return (frames, true),
            },
            [_, size, ..] => (2, u64::from(*size)),
            [_] => return (frames, true),
        };
        if size > i64::MAX as u64 {
            return (frames, false);
        }
        let frame = Frame { flags: rest[0], size };
        assert_eq!((frame.command(), frame.more(), frame.head() as usize), (rest[0] & 4 != 0, rest[0] & 1 != 0, head));
        match rest[head..].split_at_checked(size.min(1 << 40) as usize) {
            Some((body, after)) => {
                frames.push((frame, body.to_vec()));
                rest = after;
            }
            None => return (frames, true),
        }
    }
}

/// A greeting as ZMTP 3 sends it.
pub fn hello() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[8], bytes[9], bytes[10]) = (0xff, 1, 0x7f, 3);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// A frame as ZeroMQ writes it.
pub fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match u8::try_from(body.len()) {
        Ok(short) => bytes.extend([flags, short]),
        Err(_) => {
            bytes.push(flags | 2);
            bytes.extend((body.len() as u64).to_be_bytes());
        }
    }
    bytes.extend(body);
    bytes
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_split(
        bodies in prop::collection::vec((0_u8..2, prop::collection::vec(any::<u8>(), 0..600)), 0..12),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let mut stream = hello();
        bodies.iter().for_each(|(more, body)| stream.extend(frame(*more, body)));
        let (frames, good) = in_pieces(&stream, &cuts);
        prop_assert!(good);
        let read: Vec<(u8, Vec<u8>)> = frames.into_iter().map(|(frame, body)| (u8::from(frame.more()), body)).collect();
        prop_assert_eq!(read, bodies);
    }

    #[test]
    fn garbage_is_read_as_the_naive_decoder_does(
        garbage in prop::collection::vec(any::<u8>(), 0..400),
        flags in prop::collection::vec(0_u8..16, 0..40),
        greeted: bool,
        spoilt in prop::option::of((0_usize..64, any::<u8>())),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let mut stream = if greeted { hello() } else { Vec::new() };
        if let Some((at, byte)) = spoilt.filter(|_| greeted) {
            stream[at] = byte;
        }
        // Short frames with lengths that mostly fit, then anything.
        flags.iter().for_each(|flags| stream.extend([*flags, 1, 7]));
        stream.extend(&garbage);
        let (read, reference) = (in_pieces(&stream, &cuts), naive(&stream));
        prop_assert_eq!(&read.1, &reference.1);
        // The one in pieces stops at the piece in which it is lost, which is no earlier than the frame.
        prop_assert_eq!(read.0, reference.0);
    }
}

#[test]
fn a_body_of_many_gigabytes_is_passed_over() {
    let mut decoder = Decoder::new();
    let mut ends = 0;
    let mut stream = hello();
    stream.push(2);
    stream.extend((10_u64 << 30).to_be_bytes());
    let mut count = |part: Part| ends += u32::from(matches!(part, Part::Ends | Part::Whole(..)));
    assert_eq!(read(&mut decoder, &stream, &mut count), Ok(()));
    let chunk = vec![0xee; 1 << 20];
    for _ in 0..10 << 10 {
        assert_eq!(read(&mut decoder, &chunk, &mut count), Ok(()));
    }
    assert_eq!((read(&mut decoder, &[0, 1, 5], &mut count), ends), (Ok(()), 2));
}
