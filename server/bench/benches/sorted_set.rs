//! Sorted sets, packed (100 members) and as a tree with a table (100,000).

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group};
use khoa_server::bench::Scores;
use khoa_server_bench::{names, shuffled};

fn sorted_set(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sorted set");
    for count in [100, 100_000] {
        let names = names(count);
        let mut scores = Scores::default();
        for (name, place) in names.iter().zip(shuffled(count)) {
            scores.add(name, place as f64);
        }
        let mut places = shuffled(count);
        let mut place = || places.next().unwrap_or(0);
        group.bench_function(BenchmarkId::new("new score", count), |bencher| {
            bencher.iter(|| scores.add(black_box(&names[place()]), place() as f64));
        });
        group.bench_function(BenchmarkId::new("remove and add", count), |bencher| {
            bencher.iter(|| {
                let place = place();
                assert!(scores.remove(black_box(&names[place])));
                scores.add(&names[place], place as f64);
            });
        });
        group.bench_function(BenchmarkId::new("rank", count), |bencher| {
            bencher.iter(|| scores.rank(black_box(&names[place()])));
        });
        group.bench_function(BenchmarkId::new("range of 10", count), |bencher| {
            bencher.iter(|| scores.range(black_box(place()), 10));
        });
        group.bench_function(BenchmarkId::new("count between scores", count), |bencher| {
            bencher.iter(|| scores.count(black_box(10.0), place() as f64));
        });
    }
    group.finish();
}

criterion_group!(benches, sorted_set);
