//! Faults of the servers' disks, and servers that end because of them.

use super::{Event, World};
use crate::faults::Victim;

impl World {
    /// The disk was made to fail, and now did: the process has ended by itself.
    pub(super) fn disk_failed(&mut self, server: usize) {
        let Some(down_ms) = self.servers[server].doomed else { return };
        self.note(|| format!("server {} ends: its disk failed", server + 1));
        self.crash_server(server, down_ms, true);
    }

    /// A server whose machine loses power ends with it, also when it had nothing to write.
    pub(super) fn end_doomed(&mut self, server: usize, starts: u64) {
        if self.servers[server].starts == starts && self.servers[server].is_up() {
            self.disk_failed(server);
        }
    }

    pub(super) fn crash_server(&mut self, server: usize, down_ms: u64, power_loss: bool) {
        let mut dice = self.dice.fork();
        self.servers[server].crash(power_loss, &mut dice);
        let of_server = |(number, known): (&u64, &super::Connection)| (known.server == server).then_some(*number);
        let connections: Vec<u64> = self.connections.iter().filter_map(of_server).collect();
        connections.into_iter().for_each(|connection| self.break_connection(connection));
        self.requests.retain(|(of, _), _| *of != server);
        self.agenda.after(down_ms, Event::Restart(Victim::Server(server)));
    }

    pub(super) fn give_disk_room(&mut self, server: usize, starts: u64) {
        if self.servers[server].starts <= starts {
            self.servers[server].fill_disk(false);
        }
    }

    /// The operator looks after the disk.
    pub(super) fn heal_disk(&mut self, server: usize) {
        self.servers[server].fill_disk(false);
        self.servers[server].slow_disk = None;
        if self.servers[server].doomed.is_some() && self.servers[server].is_up() {
            self.disk_failed(server);
        }
    }

    /// A server restarts over a disk that flipped a bit. It either names the damage and stays down until the file is
    /// restored, or has lost nothing; the oracle compares what it applies with what was applied before.
    pub(super) fn rot(&mut self, server: usize, down_ms: u64) {
        if !self.servers[server].is_up() {
            return;
        }
        self.crash_server(server, down_ms, false);
        let mut dice = self.dice.fork();
        let Some(bit) = self.servers[server].flip_bit(&mut dice) else { return };
        match self.servers[server].start(&mut dice) {
            Err(error) => {
                self.note(|| format!("server {} does not start: {error}", server + 1));
                self.servers[server].restore_bit(&bit);
            }
            Ok(()) => self.note(|| format!("server {} starts over a flipped bit in {}", server + 1, bit.0)),
        }
    }
}
