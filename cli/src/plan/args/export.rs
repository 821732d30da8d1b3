//! What `sluice plan export` understands: formats, and what may be chosen of each.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use sluice_plan::export;

use crate::plan::form::{Form, FormArgs};

#[derive(Clone, Debug, ClapArgs)]
pub struct ExportArgs {
    /// The plan; `-` is stdin
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// What to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// Write to this file instead of stdout; an all-reduce as forest-json is two, `F.in.json` and `F.out.json`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Export for this topology, whose digest must be the plan's; none: the one inside the plan
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Read that topology in another form
    #[arg(long, value_enum, value_name = "FORM", requires = "topology")]
    pub form: Option<Form>,
    /// Pack what one step sends over one link, where it does not lie together, and send it as one (msccl-xml, steps)
    #[arg(long)]
    pub consolidate: bool,
    /// Programs side by side, each with a part of every tree's data (msccl-xml)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub instances: u32,
    /// Whose words (msccl-xml)
    #[arg(long, value_enum, value_name = "DIALECT", default_value_t)]
    pub dialect: Dialect,
    /// The transport's protocol (msccl-xml)
    #[arg(long, value_enum, value_name = "PROTO", default_value_t)]
    pub proto: Proto,
    /// The runtime takes the program for data up to this size (msccl-xml)
    #[arg(long, value_name = "SIZE", default_value = "1TiB")]
    pub max_bytes: String,
    /// Write also what no runtime has room for; the interpreter can still run it (msccl-xml)
    #[arg(long)]
    pub no_limits: bool,
    /// Execute the program before it is written (msccl-xml, oneccl-xml)
    #[arg(long)]
    pub verify: bool,
    /// Draw only this tree, counted from 0 (dot, svg)
    #[arg(long, value_name = "N")]
    pub tree: Option<usize>,
    /// What colours mean (dot, svg); none: trees where there are few, else how busy links are
    #[arg(long, visible_alias = "color-by", value_enum, value_name = "BY")]
    pub colour: Option<ColourBy>,
    #[command(flatten)]
    pub forms: FormArgs,
}

/// What a plan is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A program for MSCCL
    MscclXml,
    /// The forests alone
    ForestJson,
    /// The trees one by one
    TreeXml,
    /// Instructions per rank, for oneCCL
    OnecclXml,
    /// A graph for Graphviz
    Dot,
    /// A picture
    Svg,
}

impl ExportFormat {
    /// The library's name for it.
    pub fn format(self) -> export::Format {
        match self {
            ExportFormat::MscclXml => export::Format::MscclXml,
            ExportFormat::OnecclXml => export::Format::OnecclXml,
            ExportFormat::ForestJson => export::Format::ForestJson,
            ExportFormat::TreeXml => export::Format::TreeXml,
            ExportFormat::Dot => export::Format::Dot,
            ExportFormat::Svg => export::Format::Svg,
        }
    }
}

/// Whose words MSCCL XML is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// reduce_scatter
    #[default]
    Msccl,
    /// reducescatter
    Rccl,
}

impl Dialect {
    /// The library's name for it.
    pub fn dialect(self) -> export::Dialect {
        match self {
            Dialect::Msccl => export::Dialect::Msccl,
            Dialect::Rccl => export::Dialect::Rccl,
        }
    }
}

/// The transport's protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Proto {
    /// Full bandwidth
    #[default]
    #[value(name = "Simple", alias = "simple")]
    Simple,
    /// Low latency
    #[value(name = "LL", alias = "ll")]
    Ll,
    /// Low latency, 128 bytes at a time
    #[value(name = "LL128", alias = "ll128")]
    Ll128,
}

impl Proto {
    /// The library's name for it.
    pub fn protocol(self) -> export::Protocol {
        match self {
            Proto::Simple => export::Protocol::Simple,
            Proto::Ll => export::Protocol::Ll,
            Proto::Ll128 => export::Protocol::Ll128,
        }
    }
}

/// What colours of a picture mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColourBy {
    /// How busy a link is
    Load,
    /// Which tree it is
    Tree,
}

impl ColourBy {
    /// The library's name for it.
    pub fn colour(self) -> export::Colour {
        match self {
            ColourBy::Load => export::Colour::Load,
            ColourBy::Tree => export::Colour::Tree,
        }
    }
}
