//! What is written is what the twin does to a frame, and what it has done is read.

use sluice_p4runtime::client::Heard;
use sluice_p4runtime::client::error::NextStep;
use sluice_p4runtime::mock::{Registers, Settings};
use sluice_pipeline::control::Statement;
use sluice_pipeline::{Reason, UDP_PORT, Verdict, frame};
use sluice_schedule::Slot;
use sluice_schedule::table::cell::Cell;
use sluice_wire::udp::{DUPLICATE, GUARD};
use tonic::Code;

use crate::support::{Bench, HOST_A, HOST_B, ONE_LINK, PATIENCE, announcement, probe, statements, within};

#[tokio::test]
async fn written_tables_change_what_becomes_of_a_frame() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let session = bench.primary(1).await;
        assert_eq!(bench.pass(&announcement(Slot(1000), 100)).0, Err(Reason::NoRoute));
        session.put(&statements(ONE_LINK)).await.unwrap();
        session.set_slot(Slot(1000), PATIENCE).await.unwrap();
        let (left, after) = bench.pass(&announcement(Slot(1000), 100));
        assert_eq!((left, after.hops, after.counted), (Ok(1), 1, 1));
        assert_eq!((after.path_sig, after.flags), (0x00c0_ffee, 0));
        assert_eq!((after.lanes[0].load_sum, after.lanes[0].headroom), (100, 400));

        // What is there is changed.
        let narrower = statements(&["link 1 capacity 300 unit 0 signature 0x00c0ffee", ONE_LINK[2]]);
        session.put(&narrower).await.unwrap();
        let (_, after) = bench.pass(&announcement(Slot(1000), 100));
        assert_eq!((after.flags, after.lanes[0].headroom), (DUPLICATE, 200));
        assert_eq!(bench.mock.entries(), 3);
        assert_eq!(session.linked().await.unwrap(), [1]);
        assert_eq!(session.entries().await.unwrap().len(), 3);

        // Only the source that the edge lets in.
        let mut spoofed = frame::datagram(HOST_B, HOST_B, UDP_PORT, &probe(Slot(1000)));
        assert_eq!(bench.mock.frame(0, &mut spoofed), Verdict::Drop(Reason::Spoofed));
        session.remove(&session.entries().await.unwrap()).await.unwrap();
        session.remove(&[]).await.unwrap();
        assert_eq!(bench.pass(&probe(Slot(1000))).0, Err(Reason::NoRoute));
        assert_eq!(bench.mock.entries(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_group_leads_where_its_members_do() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let session = bench.primary(1).await;
        let lines = [
            "member 7 0 via 4 02:00:00:00:01:01 02:00:00:00:00:01",
            "member 7 1 via 4 02:00:00:00:01:01 02:00:00:00:00:01",
            "route 0.0.0.0/0 group 7 size 2 seed 99",
        ];
        session.put(&statements(&lines)).await.unwrap();
        let (left, after) = bench.pass(&probe(Slot(1)));
        assert_eq!((left, after.hops), (Ok(4), 0), "a port without a link leaves the packet alone");
    })
    .await;
}

#[tokio::test]
async fn hundreds_of_entries_are_written_in_batches() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let session = bench.primary(1).await;
        let line = |n: u32, port: u32| {
            format!("route 10.{}.{}.0/24 via {port} 02:00:00:00:01:01 02:00:00:00:00:01", n / 200, n % 200)
        };
        for port in [1, 2] {
            let all: Vec<Statement> = (0..500).map(|n| line(n, port).parse().unwrap()).collect();
            session.put(&all).await.unwrap();
            assert_eq!(bench.mock.entries(), 500);
            assert_eq!(bench.pass(&probe(Slot(1))).0, Ok(port as u16));
        }
        let all = session.entries().await.unwrap();
        assert_eq!(all.len(), 500);
        session.remove(&all).await.unwrap();
        session.remove(&all).await.unwrap();
        assert_eq!(bench.mock.entries(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_guard_has_the_slot_that_its_default_action_carries() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let session = bench.primary(1).await;
        session.put(&statements(ONE_LINK)).await.unwrap();
        let refused = |slot: Slot| bench.pass(&probe(slot)).1.flags & GUARD != 0;
        assert!(refused(Slot(0)), "without a slot all are");
        for present in [Slot(1000), Slot(u32::MAX), Slot(0)] {
            session.set_slot(present, PATIENCE).await.unwrap();
            let let_in = [-2, -1, 0, 1, 2].map(|off| !refused(present.offset(off)));
            assert_eq!(let_in, [false, true, true, true, false], "{present:?}");
        }
        session.put(&[Statement::Guard(Slot(7)), Statement::Restart]).await.unwrap();
        assert_eq!(bench.mock.guard(), Some(Slot(7)));
    })
    .await;
}

