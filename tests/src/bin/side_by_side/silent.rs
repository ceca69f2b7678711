//! A server that only counts requests and answers OK to each: the floor under every other one.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::Outcome;

#[tokio::main(flavor = "current_thread")]
pub async fn serve(port: u16) -> Outcome<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut counter, mut input, mut output) = (Counter::default(), vec![0; 16 * 1024], Vec::new());
    loop {
        let len = stream.read(&mut input).await?;
        if len == 0 {
            return Ok(());
        }
        output.clear();
        for _ in 0..counter.count(&input[..len]) {
            output.extend_from_slice(b"+OK\r\n");
        }
        stream.write_all(&output).await?;
    }
}

/// Counts the requests that end in what it is shown, bit by bit.
#[derive(Default)]
struct Counter {
    line: Vec<u8>,
    /// Arguments that are still to come.
    arguments: usize,
    /// Bytes of an argument and its line end that are still to come.
    bytes: usize,
}

impl Counter {
    fn count(&mut self, mut input: &[u8]) -> usize {
        let mut ended = 0;
        while !input.is_empty() {
            if self.bytes > 0 {
                let taken = self.bytes.min(input.len());
                self.bytes -= taken;
                input = &input[taken..];
                if self.bytes == 0 {
                    self.arguments -= 1;
                    ended += usize::from(self.arguments == 0);
                }
                continue;
            }
            let (byte, rest) = (input[0], &input[1..]);
            input = rest;
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            ended += usize::from(self.is_inline());
            self.line.clear();
        }
        ended
    }

    /// Takes in a line that announces arguments or the bytes of one; any other is a request.
    fn is_inline(&mut self) -> bool {
        let line = String::from_utf8_lossy(&self.line);
        let number = line.trim_end().get(1..).and_then(|text| text.parse().ok());
        match (self.line.first(), number) {
            (Some(b'*'), Some(count)) => self.arguments = count,
            (Some(b'$'), Some(len)) if self.arguments > 0 => self.bytes = len + 2_usize,
            _ => return true,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_wherever_they_are_split() {
        let input = b"PING\r\n*2\r\n$3\r\nGET\r\n$4\r\n*1\r\n\r\n*1\r\n$4\r\nPING\r\n";
        for split in 0..input.len() {
            let mut counter = Counter::default();
            let (before, after) = input.split_at(split);
            assert_eq!(counter.count(before) + counter.count(after), 3, "{split}");
        }
    }
}
