//! One client's task: read, lock the engine once for all whole requests, write once.
//!
//! Nothing is awaited while the engine is locked. A client that leaves too many replies unread is
//! not read from either, so what it can make us keep is bounded; what others send it is bounded
//! by the engine. The task wakes for the socket, or when the engine signals its handle.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    sync::oneshot,
};

use crate::{
    ahead,
    engine::{Engine, Flow},
    error::Error,
    reply::{Protocol, Reply},
    resp::{Decoder, Encoder, Limits, ProtocolError},
    session::{ClientId, Handle, Session},
    shared::Shared,
    visits::Visit,
};

/// How much room each read is given, in bytes.
const READ_SIZE: usize = 16 * 1024;
/// A client that waits, or whose request is held back, is read ahead by so many bytes.
const READ_AHEAD_MAX: usize = 1 << 20;
/// Replies that a client may leave unread and still be read from. Many a client library sends the
/// whole of a pipeline before it reads the first reply: that of a million requests has room.
const UNREAD_MAX: usize = 256 << 20;
/// One turn at the engine ends after so many requests, or so many bytes of replies.
const BATCH_REQUESTS: usize = 128;
const BATCH_REPLY_BYTES: usize = 256 * 1024;
/// A buffer larger than this is given back once it is empty.
const BUFFER_KEPT: usize = 4 * 1024;

/// A stream of either kind that a client may come by.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Serves one client until either side ends the connection.
pub async fn serve(
    stream: impl Stream,
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    addr: String,
    laddr: String,
) {
    let leave = Leave {
        shared: shared.clone(),
        handle: handle.clone(),
        id: None,
    };
    let mut connection = Connection {
        stream,
        shared,
        handle,
        joining: Some((addr, laddr)),
        leave,
        protocol: Protocol::Resp2,
        input: BytesMut::new(),
        decoder: Decoder::default(),
        output: Vec::new(),
        written: 0,
        state: State::Open,
        authenticated: false,
        told: 0,
        delayed: false,
        counted: 0,
        more: false,
        ended: false,
    };
    let shared = connection.shared.clone();
    if let Some(mut engine) = shared.lock_unless_busy() {
        connection.join(&mut engine);
        shared.unlock(engine);
    }
    connection.run().await;
}

/// Tells the engine that a client is gone, also when its task is dropped half-way.
struct Leave {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    /// None for one that the engine does not know yet.
    id: Option<ClientId>,
}

