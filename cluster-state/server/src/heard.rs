//! What roles say over RPC, in the words of the server core. No connection in here: bytes in, inputs or errors out.

use bytes::Bytes;
use ohm_agent::BeatAnswer;
use ohm_model::{Envelope, Epoch, Incarnation, NodeId, SessionId};
use ohm_replica::{Beat, Peer, ServerInput};
use ohm_wire::{AgentUp, AppendRequest, BeatAnswers, DutyAttach, DutyUp, LogPiece, Malformed, agent_up, duty_up, read};

/// What an agent says.
#[derive(Debug)]
pub enum AgentWord {
    /// Something for the server core.
    Input(Box<ServerInput>),
    /// Output of a task, for whoever reads it.
    Output(LogPiece),
}

/// Commands that `peer` wants in the log. None of them may be one that can't be read: what stands in the log and can't
/// be read would end this server, and every copy, at each start again.
pub fn append(peer: Peer, message: AppendRequest) -> Result<ServerInput, Malformed> {
    let AppendRequest { ticket, command_bytes: commands } = message;
    check_commands(&commands)?;
    Ok(ServerInput::Append { peer, ticket, commands })
}

fn check_commands(commands: &[Bytes]) -> Result<(), Malformed> {
    if commands.is_empty() {
        return Err(Malformed { what: "a list of commands", reason: "it is empty".into() });
    }
    commands.iter().try_for_each(|bytes| read::<Envelope>("a command", bytes).map(drop))
}

/// What the agent on the connection `peer` says; nothing where it is a word that this version does not know.
pub fn agent(peer: Peer, message: AgentUp) -> Result<Option<AgentWord>, Malformed> {
    let Some(kind) = message.kind else { return Ok(None) };
    let input = match kind {
        agent_up::Kind::Register(register) => ServerInput::Register {
            peer,
            local: register.local,
            spec: read("the node's description", &register.spec_bytes)?,
            key: register.key,
            instance: register.instance,
            boot: register.boot,
            alive: match register.alive_bytes.is_empty() {
                true => Vec::new(),
                false => read("the runs that live on the node", &register.alive_bytes)?,
            },
        },
        agent_up::Kind::Beats(beats) => {
            let beat = |beat: ohm_wire::Beat| Beat {
                node: NodeId(beat.node),
                incarnation: Incarnation(beat.incarnation),
                sequence: beat.sequence,
            };
            ServerInput::Beats { peer, beats: beats.beats.into_iter().map(beat).collect() }
        }
        agent_up::Kind::Reports(reports) => ServerInput::Reports {
            peer,
            node: NodeId(reports.node),
            batch: reports.batch,
            reports: read("reports", &reports.reports_bytes)?,
        },
        agent_up::Kind::Conditions(told) => ServerInput::Conditions {
            peer,
            node: NodeId(told.node),
            incarnation: Incarnation(told.incarnation),
            number: told.number,
            conditions: read("conditions", &told.conditions_bytes)?,
        },
        agent_up::Kind::Log(piece) => return Ok(Some(AgentWord::Output(piece))),
    };
    Ok(Some(AgentWord::Input(Box::new(input))))
}

/// What the candidate for the health duty on the connection `peer` says.
pub fn duty(peer: Peer, message: DutyUp) -> Option<ServerInput> {
    Some(match message.kind? {
        duty_up::Kind::Attach(DutyAttach { session, nonce }) => {
            ServerInput::Duty { peer, session: SessionId(session), nonce }
        }
        duty_up::Kind::Answers(answers) => ServerInput::Answers { peer, answers: beat_answers(answers) },
    })
}

fn beat_answers(answers: BeatAnswers) -> Vec<(NodeId, BeatAnswer)> {
    let answer = |answer: ohm_wire::BeatAnswer| {
        let incarnation = Incarnation(answer.incarnation);
        let (duty_epoch, sequence) = (Epoch(answer.duty_epoch), answer.sequence);
        let (lease_ms, interval_ms) = (answer.lease_ms, answer.interval_ms);
        (NodeId(answer.node), BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms })
    };
    answers.answers.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::Command;

    #[test]
    fn what_can_not_be_read_never_reaches_the_log() {
        let good: Bytes = Envelope::without_session(Command::Tick).encode().into();
        assert_eq!(check_commands(&[good.clone(), good.clone()]), Ok(()));
        let longer: Bytes = [&good[..], &[0]].concat().into();
        let newer: Bytes = [&good[..good.len() - 1], &[250]].concat().into();
        for bad in [vec![], vec![Bytes::new()], vec![good.clone(), good.slice(1..)], vec![longer], vec![newer]] {
            assert!(check_commands(&bad).is_err(), "{bad:?}");
        }
    }
}
