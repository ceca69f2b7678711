//! INFO: figures of the server, section by section.
//!
//! A section is a name, whether a plain INFO shows it, and a function that writes its lines.

use std::fmt::{Display, Write};

use crate::{
    engine::Engine,
    random::Random,
    session::Session,
    stats::{CommandStats, Stats},
};

/// The version of Redis whose behaviour clients may expect.
pub const REDIS_VERSION: &str = "7.2.4";
/// The version of this server.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What tells one run of a server from another.
pub struct Identity {
    pub run_id: String,
    pub replication_id: String,
}

impl Identity {
    pub fn new(random: &mut Random) -> Identity {
        Identity {
            run_id: hex_id(random),
            replication_id: hex_id(random),
        }
    }
}

/// Forty hexadecimal digits.
pub fn hex_id(random: &mut Random) -> String {
    let mut id = String::with_capacity(40);
    for _ in 0..5 {
        let _ = write!(id, "{:08x}", random.next_u64() as u32);
    }
    id
}

/// The text of the sections asked for; of the usual ones when none is named.
pub fn text(engine: &mut Engine, session: &Session, asked: &[&[u8]]) -> String {
    let mut report = Report {
        text: String::new(),
    };
    for section in SECTIONS {
        let chosen = if asked.is_empty() {
            section.usual
        } else {
            asked.iter().any(|name| section.is_meant_by(name))
        };
        if chosen {
            report.begin(section.title);
            (section.write)(&mut report, &mut Scope { engine, session });
        }
    }
    report.text
}

struct Section {
    title: &'static str,
    usual: bool,
    write: fn(&mut Report, &mut Scope<'_>),
}

impl Section {
    fn is_meant_by(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.title.as_bytes())
            || name.eq_ignore_ascii_case(b"all")
            || name.eq_ignore_ascii_case(b"everything")
            || self.usual && name.eq_ignore_ascii_case(b"default")
    }
}

/// What the figures are taken from: the session whose request runs is not in the engine.
struct Scope<'a> {
    engine: &'a mut Engine,
    session: &'a Session,
}

impl Scope<'_> {
    fn count(&self, test: impl Fn(&Session) -> bool) -> usize {
        let others = self.engine.sessions.iter();
        others.filter(|session| test(session)).count() + usize::from(test(self.session))
    }
}

const fn section(
    title: &'static str,
    usual: bool,
    write: fn(&mut Report, &mut Scope<'_>),
) -> Section {
    Section {
        title,
        usual,
        write,
    }
}

const SECTIONS: &[Section] = &[
    section("Server", true, server),
    section("Clients", true, clients),
    section("Memory", true, memory),
    section("Persistence", true, persistence),
    section("Stats", true, stats),
    section("Replication", true, replication),
    section("CPU", true, cpu),
    section("Modules", true, |_, _| {}),
    section("Commandstats", false, command_stats),
    section("Errorstats", true, error_stats),
    section("Latencystats", false, latency_stats),
    section("Cluster", true, cluster),
    section("Keyspace", true, keyspace),
];

/// The text as it grows.
struct Report {
    text: String,
}

impl Report {
    fn begin(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "" } else { "\r\n" };
        let _ = write!(self.text, "{gap}# {title}\r\n");
    }

    fn line(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// A size in bytes, and the same for human readers.
    fn size(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(format_args!("{name}_human"), human(bytes));
    }

    fn zeros(&mut self, names: &[&str]) {
        for name in names {
            self.line(name, 0);
        }
    }
}

/// A size with a binary unit, as the references round it.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.2}{}", UNITS[unit])
}

