//! Fields with a deadline of their own: reading what is asked for, and doing it to one field.

use super::{super::*, FIELD_COUNT};
use crate::{keyspace::Event, value::hash::Hash};

/// What a command on field deadlines says of a field that is not there.
pub(super) const NO_FIELD: i64 = -2;
/// What it says of a field without a deadline.
pub(super) const NO_DEADLINE: i64 = -1;
/// What it says of a field that is gone because its new deadline has passed.
const GONE: i64 = 2;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Origin {
    Now,
    Epoch,
}

/// What is to become of the deadlines of fields.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Retime {
    Keep,
    Persist,
    /// In milliseconds; perhaps already passed.
    At(u64),
}

/// The deadline that an argument means, in milliseconds.
fn deadline(
    arg: &[u8],
    unit: Unit,
    origin: Origin,
    command: &Command,
    now: u64,
) -> Result<u64, Error> {
    let value = number::parse_i64(arg).ok_or(Error::NOT_AN_INTEGER)?;
    let millis = match unit {
        Unit::Seconds => value.checked_mul(1000),
        Unit::Milliseconds => Some(value),
    };
    let base = if origin == Origin::Now { now as i64 } else { 0 };
    let deadline = millis
        .filter(|millis| *millis >= 0)
        .and_then(|m| m.checked_add(base));
    deadline.map(|deadline| deadline as u64).ok_or_else(|| {
        Error::owned(format!(
            "ERR invalid expire time in '{}' command",
            command.name
        ))
    })
}

/// Reads `FIELDS numfields field …` at an index, up to the end.
pub(super) fn field_list<'a>(
    call: &Call<'a>,
    index: usize,
    mismatch: Error,
) -> Result<&'a [&'a [u8]], Error> {
    if !is_word(call.arg(index), "FIELDS") {
        return Err(Error::SYNTAX);
    }
    counted_fields(call, index + 1, 1, mismatch)
}

/// Reads `numfields` and that many groups of arguments, up to the end.
fn counted_fields<'a>(
    call: &Call<'a>,
    index: usize,
    group: usize,
    mismatch: Error,
) -> Result<&'a [&'a [u8]], Error> {
    let count = number::parse_i64(call.args.get(index).ok_or(mismatch.clone())?)
        .ok_or(Error::NOT_AN_INTEGER)?;
    let fields = &call.args[index + 1..];
    let fits = count > 0
        && fields.len().is_multiple_of(group)
        && fields.len() / group == usize::try_from(count).unwrap_or(0);
    if fits { Ok(fields) } else { Err(mismatch) }
}

/// Answers with a number for each field, from its deadline and the time.
pub(super) fn tell_deadlines(
    call: &mut Call<'_>,
    tell: impl Fn(u64, u64) -> u64,
) -> Result<(), Stop> {
    let fields = field_list(call, 2, Error::SYNTAX)?;
    let now = call.now_ms();
    let hash = call.engine.keys.read_as::<Hash>(call.arg(1))?;
    call.reply.array(fields.len());
    for field in fields {
        let told = match hash.filter(|hash| hash.contains(field)) {
            None => NO_FIELD,
            Some(hash) => hash
                .deadline(field)
                .map_or(NO_DEADLINE, |deadline| tell(deadline, now) as i64),
        };
        call.reply.integer(told);
    }
    Ok(())
}

pub(super) fn answer_outcomes(reply: &mut dyn Reply, outcomes: Option<Vec<i64>>, fields: usize) {
    let outcomes = outcomes.unwrap_or_else(|| vec![NO_FIELD; fields]);
    reply.array(outcomes.len());
    for outcome in outcomes {
        reply.integer(outcome);
    }
}

/// When HEXPIRE and its like change the deadline of a field.
#[derive(Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each stands for a word of the request"
)]
struct Condition {
    absent: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(args: &[&[u8]]) -> Result<Condition, Error> {
        const NX_ALONE: Error =
            Error::text("ERR NX and XX, GT or LT options at the same time are not compatible");
        const ONE_WAY: Error =
            Error::text("ERR GT and LT options at the same time are not compatible");
        let mut condition = Condition::default();
        for arg in args {
            match () {
                () if is_word(arg, "NX") => condition.absent = true,
                () if is_word(arg, "XX") => condition.present = true,
                () if is_word(arg, "GT") => condition.later = true,
                () if is_word(arg, "LT") => condition.earlier = true,
                () => return Err(Error::quoting([b"ERR Unsupported option ", *arg])),
            }
        }
        let Condition {
            absent,
            present,
            later,
            earlier,
        } = condition;
        if absent && (present || later || earlier) {
            return Err(NX_ALONE);
        }
        if later && earlier {
            Err(ONE_WAY)
        } else {
            Ok(condition)
        }
    }

