//! TTLs, scripts, types and errors of the server (family G of the research file).

use std::time::Duration;

use khoa::{Error, MAX_TTL};
use khoa_server::Fault;

use crate::support::{MS, SECOND, World};

/// The first word of the server's error.
fn code_of(error: &Error) -> Option<&str> {
    match error {
        Error::Backend { source, .. } => source.code(),
        _ => None,
    }
}

// redis-py#370; python-redis-lock#99, #113; phpredis#640
#[tokio::test]
async fn a_ttl_reaches_the_server_in_milliseconds_rounded_up() {
    let world = World::start();
    let lock = world.manager().lock("a");
    for (ttl, millis) in [
        (5 * MS, 5),
        (Duration::from_micros(4001), 5),
        (1500 * MS, 1500),
    ] {
        let guard = lock.clone().ttl(ttl).acquire().await.unwrap();
        assert_eq!(world.ask::<i64>("PTTL khoa:a"), millis);
        guard.release().await.unwrap();
    }
    assert!(
        lock.clone()
            .ttl(MAX_TTL)
            .try_acquire()
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_lease_too_short_to_prove_anything_is_never_a_guard() {
    let world = World::start();
    let lock = world.manager().lock("a");
    for ttl in [Duration::from_nanos(1), MS, 2 * MS] {
        let error = lock.clone().ttl(ttl).try_acquire().await.unwrap_err();
        assert!(error.is_lost(), "{error}");
        world.until_clean().await;
    }
}

#[tokio::test]
async fn impossible_ttls_are_refused_before_anything_is_sent() {
    let world = World::start();
    let lock = world.manager().lock("a");
    for ttl in [
        Duration::ZERO,
        MAX_TTL + MS,
        Duration::from_millis(u64::MAX),
        Duration::MAX,
    ] {
        let error = lock.clone().ttl(ttl).acquire().await.unwrap_err();
        assert!(matches!(error, Error::InvalidTtl { .. }), "{error}");
    }
    assert_eq!(world.server().connections_received(), 0);
}

#[tokio::test]
async fn endless_waits_and_caps_do_not_overflow() {
    let world = World::start();
    let lock = world
        .manager()
        .lock("a")
        .max_wait(Duration::MAX)
        .max_hold(Duration::MAX);
    let guard = lock.auto_renew(true).acquire().await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

// redlock-rb#27, #148; symfony#59686
#[tokio::test]
async fn a_flushed_script_cache_is_no_obstacle() {
    let world = World::start();
    let lock = world.manager().lock("a");
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        let _: () = world.ask("SCRIPT FLUSH");
        guard.extend().await.unwrap();
        let _: () = world.ask("SCRIPT FLUSH");
        guard.release().await.unwrap();
        let _: () = world.ask("SCRIPT FLUSH");
    }
}

#[tokio::test]
async fn a_script_is_sent_as_text_once_and_by_digest_from_then_on() {
    let world = World::start();
    let lock = world.manager().lock("a");
    for _ in 0..5 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(world.server().calls_of("eval"), 2);
}

// node-redlock#38, #195
#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_not_a_held_lock() {
    let world = World::start();
    let _: i64 = world.ask("LPUSH khoa:a x");
    let error = world.manager().lock("a").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    let error = world.manager().lock("a").acquire().await.unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(world.ask::<i64>("LLEN khoa:a"), 1);
}

// node-redlock#11
#[tokio::test]
async fn errors_of_the_server_come_to_the_surface_whatever_was_asked() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(60 * SECOND);
    for code in ["MISCONF", "OOM", "READONLY", "LOADING", "BUSY", "NOAUTH"] {
        let guard = lock.acquire().await.unwrap();
        world.server().fail_with(&format!("{code} for a test"));
        let attempt = lock.try_acquire().await.unwrap_err();
        let extension = guard.extend().await.unwrap_err();
        assert_eq!(code_of(&attempt), Some(code));
        assert_eq!(code_of(&extension), Some(code));
        assert!(guard.is_valid());
        let release = world.drive(guard.release()).await.unwrap_err();
        assert_eq!(code_of(&release), Some(code));
        world.server().clear_faults();
        world.until_clean().await;
    }
}

#[tokio::test]
async fn a_wait_goes_on_through_passing_trouble_and_ends_at_lasting_one() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(60 * SECOND);
    for code in ["LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN"] {
        let fault = Fault::Error(format!("{code} for a test"));
        world.server().inject_on("EVALSHA", fault, 3);
        let guard = world.drive(lock.acquire()).await.unwrap();
        guard.release().await.unwrap();
    }
    for code in ["MISCONF", "OOM", "READONLY", "NOPERM"] {
        world.server().fail_with(&format!("{code} for a test"));
        let before = world.clock.clock().now();
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(code_of(&error), Some(code));
        assert_eq!(world.clock.clock().now(), before);
        world.server().clear_faults();
    }
}

#[tokio::test]
async fn a_name_may_be_any_bytes() {
    let world = World::start();
    let manager = world.manager();
    for name in [&b"\0\xff\r\n"[..], b" ", b"{", b"}", b"a{b}c", b"*"] {
        let guard = manager.lock(name).acquire().await.unwrap();
        assert!(manager.lock(name).try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_label_that_is_too_long_is_cut() {
    let world = World::start();
    let lock = world.manager().lock("a").label("x".repeat(1000));
    let _guard = lock.acquire().await.unwrap();
    let holder = world.manager().inspect("a").await.unwrap().unwrap();
    assert_eq!(holder.label.len(), khoa::MAX_LABEL_LEN);
}
