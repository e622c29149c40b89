//! The log as it stands in etcd, read without being one of the servers.

use super::connection::Connection;
use crate::core::call::{CallError, Command, Heard};
use crate::core::{CellRecord, EtcdConfig, EtcdCore, Note};
use ohm_log::{Bytes, LogEvent};
use ohm_model::Index;

/// A log as it stands.
#[derive(Debug, Default)]
pub struct Archive {
    /// The snapshot, with its pieces.
    pub snapshot: Option<(Index, Vec<Bytes>)>,
    /// The entries after it.
    pub entries: Vec<(Index, Bytes)>,
}

impl Connection {
    /// Reads the snapshot and every entry after it.
    ///
    /// # Errors
    /// When etcd does not answer, or holds no cell or something that can't be read.
    pub async fn archive(&self) -> Result<Archive, CallError> {
        let cell = self.cell().await?;
        let note = Note { cell, server: 0, key: 0, last: None };
        let config = EtcdConfig::new(&self.options.prefix, note, "", 0);
        let mut core = EtcdCore::new(config);
        core.only_read();
        let mut archive = Archive::default();
        loop {
            core.tick(0);
            for command in core.take_commands() {
                match command {
                    Command::Call(call, request) => {
                        let answer = self.call(request).await;
                        if let Err(error @ (CallError::Lost(_) | CallError::Refused(_))) = &answer {
                            return Err(error.clone());
                        }
                        core.hear(0, Heard::Answer(call, answer));
                    }
                    // It has read everything and would go on from there.
                    Command::Watch { .. } => {
                        archive.take(&mut core)?;
                        return Ok(archive);
                    }
                    Command::Unwatch(_) => {}
                }
            }
            archive.take(&mut core)?;
        }
    }

    async fn cell(&self) -> Result<CellRecord, CallError> {
        let found = self.call(EtcdCore::ask_cell(&self.options.prefix)).await?;
        EtcdCore::cell_of(&found).map_err(CallError::Refused)
    }
}

impl Archive {
    fn take(&mut self, core: &mut EtcdCore) -> Result<(), CallError> {
        let mut events = Vec::new();
        loop {
            core.poll(&mut events).map_err(|error| CallError::Refused(error.to_string()))?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events.drain(..) {
                match event {
                    LogEvent::InstallSnapshot { index, pieces } => self.snapshot = Some((index, pieces)),
                    LogEvent::Committed { index, bytes, .. } => self.entries.push((index, bytes)),
                    _ => {}
                }
            }
        }
    }
}
