//! Numbers as P4Runtime writes them: bytes in network order, as few as the number needs, but one at least.

use super::{BadEntry, refused};

/// Bytes of a refused value that an error shows.
const SHOWN: usize = 16;

/// The one way to write a number.
pub(crate) fn canonical(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len() - 1);
    bytes.iter().skip(zeros).copied().collect()
}

/// Reads a number of `bits` bits, 64 at most. Leading zeros are none of its bytes: readers have to take them.
///
/// # Errors
/// No byte at all, or a number that does not fit.
pub(crate) fn number(field: &str, bytes: &[u8], bits: u32) -> Result<u64, BadEntry> {
    if bytes.is_empty() {
        return Err(refused(field, "of no bytes", format!("a number of {bits} bits, one byte at least")));
    }
    let mut value: u64 = 0;
    for byte in bytes.iter().skip_while(|byte| **byte == 0) {
        // A byte that is about to leave at the upper end says that there are more than eight.
        let fits = value.leading_zeros() >= 8;
        value = value << 8 | u64::from(*byte);
        if !fits || (bits < 64 && value >> bits != 0) {
            return Err(refused(field, hex(bytes), format!("a number of {bits} bits")));
        }
    }
    Ok(value)
}

fn hex(bytes: &[u8]) -> String {
    let mut text: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > SHOWN {
        text.push('…');
    }
    format!("0x{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_has_as_few_bytes_as_it_needs() {
        for (value, bytes) in [
            (0, vec![0]),
            (1, vec![1]),
            (255, vec![255]),
            (256, vec![1, 0]),
            (0x0200_0000_0001, vec![2, 0, 0, 0, 0, 1]),
            (u64::MAX, vec![255; 8]),
        ] {
            assert_eq!(canonical(value), bytes, "{value}");
        }
    }

    #[test]
    fn errors_say_what_came_and_what_fits() {
        let error = |bytes: &[u8], bits| number("the port", bytes, bits).unwrap_err().to_string();
        assert_eq!(error(&[], 9), "the port is of no bytes; allowed is a number of 9 bits, one byte at least");
        assert_eq!(error(&[2, 0], 9), "the port is 0x0200; allowed is a number of 9 bits");
        assert_eq!(error(&[1; 9], 64), "the port is 0x010101010101010101; allowed is a number of 64 bits");
        assert!(error(&[1; 100], 9).contains("…"));
        assert_eq!(number("the port", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255], 9), Ok(511));
    }

    proptest! {
        #[test]
        fn what_fits_is_read_and_nothing_else_is(value: u64, bits in 1_u32..=64, zeros in 0_usize..20) {
            let bytes: Vec<u8> = std::iter::repeat_n(0, zeros).chain(canonical(value)).collect();
            let fits = bits == 64 || value >> bits == 0;
            prop_assert_eq!(number("it", &bytes, bits).ok(), fits.then_some(value));
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..40), bits in 1_u32..=64) {
            let _ = number("it", &bytes, bits);
        }
    }
}
