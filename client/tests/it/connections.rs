//! Every kind of connection that the `redis` crate has: what the library offers works over each,
//! and waiters are woken by push wherever the kind can listen.

use std::time::Duration;

use khoa::{Error, Manager, ManagerBuilder, ManualClock, Released};
use khoa_server::Server;
use redis::Client;
use redis::aio::ConnectionManagerConfig;

use crate::support::{SECOND, settle};

/// What a kind of connection can do besides sending commands.
#[derive(Clone, Copy, PartialEq)]
enum Can {
    Listen,
    OnlyAsk,
}

/// Uses every primitive once, and most of their scripts.
async fn everything_works(manager: &Manager, can: Can) {
    let guard = manager.lock("lock").acquire().await.unwrap();
    guard.extend().await.unwrap();
    let fence = guard.fencing_token();
    manager
        .set_fenced("value", "1", &guard.lease())
        .await
        .unwrap();
    let held = manager.inspect("lock").await.unwrap().unwrap();
    assert_eq!(held.fencing_token, Some(fence));
    assert!(manager.lock("lock").try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let manager = manager.clone();
        async move { manager.lock("lock").acquire().await }
    });
    while manager.inspect("lock").await.unwrap().unwrap().waiting == 0 && can == Can::Listen {
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let next = waiting.await.unwrap().unwrap();
    assert!(next.fencing_token() > fence);
    if !manager
        .holders("lo", 10)
        .await
        .is_ok_and(|holders| holders.len() == 1)
    {
        assert!(can == Can::OnlyAsk, "a lock is not in the list");
    }
    assert!(manager.force_release("lock").await.unwrap());
    assert!(next.extend().await.unwrap_err().is_lost());

    let permit = manager.semaphore("permits", 2).acquire().await.unwrap();
    permit.extend().await.unwrap();
    assert_eq!(manager.permits_held("permits").await.unwrap(), 1);
    permit.release().await.unwrap();
    let settings = manager.read_write("settings");
    let reading = settings.read().acquire().await.unwrap();
    reading.extend().await.unwrap();
    reading.release().await.unwrap();
    let writing = settings.write().acquire().await.unwrap();
    writing.release().await.unwrap();
    let both = manager.lock_all(["{t}a", "{t}b"]).acquire().await.unwrap();
    both.extend().await.unwrap();
    both.release().await.unwrap();
    let set = khoa::LockSet::new([manager.lock("x"), manager.lock("y")]);
    set.acquire().await.unwrap().release().await.unwrap();
    let owner = manager.lock("tree").reentrant();
    let (outer, inner) = (
        owner.acquire().await.unwrap(),
        owner.acquire().await.unwrap(),
    );
    inner.release().await.unwrap();
    outer.release().await.unwrap();

    let election = manager.election("election").candidate("me");
    let leadership = election.campaign().await.unwrap();
    let leader = election.observe().changed().await.unwrap().unwrap();
    assert_eq!(leader.label, b"me");
    leadership.resign().await.unwrap();
    let hourly = manager.once_per("hourly", 3600 * SECOND);
    assert!(hourly.claim().await.unwrap().mine);
    assert!(!hourly.claim().await.unwrap().mine);
    let latch = manager.latch("latch").unwrap();
    latch.set(1, 60 * SECOND).await.unwrap();
    latch.count_down(1).await.unwrap();
    latch.wait_within(SECOND).await.unwrap();
    let queue = manager.queue("queue").unwrap();
    queue.push("job").await.unwrap();
    let job = queue.take_within(SECOND).await.unwrap();
    assert_eq!(job.payload(), b"job");
    job.done().await.unwrap();
    for limiter in [
        manager.fixed_window(1, 60 * SECOND),
        manager.sliding_window(1, 60 * SECOND),
    ] {
        let limiter = limiter.unwrap();
        assert!(limiter.hit("client").await.unwrap().allowed);
        assert!(!limiter.hit("client").await.unwrap().allowed);
    }
    // Names that say nothing of slots, or something odd.
    for name in ["{", "}", "{}", "a{b}c", "}{", "{{a}}"] {
        let guard = manager.lock(name).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    match manager.subscribe("news").await {
        Ok(mut news) => {
            manager.publish("news", "hello").await.unwrap();
            assert_eq!(
                news.next().await.unwrap(),
                khoa::Event::Message(b"hello".to_vec())
            );
        }
        Err(Error::Unsupported { .. }) => assert!(can == Can::OnlyAsk),
        Err(error) => panic!("{error}"),
    }
}

/// A waiter gets what is released though no time passes that would let it poll.
async fn waiters_are_woken_by_push(open: impl Fn(ManagerBuilder) -> Manager) {
    let clock = ManualClock::new();
    let manager = || {
        let settings = Manager::builder().clock(clock.clock());
        open(settings.request_timeout(3600 * SECOND))
    };
    let (here, there) = (manager(), manager());
    for hold in [SECOND, 3600 * SECOND] {
        let holder = here
            .lock("pushed")
            .ttl(3600 * SECOND)
            .acquire()
            .await
            .unwrap();
        let waiting: Vec<_> = (0..3)
            .map(|number| {
                let manager = if number == 1 {
                    here.clone()
                } else {
                    there.clone()
                };
                tokio::spawn(async move {
                    let lock = manager.lock("pushed").ttl(hold);
                    lock.acquire().await.unwrap().release().await
                })
            })
            .collect();
        while here.inspect("pushed").await.unwrap().unwrap().waiting < 3 {
            tokio::task::yield_now().await;
        }
        holder.release().await.unwrap();
        for waiter in waiting {
            assert_eq!(waiter.await.unwrap().unwrap(), Released::Released);
        }
    }
    let (latch, there) = (
        here.latch("pushed").unwrap(),
        there.latch("pushed").unwrap(),
    );
    latch.set(1, 60 * SECOND).await.unwrap();
    let waiting = tokio::spawn(async move { there.wait_within(3600 * SECOND).await });
    settle().await;
    latch.count_down(1).await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn everything_works_over_a_client() {
    let server = Server::start().unwrap();
    let client = Client::open(server.url()).unwrap();
    everything_works(&Manager::from_client(client).unwrap(), Can::Listen).await;
}

#[tokio::test]
async fn everything_works_over_a_multiplexed_connection() {
    let server = Server::start().unwrap();
    let client = Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    everything_works(&Manager::from_connection(connection), Can::OnlyAsk).await;
}

#[tokio::test]
async fn everything_works_over_a_connection_of_the_third_protocol() {
    let server = Server::start().unwrap();
    let url = format!("{}?protocol=resp3", server.url());
    everything_works(&Manager::open(url).unwrap(), Can::Listen).await;
}

#[tokio::test]
async fn everything_works_over_a_connection_manager_also_after_its_connection_broke() {
    let server = Server::start().unwrap();
    let client = Client::open(server.url()).unwrap();
    let config = ConnectionManagerConfig::new().set_min_delay(Duration::from_millis(1));
    let connection = client
        .get_connection_manager_with_config(config)
        .await
        .unwrap();
    let manager = Manager::from_connection(connection);
    everything_works(&manager, Can::OnlyAsk).await;
    server.kill_clients();
    manager
        .lock("again")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[cfg(feature = "cluster")]
mod cluster {
    use redis::cluster::ClusterClient;

    use super::*;

    fn one_node_cluster() -> Server {
        Server::builder()
            .setting("cluster-enabled", "yes")
            .start()
            .unwrap()
    }

    fn over(server: &Server) -> impl Fn(ManagerBuilder) -> Manager {
        let url = server.url();
        move |settings| {
            settings
                .cluster(ClusterClient::builder([url.clone()]))
                .unwrap()
        }
    }

    #[tokio::test]
    async fn everything_works_in_a_cluster_and_no_keys_cross_slots() {
        let server = one_node_cluster();
        everything_works(&over(&server)(Manager::builder()), Can::Listen).await;
    }

    #[tokio::test]
    async fn everything_works_over_a_cluster_connection_that_was_handed_over() {
        let server = one_node_cluster();
        let client = ClusterClient::new(vec![server.url()]).unwrap();
        let connection = client.get_async_connection().await.unwrap();
        everything_works(&Manager::from_connection(connection), Can::OnlyAsk).await;
    }

    #[tokio::test]
    async fn waiters_in_a_cluster_are_woken_by_push() {
        waiters_are_woken_by_push(over(&one_node_cluster())).await;
    }

    #[tokio::test]
    async fn names_that_cannot_share_a_slot_are_refused_and_nothing_is_held() {
        let server = one_node_cluster();
        let manager = over(&server)(Manager::builder());
        let error = manager
            .lock_all(["a", "b"])
            .try_acquire()
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Backend { .. }), "{error}");
        assert!(!server.db(0).exists("khoa:a"));
    }

    #[tokio::test]
    async fn a_waiter_in_a_cluster_survives_the_loss_of_its_connection() {
        let server = one_node_cluster();
        let open = over(&server);
        let (here, there) = (open(Manager::builder()), open(Manager::builder()));
        let holder = here.lock("a").acquire().await.unwrap();
        let waiting = tokio::spawn(async move { there.lock("a").acquire().await });
        while here.inspect("a").await.unwrap().unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
        server.kill_clients();
        holder.release().await.unwrap();
        assert!(waiting.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn waiters_over_a_client_are_woken_by_push() {
    let server = Server::start().unwrap();
    let url = server.url();
    waiters_are_woken_by_push(|settings| settings.open(url.as_str()).unwrap()).await;
}

#[cfg(feature = "sentinel")]
mod sentinel {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    use redis::sentinel::{SentinelClient, SentinelServerType};

    use super::*;

    /// Answers what clients ask a sentinel, and says who is master.
    struct Sentinel {
        url: String,
        master: Arc<Mutex<SocketAddr>>,
    }

    impl Sentinel {
        fn of(master: &Server) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("redis://{}", listener.local_addr().unwrap());
            let master = Arc::new(Mutex::new(master.addr()));
            let named = Arc::clone(&master);
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let named = Arc::clone(&named);
                    std::thread::spawn(move || answer(stream, &named));
                }
            });
            Self { url, master }
        }

        fn promote(&self, server: &Server) {
            *self.master.lock().unwrap() = server.addr();
        }

        fn open(&self, settings: ManagerBuilder) -> Manager {
            let (url, kind) = (vec![self.url.clone()], SentinelServerType::Master);
            let client = SentinelClient::build(url, "main".to_owned(), None, kind).unwrap();
            settings.sentinel(client).unwrap()
        }
    }

    fn answer(stream: TcpStream, master: &Mutex<SocketAddr>) {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut output = stream;
        while let Some(words) = request(&mut input) {
            let answer = match words[0].to_uppercase().as_str() {
                "SENTINEL" => masters(*master.lock().unwrap()),
                "ROLE" => "*2\r\n$8\r\nsentinel\r\n*1\r\n$4\r\nmain\r\n".to_owned(),
                _ => "+OK\r\n".to_owned(),
            };
            if output.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn request(input: &mut impl BufRead) -> Option<Vec<String>> {
        let mut line = String::new();
        let mut number = |input: &mut dyn BufRead| -> Option<usize> {
            line.clear();
            input.read_line(&mut line).ok()?;
            line.trim().get(1..)?.parse().ok()
        };
        let mut words = Vec::new();
        for _ in 0..number(input)? {
            let mut word = vec![0; number(input)? + 2];
            input.read_exact(&mut word).ok()?;
            words.push(String::from_utf8_lossy(&word).trim().to_owned());
        }
        Some(words)
    }

    fn masters(address: SocketAddr) -> String {
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let fields = ["name", "main", "ip", &ip, "port", &port, "flags", "master"];
        let words = fields.map(|field| format!("${}\r\n{field}\r\n", field.len()));
        format!("*1\r\n*{}\r\n{}", words.len(), words.concat())
    }

    #[tokio::test]
    async fn everything_works_over_a_master_that_sentinels_name() {
        let server = Server::start().unwrap();
        let sentinel = Sentinel::of(&server);
        everything_works(&sentinel.open(Manager::builder()), Can::Listen).await;
    }

    #[tokio::test]
    async fn waiters_over_a_master_that_sentinels_name_are_woken_by_push() {
        let server = Server::start().unwrap();
        let sentinel = Sentinel::of(&server);
        waiters_are_woken_by_push(|settings| sentinel.open(settings)).await;
    }

    // infrahub#9450
    #[tokio::test]
    async fn after_a_fail_over_the_holder_learns_its_loss_and_the_next_token_is_higher() {
        let (old, new) = (Server::start().unwrap(), Server::start().unwrap());
        let sentinel = Sentinel::of(&old);
        let manager = sentinel.open(Manager::builder());
        let holder = manager.lock("a").acquire().await.unwrap();
        // The new master never heard of the lock, and the old one refuses to write.
        sentinel.promote(&new);
        old.fail_with("READONLY You can't write against a read only replica.");
        let next = sentinel
            .open(Manager::builder())
            .lock("a")
            .acquire()
            .await
            .unwrap();
        assert!(next.fencing_token() > holder.fencing_token());
        let error = match holder.extend().await {
            Err(error) if error.is_transient() => holder.extend().await.unwrap_err(),
            outcome => outcome.unwrap_err(),
        };
        assert!(error.is_lost(), "{error}");
        assert!(holder.is_lost());
        assert!(next.is_valid());
    }

    #[tokio::test]
    async fn a_waiter_goes_on_waiting_with_the_next_master() {
        let (old, new) = (Server::start().unwrap(), Server::start().unwrap());
        let sentinel = Sentinel::of(&old);
        let _holder = sentinel
            .open(Manager::builder())
            .lock("a")
            .acquire()
            .await
            .unwrap();
        let waiter = sentinel.open(Manager::builder());
        let waiting = tokio::spawn(async move { waiter.lock("a").acquire().await });
        while old.db(0).list("{khoa:a}:queue").is_empty() {
            tokio::task::yield_now().await;
        }
        sentinel.promote(&new);
        old.fail_with("READONLY You can't write against a read only replica.");
        old.kill_clients();
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.is_valid());
        assert!(new.db(0).exists("khoa:a"));
    }
}
