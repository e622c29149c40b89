//! All tests around the crate, in one program: each further one would be linked by itself.

mod cancels;
mod cell;
mod chaos;
mod clocks;
mod clones;
mod conditions;
mod disk;
mod drains;
#[cfg(feature = "etcd")]
mod etcd;
mod fairness;
mod faults;
mod heads;
mod kept;
mod kubernetes;
mod live;
mod memory;
mod neighbours;
mod outages;
mod owed_room;
mod plan;
#[cfg(feature = "etcd")]
#[allow(dead_code)]
#[path = "../../../../cluster-state/log-etcd/tests/process/mod.rs"]
mod process;
mod profiles;
mod provisioning;
mod races;
mod real;
mod repairs;
mod served;
mod servers;
mod shares;
mod shutdown;
mod spares;
mod stop_delays;
mod strangers;
mod submit;
mod survivors;
mod taints;
mod teams;
mod tls;
mod waits;
