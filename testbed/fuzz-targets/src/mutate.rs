//! Edits that make a new input of an old one and know what kind of input it is, so that most of what comes out is still
//! nearly right: a change of a length in its own width, of a number in its digits, of a field of a message with all lengths
//! around it.

mod bytes;
mod protobuf;
mod text;

use crate::random::Random;

/// What kind of input a target takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Fields of fixed width, lengths among them.
    Bytes,
    /// Text in a language with these words.
    Text(&'static [&'static str]),
    /// A byte that chooses, then text in a language with these words.
    ChosenText(&'static [&'static str]),
    /// So many plain bytes, then a protobuf message.
    Protobuf(usize),
}

/// Edits of one input at most.
const EDITS: usize = 4;
/// One in so many edited inputs is edited as bytes whatever its shape.
const FOREIGN: usize = 8;

/// A new input of at most `most` bytes: `input` with up to four edits, which may take parts of `other`.
pub fn mutate(shape: Shape, input: &[u8], other: &[u8], random: &mut Random, most: usize) -> Vec<u8> {
    let mut edited = input.to_vec();
    for _ in 0..=random.below(EDITS) {
        let shape = if random.once_in(FOREIGN) { Shape::Bytes } else { shape };
        match shape {
            Shape::Bytes => bytes::edit(&mut edited, other, random),
            Shape::Text(words) => behind(0, &mut edited, other, |rest, other| text::edit(rest, other, words, random)),
            Shape::ChosenText(words) => {
                behind(1, &mut edited, other, |rest, other| text::edit(rest, other, words, random));
            }
            Shape::Protobuf(head) => {
                behind(head, &mut edited, other, |rest, other| protobuf::edit(rest, other, random));
            }
        }
        edited.truncate(most);
    }
    edited
}

/// Edits what stands behind the first `head` bytes.
fn behind(head: usize, edited: &mut Vec<u8>, other: &[u8], edit: impl FnOnce(&[u8], &[u8]) -> Vec<u8>) {
    let rest = edited.split_off(head.min(edited.len()));
    edited.extend(edit(&rest, other.get(head..).unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 4] =
        [Shape::Bytes, Shape::Text(&["word"]), Shape::ChosenText(&["[", "\""]), Shape::Protobuf(1)];

    #[test]
    fn the_same_seed_gives_the_same_edits_and_their_length_is_bounded() {
        let input: Vec<u8> = (0..200).collect();
        for shape in SHAPES {
            let draw = |seed| {
                let mut random = Random::new(seed);
                (0..300).map(|_| mutate(shape, &input, b"other", &mut random, 250)).collect::<Vec<_>>()
            };
            let drawn = draw(3);
            assert_eq!(drawn, draw(3), "{shape:?}");
            assert!(drawn.iter().all(|edited| edited.len() <= 250), "{shape:?}");
            assert!(
                drawn.iter().filter(|edited| **edited != input).count() > 250,
                "{shape:?}: most edits change something"
            );
        }
    }

    #[test]
    fn nothing_is_edited_too() {
        let mut random = Random::new(1);
        for shape in SHAPES {
            (0..200).for_each(|_| drop(mutate(shape, b"", b"", &mut random, 100)));
        }
    }
}
