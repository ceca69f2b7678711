//! Concurrent clients under faults see what one client after the other could have seen; and the
//! check that says so is shown histories, bugs and worlds of which it must say no.

use std::sync::Arc;
use std::time::Duration;

use khoa::{Manager, ManualClock, Redlock};
use khoa_server::Server;
use khoa_tests::linearizability::checker::{History, Model, Verdict, check};
use khoa_tests::linearizability::client::Client;
use khoa_tests::linearizability::history::{Operation, Stamps};
use khoa_tests::linearizability::locks::{self, Register, Witness};
use khoa_tests::linearizability::program::{Bug, Release, Step};
use khoa_tests::linearizability::store::{Call, Command, Reply, Store, TICK_MS, When};
use khoa_tests::linearizability::{Campaign, Report};

fn campaign(seed: u64, histories: u64, bug: Option<Bug>) -> Report {
    let campaign = Campaign {
        seed,
        histories,
        times: 1,
        jobs: 2,
        bug,
    };
    campaign.run(|_, _| {})
}

/// The short form; the long one is `cargo run --release -p khoa-tests --bin linearizability`.
#[test]
fn every_history_is_linearizable() {
    let report = campaign(1, 60, None);
    for (seed, failure) in &report.failures {
        println!("seed {seed}: {failure}");
    }
    assert!(
        report.failures.is_empty(),
        "{} seeds",
        report.failures.len()
    );
    // Histories of nothing, or of one client after the other, would prove nothing.
    let of = |name| (report.store.of(name), report.locks.of(name));
    assert_eq!(of("histories"), (48, 12));
    let ((operations, held), (overlapped, _)) =
        (of("operations"), of("operations that overlapped another"));
    assert!(operations > 1000, "{operations}");
    assert!(held > 60, "{held}");
    assert!(overlapped > 300, "{overlapped}");
    assert!(report.store.of("operations nobody heard of") > 0);
}

#[test]
fn a_release_that_gets_and_then_deletes_is_found() {
    assert!(!campaign(1, 60, Some(Bug::GetThenDel)).failures.is_empty());
}

#[test]
fn an_acquisition_without_nx_is_found() {
    assert!(
        !campaign(1, 20, Some(Bug::AcquireWithoutNx))
            .failures
            .is_empty()
    );
}

fn server() -> Server {
    Server::builder().frozen().start().unwrap()
}

/// The interleaving that the first seeded bug is about, step by step: the lease ends between the
/// two steps of its release, and the next holder loses the lock.
fn late_release(by: Release) -> Verdict {
    let (server, stamps) = (server(), Stamps::default());
    let acquire = |token| Step::Acquire {
        key: 'a',
        token,
        ticks: 1,
        nx: true,
    };
    let mut next = Client::new(1, server.addr(), &stamps);
    let mut late = Client::new(0, server.addr(), &stamps);
    late.run(&acquire(1));
    let between = || {
        let invoked = stamps.next();
        server.advance(Duration::from_millis(TICK_MS));
        let tick = operation(2, Call::Tick, invoked, Some((stamps.next(), Reply::Ok)));
        next.run(&acquire(2));
        next.history.push(tick);
    };
    if by == Release::GetThenDel {
        late.between = Box::new(once(between));
    } else {
        once(between)();
    }
    late.run(&Step::Release {
        key: 'a',
        token: 1,
        by,
    });
    let mut history = std::mem::take(&mut late.history);
    drop(late);
    next.run(&Step::One(Command::Get('a')));
    history.append(&mut next.history);
    check(&Store, &history)
}

/// Does it the first time only.
fn once(work: impl FnOnce() + Send) -> impl FnMut() + Send {
    let mut work = Some(work);
    move || {
        if let Some(work) = work.take() {
            work();
        }
    }
}

#[test]
fn a_late_release_is_found_where_it_takes_the_next_holders_lock() {
    assert!(is_violation(&late_release(Release::GetThenDel)));
    for right in [Release::Script, Release::DelIfEq, Release::Watch] {
        assert!(!is_violation(&late_release(right)), "{right:?}");
    }
}

fn is_violation(verdict: &Verdict) -> bool {
    assert_ne!(*verdict, Verdict::Undecided);
    matches!(verdict, Verdict::Violation { .. })
}

fn operation<C, O>(
    client: usize,
    call: C,
    invoked: u64,
    returned: Option<(u64, O)>,
) -> Operation<C, O> {
    Operation {
        client,
        call,
        invoked,
        returned,
    }
}

// ---- Redlock where a server forgets ----

