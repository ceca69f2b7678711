//! Scripts through the engine, beside the same command without a script.

use std::hint::black_box;

use criterion::{Criterion, criterion_group};
use khoa_server::bench::Client;
use khoa_server_bench::{TOKEN, UNLOCK};

const KEY: &[u8] = b"lock:resource:7";
const TAKE: [&[u8]; 6] = [b"SET", KEY, TOKEN, b"NX", b"PX", b"30000"];
const CALLS: &[u8] = b"for i=1,1000 do redis.call('GET',KEYS[1]) end return 'done'";
const LOOP: &[u8] = b"local x=0 for i=1,10000 do x=(x+i*3)%7 end return x";

/// The script's hash, as a request gives it.
fn load(client: &mut Client, script: &[u8]) -> Vec<u8> {
    let reply = client.run(&[b"SCRIPT", b"LOAD", script]);
    assert!(reply.starts_with(b"$40\r\n"), "no hash");
    reply[5..45].to_vec()
}

fn scripting(criterion: &mut Criterion) {
    let mut client = Client::new().expect("a client of a new engine");
    let [unlock, calls, turns] = [UNLOCK, CALLS, LOOP].map(|script| load(&mut client, script));
    let mut group = criterion.benchmark_group("scripting");
    group.bench_function("take, no script", |bencher| {
        client.run(&[b"DEL", KEY]);
        bencher.iter(|| client.run(black_box(&TAKE)).len());
    });
    group.bench_function("take and unlock by EVALSHA", |bencher| {
        client.run(&[b"DEL", KEY]);
        bencher.iter(|| {
            assert_eq!(client.run(black_box(&TAKE)), b"+OK\r\n");
            assert_eq!(
                client.run(&[b"EVALSHA", &unlock, b"1", KEY, TOKEN]),
                b":1\r\n"
            );
        });
    });
    group.bench_function("take and unlock by EVAL", |bencher| {
        client.run(&[b"DEL", KEY]);
        bencher.iter(|| {
            assert_eq!(client.run(black_box(&TAKE)), b"+OK\r\n");
            assert_eq!(client.run(&[b"EVAL", UNLOCK, b"1", KEY, TOKEN]), b":1\r\n");
        });
    });
    group.bench_function("1,000 redis.call('GET')", |bencher| {
        bencher.iter(|| {
            client
                .run(black_box(&[b"EVALSHA", &calls, b"1", KEY]))
                .len()
        });
    });
    group.bench_function("10,000 turns of a loop", |bencher| {
        bencher.iter(|| client.run(black_box(&[b"EVALSHA", &turns, b"0"])).len());
    });
    group.finish();
}

criterion_group!(benches, scripting);
