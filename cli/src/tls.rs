//! `sluice tls`: a small certificate authority for a cluster that has none, and a look at certificates of any.
//!
//! How certificates are made and judged is decided in `sluice_identity`; here are directories and words.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;
use sluice_identity::authority::{Authority, AuthorityError, subject};
use sluice_identity::credentials::unix_now;
use sluice_identity::{Credentials, Files, Kind, Life};

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::table::Table;

const DAY_S: i64 = 86_400;

#[derive(Debug, Subcommand)]
pub enum TlsCmd {
    /// Make an authority: a directory with ca.pem and ca.key
    ///
    /// The key signs every certificate of the cluster: whoever has it can be any host. Keep the directory off the hosts.
    ///
    /// Example: sluice tls init --dir ca --cluster pod-a
    Init(InitArgs),
    /// Issue certificates for hosts and switches: a directory with ca.pem, cert.pem and key.pem for each
    ///
    /// Copy each directory to its machine and name the three files under `[tls]` in sluiced.toml or sluice-switch.toml. A switch
    /// process with several switches takes the certificate of one of them.
    ///
    /// Example: sluice tls issue --ca ca --host gpu-17 --host gpu-18 --switch leaf-1 --out issued
    Issue(IssueArgs),
    /// Issue certificates again for the names that they have, in place
    ///
    /// Each file is replaced whole. Daemons notice within a second and drop no session.
    ///
    /// Example: sluice tls rotate --ca ca --due issued/*
    Rotate(RotateArgs),
    /// Whose certificates these are, how long they are good, and what is wrong with them; exit 3 if anything is
    ///
    /// Example: sluice tls show /etc/sluice/tls
    Show(ShowArgs),
}

#[derive(Clone, Debug, ClapArgs)]
pub struct InitArgs {
    /// Where its files go; none may be there
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Name of the cluster, as node.cluster of its hosts
    #[arg(long, default_value = "default")]
    pub cluster: String,
    /// How long the authority is good
    #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
}

