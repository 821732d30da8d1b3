//! F21: what brain and helper of a split daemon say to each other, and rows on their desk.

use sluiced::privilege::message::{BYTES, Changed, Numbers, Opened, PageName, Reply, Request, Sysctl};
use sluiced::privilege::rows;

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that says which end reads, then a message; or rows.
pub static HELPER: Target = Target {
    name: "F21-helper",
    parser: "messages of brain and helper, both ways, and rows on their desk",
    property: "what is read is written to the same bytes again; a name is one of a file in a directory, an errno one of the kernel's; no more rows than bytes",
    shape: Shape::Bytes,
    run: helper,
    seeds,
};

fn helper(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 3 {
        0 => asked(rest),
        1 => answered(rest),
        _ => {
            let wanted = rows::wanted(rest);
            assert!(wanted.len() * rows::WANTED_BYTES <= rest.len());
            assert_eq!(rest.get(..wanted.len() * rows::WANTED_BYTES), Some(&rows::of_wanted(&wanted)[..]));
            let answers = rows::answers(rest);
            assert_eq!(rest.get(..answers.len() * rows::ANSWER_BYTES), Some(&rows::of_answers(answers.clone())[..]));
        }
    }
}

fn asked(bytes: &[u8]) {
    let Ok((request, number)) = Request::decode(bytes) else { return };
    assert_eq!(request.encode(number), bytes);
    if let Request::Page(name) = request {
        assert!(!name.bytes().is_empty() && !name.bytes().iter().any(|byte| matches!(byte, 0 | b'/')));
    }
}

fn answered(bytes: &[u8]) {
    let Ok((reply, number)) = Reply::decode(bytes) else { return };
    assert_eq!(reply.encode(number), bytes);
    if let Reply::Refused(errno) = reply {
        assert!((1..4096).contains(&errno));
    }
}

fn seeds() -> Vec<Seed> {
    let numbers = |text| Numbers::parse(text).expect("numbers");
    let changed =
        Changed { which: Sysctl::Wmem, old: numbers("4096\t16384\t4194304"), new: numbers("4096\t16384\t67108864") };
    let requests = [
        ("hello", Request::Hello),
        ("open", Request::Open { floor: 1 << 20, ceiling: 1 << 33, longest: 4 << 30, loss_guard: 50_000 }),
        ("close", Request::Close),
        ("capture", Request::Capture { pid: 77, count: 3 }),
        ("reclaim", Request::Reclaim),
        ("ask-early", Request::AskEarly),
        ("set-sysctls", Request::SetSysctls),
        ("restore-sysctl", Request::RestoreSysctl(changed)),
        ("netns", Request::Netns { pid: 77 }),
        ("diag", Request::Diag { pid: 77 }),
        ("environ", Request::Environ { pid: 77 }),
        ("sockets", Request::Sockets { pid: 77 }),
        ("page", Request::Page(PageName::new(b"77-0.sp1").expect("a name"))),
        ("plan", Request::Plan { pid: 77 }),
    ];
    let opened = Opened {
        tier: 1,
        rows: 4096,
        ring_bytes: 1 << 18,
        adopted: 2,
        reasons: 40,
        name: *b"sluice\0\0\0\0\0\0\0\0\0\0",
    };
    let replies = [
        ("refused", Reply::Refused(1)),
        ("done", Reply::Done),
        ("opened", Reply::Opened(opened)),
        ("count", Reply::Count(3)),
        ("in-netns", Reply::Netns(4_026_531_840)),
        ("written", Reply::Written(64)),
        ("descriptor", Reply::Descriptor),
        ("changed", Reply::Changed { changes: vec![changed, changed], errors: 0 }),
    ];
    let mut all: Vec<Seed> = Vec::new();
    all.extend(requests.iter().map(|(name, request)| Seed::of(0, *name, request.encode(7))));
    all.extend(replies.iter().map(|(name, reply)| Seed::of(1, *name, reply.encode(7))));
    all.push(Seed::of(0, "short", &Request::Hello.encode(7)[..BYTES - 1]));
    all.push(Seed::of(2, "rows", rows::of_answers([(5, 0), (6, -28), (7, 1)])));
    all
}
