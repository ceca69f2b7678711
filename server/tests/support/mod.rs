//! What the tests of a server over a socket have in common.

use std::{net::TcpStream, time::Duration};

use khoa_server::Server;

/// Only a broken test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}
