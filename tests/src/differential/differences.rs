//! Everything in which khoa-server may differ from a reference, or that cannot be compared: a row each, with its reason.

mod requests;
mod settling;

use crate::transcript::wire::{Body, Reply};

use super::vocabulary::is_runner;

use requests::*;
use settling::*;

/// Which server the other one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Valkey 9.1, whose behaviour is khoa-server's.
    Valkey,
    /// Redis 8.2.
    Redis82,
    /// Redis 7.0.
    Redis7,
    /// Another khoa-server, for the tests of this machinery.
    Khoa,
}

impl Reference {
    /// Is it one that khoa-server does not follow where it differs from Valkey?
    pub fn is_older(self) -> bool {
        OLDER.contains(&self)
    }

    /// By the text of INFO.
    pub fn of_info(info: &str) -> Self {
        match () {
            () if info.contains("server_name:valkey") => Self::Valkey,
            () if info.contains("server_name:khoa") => Self::Khoa,
            () if info.contains("redis_version:8") => Self::Redis82,
            () => Self::Redis7,
        }
    }
}

/// A command that takes no part, or a container of which no subcommand does.
pub struct LeftOut {
    /// In lower case.
    pub commands: &'static [&'static str],
    /// Why.
    pub reason: &'static str,
}

/// What is not run at all.
pub const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        commands: &[
            "shutdown",
            "failover",
            "replicaof",
            "slaveof",
            "sync",
            "psync",
            "replconf",
            "migrate",
            "monitor",
            "debug",
            "save",
            "bgsave",
            "bgrewriteaof",
            "module",
            "script|debug",
            "cluster",
            "clusterscan",
            "asking",
            "restore-asking",
            "cluster|syncslots",
            "pfdebug",
        ],
        reason: "acts on the server, its files or other servers, or on data behind the back of clients",
    },
    LeftOut {
        commands: &[
            "info",
            "memory",
            "latency",
            "slowlog",
            "commandlog",
            "lolwut",
            "config",
            "client|list",
            "client|info",
            "acl|log",
            "role",
            "command",
            "command|docs",
            "command|info",
            "command|count",
            "command|list",
        ],
        reason: "tells of the server itself: its memory, times, settings and counters; transcripts compare these",
    },
    LeftOut {
        commands: &[
            "time",
            "lastsave",
            "acl|genpass",
            "pfselftest",
            "function|stats",
            "object|idletime",
            "object|freq",
        ],
        reason: "answers with the clock, with chance or with nothing that is stored",
    },
    LeftOut {
        commands: &[
            "client|kill",
            "client|pause",
            "client|unpause",
            "client|reply",
            "quit",
            "auth",
            "hello",
            "reset",
        ],
        reason: "ends or silences the connection on which replies are compared; closing one is a step of its own",
    },
    LeftOut {
        commands: &[
            "acl|load",
            "acl|save",
            "acl|setuser",
            "script|kill",
            "function|kill",
            "config|rewrite",
        ],
        reason: "needs a file, a user that outlives the sequence or a script that still runs",
    },
    LeftOut {
        commands: &[
            "multi",
            "exec",
            "discard",
            "subscribe",
            "psubscribe",
            "ssubscribe",
            "unsubscribe",
            "punsubscribe",
            "sunsubscribe",
        ],
        reason: "changes how later requests are answered, so the sequence places it instead of the grammar",
    },
];

/// Words that take no part: the command, the word and why.
pub const WORDS_LEFT_OUT: &[(&str, &str, &str)] = &[
    (
        "xadd",
        "*",
        "an ID made from the clock is each server's own; partly given ones take part",
    ),
    (
        "client|tracking",
        "BCAST",
        "what is broadcast in one message depends on how many requests a server reads at once",
    ),
];

/// Does this word of a command take no part?
pub fn word_left_out(command: &str, word: &str) -> bool {
    WORDS_LEFT_OUT
        .iter()
        .any(|&(one, other, _)| one == command && other == word)
}

/// Requests that take no part: which, and why.
pub struct RequestLeftOut {
    /// Is this one of them?
    pub is: fn(&[&[u8]]) -> bool,
    /// Beside which references; empty for all.
    pub references: &'static [Reference],
    /// Why.
    pub reason: &'static str,
}

