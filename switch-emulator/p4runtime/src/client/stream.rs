//! The stream of a session: arbitration, and packets of the switch's processor.

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use super::error::ClientError;
use super::{Heard, Standing, Target};
use crate::pb::p4::v1::p4_runtime_client::P4RuntimeClient;
use crate::pb::p4::v1::{
    MasterArbitrationUpdate, StreamMessageRequest, StreamMessageResponse, stream_message_request,
    stream_message_response,
};
use crate::{halves, limits, whole};

/// Both halves of the stream; the task that reads it ends with this.
#[derive(Debug)]
pub(super) struct Stream {
    pub outgoing: mpsc::Sender<StreamMessageRequest>,
    pub standing: watch::Receiver<Standing>,
    reader: JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The message that stands for election.
pub(super) fn arbitration(device_id: u64, election: u128) -> StreamMessageRequest {
    let update = MasterArbitrationUpdate { device_id, role: None, election_id: Some(halves(election)), status: None };
    StreamMessageRequest { update: Some(stream_message_request::Update::Arbitration(update)) }
}

/// The standing of a session whose stream nobody reads any more.
pub(super) fn unread() -> Standing {
    Standing::Ended { code: Code::Cancelled, text: "the stream is not read any more".into() }
}

impl Stream {
    /// Opens the stream, stands for election, and waits for the answer.
    pub async fn open(
        target: &Target,
        mut client: P4RuntimeClient<Channel>,
        election: u128,
    ) -> Result<(Stream, mpsc::Receiver<Heard>), ClientError> {
        let limit = target.deadlines.call;
        let (outgoing, queue) = mpsc::channel(limits::QUEUE);
        // The queue is new, so there is room. Servers may wait for it before they answer at all.
        let _ = outgoing.try_send(arbitration(target.device, election));
        let uri = || target.uri.clone();
        let opening = client.stream_channel(ReceiverStream::new(queue));
        let incoming = match tokio::time::timeout(limit, opening).await {
            Ok(Ok(answer)) => answer.into_inner(),
            // Servers that answer with the first message say here what others say as the stream's end.
            Ok(Err(status)) => {
                let (code, text) = (status.code(), status.message().into());
                return Err(ClientError::StreamEnded { uri: uri(), code, text });
            }
            Err(_) => return Err(ClientError::Silent { uri: uri(), call: "the stream", limit }),
        };
        let (news, standing) = watch::channel(Standing::Unknown);
        let (packets, heard) = mpsc::channel(limits::QUEUE);
        let reader = tokio::spawn(read(incoming, news, packets));
        let mut stream = Stream { outgoing, standing, reader };
        let answered = stream.standing.wait_for(|standing| *standing != Standing::Unknown);
        let answered = match tokio::time::timeout(limit, answered).await {
            Ok(answered) => answered.map_or_else(|_| unread(), |standing| standing.clone()),
            Err(_) => return Err(ClientError::Silent { uri: uri(), call: "arbitration", limit }),
        };
        match answered {
            Standing::Ended { code, text } => Err(ClientError::StreamEnded { uri: uri(), code, text }),
            _ => Ok((stream, heard)),
        }
    }
}

async fn read(
    mut incoming: Streaming<StreamMessageResponse>,
    standing: watch::Sender<Standing>,
    packets: mpsc::Sender<Heard>,
) {
    let ended = loop {
        match incoming.message().await {
            Ok(Some(message)) => match message.update {
                Some(stream_message_response::Update::Arbitration(update)) => {
                    standing.send_replace(said(&update));
                }
                // Nobody has to listen: what does not fit the queue is not kept.
                Some(stream_message_response::Update::Packet(packet)) => {
                    let _ = packets.try_send(Heard::Packet(packet.payload));
                }
                Some(stream_message_response::Update::Error(error)) => {
                    let code = Code::from_i32(error.canonical_code);
                    let _ = packets.try_send(Heard::Refused { code, text: error.message });
                }
                None => {}
            },
            Ok(None) => break Standing::Ended { code: Code::Ok, text: "it is closed".into() },
            Err(status) => break Standing::Ended { code: status.code(), text: status.message().into() },
        }
    };
    standing.send_replace(ended);
}

/// Code 0 says primary, and whatever else it is says that somebody else is, or with `NOT_FOUND` that nobody is.
fn said(update: &MasterArbitrationUpdate) -> Standing {
    let highest = update.election_id.map(whole);
    // A status without a field that is set has the same bytes as none.
    match update.status.as_ref().map_or(Code::Ok, |status| Code::from_i32(status.code)) {
        Code::Ok => Standing::Primary,
        Code::NotFound => Standing::Vacant { highest },
        _ => Standing::Backup { highest },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::google::rpc;

    #[test]
    fn only_code_0_is_primary() {
        let standing = |code: i32| {
            let status = Some(rpc::Status { code, ..rpc::Status::default() });
            said(&MasterArbitrationUpdate { device_id: 1, role: None, election_id: Some(halves(7)), status })
        };
        assert_eq!(standing(0), Standing::Primary);
        assert_eq!(standing(5), Standing::Vacant { highest: Some(7) });
        for code in [1, 2, 6, 7, 99, -1] {
            assert_eq!(standing(code), Standing::Backup { highest: Some(7) }, "{code}");
        }
        assert_eq!(said(&MasterArbitrationUpdate::default()), Standing::Primary);
    }
}
