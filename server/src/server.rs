//! The handle: binds, accepts, keeps the timer, stops, restarts on its port.

use std::{
    fs::File,
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{Runtime, RuntimeFlavor},
    sync::oneshot,
};

use crate::{
    acl,
    clock::{Clock, Time},
    config::Config,
    connection,
    engine::Engine,
    machine,
    shared::Shared,
};

/// The longest sleep of the timer, so that no arithmetic on far deadlines can overflow.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// How a server is to start.
#[derive(Debug)]
pub struct Builder {
    pub(crate) config: Config,
    bind: Vec<String>,
    port: Option<u16>,
    unix_socket: Option<PathBuf>,
    io_threads: usize,
    #[expect(
        clippy::option_option,
        reason = "frozen or not, and then at a given time or not"
    )]
    frozen_at: Option<Option<Time>>,
    in_runtime: bool,
    seed: Option<u64>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            config: Config::default(),
            bind: vec!["127.0.0.1".to_owned()],
            port: Some(0),
            unix_socket: None,
            io_threads: 1,
            frozen_at: None,
            in_runtime: false,
            seed: None,
        }
    }
}

impl Builder {
    /// The port to listen on; 0, the default, takes a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Listens on no port at all, for a server that is only reached from inside the process.
    #[must_use]
    pub fn no_port(mut self) -> Self {
        self.port = None;
        self
    }

    /// The addresses to listen on; `127.0.0.1` by default.
    #[must_use]
    pub fn bind<I: IntoIterator<Item = S>, S: Into<String>>(mut self, addresses: I) -> Self {
        self.bind = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Listens on a Unix socket too. A socket left over at the path is replaced.
    #[must_use]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.unix_socket = Some(path.into());
        self
    }

    /// Threads that serve connections; 1 by default, which costs the least per request.
    #[must_use]
    pub fn io_threads(mut self, threads: usize) -> Self {
        self.io_threads = threads.max(1);
        self
    }

    /// Clients must give this password first.
    #[must_use]
    pub fn require_auth(self, password: &str) -> Self {
        self.setting("requirepass", password)
    }

    /// Starts with the clock stopped at the present time.
    #[must_use]
    pub fn frozen(mut self) -> Self {
        self.frozen_at = Some(None);
        self
    }

    /// Starts with the clock stopped at a moment, in milliseconds since 1970.
    #[must_use]
    pub fn frozen_at_ms(mut self, millis: u64) -> Self {
        self.frozen_at = Some(Some(Time::from_millis(millis)));
        self
    }

    /// Runs in the Tokio runtime that `start` is called in, and by that runtime's time: no thread
    /// and no port, only [`Server::stream`]. In a paused runtime time stands still here too.
    #[must_use]
    pub fn in_runtime(mut self) -> Self {
        self.in_runtime = true;
        self.port = None;
        self
    }

    /// Makes what is random (RANDOMKEY, SPOP …) repeat from run to run.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets any setting that CONFIG knows.
    ///
    /// # Panics
    /// When there is no such setting, or the value is none of its: see [`Builder::try_setting`].
    #[must_use]
    pub fn setting(self, name: &str, value: &str) -> Self {
        self.try_setting(name, value)
            .expect("a known setting with a value that it takes")
    }

    /// Sets any setting that CONFIG knows; the error says what is wrong.
    pub fn try_setting(mut self, name: &str, value: &str) -> Result<Self, String> {
        self.config.set(name, value)?;
        let value = || self.config.get(name).to_owned();
        match name.to_ascii_lowercase().as_str() {
            // As in the references, port 0 means that only the Unix socket is listened on.
            "port" => self.port = value().parse().ok().filter(|&port| port != 0),
            "bind" => self.bind = value().split_whitespace().map(str::to_owned).collect(),
            "unixsocket" => self.unix_socket = Some(value().into()),
            "io-threads" => self.io_threads = value().parse().unwrap_or(1),
            _ => {}
        }
        Ok(self)
    }

    /// Declares a user, with words as ACL SETUSER takes them; the error says what is wrong.
    pub fn try_user(mut self, name: &str, words: &[&str]) -> Result<Self, String> {
        if self.config.users.iter().any(|(known, _)| known == name) {
            return Err(format!("the user {name} is declared twice"));
        }
        let words = words.iter().map(|&word| word.to_owned()).collect();
        self.config.users.push((name.to_owned(), words));
        Ok(self)
    }