/// What is not asked, though its command takes part.
pub const REQUESTS_LEFT_OUT: &[RequestLeftOut] = &[
    RequestLeftOut {
        is: lives_briefly,
        references: &[],
        reason: "what lives for so short a time goes at a moment of each server's own; a step of its own lets a key die",
    },
    RequestLeftOut {
        is: waits_for_a_while,
        references: &[],
        reason: "a timeout of more than a blink passes at a moment of each server's own",
    },
    RequestLeftOut {
        is: stores_the_past,
        references: &[],
        reason: "MSETEX stores keys whose time is over, and each server removes them when it gets to it",
    },
    RequestLeftOut {
        is: is_named_as_a_word,
        references: &[],
        reason: "Valkey looks for the words of the request from the key on, and so does not find a hash of such a name",
    },
    RequestLeftOut {
        is: numbers_a_client,
        references: &[],
        reason: "each server numbers its connections, so that a number is one on one of them only",
    },
    RequestLeftOut {
        is: draws_endlessly,
        references: &[],
        reason: "a negative count draws as many as it says, the same ones again and again, until no memory is left",
    },
    RequestLeftOut {
        is: reserves_by_count,
        references: &[],
        reason: "the references reserve room for as many answers as COUNT says, so the machine's memory decides",
    },
    RequestLeftOut {
        is: breaks_its_own_reply,
        references: &[],
        reason: "they write a line break of a word as it is into the error, and what follows is no reply",
    },
    RequestLeftOut {
        is: stores_the_nearest,
        references: &[],
        reason: "of equal distances the order is left open, and COUNT stores a part of that",
    },
    RequestLeftOut {
        is: is_dated_by_the_clock,
        references: &[],
        reason: "an ID made from the clock is each server's own",
    },
    RequestLeftOut {
        is: reads_numbers_leniently,
        references: OLDER,
        reason: "what counts as a number differs: signs, blanks, hexadecimal digits, what is too large",
    },
    RequestLeftOut {
        is: grew_up_later,
        references: OLDER,
        reason: "Valkey 9 refuses or takes what the older ones do not",
    },
    RequestLeftOut {
        is: is_of_8_2,
        references: &[Reference::Redis82],
        reason: "what Redis 8.2 began and Valkey has its own of, or has as later Redis has it",
    },
    RequestLeftOut {
        is: is_stricter_in_7_0,
        references: &[Reference::Redis7],
        reason: "Redis 7.0 refuses, or takes in another way, what later ones agree on",
    },
    RequestLeftOut {
        is: restores,
        references: &[Reference::Redis82],
        reason: "the payloads of Redis 8.2 are of a format that came after Valkey had parted from it",
    },
];

/// The references that khoa-server does not follow where they differ from Valkey.
const OLDER: &[Reference] = &[Reference::Redis82, Reference::Redis7];

/// May this request not be asked beside this reference?
pub fn request_left_out(request: &[&[u8]], reference: Reference) -> bool {
    let request = innermost(request);
    let is_for =
        |row: &&RequestLeftOut| row.references.is_empty() || row.references.contains(&reference);
    let mut rows = REQUESTS_LEFT_OUT.iter().filter(is_for);
    rows.any(|row| (row.is)(request))
}

/// Why a command takes no part, if so. A container's row speaks for its subcommands.
pub fn left_out(name: &str) -> Option<&'static str> {
    let parent = name.split('|').next().unwrap_or(name);
    let row = LEFT_OUT
        .iter()
        .find(|row| row.commands.iter().any(|&one| one == name || one == parent));
    row.map(|row| row.reason)
}

/// A way in which two replies to the same request may differ.
pub struct Difference {
    /// The commands, in lower case, `parent|child` for a subcommand; none for all.
    pub commands: &'static [&'static str],
    /// With which references; empty for all.
    pub references: &'static [Reference],
    /// Why.
    pub reason: &'static str,
    /// Makes the replies alike if this is all in which they differ.
    pub settle: fn(&Case<'_>, &mut Reply, &mut Reply),
}

/// What was asked.
pub struct Case<'a> {
    /// The request as it was sent.
    pub outer: &'a [&'a [u8]],
    /// The request that it comes to: the one that a script runs.
    pub request: &'a [&'a [u8]],
}

