//! A small certificate authority, for a cluster that has none, and for tests.
//!
//! Its key and certificate are two files of one directory. It keeps no list of what it issued and takes nothing back:
//! certificates are short-lived instead, and are issued again.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use time::OffsetDateTime;

use crate::credentials::unix_now;
use crate::files::{self, Fault, Files};
use crate::name::{Kind, Name};

/// Certificates are good from a little before they are made: clocks differ.
const EARLIER_S: i64 = 300;
const DAY_S: i64 = 86_400;
/// The common name of an authority begins so; its cluster follows.
const CLUSTER: &str = "Sluice cluster ";
/// Mode of a private key.
const KEY_MODE: u32 = 0o640;
/// Mode of the authority's own key, which no daemon needs.
const AUTHORITY_KEY_MODE: u32 = 0o600;
/// Mode of a certificate.
const CERTIFICATE_MODE: u32 = 0o644;

/// Why it did not do it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A certificate cannot be made so.
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
    /// A file that is there cannot be used.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file that is there is not replaced.
    #[error("{} is there already and is never replaced; remove it first if that is meant", path.display())]
    There {
        /// The file.
        path: PathBuf,
    },
}

/// What a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A host or a switch by its name.
    Named(Name),
    /// The same by a DNS name, where no other can be had.
    Dns(String),
    /// These URI names, whatever they are: for tests of what is refused.
    Uris(Vec<String>),
}

/// A certificate with its key, and who signed it, as PEM.
#[derive(Clone)]
pub struct Issued {
    /// Whom to believe.
    pub authorities: String,
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Issued {
    /// Writes the three files, each whole or not at all; the certificate last, so that a watch that sees it sees its key.
    ///
    /// # Errors
    /// One cannot be written.
    pub fn write(&self, files: &Files) -> Result<(), AuthorityError> {
        put(&files.authorities, &self.authorities, CERTIFICATE_MODE)?;
        put(&files.key, &self.key, KEY_MODE)?;
        put(&files.certificate, &self.certificate, CERTIFICATE_MODE)
    }
}

/// An authority with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

impl Authority {
    /// A new one for a cluster, good for so many days.
    ///
    /// # Errors
    /// The cluster's name cannot stand in a certificate.
    pub fn new(cluster: &str, days: u32) -> Result<Authority, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, format!("{CLUSTER}{cluster}"));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        lives(&mut params, unix_now() - EARLIER_S, unix_now().saturating_add(i64::from(days) * DAY_S));
        let certificate = params.self_signed(&key)?.pem();
        let text = key.serialize_pem();
        Ok(Authority { issuer: Issuer::new(params, key), certificate, key: text })
    }

    /// Where the files of an authority lie in its directory: its certificate and its key.
    pub fn files(directory: &Path) -> (PathBuf, PathBuf) {
        (directory.join("ca.pem"), directory.join("ca.key"))
    }

    /// One whose files are in a directory.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(directory: &Path) -> Result<Authority, AuthorityError> {
        let (certificate_path, key_path) = Authority::files(directory);
        let text = |path: &Path, bytes: Vec<u8>| {
            let why = "is no text".to_owned();
            String::from_utf8(bytes).map_err(|_| Fault::Content { path: path.display().to_string(), why })
        };
        let key = text(&key_path, files::load_key(&key_path)?)?;
        let certificate = text(&certificate_path, files::load(&certificate_path)?)?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, KeyPair::from_pem(&key)?)?;
        Ok(Authority { issuer, certificate, key })
    }

    /// Writes its two files into a directory; none may be there.
    ///
    /// # Errors
    /// One is there already, or cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), AuthorityError> {
        let (certificate, key) = Authority::files(directory);
        if let Some(path) = [&certificate, &key].into_iter().find(|path| path.symlink_metadata().is_ok()) {
            return Err(AuthorityError::There { path: path.clone() });
        }
        put_new(&key, &self.key, AUTHORITY_KEY_MODE)?;
        put_new(&certificate, &self.certificate, CERTIFICATE_MODE)
    }

    /// The cluster that it is the authority of, as its certificate says.
    ///
    /// # Errors
    /// The certificate was made by something else.
    pub fn cluster(&self) -> Result<String, AuthorityError> {
        let der = files::first_certificate(self.certificate.as_bytes())?;
        let parsed = x509_parser::parse_x509_certificate(&der).ok();
        let name = parsed.as_ref().and_then(|(_, parsed)| parsed.subject().iter_common_name().next()?.as_str().ok());
        let cluster = name.and_then(|name| name.strip_prefix(CLUSTER)).map(str::to_owned);
        let why = "is no authority that `sluice tls init` made: it names no cluster".to_owned();
        Ok(cluster.ok_or_else(|| Fault::Content { path: "ca.pem".to_owned(), why })?)
    }

    /// Its certificate as PEM.
    pub fn certificate(&self) -> String {
        self.certificate.clone()
    }

    /// When its own certificate is over: nothing that it signed is believed after that.
    fn not_after(&self) -> Result<i64, AuthorityError> {
        let der = files::first_certificate(self.certificate.as_bytes())?;
        let end = x509_parser::parse_x509_certificate(&der).map(|(_, parsed)| parsed.validity().not_after.timestamp());
        Ok(end.map_err(|error| Fault::Content { path: "ca.pem".to_owned(), why: format!("cannot be read: {error}") })?)
    }

    /// A certificate for so many days from now, and for no longer than its own: so its end is told of in time, too.
    ///
    /// # Errors
    /// The subject cannot stand in a certificate.
    pub fn issue(&self, subject: &Subject, days: u32) -> Result<Issued, AuthorityError> {
        let now = unix_now();
        let until = now.saturating_add(i64::from(days) * DAY_S).min(self.not_after()?);
        self.issue_between(subject, now - EARLIER_S, until)
    }

    /// A certificate that is good between these seconds since 1970.
    ///
    /// # Errors
    /// The subject cannot stand in a certificate.
    pub fn issue_between(&self, subject: &Subject, from: i64, until: i64) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        let uri = |text: &str| Ok::<SanType, rcgen::Error>(SanType::URI(text.to_owned().try_into()?));
        let (names, common) = match subject {
            Subject::Named(name) => (vec![uri(&name.to_string())?], name.id.clone()),
            Subject::Dns(name) => (vec![SanType::DnsName(name.clone().try_into()?)], name.clone()),
            Subject::Uris(uris) => {
                let names: Result<Vec<SanType>, rcgen::Error> = uris.iter().map(|text| uri(text)).collect();
                (names?, "test".to_owned())
            }
        };
        params.subject_alt_names = names;
        params.distinguished_name.push(DnType::CommonName, common);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Hosts are on both sides of connections: each keeps tables of others.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        lives(&mut params, from, until);
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { authorities: self.certificate.clone(), certificate, key: key.serialize_pem() })
    }
}