    /// Remembers the file that the settings come from, for CONFIG REWRITE and INFO.
    #[must_use]
    pub fn settings_file(mut self, path: &str) -> Self {
        path.clone_into(&mut self.config.file);
        self
    }

    /// Lowers `maxclients` to as many as the system lets in, having asked it for more if need be.
    #[must_use]
    pub fn within_open_files(self) -> Self {
        let wanted = self.config.hot.max_clients;
        let room = machine::room_for_clients(wanted);
        if room >= wanted {
            return self;
        }
        tracing::warn!(
            wanted,
            room,
            "maxclients is lowered to the limit of open files"
        );
        self.setting("maxclients", &room.to_string())
    }

    /// The value of a setting as it stands, such as a default.
    pub fn get_setting(&self, name: &str) -> &str {
        self.config.get(name)
    }

    /// Starts the server. It takes connections when this returns.
    pub fn start(self) -> io::Result<Server> {
        let clock = if self.in_runtime {
            Clock::tokio()
        } else {
            Clock::real()
        };
        if let Some(at) = self.frozen_at {
            clock.freeze();
            if let Some(at) = at {
                clock.set(at);
            }
        }
        let mut engine = self.new_engine(clock.now())?;
        if !self.in_runtime {
            engine.on_busy = Some(hand_worker_over);
        }
        let shared = Shared::new(engine, clock);
        let runtime = if self.in_runtime {
            None
        } else {
            Some(self.new_runtime()?)
        };
        let mut server = Server {
            runtime,
            shared,
            builder: self,
            addrs: Vec::new(),
            accepting: Mutex::default(),
        };
        server.listen()?;
        server.spawn(keep_time(server.shared.clone()));
        Ok(server)
    }

    fn new_runtime(&self) -> io::Result<Runtime> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.io_threads)
            .thread_name("khoa-server")
            .enable_all()
            .build()
    }

    fn new_engine(&self, now: Time) -> io::Result<Engine> {
        let users = acl::file::at_start(&self.config).map_err(io::Error::other)?;
        let mut engine = Engine::new(self.config.clone(), now);
        engine.users = users;
        if let Some(seed) = self.seed {
            engine.random = crate::random::Random::seeded(seed);
        }
        Ok(engine)
    }
}

/// A running server. Dropping it stops it and ends every connection.
pub struct Server {
    runtime: Option<Runtime>,
    pub(crate) shared: Arc<Shared>,
    builder: Builder,
    addrs: Vec<SocketAddr>,
    /// Dropping the sender ends an accepting task, which drops the receiver in turn.
    /// The mutex only lets threads share the handle: nobody else ever takes it.
    accepting: Mutex<Vec<(oneshot::Sender<()>, std::sync::mpsc::Receiver<()>)>>,
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    pub fn start() -> io::Result<Server> {
        Server::builder().start()
    }

    /// A server to be set up before it starts.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The address that it listens on; with several, the first.
    ///
    /// # Panics
    /// When the server was started with [`Builder::no_port`].
    pub fn addr(&self) -> SocketAddr {
        self.addrs
            .first()
            .copied()
            .expect("a server that listens on a port")
    }

    /// Every address that it listens on; none without a port.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// The port that it listens on; with several addresses, the first one's.
    ///
    /// # Panics
    /// When the server was started with [`Builder::no_port`].
    pub fn port(&self) -> u16 {
        self.addr().port()
    }

    /// `redis://127.0.0.1:PORT`, as client libraries take it; with the password if there is one.
    pub fn url(&self) -> String {
        let engine = self.shared.lock();
        let password = engine.config.get("requirepass");
        let login = if password.is_empty() {
            String::new()
        } else {
            format!(":{password}@")
        };
        format!("redis://{login}{}", self.addr())
    }

    /// Ends every connection and listens again on the same port. The data and the scripts stay,
    /// as after a restart with perfect persistence.
    pub fn restart(&mut self) -> io::Result<()> {
        self.disconnect_all();
        self.shared.stopping.store(false, Ordering::Release);
        self.listen()
    }

    /// As [`Server::restart`], with everything lost, as after a crash without persistence.
    pub fn restart_empty(&mut self) -> io::Result<()> {
        self.disconnect_all();
        self.shared.stopping.store(false, Ordering::Release);
        let new = self.builder.new_engine(self.shared.clock.now())?;
        let mut engine = self.shared.lock();
        *engine = new;
        drop(engine);
        self.listen()
    }