/// Differences that are as they should be.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        commands: &[
            "xpending",
            "xinfo|stream",
            "xinfo|groups",
            "xinfo|consumers",
        ],
        references: &[],
        reason: "idle times are counted by each server's own clock",
        settle: idle_times,
    },
    Difference {
        commands: &[
            "keys",
            "smembers",
            "sinter",
            "sunion",
            "sdiff",
            "hkeys",
            "hvals",
            "pubsub|channels",
            "pubsub|shardchannels",
            "acl|cat",
            "acl|users",
            "acl|list",
        ],
        references: &[],
        reason: "the order in a hash table is left open",
        settle: any_order,
    },
    Difference {
        commands: &[
            "acl|help",
            "client|help",
            "cluster|help",
            "command|help",
            "commandlog|help",
            "config|help",
            "function|help",
            "latency|help",
            "memory|help",
            "object|help",
            "pubsub|help",
            "script|help",
            "slowlog|help",
            "xgroup|help",
            "xinfo|help",
        ],
        references: &[],
        reason: "help texts are in each project's own words",
        settle: help_texts,
    },
    Difference {
        commands: &[
            "eval",
            "eval_ro",
            "evalsha",
            "evalsha_ro",
            "fcall",
            "fcall_ro",
        ],
        references: &[],
        reason: "a map that went through Lua comes in the order of a Lua table",
        settle: lua_maps,
    },
    Difference {
        commands: &["eval", "eval_ro", "evalsha", "evalsha_ro"],
        references: &[],
        reason: "LuaJIT knows what is no number without a sign",
        settle: signs_of_nan,
    },
    Difference {
        commands: &["acl|cat"],
        references: &[Reference::Valkey, Reference::Redis82, Reference::Redis7],
        reason: "khoa-server also has the commands of Redis 8.4 that compare values",
        settle: newer_commands,
    },
    Difference {
        commands: &["object|encoding"],
        references: &[Reference::Valkey],
        reason: "Valkey 9.1 keeps a number that a script stores as text; khoa-server and Redis keep it as a number",
        settle: numbers_of_scripts,
    },
    Difference {
        commands: &["sort", "sort_ro"],
        references: &[],
        reason: "a set that is not sorted comes in the order of a hash table; of equal weights the order is left open",
        settle: unsorted,
    },
    Difference {
        commands: &["hgetall"],
        references: &[],
        reason: "the order in a hash table is left open",
        settle: any_order_of_pairs,
    },
    Difference {
        commands: &["function|list"],
        references: &[],
        reason: "the order of libraries and of their functions is that of a hash table",
        settle: any_order_deep,
    },
    Difference {
        commands: &["scan", "sscan", "hscan", "zscan"],
        references: &[],
        reason: "a cursor is an opaque number; what one call returns of a hash table is left open",
        settle: scanned,
    },
    Difference {
        commands: &[
            "srandmember",
            "hrandfield",
            "zrandmember",
            "randomkey",
            "spop",
        ],
        references: &[],
        reason: "a draw: only what kind of reply it is, and how many elements it has, is certain",
        settle: drawn,
    },
    Difference {
        commands: &[
            "ttl",
            "pttl",
            "expiretime",
            "pexpiretime",
            "httl",
            "hpttl",
            "hexpiretime",
            "hpexpiretime",
        ],
        references: &[],
        reason: "a time to live begins at the moment of the request, which each server has for itself",
        settle: near_times,
    },
    Difference {
        commands: &["dump", "function|dump"],
        references: &[],
        reason: "a payload holds hash tables in their order and consumers with their times; the final contents are compared by value",
        settle: both_texts,
    },
    Difference {
        commands: &["client|id", "client|getredir", "client|trackinginfo"],
        references: &[],
        reason: "each server numbers its connections",
        settle: any_number,
    },
    Difference {
        commands: &["object|refcount"],
        references: &[],
        reason: "how often a server refers to a value, a queued request included, tells of its memory alone",
        settle: any_number,
    },
    Difference {
        commands: &[
            "georadius",
            "georadius_ro",
            "georadiusbymember",
            "georadiusbymember_ro",
            "geosearch",
        ],
        references: &[],
        reason: "of equal distances the order is left open, and COUNT takes a part of that",
        settle: nearest,
    },
    Difference {
        commands: &["object|encoding"],
        references: OLDER,
        reason: "when a value changes its encoding, and what encodings there are, differs from version to version",
        settle: both_texts,
    },
    Difference {
        commands: &[
            "acl|cat",
            "acl|list",
            "acl|getuser",
            "command|getkeysandflags",
            "function|list",
        ],
        references: OLDER,
        reason: "tells of commands, rights and flags, of which each version has its own",
        settle: anything,
    },
    Difference {
        commands: &["xinfo|stream", "xinfo|consumers", "xinfo|groups"],
        references: OLDER,
        reason: "each version counts otherwise what a group has read, and 7.0 does not tell when a consumer was active",
        settle: anything,
    },
    Difference {
        commands: &[
            "geopos",
            "georadius",
            "georadius_ro",
            "georadiusbymember",
            "georadiusbymember_ro",
            "geosearch",
        ],
        references: OLDER,
        reason: "places are told with other digits",
        settle: near_doubles,
    },
    Difference {
        commands: &[],
        references: OLDER,
        reason: "errors are worded anew from version to version, and of several the first one is told",
        settle: any_error,
    },
    Difference {
        commands: &[],
        references: &[],
        reason: "khoa-server prints the shortest digits that are nearest to a double; the references' printers do not always",
        settle: same_doubles,
    },
];

