//! Edits of bytes with fields of fixed width.

use crate::random::Random;

/// Bytes put in at once at most.
const MOST_NEW: usize = 24;

/// One edit in place.
pub fn edit(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    match random.below(9) {
        0 => flip(input, random),
        1 | 2 => overwrite(input, random),
        3 => add(input, random),
        4 => drop(input.drain(random.range(input.len()))),
        5 => {
            let (part, at) = (input[random.range(input.len())].to_vec(), random.below(input.len() + 1));
            drop(input.splice(at..at, part));
        }
        6 => {
            let byte = random.number() as u8;
            let new: Vec<u8> =
                (0..random.below(MOST_NEW)).map(|n| if byte.is_multiple_of(2) { byte } else { n as u8 }).collect();
            let at = random.below(input.len() + 1);
            drop(input.splice(at..at, new));
        }
        7 => {
            let (here, there) = (random.range(input.len()), random.range(other.len()));
            drop(input.splice(here, other[there].iter().copied()));
        }
        _ => input.truncate(random.below(input.len() + 1)),
    }
}

fn flip(input: &mut [u8], random: &mut Random) {
    let at = random.below(input.len());
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// A word of 1, 2, 4 or 8 bytes in either order, mostly where it would be aligned: an edge, or the input's own length.
fn overwrite(input: &mut [u8], random: &mut Random) {
    let value = if random.once_in(4) {
        (input.len() as u64).wrapping_add(random.below(5) as u64).wrapping_sub(2)
    } else {
        random.edge()
    };
    with_word(input, random, |_| value);
}

fn add(input: &mut [u8], random: &mut Random) {
    let step = 1 + random.below(16) as u64;
    let up = random.once_in(2);
    with_word(input, random, |word| if up { word.wrapping_add(step) } else { word.wrapping_sub(step) });
}

fn with_word(input: &mut [u8], random: &mut Random, change: impl FnOnce(u64) -> u64) {
    let (width, big) = (1 << random.below(4), random.once_in(2));
    let at = random.below(input.len());
    let at = if random.once_in(4) { at } else { at / width * width };
    let Some(place) = input.get_mut(at..at + width) else { return };
    let mut word = [0; 8];
    if big {
        word[8 - width..].copy_from_slice(place);
        word = change(u64::from_be_bytes(word)).to_be_bytes();
        place.copy_from_slice(&word[8 - width..]);
    } else {
        word[..width].copy_from_slice(place);
        word = change(u64::from_le_bytes(word)).to_le_bytes();
        place.copy_from_slice(&word[..width]);
    }
}
