//! One history of the store: real clients on real connections, and one who holds time and faults.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use khoa_server::Server;

use super::client::{Client, Seen};
use super::counts::Counts;
use super::history::{Operation, Stamps};
use super::program::{Blow, Program};
use super::store::{Call, Reply, TICK_MS};

/// When nothing has moved for so long, everybody waits for time to pass. It only paces a
/// history: whatever comes too early is as good a history.
const STILL: Duration = Duration::from_micros(300);
/// A history that has not ended after so many ticks never will.
const MOST_TICKS: u64 = 20_000;
/// Ticks at the end after which those that wait for ever are cut off.
const TICKS_TO_CUT: u64 = 20;

/// Runs a program and gives what its clients saw.
pub fn play(program: &Program) -> (Vec<Seen>, Counts) {
    let mut server = Server::builder()
        .frozen_at_ms(1_700_000_000_000)
        .io_threads(program.workers)
        .start()
        .expect("a server on a free port");
    let addr = server.addr();
    let (stamps, busy) = (Stamps::default(), AtomicUsize::new(program.clients.len()));
    thread::scope(|scope| {
        let clients: Vec<_> = program
            .clients
            .iter()
            .enumerate()
            .map(|(number, steps)| {
                let mut client = Client::new(number, addr, &stamps);
                let (stamps, busy) = (&stamps, &busy);
                scope.spawn(move || {
                    let _leaves = Leaves(busy);
                    client.between = Box::new(|| linger(stamps));
                    for step in steps {
                        client.run(step);
                    }
                    client
                })
            })
            .collect();
        let mut conductor = Conductor {
            server: &mut server,
            stamps: &stamps,
            busy: &busy,
            number: program.clients.len(),
            history: Vec::new(),
            counts: Counts::default(),
        };
        conductor.conduct(program);
        let (mut history, mut counts) = (conductor.history, conductor.counts);
        for client in clients {
            // A client that panicked has said why; its seed is told by whoever runs the program.
            let client = client
                .join()
                .unwrap_or_else(|why| std::panic::resume_unwind(why));
            history.extend(client.history);
            counts.merge(&client.counts);
        }
        let unknown = history
            .iter()
            .filter(|seen| seen.returned.is_none())
            .count();
        counts.add("operations nobody heard of", unknown as u64);
        (history, counts)
    })
}

/// Counts a client out, also one that panics.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The pause in the middle of the seeded bug: until others got on, if they do.
fn linger(stamps: &Stamps) {
    let (begun, from) = (Instant::now(), stamps.count());
    while stamps.count() < from + 12 && begun.elapsed() < 40 * STILL {
        thread::yield_now();
    }
}

struct Conductor<'a> {
    server: &'a mut Server,
    stamps: &'a Stamps,
    /// How many clients have not done all their steps.
    busy: &'a AtomicUsize,
    number: usize,
    history: Vec<Seen>,
    counts: Counts,
}

impl Conductor<'_> {
    fn conduct(&mut self, program: &Program) {
        for (at, blow) in &program.blows {
            self.wait_for(*at);
            self.strike(blow);
        }
        self.server.clear_faults();
        for ticks in 1..=MOST_TICKS {
            self.wait_for(u64::MAX);
            if self.is_over() {
                return;
            }
            self.tick();
            if ticks % TICKS_TO_CUT == 0 {
                self.server.kill_clients();
            }
        }
        panic!("clients still wait after {MOST_TICKS} ticks");
    }

    /// Waits until so many stamps were given out, nothing moves any more, or all is over.
    fn wait_for(&self, stamp: u64) {
        let (mut since, mut last) = (Instant::now(), self.stamps.count());
        while last < stamp && since.elapsed() < STILL && !self.is_over() {
            thread::yield_now();
            let count = self.stamps.count();
            if count != last {
                (since, last) = (Instant::now(), count);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.busy.load(Ordering::SeqCst) == 0
    }

    fn strike(&mut self, blow: &Blow) {
        let number = if let Blow::Ticks(ticks) = blow {
            *ticks
        } else {
            1
        };
        self.counts.add(blow.name(), number);
        match blow {
            Blow::Ticks(ticks) => (0..*ticks).for_each(|_| self.tick()),
            Blow::Strike(command, fault) => self.server.inject_on(command, fault.clone(), 1),
            Blow::Cut => self.server.kill_clients(),
            Blow::Pause(ticks) => {
                let millis = (ticks * TICK_MS).to_string();
                self.server.run(["CLIENT", "PAUSE", &millis, "ALL"]);
            }
            Blow::Restart => self.server.restart().expect("the same port again"),
            Blow::Forget => {
                let invoked = self.stamps.next();
                self.server.restart_empty().expect("the same port again");
                self.note(Call::Forget, invoked);
            }
            Blow::FlushScripts => {
                self.server.run(["SCRIPT", "FLUSH"]);
            }
        }
    }

    /// Moves the clock by one tick, in which no deadline can lie but at its end: so it is one
    /// step of the server.
    fn tick(&mut self) {
        let invoked = self.stamps.next();
        self.server.advance(Duration::from_millis(TICK_MS));
        self.note(Call::Tick, invoked);
    }

    fn note(&mut self, call: Call, invoked: u64) {
        // Time answers as every client is answered that hears nothing but that it is done.
        let returned = Some((self.stamps.next(), Reply::Ok));
        self.history.push(Operation {
            client: self.number,
            call,
            invoked,
            returned,
        });
    }
}
