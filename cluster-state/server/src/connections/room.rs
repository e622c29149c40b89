//! Who may hold a connection, and who loses one when there are too many. No socket and no clock in here.
//!
//! ```text
//!  accepted ──▶ stranger ──token, HTTP──▶ person
//!                   └──────token, RPC───▶ role
//! ```
//! Invariant: each kind has room of its own. Strangers push out strangers only, and of them the oldest of the address
//! that has the most: whoever opens connections without end from one place pushes out their own.

use super::seat::{Kind, Seat};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Most strangers; what they send is read before anything is known of them.
const STRANGERS_MAX: u64 = 4096;
/// Connections that still close while others are taken already.
pub(super) const CLOSING_MAX: u64 = 32;
/// Most connections at all, however many files may be open.
const CONNECTIONS_MAX: u64 = 262_144;
/// Descriptors for everything but connections (log, snapshots, ways to other servers), where there are enough.
const RESERVE: u64 = 128;

/// How many connections of each kind there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(super) all: usize,
    strangers: usize,
    people: usize,
}

impl Limits {
    /// Of a process that may have `descriptors` files open.
    pub(crate) fn of(descriptors: u64) -> Self {
        let reserve = RESERVE.min(descriptors / 2) + CLOSING_MAX;
        let all = descriptors.saturating_sub(reserve).clamp(8, CONNECTIONS_MAX);
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Limits { all: size(all), strangers: size((all / 4).min(STRANGERS_MAX)), people: size(all / 2) }
    }
}

/// Why a connection can't be told apart any further: there are as many of its kind as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The connections there are.
#[derive(Debug)]
pub(super) struct Room {
    limits: Limits,
    next: u64,
    held: BTreeMap<u64, (IpAddr, Arc<Seat>)>,
    /// Connections by age, by where they come from.
    strangers: BTreeMap<IpAddr, BTreeSet<u64>>,
    counts: [usize; Kind::COUNT],
}

impl Room {
    pub(super) fn new(limits: Limits) -> Self {
        Room { limits, next: 0, held: BTreeMap::new(), strangers: BTreeMap::new(), counts: [0; Kind::COUNT] }
    }

    /// A connection was accepted. Gives its number, and who has to go for it.
    pub(super) fn enter(&mut self, address: IpAddr, seat: Arc<Seat>) -> (u64, Option<Arc<Seat>>) {
        let (id, address) = (self.next, network_of(address));
        self.next += 1;
        self.held.insert(id, (address, seat));
        self.strangers.entry(address).or_default().insert(id);
        self.counts[Kind::Stranger.index()] += 1;
        let is_over = self.count(Kind::Stranger) > self.limits.strangers;
        (id, if is_over { self.oldest_stranger().and_then(|id| self.leave(id)) } else { None })
    }

    /// Connection `id` has shown the token as `kind`. Gives who has to go for it.
    pub(super) fn recognise(&mut self, id: u64, kind: Kind) -> Result<Option<Arc<Seat>>, Full> {
        let Some((address, seat)) = self.held.get(&id).map(|(address, seat)| (*address, Arc::clone(seat))) else {
            return Err(Full);
        };
        let before = seat.kind();
        if before >= kind {
            return Ok(None);
        }
        let known_max = self.limits.all - self.limits.strangers;
        let is_full = self.count(Kind::Person) + self.count(Kind::Role) >= known_max && before == Kind::Stranger;
        let are_people_full = kind == Kind::Person && self.count(Kind::Person) >= self.limits.people;
        let evicted = match is_full || are_people_full {
            // A role never waits for people: it takes the place of the one that has been idle for the longest.
            true => Some(self.idlest_person(kind == Kind::Role).and_then(|id| self.leave(id)).ok_or(Full)?),
            false => None,
        };
        self.forget_stranger(address, id);
        self.counts[before.index()] -= 1;
        self.counts[kind.index()] += 1;
        seat.become_known(kind);
        Ok(evicted)
    }

    /// The connection ended, or has to. None when it had left before.
    pub(super) fn leave(&mut self, id: u64) -> Option<Arc<Seat>> {
        let (address, seat) = self.held.remove(&id)?;
        self.forget_stranger(address, id);
        self.counts[seat.kind().index()] -= 1;
        Some(seat)
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.counts[kind.index()]
    }

    fn forget_stranger(&mut self, address: IpAddr, id: u64) {
        if let Some(there) = self.strangers.get_mut(&address) {
            there.remove(&id);
            if there.is_empty() {
                self.strangers.remove(&address);
            }
        }
    }

