//! A server, a clock and managers for tests: the only place that knows where the server comes from.
//!
//! `KHOA_TEST_URL` names a running server (`redis://127.0.0.1:7140`, with at least 512 databases)
//! to use instead of the embedded one. Time then passes for real, and tests that inject faults,
//! which need the embedded server, fail.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use khoa::{Manager, ManagerBuilder, ManualClock};
use khoa_server::Answer;
use khoa_server::Server;
use redis::{FromRedisValue, Value};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);

/// A server and a clock that move together.
pub struct World {
    place: Place,
    pub clock: ManualClock,
}

enum Place {
    Embedded(Arc<Server>),
    External { url: String, client: redis::Client },
}

impl World {
    pub fn start() -> Self {
        let place = match std::env::var("KHOA_TEST_URL") {
            Ok(url) => external(&url),
            Err(_) => Place::Embedded(Arc::new(Server::builder().frozen().start().unwrap())),
        };
        Self {
            place,
            clock: ManualClock::new(),
        }
    }

    pub fn url(&self) -> String {
        match &self.place {
            Place::Embedded(server) => server.url(),
            Place::External { url, .. } => url.clone(),
        }
    }

    /// The embedded server, for its faults and counters.
    pub fn server(&self) -> &Server {
        match &self.place {
            Place::Embedded(server) => server,
            Place::External { .. } => panic!("this test needs the embedded server"),
        }
    }

    /// The embedded server itself, for a restart. Only while no manager has streams to it.
    pub fn server_mut(&mut self) -> &mut Server {
        match &mut self.place {
            Place::Embedded(server) => Arc::get_mut(server).expect("nobody else uses the server"),
            Place::External { .. } => panic!("this test needs the embedded server"),
        }
    }

    /// A channel nobody else uses: databases do not separate channels.
    pub fn channel(&self, name: &str) -> String {
        format!("{name}@{}", self.url())
    }

    pub fn builder(&self) -> ManagerBuilder {
        // A clock that is moved by hand must not overtake a request that is really on its way.
        Manager::builder()
            .clock(self.clock.clock())
            .request_timeout(3600 * SECOND)
    }

    /// A manager of its own, as another process would have it.
    pub fn manager(&self) -> Manager {
        self.open(self.builder())
    }

    /// A manager that gives a request up after so long, for servers that hang.
    pub fn hasty_manager(&self, timeout: Duration) -> Manager {
        self.open(self.builder().request_timeout(timeout))
    }

    /// Over streams whose both ends are in the test's own runtime where that is possible: then a
    /// request that is on its way needs turns of that runtime, and no time.
    pub fn open(&self, settings: ManagerBuilder) -> Manager {
        match &self.place {
            Place::Embedded(server) => {
                let server = Arc::clone(server);
                settings.streams(move || server.stream()).unwrap()
            }
            Place::External { url, .. } => settings.open(url.as_str()).unwrap(),
        }
    }

    /// A manager over TCP.
    pub fn tcp_manager(&self) -> Manager {
        self.builder().open(self.url()).unwrap()
    }

    /// Lets time pass, on the server first: what a client does in its new time sees the server's.
    pub fn advance(&self, by: Duration) {
        match &self.place {
            Place::Embedded(server) => server.advance(by),
            Place::External { .. } => std::thread::sleep(by),
        }
        self.clock.advance(by);
    }

    /// Sends one command, written as words, past all faults.
    pub fn ask<T: FromRedisValue>(&self, command: &str) -> T {
        let words: Vec<&str> = command.split(' ').collect();
        let value = match &self.place {
            Place::Embedded(server) => value(server.run(&words)),
            Place::External { client, .. } => {
                let mut request = redis::cmd(words[0]);
                request.arg(&words[1..]);
                request
                    .query(&mut client.get_connection().unwrap())
                    .unwrap()
            }
        };
        redis::from_redis_value(value).unwrap()
    }

    /// How many scripts were called by digest or text.
    pub fn scripts_run(&self) -> u64 {
        self.server().calls_of("evalsha") + self.server().calls_of("eval")
    }

    /// Lets other tasks run until the server answers as wanted.
    pub async fn until<T: FromRedisValue + PartialEq>(&self, command: &str, wanted: T) {
        while self.ask::<T>(command) != wanted {
            tokio::task::yield_now().await;
        }
    }

    /// Lets time pass until nothing is left but fencing counters.
    pub async fn until_clean(&self) {
        let clean = async {
            while self
                .ask::<Vec<String>>("KEYS *")
                .iter()
                .any(|key| !key.ends_with("fence"))
            {
                tokio::task::yield_now().await;
            }
        };
        self.drive(clean).await;
    }

    /// Lets time pass, in small steps, until the work is done.
    pub async fn drive<F: Future>(&self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            for _ in 0..200 {
                tokio::select! {
                    biased;
                    output = &mut work => return output,
                    () = tokio::task::yield_now() => {}
                }
            }
            self.advance(20 * MS);
        }
    }
}

fn external(url: &str) -> Place {
    static DATABASE: AtomicU32 = AtomicU32::new(0);
    let url = format!("{url}/{}", DATABASE.fetch_add(1, Ordering::Relaxed));
    let client = redis::Client::open(url.as_str()).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::cmd("FLUSHDB").exec(&mut connection).unwrap();
    Place::External { url, client }
}

fn value(answer: Answer) -> Value {
    match answer {
        Answer::Nil => Value::Nil,
        Answer::Simple(text) => Value::SimpleString(text),
        Answer::Error(text) => panic!("{text}"),
        Answer::Integer(number) => Value::Int(number),
        Answer::Double(number) => Value::Double(number),
        Answer::Boolean(truth) => Value::Boolean(truth),
        Answer::Bytes(bytes) => Value::BulkString(bytes),
        Answer::List(items) => Value::Array(items.into_iter().map(value).collect()),
        Answer::Map(pairs) => Value::Map(
            pairs
                .into_iter()
                .map(|(k, v)| (value(k), value(v)))
                .collect(),
        ),
        other => panic!("{other:?}"),
    }
}

/// Lets other tasks, and whatever their sockets bring, have their turn for a while.
pub async fn settle() {
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
}

/// Drops a future at its poll of this number, counted from zero: at one of its await points.
pub async fn dropped_at<F: Future + Unpin>(poll: usize, future: F) -> Option<F::Output> {
    DroppedAt {
        future: Some(future),
        left: poll,
    }
    .await
}

struct DroppedAt<F> {
    future: Option<F>,
    left: usize,
}

impl<F: Future + Unpin> Future for DroppedAt<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            self.future = None;
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        let outcome = Pin::new(future).poll(context).map(Some);
        self.left -= 1;
        outcome
    }
}
