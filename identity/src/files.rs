//! The three files of an identity: who is believed, the own certificate, and its key.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sluice_formats::file;
use sluice_formats::problem::Problems;

/// A file of certificates is not larger.
pub const MAX_BYTES: u64 = 1 << 20;
/// Certificates in one file at most.
const MAX_CERTIFICATES: usize = 256;
/// What nobody but the owner and the group may have of a key, and the group no more than reading.
const OTHERS: u32 = 0o037;

/// Where they lie, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The authorities that are believed.
    pub authorities: PathBuf,
    /// The own certificate, those that signed it after it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why files cannot be used. Each text begins with a stable id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A file cannot be read.
    #[error("certificates-unusable: {0}")]
    Unreadable(String),
    /// Too many may read the key.
    #[error(
        "key-file-mode: {path} has mode {mode:o}, so that others may use it; allowed is 640 or stricter: chmod 640 {path}"
    )]
    KeyMode {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// It has no certificate, no key, or something that is neither.
    #[error("certificates-unusable: {path}: {why}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The three do not go together, or the own certificate names nobody.
    #[error("certificates-unusable: {path}: {why}")]
    Together {
        /// The certificate's file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

impl Fault {
    /// The stable id at the head of the text.
    pub const fn id(&self) -> &'static str {
        match self {
            Fault::KeyMode { .. } => "key-file-mode",
            Fault::Unreadable(_) | Fault::Content { .. } | Fault::Together { .. } => "certificates-unusable",
        }
    }
}

/// What the files hold.
pub struct Held {
    /// Who is believed, at least one.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The own certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

/// The bytes of a file of certificates.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn load(path: &Path) -> Result<Vec<u8>, Fault> {
    file::load(path, MAX_BYTES).map_err(|problems| Fault::Unreadable(line(&problems)))
}

/// The bytes of a private key that no others may read.
///
/// # Errors
/// As [`load`], and a mode that lets others use it.
pub fn load_key(path: &Path) -> Result<Vec<u8>, Fault> {
    let meta = std::fs::metadata(path)
        .map_err(|error| Fault::Unreadable(format!("{}: cannot be read: {error}", path.display())))?;
    if meta.mode() & OTHERS != 0 {
        return Err(Fault::KeyMode { path: path.display().to_string(), mode: meta.mode() & 0o777 });
    }
    load(path)
}

/// All certificates of a PEM text.
pub(crate) fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let content = |why: String| Fault::Content { path: path.display().to_string(), why };
    let mut all = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        all.push(certificate.map_err(|error| content(format!("is no PEM: {error}")))?);
        if all.len() > MAX_CERTIFICATES {
            return Err(content(format!(
                "has more than {MAX_CERTIFICATES} certificates; allowed 1 to {MAX_CERTIFICATES}"
            )));
        }
    }
    if all.is_empty() {
        return Err(content("has no certificate; a PEM file begins with -----BEGIN CERTIFICATE-----".to_owned()));
    }
    Ok(all)
}

/// The first certificate of a PEM text, in DER.
///
/// # Errors
/// There is none.
pub fn first_certificate(pem: &[u8]) -> Result<Vec<u8>, Fault> {
    certificates(Path::new("the text"), pem).map(|all| all.into_iter().next().map_or_else(Vec::new, |der| der.to_vec()))
}

impl Files {
    /// As they lie in a directory of their own: `ca.pem`, `cert.pem`, `key.pem`.
    pub fn in_directory(directory: &Path) -> Files {
        let path = |name| directory.join(name);
        Files { authorities: path("ca.pem"), certificate: path("cert.pem"), key: path("key.pem") }
    }

    /// Reads all three.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub fn read(&self) -> Result<Held, Fault> {
        let key = load_key(&self.key)?;
        let authorities = certificates(&self.authorities, &load(&self.authorities)?)?;
        let chain = certificates(&self.certificate, &load(&self.certificate)?)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| Fault::Content {
            path: self.key.display().to_string(),
            why: format!("has no private key as PEM: {error}"),
        })?;
        Ok(Held { authorities, chain, key })
    }

    /// What changes when a file does: time, place, length and mode of each; `None` where there is none.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp([&self.authorities, &self.certificate, &self.key].map(|path| {
            let meta = std::fs::metadata(path).ok()?;
            Some([
                meta.mtime(),
                meta.mtime_nsec(),
                meta.ino().cast_signed(),
                meta.size().cast_signed(),
                i64::from(meta.mode()),
            ])
        }))
    }
}

/// See [`Files::stamp`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp([Option<[i64; 5]>; 3]);

fn line(problems: &Problems) -> String {
    let first = problems.all().first();
    first.map(|problem| format!("{}: {}", problem.file, problem.message)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::authority::{Authority, Subject};
    use crate::name::{Kind, Name};

    #[test]
    fn a_key_that_others_may_read_is_refused_by_its_id() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        std::fs::write(&path, "key").expect("written");
        for (mode, good) in
            [(0o644, false), (0o660, false), (0o604, false), (0o640, true), (0o600, true), (0o400, true)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            match load_key(&path) {
                Ok(bytes) => assert!(good && bytes == b"key", "{mode:o}"),
                Err(fault) => {
                    assert!(!good && fault.id() == "key-file-mode", "{mode:o}: {fault}");
                    assert!(fault.to_string().contains(&format!("{mode:o}")), "{fault}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let name = Name::new("c", Kind::Host, "h").expect("a name");
        let authority = Authority::new("c", 1).expect("made");
        let issued = authority.issue(&Subject::Named(name), 1).expect("issued");
        let path = |name: &str| dir.path().join(name);
        let files = Files { authorities: path("ca"), certificate: path("cert"), key: path("key") };
        let write = |name: &str, text: &str| {
            std::fs::write(path(name), text).expect("written");
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o600)).expect("set");
        };
        let fault = || files.read().err().expect("refused").to_string();
        assert!(fault().contains("/key: "), "{}", fault());
        write("key", &issued.key);
        write("ca", "nothing");
        assert!(fault().contains("/ca: has no certificate"), "{}", fault());
        write("ca", &authority.certificate());
        write("cert", &issued.certificate);
        assert_eq!(files.read().expect("good").chain.len(), 1);
        write("key", &issued.certificate);
        assert!(fault().contains("/key: has no private key"), "{}", fault());
    }
}
