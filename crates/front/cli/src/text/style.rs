//! What a text depends on beside its content.

/// The terminal, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Columns of the terminal; nothing where there is no terminal.
    pub(crate) width: Option<u16>,
    /// Whether colour is used.
    pub(crate) color: bool,
    /// Now, for ages.
    pub(crate) now_ms: u64,
}

#[cfg(test)]
pub(crate) const PLAIN: Style = Style { width: None, color: false, now_ms: 1_000_000_000 };
