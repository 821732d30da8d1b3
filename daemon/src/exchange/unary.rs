//! The exchange by two calls a slot, as the paper has it: one announces and is answered, the other reads.
//!
//! A switch cannot push to a host that calls. So it is asked once more half a slot after each announcement, when others have
//! announced too; and where nothing is announced it is asked now and then, to see that it is there.

use std::time::Duration;

use sluice_wire::calls::{Answer, CallClient};
use sluice_wire::outbox::outbox;
use sluice_wire::session::SessionError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt;

use super::Identity;
use super::backoff::Backoff;
use super::link::{Connection, Ended, Sender, failed, greet};
use crate::core::Inbound;

/// After so long without a call one asks whether the other end is there.
const IDLE: Duration = Duration::from_millis(1_000);

/// From the first call to the one that fails.
pub(super) async fn exchange(
    connection: &Connection,
    identity: &Identity,
    inbound: &mpsc::Sender<Inbound>,
    backoff: &mut Backoff,
) -> Ended {
    match calls(connection, identity, inbound, backoff).await {
        Ok(ended) => ended,
        Err(error) => failed(&error),
    }
}

async fn calls(
    connection: &Connection,
    identity: &Identity,
    inbound: &mpsc::Sender<Inbound>,
    backoff: &mut Backoff,
) -> Result<Ended, SessionError> {
    let mut client = CallClient::connect_by(connection.dial(), connection.uri()).await?;
    let called = identity.wall.now();
    let first = client.fetch(&identity.hello(), connection.holders()).await?;
    let now = identity.wall.now();
    let hello = &first.welcome.hello;
    if let Err(mismatch) = hello.check(&identity.grid, identity.slot(now)) {
        return Ok(Ended::unfit(&mismatch));
    }
    backoff.reset();
    greet(connection, identity, inbound, hello, (called, now)).await;
    let (queue, mut queued) = outbox(None, |pending| pending);
    connection.opened(Sender::Unary(queue));
    let half = Duration::from_nanos(identity.grid.slot_length.0 / 2);
    let mut ask = Instant::now() + IDLE;
    loop {
        let (answer, next) = tokio::select! {
            biased;
            announcements = queued.next() => {
                let announcements = announcements.unwrap_or_default();
                (client.update(&identity.hello(), &announcements).await?, half)
            }
            () = tokio::time::sleep_until(ask) => {
                (client.fetch(&identity.hello(), connection.holders()).await?, IDLE)
            }
        };
        ask = Instant::now() + next;
        let Answer { feedback, .. } = answer;
        connection.hear(inbound, feedback);
    }
}
