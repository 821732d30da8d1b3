//! The names that NCCL uses in descriptors: functions, algorithms, element types.

/// A collective function.
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

/// How a collective runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of NCCL")]
pub enum Algo {
    Ring,
    Tree,
    /// One that is neither a ring nor a tree over the network.
    #[default]
    Other,
}

/// Reads a function's name.
pub fn func(name: &[u8]) -> Func {
    match name {
        b"AllReduce" => Func::AllReduce,
        b"AllGather" => Func::AllGather,
        b"ReduceScatter" => Func::ReduceScatter,
        b"Broadcast" => Func::Broadcast,
        b"Reduce" => Func::Reduce,
        _ => Func::Other,
    }
}

/// Reads an algorithm's name. Between hosts `NVLS_TREE` is a tree like `TREE`.
pub fn algo(name: &[u8]) -> Algo {
    match name {
        b"RING" => Algo::Ring,
        b"TREE" | b"NVLS_TREE" => Algo::Tree,
        _ => Algo::Other,
    }
}

/// Bytes of an element of this type; `None`: not known.
pub fn element_bytes(name: &[u8]) -> Option<u64> {
    match name.strip_prefix(b"nccl")? {
        b"Int8" | b"Char" | b"Uint8" | b"Float8e4m3" | b"Float8e5m2" => Some(1),
        b"Float16" | b"Half" | b"Bfloat16" => Some(2),
        b"Int32" | b"Int" | b"Uint32" | b"Float32" | b"Float" => Some(4),
        b"Int64" | b"Uint64" | b"Float64" | b"Double" => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(element_bytes(name.as_bytes()), Some(bytes), "{name}");
        }
        for name in ["", "nccl", "ncclFloat", "ncclFloat3", "ncclFloat8e9", "Float32", "Unknown"] {
            let known = name == "ncclFloat";
            assert_eq!(element_bytes(name.as_bytes()).is_some(), known, "{name}");
        }
        assert_eq!((func(b"AllReduce"), func(b"allreduce")), (Func::AllReduce, Func::Other));
        assert_eq!((algo(b"RING"), algo(b"NVLS_TREE"), algo(b"PAT")), (Algo::Ring, Algo::Tree, Algo::Other));
    }
}