impl Leave {
    fn disconnect(&self, id: ClientId, engine: &mut Engine) {
        // Where all connections were ended, those of another runtime may outlive the engine, and
        // their numbers be given anew.
        if !(self.handle.foreign && self.shared.is_ended(&self.handle)) {
            engine.disconnect(id);
            self.shared.clients.remove(&id.number);
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        if let Some(mut engine) = self.shared.lock_unless_busy() {
            self.disconnect(id, &mut engine);
            return self.shared.unlock(engine);
        }
        // A script has the engine to itself, which it lets in between.
        let later = Leave {
            shared: self.shared.clone(),
            handle: self.handle.clone(),
            id: None,
        };
        let mut visit: Visit = Box::new(move |engine| later.disconnect(id, engine));
        // Between a script's end and the end of the visits neither way may be open for a moment.
        while let Err(refused) = self.shared.visits.leave(visit) {
            if let Some(mut engine) = self.shared.lock_unless_busy() {
                self.disconnect(id, &mut engine);
                return self.shared.unlock(engine);
            }
            visit = refused;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A request waits for a key, or is held back; the engine will signal.
    Held,
    /// What is left to write is written, then the connection ends.
    Closing,
}

struct Connection<S> {
    stream: S,
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    /// The addresses of a client that the engine does not know yet.
    joining: Option<(String, String)>,
    leave: Leave,
    /// What the client spoke last.
    protocol: Protocol,
    input: BytesMut,
    decoder: Decoder,
    output: Vec<u8>,
    written: usize,
    state: State,
    authenticated: bool,
    /// How many messages the last turn left for others.
    told: u32,
    /// The next request already had its injected delay.
    delayed: bool,
    /// How much of the next request is in the statistics already, in bytes.
    counted: usize,
    /// Whole requests are left for the next turn.
    more: bool,
    /// The client has closed its side.
    ended: bool,
}

thread_local! {
    /// The read buffer that the last client to fall idle on this thread has left.
    static SPARE_INPUT: Cell<BytesMut> = Cell::default();
}

/// What a wait for the socket or the engine came to.
enum Wake {
    Read,
    Signal,
    Over,
}

/// Waits out an injected delay; whether the connection was killed meanwhile.
async fn killed_within(handle: &Handle, delay: Duration) -> bool {
    let killed = poll_fn(|context| {
        handle.register(context.waker());
        if handle.is_killed() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    tokio::time::timeout(delay, killed).await.is_ok()
}

/// Lets those run that are ready, and no more: Tokio's own yield also looks at every socket.
async fn step_back() {
    let mut stepped = false;
    poll_fn(|context| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<S: Stream> Connection<S> {
    async fn run(&mut self) {
        loop {
            if let Some(delay) = self.take_turns().await {
                if killed_within(&self.handle, delay).await {
                    return;
                }
                self.delayed = true;
                continue;
            }
            // Who was told something alone may have waited long for it, so it goes first.
            if std::mem::take(&mut self.told) == 1 {
                step_back().await;
            }
            match poll_fn(|context| self.poll(context)).await {
                Wake::Read | Wake::Signal => {}
                Wake::Over => return,
            }
        }
    }

    /// Executes what has come in, a bounded batch at a time, while the client takes the replies.
    async fn take_turns(&mut self) -> Option<Duration> {
        loop {
            let mut turn = self.turn();
            if let Turn::Visit = turn {
                turn = self.visit().await;
            }
            self.more = matches!(turn, Turn::More);
            if let Turn::Delay(delay) = turn {
                return Some(delay);
            }
            if !self.more {
                return None;
            }
            let goes_on = poll_fn(|context| match self.poll_write(context) {
                Poll::Ready(written) => Poll::Ready(written.is_ok()),
                Poll::Pending => Poll::Ready(self.output.len() <= UNREAD_MAX),
            });
            if !goes_on.await {
                return None;
            }
            tokio::task::yield_now().await;
        }
    }

    /// One turn at the engine.
    fn turn(&mut self) -> Turn {
        let first = self.decode();
        let signaled = self.handle.has_signal();
        let shared = self.shared.clone();
        let too_long = self.input.len() > shared.query_buffer_max.load(Ordering::Relaxed);
        self.note_unread(&first);
        if !signaled && matches!(first, Ok(None)) && !too_long {
            return Turn::Done;
        }
        let Some(mut engine) = shared.lock_unless_busy() else {
            return Turn::Visit;
        };
        self.handle.take_signal();
        self.join(&mut engine);
        let id = self.leave.id.filter(|_| !shared.is_ended(&self.handle));
        let Some(mut session) = id.and_then(|id| engine.sessions.take(id)) else {
            self.state = State::Closing;
            return Turn::Done;
        };
        let before = self.output.len();
        self.output.append(&mut session.outbox);
        if self.state == State::Held && session.waiting.is_none() && !session.postponed {
            self.state = State::Open;
        }
        if shared.stopping.load(Ordering::Acquire) {
            self.state = State::Closing;
        } else if too_long && matches!(first, Ok(None)) {
            engine.stats.query_limit_disconnections += 1;
            self.output.clear();
            self.state = State::Closing;
        }
        let before_in = session.bytes_in;
        engine.told = 0;
        let turn = self.batch(&mut engine, &mut session, first);
        let second = engine.keys.now().seconds();
        engine
            .stats
            .bytes_in
            .add(session.bytes_in - before_in, second);
        self.told = engine.told;
        self.authenticated = session.authenticated;
        self.protocol = session.protocol;
        let grown = self.output.len().saturating_sub(before) as u64;
        session.bytes_out += grown;
        let now = engine.keys.now().seconds();
        engine.stats.bytes_out.add(grown, now);
        engine.sessions.put(session);
        shared.unlock(engine);
        self.note_unwritten();
        turn
    }

    /// Makes the client known, once.
    fn join(&mut self, engine: &mut Engine) {
        let Some((addr, laddr)) = self.joining.take() else {
            return;
        };
        if self.shared.is_ended(&self.handle) {
            self.handle.kill();
            return;
        }
        let id = engine.connect(self.handle.clone(), addr, laddr);
        self.authenticated = engine.is_open();
        self.shared.clients.insert(id.number, self.handle.clone());
        self.leave.id = Some(id);
    }

    /// A turn while a script has the engine to itself, which lets the requests in.
    async fn visit(&mut self) -> Turn {
        let shared = self.shared.clone();
        let request = match self.decode() {
            _ if self.state != State::Open => None,
            Ok(request) => request,
            Err(error) => {
                self.refuse(error, self.protocol);
                return Turn::Done;
            }
        };
        if self.joining.is_some() && shared.is_ended(&self.handle) {
            self.handle.kill();
            return Turn::Done;
        }
        let too_long = self.input.len() > shared.query_buffer_max.load(Ordering::Relaxed);
        if shared.stopping.load(Ordering::Acquire) || too_long && request.is_none() {
            self.state = State::Closing;
            return Turn::Done;
        }
        let visitor = self.visitor(request);
        let (answer, answered) = oneshot::channel();
        let visit = move |engine: &mut Engine| drop(answer.send(visitor.visit(engine)));
        if shared.visits.leave(Box::new(visit)).is_err() {
            return Turn::More;
        }
        let Ok(Some(visited)) = answered.await else {
            return Turn::More;
        };
        if self.joining.take().is_some() {
            shared
                .clients
                .insert(visited.id.number, self.handle.clone());
            self.leave.id = Some(visited.id);
        }
        self.authenticated = visited.authenticated;
        self.protocol = visited.protocol;
        self.delayed = false;
        self.output.extend_from_slice(&visited.output);
        if visited.gone {
            self.follow(Flow::Drop, 0);
            return Turn::Done;
        }
        let mut turn = if request.is_some() {
            Turn::More
        } else {
            Turn::Done
        };
        for (flow, len) in visited.flows {
            if let Some(end) = self.follow(flow, len) {
                turn = end;
            }
        }
        self.note_unwritten();
        turn
    }

    /// What is to be done for the client within the script that runs.
    fn visitor(&mut self, first: Option<usize>) -> Visitor {
        self.handle.take_signal();
        let mut requests = Vec::new();
        if let Some(len) = first {
            requests.push(Letter::new(&self.decoder.args(&self.input), len));
            self.copy_following(len, &mut requests);
        }
        Visitor {
            id: self.leave.id,
            handle: self.handle.clone(),
            joining: self.joining.clone(),
            requests,
            delayed: self.delayed,
        }
    }

    /// Copies the whole requests that follow the first one, as many as a turn takes.
    fn copy_following(&self, first: usize, requests: &mut Vec<Letter>) {
        let mut rest = &self.input[first..];
        let mut decoder = Decoder::default();
        while requests.len() < BATCH_REQUESTS {
            // What is wrong with one is said when it is its turn.
            let Ok(Some(len)) = decoder.decode(rest, self.limits()) else {
                return;
            };
            requests.push(Letter::new(&decoder.args(rest), len));
            decoder.next();
            rest = &rest[len..];
        }
    }

    fn batch(
        &mut self,
        engine: &mut Engine,
        session: &mut Session,
        first: Result<Option<usize>, ProtocolError>,
    ) -> Turn {
        let mut next = first;
        let replies_from = self.output.len();
        for _ in 0..BATCH_REQUESTS {
            if self.state != State::Open {
                return Turn::Done;
            }
            let len = match next {
                Ok(Some(len)) => len,
                Ok(None) => return Turn::Done,
                Err(error) => {
                    self.refuse(error, session.protocol);
                    return Turn::Done;
                }
            };
            if self.decoder.leads_others() {
                let (db, before) = (session.db, session.last_command);
                ahead::warm(&engine.keys, db, before, &self.decoder, &self.input);
            }
            session.bytes_in += (len - std::mem::take(&mut self.counted)) as u64;
            let flow = self.one(engine, session);
            if let Some(turn) = self.follow(flow, len) {
                return turn;
            }
            if self.output.len() - replies_from > BATCH_REPLY_BYTES {
                return Turn::More;
            }
            self.authenticated = session.authenticated;
            next = self.decode();
        }
        Turn::More
    }

    /// What becomes of the connection after a request; a turn that ends with it.
    fn follow(&mut self, flow: Flow, len: usize) -> Option<Turn> {
        match flow {
            Flow::Continue => self.consume(len),
            Flow::Wait => {
                self.consume(len);
                self.state = State::Held;
            }
            // It comes again, and is counted already.
            Flow::Postpone => {
                self.counted = len;
                self.state = State::Held;
            }
            Flow::Delay(delay) => {
                self.counted = len;
                return Some(Turn::Delay(delay));
            }
            Flow::Close => {
                self.state = State::Closing;
                return Some(Turn::Done);
            }
            Flow::Drop => {
                self.output.clear();
                self.state = State::Closing;
                self.handle.kill();
                return Some(Turn::Done);
            }
        }
        None
    }

    /// Says what is wrong with the input, and ends the connection.
    fn refuse(&mut self, ProtocolError(text): ProtocolError, protocol: Protocol) {
        Encoder::new(&mut self.output, protocol).error(&Error::owned(text));
        self.input.clear();
        self.state = State::Closing;
    }

    fn one(&mut self, engine: &mut Engine, session: &mut Session) -> Flow {
        let args = self.decoder.args(&self.input);
        if args.is_empty() {
            return Flow::Continue;
        }
        let delayed = std::mem::take(&mut self.delayed);
        engine.execute(session, &args, &mut self.output, delayed)
    }

    fn consume(&mut self, len: usize) {
        self.decoder.next();
        self.input.advance(len);
    }

    fn decode(&mut self) -> Result<Option<usize>, ProtocolError> {
        let limits = self.limits();
        self.decoder.decode(&self.input, limits)
    }

    fn limits(&self) -> Limits {
        Limits {
            bulk_len: self.shared.bulk_len_max.load(Ordering::Relaxed),
            authenticated: self.authenticated,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Wake> {
        self.handle.register(context.waker());
        if self.handle.is_killed() {
            return Poll::Ready(Wake::Over);
        }
        match self.poll_write(context) {
            Poll::Ready(Err(_)) => return Poll::Ready(Wake::Over),
            Poll::Ready(Ok(())) if self.state == State::Closing => {
                return Poll::Ready(Wake::Over);
            }
            _ => {}
        }
        if self.handle.has_signal() || self.more && self.output.is_empty() {
            return Poll::Ready(Wake::Signal);
        }
        if self.ended {
            // Replies that are still to come belong to requests that a wait holds back, and
            // nobody is there any more to end it.
            let over = self.output.is_empty();
            return if over {
                Poll::Ready(Wake::Over)
            } else {
                Poll::Pending
            };
        }
        self.poll_read(context)
    }

    /// Reads more, if there is room for it and for the replies.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Wake> {
        let backlog = self.state == State::Held && self.input.len() >= READ_AHEAD_MAX;
        if backlog || self.state == State::Closing || self.output.len() > UNREAD_MAX {
            return Poll::Pending;
        }
        let wanted = self.decoder.wanted().saturating_sub(self.input.len());
        if self.input.capacity() == 0 {
            self.input = SPARE_INPUT.take();
        }
        self.input.reserve(wanted.clamp(READ_SIZE, READ_AHEAD_MAX));
        // The future holds nothing between two polls, so it may be made anew for each.
        let read = pin!(self.stream.read_buf(&mut self.input));
        match read.poll(context) {
            Poll::Ready(Ok(0)) => {
                self.ended = true;
                Poll::Ready(Wake::Read)
            }
            Poll::Ready(Ok(_)) => Poll::Ready(Wake::Read),
            Poll::Ready(Err(_)) => Poll::Ready(Wake::Over),
            Poll::Pending => {
                if self.input.is_empty() {
                    // An idle client holds no buffer: the next one that is read from takes it,
                    // still warm.
                    if self.input.capacity() <= 2 * READ_SIZE {
                        SPARE_INPUT.set(std::mem::take(&mut self.input));
                    }
                    self.input = BytesMut::new();
                    self.handle.input_room.store(0, Ordering::Relaxed);
                }
                Poll::Pending
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.output.len() {
            let rest = &self.output[self.written..];
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(len)) => self.written += len,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.note_unwritten();
                    return Poll::Pending;
                }
            }
        }
        self.written = 0;
        if self.output.capacity() > BUFFER_KEPT {
            self.output = Vec::new();
        } else {
            self.output.clear();
        }
        self.note_unwritten();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Lets CLIENT LIST know how much there is behind the request that is about to run.
    fn note_unread(&self, first: &Result<Option<usize>, ProtocolError>) {
        let first = first.as_ref().ok().and_then(|len| *len).unwrap_or(0);
        let room = self.input.capacity() - self.input.len();
        self.handle
            .unread
            .store(self.input.len() - first, Ordering::Relaxed);
        self.handle.input_room.store(room, Ordering::Relaxed);
    }

    fn note_unwritten(&self) {
        let unwritten = self.output.len() - self.written;
        self.handle.unwritten.store(unwritten, Ordering::Relaxed);
        self.handle
            .output_room
            .store(self.output.capacity(), Ordering::Relaxed);
    }
}

/// Requests that a running script lets in, or a look for what has come for the client.
struct Visitor {
    id: Option<ClientId>,
    handle: Arc<Handle>,
    /// The addresses of a client that the engine does not know yet.
    joining: Option<(String, String)>,
    requests: Vec<Letter>,
    /// The first of them already had its injected delay.
    delayed: bool,
}

/// A copy of a request, and its length on the wire.
struct Letter {
    args: Vec<Vec<u8>>,
    len: usize,
}

impl Letter {
    fn new(args: &[&[u8]], len: usize) -> Letter {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        Letter { args, len }
    }
}

/// What a visit came to.
struct Visited {
    id: ClientId,
    output: Vec<u8>,
    /// What followed from each request that was run, and its length; the last one may be the end
    /// of the turn.
    flows: Vec<(Flow, usize)>,
    /// The client was ended.
    gone: bool,
    protocol: Protocol,
    authenticated: bool,
}

impl Visitor {
    /// None when the script is over, so that the engine can be had as at other times.
    fn visit(self, engine: &mut Engine) -> Option<Visited> {
        if !engine.scripting.control.is_busy() {
            return None;
        }
        let id = match (self.id, self.joining) {
            (Some(id), _) => id,
            (None, joining) => {
                let (addr, laddr) = joining.unwrap_or_default();
                engine.connect(self.handle, addr, laddr)
            }
        };
        let mut visited = Visited {
            id,
            output: Vec::new(),
            flows: Vec::new(),
            gone: false,
            protocol: Protocol::Resp2,
            authenticated: false,
        };
        let Some(mut session) = engine.sessions.take(id) else {
            visited.gone = true;
            return Some(visited);
        };
        visited.output.append(&mut session.outbox);
        visited.run(engine, &mut session, &self.requests, self.delayed);
        visited.protocol = session.protocol;
        visited.authenticated = session.authenticated;
        engine.sessions.put(session);
        Some(visited)
    }
}

impl Visited {
    /// Runs the requests up to one that ends the turn.
    fn run(
        &mut self,
        engine: &mut Engine,
        session: &mut Session,
        requests: &[Letter],
        mut delayed: bool,
    ) {
        for Letter { args, len } in requests {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let flow = if args.is_empty() {
                Flow::Continue
            } else {
                engine.execute(
                    session,
                    &args,
                    &mut self.output,
                    std::mem::take(&mut delayed),
                )
            };
            session.bytes_in += *len as u64;
            self.flows.push((flow, *len));
            if flow != Flow::Continue || self.output.len() > BATCH_REPLY_BYTES {
                break;
            }
        }
        let came: usize = self.flows.iter().map(|(_, len)| len).sum();
        session.bytes_out += self.output.len() as u64;
        let second = engine.keys.now().seconds();
        engine.stats.bytes_in.add(came as u64, second);
        engine.stats.bytes_out.add(self.output.len() as u64, second);
    }
}

/// What a turn at the engine came to.
enum Turn {
    /// A script has the engine to itself, and has to be asked.
    Visit,
    /// Nothing more can be done before the socket or the engine wakes the task.
    Done,
    /// There are more requests; others get their turn first.
    More,
    /// The next request is to be offered again after a delay.
    Delay(Duration),
}