/// Five servers, and two clients that acquire one after the other: the first when only servers 0
/// to 2 answer, the second when only 2 to 4 do.
struct Five {
    servers: Vec<Server>,
    clock: ManualClock,
}

impl Five {
    fn start() -> Self {
        let servers = (0..5).map(|_| server()).collect();
        let clock = ManualClock::new();
        Self { servers, clock }
    }

    fn lock(&self) -> khoa::Lock {
        let managers = self.servers.iter().enumerate().map(|(index, server)| {
            let settings = Manager::builder().clock(self.clock.clock()).index(index);
            settings.open(server.url()).unwrap()
        });
        Redlock::new(managers).unwrap().lock("r")
    }

    fn only(&self, answer: [usize; 3]) {
        for (number, server) in self.servers.iter().enumerate() {
            server.clear_faults();
            if !answer.contains(&number) {
                server.fail_with("LOADING not yet");
            }
        }
    }

    /// Lets a whole lease pass.
    fn pass(&self) {
        let lease = Duration::from_secs(10);
        self.clock.advance(lease);
        for server in &self.servers {
            server.advance(lease);
        }
    }

    /// How many acquire, and whether what they see is found to be wrong.
    async fn both_acquire(&mut self, meanwhile: impl FnOnce(&mut Self)) -> (usize, bool) {
        let stamps = Arc::new(Stamps::default());
        let mut one = Witness::new(0, Arc::clone(&stamps));
        let mut other = Witness::new(1, stamps);
        self.only([0, 1, 2]);
        let first = one.acquire(&self.lock(), None).await.unwrap();
        meanwhile(self);
        self.only([2, 3, 4]);
        let second = other.acquire(&self.lock(), None).await;
        if let Some((id, guard)) = &second {
            assert!(other.work(*id, guard));
        }
        one.work(first.0, &first.1);
        let granted = 1 + usize::from(second.is_some());
        let history = [one.into_history(), other.into_history()].concat();
        (granted, is_violation(&check(&Register, &history)))
    }
}

#[tokio::test]
async fn two_holders_are_found_where_a_server_forgets_and_is_back_at_once() {
    let forgets = |five: &mut Five| five.servers[2].restart_empty().unwrap();
    assert_eq!(Five::start().both_acquire(forgets).await, (2, true));
}

#[tokio::test]
async fn a_server_that_forgets_and_stays_away_for_a_lease_does_no_harm() {
    let forgets = |five: &mut Five| {
        five.pass();
        five.servers[2].restart_empty().unwrap();
    };
    assert_eq!(Five::start().both_acquire(forgets).await, (2, false));
}

#[tokio::test]
async fn a_server_that_restarts_with_its_data_does_no_harm() {
    let restarts = |five: &mut Five| five.servers[2].restart().unwrap();
    assert_eq!(Five::start().both_acquire(restarts).await, (1, false));
}

// ---- Known good and bad histories ----

/// A history of one key, as (client, call, invoked, returned, reply).
fn history(rows: &[(usize, Call, u64, u64, Reply)]) -> Vec<Operation<Call, Reply>> {
    let row = |(client, call, invoked, end, reply): &(usize, Call, u64, u64, Reply)| {
        operation(*client, call.clone(), *invoked, Some((*end, reply.clone())))
    };
    rows.iter().map(row).collect()
}

fn get(key: char) -> Call {
    Call::One(Command::Get(key))
}

fn set(key: char, value: i64, when: When, ticks: Option<u64>) -> Call {
    Call::One(Command::Set {
        key,
        value,
        when,
        ticks,
    })
}

fn put(key: char, value: i64) -> Call {
    set(key, value, When::Always, None)
}

fn push(key: char, value: i64) -> Call {
    Call::One(Command::Push(key, value))
}

fn wait(id: u64, key: char, ticks: Option<u64>) -> Call {
    Call::Wait {
        id,
        from: vec![key],
        into: None,
        ticks,
    }
}

fn popped(key: char, value: i64) -> Reply {
    Reply::Many(vec![Reply::Key(key), Reply::Number(value)])
}

const fn number(number: i64) -> Reply {
    Reply::Number(number)
}

use Reply::{Nil, Ok as Done};

#[track_caller]
fn good(history: &[Operation<Call, Reply>]) {
    let verdict = check(&Store, history);
    let Verdict::Linearizable(orders) = verdict else {
        panic!("{verdict:?}")
    };
    for order in orders {
        explains(&Store, history, &order);
    }
}

#[track_caller]
fn bad(history: &[Operation<Call, Reply>]) {
    assert!(is_violation(&check(&Store, history)));
}

