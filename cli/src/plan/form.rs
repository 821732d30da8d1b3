//! Fabrics in any form: topology.json, or what other people write.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use sluice_formats::problem::{E_KEY, E_LIMIT, E_PARSE, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::quantity::CapacityUnit;
use sluice_formats::topology::import::{self, Edges, Ends, Speeds};
use sluice_formats::topology::{Kind, Topology};
use sluice_plan::plan::{Collective, TOO_LARGE};
use sluice_planners_wan::from_topology::Wanted;
use sluice_planners_wan::import as wan;

use super::command::Command;
use super::files;
use crate::words::word;

/// Bytes of a topology or a form at most.
const MAX_BYTES: u64 = 64_000_000;

/// Where help lists what the forms leave open.
const FORMS: &str = "For other forms";

/// A form other than topology.json.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// JSON with compute, switches, edges
    Forestcoll,
    /// Internet Topology Zoo
    Graphml,
    /// The matrix that `nvidia-smi topo -m` prints
    NvidiaSmi,
    /// Text, `from to capacity [latency]` per line
    Edges,
    /// JSON of TE-CCL: numbered nodes, links in groups
    Teccl,
    /// JSON of fluid programs: vertices, edges, groups, origins, destinations
    Fluid,
    /// JSON of wide-area allocation: numbered nodes, links in MB/s, flows in MB
    Wan,
}

/// A fabric, and what its form says that a topology has no place for.
#[derive(Clone, Debug)]
pub struct Read {
    pub topology: Topology,
    /// Who has data and who ends with it.
    pub ends: Ends,
    /// The flows of collectives.
    pub flows: Option<Wanted>,
}

/// The fabric that a planner plans for.
#[derive(Clone, Debug, ClapArgs)]
pub struct FabricArgs {
    /// The fabric: topology.json, or the form that --form names; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub topology: PathBuf,
    /// Read the fabric in another form than topology.json
    #[arg(long, value_enum, value_name = "FORM")]
    pub form: Option<Form>,
    #[command(flatten)]
    pub forms: FormArgs,
}

impl FabricArgs {
    /// What the file is called in messages.
    pub(super) fn name(&self) -> String {
        files::name(&self.topology)
    }
    /// The fabric, for planners of collectives in which everybody has data and ends with it.
    ///
    /// # Errors
    /// As [`Self::read_with_ends`], and a form that says anything else of who has data for whom.
    pub(super) fn read(&self) -> Result<Topology, Problems> {
        let Read { topology, ends, .. } = self.read_with_ends()?;
        if ends.are_all_of(&topology) {
            return Ok(topology);
        }
        let (key, message) = ("/destinations", "origins and destinations differ, which is nothing for this planner");
        let error = Problem::new(UNSUPPORTED_FIELD, key, message).allowed("the same vertices as in /origins");
        Err(Problems::from(error).in_file(&self.name()))
    }
    /// The fabric, and who has data for whom.
    ///
    /// # Errors
    /// A file that cannot be read, and everything that is wrong with it.
    pub(super) fn read_with_ends(&self) -> Result<Read, Problems> {
        read_all(&self.topology, self.form, &self.forms)
    }
    /// The beginning of the command line that plans on the same fabric again.
    pub(super) fn command(&self, planner: &str, of: impl Into<Option<Collective>>) -> Command {
        let mut command = Command::new(planner);
        command.add("--topology", Some(self.topology.display()));
        if let Some(form) = self.form {
            command.add("--form", Some(word(form)));
            self.forms.add_to(&mut command);
        }
        command.add("--collective", of.into().map(Collective::word));
        command
    }
}

/// The fabric of plans that are there already.
#[derive(Clone, Debug, ClapArgs)]
pub struct PlanFabricArgs {
    /// Take this topology, whose digest must be the plan's; none: the one inside the plan
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Read that topology in another form
    #[arg(long, value_enum, value_name = "FORM", requires = "topology")]
    pub form: Option<Form>,
    #[command(flatten)]
    pub forms: FormArgs,
}

impl PlanFabricArgs {
    /// The topology that was given, if one was.
    pub(super) fn read(&self) -> Result<Option<Topology>, Problems> {
        self.topology.as_ref().map(|path| read(path, self.form, &self.forms)).transpose()
    }
}

/// What the forms leave open.
#[derive(Clone, Debug, ClapArgs)]
pub struct FormArgs {
    /// Unit of the capacities (forestcoll, fluid); none: an abstract graph
    #[arg(long, help_heading = FORMS, value_name = "UNIT", value_parser = unit)]
    pub unit: Option<CapacityUnit>,
    /// Capacity of every link (graphml); none: 1, without unit
    #[arg(long, help_heading = FORMS, value_name = "CAPACITY")]
    pub capacity: Option<String>,
    /// Nodes that are switches (edges)
    #[arg(long, help_heading = FORMS, value_delimiter = ',', value_name = "A,B,C")]
    pub switches: Vec<String>,
    /// Kind of all other nodes (edges); none: gpu
    #[arg(long, help_heading = FORMS, value_name = "KIND", value_parser = kind)]
    pub kind: Option<Kind>,
    /// Link speeds by word of the matrix (nvidia-smi): nvlink=25GB/s, and pix, pxb, phb, node, sys, 32GB/s each
    #[arg(long = "speed", help_heading = FORMS, value_delimiter = ',', value_name = "WORD=CAPACITY")]
    pub speeds: Vec<String>,
    /// Switches copy what goes to several nodes (teccl)
    #[arg(long, help_heading = FORMS)]
    pub switch_copy: bool,
}

