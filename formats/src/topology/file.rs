//! What a topology file says: the entries as they stand there, nothing filled in.

use std::collections::BTreeMap;

use crate::json::{Json, Nullable, Read, Reader, Text, Version, Writer, form, words};
use crate::problem::Problem;

words! {
    /// What a node is.
    pub enum Kind {
        /// A processor with its own memory that takes part in collectives.
        Gpu = "gpu",
        /// A machine that takes part as a whole.
        Host = "host",
        /// Memory that stores but demands nothing.
        Memory = "memory",
        /// A network card: forwards.
        Nic = "nic",
        /// A place of a wide-area network that takes part.
        Site = "site",
        /// Forwards. A CPU that only passes data on is one too.
        Switch = "switch",
    }
}

impl Kind {
    /// Does a node of this kind take part in collectives unless the plan says otherwise?
    pub fn is_compute(self) -> bool {
        matches!(self, Kind::Gpu | Kind::Host | Kind::Site)
    }
}

words! {
    /// How flows find their way.
    pub enum RoutingKind {
        /// Over one of the shortest paths.
        Ecmp = "ecmp",
        /// As the paths say.
        Explicit = "explicit",
    }
}

form! {
    /// What a node can do, as far as the file says it.
    pub struct CanEntry {
        /// In-network reduction: `reduce` of a switch.
        pub aggregate: Option<bool> = "aggregate",
        /// Send what it got to several others.
        pub copy: Option<bool> = "copy",
        /// In-network copy: `copy` of a switch.
        pub multicast: Option<bool> = "multicast",
        /// Add up what it got.
        pub reduce: Option<bool> = "reduce",
        /// Keep data for later.
        pub store: Option<bool> = "store",
    }
}

form! {
    /// A node as the file describes it.
    pub struct NodeEntry {
        /// A host's addresses (IPv4, IPv6, CIDR), or a switch's one `host:port`.
        pub addresses: Option<Vec<Text>> = "addresses",
        /// A size with unit; `null` is unlimited.
        pub buffer: Option<Nullable<Text>> = "buffer",
        /// What it can do, where that is not what its kind can.
        pub can: Option<CanEntry> = "can",
        /// Its id, unique in the file.
        pub id: Text = "id",
        /// What it is, which also says what it can do unless `can` does.
        pub kind: Kind = "kind",
        /// Addresses by which a switch that routes answers for itself, those of its ports.
        pub port_addresses: Option<Box<Vec<Text>>> = "port_addresses",
        /// A whole number; negative ones are refused by name later.
        pub weight: Option<Weight> = "weight",
    }
}

/// The weight of a node as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(pub i64);

impl Json for Weight {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Weight>> {
        let allowed = "a whole number from 0 to 9223372036854775807";
        let Some(number) = reader.number(allowed)? else { return Ok(None) };
        let value = number.parse().ok().map(Weight);
        if value.is_none() {
            let error = Problem::new(crate::problem::E_RANGE, "", "a weight is a whole number");
            reader.refuse(error.found(number).allowed(allowed));
        }
        Ok(value)
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.0.to_string());
    }
}

form! {
    /// Links between two nodes.
    pub struct LinkEntry {
        /// Capacity of each of them, with unit.
        pub capacity: Text = "capacity",
        /// Capacity in each epoch, the last repeats.
        pub capacity_per_epoch: Option<Box<Vec<Text>>> = "capacity_per_epoch",
        /// The secondary objective's weight per directed link.
        pub cost: Option<Text> = "cost",
        /// How many parallel ones.
        pub count: Option<u32> = "count",
        /// Both directions, each with the full capacity?
        pub duplex: Option<bool> = "duplex",
        /// Id of the node they leave.
        pub from: Text = "from",
        /// One way, with unit.
        pub latency: Option<Text> = "latency",
        /// Id of the node they enter.
        pub to: Text = "to",
    }
}

/// Links of a group: `[from, to]` are all parallel ones, `[from, to, i]` is the i-th of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// Id of the node they leave.
    pub from: Text,
    /// Id of the node they enter.
    pub to: Text,
    /// Which of the parallel links; `None`: all.
    pub index: Option<u32>,
}

impl Json for MemberEntry {
    fn read(reader: &mut Reader<'_>) -> Read<Option<MemberEntry>> {
        let (mut from, mut to, mut index, mut length) = (None, None, None, 0_u64);
        let ours = reader.list(&mut |reader| {
            length += 1;
            match length {
                1 => from = Text::read(reader)?,
                2 => to = Text::read(reader)?,
                3 => index = u32::read(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        if ours && !(2..=3).contains(&length) {
            let error =
                Problem::new(crate::problem::E_PARSE, "", "not the links of a pair").found(format!("{length} parts"));
            reader.refuse(error.allowed("[from, to] or [from, to, i]"));
            return Ok(None);
        }
        // A third part that was wrong has been noted; without it the entry would mean something else.
        let whole = length == 2 || index.is_some();
        Ok(from.zip(to).filter(|_| whole).map(|(from, to)| MemberEntry { from, to, index }))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin('[');
        writer.item();
        self.from.write(writer);
        writer.item();
        self.to.write(writer);
        if let Some(index) = self.index {
            writer.item();
            index.write(writer);
        }
        writer.end(']');
    }
}

form! {
    /// A limit that several links share.
    pub struct GroupEntry {
        /// What they carry together, with unit.
        pub capacity: Text = "capacity",
        /// The links that share it.
        pub links: Vec<MemberEntry> = "links",
        /// What it is called.
        pub name: Option<Text> = "name",
    }
}

form! {
    /// The path from one node to another.
    pub struct RouteEntry {
        /// Id of the node it ends at.
        pub dst: Text = "dst",
        /// Id of the node it begins at.
        pub src: Text = "src",
        /// Ids of the nodes between.
        pub via: Option<Vec<Text>> = "via",
    }
}

form! {
    /// How flows find their way.
    pub struct RoutingEntry {
        /// Shortest paths or the ones below.
        pub kind: Option<RoutingKind> = "kind",
        /// The paths, where they are explicit.
        pub paths: Option<Vec<RouteEntry>> = "paths",
    }
}

form! {
    /// What a topology file says.
    pub struct File {
        /// The machine of each node, by node id.
        pub boxes: Option<BTreeMap<Text, Text>> = "box",
        /// Limits that several links share.
        pub groups: Option<Vec<GroupEntry>> = "groups",
        /// In file order, which numbers the links.
        pub links: Vec<LinkEntry> = "links",
        /// What the topology is called.
        pub name: Option<Text> = "name",
        /// In file order, which numbers the nodes.
        pub nodes: Vec<NodeEntry> = "nodes",
        /// How flows find their way.
        pub routing: Option<RoutingEntry> = "routing",
        /// The version, always 1.
        pub version: Version = "sluice_topology",
    }
}

impl File {
    /// Reads the form; for [`File::read`], which has the limits.
    pub(super) fn read_json(reader: &mut Reader<'_>) -> Read<Option<File>> {
        Json::read(reader)
    }
}