    /// The oldest one of the address with the most; of several such addresses, of the one with the oldest.
    fn oldest_stranger(&self) -> Option<u64> {
        let oldest = self.strangers.values().filter_map(|there| Some((there.len(), *there.first()?)));
        oldest.max_by_key(|(count, id)| (*count, std::cmp::Reverse(*id))).map(|(_, id)| id)
    }

    /// Who has been idle for the longest; `even_busy`, who has been there for the longest if nobody is idle.
    fn idlest_person(&self, even_busy: bool) -> Option<u64> {
        let people = || self.held.iter().filter(|(_, (_, seat))| seat.kind() == Kind::Person);
        let idle = people().filter_map(|(id, (_, seat))| Some((seat.idle_since_ms()?, *id))).min();
        idle.map(|(_, id)| id).or_else(|| people().next().map(|(id, _)| *id).filter(|_| even_busy))
    }
}

/// Whoever has one address of IPv6 has all that share its first half.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    /// Room for 2 strangers, 4 people, 2 roles.
    fn room() -> Room {
        Room::new(Limits { all: 8, strangers: 2, people: 4 })
    }

    fn enter(room: &mut Room, address: IpAddr) -> (u64, Option<u64>) {
        let before: Vec<u64> = room.held.keys().copied().collect();
        let (id, evicted) = room.enter(address, Arc::new(Seat::new(0)));
        let gone = before.into_iter().find(|id| !room.held.contains_key(id));
        assert_eq!(gone.is_some(), evicted.is_some());
        (id, gone)
    }

    fn known(room: &mut Room, kind: Kind) -> Result<u64, Full> {
        let (id, _) = enter(room, HERE);
        room.recognise(id, kind).map(|_| id)
    }

    #[test]
    fn a_reserve_is_kept_of_any_number_of_descriptors() {
        for (descriptors, all, strangers) in
            [(1024, 864, 216), (4000, 3840, 960), (128, 32, 8), (20, 8, 2), (1 << 20, 262_144, 4096)]
        {
            let limits = Limits::of(descriptors);
            assert_eq!((limits.all, limits.strangers), (all, strangers), "{descriptors}");
            assert!(limits.strangers + limits.people < limits.all);
        }
    }

    #[test]
    fn strangers_push_out_strangers_of_the_busiest_address() {
        let mut room = room();
        let role = known(&mut room, Kind::Role).unwrap();
        let person = known(&mut room, Kind::Person).unwrap();
        let (first, _) = enter(&mut room, THERE);
        let mut newest = enter(&mut room, HERE).0;
        for _ in 0..100 {
            let (id, gone) = enter(&mut room, HERE);
            assert_eq!(gone, Some(newest), "the only one from elsewhere stays");
            newest = id;
        }
        assert!([role, person, first].iter().all(|id| room.held.contains_key(id)));
        assert_eq!(enter(&mut room, THERE).1, Some(first), "as many from each: the oldest goes");
    }

    #[test]
    fn people_push_out_who_is_idle_and_roles_push_out_people() {
        let mut room = room();
        let people: Vec<u64> = (0..4).map(|_| known(&mut room, Kind::Person).unwrap()).collect();
        for id in &people {
            room.held[id].1.begin(*id);
        }
        assert_eq!(known(&mut room, Kind::Person), Err(Full), "all of them have requests under way");
        room.held[&people[2]].1.end(50);
        known(&mut room, Kind::Person).unwrap();
        assert!(!room.held.contains_key(&people[2]), "it was idle");
        assert!(known(&mut room, Kind::Role).is_ok() && known(&mut room, Kind::Role).is_ok());
        assert!(known(&mut room, Kind::Role).is_ok(), "beyond its own room it takes that of people");
        assert_eq!((room.count(Kind::Person), room.count(Kind::Role)), (3, 3));
    }

    #[test]
    fn whoever_is_known_counts_once_and_leaves_once() {
        let mut room = room();
        let id = known(&mut room, Kind::Person).unwrap();
        assert!(room.recognise(id, Kind::Role).is_ok() && room.recognise(id, Kind::Person).is_ok());
        assert_eq!((room.count(Kind::Person), room.count(Kind::Role)), (0, 1));
        assert!(room.leave(id).is_some() && room.leave(id).is_none());
        assert_eq!(room.recognise(id, Kind::Person).err(), Some(Full), "it was told to go");
        assert_eq!(room.counts, [0; Kind::COUNT]);
        assert!(room.strangers.is_empty());
    }

    #[test]
    fn neighbours_in_ipv6_are_one() {
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let other: IpAddr = "2001:db8::ffff:1".parse().unwrap();
        assert_eq!(network_of(one), network_of(other));
        assert_eq!(network_of("::ffff:10.0.0.1".parse().unwrap()), THERE);
    }
}
