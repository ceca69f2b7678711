//! The table: every setting with its default and what it may be.

use super::{Kind, Setting, forms::*};

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
const NO_DISK: Kind = Kind::Only(&Kind::Bool, "nothing is written to disk");
const NO_TLS: Kind = Kind::Only(&PORT, "TLS is not served");
const NO_REPLICATION: Kind = Kind::Only(&Kind::Text, "replication is not served");
const NO_CPU_LIST: Kind = Kind::Only(&Kind::Text, "the system chooses where threads run");
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

/// All settings, in alphabetical order. Those that no part of the server reads concern what it does
/// not have: disks, replicas, TLS, RDMA, a memory manager, an event loop, a title of its process, and
/// delays for tests of the references.
pub static SETTINGS: &[Setting] = &[
    Setting::new(
        "acl-pubsub-default",
        "resetchannels",
        Kind::Choice(&["allchannels", "resetchannels"]),
    ),
    Setting::new("aclfile", "", Kind::Text).fixed(),
    Setting::new("acllog-max-len", "128", SIZE),
    Setting::new("active-defrag-cycle-max", "25", int(1, 99)),
    Setting::new("active-defrag-cycle-min", "1", int(1, 99)),
    Setting::new("active-defrag-cycle-us", "500", int(0, 100_000)),
    Setting::new("active-defrag-ignore-bytes", "104857600", memory(1)),
    Setting::new("active-defrag-max-scan-fields", "1000", int(1, i64::MAX)),
    Setting::new("active-defrag-threshold-lower", "10", int(0, 1000)),
    Setting::new("active-defrag-threshold-upper", "100", int(0, 1000)),
    Setting::new("active-expire-effort", "1", int(1, 10)),
    Setting::new(
        "activedefrag",
        "no",
        Kind::Only(&Kind::Bool, "memory is not defragmented"),
    ),
    Setting::new("activerehashing", "yes", Kind::Bool),
    Setting::new("always-show-logo", "no", Kind::Bool).fixed(),
    Setting::new("aof-disable-auto-gc", "no", Kind::Bool).hidden(),
    Setting::new("aof-load-truncated", "yes", Kind::Bool),
    Setting::new("aof-rewrite-cpulist", "", NO_CPU_LIST)
        .alias("aof_rewrite_cpulist")
        .fixed(),
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
    Setting::new("bgsave-cpulist", "", NO_CPU_LIST)
        .alias("bgsave_cpulist")
        .fixed(),
    Setting::new("bind", "127.0.0.1", Kind::Text).fixed(),
    Setting::new("bind-source-addr", "", Kind::Text),
    Setting::new("bio-cpulist", "", NO_CPU_LIST)
        .alias("bio_cpulist")
        .fixed(),
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
    Setting::new("cluster-announce-client-ipv4", "", Kind::Special(ipv4)),
    Setting::new("cluster-announce-client-ipv6", "", Kind::Special(ipv6)),
    Setting::new("cluster-announce-client-port", "0", PORT),
    Setting::new("cluster-announce-client-tls-port", "0", PORT),
    Setting::new("cluster-announce-hostname", "", Kind::Text),
    Setting::new("cluster-announce-human-nodename", "", Kind::Text),
    Setting::new("cluster-announce-ip", "", Kind::Text),
    Setting::new("cluster-announce-port", "0", PORT),
    Setting::new("cluster-announce-tls-port", "0", PORT),
    Setting::new("cluster-blacklist-ttl", "60", int(i64::MIN, i64::MAX)),
    Setting::new("cluster-config-file", "nodes.conf", Kind::Text).fixed(),
    Setting::new(
        "cluster-config-save-behavior",
        "sync",
        Kind::Choice(&["sync", "best-effort"]),
    ),
    Setting::new("cluster-databases", "1", POSITIVE).fixed(),
    Setting::new("cluster-enabled", "no", Kind::Bool).fixed(),
    Setting::new("cluster-link-sendbuf-limit", "0", memory(0)),
    Setting::new("cluster-manual-failover-timeout", "5000", POSITIVE),
    Setting::new("cluster-message-gossip-perc", "10", int(1, 100)).hidden(),
    Setting::new("cluster-migration-barrier", "1", NATURAL),
    Setting::new("cluster-node-timeout", "15000", SIZE),
    Setting::new("cluster-ping-interval", "0", SIZE).hidden(),
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
    Setting::new("cluster-slot-migration-log-max-len", "1000", SIZE),
    Setting::new(
        "cluster-slot-stats-enabled",
        "no",
        Kind::Only(&Kind::Bool, "of a slot only its keys are counted"),
    ),
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
        Kind::Only(
            &Kind::Bool,
            "the server stays in the foreground; let a supervisor start it",
        ),
    )
    .fixed(),
    Setting::new("databases", "16", POSITIVE).fixed(),
    Setting::new("dbfilename", "dump.rdb", Kind::Text).protected(),
    Setting::new("debug-context", "", Kind::Text).hidden(),
    Setting::new("dir", "", Kind::Text).protected(),
    Setting::new("disable-thp", "yes", Kind::Bool).fixed(),
    Setting::new("dual-channel-replication-enabled", "no", Kind::Bool),
    Setting::new(
        "enable-debug-assert",
        "no",
        Kind::Only(&Kind::Bool, "there is no DEBUG ASSERT"),
    )
    .fixed()
    .hidden(),
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
    Setting::new(
        "hash-seed",
        "",
        Kind::Only(&Kind::Text, "no order depends on a seed"),
    )
    .fixed(),
    Setting::new("hide-user-data-from-log", "yes", Kind::Bool),
    Setting::new("hll-sparse-max-bytes", "3000", memory(0)),
    Setting::new("hz", "10", NATURAL),
    Setting::new("ignore-warnings", "", Kind::Text),
    Setting::new(
        "import-mode",
        "no",
        Kind::Only(&Kind::Bool, "there is nobody to import from"),
    ),
    Setting::new("io-threads", "1", int(1, 256)).fixed(),
    Setting::new("io-threads-always-active", "no", Kind::Bool).hidden(),
    Setting::new("jemalloc-bg-thread", "yes", Kind::Bool),
    Setting::new("key-load-delay", "0", int(i32::MIN as i64, i32::MAX as i64)).hidden(),
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
        Kind::Only(&Kind::Text, "texts are ordered by their bytes"),
    ),
    Setting::new(
        "log-format",
        "legacy",
        Kind::Only(
            &Kind::Choice(&["legacy", "logfmt", "json"]),
            "the log has one format",
        ),
    ),
    Setting::new(
        "log-timestamp-format",
        "legacy",
        Kind::Only(
            &Kind::Choice(&["legacy", "iso8601", "milliseconds"]),
            "the log has one format",
        ),
    ),
    Setting::new("logfile", "", Kind::Text).fixed(),
    Setting::new(
        "loglevel",
        "notice",
        Kind::Choice(&["debug", "verbose", "notice", "warning", "nothing"]),
    ),
    Setting::new(
        "lua-enable-deprecated-api",
        "no",
        Kind::Only(&Kind::Bool, "scripts stay in their sandbox"),
    )
    .protected()
    .hidden(),
    Setting::new(
        "lua-enable-insecure-api",
        "no",
        Kind::Only(&Kind::Bool, "scripts stay in their sandbox"),
    )
    .protected()
    .hidden(),
    Setting::new("max-new-connections-per-cycle", "10", int(1, 1000)),
    Setting::new("max-new-tls-connections-per-cycle", "1", int(1, 1000)),
    Setting::new("maxclients", "10000", int(1, u32::MAX as i64)),
    Setting::new("maxmemory", "0", memory(0)),
    Setting::new(
        "maxmemory-clients",
        "0",
        Kind::Only(
            &Kind::Special(memory_or_percent),
            "clients are bound by client-output-buffer-limit",
        ),
    ),
    Setting::new("maxmemory-eviction-tenacity", "10", int(0, 100)),
    Setting::new("maxmemory-policy", "noeviction", POLICIES),
    Setting::new("maxmemory-samples", "5", int(1, 64)),
    Setting::new("min-io-threads-avoid-copy-reply", "7", NATURAL).hidden(),
    Setting::new("min-replicas-max-lag", "10", NATURAL).alias("min-slaves-max-lag"),
    Setting::new("min-replicas-to-write", "0", NATURAL).alias("min-slaves-to-write"),
    Setting::new("min-string-size-avoid-copy-reply", "16384", NATURAL).hidden(),
    Setting::new(
        "min-string-size-avoid-copy-reply-threaded",
        "65536",
        NATURAL,
    )
    .hidden(),
    Setting::new(
        "mptcp",
        "no",
        Kind::Only(&Kind::Bool, "sockets take one path"),
    )
    .fixed(),
    Setting::new("no-appendfsync-on-rewrite", "no", Kind::Bool),
    Setting::new("notify-keyspace-events", "", Kind::Special(events)),
    Setting::new(
        "oom-score-adj",
        "no",
        Kind::Only(
            &Kind::Choice(&["no", "yes", "relative", "absolute"]),
            "the process's score is left as it is",
        ),
    ),
    Setting::new(
        "oom-score-adj-values",
        "0 200 800",
        Kind::Special(oom_scores),
    ),
    Setting::new("pidfile", "", Kind::Text).fixed(),
    Setting::new("port", "6379", PORT).fixed(),
    Setting::new("prefetch-batch-max-size", "16", int(0, 128)),
    Setting::new("primaryauth", "", Kind::Text).alias("masterauth"),
    Setting::new("primaryuser", "", Kind::Text).alias("masteruser"),
    Setting::new(
        "proc-title-template",
        "{title} {listen-addr} {server-mode}",
        Kind::Special(process_title),
    ),
    Setting::new(
        "propagation-error-behavior",
        "ignore",
        Kind::Choice(&["ignore", "panic", "panic-on-replicas"]),
    ),
    Setting::new("protected-mode", "yes", Kind::Bool),
    Setting::new("proto-max-bulk-len", "536870912", memory(1 << 20)),
    Setting::new("rdb-del-sync-files", "no", Kind::Bool),
    Setting::new(
        "rdb-key-save-delay",
        "0",
        int(i32::MIN as i64, i32::MAX as i64),
    )
    .hidden(),
    Setting::new("rdb-save-incremental-fsync", "yes", Kind::Bool),
    Setting::new(
        "rdb-version-check",
        "strict",
        Kind::Choice(&["strict", "relaxed"]),
    ),
    Setting::new("rdbchecksum", "yes", Kind::Bool).fixed(),
    Setting::new("rdbcompression", "yes", Kind::Bool),
    Setting::new("rdma-bind", "", Kind::Special(rdma_bind)),
    Setting::new("rdma-completion-vector", "-1", int(-1, i32::MAX as i64)).fixed(),
    Setting::new("rdma-port", "0", Kind::Only(&PORT, "RDMA is not served")),
    Setting::new("rdma-rx-size", "1048576", int(64 << 10, 16 << 20)).fixed(),
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
    Setting::new("repl-mptcp", "no", Kind::Bool).fixed(),
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
    Setting::new("server-cpulist", "", NO_CPU_LIST)
        .alias("server_cpulist")
        .fixed(),
    Setting::new("set-max-intset-entries", "512", SIZE),
    Setting::new("set-max-listpack-entries", "128", SIZE),
    Setting::new("set-max-listpack-value", "64", SIZE),
    Setting::new("set-proc-title", "yes", Kind::Bool).fixed(),
    Setting::new("shutdown-on-sigint", "default", ON_SIGNAL),
    Setting::new("shutdown-on-sigterm", "default", ON_SIGNAL),
    Setting::new("shutdown-timeout", "10", NATURAL),
    Setting::new(
        "slot-migration-max-failover-repl-bytes",
        "0",
        Kind::Special(bytes_or_any),
    ),
    Setting::new(
        "socket-mark-id",
        "0",
        Kind::Only(&int(0, u32::MAX as i64), "sockets are not marked"),
    )
    .fixed(),
    Setting::new("stop-writes-on-bgsave-error", "yes", Kind::Bool),
    Setting::new("stream-node-max-bytes", "4096", memory(0)),
    Setting::new("stream-node-max-entries", "100", SIZE),
    Setting::new(
        "supervised",
        "no",
        Kind::Only(
            &Kind::Choice(&["upstart", "systemd", "auto", "no"]),
            "no supervisor is told of the start",
        ),
    )
    .fixed(),
    Setting::new(
        "syslog-enabled",
        "no",
        Kind::Only(&Kind::Bool, "the log goes to standard error or a file"),
    )
    .fixed(),
    Setting::new(
        "syslog-facility",
        "local0",
        Kind::Choice(&[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ]),
    )
    .fixed(),
    Setting::new("syslog-ident", "valkey", Kind::Text).fixed(),
    Setting::new("tcp-backlog", "511", POSITIVE).fixed(),
    Setting::new("tcp-keepalive", "300", NATURAL),
    Setting::new("timeout", "0", NATURAL),
    Setting::new(
        "tls-auth-clients",
        "yes",
        Kind::Choice(&["no", "yes", "optional"]),
    ),
    Setting::new(
        "tls-auth-clients-user",
        "off",
        Kind::Choice(&["CN", "URI", "off"]),
    ),
    Setting::new("tls-auto-reload-interval", "0", NATURAL),
    Setting::new("tls-ca-cert-dir", "", Kind::Text),
    Setting::new("tls-ca-cert-file", "", Kind::Text),
    Setting::new("tls-cert-file", "", Kind::Text),
    Setting::new("tls-ciphers", "", Kind::Text),
    Setting::new("tls-ciphersuites", "", Kind::Text),
    Setting::new("tls-client-cert-file", "", Kind::Text),
    Setting::new("tls-client-key-file", "", Kind::Text),
    Setting::new("tls-client-key-file-pass", "", Kind::Text),
    Setting::new("tls-cluster", "no", Kind::Bool),
    Setting::new("tls-dh-params-file", "", Kind::Text),
    Setting::new("tls-key-file", "", Kind::Text),
    Setting::new("tls-key-file-pass", "", Kind::Text),
    Setting::new("tls-port", "0", NO_TLS).fixed(),
    Setting::new("tls-prefer-server-ciphers", "no", Kind::Bool),
    Setting::new("tls-protocols", "", Kind::Text),
    Setting::new("tls-replication", "no", Kind::Bool),
    Setting::new("tls-session-cache-size", "20480", NATURAL),
    Setting::new("tls-session-cache-timeout", "300", NATURAL),
    Setting::new("tls-session-caching", "yes", Kind::Bool),
    Setting::new("tracking-table-max-keys", "1000000", SIZE),
    Setting::new("unixsocket", "", Kind::Text).fixed(),
    Setting::new(
        "unixsocketgroup",
        "",
        Kind::Only(&Kind::Text, "the socket's group is left as it is"),
    )
    .fixed(),
    Setting::new("unixsocketperm", "0", Kind::Octal).fixed(),
    Setting::new("zset-max-listpack-entries", "128", SIZE).alias("zset-max-ziplist-entries"),
    Setting::new("zset-max-listpack-value", "64", memory(0)).alias("zset-max-ziplist-value"),
];

/// What older versions knew, and Valkey still lets pass in a file or at the start, without effect.
pub const RETIRED: &[&str] = &[
    "dynamic-hz",
    "events-per-io-thread",
    "io-threads-do-reads",
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
    "sanitize-dump-payload",
];
