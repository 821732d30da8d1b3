//! The seven kinds of content, told apart by `kind`, which may stand behind the rest.

use super::flows::{Execution, Flow, Ordered, Rates, ReserveGroup, WeightGroup, Weights};
use super::schedule::{Model, Pair, Paths, Send, Sends, Step, Steps};
use super::trees::{Forest, Trees};
use super::{Decimal, MAX_EDGES, Reserve};
use sluice_formats::json::{Json, Read, Reader, Writer, form, words};
use sluice_formats::problem::{E_KEY, E_LIMIT, E_MISSING, Problem};
use sluice_formats::quantity::Rational;

/// How the collective is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Flows in an order.
    Order(Ordered),
    /// Paths for parts of pairs.
    Paths(Paths),
    /// Rates of flows.
    Rates(Rates),
    /// Chunks over links in epochs.
    Sends(Sends),
    /// Parts of shards over links in synchronised steps.
    Steps(Steps),
    /// Weighted trees.
    Trees(Trees),
    /// Weights of groups of flows.
    Weights(Weights),
}

words! {
    /// The word for a kind of content.
    pub enum ContentKind {
        /// [`Content::Order`].
        Order = "order",
        /// [`Content::Paths`].
        Paths = "paths",
        /// [`Content::Rates`].
        Rates = "rates",
        /// [`Content::Sends`].
        Sends = "sends",
        /// [`Content::Steps`].
        Steps = "steps",
        /// [`Content::Trees`].
        Trees = "trees",
        /// [`Content::Weights`].
        Weights = "weights",
    }
}

impl ContentKind {
    /// The keys its content must have, and those it may have.
    fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            ContentKind::Order => (&["execution", "flows"], &[]),
            ContentKind::Paths => (&["pairs"], &[]),
            ContentKind::Rates => (&["execution", "flows"], &["groups"]),
            ContentKind::Sends => (&["model", "sends"], &["epoch_us", "finish_epochs", "finish_us"]),
            ContentKind::Steps => (&["P", "steps"], &["shares", "step_length"]),
            ContentKind::Trees => (&["forests"], &[]),
            ContentKind::Weights => (&["execution", "flows", "groups"], &[]),
        }
    }
}

form! {
    /// A group of any kind.
    pub struct AnyGroup {
        pub collective: u64 = "collective",
        pub group: u64 = "group",
        pub reserve: Option<Vec<Reserve>> = "reserve",
        pub weight: Option<Rational> = "weight",
    }
}

form! {
    /// The keys of all kinds together.
    pub struct AnyContent {
        pub p: Option<u64> = "P",
        pub epoch_us: Option<Decimal> = "epoch_us",
        pub execution: Option<Execution> = "execution",
        pub finish_epochs: Option<u64> = "finish_epochs",
        pub finish_us: Option<Decimal> = "finish_us",
        pub flows: Option<Vec<Flow>> = "flows",
        pub forests: Option<Vec<Forest>> = "forests",
        pub groups: Option<Vec<AnyGroup>> = "groups",
        pub kind: ContentKind = "kind",
        pub model: Option<Model> = "model",
        pub pairs: Option<Vec<Pair>> = "pairs",
        pub sends: Option<Vec<Send>> = "sends",
        pub shares: Option<Vec<u64>> = "shares",
        pub step_length: Option<Rational> = "step_length",
        pub steps: Option<Vec<Step>> = "steps",
    }
}

impl AnyContent {
    /// The keys that are there.
    fn present(&self) -> Vec<&'static str> {
        let all = [
            ("P", self.p.is_some()),
            ("epoch_us", self.epoch_us.is_some()),
            ("execution", self.execution.is_some()),
            ("finish_epochs", self.finish_epochs.is_some()),
            ("finish_us", self.finish_us.is_some()),
            ("flows", self.flows.is_some()),
            ("forests", self.forests.is_some()),
            ("groups", self.groups.is_some()),
            ("model", self.model.is_some()),
            ("pairs", self.pairs.is_some()),
            ("sends", self.sends.is_some()),
            ("shares", self.shares.is_some()),
            ("step_length", self.step_length.is_some()),
            ("steps", self.steps.is_some()),
        ];
        all.into_iter().filter(|(_, present)| *present).map(|(key, _)| key).collect()
    }

    /// The content of its kind, if all the keys of that kind are there.
    fn into_content(self) -> Option<Content> {
        let groups = self.groups;
        Some(match self.kind {
            ContentKind::Order => Content::Order(Ordered { flows: self.flows?, execution: self.execution? }),
            ContentKind::Paths => Content::Paths(Paths { pairs: self.pairs? }),
            ContentKind::Rates => {
                let reserve = |of: AnyGroup| {
                    Some(ReserveGroup { collective: of.collective, group: of.group, reserve: of.reserve? })
                };
                let groups = match groups {
                    Some(groups) => Some(groups.into_iter().map(reserve).collect::<Option<Vec<_>>>()?),
                    None => None,
                };
                Content::Rates(Rates { flows: self.flows?, groups, execution: self.execution? })
            }
            ContentKind::Sends => Content::Sends(Sends {
                epoch_us: self.epoch_us,
                finish_epochs: self.finish_epochs,
                finish_us: self.finish_us,
                model: self.model?,
                sends: self.sends?,
            }),
            ContentKind::Steps => {
                let (shares, step_length) = (self.shares, self.step_length);
                Content::Steps(Steps { p: self.p?, shares, step_length, steps: self.steps? })
            }
            ContentKind::Trees => Content::Trees(Trees { forests: self.forests? }),
            ContentKind::Weights => {
                let weight =
                    |of: AnyGroup| Some(WeightGroup { collective: of.collective, group: of.group, weight: of.weight? });
                let groups = groups?.into_iter().map(weight).collect::<Option<Vec<_>>>()?;
                Content::Weights(Weights { flows: self.flows?, groups, execution: self.execution? })
            }
        })
    }
}

