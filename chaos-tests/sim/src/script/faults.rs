//! Faults as words, and back.

use super::words::Words;
use crate::faults::{Change, Fault, Victim, Way};
use ohm_model::ConditionKind;

/// The words that faults begin with.
pub(super) const VERBS: &[&str] = &[
    "crash",
    "power-off",
    "forget",
    "pause",
    "freeze-health",
    "stranger",
    "cut",
    "split",
    "depose",
    "lose-disk",
    "lose-log",
    "cut-log",
    "retire",
    "add-server",
    "transfer",
    "storm",
    "reboot",
    "wipe",
    "fill-disk",
    "slow-disk",
    "fail-disk",
    "rot-disk",
    "jump-clock",
    "ail",
    "respec",
];

const CHANGES: [(&str, Change); 7] = [
    ("rack", Change::Rack),
    ("tier", Change::Tier),
    ("no-schedule", Change::NoSchedule),
    ("no-execute", Change::NoExecute),
    ("untaint", Change::Untaint),
    ("shrink", Change::Shrink),
    ("grow", Change::Grow),
];

/// A whole line of a scenario.
pub(crate) fn fault_line(at_ms: u64, fault: &Fault) -> String {
    format!("at {at_ms}ms {}", fault_words(fault))
}

/// The fault as a scenario says it.
pub(crate) fn fault_words(fault: &Fault) -> String {
    match *fault {
        Fault::Crash { victim, down_ms } => format!("crash {} for {down_ms}ms", name(victim)),
        Fault::PowerLoss { server, after_calls, down_ms } => {
            format!("power-off server {} after {after_calls} calls for {down_ms}ms", server + 1)
        }
        Fault::Amnesia { client, down_ms } => format!("forget client {} for {down_ms}ms", client + 1),
        Fault::Pause { victim, for_ms } => format!("pause {} for {for_ms}ms", name(victim)),
        Fault::Freeze { for_ms } => format!("freeze-health for {for_ms}ms"),
        Fault::Stranger { for_ms } => format!("stranger for {for_ms}ms"),
        Fault::Cut { victim, way, for_ms } => format!("cut {}{} for {for_ms}ms", name(victim), way_word(way)),
        Fault::Split { one, other, way, for_ms } => {
            format!("split server {} server {}{} for {for_ms}ms", one + 1, other + 1, way_word(way))
        }
        Fault::Depose { for_ms } => format!("depose for {for_ms}ms"),
        Fault::LostDisk { server } => format!("lose-disk server {}", server + 1),
        Fault::LostLog { server, down_ms } => format!("lose-log server {} for {down_ms}ms", server + 1),
        Fault::CutLog { server, down_ms } => format!("cut-log server {} for {down_ms}ms", server + 1),
        Fault::Retire { server } => format!("retire server {}", server + 1),
        Fault::AddServer => "add-server".to_string(),
        Fault::Transfer { server } => format!("transfer server {}", server + 1),
        Fault::Storm { times, for_ms } => format!("storm {times} times for {for_ms}ms"),
        Fault::Reboot { node, down_ms } => format!("reboot node n{node} for {down_ms}ms"),
        Fault::Wipe { node, down_ms } => format!("wipe node n{node} for {down_ms}ms"),
        Fault::FullDisk { server, for_ms } => format!("fill-disk server {} for {for_ms}ms", server + 1),
        Fault::SlowDisk { server, by_ms, for_ms } => {
            format!("slow-disk server {} by {by_ms}ms for {for_ms}ms", server + 1)
        }
        Fault::FailedDisk { server, after_calls, down_ms } => {
            format!("fail-disk server {} after {after_calls} calls for {down_ms}ms", server + 1)
        }
        Fault::BitRot { server, down_ms } => format!("rot-disk server {} for {down_ms}ms", server + 1),
        Fault::ClockJump { server, by_ms } => format!("jump-clock server {} by {by_ms}ms", server + 1),
        Fault::Ail { node, kind, for_ms } => format!("ail node n{node} {} for {for_ms}ms", kind.name()),
        Fault::Respec { node, change } => {
            let word = CHANGES.iter().find(|(_, known)| *known == change).map_or("", |(word, _)| word);
            format!("respec node n{node} {word}")
        }
    }
}