#[derive(Clone, Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("names").args(["host", "switch"]).required(true).multiple(true))]
pub struct IssueArgs {
    /// Directory of the authority
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// A host, by its node.name; again for more
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// A switch, by its name in the topology; again for more
    #[arg(long, value_name = "NAME")]
    pub switch: Vec<String>,
    /// Where a directory for each goes; none of their files may be there
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub out: PathBuf,
    /// How long the certificates are good; a warning comes when three tenths of that are left
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct RotateArgs {
    /// Directory of the authority
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// Directories with ca.pem, cert.pem and key.pem
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Only those with less than three tenths of their life left
    #[arg(long)]
    pub due: bool,
    /// How long the new certificates are good
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ShowArgs {
    /// Directories with ca.pem, cert.pem and key.pem
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
}

/// One certificate, as it is shown.
#[derive(Debug, Serialize)]
struct Row {
    directory: String,
    identity: Option<String>,
    state: &'static str,
    days_left: Option<i64>,
    expires_unix_s: Option<i64>,
    fault: Option<String>,
}

pub fn run(global: &Global, command: &TlsCmd) -> Result<ExitCode, Failure> {
    match command {
        TlsCmd::Init(args) => init(args),
        TlsCmd::Issue(args) => issue(global, args),
        TlsCmd::Rotate(args) => rotate(global, args),
        TlsCmd::Show(args) => show(global, &args.dirs),
    }
}

fn init(args: &InitArgs) -> Result<ExitCode, Failure> {
    if subject(&args.cluster, Kind::Host, "any").is_none() {
        let cluster = &args.cluster;
        return Err(Failure::input(format!("--cluster {cluster:?}: allowed are 1 to 63 characters of [a-z0-9._-]")));
    }
    make_directory(&args.dir)?;
    Authority::new(&args.cluster, args.days).and_then(|authority| authority.save(&args.dir)).map_err(failed)?;
    let (certificate, key) = Authority::files(&args.dir);
    output::print(&format!(
        "authority of cluster {}, good for {} days\n  {}  whom to believe; every host and switch gets it\n  {}  signs certificates; keep it off the hosts\n\
         next: sluice tls issue --ca {} --host NAME …\n",
        args.cluster,
        args.days,
        certificate.display(),
        key.display(),
        args.dir.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn issue(global: &Global, args: &IssueArgs) -> Result<ExitCode, Failure> {
    let authority = Authority::load(&args.ca).map_err(failed)?;
    let cluster = authority.cluster().map_err(failed)?;
    let names =
        args.host.iter().map(|name| (Kind::Host, name)).chain(args.switch.iter().map(|name| (Kind::Switch, name)));
    let mut wanted = Vec::new();
    for (kind, name) in names {
        let Some(subject) = subject(&cluster, kind, name) else {
            return Err(Failure::input(format!("--{kind} {name:?}: allowed are 1 to 63 characters of [a-z0-9._-]")));
        };
        let directory = args.out.join(name);
        let files = Files::in_directory(&directory);
        let there =
            [&files.authorities, &files.certificate, &files.key].into_iter().find(|p| p.symlink_metadata().is_ok());
        if let Some(path) = there {
            let path = path.display();
            let failure = Failure::failed(format!("{path} is there already and is not overwritten"));
            return Err(failure.with_help("sluice tls rotate issues it again for the name that it has"));
        }
        wanted.push((subject, directory, files));
    }
    let mut directories = Vec::new();
    for (subject, directory, files) in wanted {
        make_directory(&directory)?;
        authority.issue(&subject, args.days).and_then(|issued| issued.write(&files)).map_err(failed)?;
        directories.push(directory);
    }
    show(global, &directories)
}

fn rotate(global: &Global, args: &RotateArgs) -> Result<ExitCode, Failure> {
    let authority = Authority::load(&args.ca).map_err(failed)?;
    let mut done = Vec::new();
    for directory in &args.dirs {
        let files = Files::in_directory(directory);
        let standing = Credentials::open(files.clone()).standing();
        let Some(own) = standing.own else {
            let fault = standing.fault.map(|fault| fault.to_string()).unwrap_or_default();
            return Err(Failure::input(format!("{}: {fault}", directory.display())));
        };
        if args.due && standing.life == Some(Life::Good) {
            continue;
        }
        let Some(name) = sluice_identity::Name::parse(&own) else {
            let directory = directory.display();
            return Err(Failure::input(format!(
                "{directory}: the certificate is that of {own}; only names spiffe://… are issued again"
            )));
        };
        let subject = sluice_identity::authority::Subject::Named(name);
        authority.issue(&subject, args.days).and_then(|issued| issued.write(&files)).map_err(failed)?;
        done.push(directory.clone());
    }
    show(global, &done)
}

fn show(global: &Global, directories: &[PathBuf]) -> Result<ExitCode, Failure> {
    let rows: Vec<Row> = directories.iter().map(|directory| look(directory)).collect();
    let table = || {
        let mut table = Table::new(["DIRECTORY", "IDENTITY", "STATE", "DAYS LEFT"].map(str::to_owned));
        for row in &rows {
            let days = row.days_left.map_or_else(|| "-".to_owned(), |days| days.to_string());
            let identity = row.identity.clone().unwrap_or_else(|| "-".to_owned());
            table.row(vec![row.directory.clone(), identity, row.state.to_owned(), days]);
        }
        let faults = rows.iter().filter_map(|row| row.fault.as_ref()).map(|fault| format!("{fault}\n"));
        table.render(output::width()) + &faults.collect::<String>()
    };
    output::list(global, "certificates", &rows, table)?;
    let good = rows.iter().all(|row| row.fault.is_none() && row.state != "over");
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn look(directory: &Path) -> Row {
    let standing = Credentials::open(Files::in_directory(directory)).standing();
    let state = match (&standing.life, &standing.fault) {
        (_, Some(_)) => "unusable",
        (Some(Life::Good), None) => "good",
        (Some(Life::Soon), None) => "expires soon",
        (Some(Life::Over), None) => "over",
        (None, None) => "none",
    };
    Row {
        directory: directory.display().to_string(),
        identity: standing.own,
        state,
        days_left: standing.not_after.map(|at| at.saturating_sub(unix_now()).div_euclid(DAY_S)),
        expires_unix_s: standing.not_after,
        fault: standing.fault.map(|fault| fault.to_string()),
    }
}

/// Makes it if it is not there, for its owner and group only.
fn make_directory(directory: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(directory);
    made.map_err(|error| Failure::failed(format!("{}: {error}", directory.display())))
}

fn failed(error: AuthorityError) -> Failure {
    match error {
        AuthorityError::Fault(fault) => Failure::input(fault),
        other => Failure::failed(other),
    }
}
