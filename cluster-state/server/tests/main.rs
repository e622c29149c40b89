//! All tests around the crate, in one program: each further one would be linked by itself.

mod duty;
mod golden;
mod hello;
mod three_servers;
