//! The name of a host or a switch, and what a certificate proves of one.

use std::fmt;

use x509_parser::extensions::GeneralName;

/// Longest name of a cluster, a host or a switch.
const LONGEST: usize = 63;
/// DNS names of a certificate that are looked at.
const MAX_DNS: usize = 16;
const SCHEME: &str = "spiffe://";

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A host, by the name of its node.
    Host,
    /// A switch, by its name in the topology.
    Switch,
}

impl Kind {
    /// The word in the name.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Switch => "switch",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// `spiffe://CLUSTER/host/ID` or `spiffe://CLUSTER/switch/ID`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The cluster.
    pub cluster: String,
    /// What it is of.
    pub kind: Kind,
    /// The host's or the switch's own name.
    pub id: String,
}

impl Name {
    /// A name of these parts; `None`: one of them is no 1 to 63 characters of `[a-z0-9._-]`.
    pub fn new(cluster: &str, kind: Kind, id: &str) -> Option<Name> {
        (plain(cluster) && plain(id)).then(|| Name { cluster: cluster.to_owned(), kind, id: id.to_owned() })
    }

    /// Reads it; `None`: it is something else.
    pub fn parse(uri: &str) -> Option<Name> {
        let (cluster, path) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let (kind, id) = path.split_once('/')?;
        let kind = match kind {
            "host" => Kind::Host,
            "switch" => Kind::Switch,
            _ => return None,
        };
        Name::new(cluster, kind, id)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name { cluster, kind, id } = self;
        write!(f, "{SCHEME}{cluster}/{kind}/{id}")
    }
}

fn plain(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(fits)
}

/// Why a certificate proves nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unnamed {
    /// It cannot be read.
    #[error("identity-unknown: the certificate cannot be read ({0}); issue it again")]
    Unreadable(String),
    /// It has several names of the kind that must be alone.
    #[error(
        "identity-unknown: the certificate has {0} names that begin with spiffe://; allowed is one: issue one certificate for each host and switch"
    )]
    Several(usize),
    /// It has a name of that kind that is not one of this project's.
    #[error(
        "identity-unknown: the certificate has the name {0:?}; allowed is spiffe://CLUSTER/host/ID or spiffe://CLUSTER/switch/ID with names of [a-z0-9._-]"
    )]
    Foreign(String),
    /// It has neither such a name nor a DNS name.
    #[error(
        "identity-unknown: the certificate names nobody; allowed is one URI name spiffe://CLUSTER/host/ID or spiffe://CLUSTER/switch/ID, or the ID as a DNS name"
    )]
    Nobody,
}

/// What a certificate proves of whoever has its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    names: Names,
    /// From then on, in seconds since 1970.
    pub not_before: i64,
    /// Until then.
    pub not_after: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    Uri(Name),
    /// At least one.
    Dns(Vec<String>),
}

impl Proven {
    /// Reads a certificate whose signature somebody else has checked.
    ///
    /// # Errors
    /// It names nobody that this project could know.
    pub fn of(certificate: &[u8]) -> Result<Proven, Unnamed> {
        let unreadable = |what: &dyn fmt::Display| Unnamed::Unreadable(printable(&what.to_string()));
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|error| unreadable(&error))?;
        let alternatives = parsed.subject_alternative_name().map_err(|error| unreadable(&error))?;
        let names = alternatives.map(|found| found.value.general_names.as_slice()).unwrap_or_default();
        let uris: Vec<&str> = names
            .iter()
            .filter_map(|name| match name {
                GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
                _ => None,
            })
            .collect();
        let names = match *uris.as_slice() {
            [uri] => Names::Uri(Name::parse(uri).ok_or_else(|| Unnamed::Foreign(printable(uri)))?),
            [] => {
                let dns = names.iter().filter_map(|name| match name {
                    GeneralName::DNSName(name) if plain(name) => Some((*name).to_owned()),
                    _ => None,
                });
                let dns: Vec<String> = dns.take(MAX_DNS).collect();
                if dns.is_empty() {
                    return Err(Unnamed::Nobody);
                }
                Names::Dns(dns)
            }
            ref several => return Err(Unnamed::Several(several.len())),
        };
        let validity = parsed.validity();
        Ok(Proven { names, not_before: validity.not_before.timestamp(), not_after: validity.not_after.timestamp() })
    }

    /// Is it this one of this cluster? A DNS name says nothing of cluster and kind, and is believed for both.
    pub fn is(&self, kind: Kind, cluster: &str, id: &str) -> bool {
        match &self.names {
            Names::Uri(name) => name.kind == kind && name.cluster == cluster && name.id == id,
            Names::Dns(names) => names.iter().any(|name| name == id),
        }
    }

    /// Is it this host of this cluster, whatever the cluster and name are called here? The refusal to tell it if not.
    ///
    /// # Errors
    /// Both names.
    pub fn check(&self, expected: &Expected) -> Result<(), Other> {
        let Expected { cluster, kind, ids } = expected;
        if ids.iter().any(|id| self.is(*kind, cluster, id)) {
            return Ok(());
        }
        Err(Other { proven: self.to_string(), expected: expected.to_string() })
    }
}

