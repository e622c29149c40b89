//! Who this server is: which cell, which number, and whether etcd still holds what it once acknowledged.
//!
//! Done before the log is opened, one question after the other, each of them repeatable.

use super::call::{Guard, Op, Pair, Range, Request, Response, Txn};
use super::keys::Keys;
use super::records::{self, CellRecord, Note};
use bytes::Bytes;

/// What a server brings along.
#[derive(Clone, Debug)]
pub struct Identity {
    keys: Keys,
    /// What its data folder says.
    note: Option<Note>,
    /// Drawn: the number of the cell if it has to be founded, the claim on a number, the incarnation after a restore.
    cell: u64,
    key: u64,
    restored_incarnation: u64,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Cell,
    Founding,
    Restored(CellRecord),
    Numbers(CellRecord),
    Claiming(CellRecord, u64),
    Done,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask etcd this.
    Ask(Request),
    /// That is who it is.
    Known(Note),
}

/// Why a server can't take part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Another cell is there.
    #[error(
        "this folder belongs to cell {folder:016x}, and etcd holds cell {etcd:016x} under this prefix: name the right \
         --etcd and --etcd-prefix, or an empty folder"
    )]
    OtherCell {
        /// The cell of the folder.
        folder: u64,
        /// The cell in etcd.
        etcd: u64,
    },
    /// The cell is gone.
    #[error(
        "this folder belongs to cell {0:016x}, and etcd holds no cell under this prefix: name the right --etcd and \
         --etcd-prefix; if the cell is gone for good, start with an empty folder"
    )]
    NoCell(u64),
    /// A record is damaged or of a newer version.
    #[error("what etcd holds about the cell can't be read: {0}")]
    Unreadable(String),
}

impl Identity {
    /// Begins. `dice` must be new in each call: three random numbers.
    pub fn new(prefix: &str, note: Option<Note>, dice: [u64; 2], wall_ms: u64) -> (Self, Next) {
        let key = note.as_ref().map_or(dice[1].max(1), |note| note.key);
        let keys = Keys::new(prefix);
        let mut identity = Identity { keys, note, cell: dice[0], key, restored_incarnation: wall_ms, step: Step::Cell };
        let next = identity.ask_cell();
        (identity, next)
    }

    fn ask_cell(&mut self) -> Next {
        self.step = Step::Cell;
        let mut gets = vec![Op::Get(self.keys.cell()), Op::Get(self.keys.trim())];
        let last = self.note.as_ref().and_then(Note::last);
        gets.extend(last.map(|(_, id)| Op::Get(self.keys.entry(id))));
        Next::Ask(Request::Txn(Txn { then: gets, ..Txn::default() }))
    }

    /// Takes the answer to what was asked.
    ///
    /// # Errors
    /// When this server can't be one of this cell.
    pub fn answer(&mut self, response: &Response) -> Result<Next, IdentityError> {
        let (succeeded, found) = match response {
            Response::Txn { succeeded, found, .. } => (*succeeded, found),
            Response::Range { pairs, .. } => (true, pairs),
            _ => return Ok(self.ask_cell()),
        };
        match self.step.clone() {
            Step::Cell => self.cell_read(found),
            // Whoever was faster has founded it, or noted the restore: look again.
            Step::Founding => Ok(self.ask_cell()),
            Step::Restored(record) if succeeded => Ok(self.ask_numbers(record)),
            Step::Restored(_) => Ok(self.ask_cell()),
            Step::Numbers(cell) => self.numbers_read(cell, found),
            Step::Claiming(cell, server) if succeeded => Ok(self.done(cell, server)),
            Step::Claiming(cell, _) => Ok(self.ask_numbers(cell)),
            Step::Done => Ok(self.ask_cell()),
        }
    }

    fn cell_read(&mut self, found: &[Pair]) -> Result<Next, IdentityError> {
        let pair = |key: String| found.iter().find(|pair| pair.key == key);
        let unreadable = |error: ohm_stdx::codec::DecodeError| IdentityError::Unreadable(error.to_string());
        let Some(cell) = pair(self.keys.cell()) else {
            return match &self.note {
                Some(note) => Err(IdentityError::NoCell(note.cell.cell)),
                None => Ok(self.found_cell()),
            };
        };
        let record = CellRecord::of(&cell.value).map_err(unreadable)?;
        let Some(note) = &self.note else { return Ok(self.ask_numbers(record)) };
        if note.cell.cell != record.cell {
            return Err(IdentityError::OtherCell { folder: note.cell.cell, etcd: record.cell });
        }
        let trim = pair(self.keys.trim()).map(|pair| records::trim_of(&pair.value)).transpose().map_err(unreadable)?;
        let is_there = note.last().is_none_or(|(index, id)| {
            let entry = pair(self.keys.entry(id));
            entry.is_some_and(|pair| pair.modified == index) || index < trim.unwrap_or(0)
        });
        // Somebody who knows that it was restored has said so already.
        if is_there || note.cell.incarnation < record.incarnation {
            return Ok(self.ask_numbers(record));
        }
        let incarnation = self.restored_incarnation.max(record.incarnation.saturating_add(1));
        let record = CellRecord { incarnation, ..record };
        let guards = vec![Guard::Modified(self.keys.cell(), cell.modified)];
        let then = vec![Op::Put { key: self.keys.cell(), value: record.value(), lease: 0 }];
        self.step = Step::Restored(record);
        Ok(Next::Ask(Request::Txn(Txn { guards, then, otherwise: Vec::new() })))
    }

    fn found_cell(&mut self) -> Next {
        self.step = Step::Founding;
        let value = CellRecord { cell: self.cell, incarnation: 1 }.value();
        let guards = vec![Guard::Absent(self.keys.cell())];
        let then = vec![Op::Put { key: self.keys.cell(), value, lease: 0 }];
        Next::Ask(Request::Txn(Txn { guards, then, otherwise: Vec::new() }))
    }

    fn ask_numbers(&mut self, cell: CellRecord) -> Next {
        self.step = Step::Numbers(cell);
        Next::Ask(Request::Range(Range::below(&self.keys.numbers(), 0)))
    }

    /// Numbers are used once: a server whose folder is gone comes back under another one.
    fn numbers_read(&mut self, cell: CellRecord, found: &[Pair]) -> Result<Next, IdentityError> {
        let number = |pair: &Pair| self.keys.number_of(&pair.key);
        let claim = format!("{:016x}", self.key);
        let own = found.iter().find(|pair| pair.value == claim.as_bytes()).and_then(number);
        if let Some(server) = own {
            return Ok(self.done(cell, server));
        }
        let last = found.iter().filter_map(number).max().unwrap_or(0);
        let server = last.checked_add(1);
        let server =
            server.ok_or_else(|| IdentityError::Unreadable(format!("no number of a server follows {last}")))?;
        let key = self.keys.number(server);
        self.step = Step::Claiming(cell, server);
        let guards = vec![Guard::Absent(key.clone())];
        let then = vec![Op::Put { key, value: Bytes::from(claim), lease: 0 }];
        Ok(Next::Ask(Request::Txn(Txn { guards, then, otherwise: Vec::new() })))
    }

    fn done(&mut self, cell: CellRecord, server: u64) -> Next {
        self.step = Step::Done;
        // What was seen before a restore says nothing about what comes after it.
        let note = self.note.as_ref().filter(|note| note.cell == cell);
        Next::Known(Note { cell, server, key: self.key, last: note.and_then(|note| note.last) })
    }
}
