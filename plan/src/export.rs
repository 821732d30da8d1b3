//! Exporters: a plan as a program for a runtime, as a list of trees, or as a picture.
//!
//! | format | is |
//! | --- | --- |
//! | `msccl-xml` | an MSCCL program; [`crate::interpret`] executes it |
//! | `oneccl-xml` | instructions per rank, for processors; [`crate::interpret`] executes them too |
//! | `forest-json` | the forests alone, all-reduce as two files |
//! | `tree-xml` | the trees one by one, edges in breadth-first order |
//! | `teccl-json` | the sends alone, with numbers for nodes |
//! | `dot`, `svg` | pictures |
//! | `html` | a page with a slider over epochs |
//!
//! Plans of kind `trees` are exported in all but `oneccl-xml`, `teccl-json` and `html`, plans of kind `steps` and `sends` in
//! both kinds of program and as pictures, those of `sends` as `teccl-json` and `html` too. The same plan and options give the same bytes.

mod forest_json;
mod grow;
mod lower;
mod messages;
mod msccl;
mod oneccl;
mod picture;
mod rails;
mod sends;
mod timed_steps;
mod tree_xml;

use crate::check::{Violation, check};
use crate::plan::{Collective, Content, Plan, Sends, Steps, Trees};
use sluice_formats::json::words;
use sluice_formats::problem::{Code, Problem, Problems};
pub use sluice_formats::problem::{INTERNAL_INVARIANT, UNSUPPORTED_FIELD};
use sluice_formats::topology::Topology;

/// The program would need more channels, blocks or steps than the runtime has.
pub const XML_LIMIT_EXCEEDED: Code = "XML_LIMIT_EXCEEDED";
/// The plan does not pass the checker, so that a program made of it would be wrong too.
pub const PLAN_REFUSED: Code = "PLAN_REFUSED";

words! {
    /// A format that plans are written in.
    pub enum Format {
        /// A graph for Graphviz.
        Dot = "dot",
        /// The forests alone, one file each.
        ForestJson = "forest-json",
        /// A page with a slider over epochs.
        Html = "html",
        /// A program for MSCCL.
        MscclXml = "msccl-xml",
        /// Instructions per rank, for oneCCL.
        OnecclXml = "oneccl-xml",
        /// A picture, one self-contained SVG.
        Svg = "svg",
        /// The sends alone, as JSON with numbers for nodes.
        TecclJson = "teccl-json",
        /// The trees one by one.
        TreeXml = "tree-xml",
    }
}

impl Format {
    /// Whether it is to be looked at: pictures show a wrong plan as it is, everything else is refused for one.
    pub const fn is_picture(self) -> bool {
        matches!(self, Format::Dot | Format::Html | Format::Svg)
    }
}

words! {
    /// Whose words MSCCL XML is written in.
    pub enum Dialect {
        /// MSCCL: `reduce_scatter`.
        Msccl = "msccl",
        /// RCCL: `reducescatter`.
        Rccl = "rccl",
    }
}

words! {
    /// The protocol that a program asks the runtime's transport for.
    pub enum Protocol {
        /// Low latency.
        Ll = "LL",
        /// Low latency, 128 bytes at a time.
        Ll128 = "LL128",
        /// Full bandwidth.
        Simple = "Simple",
    }
}

words! {
    /// What colours of a picture mean.
    pub enum Colour {
        /// How busy a link is.
        Load = "load",
        /// Which tree it is.
        Tree = "tree",
    }
}

/// What the caller may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// MSCCL: programs side by side, each with a part of every tree's data.
    pub instances: u32,
    /// MSCCL: whose words collectives are named by.
    pub dialect: Dialect,
    /// MSCCL: the protocol that the program asks the transport for.
    pub protocol: Protocol,
    /// MSCCL: refuse what no runtime can run; without, only the interpreter can.
    pub limits: bool,
    /// MSCCL: the size in bytes up to which the runtime takes the program. Some of its paths take 0 for no limit, that of
    /// the all-to-all for never.
    pub max_bytes: u64,
    /// MSCCL, steps: parts of one step over one link that do not lie together are packed, sent as one and unpacked; else each
    /// is a message of its own.
    pub consolidate: bool,
    /// Pictures: only this tree, counted over all forests.
    pub tree: Option<usize>,
    /// Pictures: what colours mean; by tree where there are few.
    pub colour: Option<Colour>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            instances: 1,
            dialect: Dialect::Msccl,
            protocol: Protocol::Simple,
            limits: true,
            max_bytes: 1 << 40,
            consolidate: false,
            tree: None,
            colour: None,
        }
    }
}

