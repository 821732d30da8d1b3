//! What is in force of an identity's files now, and the watch on them.
//!
//! Files that changed are put in force for the connections that begin from then on; those that live go on. Files that
//! cannot be used change nothing: what was in force stays, and what is wrong is told until it is mended. Nothing here keeps
//! a process from starting, since files may come later than it does.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files::{Fault, Files, Stamp};
use crate::tls::Sides;

/// The files are looked at this often.
const LOOK: Duration = Duration::from_secs(1);

/// How long a certificate is good yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// For more than three tenths of its life.
    Good,
    /// For less than that.
    Soon,
    /// No longer; or its time has not come.
    Over,
}

impl Life {
    /// Of a certificate that is good between these seconds since 1970.
    pub fn at(now: i64, not_before: i64, not_after: i64) -> Life {
        let (whole, left) = (i128::from(not_after) - i128::from(not_before), i128::from(not_after) - i128::from(now));
        if left < 0 || now < not_before {
            Life::Over
        } else if left * 10 < whole * 3 {
            Life::Soon
        } else {
            Life::Good
        }
    }
}

/// How an identity stands, for status, conditions and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whose certificate is in force; `None`: there is none.
    pub own: Option<String>,
    /// How long it is good; `None`: there is none.
    pub life: Option<Life>,
    /// It is good until then, in seconds since 1970.
    pub not_after: Option<i64>,
    /// What is wrong with the files; what was in force before stays.
    pub fault: Option<Fault>,
    /// How often files were put in force.
    pub read: u64,
}

/// The files of an identity and what is in force of them; connections take it as it is when they begin.
#[derive(Debug)]
pub struct Credentials {
    files: Files,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    sides: Option<Arc<Sides>>,
    fault: Option<Fault>,
    stamp: Stamp,
    read: u64,
}

impl Credentials {
    /// Reads the files; what is wrong with them is in [`Credentials::standing`].
    pub fn open(files: Files) -> Arc<Credentials> {
        let credentials = Credentials { files, state: RwLock::default() };
        credentials.look();
        Arc::new(credentials)
    }

    /// Where the files lie.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// What connections that begin now are made of; `None`: there is nothing.
    pub fn sides(&self) -> Option<Arc<Sides>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).sides.clone()
    }

    /// How it stands now.
    pub fn standing(&self) -> Standing {
        self.standing_at(unix_now())
    }

    fn standing_at(&self, now: i64) -> Standing {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let own = state.sides.as_ref().map(|sides| &sides.own);
        Standing {
            own: own.map(ToString::to_string),
            life: own.map(|own| Life::at(now, own.not_before, own.not_after)),
            not_after: own.map(|own| own.not_after),
            fault: state.fault.clone(),
            read: state.read,
        }
    }

    /// Reads the files again if any changed since they were read last, or could not be used; true: others are in force.
    pub fn look(&self) -> bool {
        let stamp = self.files.stamp();
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if state.stamp == stamp && (state.sides.is_some() || state.fault.is_some()) {
                return false;
            }
        }
        let read = Sides::read(&self.files);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // Files that changed while they were read are read once more the next time.
        state.stamp = stamp;
        match read {
            Ok(sides) => {
                (state.sides, state.fault) = (Some(Arc::new(sides)), None);
                state.read += 1;
                true
            }
            Err(fault) => {
                state.fault = Some(fault);
                false
            }
        }
    }

    /// Looks at the files every second for ever, and tells how they stand each time.
    pub async fn watch(self: Arc<Self>, mut told: impl FnMut(&Standing, bool)) {
        loop {
            let looking = self.clone();
            // A file system that does not answer must hold nobody up.
            let changed = tokio::task::spawn_blocking(move || looking.look()).await.unwrap_or(false);
            told(&self.standing(), changed);
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Seconds since 1970.
pub fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Authority, Subject};
    use crate::name::{Kind, Name};

    #[test]
    fn life_ends_soon_when_three_tenths_are_left() {
        for (now, life) in [
            (-1, Life::Over),
            (0, Life::Good),
            (700, Life::Good),
            (701, Life::Soon),
            (1000, Life::Soon),
            (1001, Life::Over),
        ] {
            assert_eq!(Life::at(now, 0, 1000), life, "{now}");
        }
        assert_eq!(Life::at(i64::MAX, i64::MIN, i64::MAX), Life::Soon);
    }

    #[test]
    fn files_that_come_later_and_change_are_taken_and_bad_ones_change_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::new("c", 1).expect("made");
        let path = |name: &str| dir.path().join(name);
        let files = Files { authorities: path("ca.pem"), certificate: path("cert.pem"), key: path("key.pem") };
        let credentials = Credentials::open(files.clone());
        assert!(credentials.sides().is_none());
        assert!(credentials.standing().fault.is_some_and(|fault| fault.to_string().contains("key.pem")));
        let name = |id: &str| Subject::Named(Name::new("c", Kind::Host, id).expect("a name"));
        let issue = |id: &str| authority.issue(&name(id), 1).and_then(|issued| issued.write(&files)).expect("written");
        issue("h0");
        assert!(credentials.look() && !credentials.look(), "read once");
        let standing = credentials.standing();
        assert_eq!((standing.own.as_deref(), standing.life), (Some("spiffe://c/host/h0"), Some(Life::Good)));
        std::fs::write(path("cert.pem"), "rotten").expect("written");
        assert!(!credentials.look());
        let standing = credentials.standing();
        assert_eq!(standing.own.as_deref(), Some("spiffe://c/host/h0"), "what was in force stays");
        assert!(standing.fault.is_some());
        issue("h1");
        assert!(credentials.look());
        assert_eq!(credentials.standing().own.as_deref(), Some("spiffe://c/host/h1"));
        assert_eq!((credentials.standing().fault, credentials.standing().read), (None, 2));
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::new("c", 1).expect("made");
        let path = |name: &str| dir.path().join(name);
        let files = Files { authorities: path("ca.pem"), certificate: path("cert.pem"), key: path("key.pem") };
        let name = Subject::Named(Name::new("c", Kind::Host, "h0").expect("a name"));
        let other = authority.issue(&name, 1).expect("issued");
        authority.issue(&name, 1).and_then(|issued| issued.write(&files)).expect("written");
        std::fs::write(&files.certificate, &other.certificate).expect("written");
        let fault = Credentials::open(files).standing().fault.expect("refused");
        assert!(fault.to_string().contains("cert.pem"), "{fault}");
    }
}