fn server(report: &mut Report, scope: &mut Scope<'_>) {
    let engine = &*scope.engine;
    let uptime = engine.keys.now().seconds() - engine.stats.started.seconds();
    report.line("redis_version", REDIS_VERSION);
    report.line("server_name", "khoa");
    report.line("khoa_version", VERSION);
    report.line("redis_git_sha1", "00000000");
    report.line("redis_git_dirty", 0);
    report.line("redis_build_id", "0");
    for name in ["server_mode", "redis_mode"] {
        report.line(name, mode(engine));
    }
    report.line("os", crate::machine::system_name());
    report.line("arch_bits", usize::BITS);
    report.line("monotonic_clock", "std");
    report.line("multiplexing_api", "tokio");
    report.line("process_id", std::process::id());
    report.line("process_supervised", "no");
    report.line("run_id", &engine.identity.run_id);
    report.line("tcp_port", engine.config.get("port"));
    report.line("server_time_usec", engine.keys.now().micros());
    report.line("uptime_in_seconds", uptime);
    report.line("uptime_in_days", uptime / 86_400);
    report.line("hz", engine.config.get("hz"));
    report.line("configured_hz", engine.config.get("hz"));
    report.line("lru_clock", engine.keys.now().seconds() & 0x00FF_FFFF);
    let executable = std::env::current_exe().unwrap_or_default();
    report.line("executable", executable.display());
    report.line("config_file", &engine.config.file);
    report.line("io_threads_active", 0);
    report.line("availability_zone", engine.config.get("availability-zone"));
    let (bind, port) = (engine.config.get("bind"), engine.config.get("port"));
    report.line(
        "listener0",
        format_args!("name=tcp,bind={bind},port={port}"),
    );
}

/// `cluster` or `standalone`.
pub fn mode(engine: &Engine) -> &'static str {
    if engine.config.is_on("cluster-enabled") {
        "cluster"
    } else {
        "standalone"
    }
}

fn clients(report: &mut Report, scope: &mut Scope<'_>) {
    report.line("connected_clients", scope.engine.sessions.len());
    report.line("cluster_connections", 0);
    report.line("maxclients", scope.engine.config.get("maxclients"));
    report.line("client_recent_max_input_buffer", 0);
    report.line("client_recent_max_output_buffer", 0);
    report.line("blocked_clients", scope.engine.waiters.len());
    report.line("tracking_clients", scope.engine.tracking.clients());
    let subscribers = scope.count(|session| session.subscriptions() > 0);
    report.line("pubsub_clients", subscribers);
    let watching = scope.count(|session| !session.watched.is_empty());
    report.line("watching_clients", watching);
    report.line("clients_in_timeout_table", scope.engine.waiters.timed());
    report.line("total_watched_keys", scope.engine.watched_keys());
    report.line("total_blocking_keys", scope.engine.waiters.keys());
    report.line("total_blocking_keys_on_nokey", 0);
    let now = scope.engine.keys.now();
    let (reason, actions, left) = match scope.engine.pause {
        Some(pause) => (
            "client_pause",
            if pause.writes_only { "write" } else { "all" },
            pause.until.millis().saturating_sub(now.millis()),
        ),
        None => ("none", "none", 0),
    };
    report.line("paused_reason", reason);
    report.line("paused_actions", actions);
    report.line("paused_timeout_milliseconds", left);
}

fn memory(report: &mut Report, scope: &mut Scope<'_>) {
    let memory = crate::machine::memory();
    report.size("used_memory", scope.engine.used_memory() as u64);
    report.size("used_memory_rss", memory.resident);
    report.size("used_memory_peak", memory.peak);
    let share = memory.resident as f64 * 100.0 / memory.peak.max(1) as f64;
    report.line("used_memory_peak_perc", format_args!("{share:.2}%"));
    report.size("total_system_memory", memory.machine);
    scripts(report, scope);
    let limit = scope.engine.config.int("maxmemory").max(0) as u64;
    report.size("maxmemory", limit);
    let policy = scope.engine.config.get("maxmemory-policy");
    report.line("maxmemory_policy", policy);
    let ratio = memory.resident as f64 / scope.engine.used_memory().max(1) as f64;
    report.line("mem_fragmentation_ratio", format_args!("{ratio:.2}"));
    report.zeros(&[
        "mem_fragmentation_bytes",
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
        "mem_cluster_links",
        "mem_aof_buffer",
    ]);
    report.line("mem_allocator", "system");
    report.zeros(&["active_defrag_running"]);
}

/// What the cached scripts and the libraries are, and what their Lua states occupy.
fn scripts(report: &mut Report, scope: &mut Scope<'_>) {
    let scripting = &scope.engine.scripting;
    let (eval, calls) = scripting.used_memory();
    report.size("used_memory_lua", eval as u64);
    report.line("used_memory_vm_eval", eval);
    report.line("number_of_cached_scripts", scripting.cached());
    let (libraries, functions) = scripting.control.libraries();
    report.line("number_of_functions", functions);
    report.line("number_of_libraries", libraries);
    report.line("used_memory_vm_functions", calls);
    report.size("used_memory_vm_total", (eval + calls) as u64);
}

