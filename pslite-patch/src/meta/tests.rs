//! Both forms as their writers make them, every version of the struct, and anything else.

use proptest::prelude::*;

use super::*;

/// A field that is a number.
fn number(bytes: &mut Vec<u8>, field: u8, value: u64) {
    bytes.push(field << 3);
    let mut value = value;
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// dmlc's form; `control` and `body` only where they are not empty.
pub fn dmlc(meta: Meta, timestamp: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    number(&mut bytes, 1, 0);
    if !body.is_empty() {
        bytes.extend([0x12, body.len() as u8]);
        bytes.extend(body);
    }
    if !meta.data {
        // A barrier of group 7.
        bytes.extend([0x1a, 4, 0x08, 3, 0x18, 7]);
    }
    number(&mut bytes, 4, meta.request.into());
    number(&mut bytes, 5, meta.push.into());
    number(&mut bytes, 6, 0);
    number(&mut bytes, 7, 0);
    number(&mut bytes, 8, timestamp);
    bytes.extend([0x4a, 3, 5, 8, 3]);
    number(&mut bytes, 10, 0);
    number(&mut bytes, 11, 1 << 20);
    number(&mut bytes, 12, (!meta.push).into());
    bytes
}

/// bytedance's form in one of its versions.
pub fn bytedance(version: usize, meta: Meta, timestamp: u32, body: &[u8], types: u32) -> Vec<u8> {
    let (size, push) = VERSIONS[version];
    let mut bytes = vec![0; size];
    bytes[0] = 3;
    bytes[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    bytes[8] = if meta.data { 0 } else { 5 };
    bytes[32] = meta.request.into();
    bytes[40..44].copy_from_slice(&timestamp.to_le_bytes());
    bytes[44..48].copy_from_slice(&types.to_le_bytes());
    bytes[push] = meta.push.into();
    bytes[push + 12..push + 20].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
    bytes.extend(body);
    bytes.extend(vec![1; types as usize * 4]);
    bytes
}

fn any_meta() -> impl Strategy<Value = Meta> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(data, request, push)| Meta {
        data,
        request,
        push: push && data,
    })
}

proptest! {
    #[test]
    fn both_forms_are_read(meta in any_meta(), timestamp: u32, version in 0_usize..3, types in 0_u32..5,
        body in prop::collection::vec(any::<u8>(), 0..20)) {
        prop_assert_eq!(read(&dmlc(meta, timestamp.into(), &body)), Some(meta));
        prop_assert_eq!(read(&bytedance(version, meta, timestamp, &body, types)), Some(meta));
    }

    #[test]
    fn anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}

#[test]
fn a_command_of_the_application_is_no_data() {
    let meta = Meta { data: true, request: true, push: true };
    let mut bytes = dmlc(meta, 1, b"");
    let simple = bytes.windows(2).position(|pair| pair == [6 << 3, 0]).expect("there");
    bytes[simple + 1] = 1;
    assert_eq!(read(&bytes), Some(Meta { data: false, ..meta }));
    for (version, (_, push)) in VERSIONS.iter().enumerate() {
        let mut bytes = bytedance(version, meta, 1, b"command", 0);
        bytes[push + 1] = 1;
        assert_eq!(read(&bytes), Some(Meta { data: false, ..meta }));
    }
    // Control with two nodes of a version that has 420 bytes for each.
    let mut bytes = bytedance(2, Meta { data: false, ..meta }, 1, b"", 0);
    bytes[12] = 2;
    bytes.extend([0; 840]);
    assert_eq!(read(&bytes).map(|meta| meta.data), Some(false));
}
