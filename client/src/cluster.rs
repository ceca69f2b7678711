//! A Redis Cluster as one server: its connections find the node of each key, and wake-ups come from
//! that node too, by sharded publish and subscribe over the same connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{
    Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, ProtocolVersion, PushInfo, PushKind,
    RedisResult, Value,
};
use tokio::sync::mpsc;

use crate::connection::{BoxFuture, Link, Messages, Shard, Source};

/// How many messages may wait for a listener that does not come to read them.
const BACKLOG: usize = 10_000;

pub(crate) struct ClusterLink {
    client: ClusterClient,
    connection: tokio::sync::Mutex<Option<ClusterConnection>>,
    listeners: Arc<Listeners>,
    /// How to connect to a node, but for its address.
    dedicated: Option<Client>,
}

/// Who listens to which channel; a sharded one and another of the same name are two.
#[derive(Default)]
struct Listeners(Mutex<Senders>);

type Senders = HashMap<(bool, Vec<u8>), mpsc::Sender<Vec<u8>>>;

impl Listeners {
    fn all(&self) -> std::sync::MutexGuard<'_, Senders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a message on. Where some may have been missed the listener's messages end.
    fn pushed(&self, push: PushInfo) {
        let mut data = push.data.into_iter().map(Vec::<u8>::from_redis_value);
        let (channel, payload) = (data.next(), data.next());
        match (push.kind, channel, payload) {
            (PushKind::Disconnection, ..) => self.all().clear(),
            (PushKind::SUnsubscribe, Some(Ok(channel)), _) => {
                self.all().remove(&(true, channel));
            }
            (
                kind @ (PushKind::Message | PushKind::SMessage),
                Some(Ok(channel)),
                Some(Ok(payload)),
            ) => {
                let place = (kind == PushKind::SMessage, channel);
                let mut all = self.all();
                if all
                    .get(&place)
                    .is_some_and(|listener| listener.try_send(payload).is_err())
                {
                    all.remove(&place);
                }
            }
            _ => {}
        }
    }
}

impl ClusterLink {
    pub(crate) fn new(
        settings: ClusterClientBuilder,
        dedicated: Option<Client>,
    ) -> RedisResult<Self> {
        let listeners = Arc::<Listeners>::default();
        let pushed = {
            let listeners = Arc::clone(&listeners);
            move |push| {
                listeners.pushed(push);
                Ok::<_, std::convert::Infallible>(())
            }
        };
        let settings = settings.use_protocol(ProtocolVersion::RESP3);
        Ok(Self {
            client: settings.push_sender(pushed).build()?,
            connection: tokio::sync::Mutex::default(),
            listeners,
            dedicated,
        })
    }

    /// The connection, which mends itself once it is there.
    async fn connection(&self) -> RedisResult<ClusterConnection> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let opened = self.client.get_async_connection().await?;
        *connection = Some(opened.clone());
        Ok(opened)
    }

    async fn route(&self, command: &Cmd, to: SingleNodeRoutingInfo) -> RedisResult<Value> {
        let mut connection = self.connection().await?;
        let answer = connection.route_command(command.clone(), RoutingInfo::SingleNode(to));
        answer.await.and_then(Value::extract_error)
    }

    async fn ranges(&self) -> RedisResult<Vec<Range>> {
        let slots = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        let ranges = self.route(&slots, SingleNodeRoutingInfo::RandomPrimary);
        let ranges = Vec::<Vec<Value>>::from_redis_value(ranges.await?)?;
        Ok(ranges.into_iter().filter_map(Range::read).collect())
    }

    /// A client for the node that holds a key at the moment.
    async fn client_at(&self, key: &[u8], like: &Client) -> RedisResult<Client> {
        let slot = redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).to_owned();
        let slot = self.route(&slot, SingleNodeRoutingInfo::RandomPrimary);
        let slot = u16::from_redis_value(slot.await?)?;
        let ranges = self.ranges().await?;
        let range = ranges.into_iter().find(|range| range.has(slot));
        let node = range.ok_or((ErrorKind::ClusterConnectionNotFound, "no node has the slot"))?;
        let info = like.get_connection_info().clone();
        let addr = node.address(info.addr().clone());
        Client::open(info.set_addr(addr))
    }
}

/// Slots that follow one another, and their master.
struct Range {
    first: u16,
    last: u16,
    /// None when it is the host that was asked.
    host: Option<String>,
    port: u16,
    node: Vec<u8>,
}

