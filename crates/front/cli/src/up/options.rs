//! The arguments of `ohm up`.

use crate::etcd::EngineArguments;
use ohm_model::Class;
use std::net::SocketAddr;
use std::str::FromStr;

pub(super) const HOSTS_MAX: usize = 200;

/// `ohm up`.
#[derive(Clone, Debug, clap::Args)]
pub struct Up {
    /// Address of the server
    #[arg(long, default_value = "127.0.0.1:6460", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// How many servers keep the truth: 1, 3 or 5, on the ports after that of --listen
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = servers)]
    pub(crate) servers: u16,
    /// Blocks x racks in each x hosts in each
    #[arg(long, default_value = "2x2x2", value_name = "BxRxH")]
    pub(crate) shape: Shape,
    /// So many hosts in one rack instead; 0 leaves the nodes out: `ohm agent` in the same folder then adds one
    #[arg(long, value_name = "COUNT", conflicts_with = "shape")]
    pub(crate) nodes: Option<usize>,
    /// More replicas of a class of scheduler, such as batch=2
    #[arg(long, value_name = "CLASS=COUNT")]
    pub(crate) schedulers: Vec<Replicas>,
    /// How long a node may go on without a word from the health duty, in milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub(crate) node_lease_ms: u64,
    /// How long the lease of the health duty itself lasts, in milliseconds; the shorter, the shorter node leases may be
    #[arg(long, default_value_t = 4_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(500..60_000))]
    pub(crate) duty_lease_ms: u64,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
}

fn servers(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| [1, 3, 5].contains(count));
    count.ok_or_else(|| "1, 3 or 5 are possible: of an even number one more may not fail than of one less".to_string())
}

/// Blocks, racks in each, hosts in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(super) blocks: usize,
    pub(super) racks: usize,
    pub(super) hosts: usize,
}

fn is_possible(blocks: usize, racks: usize, hosts: usize) -> bool {
    let count = blocks.checked_mul(racks).and_then(|racks| racks.checked_mul(hosts));
    count.is_some_and(|count| (1..=HOSTS_MAX).contains(&count))
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<usize>> = text.split('x').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[blocks, racks, hosts]) if is_possible(blocks, racks, hosts) => Ok(Shape { blocks, racks, hosts }),
            _ => Err(format!("blocks x racks x hosts, such as 2x2x2, with 1 to {HOSTS_MAX} hosts in all")),
        }
    }
}

/// How many replicas of a class of scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(super) class: Class,
    pub(super) count: usize,
}

impl FromStr for Replicas {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || "a class and a count, such as batch=2; classes are batch, service and tas".to_string();
        let (class, count) = text.split_once('=').ok_or_else(wanted)?;
        let class = Class::BUILT_IN.into_iter().find(|known| known.name() == class).ok_or_else(wanted)?;
        let count = count.parse().ok().filter(|count| *count <= 16).ok_or_else(wanted)?;
        Ok(Replicas { class, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_replicas_are_read_or_refused_with_an_example() {
        assert_eq!("1x2x5".parse(), Ok(Shape { blocks: 1, racks: 2, hosts: 5 }));
        for wrong in ["2x2", "0x1x1", "axbxc", "100x100x100", "18446744073709551615x18446744073709551615x1", ""] {
            assert!(wrong.parse::<Shape>().unwrap_err().contains("such as 2x2x2"), "{wrong}");
        }
        assert_eq!("batch=2".parse(), Ok(Replicas { class: Class::BATCH, count: 2 }));
        for wrong in ["batch", "cron=1", "batch=-1", "batch=99"] {
            assert!(wrong.parse::<Replicas>().unwrap_err().contains("such as batch=2"), "{wrong}");
        }
    }
}
