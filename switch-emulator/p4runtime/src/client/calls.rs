//! Calls of a session: the program, the tables, what the switch counts and keeps.

use std::time::Duration;

use sluice_pipeline::control::Statement;
use sluice_schedule::Slot;
use sluice_schedule::table::cell::Cell;
use tonic::Code;

use super::counts::Counts;
use super::error::{ClientError, Failure, failures};
use super::{Session, in_time};
use crate::encode::{self, Key};
use crate::ids::Ids;
use crate::pb::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use crate::pb::p4::v1::set_forwarding_pipeline_config_request::Action as Load;
use crate::pb::p4::v1::update::Type;
use crate::pb::p4::v1::{
    CapabilitiesRequest, Entity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, Index, ReadRequest,
    RegisterEntry, SetForwardingPipelineConfigRequest, TableEntry, Update, WriteRequest, entity,
    forwarding_pipeline_config, p4_data,
};
use crate::{halves, limits};

impl Session {
    /// The numbers of the program that this session was opened with.
    pub fn ids(&self) -> &Ids {
        self.program.ids()
    }

    /// Which version of P4Runtime the switch speaks.
    ///
    /// # Errors
    /// A refusal or silence.
    pub async fn version(&self) -> Result<String, ClientError> {
        let mut client = self.client.clone();
        in_time(&self.target, "its capabilities", self.target.deadlines.call, async move {
            Ok(client.capabilities(CapabilitiesRequest {}).await?.into_inner().p4runtime_api_version)
        })
        .await
    }

