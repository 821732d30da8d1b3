//! Stories of frames in and out: what the twin is held to, and what a P4 target can replay.
//!
//! A story is text. Lines are statements of the control plane ([`crate::control`]), frames, and what becomes of them;
//! `#` begins a remark:
//!
//! ```text
//! in 0 0200…       a frame comes in by port 0, in hexadecimal
//! out 1 0200…      it leaves by port 1, like this
//! drop no-route    or goes nowhere
//! ```

use crate::control::{NoStatement, Statement};
use crate::{PORTS, Reason, Switch, Verdict};

mod replay;

pub use replay::{ReplayFile, replay_files};

/// Bytes of a frame at most.
const MAX_FRAME: usize = 9216;

/// The stories that come with this crate.
pub fn stories() -> Vec<Story> {
    let texts = [
        ("count", include_str!("../vectors/count.txt")),
        ("guard", include_str!("../vectors/guard.txt")),
        ("wrap", include_str!("../vectors/wrap.txt")),
        ("collision", include_str!("../vectors/collision.txt")),
        ("saturation", include_str!("../vectors/saturation.txt")),
        ("restart", include_str!("../vectors/restart.txt")),
        ("forward", include_str!("../vectors/forward.txt")),
    ];
    #[allow(clippy::expect_used, reason = "the texts are a part of the program, and its tests read them")]
    texts.into_iter().map(|(name, text)| Story::read(name, text).expect("the tests have read it")).collect()
}

/// One story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Its name, a word.
    pub name: String,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One step of a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The control plane writes.
    Control(Statement),
    /// A frame comes in.
    Frame {
        /// By which port.
        port: u16,
        /// What comes in.
        bytes: Vec<u8>,
        /// What becomes of it.
        expected: Outcome,
    },
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It leaves by a port, as these bytes.
    Out {
        /// The egress port.
        port: u16,
        /// What leaves.
        bytes: Vec<u8>,
    },
    /// It goes nowhere.
    Drop(Reason),
}

/// Why a text is no story.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{story}, line {line}: {fault}")]
pub struct NoStory {
    /// The story's name.
    pub story: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The line is no statement.
    #[error(transparent)]
    Statement(#[from] NoStatement),
    /// The port of a frame.
    #[error("the port is `{0}`; allowed is 0 to 511")]
    Port(String),
    /// The bytes of a frame.
    #[error("the frame is no hexadecimal of 0 to {MAX_FRAME} bytes")]
    Bytes,
    /// The reason of a drop.
    #[error("the reason is `{0}`; allowed are malformed, not-ipv4, spoofed, ttl-expired, no-route")]
    Reason(String),
    /// A frame without an outcome, or an outcome without a frame.
    #[error("`in` and its `out` or `drop` come by turns")]
    Turns,
}

/// Where a switch and a story differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{story}, frame {frame}: expected {expected:02x?}, got {got:02x?}")]
pub struct Mismatch {
    /// The story's name.
    pub story: String,
    /// Which frame, from 1.
    pub frame: usize,
    /// What the story says.
    pub expected: Outcome,
    /// What the switch did.
    pub got: Outcome,
}

impl Story {
    /// Reads a story.
    ///
    /// # Errors
    /// [`NoStory`] with the first line that is none.
    pub fn read(name: &str, text: &str) -> Result<Story, NoStory> {
        let mut steps = Vec::new();
        let mut coming: Option<(u16, Vec<u8>)> = None;
        for (at, line) in text.lines().enumerate() {
            let fail = |fault: Fault| NoStory { story: name.into(), line: at + 1, fault };
            let line = line.split('#').next().unwrap_or_default().trim();
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "" => {}
                "in" if coming.is_none() => coming = Some(frame(rest).map_err(fail)?),
                "out" | "drop" if coming.is_some() => {
                    let expected = if word == "out" {
                        let (port, bytes) = frame(rest).map_err(fail)?;
                        Outcome::Out { port, bytes }
                    } else {
                        let reason = Reason::ALL.into_iter().find(|reason| reason.word() == rest);
                        Outcome::Drop(reason.ok_or_else(|| fail(Fault::Reason(rest.into())))?)
                    };
                    steps.extend(coming.take().map(|(port, bytes)| Step::Frame { port, bytes, expected }));
                }
                "in" | "out" | "drop" => return Err(fail(Fault::Turns)),
                _ if coming.is_some() => return Err(fail(Fault::Turns)),
                _ => steps.push(Step::Control(line.parse().map_err(|error: NoStatement| fail(error.into()))?)),
            }
        }
        match coming {
            None => Ok(Story { name: name.into(), steps }),
            Some(_) => Err(NoStory { story: name.into(), line: text.lines().count(), fault: Fault::Turns }),
        }
    }

    /// Takes a new switch through the story.
    ///
    /// # Errors
    /// [`Mismatch`] at the first frame of which something else becomes.
    pub fn replay(&self, udp_port: u16) -> Result<(), Mismatch> {
        let mut switch = Switch::new(udp_port);
        let mut frames = 0;
        for step in &self.steps {
            match step {
                Step::Control(statement) => statement.apply(&mut switch),
                Step::Frame { port, bytes, expected } => {
                    frames += 1;
                    let got = outcome(&mut switch, *port, bytes);
                    if got != *expected {
                        let (story, expected) = (self.name.clone(), expected.clone());
                        return Err(Mismatch { story, frame: frames, expected, got });
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a switch does to a frame.
pub fn outcome(switch: &mut Switch, port: u16, bytes: &[u8]) -> Outcome {
    let mut bytes = bytes.to_vec();
    match switch.process(port, &mut bytes) {
        Verdict::Forward { port, .. } => Outcome::Out { port, bytes },
        Verdict::Drop(reason) => Outcome::Drop(reason),
    }
}

fn frame(text: &str) -> Result<(u16, Vec<u8>), Fault> {
    let (port, hex) = text.trim().split_once(' ').unwrap_or((text, ""));
    let port = port.parse().ok().filter(|port| *port < PORTS).ok_or_else(|| Fault::Port(port.into()))?;
    let hex = hex.trim().as_bytes();
    if hex.len() % 2 != 0 || hex.len() > 2 * MAX_FRAME {
        return Err(Fault::Bytes);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let bytes: Option<Vec<u8>> = hex.chunks_exact(2).map(byte).collect();
    Ok((port, bytes.ok_or(Fault::Bytes)?))
}
