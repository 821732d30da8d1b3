//! Content `trees`: forests of weighted trees, every tree edge with its path through the fabric.

use super::{NodeId, Nullable};
use sluice_formats::json::{Json, Read, Reader, Writer, form, words};
use sluice_formats::problem::{E_RANGE, Problem};
use sluice_formats::quantity::Rational;

words! {
    /// Which way data flows in a forest.
    pub enum Direction {
        /// Towards the roots, added up on the way.
        In = "in",
        /// Away from the roots, copied on the way.
        Out = "out",
    }
}

/// A tree edge, in flow direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where the data comes from.
    pub src: NodeId,
    /// Where it goes to.
    pub dst: NodeId,
    /// The nodes between, in order; none for a direct link.
    pub via: Box<[NodeId]>,
}

impl Edge {
    /// The nodes of the path, both ends included.
    pub fn path(&self) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::once(self.src).chain(self.via.iter().copied()).chain(std::iter::once(self.dst))
    }
}

impl Json for Edge {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Edge>> {
        form! {
            /// The edge as it stands in the file.
            pub struct Written {
                pub dst: NodeId = "dst",
                pub path: Vec<NodeId> = "path",
                pub src: NodeId = "src",
            }
        }
        reader.charge()?;
        let Some(written) = Written::read(reader)? else { return Ok(None) };
        match written.path.as_slice() {
            [src, via @ .., dst] if *src == written.src && *dst == written.dst => {
                Ok(Some(Edge { src: *src, dst: *dst, via: via.into() }))
            }
            path => {
                let found: Vec<&str> = path.iter().take(8).map(|node| reader.names.text(*node)).collect();
                let error = Problem::new(E_RANGE, "/path", "not the path of this edge").found(found.join(" "));
                let (src, dst) = (reader.names.text(written.src), reader.names.text(written.dst));
                let error = error.allowed(format!("a list of ids from {src} to {dst}"));
                reader.refuse(error);
                Ok(None)
            }
        }
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin('{');
        writer.key("dst");
        self.dst.write(writer);
        writer.key("path");
        writer.begin('[');
        for node in self.path() {
            writer.item();
            node.write(writer);
        }
        writer.end(']');
        writer.key("src");
        self.src.write(writer);
        writer.end('}');
    }
}

/// One copy of a tree's data over one link, in flow direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop(pub NodeId, pub NodeId);

impl Json for Hop {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Hop>> {
        reader.charge()?;
        Ok(<(NodeId, NodeId)>::read(reader)?.map(|(from, to)| Hop(from, to)))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        (self.0, self.1).write(writer);
    }
}

form! {
    /// A tree over the participants, or over those that demands name; or a batch of equal ones.
    pub struct Tree {
        /// Its edges in flow direction, each with its path.
        pub edges: Vec<Edge> = "edges",
        /// Who wants what it carries, where demands say so; absent: all that want anything of the root.
        pub ends: Option<Vec<NodeId>> = "ends",
        /// What really crosses the links where switches copy or add up; replaces the paths in every load.
        pub hops: Option<Vec<Hop>> = "hops",
        /// Where its data comes from (out) or ends (in).
        pub root: NodeId = "root",
        /// How many equal trees it stands for, or a fraction of one.
        pub weight: Rational = "weight",
    }
}

form! {
    /// Trees that carry the data of one phase together.
    pub struct Forest {
        /// Trees that a capacity of one carries in the time of one tree: 1/y, in the unit of the first link.
        pub u: Option<Nullable<Rational>> = "U",
        /// Which way data flows.
        pub direction: Direction = "direction",
        /// Was the number of trees given, so that `U` may be rounded up?
        pub fixed_k: Option<bool> = "fixed_k",
        /// Trees per root and unit of node weight; null where only the shares of the roots are known.
        pub k: Nullable<u64> = "k",
        /// Trees of all roots, each with its share of the data as its weight.
        pub trees: Vec<Tree> = "trees",
    }
}

/// Content `trees`: one forest, or of an all-reduce two, in and then out.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    /// In the order in which data goes through them.
    pub forests: Vec<Forest>,
}
