//! What goes wrong.

use super::words::{Parsed, Words};
use crate::scenario::{Extent, Fault, Kind, Shape, Way};

const STRIKES_MAX: usize = 10_000;

pub(super) fn faults(text: &str, cell: &Shape) -> Parsed<Vec<Fault>> {
    let mut words = Words::of(text);
    if words.skip("from") {
        let from_ms = words.duration()?;
        words.expect("every")?;
        let every_ms = words.duration()?;
        if words.skip("strike") {
            ["at", "random"].into_iter().try_for_each(|word| words.expect(word))?;
            let times = words.number(STRIKES_MAX)? as u64;
            words.expect("times")?;
            words.end()?;
            return Ok((0..times)
                .map(|number| Fault { at_ms: from_ms + number * every_ms, kind: Kind::Random })
                .collect());
        }
        if words.skip("take") {
            let kind = outage(&mut words, cell)?;
            let times = words.number(STRIKES_MAX)? as u64;
            words.expect("times")?;
            words.end()?;
            return Ok((0..times)
                .map(|number| Fault { at_ms: from_ms + number * every_ms, kind: kind.clone() })
                .collect());
        }
        words.expect("kill")?;
        if words.skip("the") {
            words.expect("leader")?;
            words.expect("for")?;
            let until_ms = from_ms + words.duration()?;
            words.end()?;
            several(cell)?;
            let kills = (from_ms..until_ms).step_by(every_ms.max(1) as usize).take(STRIKES_MAX);
            return Ok(kills.map(|at_ms| Fault { at_ms, kind: Kind::KillLeader }).collect());
        }
        let mut victims = Vec::new();
        while words.peek() != "in" {
            victims.push(words.process(cell)?);
        }
        words.expect("in")?;
        words.expect("turn")?;
        words.end()?;
        let turn =
            |(number, victim)| Fault { at_ms: from_ms + number as u64 * every_ms, kind: Kind::Kill(vec![victim]) };
        return Ok(victims.into_iter().enumerate().map(turn).collect());
    }
    words.expect("at")?;
    let at_ms = words.duration()?;
    let kind = kind(&mut words, cell)?;
    words.end()?;
    Ok(vec![Fault { at_ms, kind }])
}

fn kind(words: &mut Words<'_>, cell: &Shape) -> Parsed<Kind> {
    let for_ms = |words: &mut Words<'_>| words.expect("for").and_then(|()| words.duration());
    match words.take("a fault")? {
        "kill" if words.skip("everything") => Ok(Kind::Kill(cell.processes())),
        "kill" if words.skip("the") => {
            words.expect("leader")?;
            several(cell)?;
            Ok(Kind::KillLeader)
        }
        "kill" => {
            let mut victims = vec![words.process(cell)?];
            while !words.peek().is_empty() {
                words.skip("and");
                victims.push(words.process(cell)?);
            }
            Ok(Kind::Kill(victims))
        }
        "pause" => Ok(Kind::Pause { process: words.process(cell)?, for_ms: for_ms(words)? }),
        "cut" => {
            let process = connected(words, cell)?;
            let way = match words.peek() {
                "towards" => Way::Towards,
                "from" => Way::From,
                _ => Way::Both,
            };
            if way != Way::Both {
                words.take("a way")?;
                words.expect("the")?;
                words.expect("server")?;
            }
            Ok(Kind::Cut { process, way, for_ms: for_ms(words)? })
        }
        "delay" => {
            let process = connected(words, cell)?;
            words.expect("by")?;
            Ok(Kind::Delay { process, by_ms: words.duration()?, for_ms: for_ms(words)? })
        }
        "reset" => Ok(Kind::Reset { process: connected(words, cell)?, for_ms: for_ms(words)? }),
        "fill" => {
            words.expect("the")?;
            words.expect("disk")?;
            match cell.disk_bytes {
                Some(_) => Ok(Kind::FillDisk { for_ms: for_ms(words)? }),
                None => Err("only a disk of its own is filled: say \"disk of 64MiB\" in the cell: line".into()),
            }
        }
        "take" => outage(words, cell),
        word => Err(format!("\"{word}\" where kill, pause, cut, delay, reset, take or fill is due")),
    }
}

/// Simulated nodes that go down and come back.
fn outage(words: &mut Words<'_>, cell: &Shape) -> Parsed<Kind> {
    let extent = match (words.take("a node, two nodes or a rack")?, words.take("node, nodes or rack")?) {
        ("a", "node") => Extent::Node,
        ("two", "nodes") => Extent::TwoNodes,
        ("a", "rack") => Extent::Rack,
        (count, noun) => return Err(format!("\"{count} {noun}\" where a node, two nodes or a rack is due")),
    };
    if cell.simulated_nodes == 0 || (extent == Extent::Rack && cell.nodes_per_rack.is_none()) {
        return Err("only simulated nodes are taken down: say 20 simulated nodes in racks of 5".into());
    }
    words.expect("down")?;
    words.expect("for")?;
    let least_ms = words.duration()?;
    let most_ms = if words.skip("to") { words.duration()? } else { least_ms };
    match least_ms <= most_ms {
        true => Ok(Kind::Outage { extent, for_ms: (least_ms, most_ms) }),
        false => Err("the first time must be the shorter one".into()),
    }
}

/// Among several servers one leads.
fn several(cell: &Shape) -> Parsed<()> {
    match cell.servers {
        1 => Err("a lone server is no leader: say kill server, or 3 servers in the cell: line".into()),
        _ => Ok(()),
    }
}

/// A process that is connected to the servers, or the clients.
fn connected(words: &mut Words<'_>, cell: &Shape) -> Parsed<String> {
    if words.skip("clients") {
        return Ok("clients".into());
    }
    let process = words.process(cell)?;
    match ["shim-", "etcd-", "server"].iter().any(|peer| process.starts_with(peer)) {
        true => Err(format!("{process} has no connection to the server: name one that has, or clients")),
        false => Ok(process),
    }
}
