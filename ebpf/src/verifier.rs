//! What the kernel's verifier has to do for each of our programs: near its limits a program that loads today is refused by
//! the next kernel. `verifier.tsv` keeps the figures, and a test compares.

use crate::loader::{self, Loaded};
use crate::options::Error;

/// Rows of the tables that the programs are loaded with; their number means nothing to the verifier.
const ROWS: u32 = 64;

/// One program, as this kernel's verifier sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The program's name in its object. Of the two for `cong_control` only the one that this kernel takes.
    pub program: String,
    /// Instructions that the verifier processed, each as often as a path led there.
    pub processed: u32,
    /// Bytes of stack.
    pub stack: u32,
}

/// Loads every program once, for what the verifier says, and unloads it.
///
/// # Errors
/// The kernel's refusal, with the verifier's words.
pub fn figures() -> Result<Vec<Figure>, Error> {
    let types = loader::types()?;
    let costs = Loaded::new(&types, None, ROWS)?.costs(&types)?;
    let figure = |(program, costs): (String, sluice_struct_ops::verify::Costs)| Figure {
        program,
        processed: costs.processed,
        stack: costs.stack,
    };
    Ok(costs.into_iter().map(figure).collect())
}
