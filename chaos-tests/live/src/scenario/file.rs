//! What one file says.

use super::fault::Fault;
use super::load::Load;
use super::shape::Shape;

/// The promises that the oracle judges here; P10 is judged by whoever waits for the cell to become quiet, and while the
/// log is replayed.
pub const JUDGED: &str = "P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11";

/// What one file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// In one sentence.
    pub about: String,
    /// What the cell is made of.
    pub cell: Shape,
    /// What goes through it.
    pub loads: Vec<Load>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What must be true in the end, besides the promises.
    pub expectations: Vec<Expectation>,
    /// How long the healed cell may take until every job has ended, in milliseconds.
    pub quiet_ms: u64,
}

/// What must be true in the end, besides the promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The node was declared lost at least once.
    Lost(String),
    /// No node was.
    NoneLost,
    /// Every task ran once: none was started again, on whatever node.
    NoneStartedAgain,
    /// The faults are beyond what Ohm promises to stand, this promise breaks, and the verdict must say so.
    Broken(String),
}

impl Expectation {
    /// The promise that is to break, if it is about one.
    pub fn broken(&self) -> Option<&str> {
        match self {
            Expectation::Broken(promise) => Some(promise),
            _ => None,
        }
    }
}
