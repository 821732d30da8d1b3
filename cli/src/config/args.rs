//! The command line of `sluice config`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCmd {
    /// Judge a configuration and say everything that is wrong with it; exit 0 if it is valid, 2 if not
    ///
    /// sluiced.d/*.toml beside the file, and that of the state directory, are read after it, as the daemon does.
    ///
    /// Example: sluice config check /etc/sluice/sluiced.toml --offline
    Check(CheckArgs),
    /// What holds: in the running daemon, or by files
    ///
    /// Example: sluice config show --changed --origin
    Show(ShowArgs),
    /// Every key of sluiced.toml with its default, range and meaning, as a valid file
    ///
    /// Example: sluice config defaults > sluiced.toml
    Defaults,
    /// JSON schema of sluiced.toml, for editors and for checks of files that are generated
    ///
    /// Example: sluice config schema > sluiced.schema.json
    Schema,
    /// Every key of sluiced.toml, sluice-switch.toml and topology.json as a page of Markdown
    ///
    /// Example: sluice config reference > configuration.md
    Reference,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct CheckArgs {
    /// The configuration; none: /etc/sluice/sluiced.toml, or /etc/sluice/sluice-switch.toml with --switch
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// It is one of sluice-switch
    #[arg(long)]
    pub switch: bool,
    /// Leave out what only the host knows: interfaces, cgroups, the files that it names
    #[arg(long, conflicts_with = "switch")]
    pub offline: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ShowArgs {
    /// Only keys that begin so, as in `enforce` or `slot.length_ms`
    #[arg(value_name = "KEY")]
    pub keys: Vec<String>,
    /// By this file and the sluiced.d/*.toml beside it, without asking a daemon
    #[arg(long, env = "SLUICE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// By the files of /etc/sluice, without asking a daemon: what a start would take
    #[arg(long, conflicts_with = "config")]
    pub files: bool,
    /// Also say which file and line set each key
    #[arg(long)]
    pub origin: bool,
    /// Only keys that some file sets to something else than their default
    #[arg(long)]
    pub changed: bool,
}