    /// Ends as a client's SHUTDOWN does: no further request runs, and connections end once the
    /// replies so far are written. Waits for the slow ones only so long.
    pub fn shut_down(mut self, patience: Duration) {
        self.stop_accepting();
        self.shared.begin_stop();
        let give_up = std::time::Instant::now() + patience;
        while !self.shared.clients.is_empty() && std::time::Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop_accepting(&mut self) {
        for (stop, stopped) in self.accepting.get_mut().drain(..) {
            drop(stop);
            // The other end is dropped with the listener, which frees the port.
            let _ = stopped.recv();
        }
    }

    /// Calls a function with every change of the settings by CONFIG SET.
    pub fn on_settings(&self, changed: impl Fn(&Config) + Send + 'static) {
        self.shared.lock().on_settings = Some(Box::new(changed));
    }

    /// Ends every connection and takes no new one until [`Server::restart`].
    pub fn disconnect_all(&mut self) {
        self.stop_accepting();
        self.shared.end_connections();
        // A killed connection leaves within a turn of its task.
        while !self.shared.clients.is_empty() {
            std::thread::yield_now();
        }
    }

    /// Waits until a client sends SHUTDOWN.
    pub async fn stopped(&self) {
        let stopped = self.shared.stop.notified();
        if !self.shared.stopping.load(Ordering::Acquire) {
            stopped.await;
        }
    }

    /// Moves the clock on. Every deadline on the way is met in order: keys expire and waits end
    /// before this returns.
    pub fn advance(&self, by: Duration) {
        let target = Time(self.shared.clock.now().micros() + by.as_micros() as u64);
        self.shared.advance_to(target);
    }

    /// Stops the clock; [`Server::advance`] and [`Server::set_time_ms`] still move it.
    pub fn freeze(&self) {
        self.shared.clock.freeze();
    }

    /// Lets the clock run again from where it stands.
    pub fn unfreeze(&self) {
        self.shared.clock.unfreeze();
        self.shared.timer.notify_one();
    }

    /// The time of the server, in milliseconds since 1970.
    pub fn time_ms(&self) -> u64 {
        self.shared.clock.now().millis()
    }

    /// Sets the clock to a moment in milliseconds since 1970, back or forth.
    pub fn set_time_ms(&self, millis: u64) {
        let target = Time::from_millis(millis);
        if target >= self.shared.clock.now() {
            return self.shared.advance_to(target);
        }
        self.shared.clock.set(target);
        let engine = self.shared.lock();
        self.shared.unlock(engine);
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        if let Some(port) = self.builder.port {
            let first = self.addrs.first().map_or(port, SocketAddr::port);
            let mut addrs: Vec<SocketAddr> = Vec::new();
            for host in self.builder.bind.clone() {
                // Every address gets the same port, also when the first one chose it.
                let port = addrs.first().map_or(first, SocketAddr::port);
                // As in the references, an address behind a dash may be missing on this machine.
                let (host, optional) = match host.strip_prefix('-') {
                    Some(host) => (host, true),
                    None => (host.as_str(), false),
                };
                match bind_tcp(host, port, self.builder.config.int("tcp-backlog")) {
                    Ok(listener) => {
                        addrs.push(listener.local_addr()?);
                        self.accept_tcp(listener)?;
                    }
                    Err(error) if optional => {
                        tracing::debug!(host, %error, "an optional address is left out");
                    }
                    Err(error) => {
                        let text = format!("cannot listen on {host}:{port}: {error}");
                        return Err(io::Error::new(error.kind(), text));
                    }
                }
            }
            self.addrs = addrs;
        }
        if let Some(path) = self.builder.unix_socket.clone() {
            self.accept_unix(&path)?;
        }
        self.publish_settings();
        Ok(())
    }

    /// Lets CONFIG and INFO show where the server really listens.
    fn publish_settings(&self) {
        let port = self.addrs.first().map_or(0, SocketAddr::port);
        let socket = self.builder.unix_socket.as_deref().unwrap_or(Path::new(""));
        let mut engine = self.shared.lock();
        for (name, value) in [
            ("bind", self.builder.bind.join(" ")),
            ("io-threads", self.builder.io_threads.to_string()),
            ("port", port.to_string()),
            ("unixsocket", socket.display().to_string()),
        ] {
            // A value that was used cannot be refused, but for more threads than the table has.
            let _ = engine.config.set(name, &value);
        }
    }

    fn accept_tcp(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let (stop, stopped) = self.stop_signal();
        let shared = self.shared.clone();
        let laddr = listener.local_addr()?.to_string();
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        let _entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        runtime.spawn(until(stop, stopped, async move {
            let mut reserve = Reserve::new();
            loop {
                match listener.accept().await {
                    Ok((stream, addr)) => {
                        reserve.restore();
                        if let Some(refusal) = prepare(&shared, &stream, addr) {
                            refuse(stream, refusal);
                            continue;
                        }
                        let socket = number_of(&stream);
                        admit(stream, socket, &shared, addr.to_string(), laddr.clone());
                    }
                    Err(error) => reserve.turn_away(&error, &shared, listener.accept()).await,
                }
            }
        }));
        Ok(())
    }

    #[cfg(unix)]
    fn accept_unix(&mut self, path: &Path) -> io::Result<()> {
        let _ = std::fs::remove_file(path);
        let named = |error: io::Error| {
            let text = format!("cannot listen on {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        };
        let listener = std::os::unix::net::UnixListener::bind(path).map_err(named)?;
        let mode = u32::from_str_radix(self.builder.config.get("unixsocketperm"), 8).unwrap_or(0);
        if mode != 0 {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        listener.set_nonblocking(true)?;
        let (stop, stopped) = self.stop_signal();
        let shared = self.shared.clone();
        let addr = format!("{}:0", path.display());
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        let _entered = runtime.enter();
        let listener = tokio::net::UnixListener::from_std(listener)?;
        runtime.spawn(until(stop, stopped, async move {
            let mut reserve = Reserve::new();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        reserve.restore();
                        let socket = number_of(&stream);
                        admit(stream, socket, &shared, addr.clone(), addr.clone());
                    }
                    Err(error) => reserve.turn_away(&error, &shared, listener.accept()).await,
                }
            }
        }));
        Ok(())
    }

    #[cfg(not(unix))]
    fn accept_unix(&mut self, _path: &Path) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "no Unix sockets on this system",
        ))
    }

    fn stop_signal(&mut self) -> (oneshot::Receiver<()>, std::sync::mpsc::Sender<()>) {
        let (stop, stopping) = oneshot::channel();
        let (stopped, wait) = std::sync::mpsc::channel();
        self.accepting.get_mut().push((stop, wait));
        (stopping, stopped)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A script that runs would hold everything up.
        let _ = self
            .shared
            .script
            .kill(crate::command::scripting::Killer::Shutdown);
        self.disconnect_all();
        if let Some(path) = &self.builder.unix_socket {
            let _ = std::fs::remove_file(path);
        }
        if let Some(runtime) = self.runtime.take() {
            // Does not wait: a server may be dropped inside another runtime.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("addrs", &self.addrs)
            .finish_non_exhaustive()
    }
}

