//! Turns arguments into a configuration, starts a server, waits for a signal.
fn main() -> std::io::Result<()> {
    let port = std::env::args()
        .nth(2)
        .and_then(|port| port.parse().ok())
        .unwrap_or(6379);
    let _server = khoa_server::server::Server::builder().port(port).start()?;
    loop {
        std::thread::park();
    }
}
