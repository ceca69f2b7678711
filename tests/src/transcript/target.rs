//! Servers to play a transcript on: a real one by address, or one inside this process.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use khoa_server::Server;

use super::pattern;
use super::wire::{Body, Client, Reply};

/// A server on which a transcript can be played.
pub trait Target {
    /// Where it listens.
    fn addr(&self) -> SocketAddr;
    /// Moves its clock, or waits.
    fn advance(&self, time: Duration);
}

/// A setting's name and value.
pub type Setting = (String, String);

/// A real server, whose clock moves by waiting. Dropping it puts its settings back.
#[derive(Debug)]
pub struct Real {
    addr: SocketAddr,
    control: Client,
    before: Vec<Setting>,
}

impl Real {
    /// Empties the server at `addr` and makes the settings.
    pub fn prepare(addr: SocketAddr, settings: &[Setting]) -> Result<Self, String> {
        let mut control = Client::connect(addr)?;
        for words in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"]] {
            control.call(words)?;
        }
        let mut real = Self {
            addr,
            control,
            before: Vec::new(),
        };
        for (name, value) in settings {
            real.set(name, value)?;
        }
        Ok(real)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let reply = self.control.call(&["CONFIG", "GET", name])?;
        if let Body::Many(many) = reply.body
            && let Some(Reply {
                body: Body::Text(old),
                ..
            }) = many.get(1)
        {
            if old == value.as_bytes() {
                return Ok(());
            }
            let old = String::from_utf8_lossy(old).into_owned();
            self.before.push((name.to_owned(), old));
        }
        let reply = self.control.call(&["CONFIG", "SET", name, value])?;
        if reply.tag == b'-' {
            return Err(format!(
                "@config {name}: {}",
                pattern::write(&reply).concat()
            ));
        }
        Ok(())
    }
}

impl Target for Real {
    fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn advance(&self, time: Duration) {
        sleep(time);
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for (name, value) in self.before.drain(..) {
            // A server that is gone has no settings to restore.
            let _ = self.control.call(&["CONFIG", "SET", &name, &value]);
        }
    }
}

/// A server inside this process, whose clock stands still unless a file moves it.
pub struct Embedded(Server);

impl Embedded {
    /// Starts one with these settings.
    pub fn start(settings: &[Setting]) -> Result<Self, String> {
        let mut builder = Server::builder().frozen();
        for (name, value) in settings {
            builder = builder.try_setting(name, value)?;
        }
        builder.start().map(Self).map_err(|error| error.to_string())
    }
}

impl Target for Embedded {
    fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    fn advance(&self, time: Duration) {
        self.0.advance(time);
    }
}