/// What people call it.
pub(crate) fn name(victim: Victim) -> String {
    match victim {
        Victim::Server(number) => format!("server {}", number + 1),
        Victim::Scheduler(number) => format!("scheduler {}", number + 1),
        Victim::Health(number) => format!("health {}", number + 1),
        Victim::Provisioner(number) => format!("provisioner {}", number + 1),
        Victim::Node(number) => format!("node n{number}"),
        Victim::Client(number) => format!("client {}", number + 1),
    }
}

fn way_word(way: Way) -> &'static str {
    match way {
        Way::Both => "",
        Way::Up => " upwards",
        Way::Down => " downwards",
    }
}

/// Reads a fault, if the line goes on with one.
pub(super) fn read(words: &mut Words<'_>) -> Result<Option<Fault>, String> {
    let Some(verb) = words.peek().filter(|word| VERBS.contains(word)) else { return Ok(None) };
    words.next();
    let fault = match verb {
        "crash" => Fault::Crash { victim: victim(words)?, down_ms: time_for(words)? },
        "pause" => Fault::Pause { victim: victim(words)?, for_ms: time_for(words)? },
        "freeze-health" => Fault::Freeze { for_ms: time_for(words)? },
        "stranger" => Fault::Stranger { for_ms: time_for(words)? },
        "cut" => Fault::Cut { victim: victim(words)?, way: way(words), for_ms: time_for(words)? },
        "split" => {
            Fault::Split { one: server(words)?, other: server(words)?, way: way(words), for_ms: time_for(words)? }
        }
        "depose" => Fault::Depose { for_ms: time_for(words)? },
        "lose-disk" => Fault::LostDisk { server: server(words)? },
        "lose-log" => Fault::LostLog { server: server(words)?, down_ms: time_for(words)? },
        "cut-log" => Fault::CutLog { server: server(words)?, down_ms: time_for(words)? },
        "retire" => Fault::Retire { server: server(words)? },
        "add-server" => Fault::AddServer,
        "transfer" => Fault::Transfer { server: server(words)? },
        "power-off" => {
            Fault::PowerLoss { server: server(words)?, after_calls: after_calls(words)?, down_ms: time_for(words)? }
        }
        "fail-disk" => {
            Fault::FailedDisk { server: server(words)?, after_calls: after_calls(words)?, down_ms: time_for(words)? }
        }
        "forget" => {
            words.expect("client")?;
            Fault::Amnesia { client: position(words)?, down_ms: time_for(words)? }
        }
        "storm" => {
            let times = words.number("how many times")?;
            words.expect("times")?;
            Fault::Storm { times, for_ms: time_for(words)? }
        }
        "reboot" => Fault::Reboot { node: node(words)?, down_ms: time_for(words)? },
        "wipe" => Fault::Wipe { node: node(words)?, down_ms: time_for(words)? },
        "fill-disk" => Fault::FullDisk { server: server(words)?, for_ms: time_for(words)? },
        "slow-disk" => {
            let server = server(words)?;
            words.expect("by")?;
            Fault::SlowDisk { server, by_ms: words.time_ms()?, for_ms: time_for(words)? }
        }
        "rot-disk" => Fault::BitRot { server: server(words)?, down_ms: time_for(words)? },
        "jump-clock" => {
            let server = server(words)?;
            words.expect("by")?;
            Fault::ClockJump { server, by_ms: words.span_ms()? }
        }
        "ail" => {
            let (node, word) = (node(words)?, words.word("what is wrong")?);
            let kind = ConditionKind::ALL.into_iter().find(|kind| kind.name() == word);
            let known = ConditionKind::ALL.map(ConditionKind::name).join(", ");
            let kind = kind.ok_or_else(|| format!("\"{word}\" is no condition: {known}"))?;
            Fault::Ail { node, kind, for_ms: time_for(words)? }
        }
        _ => {
            let (node, word) = (node(words)?, words.word("what changes")?);
            let change = CHANGES.iter().find(|(known, _)| *known == word).map(|(_, change)| *change);
            let known = CHANGES.map(|(word, _)| word).join(", ");
            Fault::Respec { node, change: change.ok_or_else(|| format!("\"{word}\" is no change: {known}"))? }
        }
    };
    Ok(Some(fault))
}

