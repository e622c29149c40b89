//! What another server sends: parcels for the replica, and where it listens.
//!
//! Invariant: an address is noted only when the server that it is said to be of has answered there itself, and no other
//! process answers as that server where it was known to be. Else one wrong word would cut a server off from this one.

use crate::handle::ReplicaHandle;
use crate::inbox::{Inbox, Message, stopping};
use ohm_model::names;
use ohm_replica::ServerInput;
use ohm_wire::{IdentifyReply, ServerFarewell, ServerWord, server_word};
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

/// Between two looks at an address at which nobody answers yet, or somebody else does.
const PAUSE: Duration = Duration::from_secs(1);

/// The listening side of one stream.
pub(crate) struct Between {
    pub(crate) inbox: Inbox,
    pub(crate) handle: ReplicaHandle,
    pub(crate) cell: u64,
}

/// What speaks against an address.
#[derive(Debug, PartialEq, Eq)]
enum Doubt {
    /// Nobody answers there, for the time being.
    Silent,
    /// Somebody else does.
    Another(String),
}

impl Between {
    /// Hands on what comes, until it ends. Parcels pass whatever becomes of the address: the way there and the way back
    /// are two.
    pub(crate) async fn hear(&self, mut stream: Streaming<ServerWord>) -> Result<ServerFarewell, Status> {
        let hello = match stream.next().await {
            Some(Ok(ServerWord { kind: Some(server_word::Kind::Hello(hello)) })) => hello,
            _ => return Err(Status::invalid_argument("a server introduces itself first")),
        };
        if hello.cell != self.cell {
            let text = format!("this server is of cell {:016x}, not of {:016x}", self.cell, hello.cell);
            return Err(Status::permission_denied(text));
        }
        let proof = async {
            if hello.address.is_empty() {
                return;
            }
            if let Err(error) = names::server_address(&hello.address) {
                return tracing::warn!(server = hello.server, %error, "the address of a server is not noted");
            }
            if self.prove(hello.server, &hello.address).await {
                self.inbox.send(Message::ServerAt(hello.server, hello.address.clone())).await;
            }
        };
        tokio::pin!(proof);
        let mut is_proving = true;
        loop {
            tokio::select! { biased;
                () = &mut proof, if is_proving => is_proving = false,
                word = stream.next() => match word {
                    Some(Ok(ServerWord { kind: Some(server_word::Kind::Parcel(bytes)) })) => {
                        let input = ServerInput::FromServer { from: hello.server, bytes };
                        if !self.inbox.send(Message::Input(Box::new(input))).await {
                            return Err(stopping());
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Ok(ServerFarewell {}),
                },
            }
        }
    }

    /// Looks until it is sure that `server` listens at `address`; false when that is known, or this server is stopping.
    async fn prove(&self, server: u64, address: &str) -> bool {
        let mut was_said = false;
        loop {
            let Ok(servers) = self.handle.servers().await else { return false };
            let known = servers.addresses.get(&server).cloned();
            if known.as_deref() == Some(address) {
                return false;
            }
            match self.look(server, address, known).await {
                Ok(()) => return true,
                Err(Doubt::Another(reason)) if !was_said => {
                    was_said = true;
                    tracing::warn!(server, address, reason, "the address of a server is not noted");
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn look(&self, server: u64, address: &str, known: Option<String>) -> Result<(), Doubt> {
        let relay = &self.handle.log_relay;
        let there = relay.identify(address).await.map_err(|_| Doubt::Silent)?;
        let before = match known {
            Some(known) => relay.identify(&known).await.ok(),
            None => None,
        };
        judge((self.cell, server), &there, before.as_ref())
    }
}

/// Whether `there` is the server that it is said to be; `before` answers where that was known to be.
fn judge(said: (u64, u64), there: &IdentifyReply, before: Option<&IdentifyReply>) -> Result<(), Doubt> {
    let is_it = |found: &IdentifyReply| (found.cell, found.server) == said;
    if !is_it(there) {
        let reason = format!("server {} of cell {:016x} answers there", there.server, there.cell);
        return Err(Doubt::Another(reason));
    }
    match before.filter(|before| is_it(before) && before.instance != there.instance) {
        Some(_) => Err(Doubt::Another("another process answers as this server where it was known to be".into())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_believed_of_the_server_that_answers_there() {
        let found = |cell, server, instance| IdentifyReply { cell, server, instance };
        let check = |there, before: Option<IdentifyReply>| judge((5, 2), &there, before.as_ref()).is_ok();
        assert!(check(found(5, 2, 7), None));
        assert!(check(found(5, 2, 7), Some(found(5, 2, 7))), "it has two names");
        assert!(check(found(5, 2, 7), Some(found(5, 3, 1))), "another server took its former place");
        assert!(!check(found(5, 2, 7), Some(found(5, 2, 8))), "it lives where it was");
        assert!(!check(found(5, 3, 7), None));
        assert!(!check(found(6, 2, 7), None));
    }
}
