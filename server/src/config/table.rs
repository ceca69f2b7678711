//! The table: every setting with its default and what it may be.

use super::{Kind, Setting, events, output_limits, percentiles, save_points};

const fn int(min: i64, max: i64) -> Kind {
    Kind::Int { min, max }
}

const fn memory(min: i64) -> Kind {
    Kind::Memory { min, max: i64::MAX }
}

const SIZE: Kind = int(0, i64::MAX);
const NATURAL: Kind = int(0, i32::MAX as i64);
const POSITIVE: Kind = int(1, i32::MAX as i64);
const PORT: Kind = int(0, 65535);
const NO_DISK: Kind = Kind::Only("nothing is written to disk");
const NO_TLS: Kind = Kind::Only("TLS is not served");
const NO_REPLICATION: Kind = Kind::Only("replication is not served");
const ON_SIGNAL: Kind = Kind::Choice(&[
    "default", "save", "nosave", "now", "force", "safe", "failover",
]);
const POLICIES: Kind = Kind::Choice(&[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
]);

/// All settings, in alphabetical order. Those that no part of the server reads concern disks,
/// replicas and memory managers that it does not have.
pub static SETTINGS: &[Setting] = &[
    Setting::new(
        "acl-pubsub-default",
        "resetchannels",
        Kind::Choice(&["allchannels", "resetchannels"]),
    ),
    Setting::new("aclfile", "", Kind::Text).fixed(),
    Setting::new("acllog-max-len", "128", SIZE),
    Setting::new("active-expire-effort", "1", int(1, 10)),
    Setting::new(
        "activedefrag",
        "no",
        Kind::Only("memory is not defragmented"),
    ),
    Setting::new("activerehashing", "yes", Kind::Bool),
    Setting::new("always-show-logo", "no", Kind::Bool).fixed(),
    Setting::new("aof-load-truncated", "yes", Kind::Bool),
    Setting::new("aof-rewrite-incremental-fsync", "yes", Kind::Bool),
    Setting::new("aof-timestamp-enabled", "no", Kind::Bool),
    Setting::new("aof-use-rdb-preamble", "yes", Kind::Bool),
    Setting::new("appenddirname", "appendonlydir", Kind::Text).fixed(),
    Setting::new("appendfilename", "appendonly.aof", Kind::Text).fixed(),
    Setting::new(
        "appendfsync",
        "everysec",
        Kind::Choice(&["everysec", "always", "no"]),
    ),
    Setting::new("appendonly", "no", NO_DISK),
    Setting::new("auto-aof-rewrite-min-size", "67108864", memory(0)),
    Setting::new("auto-aof-rewrite-percentage", "100", NATURAL),
    Setting::new("availability-zone", "", Kind::Text),
    Setting::new("bind", "127.0.0.1", Kind::Text).fixed(),
    Setting::new("bind-source-addr", "", Kind::Text),
    Setting::new("busy-reply-threshold", "5000", SIZE).alias("lua-time-limit"),
    Setting::new(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        Kind::Special(output_limits),
    ),
    Setting::new("client-query-buffer-limit", "1073741824", memory(1 << 20)),
    Setting::new("cluster-allow-pubsubshard-when-down", "yes", Kind::Bool),
    Setting::new("cluster-allow-reads-when-down", "no", Kind::Bool),
    Setting::new("cluster-allow-replica-migration", "yes", Kind::Bool),
    Setting::new("cluster-announce-bus-port", "0", PORT),
    Setting::new("cluster-announce-hostname", "", Kind::Text),
    Setting::new("cluster-announce-human-nodename", "", Kind::Text),
    Setting::new("cluster-announce-ip", "", Kind::Text),
    Setting::new("cluster-announce-port", "0", PORT),
    Setting::new("cluster-config-file", "nodes.conf", Kind::Text).fixed(),
    Setting::new("cluster-databases", "1", POSITIVE).fixed(),
    Setting::new("cluster-enabled", "no", Kind::Bool).fixed(),
    Setting::new("cluster-link-sendbuf-limit", "0", memory(0)),
    Setting::new("cluster-migration-barrier", "1", NATURAL),
    Setting::new("cluster-node-timeout", "15000", SIZE),
    Setting::new("cluster-port", "0", PORT).fixed(),
    Setting::new(
        "cluster-preferred-endpoint-type",
        "ip",
        Kind::Choice(&["ip", "hostname", "unknown-endpoint"]),
    ),
    Setting::new("cluster-replica-no-failover", "no", Kind::Bool)
        .alias("cluster-slave-no-failover"),
    Setting::new("cluster-replica-validity-factor", "10", NATURAL)
        .alias("cluster-slave-validity-factor"),
    Setting::new("cluster-require-full-coverage", "yes", Kind::Bool),
    Setting::new(
        "commandlog-execution-slower-than",
        "10000",
        int(-1, i64::MAX),
    )
    .alias("slowlog-log-slower-than"),
    Setting::new("commandlog-large-reply-max-len", "128", SIZE),
    Setting::new("commandlog-large-request-max-len", "128", SIZE),
    Setting::new("commandlog-reply-larger-than", "1048576", int(-1, i64::MAX)),
    Setting::new(
        "commandlog-request-larger-than",
        "1048576",
        int(-1, i64::MAX),
    ),
    Setting::new("commandlog-slow-execution-max-len", "128", SIZE).alias("slowlog-max-len"),
    Setting::new("crash-log-enabled", "yes", Kind::Bool),
    Setting::new("crash-memcheck-enabled", "yes", Kind::Bool),
    Setting::new(
        "daemonize",
        "no",
        Kind::Only("the server stays in the foreground; let a supervisor start it"),
    )
    .fixed(),
    Setting::new("databases", "16", POSITIVE).fixed(),
    Setting::new("dbfilename", "dump.rdb", Kind::Text).protected(),
    Setting::new("dir", "", Kind::Text).protected(),
    Setting::new(
        "enable-debug-command",
        "no",
        Kind::Choice(&["no", "yes", "local"]),
    )
    .fixed(),
    Setting::new(
        "enable-module-command",
        "no",
        Kind::Choice(&["no", "yes", "local"]),
    )
    .fixed(),
    Setting::new(
        "enable-protected-configs",
        "no",
        Kind::Choice(&["no", "yes", "local"]),
    )
    .fixed(),
    Setting::new("extended-redis-compatibility", "no", Kind::Bool),
    Setting::new("hash-max-listpack-entries", "512", SIZE).alias("hash-max-ziplist-entries"),
    Setting::new("hash-max-listpack-value", "64", memory(0)).alias("hash-max-ziplist-value"),
    Setting::new("hide-user-data-from-log", "yes", Kind::Bool),
    Setting::new("hll-sparse-max-bytes", "3000", memory(0)),
    Setting::new("hz", "10", NATURAL),
    Setting::new(
        "import-mode",
        "no",
        Kind::Only("there is nobody to import from"),
    ),
    Setting::new("io-threads", "1", int(1, 256)).fixed(),
    Setting::new("latency-monitor-threshold", "0", SIZE),
    Setting::new("latency-tracking", "yes", Kind::Bool),
    Setting::new(
        "latency-tracking-info-percentiles",
        "50 99 99.9",
        Kind::Special(percentiles),
    ),
    Setting::new("lazyfree-lazy-eviction", "yes", Kind::Bool),
    Setting::new("lazyfree-lazy-expire", "yes", Kind::Bool),
    Setting::new("lazyfree-lazy-server-del", "yes", Kind::Bool),
    Setting::new("lazyfree-lazy-user-del", "yes", Kind::Bool),
    Setting::new("lazyfree-lazy-user-flush", "yes", Kind::Bool),
    Setting::new("lfu-decay-time", "1", NATURAL),
    Setting::new("lfu-log-factor", "10", NATURAL),
    Setting::new("list-compress-depth", "0", NATURAL),
    Setting::new(
        "list-max-listpack-size",
        "-2",
        int(i32::MIN as i64, i32::MAX as i64),
    )
    .alias("list-max-ziplist-size"),
    Setting::new(
        "locale-collate",
        "",
        Kind::Only("texts are ordered by their bytes"),
    ),
    Setting::new("logfile", "", Kind::Text).fixed(),
    Setting::new(
        "loglevel",
        "notice",
        Kind::Choice(&["debug", "verbose", "notice", "warning", "nothing"]),
    ),
    Setting::new("maxclients", "10000", int(1, u32::MAX as i64)),
    Setting::new("maxmemory", "0", memory(0)),
    Setting::new(
        "maxmemory-clients",
        "0",
        Kind::Only("clients are bound by client-output-buffer-limit"),
    ),
    Setting::new("maxmemory-eviction-tenacity", "10", int(0, 100)),
    Setting::new("maxmemory-policy", "noeviction", POLICIES),
    Setting::new("maxmemory-samples", "5", int(1, 64)),
    Setting::new("min-replicas-max-lag", "10", NATURAL).alias("min-slaves-max-lag"),
    Setting::new("min-replicas-to-write", "0", NATURAL).alias("min-slaves-to-write"),
    Setting::new("no-appendfsync-on-rewrite", "no", Kind::Bool),
    Setting::new("notify-keyspace-events", "", Kind::Special(events)),
    Setting::new(
        "oom-score-adj",
        "no",
        Kind::Only("the process's score is left as it is"),
    ),
    Setting::new("pidfile", "", Kind::Text).fixed(),
    Setting::new("port", "6379", PORT).fixed(),
    Setting::new("primaryauth", "", Kind::Text).alias("masterauth"),
    Setting::new("primaryuser", "", Kind::Text).alias("masteruser"),
    Setting::new(
        "propagation-error-behavior",
        "ignore",
        Kind::Choice(&["ignore", "panic", "panic-on-replicas"]),
    ),
    Setting::new("protected-mode", "yes", Kind::Bool),
    Setting::new("proto-max-bulk-len", "536870912", memory(1 << 20)),
    Setting::new("rdb-del-sync-files", "no", Kind::Bool),
    Setting::new("rdb-save-incremental-fsync", "yes", Kind::Bool),
    Setting::new(
        "rdb-version-check",
        "strict",
        Kind::Choice(&["strict", "relaxed"]),
    ),
    Setting::new("rdbchecksum", "yes", Kind::Bool).fixed(),
    Setting::new("rdbcompression", "yes", Kind::Bool),
    Setting::new("repl-backlog-size", "10485760", memory(1)),
    Setting::new("repl-backlog-ttl", "3600", SIZE),
    Setting::new("repl-disable-tcp-nodelay", "no", Kind::Bool),
    Setting::new(
        "repl-diskless-load",
        "disabled",
        Kind::Choice(&["disabled", "on-empty-db", "swapdb", "flush-before-load"]),
    ),
    Setting::new("repl-diskless-sync", "yes", Kind::Bool),
    Setting::new("repl-diskless-sync-delay", "5", NATURAL),
    Setting::new("repl-diskless-sync-max-replicas", "0", NATURAL),
    Setting::new("repl-ping-replica-period", "10", POSITIVE).alias("repl-ping-slave-period"),
    Setting::new("repl-timeout", "60", POSITIVE),
    Setting::new("replica-announce-ip", "", Kind::Text).alias("slave-announce-ip"),
    Setting::new("replica-announce-port", "0", PORT).alias("slave-announce-port"),
    Setting::new("replica-announced", "yes", Kind::Bool),
    Setting::new("replica-ignore-disk-write-errors", "no", Kind::Bool),
    Setting::new("replica-ignore-maxmemory", "yes", Kind::Bool).alias("slave-ignore-maxmemory"),
    Setting::new("replica-lazy-flush", "yes", Kind::Bool).alias("slave-lazy-flush"),
    Setting::new("replica-priority", "100", NATURAL).alias("slave-priority"),
    Setting::new("replica-read-only", "yes", Kind::Bool).alias("slave-read-only"),
    Setting::new("replica-serve-stale-data", "yes", Kind::Bool).alias("slave-serve-stale-data"),
    Setting::new("replicaof", "", NO_REPLICATION)
        .alias("slaveof")
        .fixed(),
    Setting::new("requirepass", "", Kind::Text),
    Setting::new("save", "", Kind::Special(save_points)),
    // Ours alone: what the Lua state of scripts may occupy, and that of functions.
    Setting::new("script-memory-limit", "536870912", memory(1 << 20)),
    Setting::new("set-max-intset-entries", "512", SIZE),
    Setting::new("set-max-listpack-entries", "128", SIZE),
    Setting::new("set-max-listpack-value", "64", SIZE),
    Setting::new("shutdown-on-sigint", "default", ON_SIGNAL),
    Setting::new("shutdown-on-sigterm", "default", ON_SIGNAL),
    Setting::new("shutdown-timeout", "10", NATURAL),
    Setting::new("stop-writes-on-bgsave-error", "yes", Kind::Bool),
    Setting::new("stream-node-max-bytes", "4096", memory(0)),
    Setting::new("stream-node-max-entries", "100", SIZE),
    Setting::new(
        "supervised",
        "no",
        Kind::Only("no supervisor is told of the start"),
    )
    .fixed(),
    Setting::new(
        "syslog-enabled",
        "no",
        Kind::Only("the log goes to standard error or a file"),
    )
    .fixed(),
    Setting::new("tcp-backlog", "511", POSITIVE).fixed(),
    Setting::new("tcp-keepalive", "300", NATURAL),
    Setting::new("timeout", "0", NATURAL),
    Setting::new(
        "tls-auth-clients",
        "yes",
        Kind::Choice(&["no", "yes", "optional"]),
    ),
    Setting::new("tls-port", "0", NO_TLS).fixed(),
    Setting::new("tracking-table-max-keys", "1000000", SIZE),
    Setting::new("unixsocket", "", Kind::Text).fixed(),
    Setting::new("unixsocketperm", "0", Kind::Octal).fixed(),
    Setting::new("zset-max-listpack-entries", "128", SIZE).alias("zset-max-ziplist-entries"),
    Setting::new("zset-max-listpack-value", "64", memory(0)).alias("zset-max-ziplist-value"),
];