impl Content {
    /// Which kind it is.
    pub fn kind(&self) -> ContentKind {
        match self {
            Content::Order(_) => ContentKind::Order,
            Content::Paths(_) => ContentKind::Paths,
            Content::Rates(_) => ContentKind::Rates,
            Content::Sends(_) => ContentKind::Sends,
            Content::Steps(_) => ContentKind::Steps,
            Content::Trees(_) => ContentKind::Trees,
            Content::Weights(_) => ContentKind::Weights,
        }
    }
}

/// Writes an object with these keys, in this order, without those of absent values.
macro_rules! object {
    ($writer:ident, $($key:literal: $value:expr),*) => {{
        $writer.begin('{');
        $(if Json::is_present(&$value) {
            $writer.key($key);
            $value.write($writer);
        })*
        $writer.end('}');
    }};
}

impl Json for Content {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Content>> {
        let Some(any) = AnyContent::read(reader)? else { return Ok(None) };
        let kind = any.kind;
        let (must, may) = kind.keys();
        let present = any.present();
        let mut good = true;
        for key in present.iter().filter(|key| !must.contains(key) && !may.contains(key)) {
            let message = format!("content of kind `{}` has no `{key}`", kind.word());
            let allowed = [must, may].concat().join(", ");
            reader.refuse(Problem::new(E_KEY, format!("/{key}"), message).allowed(allowed));
            good = false;
        }
        for key in must.iter().filter(|key| !present.contains(key)) {
            reader.missing(key);
            good = false;
        }
        let wants_reserve = kind == ContentKind::Rates;
        for (i, group) in any.groups.iter().flatten().enumerate() {
            if group.reserve.is_some() != wants_reserve || group.weight.is_some() == wants_reserve {
                let key = format!("/groups/{i}");
                let word = if wants_reserve { "reserve" } else { "weight" };
                let message = format!("a group of kind `{}` has `{word}`", kind.word());
                reader.refuse(Problem::new(E_MISSING, key, message).allowed(format!("collective, group, {word}")));
                good = false;
            }
        }
        let links = |flow: &Flow| (flow.path.len() + flow.pred.as_ref().map_or(0, Vec::len) + 1) as u64;
        if any.flows.iter().flatten().map(links).sum::<u64>() > MAX_EDGES {
            let message = "too many flows, links of their routes and flows that they wait for";
            reader.refuse(Problem::new(E_LIMIT, "/flows", message).allowed(format!("at most {MAX_EDGES} together")));
            good = false;
        }
        Ok(any.into_content().filter(|_| good))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        let kind = self.kind();
        match self {
            Content::Order(of) => object!(writer, "execution": of.execution, "flows": of.flows, "kind": kind),
            Content::Paths(of) => object!(writer, "kind": kind, "pairs": of.pairs),
            Content::Rates(of) => {
                object!(writer, "execution": of.execution, "flows": of.flows, "groups": of.groups, "kind": kind);
            }
            Content::Sends(of) => object!(
                writer, "epoch_us": of.epoch_us, "finish_epochs": of.finish_epochs, "finish_us": of.finish_us,
                "kind": kind, "model": of.model, "sends": of.sends
            ),
            Content::Steps(of) => {
                object!(
                    writer, "P": of.p, "kind": kind, "shares": of.shares, "step_length": of.step_length,
                    "steps": of.steps
                );
            }
            Content::Trees(of) => object!(writer, "forests": of.forests, "kind": kind),
            Content::Weights(of) => {
                object!(writer, "execution": of.execution, "flows": of.flows, "groups": of.groups, "kind": kind);
            }
        }
    }
}
