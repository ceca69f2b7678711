//! What the fuzz targets need of the inside. It is no part of the crate's interface.

use crate::{
    command::scripting::Killer,
    rdb,
    resp::{Decoder, Limits},
    server::Server,
};

pub use crate::{
    glob::{matches, matches_any_case},
    number::{DoubleBuffer, parse_decimal, parse_f64, parse_i64, parse_u64},
    resp::split_words,
};

/// The requests of one client, from its bytes as they come in.
pub struct Requests {
    decoder: Decoder,
    buffer: Vec<u8>,
    limits: Limits,
}

impl Requests {
    pub fn new(bulk_len: i64, authenticated: bool) -> Requests {
        Requests {
            decoder: Decoder::default(),
            buffer: Vec::new(),
            limits: Limits {
                bulk_len,
                authenticated,
            },
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The arguments of the next request, once it is whole, or what is wrong with it.
    pub fn next_request(&mut self) -> Result<Option<Vec<Vec<u8>>>, Vec<u8>> {
        let decoded = self.decoder.decode(&self.buffer, self.limits);
        let Some(len) = decoded.map_err(|error| error.0)? else {
            return Ok(None);
        };
        let args: Vec<Vec<u8>> = {
            let args = self.decoder.args(&self.buffer);
            args.iter().map(|arg| arg.to_vec()).collect()
        };
        self.decoder.next();
        self.buffer.drain(..len);
        Ok(Some(args))
    }
}

/// Appends to the content of a payload what DUMP does: the version and the checksum.
pub fn seal(content: Vec<u8>) -> Vec<u8> {
    rdb::seal_bytes(content)
}

/// Limits what each of a server's Lua states may occupy, in bytes.
pub fn limit_script_memory(server: &Server, bytes: usize) {
    server.shared.lock().scripting.set_memory_limit(bytes);
}

/// What ends the script that runs at the time, from any thread.
pub fn script_ender(server: &Server) -> impl Fn() + Send + 'static {
    let control = server.shared.script.clone();
    move || {
        let _ = control.kill(Killer::Shutdown);
    }
}
