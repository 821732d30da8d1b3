//! The certificates for etcd, read anew for every connection: a new one needs no restart.

use std::path::PathBuf;

use sluice_etcd::endpoint::Own;
use sluice_etcd::{Error, Tls};
use sluice_identity::files;

use crate::config::Config;

/// Where they lie.
#[derive(Debug)]
pub struct Certificates {
    authority: Option<PathBuf>,
    own: Option<Pair>,
    name: Option<String>,
}

#[derive(Clone, Debug)]
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificates {
    pub fn of(config: &Config) -> Certificates {
        let fleet = &config.fleet;
        let own = fleet.tls_cert.clone().zip(fleet.tls_key.clone());
        Certificates {
            authority: fleet.tls_ca.clone(),
            own: own.map(|(certificate, key)| Pair { certificate, key }),
            name: fleet.tls_name.clone(),
        }
    }

    /// As they are now; `None`: none are configured.
    ///
    /// # Errors
    /// A file cannot be read, or its key may be read by too many.
    pub async fn read(&self) -> Result<Option<Tls>, Error> {
        let Some(authority) = self.authority.clone() else { return Ok(None) };
        let (own, name) = (self.own.clone(), self.name.clone());
        let read = move || -> Result<Tls, Error> {
            let load = |path: &PathBuf| files::load(path).map_err(|fault| Error::Tls(fault.to_string()));
            let own = own.map(|pair| {
                let key = files::load_key(&pair.key).map_err(|fault| Error::Tls(fault.to_string()))?;
                Ok(Own { certificate: load(&pair.certificate)?, key })
            });
            Ok(Tls { authority: load(&authority)?, own: own.transpose()?, name })
        };
        let joined = tokio::task::spawn_blocking(read).await.map_err(|error| Error::Tls(error.to_string()))?;
        joined.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_key_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        for name in ["ca", "cert", "key"] {
            std::fs::write(path(name), name).expect("written");
        }
        let mut config = Config::default();
        let fleet = &mut config.fleet;
        (fleet.tls_ca, fleet.tls_cert, fleet.tls_key) = (Some(path("ca")), Some(path("cert")), Some(path("key")));
        fleet.tls_name = Some("etcd-1".into());
        let certificates = Certificates::of(&config);
        for (mode, good) in [(0o644, false), (0o660, false), (0o640, true), (0o600, true)] {
            std::fs::set_permissions(path("key"), std::fs::Permissions::from_mode(mode)).expect("set");
            let read = certificates.read().await;
            assert_eq!(read.is_ok(), good, "{mode:o}: {read:?}");
        }
        std::fs::remove_file(path("ca")).expect("removed");
        let error = certificates.read().await.expect_err("gone").to_string();
        assert!(error.contains("/ca: "), "{error}");
        std::fs::write(path("ca"), "ca").expect("written");
        let tls = certificates.read().await.expect("good").expect("configured");
        assert_eq!((tls.authority.as_slice(), tls.name.as_deref()), (b"ca".as_slice(), Some("etcd-1")));
        let own = tls.own.expect("both files are named");
        assert_eq!(own.certificate.as_slice(), b"cert");
        // It is never shown.
        assert!(!format!("{:?}", certificates.read().await.expect("good")).contains("key"));
        assert!(Certificates { authority: None, own: None, name: None }.read().await.expect("none").is_none());
    }
}
