//! All tests around the crate, in one program: each further one would be linked by itself.

mod cases;
mod examples;
mod halves;
mod mutations;
mod round_trip;
