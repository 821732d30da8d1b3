//! A walk over BTF that finds structs by name, their members' offsets and the signatures behind function pointers.
//!
//! aya-obj keeps struct members private; this reads the raw bytes again. Nothing it is given makes it panic or allocate
//! more than the input's own size: every offset, count and id is checked.

use std::collections::HashMap;

/// Why a BTF blob was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// It ends inside something.
    #[error("BTF ends at byte {at} inside {what}")]
    Short {
        /// Offset at which more was expected.
        at: usize,
        /// What was being read.
        what: &'static str,
    },
    /// It does not begin with the magic number of this machine's byte order.
    #[error("BTF begins with {0:#06x}, expected 0xeb9f in this machine's byte order")]
    Magic(u16),
    /// A version this walk does not know.
    #[error("BTF has version {0}, expected 1")]
    Version(u8),
    /// A type of a kind this walk cannot step over.
    #[error("BTF type {id} has the unknown kind {kind}")]
    Kind {
        /// The number of the type, from 1.
        id: u32,
        /// What the type says of itself, a `BTF_KIND_*`.
        kind: u32,
    },
}

/// One member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// As the kernel's headers call it.
    pub name: String,
    /// Its offset in bytes.
    pub offset: usize,
    /// The number of its type.
    pub type_id: u32,
}

/// One struct of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// The number of its type.
    pub id: u32,
    /// Its size in bytes.
    pub size: usize,
    /// Its members, in order: the index is what the kernel expects as attach type.
    pub members: Vec<Member>,
}

impl Structure {
    /// The member with this name and its index.
    pub fn member(&self, name: &str) -> Option<(usize, &Member)> {
        self.members.iter().enumerate().find(|(_, m)| m.name == name)
    }
}

/// A BTF blob, indexed.
#[derive(Clone, Debug)]
pub struct Btf {
    data: Vec<u8>,
    strings: std::ops::Range<usize>,
    /// Byte offset of each type; the first type has number 1.
    types: Vec<u32>,
    structs: HashMap<Vec<u8>, u32>,
}

const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_TYPEDEF: u32 = 8;
const KIND_VOLATILE: u32 = 9;
const KIND_CONST: u32 = 10;
const KIND_RESTRICT: u32 = 11;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_TYPE_TAG: u32 = 18;
/// Longest chain of typedefs and qualifiers that is followed.
const MAX_CHAIN: usize = 32;
/// Bytes of a name at most, its end included: as long as the kernel's own may be.
const MAX_NAME: usize = 512;

impl Btf {
    /// Indexes a blob; it must be in this machine's byte order, as the kernel's own is.
    ///
    /// # Errors
    /// [`BtfError`] where the blob contradicts its own lengths.
    pub fn parse(data: Vec<u8>) -> Result<Btf, BtfError> {
        let magic = u16_at(&data, 0, "the header")?;
        if magic != 0xeb9f {
            return Err(BtfError::Magic(magic));
        }
        let version = *data.get(2).ok_or(BtfError::Short { at: 2, what: "the header" })?;
        if version != 1 {
            return Err(BtfError::Version(version));
        }
        let word = |at| u32_at(&data, at, "the header").map(|v| v as usize);
        let (header, type_off, type_len, str_off, str_len) = (word(4)?, word(8)?, word(12)?, word(16)?, word(20)?);
        let types = section(&data, header, type_off, type_len, "the types")?;
        let strings = section(&data, header, str_off, str_len, "the strings")?;

        let mut btf = Btf { strings, types: Vec::new(), structs: HashMap::new(), data: Vec::new() };
        let mut at = types.start;
        while at < types.end {
            let id = btf.types.len() as u32 + 1;
            let info = u32_at(&data, at + 4, "a type")?;
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let extra = match kind {
                1 | 14 | 17 => 4,
                KIND_PTR | 7 | KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | 12 | 16 | KIND_TYPE_TAG => 0,
                3 => 12,
                KIND_STRUCT | 5 | 15 | 19 => count * 12,
                6 | KIND_FUNC_PROTO => count * 8,
                _ => return Err(BtfError::Kind { id, kind }),
            };
            let next = at + 12 + extra;
            if next > types.end {
                return Err(BtfError::Short { at: types.end, what: "a type" });
            }
            if kind == KIND_STRUCT
                && let Some(name) = name_at(&data, &btf.strings, u32_at(&data, at, "a type")?)
                && !name.is_empty()
            {
                btf.structs.entry(name.to_vec()).or_insert(id);
            }
            btf.types.push(at as u32);
            at = next;
        }
        btf.data = data;
        Ok(btf)
    }

