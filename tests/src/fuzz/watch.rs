//! Watches over what may not end by itself: scripts are ended, and an input that takes too long
//! ends the process.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use khoa_server::Server;
use khoa_server::fuzzing::script_ender;

/// How long a script may run.
const SCRIPT_MAX: Duration = Duration::from_millis(100);
/// How long an input may take, by far: a machine may be busy with other things.
const INPUT_MAX: Duration = Duration::from_secs(100);
const LOOK: Duration = Duration::from_millis(20);

struct Watched {
    since: Instant,
    what: What,
}

enum What {
    Script(Box<dyn Fn() + Send>),
    Input(String),
}

#[derive(Default)]
struct Watch {
    last: u64,
    all: HashMap<u64, Watched>,
}

static WATCH: LazyLock<Mutex<Watch>> = LazyLock::new(|| {
    thread::spawn(|| {
        loop {
            thread::sleep(LOOK);
            look();
        }
    });
    Mutex::default()
});

fn look() {
    for watched in lock().all.values() {
        match &watched.what {
            What::Script(end) if watched.since.elapsed() > SCRIPT_MAX => end(),
            What::Input(input) if watched.since.elapsed() > INPUT_MAX => {
                eprintln!("no end of {input}");
                std::process::abort();
            }
            _ => {}
        }
    }
}

fn lock() -> std::sync::MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches until it is dropped.
pub struct Guard(u64);

impl Drop for Guard {
    fn drop(&mut self) {
        lock().all.remove(&self.0);
    }
}

fn add(what: What) -> Guard {
    let mut watch = lock();
    watch.last += 1;
    let since = Instant::now();
    let number = watch.last;
    watch.all.insert(number, Watched { since, what });
    Guard(number)
}

/// Ends the scripts of a server once they had their time.
pub fn scripts(server: &Server) -> Guard {
    add(What::Script(Box::new(script_ender(server))))
}

/// Ends the process when the input takes too long.
pub fn input(target: &str, input: &[u8]) -> Guard {
    add(What::Input(format!(
        "{target}: b\"{}\"",
        input.escape_ascii()
    )))
}