fn persistence(report: &mut Report, scope: &mut Scope<'_>) {
    report.zeros(&["loading", "async_loading"]);
    let changes = scope.engine.keys.dirty - scope.engine.saved.dirty;
    report.line("rdb_changes_since_last_save", changes);
    report.line("rdb_bgsave_in_progress", 0);
    report.line("rdb_last_save_time", scope.engine.saved.at.seconds());
    report.line("rdb_last_bgsave_status", "ok");
    report.line("rdb_last_bgsave_time_sec", -1);
    report.line("rdb_current_bgsave_time_sec", -1);
    report.line("rdb_saves", scope.engine.saved.times);
    report.zeros(&[
        "rdb_last_cow_size",
        "rdb_last_load_keys_expired",
        "rdb_last_load_keys_loaded",
        "aof_enabled",
        "aof_rewrite_in_progress",
        "aof_rewrite_scheduled",
    ]);
    report.line("aof_last_rewrite_time_sec", -1);
    report.line("aof_current_rewrite_time_sec", -1);
    report.line("aof_last_bgrewrite_status", "ok");
    report.line("aof_last_write_status", "ok");
    report.zeros(&["aof_last_cow_size", "module_fork_in_progress"]);
}

fn stats(report: &mut Report, scope: &mut Scope<'_>) {
    let engine = &*scope.engine;
    let now = engine.keys.now().seconds();
    let Stats {
        commands,
        bytes_in,
        bytes_out,
        ..
    } = &engine.stats;
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    report.line("total_connections_received", engine.stats.connections);
    report.line("total_commands_processed", commands.total());
    report.line("instantaneous_ops_per_sec", commands.per_second(now));
    report.line("total_net_input_bytes", bytes_in.total());
    report.line("total_net_output_bytes", bytes_out.total());
    report.line("total_net_repl_input_bytes", 0);
    report.line("total_net_repl_output_bytes", 0);
    let input = kilobytes(bytes_in.per_second(now));
    report.line("instantaneous_input_kbps", input);
    let output = kilobytes(bytes_out.per_second(now));
    report.line("instantaneous_output_kbps", output);
    report.line("rejected_connections", engine.stats.rejected_connections);
    report.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    report.line("expired_keys", engine.keys.stats.expired);
    report.line("expired_fields", engine.keys.stats.expired_parts);
    report.line("expired_stale_perc", "0.00");
    report.zeros(&["expired_time_cap_reached_count"]);
    report.line("evicted_keys", engine.keys.stats.evicted);
    report.zeros(&["evicted_clients"]);
    report.line("evicted_scripts", engine.scripting.evicted());
    report.line("keyspace_hits", engine.keys.stats.hits);
    report.line("keyspace_misses", engine.keys.stats.misses);
    report.line("pubsub_channels", engine.pubsub.channels.len());
    report.line("pubsub_patterns", engine.pubsub.patterns.len());
    report.line("pubsubshard_channels", engine.pubsub.shard_channels.len());
    report.zeros(&[
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
    ]);
    report.line("tracking_total_keys", engine.tracking.keys());
    report.line("tracking_total_items", engine.tracking.items());
    report.line("tracking_total_prefixes", engine.tracking.prefix_count());
    report.zeros(&["unexpected_error_replies"]);
    report.line("total_error_replies", engine.stats.errors);
    report.zeros(&["dump_payload_sanitizations"]);
    let dropped = engine.stats.query_limit_disconnections;
    report.line("client_query_buffer_limit_disconnections", dropped);
    let dropped = engine.stats.output_limit_disconnections;
    report.line("client_output_buffer_limit_disconnections", dropped);
    let denied = |reason| engine.stats.denied.get(reason).copied().unwrap_or(0);
    report.line("acl_access_denied_auth", denied("auth"));
    report.line("acl_access_denied_cmd", denied("command"));
    report.line("acl_access_denied_key", denied("key"));
    report.line("acl_access_denied_channel", denied("channel"));
    report.zeros(&["acl_access_denied_tls_cert"]);
    report.line("acl_access_denied_db", denied("database"));
}

