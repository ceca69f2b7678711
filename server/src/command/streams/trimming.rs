//! How XADD and XTRIM say what to drop.

use super::ids;
use crate::{
    command::Options,
    error::Error,
    value::stream::{Keep, NodeLimits, Stream, Trim},
};

const BOTH: Error =
    Error::text("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const NO_STRATEGY: Error =
    Error::text("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const NOT_CALLED: Error =
    Error::text("ERR syntax error, XTRIM must be called with a trimming strategy");
const NOT_APPROXIMATE: Error =
    Error::text("ERR syntax error, LIMIT cannot be used without the special ~ option");
const MAXLEN: Error = Error::text("ERR The MAXLEN argument must be >= 0.");
const LIMIT: Error = Error::text("ERR The LIMIT argument must be >= 0.");

/// How many full nodes an approximate trimming drops where nothing else is asked for.
const NODES_DROPPED_MAX: u64 = 100;
/// The bounds of that, in entries.
const UNLIMITED_NODES_DROP: u64 = 10_000;
const DROP_MAX: u64 = 1_000_000;

/// The trimming options, as far as they were read.
#[derive(Clone, Copy, Default)]
pub struct Trimming {
    keep: Option<Keep>,
    approximate: bool,
    limit: Option<u64>,
    references: References,
}

/// What happens to a dropped entry that is pending in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// It stays pending.
    #[default]
    Keep,
    /// It is no longer pending anywhere.
    Delete,
    /// It is not dropped before every group has read and acknowledged it.
    Acknowledged,
}

impl References {
    /// Takes the next argument if it is one of the words for it.
    pub fn take(options: &mut Options<'_>) -> Option<References> {
        let words = [
            ("KEEPREF", References::Keep),
            ("DELREF", References::Delete),
            ("ACKED", References::Acknowledged),
        ];
        words
            .into_iter()
            .find(|(word, _)| options.take(word))
            .map(|(_, references)| references)
    }
}

impl Trimming {
    /// Takes the next option; false when it is none of these.
    pub fn take(&mut self, options: &mut Options<'_>) -> Result<bool, Error> {
        if options.len() > 1 && options.take("MAXLEN") {
            self.take_threshold(options, |options| {
                u64::try_from(options.int()?)
                    .map(Keep::Latest)
                    .map_err(|_| MAXLEN)
            })?;
        } else if options.len() > 1 && options.take("MINID") {
            self.take_threshold(options, |options| {
                ids::exact(options.value()?, 0).map(Keep::From)
            })?;
        } else if options.len() > 1 && options.take("LIMIT") {
            self.limit = Some(u64::try_from(options.int()?).map_err(|_| LIMIT)?);
        } else if let Some(references) = References::take(options) {
            self.references = references;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn take_threshold(
        &mut self,
        options: &mut Options<'_>,
        read: impl FnOnce(&mut Options<'_>) -> Result<Keep, Error>,
    ) -> Result<(), Error> {
        if self.keep.is_some() {
            return Err(BOTH);
        }
        if options.len() > 1 {
            self.approximate = options.take("~");
            let _exact = !self.approximate && options.take("=");
        }
        self.keep = Some(read(options)?);
        Ok(())
    }

    /// What to do, all options read.
    pub fn finish(self, is_xtrim: bool, nodes: NodeLimits) -> Result<Option<Plan>, Error> {
        let Some(keep) = self.keep else {
            return match self.limit {
                Some(limit) if limit > 0 => Err(NO_STRATEGY),
                _ if is_xtrim => Err(NOT_CALLED),
                _ => Ok(None),
            };
        };
        if self.limit.is_some() && !self.approximate {
            return Err(NOT_APPROXIMATE);
        }
        let usual = match nodes.entries as u64 * NODES_DROPPED_MAX {
            0 => UNLIMITED_NODES_DROP,
            usual => usual.min(DROP_MAX),
        };
        let limit = self.limit.unwrap_or(usual);
        let limit = (self.approximate && limit > 0).then_some(limit);
        let trim = Trim {
            keep,
            approximate: self.approximate,
            limit,
        };
        Ok(Some(Plan {
            trim,
            references: self.references,
        }))
    }
}

/// A trimming to be done.
#[derive(Clone, Copy)]
pub struct Plan {
    trim: Trim,
    references: References,
}

impl Plan {
    /// Trims and tells how many entries were dropped.
    pub fn run(self, stream: &mut Stream) -> u64 {
        match self.references {
            References::Keep => stream.trim(self.trim),
            // Whole nodes are dropped only where no entry has to be looked at.
            _ if self.trim.approximate => 0,
            References::Delete => stream.trim_with_references(self.trim),
            References::Acknowledged => stream.trim_acknowledged(self.trim),
        }
    }
}