/// A way in which messages that no request asked for may differ.
pub struct PushDifference {
    /// Why.
    pub reason: &'static str,
    /// Puts them in an order of its own.
    settle: fn(&mut [Reply]),
}

/// Differences that are as they should be.
pub const PUSHES: &[PushDifference] = &[
    PushDifference {
        reason: "a message that several patterns of a client match comes in the order of a hash table",
        settle: sort_matches,
    },
    PushDifference {
        reason: "each server numbers its connections, and names the one that messages can no longer go to",
        settle: forget_lost_client,
    },
    PushDifference {
        reason: "whether a client that caches hears of a change before or after its events differs from command to command, and for which of several clients it hears first is left open",
        settle: invalidations_first,
    },
    PushDifference {
        reason: "unsubscribing from everything goes in the order of a hash table",
        settle: sort_farewells,
    },
];

/// Whether messages are the same but for the rows above.
pub fn same_pushes(ours: &[Reply], theirs: &[Reply]) -> bool {
    let (mut ours, mut theirs) = (ours.to_vec(), theirs.to_vec());
    for row in PUSHES {
        (row.settle)(&mut ours);
        (row.settle)(&mut theirs);
    }
    ours == theirs
}

fn part(reply: &Reply, at: usize) -> &[u8] {
    match &reply.body {
        Body::Many(many) => match many.get(at).map(|part| &part.body) {
            Some(Body::Text(text)) => text,
            _ => b"",
        },
        _ => b"",
    }
}

fn sort_matches(pushes: &mut [Reply]) {
    let is_same = |one: &Reply, other: &Reply| {
        part(one, 0) == b"pmessage"
            && part(other, 0) == b"pmessage"
            && part(one, 2) == part(other, 2)
            && part(one, 3) == part(other, 3)
    };
    for run in pushes.chunk_by_mut(is_same) {
        run.sort_by_key(rank);
    }
}

/// Each kind of message keeps its order.
fn invalidations_first(pushes: &mut [Reply]) {
    pushes.sort_by_key(|push| match part(push, 0) {
        b"tracking-redir-broken" => 0,
        b"invalidate" => 1,
        b"message" if part(push, 1) == b"__redis__:invalidate" => 1,
        _ => 2,
    });
}

fn forget_lost_client(pushes: &mut [Reply]) {
    for push in pushes {
        if part(push, 0) == b"tracking-redir-broken"
            && let Body::Many(many) = &mut push.body
        {
            many.truncate(1);
        }
    }
}

/// Puts the names in order and leaves the counts where they are.
fn sort_farewells(pushes: &mut [Reply]) {
    let is_same = |one: &Reply, other: &Reply| {
        part(one, 0).ends_with(b"unsubscribe") && part(one, 0) == part(other, 0)
    };
    for run in pushes.chunk_by_mut(is_same) {
        if !part(&run[0], 0).ends_with(b"unsubscribe") {
            continue;
        }
        let mut names: Vec<Reply> = run.iter().filter_map(|push| name(push).cloned()).collect();
        names.sort_by_key(rank);
        for (push, sorted) in run.iter_mut().zip(names) {
            if let Body::Many(many) = &mut push.body
                && let Some(name) = many.get_mut(1)
            {
                *name = sorted;
            }
        }
    }
}

fn name(push: &Reply) -> Option<&Reply> {
    match &push.body {
        Body::Many(many) => many.get(1),
        _ => None,
    }
}

/// What was asked in the end: the request that a script runs stands in its arguments.
pub fn innermost<'a>(request: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
    let name = request[0].to_ascii_lowercase();
    let is_script = matches!(
        name.as_slice(),
        b"eval" | b"eval_ro" | b"evalsha" | b"evalsha_ro" | b"fcall" | b"fcall_ro"
    );
    if !is_script || request.len() < 3 || !is_runner(request[1]) {
        return request;
    }
    let keys = std::str::from_utf8(request[2])
        .ok()
        .and_then(|keys| keys.parse::<usize>().ok());
    match keys.and_then(|keys| request.get(3 + keys..)) {
        Some(inner) if !inner.is_empty() => inner,
        _ => request,
    }
}