/// Runs a task that never ends until the signal, and drops `stopped` with all that it held.
async fn until(
    stop: oneshot::Receiver<()>,
    stopped: std::sync::mpsc::Sender<()>,
    task: impl Future<Output = ()>,
) {
    {
        let mut task = std::pin::pin!(task);
        let mut stop = std::pin::pin!(stop);
        std::future::poll_fn(|context| {
            if stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            task.as_mut().poll(context)
        })
        .await;
    }
    drop(stopped);
}

/// A listener with a backlog of its own; an IPv6 address takes IPv6 connections only.
fn bind_tcp(host: &str, port: u16, backlog: i64) -> io::Result<TcpListener> {
    use socket2::{Domain, Socket, Type};
    let host = match host {
        "*" => "0.0.0.0",
        "::*" => "::",
        host => host,
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for addr in (host, port).to_socket_addrs()? {
        let bound = Socket::new(Domain::for_address(addr), Type::STREAM, None).and_then(|socket| {
            if cfg!(unix) {
                socket.set_reuse_address(true)?;
            }
            if addr.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.bind(&addr.into())?;
            socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
            Ok(socket.into())
        });
        match bound {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sets a new socket up as the settings say; tells why it is refused, if it is.
fn prepare(
    shared: &Shared,
    stream: &tokio::net::TcpStream,
    addr: SocketAddr,
) -> Option<&'static str> {
    // Replies are small and are written whole; waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let (keep_alive, open) = match shared.lock_unless_busy() {
        Some(engine) => {
            let hot = &engine.config.hot;
            let open = hot.protected_mode && engine.users.default_needs_no_password();
            (hot.tcp_keepalive, open)
        }
        None => (0, !shared.auth_required.load(Ordering::Relaxed)),
    };
    if keep_alive > 0 {
        let time = Duration::from_secs(keep_alive);
        let settings = socket2::TcpKeepalive::new().with_time(time);
        let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&settings);
    }
    (open && !addr.ip().to_canonical().is_loopback()).then_some(
        "-DENIED protected mode: without a password only this machine may connect. \
        Set requirepass, or protected-mode to no if the network is trusted.\r\n",
    )
}

/// Tells a new connection why it is not wanted, and ends it.
fn refuse(mut stream: impl connection::Stream + 'static, text: &'static str) {
    tokio::spawn(async move {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes()).await;
    });
}

