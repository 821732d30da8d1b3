//! The program in the kernel against the pipeline, frame by frame, and what changes of tables do.

use aya::{TestRun, TestRunOptions};
use sluice_pipeline::control::statements;
use sluice_pipeline::vectors::{Outcome, Step, outcome, stories};
use sluice_pipeline::{Reason, Switch, Verdict, frame};

use super::*;
use crate::tests::{UDP_PORT, alone, datagram, ip};

/// Ports that have an interface: all have the same one.
const PORTS: usize = 5;
/// What the program answers: nothing decided, and sent on.
const LEFT: u32 = u32::MAX;
const DONE: u32 = 2;

/// What becomes of a frame.
#[derive(Debug, PartialEq)]
enum Fate {
    /// It is the pipeline's.
    Left,
    /// It left by a port, as these bytes.
    Sent { port: u16, bytes: Vec<u8> },
}

/// The program, attached nowhere, and what it has counted.
struct Bench {
    kernel: Kernel,
    counted: [Count; PORTS],
}

impl Bench {
    fn new(most: u32) -> Result<Bench, KernelError> {
        let interface = if_nametoindex("lo").unwrap();
        Ok(Bench { kernel: Kernel::load(UDP_PORT, &[interface; PORTS], most)?, counted: Default::default() })
    }

    fn take_over(&mut self, text: &str) -> Result<(), KernelError> {
        self.kernel.take_over(&Entries::of(statements(text).map(|(_, statement)| statement.unwrap())))
    }

    /// Runs the program on a frame; `None`: this kernel makes no packet of it.
    fn run(&mut self, frame: &[u8]) -> Option<Fate> {
        let mut bytes = vec![0; frame.len() + 64];
        let loaded = self.kernel.ebpf.as_ref().unwrap().program(PROGRAM).unwrap();
        let program: &SchedClassifier = loaded.try_into().unwrap();
        let options = TestRunOptions { data_in: Some(frame), data_out: Some(&mut bytes), ..TestRunOptions::new() };
        let result = match program.test_run(options) {
            Ok(result) => result,
            Err(_) if frame.len() < 34 => return None,
            Err(error) => panic!("{}: {frame:02x?}", told(&error)),
        };
        bytes.truncate(result.data_size_out as usize);
        if result.return_value == LEFT {
            assert_eq!(bytes, frame, "what is left alone is as it came");
            return Some(Fate::Left);
        }
        assert_eq!(result.return_value, DONE, "{frame:02x?}");
        let now = std::array::from_fn(|port| self.kernel.count(port as u16));
        let before = mem::replace(&mut self.counted, now);
        let more: Vec<usize> = (0..PORTS).filter(|port| before[*port] != now[*port]).collect();
        let [port] = more[..] else { panic!("counted at ports {more:?}: {frame:02x?}") };
        let added = (now[port].frames - before[port].frames, now[port].bytes - before[port].bytes);
        assert_eq!(added, (1, frame.len() as u64));
        Some(Fate::Sent { port: port as u16, bytes })
    }

    fn entries(&self) -> (usize, usize) {
        (self.kernel.routes.keys().count(), self.kernel.members.keys().count())
    }
}

fn twin(text: &str) -> Switch {
    let mut switch = Switch::new(UDP_PORT);
    statements(text).for_each(|(_, statement)| statement.unwrap().apply(&mut switch));
    switch
}

/// Nested prefixes; a group with an empty bucket; a port that has no interface.
const TABLES: &str = "
    route 10.0.0.0/8 via 1 02:00:00:00:01:01 02:00:00:00:00:01
    route 10.1.0.0/16 group 7 size 3 seed 99
    route 10.1.2.0/24 via 2 02:00:00:00:02:01 02:00:00:00:00:02
    route 10.1.2.128/25 group 8 size 4 seed 0xfeedbeef
    route 10.1.2.200/32 via 3 02:00:00:00:03:01 02:00:00:00:00:03
    route 192.168.0.0/16 group 9 size 1 seed 0
    route 172.16.0.0/12 via 9 02:00:00:00:09:01 02:00:00:00:00:09
    member 7 0 via 1 02:00:00:00:01:07 02:00:00:00:00:01
    member 7 1 via 2 02:00:00:00:02:07 02:00:00:00:00:02
    member 8 0 via 0 02:00:00:00:00:08 02:00:00:00:00:10
    member 8 1 via 1 02:00:00:00:01:08 02:00:00:00:00:11
    member 8 2 via 2 02:00:00:00:02:08 02:00:00:00:00:12
    member 8 3 via 3 02:00:00:00:03:08 02:00:00:00:00:13
    member 9 0 via 4 02:00:00:00:04:09 02:00:00:00:00:04
