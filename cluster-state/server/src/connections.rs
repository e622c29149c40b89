//! The connections of the one port: how many there may be, who goes when there are too many, and how long one may be
//! quiet. Nobody who only connects can use up what the log and the roles need.

mod body;
mod guests;
mod room;
mod seat;
mod serve;

pub(crate) use guests::Guest;
pub(crate) use room::{Full, Limits, network_of};
pub(crate) use seat::Kind;
pub(crate) use serve::serve;
