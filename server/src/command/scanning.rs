//! The reply that HSCAN, SSCAN and ZSCAN share.

use super::{Reply, Stop};
use crate::value::packed::Item;

/// Answers with the next cursor and what was found.
pub(super) fn answer(reply: &mut dyn Reply, cursor: u64, found: &[Item<'_>]) -> Result<(), Stop> {
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(cursor).as_bytes());
    reply.array(found.len());
    for item in found {
        reply.bulk(item);
    }
    Ok(())
}