#[tokio::test]
async fn what_the_switch_counted_is_read() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let session = bench.primary(1).await;
        assert_eq!(session.version().await.unwrap(), "1.4.1");
        session.put(&statements(ONE_LINK)).await.unwrap();
        session.set_slot(Slot(50), PATIENCE).await.unwrap();
        for slot in [50, 50, 51, 90] {
            let _ = bench.pass(&announcement(Slot(slot), 10));
        }
        let _ = bench.pass(&probe(Slot(50)));
        bench.mock.frame(0, &mut [0; 60]);
        let counts = session.counts().await.unwrap();
        let port = counts.ports[&1];
        assert_eq!((port.announcements, port.duplicates, port.probes, port.rejected), (2, 1, 1, 1));
        assert_eq!((port.frames, port.bytes), (5, 5 * frame::SLUICE_FRAME as u64));
        assert_eq!(counts.drops, [0, 1, 0, 0, 0]);
        assert_eq!(counts.ports.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn registers_are_read_where_the_switch_reads_them() {
    within(async {
        for (registers, expected) in
            [(Registers::Unimplemented, None), (Registers::Twin, Some(Cell { tag: 50, load: 10 }))]
        {
            let bench = Bench::start(Settings { registers, ..Settings::default() }).await;
            let session = bench.primary(1).await;
            session.put(&statements(ONE_LINK)).await.unwrap();
            session.set_slot(Slot(50), PATIENCE).await.unwrap();
            let _ = bench.pass(&announcement(Slot(50), 10));
            let before = bench.mock.refusals();
            assert_eq!(session.cell(1, 3, Slot(50)).await.unwrap(), expected, "{registers:?}");
            assert_eq!(session.cell(1, 99, Slot(50)).await.unwrap(), None, "there is no such lane");
            assert_eq!(bench.mock.refusals() - before, u64::from(expected.is_none()));
        }
    })
    .await;
}

#[tokio::test]
async fn packets_go_through_the_twin_and_come_from_it() {
    within(async {
        let settings = Settings::default();
        let bench = Bench::start(settings).await;
        let mut session = bench.primary(1).await;
        session.put(&statements(ONE_LINK)).await.unwrap();
        let to_processor = format!("route 10.0.0.0/24 via {} 02:00:00:00:09:09 02:00:00:00:00:01", settings.processor);
        session.put(&statements(&[to_processor.as_str()])).await.unwrap();
        session.set_slot(Slot(5), PATIENCE).await.unwrap();

        let before = bench.mock.refusals();
        // By the switch's link, with what it knows.
        session.send_packet(frame::datagram(HOST_A, HOST_B, UDP_PORT, &probe(Slot(5)))).await.unwrap();
        // To the processor itself, which is heard.
        session.send_packet(frame::datagram(HOST_B, HOST_A, UDP_PORT, &probe(Slot(5)))).await.unwrap();
        let Some(Heard::Packet(bytes)) = session.heard().await else { panic!("a packet") };
        assert_eq!(bytes[..6], [2, 0, 0, 0, 9, 9]);
        let sent = bench.mock.sent();
        assert_eq!((sent.len(), sent[0].0), (1, 1));
        assert_eq!(frame::packet(&sent[0].1).unwrap().path_sig, 0x00c0_ffee);

        session.send_packet(vec![0; 10_000]).await.unwrap();
        let Some(Heard::Refused { code, text }) = session.heard().await else { panic!("a refusal") };
        assert_eq!(code, Code::InvalidArgument);
        assert_eq!(text, "payload is 10000 bytes; allowed is 0 to 9216 bytes");

        let mut backup = bench.session(0).await.unwrap();
        backup.send_packet(Vec::new()).await.unwrap();
        let Some(Heard::Refused { code, .. }) = backup.heard().await else { panic!("a refusal") };
        assert_eq!(code, Code::PermissionDenied);
        assert_eq!(bench.mock.refusals() - before, 2);
    })
    .await;
}

#[tokio::test]
async fn a_switch_that_has_restarted_has_no_program() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let session = bench.primary(1).await;
        assert!(session.has_program().await.unwrap());
        bench.mock.restart();
        assert!(!session.has_program().await.unwrap());
        session.lost().await;
        let again = bench.session(1).await.unwrap();
        let error = again.set_slot(Slot(1), PATIENCE).await.unwrap_err();
        assert_eq!(error.next_step(), NextStep::Refill, "{error}");
        assert!(again.ensure_program().await.unwrap());
        again.set_slot(Slot(1), PATIENCE).await.unwrap();
    })
    .await;
}