impl fmt::Display for Proven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            Names::Uri(name) => name.fmt(f),
            Names::Dns(names) => write!(f, "{} (a DNS name)", names.join(", ")),
        }
    }
}

/// Who has to be at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The cluster.
    pub cluster: String,
    /// What it is.
    pub kind: Kind,
    /// One of these: the switches of one process share its certificate.
    pub ids: Vec<String>,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        let Expected { cluster, kind, ids } = self;
        let shown: Vec<&str> = ids.iter().take(SHOWN).map(String::as_str).collect();
        let more = if ids.len() > SHOWN { format!(" or {} more", ids.len() - SHOWN) } else { String::new() };
        write!(f, "{kind} {}{more} of cluster {cluster}", shown.join(" or "))
    }
}

/// A certificate of somebody else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "identity-not-host: the certificate is that of {proven}, and {expected} is expected; each speaks for itself only"
)]
pub struct Other {
    /// Whose it is.
    pub proven: String,
    /// Whose it would have to be.
    pub expected: String,
}

/// Text from a certificate, fit for a log line.
fn printable(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    text.chars().take(100).map(fits).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::authority::{Authority, Subject};

    #[test]
    fn names_are_read_as_they_are_written_and_nothing_else_is_one() {
        for text in ["spiffe://default/host/node-1", "spiffe://c.d/switch/leaf_0.pod"] {
            assert_eq!(Name::parse(text).expect("a name").to_string(), text);
        }
        for text in [
            "",
            "spiffe://",
            "spiffe://c/host",
            "spiffe://c/host/",
            "spiffe://c/host/a/b",
            "spiffe:///host/a",
            "spiffe://c/root/a",
            "spiffe://C/host/a",
            "https://c/host/a",
            "spiffe://c/host/a?x=1",
            "spiffe://c/host/\u{202e}a",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
        assert_eq!(Name::parse(&format!("spiffe://c/host/{}", "a".repeat(64))), None);
    }

    fn proven(subject: &Subject) -> Proven {
        let issued = Authority::new("c", 1).and_then(|ca| ca.issue(subject, 1)).expect("issued");
        Proven::of(&crate::files::first_certificate(issued.certificate.as_bytes()).expect("PEM")).expect("named")
    }

    #[test]
    fn a_certificate_proves_its_name_and_no_other() {
        let host = proven(&Subject::Named(Name::new("c", Kind::Host, "h1").expect("a name")));
        assert!(host.is(Kind::Host, "c", "h1"));
        for (kind, cluster, id) in [(Kind::Switch, "c", "h1"), (Kind::Host, "d", "h1"), (Kind::Host, "c", "h2")] {
            assert!(!host.is(kind, cluster, id));
        }
        let expected = Expected { cluster: "c".into(), kind: Kind::Switch, ids: vec!["s0".into(), "s1".into()] };
        let text = host.check(&expected).expect_err("another").to_string();
        assert!(text.contains("spiffe://c/host/h1") && text.contains("switch s0 or s1 of cluster c"), "{text}");
        let by_dns = proven(&Subject::Dns("h1".into()));
        assert!(by_dns.is(Kind::Host, "anything", "h1") && !by_dns.is(Kind::Host, "c", "h2"));
        assert!(host.not_after > host.not_before);
    }

    #[test]
    fn a_certificate_of_several_or_of_nobody_proves_nothing() {
        let certificate = |subject: &Subject| {
            let issued = Authority::new("c", 1).and_then(|ca| ca.issue(subject, 1)).expect("issued");
            crate::files::first_certificate(issued.certificate.as_bytes()).expect("PEM")
        };
        let uris = |uris: &[&str]| Subject::Uris(uris.iter().map(|uri| (*uri).to_owned()).collect());
        let of = |subject: &Subject| Proven::of(&certificate(subject)).expect_err("proves nothing");
        assert_eq!(of(&uris(&["spiffe://c/host/a", "spiffe://c/host/b"])), Unnamed::Several(2));
        assert_eq!(of(&uris(&["spiffe://c/other/a"])), Unnamed::Foreign("spiffe://c/other/a".into()));
        assert_eq!(of(&uris(&["https://c/host/a"])), Unnamed::Nobody);
        assert_eq!(of(&uris(&[])), Unnamed::Nobody);
    }

    proptest! {
        /// Whatever stands in a certificate's place is refused or read, and never a panic.
        #[test]
        fn any_bytes_are_a_certificate_or_none(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = Proven::of(&bytes);
        }

        #[test]
        fn a_certificate_with_a_changed_byte_is_no_panic(at in any::<prop::sample::Index>(), to in any::<u8>()) {
            static GOOD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
            let good = GOOD.get_or_init(|| {
                let name = Subject::Named(Name::new("c", Kind::Host, "h1").expect("a name"));
                let issued = Authority::new("c", 1).and_then(|ca| ca.issue(&name, 1)).expect("issued");
                crate::files::first_certificate(issued.certificate.as_bytes()).expect("PEM")
            });
            let mut bytes = good.clone();
            bytes[at.index(good.len())] = to;
            let _ = Proven::of(&bytes);
        }

        #[test]
        fn any_text_is_a_name_or_none(text in ".{0,80}") {
            if let Some(name) = Name::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