    /// The struct with this name; `None` if the kernel has none or its members lie outside the blob.
    pub fn structure(&self, name: &str) -> Option<Structure> {
        let id = *self.structs.get(name.as_bytes())?;
        let at = self.offset(id)?;
        let info = self.word(at + 4)?;
        let size = self.word(at + 8)? as usize;
        let bit_fields = info >> 31 == 1;
        let mut members = Vec::new();
        for i in 0..(info & 0xffff) as usize {
            let at = at + 12 + i * 12;
            let name = name_at(&self.data, &self.strings, self.word(at)?)?;
            let raw = self.word(at + 8)?;
            let bits = if bit_fields { raw & 0xff_ffff } else { raw };
            members.push(Member {
                name: String::from_utf8_lossy(name).into_owned(),
                offset: bits as usize / 8,
                type_id: self.word(at + 4)?,
            });
        }
        Some(Structure { id, size, members })
    }

    /// How many parameters the function behind a pointer type takes; `None` if it is no function pointer.
    pub fn parameters(&self, type_id: u32) -> Option<usize> {
        let (kind, _, target) = self.resolve(type_id)?;
        if kind != KIND_PTR {
            return None;
        }
        let (kind, info, _) = self.resolve(target)?;
        (kind == KIND_FUNC_PROTO).then_some((info & 0xffff) as usize)
    }

    /// Kind, info word and size-or-type word behind typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<(u32, u32, u32)> {
        for _ in 0..MAX_CHAIN {
            let at = self.offset(id)?;
            let (info, target) = (self.word(at + 4)?, self.word(at + 8)?);
            match info >> 24 & 0x1f {
                KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | KIND_TYPE_TAG => id = target,
                kind => return Some((kind, info, target)),
            }
        }
        None
    }

    fn offset(&self, id: u32) -> Option<usize> {
        self.types.get(id.checked_sub(1)? as usize).map(|&at| at as usize)
    }

    fn word(&self, at: usize) -> Option<u32> {
        u32_at(&self.data, at, "a type").ok()
    }
}

fn section(
    data: &[u8],
    header: usize,
    offset: usize,
    len: usize,
    what: &'static str,
) -> Result<std::ops::Range<usize>, BtfError> {
    let start = header.saturating_add(offset);
    let end = start.saturating_add(len);
    if end > data.len() || data.len() > u32::MAX as usize {
        return Err(BtfError::Short { at: data.len(), what });
    }
    Ok(start..end)
}

fn name_at<'a>(data: &'a [u8], strings: &std::ops::Range<usize>, offset: u32) -> Option<&'a [u8]> {
    let rest = data.get(strings.clone())?.get(offset as usize..)?;
    // Many may have one long name: what they take together is to stay below what the blob takes.
    let len = rest.iter().take(MAX_NAME).position(|&b| b == 0)?;
    rest.get(..len)
}

fn u16_at(data: &[u8], at: usize, what: &'static str) -> Result<u16, BtfError> {
    let bytes = data.get(at..).and_then(|rest| rest.first_chunk::<2>());
    bytes.map(|b| u16::from_ne_bytes(*b)).ok_or(BtfError::Short { at: data.len(), what })
}

