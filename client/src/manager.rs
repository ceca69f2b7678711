//! The cheap, cloneable handle over a server, from which everything else is made.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::ops::DerefMut;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Client, IntoConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::borrowed::{Assisted, PoolLink, SharedLink};
use crate::clock::Clock;
use crate::connection::{ClientLink, Link, Node, Source};
use crate::error::Error;
use crate::lock::Lock;
use crate::name::Name;
use crate::resource::Scripted;
use crate::scripts::ScriptSet;
use crate::wakeup::Hub;

/// Makes locks and all the other primitives over one server.
///
/// Cloning is cheap, and clones share their connections: one for commands, opened with the first
/// command and replaced when it breaks, and one for wake-ups, opened with the first wait.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let url = server.url();
/// use khoa::Manager;
///
/// let manager = Manager::open(url)?;
/// let guard = manager.lock("nightly-report").acquire().await?;
/// println!("held, fencing token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    node: Node,
    hub: Option<Arc<Hub>>,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    prefix: String,
    label: String,
    clock: Clock,
    request_timeout: Duration,
    fence_kept: Duration,
    index: usize,
    dedicated: Option<Client>,
}

impl Manager {
    /// A manager for the server at a URL, with default settings. It does not connect yet.
    pub fn open(url: impl IntoConnectionInfo) -> Result<Self, Error> {
        Self::builder().open(url)
    }

    /// A manager over a client of the `redis` crate, with default settings.
    pub fn from_client(client: Client) -> Result<Self, Error> {
        Self::builder().client(client)
    }

    /// A manager over a connection that is there already: a multiplexed or a cluster connection,
    /// a connection manager, or anything else that can be cloned. Such a connection cannot be
    /// subscribed on, so waiters poll unless there is [another for
    /// that](ManagerBuilder::dedicated).
    pub fn from_connection<C>(connection: C) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::builder().connection(connection)
    }

    /// Settings to change before a manager is made.
    pub fn builder() -> ManagerBuilder {
        ManagerBuilder::default()
    }

    /// A lock over a resource that is driven by scripts on this manager's server.
    pub(crate) fn hold(&self, resource: Result<Scripted, Error>) -> Lock {
        let resource = resource.map(|resource| Arc::new(resource) as _);
        let Inner { hub, settings, .. } = &*self.inner;
        Lock::new(
            resource,
            hub.clone(),
            settings.clock.clone(),
            &settings.label,
        )
    }

    /// A resource without keys and arguments yet.
    pub(crate) fn scripted(&self, name: Name, scripts: &'static ScriptSet) -> Scripted {
        Scripted {
            node: self.inner.node.clone(),
            name,
            scripts,
            acquire_keys: Vec::new(),
            extend_keys: Vec::new(),
            release_keys: Vec::new(),
            acquire_extra: Vec::new(),
            extend_extra: Vec::new(),
            release_extra: Vec::new(),
            fence_kept: self.inner.settings.fence_kept,
            more: Mutex::default(),
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.inner.node
    }

    pub(crate) fn hub(&self) -> Option<&Arc<Hub>> {
        self.inner.hub.as_ref()
    }

    pub(crate) fn fence_kept(&self) -> Duration {
        self.inner.settings.fence_kept
    }

    pub(crate) fn label(&self) -> &str {
        &self.inner.settings.label
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.inner.settings.prefix
    }

    pub(crate) fn name(&self, name: impl AsRef<[u8]>) -> Result<Name, Error> {
        Name::new(self.inner.settings.prefix.as_bytes(), name.as_ref())
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("prefix", &self.inner.settings.prefix)
            .finish_non_exhaustive()
    }
}

/// Settings of a [`Manager`].
#[derive(Clone)]
#[must_use]
pub struct ManagerBuilder {
    settings: Settings,
}

impl Default for ManagerBuilder {
    fn default() -> Self {
        let settings = Settings {
            prefix: "khoa:".to_owned(),
            label: default_label(),
            clock: Clock::system(),
            request_timeout: Duration::from_secs(1),
            fence_kept: Duration::from_secs(60 * 60 * 24),
            index: 0,
            dedicated: None,
        };
        Self { settings }
    }
}

