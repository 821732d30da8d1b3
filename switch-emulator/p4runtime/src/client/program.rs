//! The compiled program that a switch is given, and the number by which a switch is known to have it.

use prost::Message;

use crate::ids::{BadInfo, Ids};
use crate::info::info;
use crate::pb::p4::config::v1::P4Info;

/// A compiled program with what its compiler says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    p4info: Vec<u8>,
    device_config: Vec<u8>,
    cookie: u64,
    ids: Ids,
}

impl Program {
    /// A program of a P4Info in protobuf's binary format and what the switch's target makes of `device_config`.
    ///
    /// # Errors
    /// [`BadInfo`]: the P4Info is not that of `switch-emulator/p4/sluice.p4`.
    pub fn new(p4info: Vec<u8>, device_config: Vec<u8>) -> Result<Program, BadInfo> {
        let info = P4Info::decode(p4info.as_slice()).map_err(|error| BadInfo::Unreadable(error.to_string()))?;
        let cookie = fingerprint([p4info.as_slice(), device_config.as_slice()]);
        Ok(Program { ids: Ids::of(&info)?, p4info, device_config, cookie })
    }

    /// The program with the numbers of [`info`], for a server that needs no compiled one.
    ///
    /// # Errors
    /// None: the P4Info is made from the names that are looked for.
    pub fn twin() -> Result<Program, BadInfo> {
        Program::new(info().encode_to_vec(), Vec::new())
    }

    /// The P4Info as it was given.
    pub fn p4info(&self) -> &[u8] {
        &self.p4info
    }

    /// What the switch's target runs.
    pub fn device_config(&self) -> &[u8] {
        &self.device_config
    }

    /// Differs between programs; a switch keeps it as long as it has the program.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The numbers of everything that Sluice writes or reads.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }
}

/// 64-bit FNV-1a over the parts and their lengths, so that what moves from one part to the other is noticed.
fn fingerprint(parts: [&[u8]; 2]) -> u64 {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |sum, part| {
        let length = (part.len() as u64).to_be_bytes();
        length.iter().chain(part.iter()).fold(sum, hash)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_cookie_of_its_own() {
        let bytes = info().encode_to_vec();
        let cookie = |config: &[u8]| Program::new(bytes.clone(), config.to_vec()).unwrap().cookie();
        assert_eq!(cookie(b"a"), cookie(b"a"));
        assert_ne!(cookie(b"a"), cookie(b"b"));
        assert_ne!(cookie(b""), cookie(b"\0"));
        assert_ne!(fingerprint([&[1][..], &[2, 3][..]]), fingerprint([&[1, 2][..], &[3][..]]));
    }

    #[test]
    fn what_is_no_p4info_is_said() {
        let error = |bytes: &[u8]| Program::new(bytes.to_vec(), Vec::new()).unwrap_err().to_string();
        assert!(error(&[0xff]).starts_with("the P4Info cannot be read: "));
        assert!(error(&[]).starts_with("the P4Info has no table `SluiceIngress.lpm`"));
    }
}
