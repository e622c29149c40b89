//! Placing one group, or a leader with its workers, on counts borrowed for it.

use super::repair::{Gap, waiting};
use super::tally::{Loan, room};
use super::{Choice, Counts, Layers, Reach, Refusal, Request, Short, Site, choose};
use crate::amount::{Amount, Spots};
use crate::devices::DeviceRoom;
use crate::placer::{Pass, Placer};
use crate::subject::Subject;
use ohm_model::{NodeId, TopologyMode};
use std::collections::BTreeMap;

/// Where tasks go: for each task its rank, or spots for whichever ranks wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seats {
    /// Ranks that are bound to a node each.
    pub(crate) bound: Vec<(u32, NodeId)>,
    /// Nodes for `ranks` in their order.
    pub(crate) free: Spots,
    /// Waiting ranks that may take any of them, ascending; empty where all that wait may.
    pub(crate) ranks: Vec<u32>,
}

impl Placer {
    /// Places as many of `amount.most` tasks as fit together, at least `amount.least`. `domain` is a (level, key) that
    /// they must stay in.
    pub(crate) fn place_in_topology<'c>(
        &mut self,
        pass: &Pass<'_>,
        subject: &Subject<'_>,
        site: &Site<'c>,
        domain: Option<(usize, u32)>,
        amount: &Amount,
    ) -> Result<Seats, Refusal<'c>> {
        let mut loan = self.borrow_counts(pass, subject, site);
        let seats = lay(&mut loan, subject, site, domain, amount);
        self.return_counts(loan);
        seats
    }

    /// Places a leader and as many workers as fit together with it, at least `amount.least`. `beside` says of nodes
    /// with held room that take the leader how many workers fit beside it.
    pub(crate) fn place_pair<'c>(
        &mut self,
        pass: &Pass<'_>,
        (leader, workers): (&Subject<'_>, &Subject<'_>),
        beside: &BTreeMap<NodeId, u32>,
        site: &Site<'c>,
        amount: &Amount,
    ) -> Result<(NodeId, Spots), Refusal<'c>> {
        let loan = self.borrow_counts(pass, workers, site);
        let around = leader.surroundings();
        let may_stand = |node| around.as_ref().is_none_or(|around| around.room(node, 1) > 0);
        let (slot, scanned) = self.index(leader);
        let (table, index) = self.parts(slot);
        let tree = &site.tree;
        let level = tree.node_level();
        pass.look_at(scanned + tree.level(level).len() as u64);
        let counts = loan.counts().clone_for_leader(|counts, position| {
            let (node, alone) = (tree.node(position), counts.at(level, position).tasks);
            if table.is_singled(node) {
                return beside.get(&node).map(|room| u64::from(*room));
            }
            let hosts = room(leader, table, &index.demand, node) > 0 && may_stand(node);
            hosts.then(|| workers.room_beside(leader, node, alone))
        });
        let found = largest(&counts, site, true, site.wish.level, amount);
        let fence = site.fence(site.wish.level, None);
        let found = found.map_err(|short| site.refusal(workers.view.cell(), &counts, &short, amount.most, fence));
        self.return_counts(loan);
        let choice = found?;
        let spots = spots(site, &choice);
        let leader = choice.leader.map(|position| tree.node(position));
        let short = Short { fit: 0, level: site.wish.level, best: None };
        leader
            .map(|node| (node, spots))
            .ok_or_else(|| site.refusal(workers.view.cell(), &counts, &short, amount.most, fence))
    }
}

fn spots(site: &Site<'_>, choice: &Choice) -> Spots {
    choice.nodes.iter().map(|(position, tasks)| (site.tree.node(*position), *tasks as u32)).collect()
}

/// Fills broken slices first, each in its own domain, and lays what is left in whole slices.
fn lay<'c>(
    loan: &mut Loan,
    subject: &Subject<'_>,
    site: &Site<'c>,
    domain: Option<(usize, u32)>,
    amount: &Amount,
) -> Result<Seats, Refusal<'c>> {
    let mut seats = Seats::default();
    let mut rest = *amount;
    if !site.wish.slices.is_empty() {
        let waits = waiting(subject, site);
        for gap in waits.gaps {
            let unit = gap.inner.first().map_or(1, |(_, size)| *size as usize);
            let tasks = gap.ranks.len().min(rest.most as usize) / unit * unit;
            if tasks > 0 {
                fill_gap(loan, subject, site, &gap, tasks, &mut seats)?;
                rest.most -= tasks as u32;
                rest.least = rest.least.saturating_sub(tasks as u32);
            }
        }
        rest.most = rest.most.min(waits.free.len() as u32);
        seats.ranks = waits.free;
    }
    if rest.most / site.wish.size() == 0 && !seats.bound.is_empty() {
        return Ok(seats);
    }
    rest.least = rest.least.max(u32::from(seats.bound.is_empty()));
    let counts;
    let found = match domain {
        None => largest(loan.counts(), site, false, site.wish.level, &rest).map_err(|short| (short, loan.counts())),
        Some((level, key)) => {
            let position = site.tree.find(level, key);
            counts = position.map(|position| loan.counts().within(loan.counts().layers().clone(), level, position));
            match &counts {
                None => Err((Short { fit: 0, level, best: None }, loan.counts())),
                Some(counts) => largest(counts, site, false, level, &rest).map_err(|short| (short, counts)),
            }
        }
    };
    match found {
        Ok(choice) => {
            seats.free.extend(spots(site, &choice));
            Ok(seats)
        }
        Err((short, counts)) => {
            let fence = site.fence(domain.map_or(site.wish.level, |(level, _)| level), domain.map(|(_, key)| key));
            Err(site.refusal(subject.view.cell(), counts, &short, amount.most, fence))
        }
    }
}

