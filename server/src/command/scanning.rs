//! What HSCAN, SSCAN and ZSCAN have in common: cursor, options and the shape of the reply.

use super::{Call, Error, Reply, Stop};
use crate::{glob, number, value::packed::Item};

/// How many elements one call looks at unless told otherwise.
const DEFAULT_COUNT: usize = 10;

/// The options of a call that scans one collection.
pub(super) struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    pub(super) count: usize,
    pub(super) values: bool,
}

/// Reads the cursor argument.
pub(super) fn cursor(arg: &[u8]) -> Result<u64, Error> {
    number::parse_u64(arg).ok_or(Error::text("ERR invalid cursor"))
}

impl<'a> ScanOptions<'a> {
    /// Reads what follows key and cursor. Only a hash has values to leave out.
    pub(super) fn parse(call: &Call<'a>, has_values: bool) -> Result<ScanOptions<'a>, Error> {
        let mut parsed = ScanOptions {
            pattern: None,
            count: DEFAULT_COUNT,
            values: has_values,
        };
        let mut options = call.options(3);
        while !options.is_empty() {
            if options.take("COUNT") {
                let count = usize::try_from(options.int()?).unwrap_or(0);
                parsed.count = Some(count)
                    .filter(|count| *count > 0)
                    .ok_or(Error::SYNTAX)?;
            } else if options.take("MATCH") {
                parsed.pattern = Some(options.value()?);
            } else if options.take("NOVALUES") {
                if !has_values {
                    return Err(Error::text("ERR NOVALUES option can only be used in HSCAN"));
                }
                parsed.values = false;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(parsed)
    }

    pub(super) fn matches(&self, element: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, element))
    }
}

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
