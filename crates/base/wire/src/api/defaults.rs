//! Fields that are left out when they say nothing.

/// Whether a field says nothing.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
