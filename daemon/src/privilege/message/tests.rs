use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn numbers() -> impl Strategy<Value = Numbers> {
    vec(any::<u64>(), 1..=MAX_NUMBERS).prop_map(|all| {
        let mut numbers = [0; MAX_NUMBERS];
        numbers[..all.len()].copy_from_slice(&all);
        Numbers { count: all.len() as u8, numbers }
    })
}

fn changed() -> impl Strategy<Value = Changed> {
    (prop_oneof![Just(Sysctl::TsoRttLog), Just(Sysctl::Wmem)], numbers(), numbers())
        .prop_map(|(which, old, new)| Changed { which, old, new })
}

fn name() -> impl Strategy<Value = PageName> {
    vec(any::<u8>(), 1..=MAX_NAME).prop_filter_map("no name", |bytes| PageName::new(&bytes))
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        Just(Request::Hello),
        any::<(u64, u64, u64, u32)>().prop_map(|(floor, ceiling, longest, loss_guard)| Request::Open {
            floor,
            ceiling,
            longest,
            loss_guard
        }),
        Just(Request::Close),
        any::<(u32, u32)>().prop_map(|(pid, count)| Request::Capture { pid, count }),
        Just(Request::Reclaim),
        Just(Request::AskEarly),
        Just(Request::SetSysctls),
        changed().prop_map(Request::RestoreSysctl),
        any::<u32>().prop_map(|pid| Request::Netns { pid }),
        any::<u32>().prop_map(|pid| Request::Diag { pid }),
        any::<u32>().prop_map(|pid| Request::Environ { pid }),
        any::<u32>().prop_map(|pid| Request::Sockets { pid }),
        name().prop_map(Request::Page),
        any::<u32>().prop_map(|pid| Request::Plan { pid }),
    ]
}

fn opened() -> impl Strategy<Value = Opened> {
    (0..=3_u8, any::<[u32; 4]>(), any::<[u8; 16]>()).prop_map(|(tier, [rows, ring_bytes, adopted, reasons], name)| {
        Opened { tier, rows, ring_bytes, adopted, reasons, name }
    })
}

fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (1..4096_i32).prop_map(Reply::Refused),
        Just(Reply::Done),
        opened().prop_map(Reply::Opened),
        any::<u32>().prop_map(Reply::Count),
        any::<u32>().prop_map(Reply::Netns),
        any::<u32>().prop_map(Reply::Written),
        Just(Reply::Descriptor),
        (vec(changed(), 0..=2), any::<u32>()).prop_map(|(changes, errors)| Reply::Changed { changes, errors }),
    ]
}

proptest! {
    /// Promises: P-36, P-37
    #[test]
    fn what_is_asked_is_read_as_it_was_meant(request in requests(), number in any::<u32>()) {
        prop_assert_eq!(Request::decode(&request.encode(number)), Ok((request, number)));
    }

    #[test]
    fn what_is_answered_is_read_as_it_was_meant(reply in replies(), number in any::<u32>()) {
        prop_assert_eq!(Reply::decode(&reply.encode(number)), Ok((reply, number)));
    }

    /// One way to say a thing: a message with one byte changed is another one or none.
    #[test]
    fn what_is_accepted_is_written_to_the_same_bytes(
        request in requests(),
        reply in replies(),
        at in 0..BYTES,
        to in any::<u8>(),
    ) {
        let (mut asked, mut answered) = (request.encode(7), reply.encode(7));
        (asked[at], answered[at]) = (to, to);
        if let Ok((read, number)) = Request::decode(&asked) {
            prop_assert_eq!(read.encode(number), asked);
        }
        if let Ok((read, number)) = Reply::decode(&answered) {
            prop_assert_eq!(read.encode(number), answered);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        let _ = (Request::decode(&bytes), Reply::decode(&bytes));
    }

    #[test]
    fn a_value_of_a_sysctl_is_written_as_the_kernel_does(numbers in numbers()) {
        prop_assert_eq!(Numbers::parse(&numbers.to_string()), Some(numbers));
    }
}

#[test]
fn what_is_no_message_is_refused_by_what_is_wrong_with_it() {
    let with = |at: usize, to: u8| {
        let mut bytes = Request::Hello.encode(1);
        bytes[at] = to;
        Request::decode(&bytes)
    };
    assert_eq!(Request::decode(&[]), Err(Malformed::Length(0)));
    assert_eq!(Request::decode(&[0; BYTES + 1]), Err(Malformed::Length(BYTES + 1)));
    assert_eq!(with(0, 2), Err(Malformed::Version(2)));
    assert_eq!(with(1, 99), Err(Malformed::Kind(99)));
    // An answer is no question, and the other way round.
    assert_eq!(Request::decode(&Reply::Done.encode(1)), Err(Malformed::Kind(130)));
    assert_eq!(Reply::decode(&Request::Close.encode(1)), Err(Malformed::Kind(3)));
    assert_eq!(with(2, 1), Err(Malformed::Field("zeros")));
    assert_eq!(with(255, 1), Err(Malformed::Field("rest")));
    for text in ["", "1 2 3 4", "-1", "9x", "99999999999999999999"] {
        assert_eq!(Numbers::parse(text), None, "{text}");
    }
    let long = [b'a'; MAX_NAME + 1];
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &long] {
        assert_eq!(PageName::new(name), None, "{name:?}");
    }
    assert!(PageName::new(&long[1..]).is_some());
}
