//! What the keyspace notes of a change, for those who watch, wait, track or listen.

use crate::bytestr::ByteStr;

/// Something that happened to a key, as keyspace notifications name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub class: Class,
    pub name: &'static str,
}

/// The classes of events that `notify-keyspace-events` selects, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(pub u32);

impl Class {
    pub const KEYSPACE: Class = Class(1 << 0);
    pub const KEYEVENT: Class = Class(1 << 1);
    pub const GENERIC: Class = Class(1 << 2);
    pub const STRING: Class = Class(1 << 3);
    pub const LIST: Class = Class(1 << 4);
    pub const SET: Class = Class(1 << 5);
    pub const HASH: Class = Class(1 << 6);
    pub const SORTED_SET: Class = Class(1 << 7);
    pub const EXPIRED: Class = Class(1 << 8);
    pub const EVICTED: Class = Class(1 << 9);
    pub const STREAM: Class = Class(1 << 10);
    pub const KEY_MISS: Class = Class(1 << 11);
    pub const NEW: Class = Class(1 << 12);
}

impl Event {
    pub const fn generic(name: &'static str) -> Event {
        Event {
            class: Class::GENERIC,
            name,
        }
    }

    pub const fn string(name: &'static str) -> Event {
        Event {
            class: Class::STRING,
            name,
        }
    }

    pub const fn list(name: &'static str) -> Event {
        Event {
            class: Class::LIST,
            name,
        }
    }

    pub const fn set(name: &'static str) -> Event {
        Event {
            class: Class::SET,
            name,
        }
    }

    pub const fn hash(name: &'static str) -> Event {
        Event {
            class: Class::HASH,
            name,
        }
    }

    pub const fn sorted_set(name: &'static str) -> Event {
        Event {
            class: Class::SORTED_SET,
            name,
        }
    }

    pub const fn stream(name: &'static str) -> Event {
        Event {
            class: Class::STREAM,
            name,
        }
    }

    pub(super) const DEL: Event = Event::generic("del");
    /// A change that is told in other words, or in none.
    pub const SILENT: Event = Event {
        class: Class(0),
        name: "",
    };
    /// Fields of a hash came to their end.
    pub const HEXPIRED: Event = Event {
        class: Class::EXPIRED,
        name: "hexpired",
    };
    pub(super) const EXPIRED: Event = Event {
        class: Class::EXPIRED,
        name: "expired",
    };
    pub(super) const EVICTED: Event = Event {
        class: Class::EVICTED,
        name: "evicted",
    };
    pub(super) const NEW: Event = Event {
        class: Class::NEW,
        name: "new",
    };
    pub(super) const KEY_MISS: Event = Event {
        class: Class::KEY_MISS,
        name: "keymiss",
    };
}

/// A note that the engine collects: a key was changed, or an event is to be told, or both.
#[derive(Debug)]
pub enum Change {
    Key {
        db: usize,
        key: ByteStr,
        touch: Touch,
        event: Option<Event>,
    },
    /// The whole database was emptied.
    Flushed { db: usize },
}

/// What a note says of its key beside the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It was not changed, or that is noted already.
    No,
    Changed,
    /// It was changed, but nobody who waits is served: as in the references, that takes a new key
    /// or an entry added to a stream.
    Unserved,
}
