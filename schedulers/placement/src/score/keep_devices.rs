//! KeepDevices: a node with devices is left to groups that ask for devices.

use super::costs::{ClassQuestion, Lost};

pub(super) fn lost(question: &ClassQuestion<'_>) -> Lost {
    Lost { parts: u64::from(question.has_devices && !question.asks_devices), of: 1 }
}