/// Has another thread take over what this one would do besides the script that it runs, so that
/// whoever wants to end the script is heard.
fn hand_worker_over() {
    const PATIENCE: Duration = Duration::from_secs(1);
    // A test may run a script on a thread of its own, which nobody else waits for.
    let runtime = tokio::runtime::Handle::try_current();
    let flavor = runtime.map(|runtime| runtime.runtime_flavor());
    if !flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread) {
        return;
    }
    tokio::task::block_in_place(|| {
        // A task that runs meanwhile proves that the worker was taken over; it is not taken back.
        let (taken_over, wait) = std::sync::mpsc::channel();
        tokio::spawn(async move { taken_over.send(()) });
        let _ = wait.recv_timeout(PATIENCE);
    });
}

/// The system's number for a socket, which CLIENT LIST shows.
#[cfg(unix)]
fn number_of(stream: &impl std::os::fd::AsRawFd) -> Option<i32> {
    Some(stream.as_raw_fd())
}

#[cfg(not(unix))]
fn number_of<S>(_stream: &S) -> Option<i32> {
    None
}

/// Gives a new connection its task, unless there are too many.
fn admit(
    stream: impl connection::Stream + 'static,
    socket: Option<i32>,
    shared: &Arc<Shared>,
    addr: String,
    laddr: String,
) {
    let shared = shared.clone();
    if shared.is_full() {
        return refuse(stream, "-ERR max number of clients reached\r\n");
    }
    tracing::debug!(%addr, "a client connects");
    let handle = Arc::new(shared.new_handle(false).with_socket(socket));
    tokio::spawn(connection::serve(stream, shared, handle, addr, laddr));
}

/// A file descriptor kept for the time when the process has no other left. Accepting fails then,
/// and whoever wants in would wait without a word: with this one they are let in and out again.
struct Reserve {
    file: Option<File>,
    /// Nobody is told of the same shortage twice.
    told: bool,
}

impl Reserve {
    fn new() -> Reserve {
        Reserve {
            file: Self::open(),
            told: false,
        }
    }

    fn open() -> Option<File> {
        File::open("/dev/null").ok()
    }

    /// There are descriptors again.
    fn restore(&mut self) {
        if self.file.is_none() || self.told {
            *self = Self::new();
        }
    }

    /// Ends the connection that could not be accepted. Where that fails too, trying again at once
    /// would only burn the time of those that are served.
    async fn turn_away<S>(
        &mut self,
        error: &io::Error,
        shared: &Shared,
        next: impl Future<Output = io::Result<S>>,
    ) {
        const PAUSE: Duration = Duration::from_millis(50);
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(%error, "connections cannot be accepted");
        }
        self.file = None;
        // Not awaited: while the reserve is given up, something else could take it.
        let mut next = std::pin::pin!(next);
        let accepted = std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context)));
        match accepted.await {
            Poll::Ready(Ok(stream)) => {
                drop(stream);
                self.file = Self::open();
                if let Some(mut engine) = shared.lock_unless_busy() {
                    engine.stats.rejected_connections += 1;
                }
            }
            Poll::Ready(Err(_)) => {
                tokio::time::sleep(PAUSE).await;
                self.file = Self::open();
            }
            // The system says so too when there is nobody to be accepted.
            Poll::Pending => self.file = Self::open(),
        }
    }
}

/// The timer: wakes at the next deadline and does what is due, in turns.
async fn keep_time(shared: Arc<Shared>) {
    loop {
        let (done, next) = shared.tick();
        if !done {
            tokio::task::yield_now().await;
            continue;
        }
        let now = shared.clock.now();
        let sleep = match next {
            // A frozen clock reaches no deadline by itself.
            Some(next) if !shared.clock.is_frozen() => {
                Duration::from_micros(next.micros().saturating_sub(now.micros())).min(SLEEP_MAX)
            }
            _ => SLEEP_MAX,
        };
        let _ = tokio::time::timeout(sleep, shared.timer.notified()).await;
    }
}
