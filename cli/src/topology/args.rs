//! The command line of `sluice topology`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use sluice_formats::topology::Kind;
use sluice_formats::topology::r#gen::{Variant, Wiring};

use crate::plan::form::{Form, FormArgs};
use crate::words::{Choices, MACHINES, choice};

#[derive(Clone, Debug, Subcommand)]
pub enum TopologyCmd {
    /// Make a fabric by rule, or a direct-connect graph from an expression
    ///
    /// Expressions: families with their parameters, which expansions make larger. K(m) complete, K(d,d) bipartite, H(k,q)
    /// Hamming, Q(k) and TQ(3) cubes, UniRing(d,m), BiRing(d,m), Torus(a,b,…), TwistedTorus(a,b,s), C(n,{a,b,…}) and
    /// DC(n,{a,b,…}) circulants both ways and one way, Pi(d,m) generalized Kautz, Kautz(d,k), DBJ(d,k) and GDBJ(d,m) de
    /// Bruijn, MC(a,b,r,c;(i,j),…) Cayley graphs of metacyclic groups, DistReg(4,n) distance-regular. L(G) and L^2(G) line
    /// graphs, G*n every machine n times, G^n power, G x H product, Bi(G) both ways, T(G) turned around. Diamond and
    /// DBJMod(d,k) are published as pictures only; DC(8,{1,3}), DC(16,{3,5}), UniRing(1,3)*3 and C(16,{3,4}) cost the same.
    ///
    /// Example: sluice topology gen dgx-a100 --boxes 2 --out a100.json
    ///
    /// Example: sluice topology gen --expr 'L^2(K(4,4))' --link 25Gbit/s --kind host --out graph.json
    #[command(subcommand_negates_reqs = true)]
    Gen(GenArgs),
    /// Look at a fabric: its nodes and links by class, and whether it is balanced
    ///
    /// A fabric is balanced if every node has as much bandwidth in as out; ForestColl needs that.
    ///
    /// Example: sluice topology show a100.json --svg a100.svg
    Show(ShowArgs),
    /// Check a fabric: whether it can be read, hangs together, and says what daemons need of it
    ///
    /// With --node also whether that host could use it: its addresses, its links, and a way to every other host. Exit 0 if it is
    /// good, 2 if it cannot be read, 3 if something is missing.
    ///
    /// Example: sluice topology check /etc/sluice/topology.json --node gpu-17
    Check(CheckArgs),
    /// Turn another form into topology.json
    ///
    /// Example: nvidia-smi topo -m | sluice topology import nvidia-smi - --out box.json
    ///
    /// Example: sluice topology import graphml Abilene.graphml --capacity 10Gbit/s --out abilene.json
    ///
    /// Example: sluice topology import fluid instance.json --unit GB/s --out fabric.json
    ///
    /// Example: sluice topology import wan instance.json --out network.json --flows-out flows.json
    Import(ImportArgs),
}

