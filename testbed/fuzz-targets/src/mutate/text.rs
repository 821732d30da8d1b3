//! Edits of text: of its words, numbers, lines and brackets.

use std::ops::Range;

use crate::mutate::bytes;
use crate::random::Random;

/// Numbers that readers get wrong, as people and programs write them.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "00",
    "01",
    "0.1",
    ".5",
    "5.",
    "1e9",
    "1e400",
    "1e-400",
    "1E+2",
    "0x10",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "nan",
    "inf",
    "-inf",
    "1/0",
    "1/3",
    "7/2",
    "999999999999999999999999999999999999999999999999999999999999999999999999999999",
    "٣",
    "½",
];
/// Characters that texts should not have, or not there.
const ODD: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b"\x1b[2J",
    b"\xff",
    b"\xc3",
    "\u{202e}".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{2028}".as_bytes(),
    "é".as_bytes(),
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"&amp;",
    b"&x;",
    b"<!--",
    b"#",
    b"//",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"<",
    b">",
    b",",
    b":",
    b"=",
    b"/",
    b"|",
    b" ",
];
/// Repeats of a bracket or a line at most.
const REPEATS: usize = 300;

/// The text with one edit, which may take words and lines of `other`.
pub fn edit(input: &[u8], other: &[u8], words: &[&str], random: &mut Random) -> Vec<u8> {
    let mut text = input.to_vec();
    match random.below(12) {
        0 | 1 => replace(
            &mut text,
            |token| token.iter().any(u8::is_ascii_digit),
            random.of(NUMBERS).unwrap_or(&"0").as_bytes().to_vec(),
            random,
        ),
        2 => {
            let word = random.of(words).map(|word| word.as_bytes().to_vec());
            let word = word.or_else(|| any_token(other, random)).unwrap_or_default();
            replace(&mut text, |token| token[0].is_ascii_alphanumeric(), word, random);
        }
        3 => {
            let word = any_token(if random.once_in(2) { input } else { other }, random).unwrap_or_default();
            replace(&mut text, |token| !token[0].is_ascii_whitespace(), word, random);
        }
        4 => {
            let word = random.of(words).map_or_else(Vec::new, |word| word.as_bytes().to_vec());
            insert(&mut text, &word, random);
        }
        5 => {
            let odd = random.of(ODD).copied().unwrap_or_default();
            insert(&mut text, odd, random);
        }
        6 => {
            let spans = tokens(&text);
            if let Some(span) = random.of(&spans).cloned() {
                drop(text.drain(span));
            }
        }
        7 => lines(&mut text, other, random),
        8 => {
            let bracket =
                random.of(&[&b"["[..], b"{\"a\":", b"(", b"<a>", b"-", b"9", b" "]).copied().unwrap_or_default();
            let many = bracket.repeat(1 + random.below(REPEATS));
            insert(&mut text, &many, random);
        }
        9 => text.truncate(random.below(text.len() + 1)),
        10 => {
            let (here, there) = (random.range(text.len()), random.range(other.len()));
            drop(text.splice(here, other[there].iter().copied()));
        }
        _ => bytes::edit(&mut text, other, random),
    }
    text
}

/// Words and numbers as wholes, everything else byte by byte.
fn tokens(text: &[u8]) -> Vec<Range<usize>> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte) || byte >= 0x80;
    let (mut spans, mut at) = (Vec::new(), 0);
    while let Some(first) = text.get(at) {
        let rest = text[at + 1..].iter().take_while(|byte| is_word(*first) && is_word(**byte)).count();
        spans.push(at..at + 1 + rest);
        at += 1 + rest;
    }
    spans
}

fn any_token(text: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    random.of(&tokens(text)).cloned().map(|span| text[span].to_vec())
}

fn replace(text: &mut Vec<u8>, which: impl Fn(&[u8]) -> bool, with: Vec<u8>, random: &mut Random) {
    let spans: Vec<Range<usize>> = tokens(text).into_iter().filter(|span| which(&text[span.clone()])).collect();
    if let Some(span) = random.of(&spans).cloned() {
        drop(text.splice(span, with));
    }
}

/// Between two tokens.
fn insert(text: &mut Vec<u8>, new: &[u8], random: &mut Random) {
    let at = random.of(&tokens(text)).map_or(0, |span| span.start);
    drop(text.splice(at..at, new.iter().copied()));
}

/// Doubles, moves, drops or brings in a line.
fn lines(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let mut all: Vec<Vec<u8>> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let theirs: Vec<&[u8]> = other.split_inclusive(|byte| *byte == b'\n').collect();
    let (one, two) = (random.below(all.len()), random.below(all.len()));
    match random.below(4) {
        0 if !all.is_empty() => drop(all.remove(one)),
        1 if !all.is_empty() => all.swap(one, two),
        2 => {
            let most = if random.once_in(8) { REPEATS } else { 2 };
            let copies = 1 + random.below(most);
            let line = all.get(one).cloned().unwrap_or_default();
            (0..copies).for_each(|_| all.insert(one.min(all.len()), line.clone()));
        }
        _ => all.insert(one.min(all.len()), random.of(&theirs).copied().unwrap_or(b"\n").to_vec()),
    }
    *text = all.concat();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_whole() {
        let text = br#"{"gbps": 12.5, "x":[]}"#;
        let words: Vec<&[u8]> = tokens(text).into_iter().map(|span| &text[span]).collect();
        assert!(words.contains(&&b"gbps"[..]) && words.contains(&&b"12.5"[..]), "{words:?}");
        assert_eq!(words.concat(), text);
    }
}
