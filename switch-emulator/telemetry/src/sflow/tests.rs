//! sFlow datagrams: those of our own encoder read back, and those that are cut or lie.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..60)
}

fn interface() -> impl Strategy<Value = Interface> {
    let octets = || prop_oneof![8 => any::<u64>(), 1 => Just(UNKNOWN)];
    (any::<u32>(), any::<u64>(), octets(), octets()).prop_map(|(index, speed, in_octets, out_octets)| Interface {
        index,
        speed,
        in_octets,
        out_octets,
    })
}

fn record() -> impl Strategy<Value = Record> {
    let other = |format: u32| if format == INTERFACE { INTERFACE + 1 } else { format };
    prop_oneof![
        3 => interface().prop_map(Record::Interface),
        1 => (any::<u32>(), body()).prop_map(move |(format, body)| Record::Other { format: other(format), body }),
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let other = |format: u32| if [COUNTERS, EXPANDED_COUNTERS].contains(&format) { 1 } else { format };
    prop_oneof![
        3 => (any::<bool>(), any::<u32>(), any::<u32>(), prop::collection::vec(record(), 0..4)).prop_map(
            |(expanded, sequence, source, records)| Sample::Counters { expanded, sequence, source, records }
        ),
        1 => (any::<u32>(), body()).prop_map(move |(format, body)| Sample::Other { format: other(format), body }),
    ]
}

fn agent() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits))),
    ]
}

fn datagram() -> impl Strategy<Value = Datagram> {
    (agent(), any::<[u32; 3]>(), prop::collection::vec(sample(), 0..6)).prop_map(|(agent, words, samples)| {
        let [sub_agent, sequence, uptime_ms] = words;
        Datagram { agent, sub_agent, sequence, uptime_ms, samples }
    })
}

/// What a reader has to find, by going through what was to be written.
fn said(datagram: &Datagram) -> Vec<Reading> {
    let mut readings = Vec::new();
    for sample in &datagram.samples {
        let Sample::Counters { records, .. } = sample else { continue };
        for record in records {
            let Record::Interface(interface) = record else { continue };
            if interface.out_octets != UNKNOWN {
                readings.push(Reading {
                    agent: datagram.agent.to_canonical(),
                    interface: interface.index,
                    out_octets: interface.out_octets,
                    uptime_ms: datagram.uptime_ms,
                });
            }
        }
    }
    readings
}

proptest! {
    #[test]
    fn what_is_written_is_read(datagram in datagram()) {
        prop_assert_eq!(decode(&encode(&datagram)), Ok(said(&datagram)));
    }

    #[test]
    fn a_datagram_cut_short_is_told(datagram in datagram(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&datagram);
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(decode(cut).is_err(), "{} of {} bytes", cut.len(), bytes.len());
    }
}

/// A datagram as words, written from the format's description and not by [`encode`].
fn words() -> Vec<u32> {
    let mut words = vec![5, 1, 0x0a00_0007, 0, 77, 60_000, 2];
    // A flow sample that is passed over, then counters of interface 3: another record, and the one that counts.
    words.extend([1, 8, 0xdead_beef, 0xdead_beef]);
    words.extend([2, 12 + 8 + 4 + 8 + 88, 9, 3, 2]);
    words.extend([2, 4, 0xffff_ffff]);
    words.extend([1, 88, 3, 6, 2, 0x540b_e400, 1, 3]);
    words.extend([0, 1000, 1, 2, 3, 4, 5, 6]);
    words.extend([1, 2000, 1, 2, 3, 4, 5, 6]);
    words
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn the_counters_are_where_the_format_has_them() {
    let reading =
        Reading { agent: "10.0.0.7".parse().unwrap(), interface: 3, out_octets: (1 << 32) + 2000, uptime_ms: 60_000 };
    assert_eq!(decode(&bytes(&words())), Ok(vec![reading]));
    let mut longer = bytes(&words());
    longer.extend([1, 2, 3]);
    assert_eq!(decode(&longer), Ok(vec![reading]), "what stands behind is not looked at");
}

#[test]
fn a_sample_has_the_size_that_is_said_of_it() {
    let records = vec![Record::Interface(Interface::default())];
    let counters = Sample::Counters { expanded: false, sequence: 1, source: 1, records };
    let with = |agent: &str, samples| {
        let agent = agent.parse().unwrap();
        encode(&Datagram { agent, sub_agent: 0, sequence: 1, uptime_ms: 1, samples }).len()
    };
    assert_eq!((with("10.0.0.7", vec![]), with("fd00::7", vec![])), (28, 40));
    assert_eq!(with("10.0.0.7", vec![counters]), 28 + 116);
}

#[test]
fn what_is_wrong_is_told() {
    let wrong = |at: usize, value: u32| {
        let mut words = words();
        words[at] = value;
        decode(&bytes(&words)).unwrap_err()
    };
    assert_eq!(decode(&vec![0; LONGEST + 1]), Err(Malformed::Length(LONGEST + 1)));
    assert_eq!(decode(&[]), Err(Malformed::Short { field: "version", at: 0, needed: 4, left: 0 }));
    assert_eq!(wrong(0, 4), Malformed::Version(4));
    assert_eq!(wrong(1, 0), Malformed::AddressType(0));
    let left = 4 * (words().len() - 7);
    let many = Malformed::Count { field: "number of samples", found: u32::MAX, allowed: left / 8 };
    assert_eq!(wrong(6, u32::MAX), many);
    let long = wrong(8, u32::MAX);
    assert_eq!(long, Malformed::Short { field: "sample", at: 36, needed: 1 << 32, left: left - 8 });
    let text = "sflow-malformed: sample at byte 36 takes 4294967296 bytes; allowed up to 136, which are left.";
    assert_eq!((left, long.to_string().as_str()), (144, text));
    assert!(matches!(wrong(15, 100), Malformed::Count { field: "number of records", found: 100, .. }));
}