/// Whether an order is what the checker says that it is.
#[track_caller]
fn explains<M: Model>(model: &M, history: &History<M>, order: &[usize]) {
    let mut state = model.initial();
    for (place, &at) in order.iter().enumerate() {
        let seen = &history[at];
        let heard = seen.returned.as_ref().map(|(_, outcome)| outcome);
        state = model.step(&state, &seen.call, heard).expect("it fits");
        let later = order[place + 1..].iter();
        let overtaken = later.filter(|&&other| history[other].end() < seen.invoked);
        assert_eq!(overtaken.count(), 0, "{order:?}");
    }
}

#[test]
fn a_read_beside_a_write_may_see_either() {
    for seen in [Nil, number(1)] {
        good(&history(&[
            (0, put('a', 1), 0, 3, Done),
            (1, get('a'), 1, 2, seen),
        ]));
    }
}

#[test]
fn a_read_after_a_write_must_see_it() {
    bad(&history(&[
        (0, put('a', 1), 0, 1, Done),
        (1, get('a'), 2, 3, Nil),
    ]));
}

#[test]
fn two_reads_beside_a_write_may_not_see_the_old_value_last() {
    let reads = |first: Reply, second: Reply| {
        history(&[
            (0, put('a', 1), 0, 9, Done),
            (1, get('a'), 1, 2, first),
            (2, get('a'), 3, 4, second),
        ])
    };
    good(&reads(Nil, number(1)));
    bad(&reads(number(1), Nil));
}

#[test]
fn two_readers_may_not_disagree_on_the_order_of_two_writes() {
    // Both writes overlap everything; one reader sees 1 then 2, the other 2 then 1.
    let readers = |a: [i64; 2], b: [i64; 2]| {
        history(&[
            (0, put('a', 1), 0, 20, Done),
            (1, put('a', 2), 1, 21, Done),
            (2, get('a'), 2, 4, number(a[0])),
            (2, get('a'), 6, 8, number(a[1])),
            (3, get('a'), 3, 5, number(b[0])),
            (3, get('a'), 7, 9, number(b[1])),
        ])
    };
    good(&readers([1, 2], [1, 2]));
    bad(&readers([1, 2], [2, 1]));
}

#[test]
fn a_write_nobody_heard_of_may_come_late_or_never_but_not_twice() {
    let unknown = operation(0, put('a', 1), 0, None);
    let with = |rows: &[(usize, Call, u64, u64, Reply)]| {
        let mut all = history(rows);
        all.push(unknown.clone());
        all
    };
    good(&with(&[(1, get('a'), 2, 3, Nil)]));
    good(&with(&[
        (1, get('a'), 2, 3, Nil),
        (1, get('a'), 4, 5, number(1)),
    ]));
    bad(&with(&[
        (1, get('a'), 2, 3, number(1)),
        (1, put('a', 2), 4, 5, Done),
        (1, get('a'), 6, 7, number(1)),
    ]));
    // It cannot come before it was sent.
    let mut early = history(&[(1, get('a'), 0, 1, number(1))]);
    early.push(operation(0, put('a', 1), 2, None));
    bad(&early);
}

#[test]
fn of_two_acquisitions_side_by_side_one_is_granted() {
    let acquire = |token| set('a', token, When::Missing, Some(3));
    let both = |first: Reply, second: Reply| {
        history(&[(0, acquire(1), 0, 3, first), (1, acquire(2), 1, 2, second)])
    };
    good(&both(Done, Nil));
    good(&both(Nil, Done));
    bad(&both(Done, Done));
    bad(&both(Nil, Nil));
}

#[test]
fn a_lock_is_granted_again_at_its_deadline_and_no_tick_before() {
    let acquire = |token| set('a', token, When::Missing, Some(2));
    let after = |ticks: u64, granted: Reply| {
        let mut all = history(&[(0, acquire(1), 0, 1, Done)]);
        for tick in 1..=ticks {
            let at = 10 * tick;
            all.push(operation(9, Call::Tick, at, Some((at + 1, Done))));
        }
        all.push(operation(1, acquire(2), 90, Some((91, granted))));
        all
    };
    good(&after(1, Nil));
    bad(&after(1, Done));
    good(&after(2, Done));
    bad(&after(2, Nil));
}

#[test]
fn a_transaction_lets_nobody_see_half_of_it() {
    let halves = Call::Together(vec![Command::Increment('a'), Command::Increment('b')]);
    let seen = |a: Reply, b: Reply| {
        let both = Call::Together(vec![Command::Get('a'), Command::Get('b')]);
        history(&[
            (
                0,
                halves.clone(),
                0,
                9,
                Reply::Many(vec![number(1), number(1)]),
            ),
            (1, both, 1, 8, Reply::Many(vec![a, b])),
        ])
    };
    good(&seen(Nil, Nil));
    good(&seen(number(1), number(1)));
    bad(&seen(number(1), Nil));
    bad(&seen(Nil, number(1)));
}

