//! Streams of controllers: what they say, and what they are told. Nobody is waited for: who does not read what it is
//! told has no stream any more.

use std::collections::BTreeMap;

use sluice_pipeline::Verdict;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::arbiter::Hears;
use super::fault::Fault;
use super::{Mock, Settings, State};
use crate::pb::google::rpc;
use crate::pb::p4::v1::stream_message_request::Update as Said;
use crate::pb::p4::v1::stream_message_response::Update as Told;
use crate::pb::p4::v1::{
    MasterArbitrationUpdate, PacketIn, PacketOut, PacketOutError, StreamError, StreamMessageRequest,
    StreamMessageResponse, stream_error,
};
use crate::{halves, limits, whole};

/// What a stream carries to its controller; an error ends it.
pub(super) type Answer = Result<StreamMessageResponse, Status>;

/// The streams that are open, by number.
#[derive(Debug, Default)]
pub(super) struct Streams {
    next: u64,
    open: BTreeMap<u64, mpsc::Sender<Answer>>,
}

impl Streams {
    fn join(&mut self) -> Result<(u64, mpsc::Receiver<Answer>), Fault> {
        if self.open.len() >= limits::STREAMS {
            let text = format!("there are {} streams; allowed are no more", limits::STREAMS);
            return Err(Fault::new(Code::ResourceExhausted, text));
        }
        let (answers, queue) = mpsc::channel(limits::QUEUE);
        self.next += 1;
        self.open.insert(self.next, answers);
        Ok((self.next, queue))
    }

    /// False: there is no such stream, or it does not read.
    fn tell(&self, stream: u64, update: Told) -> bool {
        let answer = Ok(StreamMessageResponse { update: Some(update) });
        self.open.get(&stream).is_some_and(|answers| answers.try_send(answer).is_ok())
    }

    fn end(&mut self, stream: u64, reason: Option<Status>) {
        if let (Some(answers), Some(status)) = (self.open.remove(&stream), reason) {
            // A stream whose queue is full ends without a word.
            let _ = answers.try_send(Err(status));
        }
    }

    /// Ends all streams.
    pub fn end_all(&mut self, status: &Status) {
        for answers in std::mem::take(&mut self.open).into_values() {
            let _ = answers.try_send(Err(status.clone()));
        }
    }
}

impl Mock {
    /// A new stream, and what its controller reads.
    pub(super) fn open_stream(&self) -> Result<(u64, ReceiverStream<Answer>), Status> {
        let joined = self.answer(|state, _| state.streams.join())?;
        Ok((joined.0, ReceiverStream::new(joined.1)))
    }

    /// Hears a controller until it goes or says what it must not.
    pub(super) async fn listen(self, stream: u64, mut messages: Streaming<StreamMessageRequest>) {
        let first = tokio::time::timeout(limits::FIRST_MESSAGE, messages.message()).await;
        let mut heard = first.unwrap_or_else(|_| {
            let within = limits::FIRST_MESSAGE.as_secs();
            Err(Status::deadline_exceeded(format!("a stream begins with arbitration within {within} s")))
        });
        let reason = loop {
            let said = match heard {
                Ok(Some(message)) => self.answer(|state, settings| state.hear(settings, stream, message)),
                Ok(None) => break None,
                Err(status) => break Some(status),
            };
            if let Err(status) = said {
                break Some(status);
            }
            heard = messages.message().await;
        };
        let mut state = self.state();
        state.streams.end(stream, reason);
        let hears = state.arbiter.leave(stream);
        state.tell_of(self.0.settings.device, hears);
    }
}

impl State {
    /// What a controller says; a fault ends its stream.
    fn hear(&mut self, settings: &Settings, stream: u64, message: StreamMessageRequest) -> Result<(), Fault> {
        if !self.streams.open.contains_key(&stream) {
            return Err(Fault::new(Code::Aborted, "the stream is over"));
        }
        match message.update {
            Some(Said::Arbitration(update)) => self.arbitrate(settings, stream, &update),
            Some(Said::Packet(packet)) => {
                self.packet_out(settings, stream, packet);
                Ok(())
            }
            None => Err(Fault::missing("update", "arbitration or packet")),
        }
    }