fn replication(report: &mut Report, scope: &mut Scope<'_>) {
    report.line("role", "master");
    report.line("connected_slaves", 0);
    report.line("master_failover_state", "no-failover");
    report.line("master_replid", &scope.engine.identity.replication_id);
    report.line("master_replid2", "0".repeat(40));
    report.line("master_repl_offset", 0);
    report.line("second_repl_offset", -1);
    report.line("repl_backlog_active", 0);
    let backlog = scope.engine.config.get("repl-backlog-size");
    report.line("repl_backlog_size", backlog);
    report.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

fn cpu(report: &mut Report, _scope: &mut Scope<'_>) {
    let used = crate::machine::cpu();
    let seconds = |time: std::time::Duration| format!("{:.6}", time.as_secs_f64());
    report.line("used_cpu_sys", seconds(used.system));
    report.line("used_cpu_user", seconds(used.user));
    report.line("used_cpu_sys_children", seconds(used.children_system));
    report.line("used_cpu_user_children", seconds(used.children_user));
}

fn command_stats(report: &mut Report, scope: &mut Scope<'_>) {
    for (name, stats) in by_name(scope) {
        let CommandStats {
            calls,
            time,
            rejected,
            failed,
            ..
        } = stats;
        let usec = time.as_micros();
        let each = if *calls == 0 {
            0.0
        } else {
            time.as_secs_f64() * 1e6 / *calls as f64
        };
        report.line(
            format_args!("cmdstat_{name}"),
            format_args!(
                "calls={calls},usec={usec},usec_per_call={each:.2},\
                rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

fn by_name<'a>(scope: &'a Scope<'_>) -> Vec<(&'static str, &'a CommandStats)> {
    let mut rows: Vec<_> = scope
        .engine
        .stats
        .by_command()
        .map(|(command, stats)| (command.name, stats))
        .collect();
    rows.sort_by_key(|&(name, _)| name);
    rows
}

fn error_stats(report: &mut Report, scope: &mut Scope<'_>) {
    for (code, count) in scope.engine.stats.by_error() {
        let code = String::from_utf8_lossy(code);
        report.line(
            format_args!("errorstat_{code}"),
            format_args!("count={count}"),
        );
    }
}

fn latency_stats(report: &mut Report, scope: &mut Scope<'_>) {
    let percentiles: Vec<f64> = scope
        .engine
        .config
        .get("latency-tracking-info-percentiles")
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    for (name, stats) in by_name(scope) {
        if stats.latency.is_empty() {
            continue;
        }
        let shown: Vec<String> = percentiles
            .iter()
            .map(|&percentile| {
                let nanos = stats.latency.at_percentile(percentile);
                format!("p{percentile}={:.3}", nanos as f64 / 1000.0)
            })
            .collect();
        report.line(
            format_args!("latency_percentiles_usec_{name}"),
            shown.join(","),
        );
    }
}

fn cluster(report: &mut Report, scope: &mut Scope<'_>) {
    let enabled = scope.engine.config.is_on("cluster-enabled");
    report.line("cluster_enabled", u8::from(enabled));
}

fn keyspace(report: &mut Report, scope: &mut Scope<'_>) {
    let selected = scope.engine.keys.selected();
    for db in 0..scope.engine.keys.databases() {
        let (keys, expires) = scope.engine.keys.sizes(db);
        if keys > 0 {
            scope.engine.keys.select(db);
            let ttl = average_ttl(scope.engine, expires);
            let parts = scope.engine.keys.keys_with_parts(db);
            report.line(
                format_args!("db{db}"),
                format_args!(
                    "keys={keys},expires={expires},avg_ttl={ttl},keys_with_volatile_items={parts}"
                ),
            );
        }
    }
    scope.engine.keys.select(selected);
}

/// The mean time to live of the first keys that come, in milliseconds.
fn average_ttl(engine: &Engine, expires: usize) -> u64 {
    const SAMPLE: usize = 1000;
    if expires == 0 {
        return 0;
    }
    let now = engine.keys.now().millis();
    let (mut sum, mut count) = (0u128, 0u128);
    for entry in engine.keys.entries().take(SAMPLE) {
        if let Some(deadline) = entry.deadline() {
            sum += u128::from(deadline.saturating_sub(now));
            count += 1;
        }
    }
    (sum / count.max(1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_as_the_references_round_them() {
        for (bytes, shown) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_675_712, "1.60M"),
        ] {
            assert_eq!(human(bytes), shown);
        }
        assert_eq!(human(25_276_502_016), "23.54G");
    }
}
