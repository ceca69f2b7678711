//! What stands behind features: the blocking API and the in-memory backend.

#[cfg(feature = "blocking")]
mod blocking {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use khoa::blocking::Manager;
    use khoa::{Error, Released};
    use khoa_server::Server;

    #[test]
    fn threads_hold_a_lock_one_at_a_time() {
        let server = Server::start().unwrap();
        let manager = Manager::open(server.url()).unwrap();
        let (inside, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let guard = manager.lock("a").acquire().unwrap();
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        peak.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        assert_eq!(guard.release().unwrap(), Released::Released);
                    }
                });
            }
        });
        assert_eq!(peak.into_inner(), 1);
    }

    #[test]
    fn a_dropped_guard_gives_the_lock_back_in_the_background() {
        let server = Server::start().unwrap();
        let manager = Manager::open(server.url()).unwrap();
        drop(manager.lock("a").acquire().unwrap());
        while server.db(0).exists("khoa:a") {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_runs_under_a_lease_and_any_other_part_can_be_waited_for() {
        let server = Server::start().unwrap();
        let manager = Manager::open(server.url()).unwrap();
        let lock = manager.hold(|m| m.semaphore("s", 2).ttl(Duration::from_secs(5)));
        let fence = lock.run(khoa::Lease::fencing_token).unwrap();
        assert!(fence > 0);
        let held = manager.wait(|m| async move { m.permits_held("s").await });
        assert_eq!(held.unwrap(), 0);
    }

    #[tokio::test]
    async fn blocking_a_thread_of_an_async_runtime_is_an_error_and_no_panic() {
        let server = Server::start().unwrap();
        // Its runtime may not be dropped here either, so this happens on a thread of its own.
        std::thread::scope(|scope| {
            let runtime = tokio::runtime::Handle::current();
            scope.spawn(move || {
                let manager = Manager::open(server.url()).unwrap();
                let _inside = runtime.enter();
                let error = manager.lock("a").acquire().unwrap_err();
                assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            });
        });
    }
}

#[cfg(feature = "memory")]
mod memory {
    use std::time::Duration;

    use khoa::memory::Memory;

    const TTL: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn every_kind_of_lock_works_without_a_socket() {
        let memory = Memory::start().unwrap();
        let manager = memory.manager().unwrap();
        let kinds = [
            manager.lock("a"),
            manager.semaphore("s", 1),
            manager.read_write("d").write(),
            manager.lock_all(["x", "y"]),
        ];
        for kind in kinds {
            let guard = kind.clone().ttl(TTL).acquire().await.unwrap();
            assert!(kind.try_acquire().await.unwrap().is_none());
            memory.advance(TTL + Duration::from_millis(1));
            assert!(guard.is_lost());
            kind.acquire().await.unwrap().release().await.unwrap();
        }
    }

    #[tokio::test]
    async fn waiters_are_woken_in_memory_too() {
        let memory = Memory::start().unwrap();
        let (first, second) = (memory.manager().unwrap(), memory.manager().unwrap());
        let guard = first.lock("a").ttl(TTL).acquire().await.unwrap();
        let waiter = tokio::spawn(async move { second.lock("a").acquire().await });
        while memory.server().run(["LLEN", "{khoa:a}:queue"]) != 1 {
            tokio::task::yield_now().await;
        }
        guard.release().await.unwrap();
        assert!(waiter.await.unwrap().is_ok());
    }
}

#[cfg(feature = "metrics")]
mod metrics {
    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };
    use std::sync::{Arc, Mutex};

    use crate::support::World;

    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<String>>>);

    impl Recorder for Names {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let labels = key.labels().map(|label| format!(" {}", label.value()));
            self.0
                .lock()
                .unwrap()
                .push(key.name().to_owned() + &labels.collect::<String>());
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            self.0.lock().unwrap().push(key.name().to_owned());
            Histogram::noop()
        }
    }

    #[test]
    fn a_hold_is_counted_and_timed() {
        let (world, names) = (World::start(), Names::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        metrics::with_local_recorder(&names, || {
            runtime.block_on(async {
                let guard = world.manager().lock("a").acquire().await.unwrap();
                guard.release().await.unwrap();
            });
        });
        let seen = names.0.lock().unwrap().clone();
        let wanted = [
            "khoa_acquire_total acquired",
            "khoa_wait_seconds",
            "khoa_release_total released",
            "khoa_hold_seconds",
        ];
        assert_eq!(seen, wanted);
    }
}
