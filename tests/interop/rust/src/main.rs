//! Runs real Rust clients, with their default options, against the server at HOST PORT.

mod check;
mod fred_client;
mod redis_rs;
mod rslock_client;

use check::{Address, Scenario};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, library, host, port, key] = &arguments[..]
        && verb == "contend"
    {
        let address = Address::new(host, port);
        let ended = match library.as_str() {
            "redis-rs" => redis_rs::contend(&address, key).await,
            _ => rslock_client::contend(&address, key).await,
        };
        return ended.expect("a contending process fails loudly");
    }
    let address = Address::of_arguments(&arguments);
    println!("# Rust clients against {}:{}", address.host, address.port);
    let groups: [Vec<Scenario>; 3] = [
        redis_rs::scenarios(),
        rslock_client::scenarios(),
        fred_client::scenarios(),
    ];
    let mut failed = 0;
    for scenario in groups.into_iter().flatten() {
        failed += check::play(scenario, &address).await;
    }
    if failed > 0 {
        eprintln!("{failed} checks of the Rust clients failed");
        std::process::exit(1);
    }
}
