//! The names that NCCL uses in descriptors: functions, algorithms, element types.

use std::ffi::c_char;

/// One of NCCL's collective functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of NCCL")]
pub enum Func {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    /// One that this version does not know.
    #[default]
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of NCCL")]
pub enum Algo {
    Ring,
    Tree,
    /// One that is neither a ring nor a tree over the network.
    #[default]
    Other,
}

/// The beginning of a C text, long enough for every name there is, packed into words: a name is recognised with three
/// comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name([u64; 3]);

impl Name {
    /// Most bytes that are read.
    const MAX: usize = 24;

    /// The name in these bytes; further ones than fit are left out, as they are of [`Name::of`].
    #[allow(clippy::indexing_slicing, reason = "a constant function, which knows no iterator; the loop ends with both")]
    pub const fn new(text: &[u8]) -> Name {
        let mut words = [0; 3];
        let mut i = 0;
        while i < text.len() && i < Name::MAX {
            words[i / 8] |= (text[i] as u64) << (8 * (i % 8));
            i += 1;
        }
        Name(words)
    }

    /// The name at this address; empty for null.
    ///
    /// # Safety
    /// `at` is null or NUL-terminated.
    pub unsafe fn of(at: *const c_char) -> Name {
        if at.is_null() {
            return Name::default();
        }
        // SAFETY: NUL-terminated.
        let length = unsafe { libc::strnlen(at, Name::MAX) };
        let at = at.cast::<u8>();
        // SAFETY: only called for bytes of the text.
        let word = |from: usize| u64::from_le_bytes(unsafe { at.add(from).cast::<[u8; 8]>().read() });
        // The bytes from a multiple of eight to the end, by a word that ends where the text does.
        let rest = |from: usize| if length > from { word(length - 8) >> (8 * (8 - (length - from))) } else { 0 };
        Name(match length {
            // SAFETY: the bytes of the text.
            0..8 => [unsafe { short(at, length) }, 0, 0],
            8..16 => [word(0), rest(8), 0],
            _ => [word(0), word(8), rest(16)],
        })
    }
}

/// The first `length` bytes, fewer than eight, as a word: two reads that overlap instead of one for each.
///
/// # Safety
/// So many bytes can be read.
unsafe fn short(at: *const u8, length: usize) -> u64 {
    if length >= 4 {
        // SAFETY: both lie within the text.
        let half = |from: usize| u64::from(u32::from_le_bytes(unsafe { at.add(from).cast::<[u8; 4]>().read() }));
        return half(0) | half(length - 4) << (8 * (length - 4));
    }
    // SAFETY: as above.
    (0..length).fold(0, |word, i| word | u64::from(unsafe { at.add(i).read() }) << (8 * i))
}

/// Names as constants, so that they can be matched.
macro_rules! names {
    ($($name:ident = $text:literal),* $(,)?) => { $(const $name: Name = Name::new($text);)* };
}

names! {
    ALL_REDUCE = b"AllReduce", ALL_GATHER = b"AllGather", REDUCE_SCATTER = b"ReduceScatter",
    BROADCAST = b"Broadcast", REDUCE = b"Reduce", SEND = b"Send",
    RING = b"RING", TREE = b"TREE", NVLS_TREE = b"NVLS_TREE",
    INT8 = b"ncclInt8", CHAR = b"ncclChar", UINT8 = b"ncclUint8",
    FLOAT8E4M3 = b"ncclFloat8e4m3", FLOAT8E5M2 = b"ncclFloat8e5m2",
    FLOAT16 = b"ncclFloat16", HALF = b"ncclHalf", BFLOAT16 = b"ncclBfloat16",
    INT32 = b"ncclInt32", INT = b"ncclInt", UINT32 = b"ncclUint32", FLOAT32 = b"ncclFloat32", FLOAT = b"ncclFloat",
    INT64 = b"ncclInt64", UINT64 = b"ncclUint64", FLOAT64 = b"ncclFloat64", DOUBLE = b"ncclDouble",
}

/// Reads a function's name.
pub fn func(name: Name) -> Func {
    match name {
        ALL_REDUCE => Func::AllReduce,
        ALL_GATHER => Func::AllGather,
        REDUCE_SCATTER => Func::ReduceScatter,
        BROADCAST => Func::Broadcast,
        REDUCE => Func::Reduce,
        _ => Func::Other,
    }
}

/// Is this the name of a send?
pub fn is_send(name: Name) -> bool {
    name == SEND
}

/// Reads an algorithm's name. Between hosts `NVLS_TREE` is a tree like `TREE`.
pub fn algo(name: Name) -> Algo {
    match name {
        RING => Algo::Ring,
        TREE | NVLS_TREE => Algo::Tree,
        _ => Algo::Other,
    }
}

/// Bytes of an element of this type; `None`: not known.
pub fn element_bytes(name: Name) -> Option<u64> {
    match name {
        BFLOAT16 | FLOAT16 | HALF => Some(2),
        FLOAT32 | FLOAT | INT32 | INT | UINT32 => Some(4),
        INT8 | CHAR | UINT8 | FLOAT8E4M3 | FLOAT8E5M2 => Some(1),
        INT64 | UINT64 | FLOAT64 | DOUBLE => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_name_has_its_size_and_others_none() {
        for (name, bytes) in [
            ("ncclInt8", 1),
            ("ncclUint8", 1),
            ("ncclFloat8e4m3", 1),
            ("ncclFloat8e5m2", 1),
            ("ncclFloat16", 2),
            ("ncclBfloat16", 2),
            ("ncclInt32", 4),
            ("ncclUint32", 4),
            ("ncclFloat32", 4),
            ("ncclInt64", 8),
            ("ncclUint64", 8),
            ("ncclFloat64", 8),
        ] {
            assert_eq!(element_bytes(Name::new(name.as_bytes())), Some(bytes), "{name}");
        }
        for name in ["", "nccl", "ncclFloat", "ncclFloat3", "ncclFloat8e9", "Float32", "Unknown"] {
            let known = name == "ncclFloat";
            assert_eq!(element_bytes(Name::new(name.as_bytes())).is_some(), known, "{name}");
        }
        let (func, algo) = (|name| func(Name::new(name)), |name| algo(Name::new(name)));
        assert_eq!((func(b"AllReduce"), func(b"allreduce")), (Func::AllReduce, Func::Other));
        assert_eq!((algo(b"RING"), algo(b"NVLS_TREE"), algo(b"PAT")), (Algo::Ring, Algo::Tree, Algo::Other));
    }

    proptest! {
        /// Read from memory as built from bytes; different texts are different names as far as is read.
        #[test]
        fn a_name_is_its_first_bytes(one in "[a-zA-Z0-9_]{0,30}", other in "[a-zA-Z0-9_]{0,30}") {
            let read = |text: &str| {
                let text = std::ffi::CString::new(text).expect("no NUL");
                // SAFETY: NUL-terminated.
                unsafe { Name::of(text.as_ptr()) }
            };
            let short = |text: &str| text.bytes().take(Name::MAX).collect::<Vec<u8>>();
            prop_assert_eq!(read(&one), Name::new(one.as_bytes()));
            prop_assert_eq!(read(&one) == read(&other), short(&one) == short(&other));
        }
    }

    #[test]
    fn nothing_has_no_name() {
        // SAFETY: null.
        assert_eq!(unsafe { Name::of(std::ptr::null()) }, Name::new(b""));
    }
}
