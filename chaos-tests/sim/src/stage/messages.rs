//! Messages: how they travel, and how streams end.

use super::{Connection, Down, Event, Stage, Up};
use crate::faults::{Victim, Way};
use crate::links::{self, Link};
use ohm_log::Bytes;
use ohm_model::{Asked, Envelope};

impl Stage {
    pub(crate) fn send_up(&mut self, connection: u64, up: Up) {
        match self.arrival_ms(connection, true) {
            Some(at_ms) => self.agenda.at(at_ms, Event::ToServer { connection, up }),
            None => self.break_connection(connection),
        }
    }

    pub(crate) fn send_down(&mut self, connection: u64, down: Down) {
        match self.arrival_ms(connection, false) {
            Some(at_ms) => self.agenda.at(at_ms, Event::FromServer { connection, down }),
            None => self.break_connection(connection),
        }
    }

    /// Commands of a process that follows the log.
    pub(crate) fn send_commands(&mut self, connection: Option<u64>, envelopes: Vec<Envelope>) {
        let Some(connection) = connection else { return };
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let ticket = known.next_ticket;
        known.next_ticket += 1;
        let commands: Vec<Bytes> = envelopes.iter().map(|envelope| envelope.encode().into()).collect();
        known.tickets.insert(ticket, envelopes);
        self.send_up(connection, Up::Append { ticket, commands });
    }

    /// A person's request: a message of its own, which overtakes others, may be lost alone, and may arrive twice.
    pub(crate) fn send_request(&mut self, connection: u64, request: u64, asked: &Asked) {
        if !self.request_passes(connection, true) {
            return;
        }
        let twice = self.network.double_permille > 0 && self.dice.chance(self.network.double_permille);
        if twice {
            self.count("request doubled");
        }
        for _ in 0..1 + u64::from(twice) {
            let way_ms = self.way_ms();
            let up = Up::Command { request, asked: asked.clone() };
            self.agenda.after(way_ms, Event::ToServer { connection, up });
        }
    }

    /// The answer to a request of its own travels alone too.
    pub(crate) fn send_answer(&mut self, connection: u64, down: Down) {
        if self.request_passes(connection, false) {
            let way_ms = self.way_ms() + self.sending_delay_ms;
            self.agenda.after(way_ms, Event::FromServer { connection, down });
        }
    }

    /// Whether a message that travels alone reaches the other side.
    fn request_passes(&mut self, connection: u64, upwards: bool) -> bool {
        let Some(&Connection { victim, server, .. }) = self.connections.get(&connection) else { return false };
        if self.is_cut(victim, server, upwards) {
            self.break_connection(connection);
            return false;
        }
        let lost = self.network.lose_permille > 0 && self.dice.chance(self.network.lose_permille);
        if lost {
            self.count("request lost");
        }
        !lost
    }

    /// Bytes of one server on their way to another one.
    pub(crate) fn send_between(&mut self, from: usize, to: usize, bytes: Bytes) {
        if self.breaks() {
            self.count("message lost");
            return self.agenda.after(1, Event::Unreachable { from, to });
        }
        let (way_ms, now_ms) = (self.way_ms() + self.sending_delay_ms, self.now_ms());
        let at_ms = self.links.arrival_ms(now_ms, Link::Servers { from, to }, way_ms);
        self.agenda.at(at_ms, Event::Between { from, to, bytes });
    }

    /// Each side learns by its own time-outs that the connection is over; what was under way may still arrive.
    pub(crate) fn break_connection(&mut self, connection: u64) {
        let Some(Connection { victim, server, server_starts, .. }) = self.connections.remove(&connection) else {
            return;
        };
        self.links.forget(connection);
        let (near_ms, far_ms) = (self.dice.between(1, 2_000), self.dice.between(1, 4_000));
        if self.network.late_permille > 0 && self.dice.chance(self.network.late_permille) {
            self.late.insert(connection, (server, server_starts));
        }
        self.agenda.after(near_ms, Event::ProcessLoses { victim, connection });
        self.agenda.after(far_ms, Event::ServerLoses { connection, server, starts: server_starts });
    }

    /// The server ended: so did every stream to it.
    pub(crate) fn break_connections_to(&mut self, server: usize) {
        let of_server = |(number, known): (&u64, &Connection)| (known.server == server).then_some(*number);
        let connections: Vec<u64> = self.connections.iter().filter_map(of_server).collect();
        connections.into_iter().for_each(|connection| self.break_connection(connection));
    }

    /// The server that a message over this stream reaches, and its start; also when the stream is over by now.
    pub(crate) fn reached_by(&mut self, connection: u64) -> Option<(usize, u64)> {
        if let Some(known) = self.connections.get(&connection) {
            return Some((known.server, known.server_starts));
        }
        let late = self.late.get(&connection).copied();
        if late.is_some() {
            self.count("message late");
        }
        late
    }

    /// Requests travel apart, so a later one may come first.
    pub(crate) fn note_order(&mut self, connection: u64, request: u64) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        if request < known.last_request {
            self.count("request overtaken");
        } else {
            known.last_request = request;
        }
    }

    /// How long a message sent now is under way.
    pub(crate) fn way_ms(&mut self) -> u64 {
        let (times, until_ms) = self.storm;
        let times = if until_ms > self.now_ms() { times } else { 1 };
        links::way_ms(&self.network, times, &mut self.dice)
    }

    /// When a message sent now over the stream of `connection` arrives; nothing when it is lost with its stream.
    fn arrival_ms(&mut self, connection: u64, upwards: bool) -> Option<u64> {
        let Connection { victim, server, .. } = *self.connections.get(&connection)?;
        if self.is_cut(victim, server, upwards) {
            return None;
        }
        if self.breaks() {
            self.count("stream broken");
            return None;
        }
        let (way_ms, now_ms) = (self.way_ms() + self.sending_delay_ms, self.now_ms());
        Some(self.links.arrival_ms(now_ms, Link::Stream { connection, upwards }, way_ms))
    }

    /// Whether the stream over which a message leaves breaks under it.
    fn breaks(&mut self) -> bool {
        self.network.break_per_100000 > 0 && self.dice.below(100_000) < self.network.break_per_100000
    }

    /// Whether a cut keeps messages between this process and this server from passing in this direction.
    pub(crate) fn is_cut(&self, victim: Victim, server: usize, upwards: bool) -> bool {
        self.is_cut_off(victim, upwards) || self.is_cut_off(Victim::Server(server), upwards)
    }

    /// Whether nothing passes from one server to another.
    pub(crate) fn is_cut_between(&self, from: usize, to: usize) -> bool {
        let split_until_ms = self.splits.get(&(from, to)).copied().unwrap_or(0);
        split_until_ms > self.now_ms()
            || self.is_cut_off(Victim::Server(from), false)
            || self.is_cut_off(Victim::Server(to), true)
    }

    fn is_cut_off(&self, victim: Victim, upwards: bool) -> bool {
        let Some(&(way, until_ms)) = self.cuts.get(&victim) else { return false };
        let this_way = way == Way::Both || (way == Way::Up) == upwards;
        this_way && until_ms > self.now_ms()
    }
}