";
const DEFAULT_ROUTE: &str = "route 0.0.0.0/0 via 4 02:00:00:00:04:ff 02:00:00:00:00:ff\n";

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 27) >> 8) as usize % bound
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// A frame, most of the time one that is to be forwarded.
fn drawn(random: &mut Random) -> Vec<u8> {
    const NEAR: [[u8; 4]; 8] = [
        [10, 0, 0, 0],
        [10, 1, 0, 0],
        [10, 1, 2, 0],
        [10, 1, 2, 128],
        [10, 1, 2, 200],
        [192, 168, 0, 0],
        [172, 16, 0, 0],
        [77, 0, 0, 0],
    ];
    let mut bytes: Vec<u8> = (0..42 + random.below(400)).map(|_| random.below(256) as u8).collect();
    if random.below(16) > 0 {
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    }
    let ip = &mut bytes[14..34];
    if random.below(16) > 0 {
        ip[0] = 0x45;
    }
    if random.below(4) > 0 {
        // What may not be broken up is no fragment; neither is what sets the bit that nobody uses.
        (ip[6], ip[7]) = (random.of(&[0, 0x40, 0x80]), 0);
    }
    ip[8] = random.of(&[0, 1, 2, 64, 64, 64, 64, 255]);
    ip[9] = random.of(&[6, 6, 6, 17, 17, 17, 1, 47]);
    ip[16..20].copy_from_slice(&random.of(&NEAR));
    if random.below(2) > 0 {
        ip[19] ^= random.below(128) as u8;
        ip[18] ^= random.of(&[0, 0, 0, 1, 255]);
    }
    ip[10..12].fill(0);
    let wrong = if random.below(16) > 0 { 0 } else { 1 + random.below(65_535) as u16 };
    let sum = frame::checksum(ip) ^ wrong;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    if random.below(5) == 0 {
        bytes[36..38].copy_from_slice(&UDP_PORT.to_be_bytes());
        if random.below(2) == 0 && bytes.len() > 45 {
            bytes[38..40].copy_from_slice(&random.of(&[0_u16, 152, 8]).to_be_bytes());
            bytes[42..45].copy_from_slice(&[0x53, 0x4c, random.of(&[0x11, 0x12, 0x13, 0x13, 0x13])]);
        }
    }
    if random.below(8) == 0 {
        bytes.truncate(14 + random.below(bytes.len() - 13));
    }
    bytes
}

/// May it be a Sluice packet that switches touch, by its port and by how it begins?
fn ours(frame: &[u8]) -> bool {
    let word = |at: usize| frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let fragment = word(20).is_none_or(|word| word & 0x3fff != 0);
    !fragment && frame.get(23) == Some(&17) && word(36) == Some(UDP_PORT) && !is_echo(frame)
}

/// Does its payload begin as an echo, and has as many bytes as the parser looks at?
fn is_echo(frame: &[u8]) -> bool {
    frame.get(42..48).is_some_and(|payload| payload[..3] == [0x53, 0x4c, 0x13])
}

#[test]
fn the_kernel_sends_what_the_pipeline_sends_and_leaves_it_the_rest() {
    alone(|| {
        ip("link set lo up");
        let (mut bench, mut random) = (Bench::new(MOST)?, Random(7));
        for tables in [TABLES.to_owned(), [TABLES, DEFAULT_ROUTE].concat()] {
            let mut switch = twin(&tables);
            bench.kernel.take_over(&Entries::of(switch.routes()))?;
            let (mut sent, mut of_ours, mut echoes) = ([0_usize; PORTS], 0, 0);
            for _ in 0..4000 {
                let frame = drawn(&mut random);
                let Some(fate) = bench.run(&frame) else { continue };
                let mut bytes = frame.clone();
                let verdict = switch.process(0, &mut bytes);
                let expected = match verdict {
                    Verdict::Forward { port, .. } if usize::from(port) < PORTS && !ours(&frame) => {
                        sent[usize::from(port)] += 1;
                        echoes += usize::from(is_echo(&frame) && frame[23] == 17);
                        Fate::Sent { port, bytes }
                    }
                    _ => Fate::Left,
                };
                of_ours += usize::from(ours(&frame) && matches!(verdict, Verdict::Forward { .. }));
                assert_eq!(fate, expected, "{verdict:?} of {frame:02x?}");
            }
            assert!(sent.iter().sum::<usize>() > 1000 && sent.iter().all(|sent| *sent > 20), "{sent:?}");
            assert!(of_ours > 50 && echoes > 10, "{of_ours} {echoes}");
            for reason in [Reason::Malformed, Reason::NotIpv4, Reason::TtlExpired, Reason::NoRoute] {
                assert!(switch.counters().drops(reason) > 50, "{reason}");
            }
        }
        Ok(())
    });
}

#[test]
fn every_story_is_told_the_same_with_the_kernel_in_front() {
    alone(|| {
        ip("link set lo up");
        let (mut bench, mut sent) = (Bench::new(MOST)?, 0);
        for story in stories() {
            let mut switch = Switch::new(UDP_PORT);
            bench.take_over("")?;
            for step in &story.steps {
                match step {
                    Step::Control(statement) => {
                        statement.apply(&mut switch);
                        bench.kernel.take_over(&Entries::of(switch.routes()))?;
                    }
                    Step::Frame { port, bytes, expected } => {
                        let got = match bench.run(bytes) {
                            Some(Fate::Sent { port, bytes }) => {
                                sent += 1;
                                Outcome::Out { port, bytes }
                            }
                            _ => outcome(&mut switch, *port, bytes),
                        };
                        assert_eq!(got, *expected, "{}", story.name);
                    }
                }
            }
        }
        assert!(sent > 0);
        Ok(())
    });
}