/// A subject for a kind and an id of a cluster; `None`: the names are none.
pub fn subject(cluster: &str, kind: Kind, id: &str) -> Option<Subject> {
    Name::new(cluster, kind, id).map(Subject::Named)
}

fn lives(params: &mut CertificateParams, from: i64, until: i64) {
    let at = |seconds: i64| OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    (params.not_before, params.not_after) = (at(from), at(until));
}

/// Writes a file whole or not at all, in place of one that is there.
fn put(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let fail = |source| AuthorityError::Write { path: path.to_owned(), source };
    let _ = std::fs::remove_file(&new); // Left by a process of the same number that was killed.
    let written = write(&new, text, mode).and_then(|()| std::fs::rename(&new, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&new))).map_err(fail)
}

/// Writes a file that is not there.
fn put_new(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    write(path, text, mode).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => AuthorityError::There { path: path.to_owned() },
        _ => AuthorityError::Write { path: path.to_owned(), source },
    })
}

fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_certificate_does_not_outlive_who_signed_it() {
        let name = subject("c", Kind::Host, "h0").expect("a name");
        let left = |days_of_the_authority: u32| {
            let issued =
                Authority::new("c", days_of_the_authority).and_then(|made| made.issue(&name, 90)).expect("issued");
            let der = files::first_certificate(issued.certificate.as_bytes()).expect("PEM");
            crate::name::Proven::of(&der).expect("named").not_after - unix_now()
        };
        assert!((9 * DAY_S..=10 * DAY_S).contains(&left(10)), "{}", left(10));
        assert!((89 * DAY_S..=90 * DAY_S).contains(&left(100)), "{}", left(100));
    }

    #[test]
    fn an_authority_that_was_saved_issues_what_it_issued_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Authority::new("c", 10).expect("made");
        made.save(dir.path()).expect("saved");
        let (certificate, key) = Authority::files(dir.path());
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&key) & 0o077, mode(&certificate) & 0o022), (0, 0));
        let again = made.save(dir.path()).expect_err("there already").to_string();
        assert!(again.contains("never replaced"), "{again}");
        let loaded = Authority::load(dir.path()).expect("loaded");
        assert_eq!(loaded.certificate(), made.certificate());
        assert_eq!(loaded.cluster().expect("named"), "c");
        let path = |name: &str| dir.path().join(name);
        let files = Files { authorities: path("a"), certificate: path("b"), key: path("c") };
        let name = subject("c", Kind::Switch, "s0").expect("a name");
        loaded.issue(&name, 1).and_then(|issued| issued.write(&files)).expect("written");
        assert_eq!(mode(&files.key) & 0o037, 0);
        let sides = crate::tls::Sides::read(&files).expect("they go together");
        assert_eq!(sides.own.to_string(), "spiffe://c/switch/s0");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("set");
        assert!(matches!(Authority::load(dir.path()), Err(AuthorityError::Fault(Fault::KeyMode { .. }))));
    }
}
