//! Edits of protobuf messages: fields are changed, doubled, moved or left out, and every length around them is right again.

use crate::mutate::bytes;
use crate::random::Random;

/// How deep bytes are taken for messages.
const DEPTH: usize = 6;

#[derive(Clone)]
enum Content {
    Number(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(Vec<u8>),
    /// Bytes that could be read as a message.
    Message(Vec<Field>),
}

#[derive(Clone)]
struct Field {
    number: u64,
    content: Content,
}

/// The message with one edit; what is no message is edited as bytes.
pub fn edit(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let Some(mut fields) = read(input, DEPTH) else {
        let mut edited = input.to_vec();
        bytes::edit(&mut edited, other, random);
        return edited;
    };
    let theirs = read(other, DEPTH).unwrap_or_default();
    change(&mut fields, &theirs, random);
    let mut out = Vec::new();
    fields.iter().for_each(|field| write(field, &mut out));
    out
}

fn change(fields: &mut Vec<Field>, theirs: &[Field], random: &mut Random) {
    let at = random.below(fields.len());
    // Mostly further in, where most of a message is.
    if random.below(3) > 0
        && let Some(Field { content: Content::Message(inner), .. }) = fields.get_mut(at)
    {
        let deeper = theirs.iter().find_map(|field| match &field.content {
            Content::Message(inner) => Some(inner.as_slice()),
            _ => None,
        });
        return change(inner, deeper.unwrap_or(theirs), random);
    }
    match random.below(8) {
        0 if !fields.is_empty() => drop(fields.remove(at)),
        1 => {
            let most = if random.once_in(8) { 200 } else { 3 };
            let copies = 1 + random.below(most);
            let copy = fields.get(at).cloned();
            fields.extend(copy.into_iter().cycle().take(copies));
        }
        2 => {
            let with = random.below(fields.len());
            if at < fields.len() && with < fields.len() {
                fields.swap(at, with);
            }
        }
        3 => fields.extend(random.of(theirs).cloned()),
        4 => {
            let number = 1 + random.below(16) as u64;
            if let Some(field) = fields.get_mut(at) {
                field.number = number;
            }
        }
        5 => fields.push(Field { number: 1 + random.below(16) as u64, content: Content::Number(random.edge()) }),
        _ => {
            if let Some(field) = fields.get_mut(at) {
                value(&mut field.content, random);
            }
        }
    }
}

fn value(content: &mut Content, random: &mut Random) {
    match content {
        Content::Number(number) => *number = if random.once_in(2) { random.edge() } else { number.wrapping_add(1) },
        Content::Fixed64(word) => *word = random.edge().to_le_bytes(),
        Content::Fixed32(word) => *word = (random.edge() as u32).to_le_bytes(),
        Content::Bytes(text) => bytes::edit(text, &[], random),
        Content::Message(inner) => {
            let mut flat = Vec::new();
            inner.iter().for_each(|field| write(field, &mut flat));
            bytes::edit(&mut flat, &[], random);
            *content = Content::Bytes(flat);
        }
    }
}

fn read(mut input: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        let tag = varint(&mut input)?;
        let content = match tag & 7 {
            0 => Content::Number(varint(&mut input)?),
            1 => Content::Fixed64(take(&mut input, 8)?.try_into().ok()?),
            5 => Content::Fixed32(take(&mut input, 4)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(varint(&mut input)?).ok()?;
                let body = take(&mut input, length)?;
                let inner = if depth > 0 && !body.is_empty() { read(body, depth - 1) } else { None };
                inner.map_or_else(|| Content::Bytes(body.to_vec()), Content::Message)
            }
            _ => return None,
        };
        let number = tag >> 3;
        if number == 0 {
            return None;
        }
        fields.push(Field { number, content });
    }
    Some(fields)
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(taken)
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(input, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn write(field: &Field, out: &mut Vec<u8>) {
    let tag = |kind: u64| field.number << 3 | kind;
    let counted = |body: &[u8], out: &mut Vec<u8>| {
        put(tag(2), out);
        put(body.len() as u64, out);
        out.extend(body);
    };
    match &field.content {
        Content::Number(number) => {
            put(tag(0), out);
            put(*number, out);
        }
        Content::Fixed64(word) => {
            put(tag(1), out);
            out.extend(word);
        }
        Content::Fixed32(word) => {
            put(tag(5), out);
            out.extend(word);
        }
        Content::Bytes(body) => counted(body, out),
        Content::Message(inner) => {
            let mut body = Vec::new();
            inner.iter().for_each(|field| write(field, &mut body));
            counted(&body, out);
        }
    }
}

fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_as_it_was() {
        // Field 1: 300; field 2: a message with field 1: 7 and field 3 of four bytes; field 4: a text that is no message.
        let message = [&[8, 0xac, 2, 0x12, 7, 8, 7, 0x1d, 1, 2, 3, 4, 0x22, 2][..], b"\xff\xff"].concat();
        let fields = read(&message, DEPTH).expect("a message");
        assert!(matches!(&fields[1].content, Content::Message(inner) if inner.len() == 2));
        let mut out = Vec::new();
        fields.iter().for_each(|field| write(field, &mut out));
        assert_eq!(out, message);
        let mut random = Random::new(5);
        let read_again = (0..200).filter(|_| read(&edit(&message, &message, &mut random), 0).is_some()).count();
        assert_eq!(read_again, 200, "an edited message is a message");
    }
}
