//! An operator's connection to etcd: what to connect to, reading below a name, and writing under conditions.

use std::path::Path;

use sluice_etcd::client::Unchanged;
use sluice_etcd::endpoint::Own;
use sluice_etcd::{Client, Endpoint, Error, Put, Reading, Tls, Written};
use sluice_fleet::key::{Key, MAX_KEYS, Name, Space};
use sluice_fleet::rollout::{Rollout, Turn};
use sluice_fleet::value::{HostValue, ModeValue, Value, read_hosts};
use sluice_formats::document::{Collector, Item, Node, Notation, Table};
use sluice_formats::file;
use sluice_wire::snapshot::Mode;

use super::args::EtcdArgs;
use crate::failure::Failure;

/// A configuration or certificate is not larger.
const MAX_FILE: u64 = 1 << 20;
/// What hosts read, groups and the rollout.
const MAX_READ: u32 = 2 * MAX_KEYS as u32;

/// A key as it was read.
#[derive(Clone, Debug)]
pub struct Held {
    pub key: Key,
    pub value: Vec<u8>,
    pub revision: u64,
}

/// The rollout as it was read, with the revision under which it may be replaced.
#[derive(Clone, Debug)]
pub struct HeldRollout {
    pub rollout: Option<Rollout>,
    pub revision: u64,
}

pub struct Desk {
    pub runtime: tokio::runtime::Runtime,
    pub space: Space,
    endpoints: Vec<Endpoint>,
    tls: Option<Tls>,
    client: Option<Client>,
}

impl Desk {
    /// By the flags, and the daemon's configuration for what they leave open. Nothing is connected yet.
    ///
    /// # Errors
    /// No etcd is named; a certificate cannot be read.
    pub fn new(args: &EtcdArgs) -> Result<Desk, Failure> {
        let known = Known::read(&args.config)?;
        let endpoints = if args.etcd.is_empty() { known.etcd } else { args.etcd.clone() };
        if endpoints.is_empty() {
            let config = args.config.display();
            return Err(Failure::input(format!(
                "no etcd is named\n  help: --etcd https://host:2379, or SLUICE_ETCD, or etcd under [fleet] in {config}"
            )));
        }
        let load = |path: &Path| file::load(path, MAX_FILE).map_err(Failure::from);
        let own = match (
            args.tls_cert.as_deref().or(known.cert.as_deref()),
            args.tls_key.as_deref().or(known.key.as_deref()),
        ) {
            (Some(certificate), Some(key)) => Some(Own { certificate: load(certificate)?, key: load(key)? }),
            _ => None,
        };
        let name = args.tls_name.clone().or(known.name);
        let authority = args.tls_ca.as_deref().or(known.ca.as_deref());
        let tls = authority.map(load).transpose()?.map(|authority| Tls { authority, own, name });
        let cluster = args.cluster.as_ref().map_or(known.cluster, ToString::to_string);
        let prefix = args.prefix.clone().unwrap_or(known.prefix);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Desk { runtime, space: Space::new(&prefix, &cluster), endpoints, tls, client: None })
    }

    /// All keys below a name of the cluster; `""` is all there is.
    ///
    /// # Errors
    /// etcd does not answer, or refuses.
    pub fn read(&mut self, below: &str) -> Result<Vec<Held>, Error> {
        let prefix = format!("{}{below}", self.space.all());
        let Reading { keys, .. } = self.with(async |client| client.read(&prefix, MAX_READ).await)?;
        let held = |key: sluice_etcd::Key| {
            Some(Held { key: self.space.key(&key.name)?, value: key.value?, revision: key.revision })
        };
        Ok(keys.into_iter().filter_map(held).collect())
    }

    /// Writes under the condition that these keys are as they were read.
    ///
    /// # Errors
    /// etcd does not answer, or refuses.
    pub fn write(&mut self, unchanged: &[(&Key, u64)], puts: &[(Key, String)]) -> Result<Written, Error> {
        let name = |key: &Key| self.space.name(key);
        let unchanged: Vec<Unchanged> =
            unchanged.iter().map(|(key, revision)| Unchanged { name: name(key), revision: *revision }).collect();
        let puts: Vec<Put> =
            puts.iter().map(|(key, value)| Put { name: name(key), value: Some(value.clone().into_bytes()) }).collect();
        self.with(async move |client| client.write(&unchanged, puts.clone()).await)
    }

    /// Does something with a connection; one that broke is not used again.
    fn with<T>(&mut self, act: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let (endpoints, tls) = (&self.endpoints, self.tls.as_ref());
        let before = self.client.take();
        let (client, result) = self.runtime.block_on(async {
            let client = match before {
                Some(client) => client,
                None => Client::connect(endpoints, tls, 0).await?,
            };
            let result = act(&client).await;
            Ok::<_, Error>((client, result))
        })?;
        self.client = result.is_ok().then_some(client);
        result
    }

    /// The rollout that etcd has.
    ///
    /// # Errors
    /// etcd does not answer; what it has is no rollout.
    pub fn rollout(&mut self) -> Result<HeldRollout, Failure> {
        let held = self.read(&Key::Rollout.to_string()).map_err(unheard)?;
        match held.into_iter().find(|held| held.key == Key::Rollout) {
            None => Ok(HeldRollout { rollout: None, revision: 0 }),
            Some(held) => Ok(HeldRollout { rollout: Some(Rollout::read(&held.value)?), revision: held.revision }),
        }
    }

    /// The hosts of every group.
    ///
    /// # Errors
    /// etcd does not answer; a value is none.
    pub fn groups(&mut self) -> Result<Vec<(Name, Vec<HostValue>)>, Failure> {
        let mut groups = Vec::new();
        for Held { key, value, .. } in self.read("groups/").map_err(unheard)? {
            if let Key::Group(name) = &key {
                groups.push((name.clone(), read_hosts(&key, &value)?));
            }
        }
        Ok(groups)
    }

    /// The mode of every group that has one.
    ///
    /// # Errors
    /// etcd does not answer; a value is none.
    pub fn modes(&mut self) -> Result<Vec<(Name, Mode)>, Failure> {
        let mut modes = Vec::new();
        for Held { key, value, .. } in self.read("hosts/modes/").map_err(unheard)? {
            if let (Key::Mode(name), Value::Mode(mode)) = (&key, Value::read(&key, &value)?) {
                modes.push((name.clone(), mode.mode));
            }
        }
        Ok(modes)
    }

    /// Writes a step of a rollout, with the modes that it sets; somebody else may have been first.
    ///
    /// # Errors
    /// etcd does not answer, or refuses.
    pub fn turn(&mut self, turn: &Turn, revision: u64) -> Result<Written, Error> {
        let note = format!("rollout by {}", turn.rollout.order.by);
        let mode = |(group, mode): &(Name, Mode)| {
            (Key::Mode(group.clone()), ModeValue { mode: *mode, note: note.clone() }.write())
        };
        let mut puts: Vec<(Key, String)> = turn.modes.iter().map(mode).collect();
        puts.push((Key::Rollout, turn.rollout.write()));
        self.write(&[(&Key::Rollout, revision)], &puts)
    }
}