    /// A field without a deadline counts as one that never ends.
    fn admits(self, old: Option<u64>, new: u64) -> bool {
        !(self.absent && old.is_some()
            || self.present && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

pub(super) fn expire_fields(call: &mut Call<'_>, unit: Unit, origin: Origin) -> Result<(), Stop> {
    // As the last word, it is not even looked for.
    let may_be = &call.args[3..call.args.len() - 1];
    let marker = may_be.iter().position(|arg| is_word(arg, "FIELDS"));
    let marker = marker.ok_or(FIELD_COUNT)? + 3;
    let condition = Condition::parse(&call.args[3..marker])?;
    let fields = counted_fields(call, marker + 1, 1, FIELD_COUNT)?;
    let now = call.now_ms();
    let deadline = deadline(call.arg(2), unit, origin, call.command, now)?;
    let outcomes = call.engine.keys.update(call.arg(1), |hash: &mut Hash| {
        let outcomes: Vec<i64> = fields
            .iter()
            .map(|field| expire_field(hash, field, deadline, condition, now))
            .collect();
        let event = if outcomes.contains(&GONE) {
            Some(Event::HEXPIRED)
        } else {
            outcomes.contains(&1).then_some(Event::hash("hexpire"))
        };
        (outcomes, event)
    })?;
    answer_outcomes(call.reply, outcomes, fields.len());
    Ok(())
}

fn expire_field(
    hash: &mut Hash,
    field: &[u8],
    deadline: u64,
    condition: Condition,
    now: u64,
) -> i64 {
    if !hash.contains(field) {
        NO_FIELD
    } else if !condition.admits(hash.deadline(field), deadline) {
        0
    } else if deadline <= now {
        hash.remove(field);
        GONE
    } else {
        hash.set_deadline(field, deadline);
        1
    }
}

/// Changes the deadline of a field if it is there. Returns whether anything changed.
pub(super) fn retime(hash: &mut Hash, field: &[u8], change: Option<Retime>, now: u64) -> bool {
    match change {
        None | Some(Retime::Keep) => false,
        Some(Retime::Persist) => hash.persist(field),
        Some(Retime::At(deadline)) if deadline <= now => hash.remove(field).is_some(),
        Some(Retime::At(deadline)) => hash.set_deadline(field, deadline),
    }
}

/// What to tell when deadlines have changed so.
pub(super) fn retimed(change: Option<Retime>, now: u64) -> Option<Event> {
    match change? {
        Retime::Keep => None,
        Retime::Persist => Some(Event::hash("hpersist")),
        Retime::At(deadline) if deadline <= now => Some(Event::HEXPIRED),
        Retime::At(_) => Some(Event::hash("hexpire")),
    }
}

/// The options of HGETEX and HSETEX, which stand before the fields.
#[derive(Default)]
pub(super) struct FieldOptions<'a> {
    pub(super) key_exists: Option<bool>,
    pub(super) fields_exist: Option<bool>,
    expiry: Option<Expiry<'a>>,
}

#[derive(Clone, Copy)]
enum Expiry<'a> {
    Keep,
    Persist,
    At(Unit, Origin, &'a [u8]),
}

impl<'a> FieldOptions<'a> {
    pub(super) const READING: bool = false;
    pub(super) const WRITING: bool = true;

    /// Reads the options and the fields, of which each takes `group` arguments.
    pub(super) fn parse(
        call: &Call<'a>,
        writing: bool,
        group: usize,
    ) -> Result<(FieldOptions<'a>, &'a [&'a [u8]]), Error> {
        let mut parsed = FieldOptions::default();
        let mut options = call.options(2);
        loop {
            if options.is_empty() {
                return Err(FIELD_COUNT);
            }
            let rest = options.len();
            if options.take("FIELDS") {
                break;
            }
            if writing {
                parsed.take_conditions(&mut options)?;
            }
            parsed.take_expiry(&mut options, writing)?;
            if options.len() == rest {
                let last = call.args.len() - 1;
                let marked = call.args[2..last].iter().any(|arg| is_word(arg, "FIELDS"));
                return Err(if marked { Error::SYNTAX } else { FIELD_COUNT });
            }
        }
        let index = call.args.len() - options.len();
        Ok((parsed, counted_fields(call, index, group, FIELD_COUNT)?))
    }

    fn take_conditions(&mut self, options: &mut Options<'a>) -> Result<(), Error> {
        for (word, of_key, exists) in [
            ("NX", true, false),
            ("XX", true, true),
            ("FNX", false, false),
            ("FXX", false, true),
        ] {
            if options.take(word) {
                let condition = if of_key {
                    &mut self.key_exists
                } else {
                    &mut self.fields_exist
                };
                if condition
                    .replace(exists)
                    .is_some_and(|before| before != exists)
                {
                    return Err(Error::SYNTAX);
                }
            }
        }
        Ok(())
    }

    fn take_expiry(&mut self, options: &mut Options<'a>, writing: bool) -> Result<(), Error> {
        let expiry = if writing && options.take("KEEPTTL") {
            Expiry::Keep
        } else if !writing && options.take("PERSIST") {
            Expiry::Persist
        } else if options.take("EX") {
            Expiry::At(Unit::Seconds, Origin::Now, options.value()?)
        } else if options.take("PX") {
            Expiry::At(Unit::Milliseconds, Origin::Now, options.value()?)
        } else if options.take("EXAT") {
            Expiry::At(Unit::Seconds, Origin::Epoch, options.value()?)
        } else if options.take("PXAT") {
            Expiry::At(Unit::Milliseconds, Origin::Epoch, options.value()?)
        } else {
            return Ok(());
        };
        match self.expiry.replace(expiry) {
            Some(before) if !before.is_like(expiry) => Err(Error::SYNTAX),
            _ => Ok(()),
        }
    }

    /// What is asked for, once it is sure that the key is a hash.
    pub(super) fn expiry(&self, command: &Command, now: u64) -> Result<Option<Retime>, Error> {
        Ok(match self.expiry {
            None => None,
            Some(Expiry::Keep) => Some(Retime::Keep),
            Some(Expiry::Persist) => Some(Retime::Persist),
            Some(Expiry::At(unit, origin, arg)) => {
                Some(Retime::At(deadline(arg, unit, origin, command, now)?))
            }
        })
    }
}

impl Expiry<'_> {
    /// The same option may be given twice, two different ones may not.
    fn is_like(self, other: Expiry<'_>) -> bool {
        match (self, other) {
            (Expiry::Keep, Expiry::Keep) | (Expiry::Persist, Expiry::Persist) => true,
            (Expiry::At(unit, origin, _), Expiry::At(other_unit, other_origin, _)) => {
                unit == other_unit && origin == other_origin
            }
            _ => false,
        }
    }
}
