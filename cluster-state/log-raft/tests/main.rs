//! All tests around the crate, in one program: each further one would be linked by itself.

mod cluster;
mod contract;
mod contract_group;
mod crash;
mod damage;
mod disk_faults;
mod group;
mod hostile;
mod marks;
mod membership;
mod world;