impl Range {
    /// First slot, last slot, master, replicas; a node is host, port, id and more.
    fn read(range: Vec<Value>) -> Option<Self> {
        let [first, last, Value::Array(master), ..] = &range[..] else {
            return None;
        };
        let [host, port, node, ..] = &master[..] else {
            return None;
        };
        let host: Option<String> = redis::from_redis_value_ref(host).ok()?;
        Some(Self {
            first: redis::from_redis_value_ref(first).ok()?,
            last: redis::from_redis_value_ref(last).ok()?,
            host: host.filter(|host| !host.is_empty()),
            port: redis::from_redis_value_ref(port).ok()?,
            node: redis::from_redis_value_ref(node).ok()?,
        })
    }

    fn has(&self, slot: u16) -> bool {
        (self.first..=self.last).contains(&slot)
    }

    /// Where its master is, reached in the same way as another place.
    fn address(self, like: ConnectionAddr) -> ConnectionAddr {
        let port = self.port;
        match like {
            ConnectionAddr::Tcp(asked, _) => ConnectionAddr::Tcp(self.host.unwrap_or(asked), port),
            ConnectionAddr::TcpTls {
                host: asked,
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: self.host.unwrap_or(asked),
                port,
                insecure,
                tls_params,
            },
            other => other,
        }
    }
}

impl Link for ClusterLink {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let answer = connection.req_packed_command(command).await;
            answer.and_then(Value::extract_error)
        })
    }

    fn request_at<'a>(
        &'a self,
        key: &'a [u8],
        command: &'a Cmd,
    ) -> BoxFuture<'a, RedisResult<Value>> {
        let route = Route::with_key(key, SlotAddr::Master);
        Box::pin(self.route(command, SingleNodeRoutingInfo::SpecificNode(route)))
    }

    fn servers(&self) -> BoxFuture<'_, RedisResult<Vec<Option<Shard>>>> {
        Box::pin(async move {
            let mut shards = HashMap::new();
            for range in self.ranges().await? {
                shards.entry(range.node).or_insert(range.first);
            }
            Ok(shards.into_values().map(Some).collect())
        })
    }

    fn request_on<'a>(
        &'a self,
        server: Option<Shard>,
        command: &'a Cmd,
    ) -> BoxFuture<'a, RedisResult<Value>> {
        let to = server.map_or(SingleNodeRoutingInfo::RandomPrimary, |slot| {
            SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master))
        });
        Box::pin(self.route(command, to))
    }

    fn is_sharded(&self) -> bool {
        true
    }

    fn dedicated<'a>(
        &'a self,
        key: &'a [u8],
    ) -> Option<BoxFuture<'a, RedisResult<MultiplexedConnection>>> {
        let like = self.dedicated.as_ref()?;
        Some(Box::pin(async move {
            let client = self.client_at(key, like).await?;
            Source::Client(client).dial().await
        }))
    }

    fn listen(
        &self,
        channel: Vec<u8>,
        sharded: bool,
    ) -> Option<BoxFuture<'_, RedisResult<Messages>>> {
        Some(Box::pin(async move {
            let mut connection = self.connection().await?;
            let (sender, receiver) = mpsc::channel(BACKLOG);
            let place = (sharded, channel);
            self.listeners.all().insert(place.clone(), sender.clone());
            let listening = Listening {
                connection: connection.clone(),
                listeners: Arc::clone(&self.listeners),
                place: place.clone(),
                sender: sender.downgrade(),
            };
            if sharded {
                connection.ssubscribe(&place.1[..]).await?;
            } else {
                connection.subscribe(&place.1[..]).await?;
            }
            let messages = futures_util::stream::unfold(
                (receiver, listening),
                |(mut receiver, listening)| async move {
                    Some((receiver.recv().await?, (receiver, listening)))
                },
            );
            Ok(Box::pin(messages) as Messages)
        }))
    }
}

/// A subscription, which is given up when nobody listens any more.
struct Listening {
    connection: ClusterConnection,
    listeners: Arc<Listeners>,
    place: (bool, Vec<u8>),
    sender: mpsc::WeakSender<Vec<u8>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut all = self.listeners.all();
        let mine = self.sender.upgrade();
        let is_mine =
            |other: &mpsc::Sender<_>| mine.as_ref().is_some_and(|s| s.same_channel(other));
        if !all.get(&self.place).is_some_and(is_mine) {
            return;
        }
        all.remove(&self.place);
        drop(all);
        let (mut connection, (sharded, channel)) = (self.connection.clone(), self.place.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = if sharded {
                    connection.sunsubscribe(&channel[..]).await
                } else {
                    connection.unsubscribe(&channel[..]).await
                };
            });
        }
    }
}
