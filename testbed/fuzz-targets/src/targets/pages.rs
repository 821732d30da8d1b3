//! F4: the progress page, which any process may fill with anything.

use std::cell::OnceCell;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use sluice_progress::layout::{
    JOB_ID_BYTES, MAGIC, MAJOR, MINOR, PAGE_BYTES, PEER_BYTES, PEER_CAP, PRODUCER_BYTES, at,
};
use sluice_progress::{PageView, Reader};
use sluice_schedule::Bytes;
use sluiced::fuzz::Look;
use tempfile::TempDir;

use crate::mutate::Shape;
use crate::{Seed, Target};

/// Pages one behind the other, the last one as long as it is.
pub static PAGES: Target = Target {
    name: "F04-progress-page",
    parser: "progress pages: any 4096 bytes, and a sequence of them from one file",
    property: "texts have no control character and connections a bound; once the kernel has seen two rounds, no claim makes a demand beyond what it saw",
    shape: Shape::Bytes,
    run: pages,
    seeds,
};

/// Looks of one input at most.
const LOOKS: usize = 8;
/// The most that a first round's claim is believed, bytes.
const FIRST: u64 = 1 << 40;
/// Room for headers and control messages, bytes.
const SLACK: u64 = 64 << 10;

thread_local! {
    static PLACE: OnceCell<TempDir> = const { OnceCell::new() };
}

fn pages(bytes: &[u8]) {
    PLACE.with(|place| {
        let place = place.get_or_init(crate::places::place);
        let path = place.path().join("page.sp1");
        let options = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = options.expect("a file of our own");
        let mut looks = Vec::new();
        let mut reader = None;
        for (number, given) in bytes.chunks(PAGE_BYTES).take(LOOKS).enumerate() {
            let mut page = [0; PAGE_BYTES];
            page[..given.len()].copy_from_slice(given);
            file.write_all_at(&page, 0).expect("written");
            if reader.is_none() {
                match Reader::open(&path) {
                    Ok(opened) => reader = Some(opened),
                    Err(error) => assert!(error.to_string().contains("page.sp1"), "{error}"),
                }
            }
            let Some(open) = &mut reader else { continue };
            let Ok(view) = open.read() else { continue };
            check(&view);
            let mut refreshed = view.clone();
            if open.refresh(&mut refreshed).unwrap_or(false) {
                assert_eq!(refreshed.enq_bytes, view.enq_bytes, "nothing changed in between");
            }
            // What the kernel saw is not the page's to say: some of it in every look, nothing in some.
            let moved = Bytes(if number % 3 == 2 { 0 } else { 1 << (10 + number) });
            looks.push(Look { view, moved, queued: Bytes(if number % 2 == 0 { 0 } else { 4096 }) });
        }
        demands(&looks);
    });
}

fn check(view: &PageView) {
    assert!(view.peers.len() <= PEER_CAP);
    for (text, most) in [(&view.job_id, JOB_ID_BYTES), (&view.producer, PRODUCER_BYTES)] {
        assert!(text.chars().count() <= most && !text.chars().any(char::is_control), "{text:?}");
    }
    assert!(view.iteration_bytes() <= view.enq_bytes);
}

fn demands(looks: &[Look]) {
    let (mut seen, mut queued) = (0_u64, 0);
    for (look, followed) in looks.iter().zip(sluiced::fuzz::demands(looks)) {
        seen += look.moved.0;
        queued = queued.max(look.queued.0);
        // Twice the largest round, what is queued, and as much again for a burst that goes on.
        let most = 4 * (seen + queued) + SLACK;
        let most = if followed.ended < 2 { most.max(FIRST) } else { most };
        assert!(followed.demand.is_none_or(|demand| demand.0 <= most), "{followed:?} of {seen} bytes seen");
    }
}

/// A page with a header that is right.
fn page(fill: impl FnOnce(&mut [u8; PAGE_BYTES])) -> Vec<u8> {
    let mut page = [0; PAGE_BYTES];
    page[at::MAGIC..at::MAGIC + 8].copy_from_slice(&MAGIC);
    put(&mut page, at::ABI_MAJOR, MAJOR.to_le_bytes());
    put(&mut page, at::ABI_MINOR, MINOR.to_le_bytes());
    put(&mut page, at::SEG_BYTES, (PAGE_BYTES as u32).to_le_bytes());
    put(&mut page, at::PEERS_OFF, (at::PEERS as u32).to_le_bytes());
    put(&mut page, at::PEER_BYTES, (PEER_BYTES as u16).to_le_bytes());
    put(&mut page, at::PEER_CAP, (PEER_CAP as u16).to_le_bytes());
    fill(&mut page);
    page.to_vec()
}

fn put<const N: usize>(page: &mut [u8; PAGE_BYTES], at: usize, field: [u8; N]) {
    page[at..at + N].copy_from_slice(&field);
}

/// A page in the middle of its `number`th round.
fn round(number: u64, on_wire: bool) -> Vec<u8> {
    page(|page| {
        page[at::JOB_ID..at::JOB_ID + 4].copy_from_slice(b"4711");
        page[at::PRODUCER..at::PRODUCER + 6].copy_from_slice(b"test 1");
        put(page, at::RANK, 3_u32.to_le_bytes());
        put(page, at::NRANKS, 8_u32.to_le_bytes());
        put(page, at::PATTERN, 1_u32.to_le_bytes());
        put(page, at::STATE, if on_wire { 3_u64 } else { 1 }.to_le_bytes());
        let queued = 100_000 * (number + u64::from(on_wire));
        put(page, at::ENQ_BYTES, queued.to_le_bytes());
        put(page, at::ENQ_OPS, number.to_le_bytes());
        put(page, at::ENQ_WIRE_BYTES, (queued * 7 / 4).to_le_bytes());
        put(page, at::ITER, number.to_le_bytes());
        put(page, at::ITER_BASE_BYTES, (100_000 * number).to_le_bytes());
        put(page, at::ITER_SEQ, (2 * number).to_le_bytes());
        put(page, at::NPEERS, 1_u32.to_le_bytes());
        put(page, at::RING_NEXT, 4_u32.to_le_bytes());
        let peer = at::PEERS;
        put(page, peer + at::peer::FLAGS, 1_u32.to_le_bytes());
        put(page, peer + at::peer::KIND, 1_u16.to_le_bytes());
        put(page, peer + at::peer::LPORT, 5000_u16.to_le_bytes());
        page[peer + at::peer::LADDR + 10..peer + at::peer::LADDR + 16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 3]);
        page[peer + at::peer::RADDR + 10..peer + at::peer::RADDR + 16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 4]);
    })
}

fn seeds() -> Vec<Seed> {
    let rounds: Vec<u8> = (0..3).flat_map(|number| [round(number, true), round(number + 1, false)]).flatten().collect();
    vec![
        Seed::new("plain", page(|_| {})),
        Seed::new("round", round(2, true)),
        Seed::new("rounds", rounds),
        Seed::new("torn", page(|page| put(page, at::ITER_SEQ, 1_u64.to_le_bytes()))),
    ]
}