/// Something the reader should know about what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable word for programs, such as `SwitchCopyLowered`.
    pub code: &'static str,
    /// What the reader should know, in a sentence.
    pub message: String,
}

impl Warning {
    fn switch_copy_lowered() -> Warning {
        let message = "switches copy or add up in this plan, which the format cannot say: ranks do it instead, and links \
                       carry more than the plan claims";
        Warning { code: "SwitchCopyLowered", message: message.into() }
    }
}

/// A file of an export, not on the disk yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What tells it from the other files of the same export; empty where there is only one.
    pub part: &'static str,
    /// The file's whole text.
    pub text: String,
}

/// What an export gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The files: one, of an all-reduce as `forest-json` two.
    pub files: Vec<Exported>,
    /// What the reader should know.
    pub warnings: Vec<Warning>,
}

impl Export {
    fn one(text: String, warnings: Vec<Warning>) -> Export {
        Export { files: vec![Exported { part: "", text }], warnings }
    }
}

/// Writes a plan in another format, for `topology`, whose digest must be the plan's, or the one it carries.
///
/// # Errors
/// `UNSUPPORTED_FIELD` for kinds of plan that cannot be exported; `PLAN_REFUSED` with the checker's words for a plan
/// that is wrong, except in pictures and `forest-json`, which show a wrong plan as it is; `XML_LIMIT_EXCEEDED` for
/// every limit of the runtime that a program exceeds; `E_RANGE` for options out of range.
pub fn export(plan: &Plan, topology: Option<&Topology>, format: Format, options: &Options) -> Result<Export, Problems> {
    let kind = plan.body.content.kind().word();
    let program = matches!(format, Format::MscclXml | Format::OnecclXml);
    let fits = match &plan.body.content {
        Content::Trees(_) => !matches!(format, Format::OnecclXml | Format::TecclJson | Format::Html),
        Content::Steps(_) => program || matches!(format, Format::Dot | Format::Svg),
        Content::Sends(_) => !matches!(format, Format::ForestJson | Format::TreeXml),
        _ => false,
    };
    if !fits {
        let message = format!("plans of this kind are not exported as {}", format.word());
        let error = Problem::new(UNSUPPORTED_FIELD, "/content/kind", message).found(kind);
        let allowed = match format {
            Format::MscclXml | Format::Dot | Format::Svg => "trees, steps, sends",
            Format::OnecclXml => "steps, sends",
            Format::TecclJson | Format::Html => "sends",
            _ => "trees",
        };
        return Err(error.allowed(allowed).into());
    }
    // A picture shows any trees; whoever else reads them takes it that each reaches everybody.
    let pictures = matches!(format, Format::Dot | Format::Svg | Format::Html);
    if plan.body.collective == Collective::Custom && matches!(plan.body.content, Content::Trees(_)) && !pictures {
        let message = format!("trees of demands are not exported as {}", format.word());
        let error = Problem::new(UNSUPPORTED_FIELD, "/collective", message).found("custom");
        return Err(error.allowed("a collective of trees; pictures take any").into());
    }
    if let (Content::Trees(trees), Format::ForestJson) = (&plan.body.content, format) {
        return Ok(forest_json::write(plan, trees));
    }
    let built;
    let topology = match topology {
        Some(topology) => topology,
        None => {
            built = topology_of(plan)?;
            &built
        }
    };
    match (&plan.body.content, format) {
        (Content::Trees(trees), Format::Dot | Format::Svg) => {
            Ok(Export::one(picture::of_trees(plan, topology, trees, format, options)?, Vec::new()))
        }
        (Content::Steps(steps), Format::Dot | Format::Svg) => {
            Ok(Export::one(picture::of_steps(plan, topology, steps, format, options)?, Vec::new()))
        }
        (Content::Sends(sends), Format::Dot | Format::Svg | Format::Html) => {
            Ok(Export::one(picture::of_sends(plan, topology, sends, format, options)?, Vec::new()))
        }
        (Content::Sends(sends), _) => of_sends(plan, topology, sends, format, options),
        (Content::Trees(trees), _) => programs(plan, topology, trees, format, options),
        (Content::Steps(steps), _) => programs_of_steps(plan, topology, steps, format, options),
        // Refused above.
        _ => Err(Problem::new(UNSUPPORTED_FIELD, "/content/kind", "this kind of plan is not exported").into()),
    }
}

