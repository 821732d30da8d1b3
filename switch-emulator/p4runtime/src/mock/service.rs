//! The calls. Each is done under one lock, without waiting for anybody.

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::fault::{Fault, outcome};
use super::streams::Answer;
use super::{Mock, Settings, State};
use crate::pb::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use crate::pb::p4::v1::p4_runtime_server::P4Runtime;
use crate::pb::p4::v1::write_request::Atomicity;
use crate::pb::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, Entity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, Uint128, WriteRequest, WriteResponse,
};
use crate::{limits, whole};

/// The version of P4Runtime whose messages these are.
const VERSION: &str = "1.4.1";

impl Mock {
    /// Does something under the lock, and counts its refusal.
    pub(super) fn answer<T>(&self, work: impl FnOnce(&mut State, &Settings) -> Result<T, Fault>) -> Result<T, Status> {
        let state = &mut *self.state();
        let answer = work(state, &self.0.settings);
        state.refusals += u64::from(answer.is_err());
        answer.map_err(Status::from)
    }

    fn written(&self, request: &WriteRequest) -> Result<(), Status> {
        let updates = self.answer(|state, settings| {
            of_device(settings, request.device_id)?;
            if request.updates.len() > limits::UPDATES {
                let allowed = format!("0 to {} updates", limits::UPDATES);
                return Err(Fault::value("updates", request.updates.len(), &allowed));
            }
            state.authorise(request.election_id, &request.role)?;
            match Atomicity::try_from(request.atomicity) {
                Ok(Atomicity::ContinueOnError) => {}
                Ok(other) => {
                    let text = format!("atomicity is {}; allowed is CONTINUE_ON_ERROR", other.as_str_name());
                    return Err(Fault::new(Code::Unimplemented, text));
                }
                Err(_) => return Err(Fault::value("atomicity", request.atomicity, "CONTINUE_ON_ERROR")),
            }
            let ids = state.device.ids()?;
            let updates: Vec<Option<Fault>> =
                request.updates.iter().map(|update| state.device.write(&ids, update).err()).collect();
            state.refusals += updates.iter().flatten().count() as u64;
            Ok(updates)
        })?;
        outcome(&updates)
    }

    fn told(&self, request: &ReadRequest) -> Result<Vec<Entity>, Status> {
        self.answer(|state, settings| {
            of_device(settings, request.device_id)?;
            if request.entities.len() > limits::ASKED {
                let allowed = format!("0 to {} entities", limits::ASKED);
                return Err(Fault::value("entities", request.entities.len(), &allowed));
            }
            let ids = state.device.ids()?;
            let mut all = Vec::new();
            for asked in &request.entities {
                all.extend(state.device.read(&ids, settings.registers, asked)?);
                if all.len() > limits::ENTITIES {
                    let text = format!("the answer has more than {} entities; ask for fewer", limits::ENTITIES);
                    return Err(Fault::new(Code::ResourceExhausted, text));
                }
            }
            Ok(all)
        })
    }
}

impl State {
    /// Only the primary writes, and there is only the default role.
    fn authorise(&self, election: Option<Uint128>, role: &str) -> Result<(), Fault> {
        if !role.is_empty() {
            return Err(Fault::value("role", "there", "none, for there is only the default role"));
        }
        let election = election.map(whole);
        if self.arbiter.may_write(election) {
            return Ok(());
        }
        let found = election.map_or_else(|| "missing".into(), |id| id.to_string());
        Err(Fault::new(Code::PermissionDenied, format!("election_id is {found}; allowed is that of the primary")))
    }
}

fn of_device(settings: &Settings, device: u64) -> Result<(), Fault> {
    if device == settings.device {
        return Ok(());
    }
    Err(Fault::new(Code::NotFound, format!("device_id is {device}; allowed is {}", settings.device)))
}

#[tonic::async_trait]
impl P4Runtime for Mock {
    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let delay = self.state().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.written(&request.into_inner())?;
        Ok(Response::new(WriteResponse {}))
    }

    type ReadStream = tokio_stream::Iter<std::vec::IntoIter<Result<ReadResponse, Status>>>;

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let all = self.told(&request.into_inner())?;
        let parts = all.chunks(limits::PART).map(|part| Ok(ReadResponse { entities: part.to_vec() }));
        let parts: Vec<Result<ReadResponse, Status>> = parts.collect();
        Ok(Response::new(tokio_stream::iter(parts)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.answer(|state, settings| {
            of_device(settings, request.device_id)?;
            state.authorise(request.election_id, &request.role)?;
            state.device.load(request.action, request.config)
        })?;
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let config = self.answer(|state, settings| {
            of_device(settings, request.device_id)?;
            let ForwardingPipelineConfig { p4info, p4_device_config, cookie } = state.device.config()?;
            let asked = |here: bool, bytes: &Vec<u8>| if here { bytes.clone() } else { Vec::new() };
            let wanted = ResponseType::try_from(request.response_type);
            let (info, config) = match wanted {
                Ok(ResponseType::All) => (true, true),
                Ok(ResponseType::CookieOnly) => (false, false),
                Ok(ResponseType::P4infoAndCookie) => (true, false),
                Ok(ResponseType::DeviceConfigAndCookie) => (false, true),
                Err(_) => return Err(Fault::value("response_type", request.response_type, "0 to 3")),
            };
            let (p4info, p4_device_config) = (asked(info, p4info), asked(config, p4_device_config));
            Ok(ForwardingPipelineConfig { p4info, p4_device_config, cookie: *cookie })
        })?;
        Ok(Response::new(GetForwardingPipelineConfigResponse { config: Some(config) }))
    }

    type StreamChannelStream = ReceiverStream<Answer>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (stream, answers) = self.open_stream()?;
        tokio::spawn(self.clone().listen(stream, request.into_inner()));
        Ok(Response::new(answers))
    }

    async fn capabilities(
        &self,
        _request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        Ok(Response::new(CapabilitiesResponse { p4runtime_api_version: VERSION.into() }))
    }
}
