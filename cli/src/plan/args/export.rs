//! What `sluice plan export` understands: formats, and what may be chosen of each.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use sluice_plan::export::{Colour, Dialect, Format, Protocol};

use crate::plan::form::PlanFabricArgs;
use crate::words::{Choices, choice};

#[derive(Clone, Debug, ClapArgs)]
pub struct ExportArgs {
    /// The plan; `-` is stdin
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// What to write the plan as
    #[arg(long, value_name = "FORMAT", value_parser = choice(FORMATS))]
    pub format: Format,
    /// Write to this file instead of stdout; an all-reduce as forest-json is two, `F.in.json` and `F.out.json`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub fabric: PlanFabricArgs,
    /// Pack what one step sends over one link, where it does not lie together, and send it as one (msccl-xml, steps)
    #[arg(long)]
    pub consolidate: bool,
    /// Programs side by side, each with a part of every tree's data (msccl-xml)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub instances: u32,
    /// Whose words collectives are named by (msccl-xml)
    #[arg(long, value_name = "DIALECT", value_parser = choice(DIALECTS), default_value = "msccl")]
    pub dialect: Dialect,
    /// The transport's protocol (msccl-xml)
    #[arg(long, value_name = "PROTO", value_parser = choice(PROTOCOLS), default_value = "Simple")]
    pub proto: Protocol,
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
    #[arg(long, visible_alias = "color-by", value_name = "BY", value_parser = choice(COLOURS))]
    pub colour: Option<Colour>,
}

/// What a plan is written as.
const FORMATS: Choices<Format> = &[
    ("msccl-xml", "A program for MSCCL", Format::MscclXml),
    ("forest-json", "The forests alone", Format::ForestJson),
    ("tree-xml", "The trees one by one", Format::TreeXml),
    ("oneccl-xml", "Instructions per rank, for oneCCL", Format::OnecclXml),
    ("dot", "A graph for Graphviz", Format::Dot),
    ("svg", "A picture", Format::Svg),
    ("html", "A page with a slider over epochs (sends)", Format::Html),
    ("teccl-json", "The sends alone, with numbers for nodes", Format::TecclJson),
];

/// Whose words MSCCL XML is written in.
const DIALECTS: Choices<Dialect> =
    &[("msccl", "reduce_scatter", Dialect::Msccl), ("rccl", "reducescatter", Dialect::Rccl)];

const PROTOCOLS: Choices<Protocol> = &[
    ("Simple", "Full bandwidth", Protocol::Simple),
    ("LL", "Low latency", Protocol::Ll),
    ("LL128", "Low latency, 128 bytes at a time", Protocol::Ll128),
    ("simple", "", Protocol::Simple),
    ("ll", "", Protocol::Ll),
    ("ll128", "", Protocol::Ll128),
];

/// What colours of a picture mean.
const COLOURS: Choices<Colour> =
    &[("load", "How busy a link is", Colour::Load), ("tree", "Which tree it is", Colour::Tree)];
