//! Values of graphs on the disk, so that what was computed once is not computed again.

use std::path::PathBuf;

use sluice_planners::direct::finder::Values;

use crate::failure::Failure;
use crate::plan::args::FindTopologyArgs;
use crate::plan::files;

/// Bytes of the file at most.
const MAX_BYTES: u64 = 64_000_000;

/// The file, if there is to be one.
pub struct Cache {
    path: Option<PathBuf>,
    /// Nobody asked for the file, so it is no failure if it cannot be written.
    own: bool,
    /// Values of shares are in it that it may not have yet.
    merged: bool,
}

impl Cache {
    /// Reads what the file has into `values`; what cannot be read is said, and computed anew.
    pub fn open(args: &FindTopologyArgs, values: &mut Values) -> Cache {
        let path = match &args.cache {
            _ if args.no_cache => None,
            Some(path) => Some(path.clone()),
            None => of_user(),
        };
        for path in path.as_ref().filter(|path| path.exists()).into_iter().chain(&args.merge) {
            let name = path.display();
            match files::read(path, MAX_BYTES).map(String::from_utf8) {
                Ok(Ok(text)) => {
                    if let Err(stale) = values.take(&text) {
                        eprintln!("warning: {name}: {stale}");
                    }
                }
                Ok(Err(_)) => eprintln!("warning: {name}: not a text; the values in it will be computed anew"),
                Err(errors) => eprintln!("warning: {errors}"),
            }
        }
        Cache { path, own: args.cache.is_none(), merged: !args.merge.is_empty() }
    }

    /// Writes all values, if any were computed.
    pub fn keep(&self, values: &Values) -> Result<(), Failure> {
        let Some(path) = self.path.as_deref().filter(|_| values.computed() > 0 || self.merged) else { return Ok(()) };
        if let Some(dir) = path.parent().filter(|_| self.own) {
            // Where the directory cannot be made, the file cannot be written either.
            let _ = std::fs::create_dir_all(dir);
        }
        match files::write(path, &values.to_text()) {
            Err(failure) if self.own => {
                eprintln!("warning: {failure}");
                Ok(())
            }
            other => other,
        }
    }
}

/// `sluice/graph-values` in the user's directory for caches.
fn of_user() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("sluice/graph-values"))
}
