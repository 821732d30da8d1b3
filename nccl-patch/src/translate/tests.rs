//! Any event of any version, as any other: bounded, and nothing but what the version knows.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_descriptor_becomes_one_of_the_version_or_none(bytes in any::<[u64; 17]>(), from in 2_u8..=7, to in 0_u8..=9) {
        // SAFETY: as many bytes as the longest version has; no text is followed.
        let descr = unsafe { Descr::new(from, bytes.as_ptr().cast()) }.expect("a version");
        let kind = descr.kind();
        match super::descr(&descr, to) {
            Some(raw) if from == to => prop_assert_eq!(raw, descr.copy()),
            Some(raw) => {
                prop_assert!(to < from && to >= 2 && kind & known(to) != 0);
                let first = raw.word(at::TYPE);
                prop_assert_eq!(if to <= 4 { first & 0xff } else { first }, kind & if to <= 4 { 0xff } else { u64::MAX });
                // Nothing lies beyond what the version has.
                for offset in (crate::descr::size(to)..Raw::BYTES).step_by(8) {
                    prop_assert_eq!(raw.word(offset), 0, "{} to {} at {}", from, to, offset);
                }
            }
            None => prop_assert!(to != from),
        }
    }
}

#[test]
fn parents_come_with_their_children() {
    use event::*;
    assert_eq!(with_parents(0), 0);
    assert_eq!(with_parents(PROXY_CTRL), PROXY_CTRL);
    assert_eq!(with_parents(KERNEL_LAUNCH), KERNEL_LAUNCH | GROUP_API);
    let work = GROUP | COLL | P2P | PROXY_OP | COLL_API | P2P_API | GROUP_API;
    assert_eq!(with_parents(PROXY_OP), work);
    assert_eq!(with_parents(NET_PLUGIN), work | PROXY_STEP | NET_PLUGIN);
    assert_eq!(with_parents(COLL), GROUP | COLL | COLL_API | GROUP_API);
    assert_eq!(with_parents(CE_BATCH), CE_BATCH | CE_COLL | COLL_API | GROUP_API);
    assert_eq!(with_parents(KERNEL_PHASE) & KERNEL_CH, KERNEL_CH);
    for asked in (0..16).map(|bit| 1 << bit) {
        assert_eq!(with_parents(with_parents(asked)) & !with_parents(asked) & !(COLL_API | P2P_API), 0, "{asked:#x}");
    }
}