/// etcd that does not answer is not there; what it refuses was asked wrongly.
pub fn unheard(error: Error) -> Failure {
    match error {
        Error::Refused(_) => Failure::failed(error),
        _ => Failure::daemon(format!("{error}\n  help: --etcd names its members; etcdctl endpoint health")),
    }
}

/// What the daemon's configuration says of the fleet. Its other keys are the daemon's business.
struct Known {
    etcd: Vec<Endpoint>,
    prefix: String,
    cluster: String,
    ca: Option<std::path::PathBuf>,
    cert: Option<std::path::PathBuf>,
    key: Option<std::path::PathBuf>,
    name: Option<String>,
}

impl Known {
    fn read(config: &Path) -> Result<Known, Failure> {
        let text = if config.exists() { file::load_text(config, MAX_FILE)? } else { String::new() };
        let name = config.display().to_string();
        let collector = Collector::new(&name, &text, Notation::Toml);
        let node = Node::parse(&collector);
        let root = Item::root(&node, &collector).table();
        let fleet = root.as_ref().filter(|root| root.has("fleet")).and_then(|root| root.table("fleet"));
        let word = |table: &Option<Table<'_>>, key| table.as_ref()?.text(key).map(str::to_owned);
        let path = |key| word(&fleet, key).map(std::path::PathBuf::from);
        let host = root.as_ref().filter(|root| root.has("node")).and_then(|root| root.table("node"));
        let listed = fleet.as_ref().and_then(|fleet| fleet.list("etcd")).unwrap_or_default();
        let endpoint = |item: &Item<'_>| item.parse("https://host:port", Endpoint::parse);
        let known = Known {
            etcd: listed.iter().filter_map(endpoint).collect(),
            prefix: word(&fleet, "prefix").unwrap_or_else(|| "/sluice".into()),
            cluster: word(&host, "cluster").unwrap_or_else(|| "default".into()),
            ca: path("tls_ca"),
            cert: path("tls_cert"),
            key: path("tls_key"),
            name: word(&fleet, "tls_name"),
        };
        match sluice_formats::problem::Problems::of(collector.into_problems()) {
            None => Ok(known),
            Some(problems) => Err(problems.into()),
        }
    }
}
