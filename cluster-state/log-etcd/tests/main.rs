//! All tests around the crate, in one program: each further one would be linked by itself.

#[cfg(feature = "client")]
mod contract_etcd;
mod current;
mod fake;
mod hostile;
#[cfg(feature = "client")]
mod process;
