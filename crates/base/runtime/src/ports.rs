//! Ports of this machine that a program started in a moment can listen on.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;

/// Below where Linux takes the ports of outgoing connections (32768 and up), above what services are known by: a port
/// from here is not taken by a passing connection between the look and the use.
const PORTS: Range<u16> = 12_000..32_000;
const TRIES: usize = 200;

/// `count` neighbouring addresses on the loopback, each free now. Two programs that ask in the same moment get the same
/// ones with a chance of one in thousands: where they start is drawn.
///
/// # Errors
/// When no such row of ports was free in many tries.
pub fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, Error> {
    (0..TRIES)
        .find_map(|_| free_row(rand::random_range(PORTS), count))
        .ok_or_else(|| Error::new(ErrorKind::AddrInUse, format!("no {count} free neighbouring ports in {PORTS:?}")))
}

/// The addresses from `first` on, if all of them are free and in the range.
fn free_row(first: u16, count: usize) -> Option<Vec<SocketAddr>> {
    let end = usize::from(first).checked_add(count).and_then(|end| u16::try_from(end).ok());
    let ports = first..end.filter(|end| *end <= PORTS.end)?;
    let addresses: Vec<SocketAddr> = ports.map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
    // All are held until all are known to be free.
    let held: Result<Vec<TcpListener>, Error> = addresses.iter().map(TcpListener::bind).collect();
    held.ok().map(|_| addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_free_and_has_no_gaps() {
        let row = free_addresses(5).unwrap();
        assert!(row.windows(2).all(|pair| pair[0].port() + 1 == pair[1].port()), "{row:?}");
        assert!(row.iter().all(|address| PORTS.contains(&address.port())), "{row:?}");
        let taken = TcpListener::bind(row[3]).unwrap();
        assert_eq!(free_row(row[0].port(), 5), None, "{taken:?} is taken");
        assert_eq!(free_row(PORTS.end - 2, 3), None, "the row would leave the range");
    }
}
