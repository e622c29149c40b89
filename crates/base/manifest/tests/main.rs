//! All tests around the crate, in one program: each further one would be linked by itself.

mod ages;
mod cases;
mod controllers;
mod each;
mod examples;
mod halves;
mod mutations;
mod pods;
mod quota;
mod round_trip;
mod running;
