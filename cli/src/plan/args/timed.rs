//! What time is in the fluid programs of `sluice plan fluid-lp`.

use clap::Args as ClapArgs;

use crate::words::{Choices, choice};

#[derive(Clone, Debug, ClapArgs)]
pub struct TimedArgs {
    /// What time is: nothing, the links of a way, or steps
    #[arg(long, value_parser = choice(MODELS), default_value = "q", value_name = "MODEL")]
    pub model: Model,
    /// Steps, with qt links of a way; none: of cm1 and cm2 as many as take the least time, with --step-length as few as do
    #[arg(long, value_name = "T")]
    pub horizon: Option<usize>,
    /// What a step takes for a unit of data, as in 40ms; a plain number where capacities have no unit; none: the least
    #[arg(long, value_name = "TIME")]
    pub step_length: Option<String>,
    /// Equal pieces into which data is cut, with --model cm2
    #[arg(long, value_name = "K")]
    pub chunks: Option<u64>,
}

/// How a fluid plan counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    Q,
    Qt,
    Cm1,
    Cm2,
    Cm3,
}

const MODELS: Choices<Model> = &[
    ("q", "No time axis: what very many small steps come to", Model::Q),
    ("qt", "The same, over ways of at most --horizon links", Model::Qt),
    ("cm1", "Steps in which everybody's data moves whole: an integer program, and a plan of steps", Model::Cm1),
    ("cm2", "Steps of data in --chunks pieces: an integer program, and a plan of steps", Model::Cm2),
    ("cm3", "Steps of a fluid: the shortest step for --horizon steps, and no plan", Model::Cm3),
];

impl Model {
    /// As the command line has it.
    #[cfg(feature = "lp")]
    pub fn word(self) -> &'static str {
        MODELS.iter().find(|(_, _, model)| *model == self).map_or("", |(word, ..)| *word)
    }
}