fn u32_at(data: &[u8], at: usize, what: &'static str) -> Result<u32, BtfError> {
    let bytes = data.get(at..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map(|b| u32::from_ne_bytes(*b)).ok_or(BtfError::Short { at: data.len(), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct ops { void (*act)(int, int); int size; }`
    fn sample() -> Vec<u8> {
        let mut strings = vec![0_u8];
        let mut string = |text: &str| {
            let at = strings.len() as u32;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let (int, ops, act, size) = (string("int"), string("ops"), string("act"), string("size"));
        let words: &[u32] = &[
            // 1: int
            int,
            1 << 24,
            4,
            32, // 2: function (int, int)
            0,
            KIND_FUNC_PROTO << 24 | 2,
            0,
            0,
            1,
            0,
            1, // 3: pointer to 2
            0,
            KIND_PTR << 24,
            2, // 4: const of 3
            0,
            KIND_CONST << 24,
            3, // 5: the struct
            ops,
            KIND_STRUCT << 24 | 2,
            16,
            act,
            4,
            0,
            size,
            1,
            64,
        ];
        let types: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let mut blob = Vec::new();
        blob.extend_from_slice(&0xeb9f_u16.to_ne_bytes());
        blob.extend_from_slice(&[1, 0]);
        for word in [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32] {
            blob.extend_from_slice(&word.to_ne_bytes());
        }
        blob.extend_from_slice(&types);
        blob.extend_from_slice(&strings);
        blob
    }

    #[test]
    fn finds_members_offsets_and_signatures() {
        let btf = Btf::parse(sample()).unwrap();
        let ops = btf.structure("ops").unwrap();
        assert_eq!((ops.id, ops.size, ops.members.len()), (5, 16, 2));
        let (index, act) = ops.member("act").unwrap();
        assert_eq!((index, act.offset, btf.parameters(act.type_id)), (0, 0, Some(2)));
        let (index, size) = ops.member("size").unwrap();
        assert_eq!((index, size.offset, btf.parameters(size.type_id)), (1, 8, None));
        assert!(btf.structure("nothing").is_none());
    }

    #[test]
    fn refuses_what_is_no_btf() {
        assert!(matches!(Btf::parse(Vec::new()), Err(BtfError::Short { .. })));
        assert!(matches!(Btf::parse(vec![0; 64]), Err(BtfError::Magic(0))));
        let mut other = sample();
        other[2] = 9;
        assert_eq!(Btf::parse(other).unwrap_err(), BtfError::Version(9));
    }

    #[test]
    fn mutated_and_cut_blobs_never_panic() {
        let sample = sample();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..20_000 {
            let mut blob = sample.clone();
            for _ in 0..1 + next() % 4 {
                let at = next() as usize % blob.len();
                blob[at] = if next() % 2 == 0 { next() as u8 } else { 0xff };
            }
            blob.truncate(blob.len() - (next() as usize % 8) * (next() as usize % 2));
            if let Ok(btf) = Btf::parse(blob)
                && let Some(ops) = btf.structure("ops")
            {
                for member in &ops.members {
                    let _ = btf.parameters(member.type_id);
                }
            }
        }
    }

    #[test]
    fn the_running_kernel_has_the_congestion_control_struct() {
        let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return sluice_skip::skip!(Kernel, "no BTF at /sys/kernel/btf/vmlinux");
        };
        let btf = Btf::parse(data).unwrap();
        let Some(ops) = btf.structure("tcp_congestion_ops") else {
            return sluice_skip::skip!(Kernel, "the kernel has no tcp_congestion_ops");
        };
        let (_, control) = ops.member("cong_control").unwrap();
        assert!(matches!(btf.parameters(control.type_id), Some(2 | 4)));
        assert!(ops.member("name").is_some());
    }

    /// The same information with the pointer behind a member leading to a function of so many parameters.
    fn with_parameters(btf: &Btf, member: &Member, parameters: usize) -> Btf {
        let is = |id: &u32| {
            btf.resolve(*id)
                .is_some_and(|(kind, info, _)| kind == KIND_FUNC_PROTO && (info & 0xffff) as usize == parameters)
        };
        let function = (1..=btf.types.len() as u32).find(is).expect("a kernel has functions of every kind");
        let pointer = btf.offset(member.type_id).expect("the type of a member");
        let mut data = btf.data.clone();
        data[pointer + 8..pointer + 12].copy_from_slice(&function.to_ne_bytes());
        Btf::parse(data).expect("only a number changed")
    }

    #[test]
    fn either_signature_is_read_from_this_kernels_own_information_rewritten() {
        let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return sluice_skip::skip!(Kernel, "no BTF at /sys/kernel/btf/vmlinux");
        };
        let btf = Btf::parse(data).unwrap();
        let Some(ops) = btf.structure("tcp_congestion_ops") else {
            return sluice_skip::skip!(Kernel, "the kernel has no tcp_congestion_ops");
        };
        let (index, control) = ops.member("cong_control").unwrap();
        for parameters in [2, 3, 4] {
            let rewritten = with_parameters(&btf, control, parameters);
            let ops = rewritten.structure("tcp_congestion_ops").unwrap();
            let (found, control) = ops.member("cong_control").unwrap();
            assert_eq!((found, rewritten.parameters(control.type_id)), (index, Some(parameters)));
        }
    }
}
