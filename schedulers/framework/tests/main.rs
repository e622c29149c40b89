//! All tests around the crate, in one program: each further one would be linked by itself.

mod commits;
mod guards;
mod heads;
mod kin;
mod moves;
mod racing;
mod ready;
mod repair;
mod shares;
mod stops;
mod strict_order;
mod subqueues;
mod words;
mod world;
