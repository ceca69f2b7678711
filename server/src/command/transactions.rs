//! MULTI and WATCH: requests kept until EXEC, which runs them as one step or not at all.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    resp::Args,
    session::Transaction,
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "discard",
        arity: 1,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::TRANSACTION,
        group: "transactions",
        since: "2.0.0",
        summary: "Drops the queued commands and ends the transaction.",
        complexity: "O(N) where N is the number of queued commands",
        handler: discard,
        ..Command::BASE
    },
    Command {
        name: "exec",
        arity: 1,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::SKIP_SLOWLOG,
        ]),
        categories: Categories::TRANSACTION,
        group: "transactions",
        since: "1.2.0",
        summary: "Runs the queued commands as one.",
        complexity: "that of the queued commands",
        handler: exec,
        ..Command::BASE
    },
    Command {
        name: "multi",
        arity: 1,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::NO_MULTI,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::TRANSACTION,
        group: "transactions",
        since: "1.2.0",
        summary: "Begins a transaction: what follows is queued.",
        handler: multi,
        ..Command::BASE
    },
    Command {
        name: "unwatch",
        arity: 1,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::TRANSACTION,
        group: "transactions",
        since: "2.2.0",
        summary: "Forgets the watched keys.",
        handler: unwatch,
        ..Command::BASE
    },
    Command {
        name: "watch",
        arity: -2,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::NO_MULTI,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::TRANSACTION,
        keys: &[KeySpec::range("RO", 1, -1, 1)],
        group: "transactions",
        since: "2.2.0",
        summary: "Makes the next EXEC fail if one of the keys changes before it.",
        complexity: "O(N) where N is the number of keys",
        args: "key:key...",
        handler: watch,
        ..Command::BASE
    },
];

fn discard(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.session.transaction.take().is_none() {
        return Err(Error::text("ERR DISCARD without MULTI").into());
    }
    call.engine.unwatch(call.session);
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut Call<'_>) -> Result<(), Stop> {
    let Some(transaction) = call.session.transaction.take() else {
        return Err(Error::text("ERR EXEC without MULTI").into());
    };
    call.engine.check_watched(call.session);
    let tripped = call.session.watch_tripped;
    call.engine.unwatch(call.session);
    if transaction.aborted {
        const ABORTED: Error =
            Error::text("EXECABORT Transaction discarded because of previous errors.");
        return Err(ABORTED.into());
    }
    if tripped {
        call.reply.null_array();
        return Ok(());
    }
    run_queue(call, &transaction);
    Ok(())
}

/// Runs the queued requests; what fails among them does not keep the others from running.
fn run_queue(call: &mut Call<'_>, transaction: &Transaction) {
    let may_block = std::mem::replace(&mut call.session.deny_blocking, true);
    call.session.executing = Some(transaction.queue.len());
    call.reply.array(transaction.queue.len());
    for queued in &transaction.queue {
        // Its user is gone: the connection ends with what has been said.
        if call.session.closing {
            break;
        }
        let args: Args<'_> = queued.args.iter().map(Vec::as_slice).collect();
        let permitted = call
            .engine
            .permit(call.session, queued.command, &args, "multi");
        if let Err(denied) = permitted {
            let error = denied.late_error();
            call.engine.stats.error(error.code());
            call.reply.error(&error);
            continue;
        }
        let ran = call
            .engine
            .call(call.session, queued.command, &args, call.reply);
        debug_assert!(ran.is_ok(), "nothing waits while blocking is denied");
    }
    call.session.executing = None;
    call.session.deny_blocking = may_block;
}

fn multi(call: &mut Call<'_>) -> Result<(), Stop> {
    call.session.transaction = Some(Transaction::default());
    call.session.knows_transactions = true;
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call<'_>) -> Result<(), Stop> {
    call.engine.unwatch(call.session);
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut Call<'_>) -> Result<(), Stop> {
    call.session.knows_transactions = true;
    // A watch that has tripped already stays tripped, whatever else is watched.
    if !call.session.watch_tripped {
        for key in &call.args[1..] {
            call.engine.watch(call.session, key);
        }
    }
    call.reply.ok();
    Ok(())
}