/// The command's name as the rows have it.
pub fn name_of(request: &[&[u8]]) -> String {
    let lower = |word: &[u8]| String::from_utf8_lossy(word).to_lowercase();
    let name = lower(request[0]);
    match khoa_server::command::lookup(request) {
        Ok(row) => row.name.to_owned(),
        Err(_) => name,
    }
}

/// Whether the replies are the same but for the rows above; `used` counts how often each one mattered.
pub fn same(
    request: &[&[u8]],
    reference: Reference,
    ours: &Reply,
    theirs: &Reply,
    used: &mut [u64],
) -> bool {
    if ours == theirs {
        return true;
    }
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    let case = Case {
        outer: request,
        request: innermost(request),
    };
    let names = [name_of(case.request), name_of(case.outer)];
    for (row, used) in DIFFERENCES.iter().zip(used) {
        let named = |one: &&str| names.iter().any(|name| name == one);
        let is_for = (row.commands.is_empty() || row.commands.iter().any(named))
            && (row.references.is_empty() || row.references.contains(&reference));
        if is_for {
            (row.settle)(&case, &mut ours, &mut theirs);
            *used += 1;
            if ours == theirs {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(bytes: &[u8]) -> Reply {
        crate::transcript::wire::parse(bytes, 0).unwrap().unwrap().0
    }

    fn are_same(request: &[&[u8]], ours: &[u8], theirs: &[u8]) -> bool {
        let mut used = vec![0; DIFFERENCES.len()];
        same(
            request,
            Reference::Valkey,
            &reply(ours),
            &reply(theirs),
            &mut used,
        )
    }

    #[test]
    fn order_counts_but_for_hash_tables() {
        let (one, other) = (b"*2\r\n+a\r\n+b\r\n", b"*2\r\n+b\r\n+a\r\n");
        assert!(are_same(&[b"SMEMBERS", b"e1"], one, other));
        assert!(!are_same(&[b"LRANGE", b"l1", b"0", b"-1"], one, other));
        assert!(!are_same(&[b"SMEMBERS", b"e1"], one, b"*1\r\n+a\r\n"));
    }

    #[test]
    fn a_script_answers_as_the_request_that_it_runs() {
        let script = super::super::vocabulary::SCRIPTS[0];
        let request: [&[u8]; 6] = [b"eval", script, b"1", b"e1", b"smembers", b"e1"];
        assert!(are_same(
            &request,
            b"*2\r\n+a\r\n+b\r\n",
            b"*2\r\n+b\r\n+a\r\n"
        ));
    }

    #[test]
    fn times_are_near_or_differ() {
        assert!(are_same(&[b"PTTL", b"k"], b":999990\r\n", b":999900\r\n"));
        assert!(!are_same(&[b"PTTL", b"k"], b":-1\r\n", b":999900\r\n"));
        assert!(!are_same(&[b"PTTL", b"k"], b":100\r\n", b":999900\r\n"));
        assert!(!are_same(&[b"STRLEN", b"k"], b":99\r\n", b":98\r\n"));
    }

    #[test]
    fn long_doubles_are_the_same_when_they_read_the_same() {
        let request: [&[u8]; 3] = [b"ZSCORE", b"z1", b"a"];
        let ours = b"$18\r\n-565160322209457.3\r\n";
        assert!(are_same(&request, ours, b"$18\r\n-565160322209457.2\r\n"));
        assert!(!are_same(&request, ours, b"$18\r\n-565160322209456.2\r\n"));
        assert!(!are_same(&request, b"$1\r\n1\r\n", b"$2\r\n01\r\n"));
    }

    #[test]
    fn a_draw_keeps_its_size() {
        assert!(are_same(&[b"SPOP", b"k"], b"$1\r\na\r\n", b"$1\r\nb\r\n"));
        assert!(!are_same(&[b"SPOP", b"k"], b"$1\r\na\r\n", b"$-1\r\n"));
        assert!(!are_same(
            &[b"SRANDMEMBER", b"k", b"2"],
            b"*1\r\n+a\r\n",
            b"*2\r\n+a\r\n+b\r\n"
        ));
    }

    #[test]
    fn every_command_that_is_named_exists() {
        let known = |name: &str| khoa_server::command::by_name(name.as_bytes()).is_some();
        let named = LEFT_OUT.iter().flat_map(|row| row.commands);
        for name in named.chain(DIFFERENCES.iter().flat_map(|row| row.commands)) {
            assert!(known(name), "{name}");
        }
    }
}
