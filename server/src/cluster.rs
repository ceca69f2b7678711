//! A cluster of one node, which owns every slot: so that cluster clients can be tested.

use crate::{
    command::{Call, Command, key_positions::key_positions},
    engine::Engine,
    error::Error,
};

/// How many slots the keys of a cluster are spread over.
pub const SLOTS: u16 = 16_384;

const CROSS_SLOT: Error = Error::text("CROSSSLOT Keys in request don't hash to the same slot");

/// The slot of a key: of the part between the first `{` and the next `}` if there is one.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        let close = memchr::memchr(b'}', rest)?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// The slot of all keys that a pattern can form, if it is the same for all.
pub fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let mut open = None;
    for (at, &byte) in pattern.iter().enumerate() {
        match (byte, open) {
            (b'*' | b'?' | b'[' | b'\\', _) => return None,
            (b'{', None) => open = Some(at),
            (b'}', Some(open)) if at != open + 1 => {
                return Some(crc16(&pattern[open + 1..at]) % SLOTS);
            }
            _ => {}
        }
    }
    Some(crc16(pattern) % SLOTS)
}

/// CRC-16/XMODEM, which the cluster specification prescribes.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc: u16, &byte| {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
        crc
    })
}

/// The one slot of a request's keys, if it has keys; an error when they lie in several.
pub fn slot_of_request(command: &Command, args: &[&[u8]]) -> Result<Option<u16>, Error> {
    // The channels of sharded pub/sub are no keys, but belong to slots like them.
    let named = match command.name {
        "spublish" => args.get(1..2).unwrap_or_default().to_vec(),
        "ssubscribe" | "sunsubscribe" => args.get(1..).unwrap_or_default().to_vec(),
        _ => key_positions(command, args)
            .unwrap_or_default()
            .iter()
            .filter_map(|position| args.get(position.index).copied())
            .collect(),
    };
    let mut slot = None;
    for name in named {
        let this = Some(slot_of(name));
        if slot.is_some() && this != slot {
            return Err(CROSS_SLOT);
        }
        slot = this;
    }
    Ok(slot)
}

/// As [`slot_of_request`], for all requests of a transaction together.
pub fn check_together<'a>(
    requests: impl Iterator<Item = (&'a Command, &'a [Vec<u8>])>,
) -> Result<(), Error> {
    let mut slot = None;
    for (command, args) in requests {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let this = slot_of_request(command, &args)?;
        if slot.is_some() && this.is_some() && slot != this {
            return Err(CROSS_SLOT);
        }
        slot = this.or(slot);
    }
    Ok(())
}

/// Refuses a command of a script whose keys lie in several slots, or in another one than those
/// before it if that matters.
pub fn check_in_script(
    slot: &mut Option<u16>,
    cross_slots: bool,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), Error> {
    const NOT_LOCAL: Error =
        Error::text("ERR Attempted to access a non local key in a cluster node");
    let this = slot_of_request(command, args).map_err(|_| NOT_LOCAL)?;
    if cross_slots {
        return Ok(());
    }
    if slot.is_some() && this.is_some() && *slot != this {
        return Err(Error::text(
            "ERR Script attempted to access keys that do not hash to the same slot",
        ));
    }
    *slot = this.or(*slot);
    Ok(())
}

/// Where clients reach the node: an address, which may be empty for the one they used, and a
/// port.
pub fn endpoint(engine: &Engine) -> (&str, i64) {
    let announced = engine.config.int("cluster-announce-port");
    let port = if announced > 0 {
        announced
    } else {
        engine.config.int("port")
    };
    (engine.config.get("cluster-announce-ip"), port)
}

/// How the node is named to clients first: nothing at all when they are to go by what they know.
pub fn preferred_endpoint(engine: &Engine) -> Option<&str> {
    match engine.config.get("cluster-preferred-endpoint-type") {
        "unknown-endpoint" => None,
        "hostname" => Some(match engine.config.get("cluster-announce-hostname") {
            "" => "?",
            host => host,
        }),
        _ => Some(endpoint(engine).0),
    }
}

/// The other ways to name it, each with what it is.
pub fn other_endpoints(engine: &Engine) -> Vec<(&'static str, &str)> {
    let preferred = engine.config.get("cluster-preferred-endpoint-type");
    [
        ("ip", endpoint(engine).0),
        ("hostname", engine.config.get("cluster-announce-hostname")),
    ]
    .into_iter()
    .filter(|&(kind, name)| kind != preferred && !name.is_empty())
    .collect()
}

/// The port of the cluster bus, which is only named: nobody listens there.
pub fn bus_port(engine: &Engine) -> i64 {
    const OFFSET: i64 = 10_000;
    let announced = engine.config.int("cluster-announce-bus-port");
    let set = engine.config.int("cluster-port");
    match (announced, set) {
        (0, 0) => engine.config.int("port") + OFFSET,
        (0, set) => set,
        (announced, _) => announced,
    }
}

/// The keys of a slot, as many as asked for.
pub fn keys_in_slot(engine: &Engine, slot: u16, max: usize) -> Vec<&[u8]> {
    let slots = engine.keys.slots().into_iter();
    slots.flat_map(|slots| slots.of(slot)).take(max).collect()
}

/// Reads a slot.
pub fn parse_slot(arg: &[u8]) -> Result<u16, Error> {
    crate::number::parse_i64(arg)
        .and_then(|slot| u16::try_from(slot).ok())
        .filter(|&slot| slot < SLOTS)
        .ok_or(Error::text("ERR Invalid or out of range slot"))
}

/// Refuses what makes sense in a cluster only.
pub fn check_enabled(call: &Call<'_>) -> Result<(), Error> {
    if call.engine.config.hot.cluster {
        return Ok(());
    }
    Err(Error::text(
        "ERR This instance has cluster support disabled",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_to_the_slots_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, slot) in [
            ("k", 7629),
            ("a{b}c", 3300),
            ("b", 3300),
            ("a{}c", 9567),
            ("foo", 12182),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }
}