#[test]
fn other_tables_are_in_force_as_a_whole_and_the_old_ones_are_gone() {
    alone(|| {
        ip("link set lo up");
        let mut bench = Bench::new(MOST)?;
        let port = |fate: Option<Fate>| match fate {
            Some(Fate::Sent { port, .. }) => Some(port),
            _ => None,
        };
        let [first, second] = [[10, 0, 1, 9], [10, 0, 2, 9]].map(|to| datagram(to, 5000));
        assert!(!bench.kernel.forwards());
        assert_eq!(port(bench.run(&first)), None, "no tables yet");
        let via = |port: u16| format!("via {port} 02:00:00:00:00:01 02:00:00:00:00:02\n");
        // The first goes by the longest prefix, and by the shorter one should that be gone too soon.
        bench.take_over(&format!("route 10.0.0.0/8 {}route 10.0.1.0/24 {}", via(1), via(2)))?;
        assert!(bench.kernel.forwards());
        assert_eq!((port(bench.run(&first)), port(bench.run(&second))), (Some(2), Some(1)));
        bench.take_over(&format!("route 10.0.2.0/24 group 3 size 1 seed 5\nmember 3 0 {}", via(3)))?;
        for _ in 0..2 {
            assert_eq!((port(bench.run(&first)), port(bench.run(&second))), (None, Some(3)));
            bench.kernel.sweep();
        }
        assert_eq!(bench.entries(), (1, 1));
        for turn in 0..20 {
            bench.take_over(&format!("route 10.0.1.0/24 {}", via(turn % 5)))?;
            assert_eq!((port(bench.run(&first)), port(bench.run(&second))), (Some(turn % 5), None));
        }
        assert_eq!(bench.entries().0, 2, "the last two");
        Ok(())
    });
}

#[test]
fn tables_that_do_not_fit_leave_everything_to_the_pipeline() {
    alone(|| {
        ip("link set lo up");
        let mut bench = Bench::new(2)?;
        let frame = datagram([10, 0, 1, 9], 5000);
        let routes = |count: usize| {
            let line = |net: usize| format!("route 10.0.{net}.0/24 via 1 02:00:00:00:00:01 02:00:00:00:00:02\n");
            (0..count).map(line).collect::<String>()
        };
        let member = |bucket: usize| format!("member 7 {bucket} via 1 02:00:00:00:00:01 02:00:00:00:00:02\n");
        for (tables, error) in [
            (routes(3), "3 prefixes; allowed are 0 to 2"),
            ((0..3).map(member).collect::<String>(), "3 buckets of groups; allowed are 0 to 2"),
        ] {
            bench.take_over(&routes(2))?;
            assert!(bench.kernel.forwards() && bench.run(&frame) != Some(Fate::Left));
            assert_eq!(bench.take_over(&tables).unwrap_err().to_string(), error);
            assert!(!bench.kernel.forwards());
            assert_eq!(bench.run(&frame), Some(Fate::Left));
        }
        // The kernel's own word, with maps that have less room than was thought.
        bench.kernel.most = 100;
        assert!(matches!(bench.take_over(&routes(10)), Err(KernelError::Map(_))));
        assert_eq!(bench.run(&frame), Some(Fate::Left));
        bench.kernel.sweep();
        assert_eq!(bench.entries(), (0, 0));
        bench.take_over(&routes(2))?;
        assert!(bench.kernel.forwards() && bench.run(&frame) != Some(Fate::Left));
        Ok(())
    });
}

#[test]
fn what_an_interface_does_not_take_is_counted_and_what_is_too_large_for_it_is_left() {
    alone(|| {
        let mut bench = Bench::new(MOST)?;
        bench.take_over(DEFAULT_ROUTE)?;
        let frame = datagram([10, 0, 1, 9], 5000);
        // It is down.
        assert!(matches!(bench.run(&frame), Some(Fate::Sent { port: 4, .. })));
        assert_eq!(bench.kernel.count(4), Count { frames: 1, bytes: 60, refused: 1 });
        ip("link set lo up");
        assert!(matches!(bench.run(&frame), Some(Fate::Sent { port: 4, .. })));
        assert_eq!(bench.kernel.count(4), Count { frames: 2, bytes: 120, refused: 1 });
        ip("link set lo mtu 100");
        let with = |length: usize| [&frame[..], &vec![0; length - frame.len()]].concat();
        assert!(matches!(bench.run(&with(114)), Some(Fate::Sent { .. })));
        assert_eq!(bench.run(&with(115)), Some(Fate::Left));
        Ok(())
    });
}