fn victim(words: &mut Words<'_>) -> Result<Victim, String> {
    Ok(match words.word("whom it strikes")? {
        "server" => Victim::Server(position(words)?),
        "scheduler" => Victim::Scheduler(position(words)?),
        "health" => Victim::Health(position(words)?),
        "provisioner" => Victim::Provisioner(position(words)?),
        "client" => Victim::Client(position(words)?),
        "node" => Victim::Node(node_name(words)?),
        other => return Err(format!("\"{other}\" is nobody: server, scheduler, health, provisioner, node or client")),
    })
}

fn server(words: &mut Words<'_>) -> Result<usize, String> {
    words.expect("server")?;
    position(words)
}

fn node(words: &mut Words<'_>) -> Result<usize, String> {
    words.expect("node")?;
    node_name(words)
}

/// People count from 1.
fn position(words: &mut Words<'_>) -> Result<usize, String> {
    let number = words.number("which one, from 1")?;
    number.checked_sub(1).map(|position| position as usize).ok_or_else(|| "they are counted from 1".to_string())
}

fn node_name(words: &mut Words<'_>) -> Result<usize, String> {
    let word = words.word("a node")?;
    let number = word.strip_prefix('n').and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("\"{word}\" is no node: they are called n0, n1 and so on"))
}

fn way(words: &mut Words<'_>) -> Way {
    match words.take("upwards") {
        true => Way::Up,
        false if words.take("downwards") => Way::Down,
        false => Way::Both,
    }
}

fn after_calls(words: &mut Words<'_>) -> Result<u64, String> {
    words.expect("after")?;
    let calls = words.number("after how many calls")?;
    words.expect("calls")?;
    Ok(calls)
}

fn time_for(words: &mut Words<'_>) -> Result<u64, String> {
    words.expect("for")?;
    words.time_ms()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Population, draw, draw_ailments, draw_clock_jumps, draw_duty_faults, draw_lost_logs};
    use crate::theme::Theme;
    use ohm_stdx::Prng;

    #[test]
    fn every_fault_reads_back_as_itself() {
        let population = Population { servers: 3, schedulers: 3, health: 2, nodes: 4, clients: 2, losses: true };
        let drawn = (0..200).flat_map(|seed| draw(&mut Prng::new(seed), population, 9_000));
        let themes = [Theme::Widening, Theme::Handover, Theme::Deposing, Theme::Flapping, Theme::Owing, Theme::Leaving];
        let of_themes = themes.into_iter().flat_map(|theme| theme.faults(&mut Prng::new(1), population, 9_000));
        let ailments = (0..20).flat_map(|seed| draw_ailments(&mut Prng::new(seed), population, 9_000));
        let freezes = (0..20).flat_map(|seed| draw_duty_faults(&mut Prng::new(seed), 5_000, 9_000));
        let lost_logs = (0..20).flat_map(|seed| draw_lost_logs(&mut Prng::new(seed), population, 9_000));
        let jumps = (0..20).flat_map(|seed| draw_clock_jumps(&mut Prng::new(seed), population, 9_000));
        let all = drawn.chain(of_themes).chain(ailments).chain(freezes).chain(lost_logs).chain(jumps);
        for fault in all.map(|(_, fault)| fault) {
            let text = fault_words(&fault);
            let mut words = Words::new(&text);
            assert_eq!(read(&mut words), Ok(Some(fault)), "{text}");
            assert_eq!(words.end(), Ok(()));
        }
    }
}