#[derive(Clone, Debug, ClapArgs)]
pub struct CheckArgs {
    /// The topology; `-` is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Also as the daemon of this host would use it
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct GenArgs {
    #[command(subcommand)]
    pub family: Option<Family>,
    /// A direct-connect graph, as in `L^2(K(4,4))` or `(UniRing(1,4) x UniRing(1,8))^2`
    #[arg(long, required = true, value_name = "EXPR")]
    pub expr: Option<String>,
    /// Capacity of every link of the expression's graph
    #[arg(long, default_value = "1", value_name = "CAPACITY")]
    pub link: String,
    /// What the machines of the expression's graph are
    #[arg(long, default_value = "gpu", value_name = "KIND", value_parser = choice(MACHINES))]
    pub kind: Kind,
    /// Write to this file instead of stdout
    #[arg(long, global = true, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Family {
    /// DGX A100: 8 GPUs at 300 GB/s to the box switch, 25 GB/s each to the network
    ///
    /// Example: sluice topology gen dgx-a100 --boxes 2
    DgxA100 {
        /// Boxes; one alone has no network
        #[arg(long, default_value_t = 1, value_name = "N")]
        boxes: u32,
        /// How the network cards are drawn; the best rate is the same
        #[arg(long, default_value = "plain", value_parser = choice(WIRINGS))]
        wiring: Wiring,
    },
    /// DGX A100 with its PCIe switches, processors and memories, one network per rail, and costs of links
    ///
    /// Memories copy, which the fluid programs make use of; ForestColl takes them for switches.
    ///
    /// Example: sluice topology gen dgx-a100-rail --nodes 2 --variant all
    DgxA100Rail {
        /// Nodes of 8 GPUs; one alone has no rails
        #[arg(long, default_value_t = 1, value_name = "N")]
        nodes: u32,
        /// Which links there are
        #[arg(long, default_value = "all", value_parser = choice(VARIANTS))]
        variant: Variant,
    },
    /// DGX H100: 8 GPUs at 450 GB/s to the box switch, 50 GB/s each to the network
    ///
    /// Example: sluice topology gen dgx-h100 --boxes 16
    DgxH100 {
        /// Boxes; one alone has no network
        #[arg(long, default_value_t = 1, value_name = "N")]
        boxes: u32,
    },
    /// MI250: 16 GPUs with direct links of 50 to 200 GB/s, 16 GB/s each to the network
    ///
    /// Example: sluice topology gen mi250 --boxes 2 --gpus 8
    Mi250 {
        /// Boxes; one alone has no network
        #[arg(long, default_value_t = 1, value_name = "N")]
        boxes: u32,
        /// 16, or the first 8 of each box
        #[arg(long, default_value_t = 16, value_name = "N")]
        gpus: u32,
    },
    /// Hosts under leaf switches, every leaf connected to every spine
    ///
    /// Example: sluice topology gen leaf-spine --leaves 4 --spines 2 --hosts 8 --cable 100Gbit/s --oversubscription 2
    LeafSpine {
        /// How many leaf switches
        #[arg(long, value_name = "N")]
        leaves: u32,
        /// How many spine switches
        #[arg(long, value_name = "N")]
        spines: u32,
        /// Hosts under each leaf
        #[arg(long, value_name = "N")]
        hosts: u32,
        /// Capacity of a host's cable
        #[arg(long, default_value = "100Gbit/s", value_name = "CAPACITY")]
        cable: String,
        /// What enters a leaf over what leaves it upwards; 1 is non-blocking
        #[arg(long, default_value = "1", value_name = "RATIO")]
        oversubscription: String,
    },
    /// The k-ary fat tree: k³/4 hosts, all cables equal
    ///
    /// Example: sluice topology gen fat-tree 4 --cable 100Gbit/s
    FatTree {
        /// Ports of a switch, even
        k: u32,
        /// Capacity of every cable
        #[arg(long, default_value = "100Gbit/s", value_name = "CAPACITY")]
        cable: String,
    },
    /// Boxes with a switch inside, GPU g of all boxes under rail switch g
    ///
    /// Example: sluice topology gen rail-optimised --boxes 4 --gpus 8 --inside 450GB/s --rail 50GB/s
    RailOptimised {
        /// How many boxes
        #[arg(long, value_name = "N")]
        boxes: u32,
        /// GPUs of a box, and rails
        #[arg(long, default_value_t = 8, value_name = "N")]
        gpus: u32,
        /// Capacity from a GPU to its box switch
        #[arg(long, default_value = "450GB/s", value_name = "CAPACITY")]
        inside: String,
        /// Capacity from a GPU to its rail switch
        #[arg(long, default_value = "50GB/s", value_name = "CAPACITY")]
        rail: String,
        /// Spines that connect the rails; 0: they meet only inside the boxes
        #[arg(long, default_value_t = 0, value_name = "N")]
        spines: u32,
        /// What enters a rail switch over what leaves it upwards
        #[arg(long, default_value = "1", value_name = "RATIO")]
        oversubscription: String,
    },
    /// A ring of GPUs
    ///
    /// Example: sluice topology gen ring 8 --link 5GB/s --one-way
    Ring {
        /// How many GPUs
        nodes: u32,
        /// Capacity of a link, each way
        #[arg(long, default_value = "1", value_name = "CAPACITY")]
        link: String,
        /// Links lead one way only
        #[arg(long)]
        one_way: bool,
    },
    /// A torus of GPUs; a size of 2 is one cable
    ///
    /// Example: sluice topology gen torus 4x4 --link 50GB/s
    Torus {
        /// Sizes, as in 4x4 or 2x3x5
        sizes: String,
        /// Capacity of a cable
        #[arg(long, default_value = "1", value_name = "CAPACITY")]
        link: String,
    },
    /// A hypercube of 2^DIMENSIONS GPUs
    ///
    /// Example: sluice topology gen hypercube 3
    Hypercube {
        /// How many dimensions, 1 to 15
        dimensions: u32,
        /// Capacity of a cable
        #[arg(long, default_value = "1", value_name = "CAPACITY")]
        link: String,
    },
    /// A cable between any two GPUs
    ///
    /// Example: sluice topology gen complete 8 --link 25GB/s
    Complete {
        /// How many GPUs
        nodes: u32,
        /// Capacity of a cable
        #[arg(long, default_value = "1", value_name = "CAPACITY")]
        link: String,
    },
    /// GPUs around one switch, each with its own capacity
    ///
    /// Example: sluice topology gen star 1,2,3,1,2
    Star {
        /// Capacity of each GPU, both ways
        #[arg(value_delimiter = ',', required = true, value_name = "A,B,C")]
        links: Vec<String>,
    },
}

/// How the network cards of a DGX A100 are drawn.
const WIRINGS: Choices<Wiring> = &[
    ("plain", "Every GPU straight to the network switch", Wiring::Plain),
    ("pcie", "Two GPUs on each PCIe switch", Wiring::Pcie),
    ("two-rails", "One card per GPU and two network switches", Wiring::TwoRails),
];

/// Which links a node with rails has.
const VARIANTS: Choices<Variant> = &[
    ("nvlink", "NVLink, and a network card at each GPU", Variant::Nvlink),
    ("pcie", "PCIe, with the network behind its switches", Variant::Pcie),
    ("all", "NVLink and PCIe, with the network behind the PCIe switches", Variant::All),
];

#[derive(Clone, Debug, ClapArgs)]
pub struct ShowArgs {
    /// The fabric: topology.json, or the form that --form names; `-` is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Read it in another form
    #[arg(long, value_enum, value_name = "FORM")]
    pub form: Option<Form>,
    /// Also draw it: one SVG file, `-` is stdout instead of the table
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also say what every node can send to every other at once; for topologies without switches, with equal links
    #[arg(long)]
    pub all_to_all: bool,
    #[command(flatten)]
    pub forms: FormArgs,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ImportArgs {
    /// The form that the file is in
    #[arg(value_enum, value_name = "FORM")]
    pub form: Form,
    /// The file; `-` is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the flows of the form `wan` to this file
    #[arg(long, value_name = "FILE")]
    pub flows_out: Option<PathBuf>,
    #[command(flatten)]
    pub forms: FormArgs,
}
