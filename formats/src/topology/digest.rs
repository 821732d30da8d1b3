//! SHA-256 as lower-case hexadecimal.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The digest of some bytes: 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_sha256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(super::sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
