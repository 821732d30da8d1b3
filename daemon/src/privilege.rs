//! Who does what takes privileges: this process, or with `privilege.split` a helper, so that the process that speaks to the
//! network has none. `docs/privileges.md` says what either may.
//!
//! | module | is |
//! | --- | --- |
//! | [`message`] | what brain and helper say to each other |
//! | [`mod@line`] | how it gets there, with descriptors and with what is longer |
//! | [`rows`] | sockets in such memory |
//! | `eyes` | seeing what takes privileges |
//! | `remote` | the brain's side |
//! | `helper` | the helper |
//! | `calls` | the system calls of each |
//! | `confine` | giving privileges up, and the filters of system calls |
//! | [`start`] | becoming two |
//! | [`tried`] | trying what the brain may not do |

#![allow(missing_docs, reason = "public for this workspace's tests and fuzz targets only")]

pub mod calls;
mod confine;
pub(crate) mod eyes;
mod helper;
pub mod line;
pub mod message;
mod remote;
pub mod rows;
pub mod start;
pub mod tried;

use std::sync::Arc;

use sluice_ebpf::sysctl::{self, Applied, Change};
use sluice_ebpf::{Error, Kernel, Opened, Options};

use eyes::SharedEyes;
use remote::FarEyes;
pub use remote::Helper;

/// What takes privileges, by whoever has them.
#[derive(Clone, Debug, Default)]
pub struct Powers {
    /// `None`: this process.
    helper: Option<Arc<Helper>>,
}

impl Powers {
    /// This helper's.
    pub fn of(helper: Arc<Helper>) -> Powers {
        Powers { helper: Some(helper) }
    }

    /// Has another process the privileges?
    pub fn are_split(&self) -> bool {
        self.helper.is_some()
    }

    /// As [`Kernel::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, options: &Options) -> Result<Opened, Error> {
        match &self.helper {
            Some(helper) => helper.open(options),
            None => Kernel::open(options),
        }
    }

    /// Eyes for the deciding loop.
    pub fn eyes(&self) -> SharedEyes {
        match &self.helper {
            Some(helper) => Arc::new(FarEyes::deciding(helper)),
            None => eyes::own(),
        }
    }

    /// Eyes for who looks beside it.
    pub fn others_eyes(&self) -> SharedEyes {
        match &self.helper {
            Some(helper) => Arc::new(FarEyes::looking(helper)),
            None => eyes::own(),
        }
    }

    /// Does as [`sysctl::apply`], later.
    pub fn setter(&self) -> impl FnOnce() -> Applied + Send + 'static + use<> {
        let helper = self.helper.clone();
        move || helper.map_or_else(sysctl::apply, |helper| helper.set_sysctls())
    }

    /// Does as [`sysctl::restore`], later.
    pub fn restorer(&self) -> impl FnOnce(&[Change]) -> Vec<String> + Send + 'static + use<> {
        let helper = self.helper.clone();
        move |changes| match helper {
            Some(helper) => helper.restore_sysctls(changes),
            None => sysctl::restore(changes),
        }
    }
}