    /// Does the switch have this session's program, by its cookie?
    ///
    /// # Errors
    /// A refusal or silence; a switch without any program is neither.
    pub async fn has_program(&self) -> Result<bool, ClientError> {
        let mut client = self.client.clone();
        let response_type = ResponseType::CookieOnly as i32;
        let request = GetForwardingPipelineConfigRequest { device_id: self.target.device, response_type };
        let answer = in_time(&self.target, "the cookie of its program", self.target.deadlines.call, async move {
            Ok(client.get_forwarding_pipeline_config(request).await?.into_inner())
        });
        match answer.await {
            Ok(answer) => {
                let cookie = answer.config.and_then(|config| config.cookie).map(|cookie| cookie.cookie);
                Ok(cookie == Some(self.program.cookie()))
            }
            Err(ClientError::Refused { status, .. }) if status.code() == Code::FailedPrecondition => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Loads the program unless it is there. True: it was loaded, and with it the switch has begun anew.
    ///
    /// # Errors
    /// A refusal or silence.
    pub async fn ensure_program(&self) -> Result<bool, ClientError> {
        if self.has_program().await? {
            return Ok(false);
        }
        let config = ForwardingPipelineConfig {
            p4info: self.program.p4info().to_vec(),
            p4_device_config: self.program.device_config().to_vec(),
            cookie: Some(forwarding_pipeline_config::Cookie { cookie: self.program.cookie() }),
        };
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.target.device,
            election_id: Some(halves(self.election)),
            action: Load::VerifyAndCommit as i32,
            config: Some(config),
            role: String::new(),
        };
        let mut client = self.client.clone();
        in_time(&self.target, "the program", self.target.deadlines.program, async move {
            client.set_forwarding_pipeline_config(request).await.map(|_| true)
        })
        .await
    }

    /// Writes statements: in their order where they are of different tables. What is there already is changed. A
    /// restart is no entry of a table, and is left out.
    ///
    /// # Errors
    /// A refusal of the write or of some of its updates, or silence. Updates before it stand.
    pub async fn put(&self, statements: &[Statement]) -> Result<(), ClientError> {
        let tables = statements.chunk_by(|one, next| std::mem::discriminant(one) == std::mem::discriminant(next));
        for batch in tables.flat_map(|table| table.chunks(limits::BATCH)) {
            let entries = batch.iter().filter_map(|statement| encode::entry(statement, self.ids()));
            self.put_batch(entries.collect()).await?;
        }
        Ok(())
    }

    async fn put_batch(&self, entries: Vec<TableEntry>) -> Result<(), ClientError> {
        let limit = self.target.deadlines.call;
        // A default action is always there.
        let kind = |entry: &TableEntry| if entry.is_default_action { Type::Modify } else { Type::Insert };
        let updates: Vec<Update> = entries.iter().map(|entry| update(kind(entry), entry.clone())).collect();
        let failures = self.write(updates, limit).await?;
        let (there, refused): (Vec<Failure>, Vec<Failure>) =
            failures.into_iter().partition(|failure| failure.code == Code::AlreadyExists);
        self.accept(refused, entries.len())?;
        let there = there.iter().filter_map(|failure| entries.get(failure.update));
        let updates: Vec<Update> = there.map(|entry| update(Type::Modify, entry.clone())).collect();
        let count = updates.len();
        self.accept(self.write(updates, limit).await?, count)
    }

    /// Takes entries out, by what they match. What is not there is no error.
    ///
    /// # Errors
    /// A refusal of the write or of some of its updates, or silence.
    pub async fn remove(&self, entries: &[TableEntry]) -> Result<(), ClientError> {
        for batch in entries.chunks(limits::BATCH) {
            let matched = batch.iter().map(|entry| TableEntry { action: None, ..entry.clone() });
            let updates: Vec<Update> = matched.map(|entry| update(Type::Delete, entry)).collect();
            let failures = self.write(updates, self.target.deadlines.call).await?;
            let refused = failures.into_iter().filter(|failure| failure.code != Code::NotFound).collect();
            self.accept(refused, batch.len())?;
        }
        Ok(())
    }

    /// Tells the guard the present slot.
    ///
    /// # Errors
    /// A refusal, or no answer within `limit`.
    pub async fn set_slot(&self, slot: Slot, limit: Duration) -> Result<(), ClientError> {
        let entries = encode::entry(&Statement::Guard(slot), self.ids()).into_iter();
        let updates = entries.map(|entry| update(Type::Modify, entry)).collect();
        self.accept(self.write(updates, limit).await?, 1)
    }

    fn accept(&self, failures: Vec<Failure>, updates: usize) -> Result<(), ClientError> {
        if failures.is_empty() {
            return Ok(());
        }
        Err(ClientError::Updates { uri: self.target.uri.clone(), failures, updates })
    }

    /// Writes, and gives the updates that were refused.
    async fn write(&self, updates: Vec<Update>, limit: Duration) -> Result<Vec<Failure>, ClientError> {
        if updates.is_empty() {
            return Ok(Vec::new());
        }
        let count = updates.len();
        let request = WriteRequest {
            device_id: self.target.device,
            election_id: Some(halves(self.election)),
            updates,
            ..WriteRequest::default()
        };
        let mut client = self.client.clone();
        let call = in_time(&self.target, "a write", limit, async move { client.write(request).await.map(|_| ()) });
        match call.await {
            Ok(()) => Ok(Vec::new()),
            Err(ClientError::Refused { uri, call, status }) => {
                failures(&status, count).ok_or(ClientError::Refused { uri, call, status })
            }
            Err(error) => Err(error),
        }
    }

    /// All entries of the four tables that have any, as the switch tells them.
    ///
    /// # Errors
    /// A refusal or silence.
    pub async fn entries(&self) -> Result<Vec<TableEntry>, ClientError> {
        let ids = self.ids();
        self.tables(&[ids.edge.id, ids.links.id, ids.ecmp.id, ids.lpm.id]).await
    }

    /// Which ports have a link, as the switch tells it.
    ///
    /// # Errors
    /// A refusal or silence.
    pub async fn linked(&self) -> Result<Vec<u16>, ClientError> {
        let links = self.tables(&[self.ids().links.id]).await?;
        let port = |entry: &TableEntry| match encode::key(entry, self.ids()) {
            Ok(Key::Link(port)) => Some(port),
            _ => None,
        };
        Ok(links.iter().filter_map(port).collect())
    }

    async fn tables(&self, tables: &[u32]) -> Result<Vec<TableEntry>, ClientError> {
        let ask = |table_id: &u32| {
            let entry = TableEntry { table_id: *table_id, ..TableEntry::default() };
            Entity { entity: Some(entity::Entity::TableEntry(entry)) }
        };
        let found = self.read(tables.iter().map(ask).collect()).await?;
        let entry = |found: Entity| match found.entity {
            Some(entity::Entity::TableEntry(entry)) => Some(entry),
            _ => None,
        };
        Ok(found.into_iter().filter_map(entry).collect())
    }

    /// What the switch counted.
    ///
    /// # Errors
    /// A refusal or silence.
    pub async fn counts(&self) -> Result<Counts, ClientError> {
        let counters = &self.ids().counters;
        Ok(Counts::read(counters, &self.read(Counts::questions(counters)).await?))
    }

    /// What a port's registers hold of a lane for a period. None: the switch does not read registers, as most do not,
    /// or there is no such lane. Probes read them everywhere.
    ///
    /// # Errors
    /// Another refusal, or silence.
    pub async fn cell(&self, port: u16, lane: usize, period: Slot) -> Result<Option<Cell>, ClientError> {
        let arrays = if period.0.is_multiple_of(2) { &self.ids().even } else { &self.ids().odd };
        let Some(register_id) = arrays.get(lane) else { return Ok(None) };
        let index = Some(Index { index: port.into() });
        let register = RegisterEntry { register_id: *register_id, index, data: None };
        let asked = vec![Entity { entity: Some(entity::Entity::RegisterEntry(register)) }];
        let found = match self.read(asked).await {
            Ok(found) => found,
            Err(ClientError::Refused { status, .. }) if status.code() == Code::Unimplemented => return Ok(None),
            Err(error) => return Err(error),
        };
        let value = found.into_iter().find_map(|found| match found.entity {
            Some(entity::Entity::RegisterEntry(register)) => register.data?.data,
            _ => None,
        });
        let Some(p4_data::Data::Bitstring(bytes)) = value else { return Ok(None) };
        let cell = encode::number("the cell", &bytes, 64).ok();
        Ok(cell.map(|cell| Cell { tag: (cell >> 32) as u32, load: cell as i32 }))
    }

    /// Reads entities. An answer of more than [`limits::ENTITIES`] is not read to its end.
    ///
    /// # Errors
    /// A refusal or silence.
    pub async fn read(&self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        let request = ReadRequest { device_id: self.target.device, entities, role: String::new() };
        let mut client = self.client.clone();
        let all = in_time(&self.target, "a read", self.target.deadlines.call, async move {
            let mut stream = client.read(request).await?.into_inner();
            let mut all = Vec::new();
            while let Some(part) = stream.message().await? {
                all.extend(part.entities);
                if all.len() > limits::ENTITIES {
                    break;
                }
            }
            Ok(all)
        });
        let all = all.await?;
        let most = limits::ENTITIES;
        if all.len() > most { Err(ClientError::TooMuch { uri: self.target.uri.clone(), most }) } else { Ok(all) }
    }
}

fn update(kind: Type, entry: TableEntry) -> Update {
    let entity = Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) });
    Update { r#type: kind as i32, entity }
}