    fn arbitrate(&mut self, settings: &Settings, stream: u64, update: &MasterArbitrationUpdate) -> Result<(), Fault> {
        if update.device_id != settings.device {
            // The standard tells a stream that never had a device from one that wants another.
            let code = if self.arbiter.knows(stream) { Code::FailedPrecondition } else { Code::NotFound };
            let text = format!("device_id is {}; allowed is {}", update.device_id, settings.device);
            return Err(Fault::new(code, text));
        }
        if update.role.as_ref().is_some_and(|role| !role.name.is_empty()) {
            return Err(Fault::value("role", "there", "none, for there is only the default role"));
        }
        let hears = self.arbiter.stand(stream, update.election_id.map(whole))?;
        let device = settings.device;
        self.tell_of(device, hears);
        Ok(())
    }

    /// Tells streams what they are now. Those that do not read go, and that may change what the others are.
    fn tell_of(&mut self, device_id: u64, mut hears: Hears) {
        loop {
            let streams = match hears {
                Hears::Nobody => return,
                Hears::One(stream) => vec![stream],
                Hears::All => self.arbiter.streams(),
            };
            hears = Hears::Nobody;
            for stream in streams {
                let code = self.arbiter.told(stream);
                let status = rpc::Status { code: code as i32, message: said(code).into(), details: Vec::new() };
                let election_id = self.arbiter.highest().map(halves);
                let update = MasterArbitrationUpdate { device_id, role: None, election_id, status: Some(status) };
                if !self.streams.tell(stream, Told::Arbitration(update)) {
                    self.streams.open.remove(&stream);
                    if self.arbiter.leave(stream) == Hears::All {
                        hears = Hears::All;
                    }
                }
            }
        }
    }

    fn packet_out(&mut self, settings: &Settings, stream: u64, packet: PacketOut) {
        let fault = if self.arbiter.primary() != Some(stream) {
            Fault::new(Code::PermissionDenied, "only the primary sends packets")
        } else if packet.payload.len() > limits::FRAME {
            let allowed = format!("0 to {} bytes", limits::FRAME);
            Fault::value("payload", format!("{} bytes", packet.payload.len()), &allowed)
        } else if !packet.metadata.is_empty() {
            Fault::value("metadata", "there", "none, for the program has no header of a controller")
        } else {
            self.inject(settings.processor, packet.payload);
            return;
        };
        self.refusals += 1;
        // Of a refused packet comes back that there was one, not the packet.
        let details = Some(stream_error::Details::PacketOut(PacketOutError { packet_out: None }));
        let error = StreamError { canonical_code: fault.code as i32, message: fault.text, details };
        self.streams.tell(stream, Told::Error(error));
    }

    fn inject(&mut self, processor: u16, mut frame: Vec<u8>) {
        match self.pass(processor, processor, &mut frame) {
            Verdict::Forward { port, .. } if port != processor => {
                if self.sent.len() >= limits::KEPT {
                    self.sent.pop_front();
                }
                self.sent.push_back((port, frame));
            }
            Verdict::Forward { .. } | Verdict::Drop(_) => {}
        }
    }

    /// A frame has left by the processor's port: it is the primary's, if there is one that reads.
    pub(super) fn packet_in(&mut self, frame: &[u8]) {
        let packet = PacketIn { payload: frame.to_vec(), metadata: Vec::new() };
        if let Some(primary) = self.arbiter.primary() {
            self.streams.tell(primary, Told::Packet(packet));
        }
    }
}

/// A word for what a controller is.
fn said(code: Code) -> &'static str {
    match code {
        Code::Ok => "you are primary",
        Code::AlreadyExists => "another controller is primary",
        _ => "nobody is primary",
    }
}
