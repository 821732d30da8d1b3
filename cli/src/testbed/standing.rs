//! `sluice testbed up`, `down` and `exec`: a scenario's network that stands, and commands in its hosts.

use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use sluice_testbed::run::RunPlan;
use sluice_testbed::standing::{self, Standing, StandingError};
use sluice_wire::snapshot::SCHEMA;

use super::args::{DownArgs, ExecArgs, KeepArgs, UpArgs};
use super::{load, needs_root};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::output;
use crate::table::Table;

/// For the keeper to build a network.
const BUILD: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of what a keeper says that are told on.
const MAX_SAID: u64 = 64 << 10;

impl From<StandingError> for Failure {
    fn from(error: StandingError) -> Failure {
        match error {
            StandingError::Name(_) | StandingError::Node { .. } => Failure::input(error),
            StandingError::Up { .. } | StandingError::Down { .. } => Failure::no(format!("error: {error}")),
            _ => Failure::failed(error),
        }
    }
}

/// Starts a keeper and waits until the network is there.
pub fn up(global: &Global, args: &UpArgs) -> Result<ExitCode, Failure> {
    let (scenario, _) = load(&args.scenario, &[])?;
    needs_root()?;
    let name = args.name.clone().unwrap_or_else(|| scenario.name.clone());
    if let Ok(other) = standing::find(&args.dir, &name) {
        return Err(StandingError::Up { name, pid: other.pid }.into());
    }
    let program = std::env::current_exe()?;
    let mut keeper = Command::new(program)
        .args(["testbed", "keep", "--name", &name, "--dir"])
        .arg(&args.dir)
        .arg(&args.scenario)
        .args(args.no_delays.then_some("--no-delays"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let began = Instant::now();
    let standing = loop {
        if let Ok(standing) = standing::find(&args.dir, &name) {
            break standing;
        }
        let ended = keeper.try_wait()?;
        if ended.is_some() || began.elapsed() > BUILD {
            // Its network, if there is any, ends with it.
            let _ = keeper.kill();
            let status = keeper.wait()?;
            let mut said = String::new();
            if let Some(stderr) = keeper.stderr.take() {
                let _ = stderr.take(MAX_SAID).read_to_string(&mut said); // Without it the message is only shorter.
            }
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            let said = said.trim().trim_start_matches("error: ");
            return Err(Failure::with(
                code,
                if said.is_empty() { "the network was not built within its time" } else { said },
            ));
        }
        std::thread::sleep(LOOK);
    };
    if !global.quiet {
        let value = json!({ "schema": SCHEMA, "network": standing });
        output::one(global, &value, || told(&standing))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn told(standing: &Standing) -> String {
    let mut table = Table::new(["NODE", "ADDRESS", "MANAGEMENT"]);
    for node in standing.hosts.iter().chain(&standing.switches) {
        table.row(vec![node.name.clone(), node.address.clone(), node.management.clone()]);
    }
    let name = &standing.name;
    format!(
        "{}{name} is up, kept by process {}\n  next: sluice testbed exec {name} NODE -- COMMAND, then sluice testbed down {name}\n",
        table.render(output::width()),
        standing.pid
    )
}

/// What `up` starts: it stays until it is told to end.
pub fn keep(args: &KeepArgs) -> Result<ExitCode, Failure> {
    // Out of the terminal's reach: its Ctrl-C is for what runs there.
    let _ = nix::unistd::setsid();
    let (scenario, _) = load(&args.scenario, &[])?;
    let mut spec = RunPlan::of(&scenario).map_err(Failure::failed)?.fabric;
    if args.no_delays {
        spec.relays = None;
    }
    standing::keep(&args.dir, &args.name, spec, interrupt::flag())?;
    Ok(ExitCode::SUCCESS)
}

/// Ends a keeper, or says which there are.
pub fn down(global: &Global, args: &DownArgs) -> Result<ExitCode, Failure> {
    let Some(name) = &args.name else {
        let all = standing::all(&args.dir);
        output::list(global, "networks", &all, || {
            let mut table = Table::new(["NETWORK", ">HOSTS", ">SWITCHES", ">PROCESS"]);
            for one in &all {
                let counts = [one.hosts.len().to_string(), one.switches.len().to_string(), one.pid.to_string()];
                table.row(std::iter::once(one.name.clone()).chain(counts).collect());
            }
            if all.is_empty() { "no network is up\n".into() } else { table.render(output::width()) }
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    needs_root()?;
    let gone = standing::take_down(&args.dir, name)?;
    if !global.quiet {
        let value = json!({ "schema": SCHEMA, "network": name, "down": true });
        output::one(global, &value, || {
            format!("{name} is down: {} hosts, {} switches\n", gone.hosts.len(), gone.switches.len())
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes the command, in the host's namespace and cgroup.
pub fn exec(args: &ExecArgs) -> Result<ExitCode, Failure> {
    needs_root()?;
    let standing = standing::find(&args.dir, &args.network)?;
    let node = standing.node(&args.node)?;
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::input("no command; as in: sluice testbed exec pair h0 -- ip address"));
    };
    Err(standing.exec(node, Command::new(program).args(rest)).into())
}
