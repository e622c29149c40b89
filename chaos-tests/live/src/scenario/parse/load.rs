//! What goes through the cell.

use super::words::{Parsed, Words};
use crate::scenario::{Load, Pool, Repair, Shape, Stands};
use ohm_model::Class;

const JOBS_MAX: usize = 100_000;
const TASKS_MAX: usize = 1_000;

pub(super) fn load(text: &str, cell: &Shape) -> Parsed<Load> {
    let mut words = Words::of(text);
    let jobs = words.number(JOBS_MAX)?;
    let class = match words.take("a class")? {
        "batch" => Class::BATCH,
        "tas" => Class::TAS,
        "service" => Class::SERVICE,
        word => return Err(format!("\"{word}\" where batch, service or tas is due")),
    };
    words.expect("jobs")?;
    words.expect("on")?;
    let (pool, nodes) = match words.take("real or simulated")? {
        "real" => (Pool::Real, cell.real_nodes),
        "simulated" => (Pool::Simulated, cell.simulated_nodes),
        word => return Err(format!("\"{word}\" where real or simulated is due")),
    };
    words.expect("nodes")?;
    if nodes == 0 {
        return Err(format!("this cell has no {} nodes", pool.name()));
    }
    let per_second = words.number(10_000)? as u64;
    words.expect("per")?;
    words.expect("second")?;
    let least = words.number(TASKS_MAX)?;
    let most = if words.skip("to") { words.number(TASKS_MAX)? } else { least };
    if most < least {
        return Err(format!("{least} to {most} tasks: the first number must be the smaller one"));
    }
    if !words.skip("task") {
        words.expect("tasks")?;
    }
    let task_ms = if words.skip("until") {
        ["the", "end"].into_iter().try_for_each(|word| words.expect(word))?;
        None
    } else {
        words.expect("of")?;
        Some(words.duration()?)
    };
    let (tasks, stands) = ((least, most), Stands::Anywhere);
    let mut load = Load { jobs, class, pool, per_second, tasks, task_ms, stands, repair: None };
    while !words.peek().is_empty() {
        wish(&mut words, &mut load)?;
    }
    let in_racks = load.stands != Stands::Anywhere;
    if pool == Pool::Real && (load.task_ms.is_none() || in_racks) {
        return Err("\"until the end\", \"in one rack\" and \"in slices\" are for simulated nodes".into());
    }
    if in_racks && cell.nodes_per_rack.is_none() {
        return Err("this cell has no racks: say in racks of 10 in the cell: line".into());
    }
    if load.repair == Some(Repair::Widens) && load.stands != Stands::InRack {
        return Err("only what stands in one rack widens: say in one rack, too".into());
    }
    Ok(load)
}

/// What the jobs of a load ask for besides.
fn wish(words: &mut Words<'_>, load: &mut Load) -> Parsed<()> {
    match words.take("a wish")? {
        "in" if words.skip("slices") => {
            words.expect("of")?;
            load.stands = Stands::InSlices(words.number(TASKS_MAX)?);
            ["per", "rack"].into_iter().try_for_each(|word| words.expect(word))?;
        }
        "in" => {
            ["one", "rack"].into_iter().try_for_each(|word| words.expect(word))?;
            load.stands = Stands::InRack;
        }
        "repair" => {
            load.repair = Some(match words.take("fails, waits or widens")? {
                "fails" => words.expect("fast").map(|()| Repair::FailsFast)?,
                "waits" => Repair::Waits(words.duration()?),
                "widens" => Repair::Widens,
                word => return Err(format!("\"{word}\" where fails fast, waits 1min or widens is due")),
            });
        }
        word => {
            return Err(format!("\"{word}\" where in one rack, in slices of 4 per rack or repair is due"));
        }
    }
    Ok(())
}
