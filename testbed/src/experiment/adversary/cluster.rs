//! Who is who in a run: certificates of one authority for the switch and for every host, and one of an authority that
//! nobody believes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_identity::authority::{Authority, AuthorityError, Issued, subject};
use sluice_identity::{Credentials, Expected, Files, Kind};
use sluice_wire::dial::Dial;

use crate::fabric::FabricSpec;
use crate::run::{RunError, write};

/// The cluster of every testbed.
pub(super) const NAME: &str = "testbed";
/// Certificates are good for longer than any run.
const DAYS: u32 = 2;
/// Where a run looks for those of its switches.
const SWITCH: &str = "switch";
/// Where the one lies that nobody believes.
pub(super) const FORGED: &str = "forged";

/// The certificates of a run.
#[derive(Debug)]
pub(super) struct Cluster {
    dir: PathBuf,
    switch: String,
}

impl Cluster {
    /// Makes them in the directory of a run, where its programs find them when they start: one for the switch, one for
    /// each host, and one more for the host `victim` that another authority signed.
    pub(super) fn issue(dir: &Path, spec: &FabricSpec, victim: &str) -> Result<Cluster, RunError> {
        let authority = Authority::new(NAME, DAYS).map_err(refused)?;
        let foreign = Authority::new(NAME, DAYS).map_err(refused)?;
        let switch = spec.switches.first().cloned().unwrap_or_default();
        let cluster = Cluster { dir: dir.join("tls"), switch };
        cluster.keep(SWITCH, &issued(&authority, Kind::Switch, &cluster.switch)?)?;
        for host in &spec.hosts {
            let files = cluster.keep(host, &issued(&authority, Kind::Host, host)?)?;
            let drop_in = dir.join(format!("run-{host}/state/sluiced.d"));
            make(&drop_in)?;
            write(&drop_in.join("10-tls.toml"), section(&files))?;
        }
        // Its own side believes the authority of the cluster: nothing else would let it speak at all.
        let forged = Issued { authorities: authority.certificate(), ..issued(&foreign, Kind::Host, victim)? };
        cluster.keep(FORGED, &forged)?;
        Ok(cluster)
    }

    /// How somebody with the certificate of `owner` calls the switch.
    pub(super) fn dial(&self, owner: &str) -> Dial {
        let expected = Expected { cluster: NAME.to_owned(), kind: Kind::Switch, ids: vec![self.switch.clone()] };
        Dial::Tls { credentials: self.credentials(owner), expected }
    }

    /// The certificate of `owner`, and whom it believes.
    pub(super) fn credentials(&self, owner: &str) -> Arc<Credentials> {
        Credentials::open(self.files(owner))
    }

    fn files(&self, owner: &str) -> Files {
        Files::in_directory(&self.dir.join(owner))
    }

    fn keep(&self, owner: &str, issued: &Issued) -> Result<Files, RunError> {
        make(&self.dir.join(owner))?;
        let files = self.files(owner);
        issued.write(&files).map_err(refused)?;
        Ok(files)
    }
}

fn make(directory: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(directory).map_err(RunError::io(format!("creating {}", directory.display())))
}

fn issued(authority: &Authority, kind: Kind, id: &str) -> Result<Issued, RunError> {
    let unnamed = || RunError::Plan(format!("no certificate can name {id:?}"));
    authority.issue(&subject(NAME, kind, id).ok_or_else(unnamed)?, DAYS).map_err(refused)
}

fn refused(error: AuthorityError) -> RunError {
    RunError::Plan(format!("making certificates: {error}"))
}

/// What a daemon's configuration says of them.
fn section(Files { authorities, certificate, key }: &Files) -> String {
    format!("[tls]\nca = {authorities:?}\ncert = {certificate:?}\nkey = {key:?}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_schedule::{Bytes, Rate};

    #[test]
    fn everybody_has_a_certificate_where_programs_look_for_it_and_the_forged_one_names_the_victim() {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = FabricSpec::star(3, Rate::mbps(200), Bytes(250_000));
        let cluster = Cluster::issue(dir.path(), &spec, "h0").expect("issued");
        let own = |owner: &str| cluster.credentials(owner).standing().own;
        assert_eq!(own("switch").as_deref(), Some("spiffe://testbed/switch/s0"));
        assert_eq!(own("h2").as_deref(), Some("spiffe://testbed/host/h2"));
        assert_eq!(own(FORGED), own("h0"));
        let text = |path: &str| std::fs::read_to_string(dir.path().join(path)).expect(path);
        assert!(text("run-h1/state/sluiced.d/10-tls.toml").contains("tls/h1/key.pem"));
        // It is signed by another, and believes those that all believe.
        assert_eq!(text("tls/forged/ca.pem"), text("tls/h0/ca.pem"));
        assert_ne!(text("tls/forged/cert.pem"), text("tls/h0/cert.pem"));
    }
}
