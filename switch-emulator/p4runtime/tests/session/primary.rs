//! Who is primary, and what the others may not do.

use sluice_p4runtime::client::Standing;
use sluice_p4runtime::client::error::{ClientError, NextStep};
use sluice_p4runtime::mock::Settings;
use sluice_schedule::Slot;
use tonic::Code;

use crate::support::{Bench, PATIENCE, within};

#[tokio::test]
async fn the_second_takes_over_when_the_first_dies() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let first = bench.primary(10).await;
        let mut second = bench.session(5).await.unwrap();
        assert_eq!(first.standing(), Standing::Primary);
        assert_eq!(second.standing(), Standing::Backup { highest: Some(10) });
        let error = second.set_slot(Slot(1), PATIENCE).await.unwrap_err();
        assert_eq!(error.next_step(), NextStep::StandBy, "{error}");
        first.set_slot(Slot(1), PATIENCE).await.unwrap();
        assert_eq!(bench.mock.guard(), Some(Slot(1)));

        drop(first);
        assert_eq!(second.changed().await, Standing::Vacant { highest: Some(10) });
        second.stand(9).await.unwrap();
        assert_eq!(second.changed().await, Standing::Vacant { highest: Some(10) }, "there was a higher one");
        second.stand(11).await.unwrap();
        assert_eq!(second.changed().await, Standing::Primary);
        assert!(!second.ensure_program().await.unwrap(), "the program is there");
        second.set_slot(Slot(2), PATIENCE).await.unwrap();
        assert_eq!(bench.mock.guard(), Some(Slot(2)));

        let third = bench.session(12).await.unwrap();
        let error = second.lost().await;
        assert!(matches!(error, ClientError::NotPrimary { highest: Some(12), .. }), "{error}");
        assert_eq!(error.next_step(), NextStep::StandBy);
        third.set_slot(Slot(3), PATIENCE).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn older_servers_make_the_next_one_primary() {
    within(async {
        let bench = Bench::start(Settings { promotes: true, ..Settings::default() }).await;
        let first = bench.primary(10).await;
        let mut second = bench.session(5).await.unwrap();
        drop(first);
        assert_eq!(second.changed().await, Standing::Primary);
        second.set_slot(Slot(2), PATIENCE).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_is_refused_says_why() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let _first = bench.session(10).await.unwrap();
        let error = bench.session(10).await.unwrap_err();
        assert!(matches!(&error, ClientError::StreamEnded { code: Code::InvalidArgument, .. }), "{error}");
        assert_eq!(error.next_step(), NextStep::Reconnect);
        assert!(error.to_string().contains("election_id is 10; allowed is one that no other"), "{error}");

        let mut target = bench.target();
        target.device = 7;
        let program = bench.program.clone();
        let error = sluice_p4runtime::client::Session::open(target, 11, program).await.unwrap_err();
        assert!(error.to_string().contains("device_id is 7; allowed is 1"), "{error}");
        assert_eq!(bench.mock.refusals(), 2);
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_primacy() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let session = bench.primary(10).await;
        let (error, ()) = tokio::join!(session.lost(), async { bench.mock.end_streams() });
        assert!(matches!(&error, ClientError::StreamEnded { code: Code::Unavailable, .. }), "{error}");
        assert_eq!(error.next_step(), NextStep::Reconnect);
        let again = bench.primary(10).await;
        assert_eq!(again.standing(), Standing::Primary);
    })
    .await;
}

#[tokio::test]
async fn a_switch_that_is_not_there_is_said() {
    within(async {
        let bench = Bench::start(Settings::default()).await;
        let mut target = bench.target();
        let open = |target, program| sluice_p4runtime::client::Session::open(target, 1, program);
        target.uri = "no address".into();
        let error = open(target.clone(), bench.program.clone()).await.unwrap_err();
        assert_eq!(error.next_step(), NextStep::Correct, "{error}");
        // A port that was just bound and is free again.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        target.uri = format!("http://127.0.0.1:{port}");
        let error = open(target, bench.program.clone()).await.unwrap_err();
        assert_eq!(error.next_step(), NextStep::Reconnect, "{error}");
    })
    .await;
}
