//! Certificates of a made-up cluster: one for the switch, and one for each host, each in a directory that goes with this.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_identity::authority::{Authority, subject};
use sluice_identity::{Credentials, Expected, Files, Kind};
use sluice_wire::dial::Dial;

const CLUSTER: &str = "default";
const SWITCH: &str = "s0";

/// The directory with all of them, removed at the end.
pub struct Certificates {
    authority: Authority,
    directory: PathBuf,
}

impl Certificates {
    /// An authority, and the switch's certificate.
    pub fn new() -> anyhow::Result<Certificates> {
        let directory = std::env::temp_dir().join(format!("sluice-load-tls-{}", std::process::id()));
        let made = Certificates { authority: Authority::new(CLUSTER, 1)?, directory };
        made.issue(Kind::Switch, SWITCH)?;
        Ok(made)
    }

    fn issue(&self, kind: Kind, id: &str) -> anyhow::Result<Files> {
        let directory = self.directory.join(id);
        std::fs::create_dir_all(&directory)?;
        let files = files(&directory);
        let subject = subject(CLUSTER, kind, id).ok_or_else(|| anyhow::anyhow!("{id} is no name"))?;
        self.authority.issue(&subject, 1)?.write(&files)?;
        Ok(files)
    }

    /// What the switch's configuration says of them.
    pub fn settings(&self) -> String {
        let Files { authorities, certificate, key } = files(&self.directory.join(SWITCH));
        format!("tls = {{ ca = {authorities:?}, cert = {certificate:?}, key = {key:?} }}")
    }

    /// How a host connects.
    pub fn dial(&self, host: &str) -> anyhow::Result<Dial> {
        let credentials: Arc<Credentials> = Credentials::open(self.issue(Kind::Host, host)?);
        let expected = Expected { cluster: CLUSTER.into(), kind: Kind::Switch, ids: vec![SWITCH.into()] };
        Ok(Dial::Tls { credentials, expected })
    }
}

fn files(directory: &Path) -> Files {
    let path = |name: &str| directory.join(name);
    Files { authorities: path("ca.pem"), certificate: path("cert.pem"), key: path("key.pem") }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
