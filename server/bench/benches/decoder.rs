//! Decoding what arrives: one request, a pipeline, many arguments, a large one.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group};
use khoa_server::bench::decode;
use khoa_server_bench::{TOKEN, names, request};

fn decoder(criterion: &mut Criterion) {
    let take = request(&[b"SET", b"lock:resource:7", TOKEN, b"NX", b"PX", b"30000"]);
    let members = names(1000);
    let mut many: Vec<&[u8]> = vec![b"SADD", b"set"];
    many.extend(members.iter().map(Vec::as_slice));
    let inputs = [
        ("one SET NX PX", take.clone()),
        ("a pipeline of 16", take.repeat(16)),
        ("inline", b"PING\r\n".to_vec()),
        ("1,002 arguments", request(&many)),
        (
            "a value of 64 KiB",
            request(&[b"SET", b"key", &[b'x'; 65536]]),
        ),
    ];
    let mut group = criterion.benchmark_group("decoder");
    for (name, input) in inputs {
        group.throughput(Throughput::Bytes(input.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| decode(black_box(&input))));
    }
    group.finish();
}

criterion_group!(benches, decoder);
