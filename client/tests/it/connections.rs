//! Every kind of connection that the `redis` crate has: what the library offers works over each,
//! and waiters are woken by push wherever the kind can listen.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use khoa::{Error, Manager, ManagerBuilder};
use khoa_server::Server;
use redis::Client;
use redis::aio::{ConnectionManagerConfig, MultiplexedConnection};

use crate::everything::{Can, everything_works, waiters_are_woken_by_push};

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
    let guard = manager.lock("again").acquire().await.unwrap();
    guard.release().await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn everything_works_over_a_unix_socket_and_waiters_are_woken() {
    let path = std::env::temp_dir().join(format!("khoa-{}.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let server = Server::builder()
        .setting("unixsocket", path)
        .start()
        .unwrap();
    let open = |settings: ManagerBuilder| settings.open(format!("unix://{path}")).unwrap();
    everything_works(&open(Manager::builder()), Can::Listen).await;
    waiters_are_woken_by_push(open).await;
    drop(server);
}

/// The smallest pool that there can be.
#[derive(Clone)]
struct Pool {
    client: Client,
    idle: Arc<Mutex<Vec<MultiplexedConnection>>>,
}

impl Pool {
    fn of(server: &Server) -> Self {
        let client = Client::open(server.url()).unwrap();
        let idle = Arc::default();
        Self { client, idle }
    }

    async fn get(self) -> Result<Borrowed, redis::RedisError> {
        let idle = self.idle.lock().unwrap().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.client.get_multiplexed_async_connection().await?,
        };
        Ok(Borrowed(Some(connection), self))
    }

    fn manager(&self, settings: ManagerBuilder) -> Manager {
        let pool = self.clone();
        settings.pool(move || pool.clone().get())
    }
}

struct Borrowed(Option<MultiplexedConnection>, Pool);

impl Deref for Borrowed {
    type Target = MultiplexedConnection;

    fn deref(&self) -> &MultiplexedConnection {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut MultiplexedConnection {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let connection = self.0.take();
        self.1.idle.lock().unwrap().extend(connection);
    }
}

#[tokio::test]
async fn everything_works_over_a_pool_and_each_connection_goes_back() {
    let server = Server::start().unwrap();
    let pool = Pool::of(&server);
    everything_works(&pool.manager(Manager::builder()), Can::OnlyAsk).await;
    // At most one for the holder, one for the waiter, and one for what they do in the background.
    assert!(server.connections_received() <= 4);
    assert_eq!(pool.idle.lock().unwrap().len(), server.connected_clients());
}

#[tokio::test]
async fn waiters_over_what_was_handed_over_are_woken_by_push_where_another_client_listens() {
    let server = Server::start().unwrap();
    let client = Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let open = |settings: ManagerBuilder| {
        let settings = settings.dedicated(client.clone());
        settings.connection(connection.clone())
    };
    everything_works(&open(Manager::builder()), Can::Listen).await;
    waiters_are_woken_by_push(open).await;
}

#[tokio::test]
async fn so_are_waiters_over_a_pool_and_transactions_work_too() {
    let server = Server::start().unwrap();
    let pool = Pool::of(&server);
    let open = |settings: ManagerBuilder| pool.manager(settings.dedicated(pool.client.clone()));
    everything_works(&open(Manager::builder()), Can::Listen).await;
    waiters_are_woken_by_push(open).await;
    let increment = |_| async { Ok(redis::pipe().incr("n", 1).clone()) };
    let manager = open(Manager::builder());
    let done: Result<khoa::Committed<(i64,)>, Error> =
        manager.transaction(&["n"]).run(increment).await;
    assert_eq!(done.unwrap().reply.0, 1);
}

#[tokio::test]
async fn a_pool_that_has_no_connection_now_is_waited_for() {
    let server = Server::start().unwrap();
    let pool = Pool::of(&server);
    let refusals = Mutex::new(3);
    let manager = Manager::builder().pool(move || {
        let refuses = std::mem::replace(&mut *refusals.lock().unwrap(), 0) > 0;
        let pool = pool.clone();
        async move {
            if refuses {
                return Err(io::Error::other("none left"));
            }
            pool.get().await.map_err(io::Error::other)
        }
    });
    let guard = manager.lock("a").acquire().await.unwrap();
    assert!(guard.is_valid());
}

#[cfg(feature = "cluster")]
mod cluster {
    use redis::AsyncCommands;
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
    async fn a_transaction_in_a_cluster_is_one_at_the_node_of_its_keys() {
        let server = one_node_cluster();
        let dedicated = Client::open(server.url()).unwrap();
        let manager = over(&server)(Manager::builder().dedicated(dedicated));
        let (rival, mut rounds) = (Client::open(server.url()).unwrap(), 0);
        let done: Result<khoa::Committed<(i64,)>, Error> = manager
            .transaction(&["{t}n", "{t}m"])
            .run(|mut own| {
                rounds += 1;
                let (rival, interferes) = (rival.clone(), rounds == 1);
                async move {
                    let _: Option<i64> = own.get("{t}n").await?;
                    if interferes {
                        let mut rival = rival.get_multiplexed_async_connection().await?;
                        let _: () = rival.set("{t}m", 5).await?;
                    }
                    Ok(redis::pipe().incr("{t}m", 1).clone())
                }
            })
            .await;
        let done = done.unwrap();
        assert_eq!((done.reply.0, done.conflicts), (6, 1));
        assert_eq!(server.db(0).get("{t}m").unwrap(), b"6");
    }

    #[tokio::test]
    async fn without_a_way_to_a_connection_of_its_own_a_transaction_in_a_cluster_is_refused() {
        let server = one_node_cluster();
        let manager = over(&server)(Manager::builder());
        let nothing = |_| async { Ok(redis::pipe()) };
        let refused: Result<khoa::Committed<()>, Error> =
            manager.transaction(&["n"]).run(nothing).await;
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
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