impl FormArgs {
    /// Adds what makes a command line read the same.
    fn add_to(&self, command: &mut Command) {
        command.add("--unit", self.unit.map(CapacityUnit::word));
        command.add("--capacity", self.capacity.as_ref());
        command.add_all("--switches", &self.switches);
        command.add("--kind", self.kind.map(Kind::word));
        command.add_all("--speed", &self.speeds);
        command.set("--switch-copy", self.switch_copy);
    }

    /// Refuses what says nothing about the form that is read.
    fn check(&self, form: Option<Form>) -> Result<(), Problems> {
        let given: [(&str, bool, &[Form]); 6] = [
            ("--unit", self.unit.is_some(), &[Form::Forestcoll, Form::Fluid]),
            ("--capacity", self.capacity.is_some(), &[Form::Graphml]),
            ("--switches", !self.switches.is_empty(), &[Form::Edges]),
            ("--kind", self.kind.is_some(), &[Form::Edges]),
            ("--speed", !self.speeds.is_empty(), &[Form::NvidiaSmi]),
            ("--switch-copy", self.switch_copy, &[Form::Teccl]),
        ];
        match given.into_iter().find(|(_, given, of)| *given && form.is_none_or(|form| !of.contains(&form))) {
            None => Ok(()),
            Some((flag, _, of)) => {
                let message = format!("{flag} says nothing about this form");
                let forms: Vec<String> = of.iter().map(|form| word(*form)).collect();
                Err(Problem::new(E_KEY, flag, message).allowed(format!("with the form {}", forms.join(" or "))).into())
            }
        }
    }
}

pub fn read(path: &Path, form: Option<Form>, args: &FormArgs) -> Result<Topology, Problems> {
    Ok(read_all(path, form, args)?.topology)
}

/// Reads a fabric, and what its form says besides.
///
/// # Errors
/// A file that cannot be read, everything that is wrong with it, and flags that say nothing about its form.
pub fn read_all(path: &Path, form: Option<Form>, args: &FormArgs) -> Result<Read, Problems> {
    args.check(form)?;
    let bytes = files::read(path, MAX_BYTES).map_err(|problems| match form {
        Some(Form::Wan) => too_large(problems),
        _ => problems,
    })?;
    let file = &files::name(path);
    let topology = match form {
        None => Topology::read(&bytes, file),
        Some(Form::Forestcoll) => import::forestcoll(&bytes, file, args.unit),
        Some(Form::Graphml) => import::graphml(&bytes, file, args.capacity.as_deref().unwrap_or("1")),
        Some(Form::Edges) => {
            let switches: Vec<&str> = args.switches.iter().map(String::as_str).collect();
            import::edges(&bytes, file, &Edges { kind: args.kind.unwrap_or(Kind::Gpu), switches: &switches })
        }
        Some(Form::Teccl) => import::teccl(&bytes, file, args.switch_copy),
        Some(Form::NvidiaSmi) => import::nvidia_smi(&bytes, file, &speeds(&args.speeds)?),
        Some(Form::Fluid) => {
            let (topology, ends) = import::fluid(&bytes, file, args.unit)?;
            return Ok(Read { topology, ends, flows: None });
        }
        Some(Form::Wan) => {
            let (topology, flows) = wan::read(&bytes, file)?;
            return Ok(Read { topology, ends: Ends::default(), flows: Some(flows) });
        }
    };
    Ok(Read { topology: topology?, ends: Ends::default(), flows: None })
}

/// A file beyond its bounds, under the name that wide-area allocation has for it.
pub fn too_large(problems: Problems) -> Problems {
    let renamed = |problem: Problem| match problem.code {
        E_LIMIT => Problem { code: TOO_LARGE, ..problem },
        _ => problem,
    };
    let all = problems.clone().into_all().into_iter().map(renamed).collect();
    Problems::of(all).unwrap_or(problems)
}

fn speeds(given: &[String]) -> Result<Speeds<'_>, Problems> {
    let mut speeds = Speeds::default();
    for pair in given {
        let error = || {
            let error = Problem::new(E_PARSE, "--speed", "not a link speed").found(pair);
            error.allowed("WORD=CAPACITY with nvlink, pix, pxb, phb, node or sys")
        };
        let (word, speed) = pair.split_once('=').ok_or_else(error)?;
        let place = match word.to_ascii_lowercase().as_str() {
            "nvlink" => &mut speeds.nvlink,
            "pix" => &mut speeds.pix,
            "pxb" => &mut speeds.pxb,
            "phb" => &mut speeds.phb,
            "node" => &mut speeds.node,
            "sys" => &mut speeds.sys,
            _ => return Err(error().into()),
        };
        *place = speed;
    }
    Ok(speeds)
}

fn unit(text: &str) -> Result<CapacityUnit, String> {
    CapacityUnit::parse(text).ok_or_else(|| "not a unit of capacity: GB/s, MB/s, Gbit/s, Mbit/s, GiB/s …".into())
}

fn kind(text: &str) -> Result<Kind, String> {
    let words = || Kind::ALL.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
    Kind::parse(text).ok_or_else(|| format!("not a kind of node: {}", words()))
}