/// Binds the first `tasks` ranks of a gap to nodes of its domain.
fn fill_gap<'c>(
    loan: &mut Loan,
    subject: &Subject<'_>,
    site: &Site<'c>,
    gap: &Gap,
    tasks: usize,
    seats: &mut Seats,
) -> Result<(), Refusal<'c>> {
    let counts = loan.counts().within(Layers::new(&gap.inner, site.tree.lowest()), gap.level, gap.position);
    let request = Request {
        tasks: tasks as u64,
        leader: false,
        level: gap.level,
        reach: Reach::One,
        order: site.wish.order(),
        balanced: false,
        salt: 0,
    };
    let choice = choose(&counts, &request).map_err(|short| {
        let key = site.tree.level(gap.level).get(gap.position as usize).map(|place| place.key);
        let fence = site.fence(gap.level, key);
        site.inside_slice(gap.level, &gap.inner).refusal(subject.view.cell(), &counts, &short, tasks as u32, fence)
    })?;
    let mut ranks = gap.ranks.iter().copied();
    let level = site.tree.node_level();
    for &(position, given) in &choice.nodes {
        loan.set(position, loan.counts().at(level, position).tasks.saturating_sub(given));
        let node = site.tree.node(position);
        seats.bound.extend(ranks.by_ref().take(given as usize).map(|rank| (rank, node)));
    }
    Ok(())
}

/// The largest number of whole slices from `amount.least` to `amount.most` tasks that there is a choice for.
fn largest(counts: &Counts, site: &Site<'_>, leader: bool, level: usize, amount: &Amount) -> Result<Choice, Short> {
    let size = u64::from(site.wish.size());
    let fenced = counts.is_part();
    let reach = match site.wish.mode {
        TopologyMode::Unconstrained | TopologyMode::None => Reach::Flat,
        TopologyMode::Preferred if !fenced => Reach::Climbs,
        _ => Reach::One,
    };
    let request = |slices: u64| Request {
        tasks: slices * size,
        leader,
        level,
        reach,
        order: site.wish.order(),
        balanced: site.wish.balanced,
        salt: amount.salt,
    };
    let (least, most) = (u64::from(amount.least.max(1)).div_ceil(size), u64::from(amount.most) / size);
    let short = match choose(counts, &request(most)) {
        Ok(choice) => return Ok(choice),
        Err(short) => short,
    };
    if least >= most {
        return Err(short);
    }
    // What fits as it was asked for mostly fits when only that is asked for; if not, it is searched for. With
    // preferences it is what the most preferred domain takes, and a less preferred one may take more.
    if (least..most).contains(&short.fit)
        && !leader
        && !counts.has_affinity()
        && let Ok(choice) = choose(counts, &request(short.fit))
    {
        return Ok(choice);
    }
    let mut best = choose(counts, &request(least)).map_err(|_| short)?;
    let (mut low, mut high) = (least, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match choose(counts, &request(middle)) {
            Ok(choice) => (best, low) = (choice, middle),
            Err(_) => high = middle,
        }
    }
    Ok(best)
}

impl Subject<'_> {
    /// How many tasks fit on `node`, where no room is held, beside one task of `leader`, of the `alone` that fit
    /// without it.
    fn room_beside(&self, leader: &Subject<'_>, node: NodeId, alone: u64) -> u64 {
        if alone == 0 || self.shape.ports.iter().any(|port| leader.shape.ports.iter().any(|held| held.meets(*port))) {
            return 0;
        }
        let mut room = alone;
        for &(resource, request) in &self.shape.requests {
            let taken =
                leader.shape.requests.iter().find(|(other, _)| *other == resource).map_or(0, |(_, taken)| *taken);
            if taken > 0 {
                let free = self.view.free(node, resource);
                room = room.min(((free - taken) / request.max(1)).max(0) as u64);
            }
        }
        let shares = |(resource, _): &(ohm_model::ResourceId, i64)| {
            leader.shape.devices.iter().any(|(other, _)| other == resource)
        };
        if room > 0 && self.shape.devices.iter().any(shares) {
            room = room.min(u64::from(DeviceRoom::beside(&self.view, self.shape, leader.shape, node)));
        }
        room
    }
}