#[test]
fn keys_that_a_transaction_ties_together_are_checked_together() {
    // Each key by itself has an order, and both have not.
    let both = Call::Together(vec![Command::Get('a'), Command::Get('b')]);
    let nothing = Reply::Many(vec![Nil, number(1)]);
    let mut all = history(&[(0, put('a', 1), 0, 1, Done), (0, put('b', 1), 2, 3, Done)]);
    good(&all);
    all.push(operation(1, both, 0, Some((9, nothing))));
    bad(&all);
}

/// A blocking pop with its two ends.
fn pop(
    id: u64,
    key: char,
    ticks: Option<u64>,
    from: u64,
    to: u64,
    reply: Reply,
) -> Vec<Operation<Call, Reply>> {
    let client = id as usize;
    history(&[
        (client, wait(id, key, ticks), from, to, reply.clone()),
        (client, Call::Leave(id), from, to, reply),
    ])
}

#[test]
fn those_who_wait_are_served_in_the_order_in_which_they_came() {
    let served = |first: i64, second: i64| {
        let mut all = pop(1, 'q', None, 0, 20, popped('q', first));
        // It waits before the other one comes: a push and a pop in between found the list empty.
        all.extend(pop(2, 'q', None, 5, 21, popped('q', second)));
        all.extend(history(&[
            (3, push('q', 7), 10, 11, number(1)),
            (3, push('q', 8), 12, 13, number(1)),
        ]));
        all
    };
    // They came side by side, so either may have been first.
    good(&served(7, 8));
    good(&served(8, 7));
    bad(&served(7, 7));
    let first_ends_early = |value: i64| {
        let mut all = pop(1, 'q', None, 0, 20, popped('q', value));
        all.extend(history(&[(3, push('q', 7), 10, 11, number(1))]));
        all.extend(pop(2, 'q', None, 12, 21, popped('q', 8)));
        all.extend(history(&[(3, push('q', 8), 14, 15, number(1))]));
        all
    };
    good(&first_ends_early(7));
    bad(&first_ends_early(8));
}

#[test]
fn a_wait_ends_with_its_time_and_not_while_there_is_something() {
    let tick = |at: u64| operation(9, Call::Tick, at, Some((at + 1, Done)));
    let mut in_time = pop(1, 'q', Some(2), 0, 30, Nil);
    in_time.push(tick(10));
    bad(&in_time);
    in_time.push(tick(20));
    good(&in_time);
    let mut full = history(&[(3, push('q', 7), 0, 1, number(1))]);
    full.extend(pop(1, 'q', Some(1), 2, 30, Nil));
    full.push(tick(10));
    bad(&full);
}

#[test]
fn one_whose_connection_went_takes_at_most_one_element() {
    let left = |length: i64| {
        let mut all = vec![
            operation(1, wait(1, 'q', None), 0, None),
            operation(1, Call::Depart(1), 0, None),
        ];
        all.extend(history(&[
            (3, push('q', 7), 10, 11, number(1)),
            (3, push('q', 8), 12, 13, number(length)),
            (3, Call::One(Command::Length('q')), 14, 15, number(length)),
        ]));
        all
    };
    good(&left(2));
    good(&left(1));
    bad(&left(0));
}

#[test]
fn what_was_lost_in_a_restart_is_gone_for_all() {
    let after = |seen: Reply| {
        history(&[
            (0, put('a', 1), 0, 1, Done),
            (9, Call::Forget, 2, 5, Done),
            (0, get('a'), 6, 7, seen),
        ])
    };
    good(&after(Nil));
    bad(&after(number(1)));
}

#[test]
fn a_lock_has_one_holder_and_its_tokens_rise() {
    use locks::Call::{Acquire, End, Work};
    let world = |fences: [u64; 2], last: u64| {
        vec![
            operation(0, Acquire(1), 0, Some((1, fences[0]))),
            operation(0, Work(1), 2, Some((3, 0))),
            operation(0, End(1), 0, None),
            operation(1, Acquire(2), 4, Some((8, fences[1]))),
            operation(1, End(2), 4, None),
            operation(0, Work(1), last, Some((last + 1, 0))),
        ]
    };
    let verdict = |history: &[_]| is_violation(&check(&Register, history));
    assert!(!verdict(&world([1, 2], 5)));
    // It still worked when the other had been granted.
    assert!(verdict(&world([1, 2], 9)));
    assert!(verdict(&world([2, 2], 5)));
}