/// The topology that a plan carries.
///
/// # Errors
/// `PLAN_REFUSED` where it carries none; what is wrong with it.
pub fn topology_of(plan: &Plan) -> Result<Topology, Problems> {
    let Some(file) = &plan.body.topology.inline else {
        let error = Problem::new(PLAN_REFUSED, "/topology/inline", "the plan carries no topology");
        return Err(error.help("give it with --topology").into());
    };
    Topology::build((**file).clone(), "")
}

/// What somebody will execute must come from a plan that is right.
fn right(plan: &Plan, topology: &Topology) -> Result<(), Problems> {
    check(plan, Some(topology)).violation.map_or(Ok(()), |violation| Err(refused(&violation)))
}

/// What the checker says, as the reason for not exporting.
pub(crate) fn refused(violation: &Violation) -> Problems {
    let error = Problem::new(PLAN_REFUSED, violation.at.clone(), "the plan does not pass the checker");
    let found = format!("{}: {}", violation.code.word(), violation.message);
    error.found(found).help("look at it with `sluice plan check`").into()
}

fn of_sends(
    plan: &Plan,
    topology: &Topology,
    sends: &Sends,
    format: Format,
    options: &Options,
) -> Result<Export, Problems> {
    right(plan, topology)?;
    if format == Format::TecclJson {
        return Ok(Export::one(sends::json(plan, topology, sends)?, Vec::new()));
    }
    of_messages(plan, topology, sends::messages(plan, topology, sends)?, format, options)
}

fn programs_of_steps(
    plan: &Plan,
    topology: &Topology,
    steps: &Steps,
    format: Format,
    options: &Options,
) -> Result<Export, Problems> {
    right(plan, topology)?;
    let lowered = match steps.step_length {
        None => sends::Lowered { messages: messages::messages(plan, topology, steps)?, lossy: false },
        Some(_) => timed_steps::messages(plan, topology, steps)?,
    };
    of_messages(plan, topology, lowered, format, options)
}

/// A program, for MSCCL or oneCCL, that carries these messages.
fn of_messages(
    plan: &Plan,
    topology: &Topology,
    lowered: sends::Lowered,
    format: Format,
    options: &Options,
) -> Result<Export, Problems> {
    let sends::Lowered { messages, lossy } = lowered;
    let mut warnings = if lossy { vec![Warning::switch_copy_lowered()] } else { Vec::new() };
    if format == Format::OnecclXml {
        return Ok(Export::one(oneccl::write(&msccl::name(plan, topology), &messages), warnings));
    }
    let written = msccl::write_steps(plan, topology, &messages, options)?;
    warnings.extend(written.warnings);
    Ok(Export::one(written.text, warnings))
}

fn programs(
    plan: &Plan,
    topology: &Topology,
    trees: &Trees,
    format: Format,
    options: &Options,
) -> Result<Export, Problems> {
    right(plan, topology)?;
    let lowered = lower::lower(plan, topology, trees)?;
    let mut warnings = if lowered.lossy { vec![Warning::switch_copy_lowered()] } else { Vec::new() };
    match format {
        // Trees are written with their paths, and switches that copy are nodes of them: only hops are lost.
        Format::TreeXml => {
            let hops = trees.forests.iter().flat_map(|forest| &forest.trees).any(|tree| tree.hops.is_some());
            let warnings = if hops { warnings } else { Vec::new() };
            Ok(Export::one(tree_xml::write(plan, topology, trees, &lowered)?, warnings))
        }
        _ => {
            let written = msccl::write(plan, topology, &lowered, options)?;
            warnings.extend(written.warnings);
            Ok(Export::one(written.text, warnings))
        }
    }
}
