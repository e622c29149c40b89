//! The note in the data folder.

use crate::core::Note;
use crate::options::EtcdError;
use ohm_runtime::data_dir;
use ohm_stdx::codec;
use std::fs;
use std::path::Path;

const FORMAT: u8 = 0xe8;

/// The note in a file, if the file is there.
///
/// # Errors
/// When it can't be read, is damaged or of a newer version.
pub fn read_note(path: &Path) -> Result<Option<Note>, EtcdError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(EtcdError::File { path: path.to_path_buf(), source }),
    };
    let note = codec::decode_frame(FORMAT, &bytes).map(|(note, _)| Some(note));
    note.map_err(|error| EtcdError::Note { path: path.to_path_buf(), reason: error.to_string() })
}

/// Writes a note: a crash leaves the old one or the new one.
///
/// # Errors
/// When the disk does not take it.
pub fn write_note(path: &Path, note: &Note) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    codec::encode_frame(FORMAT, note, &mut bytes);
    data_dir::replace(path, 0o666, &bytes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::CellRecord;

    #[test]
    fn a_note_is_found_again_and_rubbish_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etcd.note");
        assert_eq!(read_note(&path).unwrap(), None);
        let cell = CellRecord { cell: 7, incarnation: 2 };
        let note = Note { cell, server: 3, key: 9, last: Some((5, 6, 7)) };
        write_note(&path, &note).unwrap();
        assert_eq!(read_note(&path).unwrap(), Some(note));
        fs::write(&path, "rubbish").unwrap();
        assert!(read_note(&path).unwrap_err().to_string().contains("etcd.note"));
    }
}
