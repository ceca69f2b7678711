//! What makes the load: redis-benchmark, and connections of our own where it cannot.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Instant,
};

use crate::{Outcome, program::Running, rounds::Sample};

/// As many connections as redis-benchmark opens by default.
pub const CLIENTS: usize = 50;
/// The usual number of keys, fields or members of which one is taken at random.
pub const KEYS: u32 = 100_000;

/// How much redis-benchmark does.
pub struct Volume {
    /// Of how many keys, fields or members it takes one at random.
    pub keys: u32,
    pub pipeline: u32,
    pub operations: u32,
}

/// Runs redis-benchmark with these arguments behind its usual ones.
pub fn benchmark(
    tool: &Path,
    server: &Running,
    args: &[String],
    Volume {
        keys,
        pipeline,
        operations,
    }: Volume,
) -> Outcome<Sample> {
    let before = server.cpu()?;
    let output = Command::new(tool)
        .args(["-p", &server.port.to_string(), "-c", &CLIENTS.to_string()])
        .args(["-r", &keys.to_string(), "-n", &operations.to_string()])
        .args(["-P", &pipeline.to_string(), "--csv"])
        .args(args)
        .output()?;
    let cpu = server.cpu()?.saturating_sub(before);
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("redis-benchmark: {said}{error}").into());
    }
    Ok(Sample::of_operations(cpu, rate(&said)?, operations))
}

/// The second column of the last line.
fn rate(csv: &str) -> Outcome<f64> {
    let cell = csv
        .lines()
        .last()
        .and_then(|line| line.split("\",\"").nth(1));
    let cell = cell.ok_or_else(|| format!("redis-benchmark says {csv}"))?;
    Ok(cell.parse()?)
}

/// Requests and the exact replies that they must get.
#[derive(Clone, Default)]
pub struct Exchange {
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Exchange {
    /// A message that comes without a request.
    pub fn hear(&mut self, message: &str) {
        self.replies.extend_from_slice(message.as_bytes());
    }

    pub fn expect(&mut self, words: &[&str], reply: &str) {
        self.requests.extend(packed(words));
        self.replies.extend_from_slice(reply.as_bytes());
    }
}

/// A connection that speaks in bytes.
pub struct Wire {
    reader: BufReader<TcpStream>,
}

impl Wire {
    pub fn open(server: &Running) -> Outcome<Wire> {
        let stream = TcpStream::connect(("127.0.0.1", server.port))?;
        stream.set_nodelay(true)?;
        Ok(Wire {
            reader: BufReader::with_capacity(64 * 1024, stream),
        })
    }

    pub fn send(&mut self, exchange: &Exchange) -> Outcome<()> {
        Ok(self.reader.get_mut().write_all(&exchange.requests)?)
    }

    pub fn receive(&mut self, exchange: &Exchange) -> Outcome<()> {
        let mut replies = vec![0; exchange.replies.len()];
        self.reader.read_exact(&mut replies)?;
        if replies == exchange.replies {
            return Ok(());
        }
        Err(format!("an unexpected reply: {}", String::from_utf8_lossy(&replies)).into())
    }

    pub fn exchange(&mut self, exchange: &Exchange) -> Outcome<()> {
        self.send(exchange)?;
        self.receive(exchange)
    }
}

/// Every connection sends its exchange, then every connection takes its replies.
pub fn all_at_once(wires: &mut [Wire], exchanges: &[Exchange]) -> Outcome<()> {
    for (wire, exchange) in wires.iter_mut().zip(exchanges) {
        wire.send(exchange)?;
    }
    for (wire, exchange) in wires.iter_mut().zip(exchanges) {
        wire.receive(exchange)?;
    }
    Ok(())
}

/// Runs the work and says what each of its operations cost the server.
pub fn timed(
    server: &Running,
    operations: u32,
    work: impl FnOnce() -> Outcome<()>,
) -> Outcome<Sample> {
    let (before, begun) = (server.cpu()?, Instant::now());
    work()?;
    let rate = f64::from(operations) / begun.elapsed().as_secs_f64();
    Ok(Sample::of_operations(
        server.cpu()?.saturating_sub(before),
        rate,
        operations,
    ))
}

/// Data for a server: so many commands, each made of its number and answered in one line.
#[derive(Clone, Copy)]
pub struct Fill {
    pub commands: u32,
    pub words: fn(u32) -> Vec<String>,
}

/// Sends the commands in pipelines of a thousand, and returns the longest time that one took.
pub fn fill(server: &Running, fill: Fill) -> Outcome<f64> {
    const PIPELINE: u32 = 1000;
    let mut wire = Wire::open(server)?;
    let (mut longest, mut line) = (0_f64, Vec::new());
    let mut sent = 0;
    while sent < fill.commands {
        let end = (sent + PIPELINE).min(fill.commands);
        let mut requests = Vec::new();
        for number in sent..end {
            let words = (fill.words)(number);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            requests.extend(packed(&words));
        }
        let begun = Instant::now();
        wire.reader.get_mut().write_all(&requests)?;
        for _ in sent..end {
            line.clear();
            wire.reader.read_until(b'\n', &mut line)?;
            if line.is_empty() || line[0] == b'-' {
                return Err(format!("filling it: {}", String::from_utf8_lossy(&line)).into());
            }
        }
        longest = longest.max(begun.elapsed().as_secs_f64());
        sent = end;
    }
    Ok(longest)
}

/// Empties the server; it frees at once, so that freeing is not counted to the next workload.
pub fn clear(server: &Running) -> Outcome<()> {
    redis::cmd("FLUSHALL")
        .arg("SYNC")
        .exec(&mut server.connect()?)?;
    Ok(())
}

fn packed(words: &[&str]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.get_packed_command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_the_last_line() -> Outcome<()> {
        let csv = "\"test\",\"rps\",\"avg\"\n\"MSET (10 keys)\",\"181818.19\",\"1.730\"\n";
        assert_eq!(rate(csv)?, 181_818.19);
        assert!(rate("").is_err());
        Ok(())
    }
}
