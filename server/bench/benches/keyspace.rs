//! A lock's life in the keyspace, among few and among many keys, and a million deadlines at once.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group};
use khoa_server::bench::{Keys, START};
use khoa_server_bench::{TOKEN, names, shuffled};

const TTL: u64 = 30_000;

fn filled(names: &[Vec<u8>]) -> Keys {
    let mut keys = Keys::new();
    for (name, number) in names.iter().zip(0..) {
        assert!(keys.take(name, TOKEN, START + TTL + number % 1000));
    }
    keys
}

fn keyspace(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("keyspace");
    for count in [1_000, 1_000_000] {
        let names = names(count);
        let mut keys = filled(&names);
        let mut places = shuffled(count);
        let mut name = || &names[places.next().unwrap_or(0)];
        group.bench_function(BenchmarkId::new("read", count), |bencher| {
            bencher.iter(|| keys.read(black_box(name())));
        });
        group.bench_function(BenchmarkId::new("extend", count), |bencher| {
            bencher.iter(|| keys.extend(black_box(name()), START + 2 * TTL));
        });
        group.bench_function(BenchmarkId::new("release and take", count), |bencher| {
            bencher.iter(|| {
                let name = black_box(name());
                keys.release(name) && keys.take(name, TOKEN, START + TTL)
            });
        });
        group.bench_function(BenchmarkId::new("take what is held", count), |bencher| {
            bencher.iter(|| keys.take(black_box(name()), TOKEN, START + TTL));
        });
    }
    let names = names(10_000);
    group.bench_function("10,000 keys expire", |bencher| {
        bencher.iter_batched_ref(
            || filled(&names),
            |keys| assert_eq!(keys.advance_to(START + 2 * TTL), 0),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, keyspace);
