//! Up to what size each collection keeps its compact encoding.

/// The `*-max-*` settings at one moment. They are handed in by value because CONFIG SET can
/// change them between two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `list-max-listpack-size`: a positive number counts elements, -1 to -5 mean 4 to 64 KiB.
    pub list_max_listpack_size: i64,
    /// `hash-max-listpack-entries`, in fields.
    pub hash_max_listpack_entries: usize,
    /// `hash-max-listpack-value`, in bytes of a field or a value.
    pub hash_max_listpack_value: usize,
    /// `set-max-intset-entries`, in members.
    pub set_max_intset_entries: usize,
    /// `set-max-listpack-entries`, in members.
    pub set_max_listpack_entries: usize,
    /// `set-max-listpack-value`, in bytes of a member.
    pub set_max_listpack_value: usize,
    /// `zset-max-listpack-entries`, in members.
    pub zset_max_listpack_entries: usize,
    /// `zset-max-listpack-value`, in bytes of a member.
    pub zset_max_listpack_value: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            list_max_listpack_size: -2,
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
        }
    }
}
