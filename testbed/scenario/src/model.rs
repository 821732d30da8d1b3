//! The built-in table of models (`simulation.md` section 11): gradient bytes and compute time of one iteration.

use sluice_formats::document::Table;
use sluice_formats::problem::{E_KEY, E_MISSING};
use sluice_formats::quantity::Rational;
use std::collections::BTreeMap;

/// What one iteration of a model costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Gradient bytes per iteration.
    pub bytes: u64,
    /// How the compute time follows.
    pub compute: Compute,
    /// Floating-point operations per iteration, for schedulers that weigh by them.
    pub flops: Option<f64>,
    /// The batch as text, carried to the report.
    pub batch: Option<String>,
    /// The GPU as text, carried to the report.
    pub gpu: Option<String>,
}

/// Compute time of one iteration, in seconds, before `compute_scale`.
#[derive(Clone, Debug, PartialEq)]
pub enum Compute {
    /// Per iteration on one worker.
    PerWorker(Rational),
    /// For the whole batch on one worker; divided by the number of workers.
    FullBatch(Rational),
}

impl Compute {
    /// Seconds per iteration with this many workers.
    pub fn seconds(&self, workers: u32) -> Option<Rational> {
        match self {
            Compute::PerWorker(s) => Some(s.clone()),
            Compute::FullBatch(s) => s.checked_div(&Rational::from(u64::from(workers.max(1)))),
        }
    }
}

/// Name, gradient bytes, milliseconds of compute on a GTX 1080 Ti, samples per batch. fp32 gradients: parameters × 4.
const BUILT_IN: [(&str, u64, u64, &str); 12] = [
    ("alexnet", 244_403_360, 58, "64"),
    ("vgg16", 553_430_176, 514, "64"),
    ("vgg19", 574_668_960, 589, "64"),
    ("resnet50", 102_228_128, 306, "64"),
    ("resnet101", 178_196_640, 626, "64"),
    ("resnet152", 240_771_232, 790, "64"),
    ("inception3", 108_645_056, 471, "64"),
    ("bert-base", 437_928_960, 1190, "64"),
    ("bert-large", 1_340_567_552, 910, "16"),
    ("gpt2", 1_200_000_000, 1630, "64"),
    ("gpt2-small", 497_759_232, 670, "64"),
    ("gpt2-medium", 1_419_292_672, 960, "16"),
];

/// The built-in models by name.
pub fn built_in() -> BTreeMap<String, Model> {
    let seconds = |ms: u64| Rational::new(i128::from(ms), 1000).unwrap_or(Rational::ZERO);
    BUILT_IN
        .iter()
        .map(|&(name, bytes, ms, batch)| {
            let compute = Compute::PerWorker(seconds(ms));
            let model = Model {
                bytes,
                compute,
                flops: None,
                batch: Some(batch.to_owned()),
                gpu: Some("GTX 1080 Ti".to_owned()),
            };
            (name.to_owned(), model)
        })
        .collect()
}

/// The largest gradient a scenario may name: 1 PB.
pub(crate) const MAX_BYTES: u64 = 1_000_000_000_000_000;
/// The longest compute phase: a week.
pub(crate) const MAX_COMPUTE_S: u64 = 604_800;

/// Reads one entry of `[models]`.
pub(crate) fn read(t: Table<'_>) -> Option<Model> {
    let bytes = t.require("bytes").and_then(|i| i.int(&(1..=MAX_BYTES)));
    let compute = read_compute(&t);
    if compute.is_none() && !t.has("compute_s") && !t.has("full_batch_s") {
        t.fail(E_MISSING, "compute_s is missing", "compute_s or full_batch_s");
    }
    let flops = t.float("flops", &Rational::ZERO, &Rational::new(10_i128.pow(30), 1).unwrap_or(Rational::ONE));
    let batch = t.get("batch").map(|i| i.node.value.shown().trim_matches('"').to_owned());
    let gpu = t.text("gpu").map(str::to_owned);
    t.finish();
    Some(Model { bytes: bytes?, compute: compute?, flops, batch, gpu })
}

/// Reads `compute_s` or `full_batch_s`, not both.
pub(crate) fn read_compute(t: &Table<'_>) -> Option<Compute> {
    let most = Rational::from(MAX_COMPUTE_S);
    let (worker, full) =
        (t.number("compute_s", &Rational::ZERO, &most), t.number("full_batch_s", &Rational::ZERO, &most));
    if t.has("compute_s") && t.has("full_batch_s") {
        t.fail(E_KEY, "compute_s and full_batch_s exclude each other", "one of the two");
    }
    worker.map(Compute::PerWorker).or(full.map(Compute::FullBatch))
}