impl ManagerBuilder {
    /// What every key begins with. An empty prefix lets a lock share its key with another
    /// library. Default: `khoa:`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// What a holder is called by those who inspect the lock. Default: host name and process id.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = label.into();
        self
    }

    /// Where time comes from. Default: the machine's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// How long a single request may take, connecting included. Default: 1 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// How long the server keeps a name's fencing counter after its last use. After that it
    /// starts again at the server's clock, which is above every number issued before unless that
    /// clock was set back in the meantime. Default: a day.
    pub fn fence_kept(mut self, kept: Duration) -> Self {
        self.settings.fence_kept = kept.max(Duration::from_secs(1));
        self
    }

    /// A client for what needs a connection of its own, where this manager cannot open one.
    /// Default: none.
    ///
    /// - When requests go over a [connection](Self::connection) or a [pool](Self::pool) that was
    ///   handed over: with a client of the same server waiters are woken, and messages and
    ///   transactions work. Not where that is a whole cluster's.
    #[cfg_attr(
        feature = "cluster",
        doc = " - In a [cluster](Self::cluster): transactions work, with the password and the TLS of this \
               client, at the node of their keys."
    )]
    pub fn dedicated(mut self, client: Client) -> Self {
        self.settings.dedicated = Some(client);
        self
    }

    /// Which of several servers this is, counted from zero; errors name it. Default: 0.
    pub fn index(mut self, index: usize) -> Self {
        self.settings.index = index;
        self
    }

    /// A manager for the server at a URL. It does not connect yet.
    pub fn open(self, url: impl IntoConnectionInfo) -> Result<Manager, Error> {
        let client = Client::open(url).map_err(Error::backend(self.settings.index))?;
        self.client(client)
    }

    /// A manager over a client of the `redis` crate.
    pub fn client(self, client: Client) -> Result<Manager, Error> {
        self.source(Source::Client(client))
    }

    /// A manager over connections of another kind: anything that can be read and written, made
    /// anew for each connection, in a Tokio runtime. Each must be a Redis connection without a
    /// password, in database 0.
    pub fn streams<S>(self, open: impl Fn() -> S + Send + Sync + 'static) -> Result<Manager, Error>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        self.source(Source::Streams(Box::new(move || Box::pin(open()))))
    }

    /// A manager over the master that sentinels name. When it is replaced the manager goes on with
    /// the next one. What the old master had not yet passed on is forgotten, locks among it:
    /// see [`Lock::replicated`] and [the guide](crate::guide::promises).
    ///
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use khoa::redis::sentinel::{SentinelClient, SentinelServerType};
    ///
    /// let sentinels = vec!["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let client = SentinelClient::build(sentinels, "main".into(), None, SentinelServerType::Master)?;
    /// let manager = khoa::Manager::builder().sentinel(client)?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sentinel")]
    pub fn sentinel(self, client: redis::sentinel::SentinelClient) -> Result<Manager, Error> {
        self.source(Source::Sentinel(tokio::sync::Mutex::new(client)))
    }

    /// A manager over a Redis Cluster, of servers of version 7 or later: waiters are woken by
    /// sharded publish and subscribe. The keys of a lock, with its helpers, share a slot.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = khoa_server::Server::builder().setting("cluster-enabled", "yes").start()?;
    /// # let url = server.url();
    /// use khoa::redis::cluster::ClusterClient;
    ///
    /// let nodes = ClusterClient::builder([url]); // any of them: it learns of the others
    /// let manager = khoa::Manager::builder().cluster(nodes)?;
    /// manager.lock("orders").acquire().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "cluster")]
    pub fn cluster(self, nodes: redis::cluster::ClusterClientBuilder) -> Result<Manager, Error> {
        let link = crate::cluster::ClusterLink::new(nodes, self.settings.dedicated.clone());
        let link = link.map_err(Error::backend(self.settings.index))?;
        self.over(Arc::new(link))
    }

    /// A manager over a link of the library's own.
    pub(crate) fn over(self, link: Arc<dyn Link>) -> Result<Manager, Error> {
        let node = self.node(link);
        let hub = Hub::new(vec![node.clone()], 1, &self.settings.prefix)?;
        Ok(self.manager(node, Some(Arc::new(hub))))
    }

    fn source(self, source: Source) -> Result<Manager, Error> {
        self.over(Arc::new(ClientLink::new(source)))
    }

    /// A manager over an existing connection; see [`Manager::from_connection`].
    pub fn connection<C>(self, connection: C) -> Manager
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.borrowing(SharedLink(connection))
    }

    /// A manager over a pool: each request borrows a connection and gives it back. Those of a pool
    /// cannot be subscribed on, so waiters poll unless there is [another connection for
    /// that](Self::dedicated).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = khoa_server::Server::start()?;
    /// # let client = khoa::redis::Client::open(server.url())?;
    /// # let connection = client.get_multiplexed_async_connection().await?;
    /// # type OnlyOne<C> = std::sync::Arc<tokio::sync::Mutex<C>>;
    /// # let pool: OnlyOne<_> = std::sync::Arc::new(tokio::sync::Mutex::new(connection));
    /// # trait Get<C> { async fn get(self) -> Result<tokio::sync::OwnedMutexGuard<C>, std::fmt::Error>; }
    /// # impl<C> Get<C> for OnlyOne<C> {
    /// #     async fn get(self) -> Result<tokio::sync::OwnedMutexGuard<C>, std::fmt::Error> {
    /// #         Ok(self.lock_owned().await)
    /// #     }
    /// # }
    /// let manager = khoa::Manager::builder().pool(move || {
    ///     let pool = pool.clone();
    ///     async move { pool.get().await } // of deadpool; with bb8: pool.get_owned()
    /// });
    /// manager.lock("orders").acquire().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A request may be dropped while it is on its way. Connections of the `redis` crate that is
    /// used here bear that; those of other crates must, too.
    pub fn pool<F, W, P, E>(self, get: F) -> Manager
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<P, E>> + Send + 'static,
        P: DerefMut<Target: ConnectionLike + Send> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    {
        self.borrowing(PoolLink(get))
    }

    fn borrowing(mut self, link: impl Link + 'static) -> Manager {
        let Some(client) = self.settings.dedicated.take() else {
            let node = self.node(Arc::new(link));
            return self.manager(node, None);
        };
        let node = self.node(Arc::new(Assisted::new(link, client)));
        let hub = Hub::new(vec![node.clone()], 1, &self.settings.prefix).ok();
        self.manager(node, hub.map(Arc::new))
    }

    fn node(&self, link: Arc<dyn Link>) -> Node {
        let settings = &self.settings;
        Node::new(
            link,
            settings.index,
            settings.clock.clone(),
            settings.request_timeout,
        )
    }

    fn manager(self, node: Node, hub: Option<Arc<Hub>>) -> Manager {
        Manager {
            inner: Arc::new(Inner {
                node,
                hub,
                settings: self.settings,
            }),
        }
    }
}

impl fmt::Debug for ManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerBuilder")
            .field("prefix", &self.settings.prefix)
            .finish_non_exhaustive()
    }
}

/// Host name and process id, as far as they can be learnt without asking anything outside.
fn default_label() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| {
            std::env::var("HOSTNAME")
                .or_else(|_| std::env::var("COMPUTERNAME"))
                .ok()
        })
        .unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}
