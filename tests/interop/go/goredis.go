package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const goRedisPackage = "github.com/redis/go-redis/v9"

// goRedisStories plays both articles: the lock with its three measured scenarios, then the five techniques.
var goRedisStories = []scenario{
	{goRedisPackage, "handshake", handshake},
	{goRedisPackage, "lock: exclusion", exclusion},
	{goRedisPackage, "lock: safe release", safeRelease},
	{goRedisPackage, "lock: contention", contention},
	{goRedisPackage, "lock: lease", lease},
	{goRedisPackage, "WATCH/MULTI counter", optimisticCounter},
	{goRedisPackage, "LPUSH/BRPOP queue", workerQueue},
	{goRedisPackage, "INCR/EXPIRE rate limit", rateLimit},
	{goRedisPackage, "pub/sub", publishSubscribe},
	{goRedisPackage, "typical use", goRedisTypicalUse},
}

// releaseScript deletes the lock only while it still carries the caller's token.
var releaseScript = redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

// renewScript gives the lock a new life of ARGV[2] milliseconds, only for its holder.
var renewScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

// holder is one contender for one lock, known by its token.
type holder struct {
	db    *redis.Client
	key   string
	token string
}

func (h holder) acquire(ctx context.Context, ttl time.Duration) (bool, error) {
	return h.db.SetNX(ctx, h.key, h.token, ttl).Result()
}

func (h holder) release(ctx context.Context) (int64, error) {
	return releaseScript.Run(ctx, h.db, []string{h.key}, h.token).Int64()
}

func (h holder) renew(ctx context.Context, ttl time.Duration) (int64, error) {
	return renewScript.Run(ctx, h.db, []string{h.key}, h.token, ttl.Milliseconds()).Int64()
}

func handshake(p *probe) {
	for protocol := 2; protocol <= 3; protocol++ {
		db := redis.NewClient(&redis.Options{Addr: p.addr, Protocol: protocol, ClientName: "khoa-interop"})
		p.equal(fmt.Sprintf("PING over RESP%d", protocol), got(db.Ping(p.ctx).Result()), "PONG")
		name := got(db.ClientGetName(p.ctx).Result())
		p.equal(fmt.Sprintf("the client's name is kept over RESP%d", protocol), name, "khoa-interop")
		must(db.Close())
	}
	db := redis.NewClient(&redis.Options{Addr: p.addr, DB: 3})
	defer db.Close()
	must(db.Set(p.ctx, p.key("db"), "three", time.Minute).Err())
	zero := p.goRedis()
	defer zero.Close()
	p.fails("a key of database 3 is not seen in database 0", zero.Get(p.ctx, p.key("db")).Err(), redis.Nil)
	must(db.Del(p.ctx, p.key("db")).Err())
}

func exclusion(p *probe) {
	db := p.goRedis()
	defer db.Close()
	a := holder{db, p.key("lock"), "token-a"}
	b := holder{db, p.key("lock"), "token-b"}
	p.equal("A acquires the free lock", got(a.acquire(p.ctx, 5*time.Second)), true)
	p.equal("B is refused while A holds it", got(b.acquire(p.ctx, 5*time.Second)), false)
	p.equal("A's release deletes it", got(a.release(p.ctx)), 1)
	p.equal("B acquires it after that", got(b.acquire(p.ctx, 5*time.Second)), true)
	p.equal("B's release deletes it", got(b.release(p.ctx)), 1)
}

func safeRelease(p *probe) {
	db := p.goRedis()
	defer db.Close()
	owner := holder{db, p.key("lock"), "the owner's token"}
	stranger := holder{db, p.key("lock"), "a stranger's token"}
	must(db.ScriptFlush(p.ctx).Err())
	got(owner.acquire(p.ctx, 5*time.Second))
	p.equal("a release with the wrong token answers 0", got(stranger.release(p.ctx)), 0)
	p.equal("and leaves the lock with its holder", got(db.Get(p.ctx, owner.key).Result()), owner.token)
	p.equal("EVALSHA fell back to EVAL once and left the script in the cache",
		got(releaseScript.Exists(p.ctx, db).Result()), []bool{true})
	p.equal("a release with the right token answers 1", got(owner.release(p.ctx)), 1)
	p.equal("a second release answers 0", got(owner.release(p.ctx)), 0)
	naiveReleaseFails(p, db)
}

// naiveReleaseFails shows the gap between GET and DEL, in the order in which it does harm.
func naiveReleaseFails(p *probe, db *redis.Client) {
	slow := holder{db, p.key("gap"), "slow"}
	next := holder{db, p.key("gap"), "next"}
	got(slow.acquire(p.ctx, 30*time.Millisecond))
	seen := got(db.Get(p.ctx, slow.key).Result())
	for !got(next.acquire(p.ctx, 5*time.Second)) {
		time.Sleep(2 * time.Millisecond)
	}
	p.equal("the script spares the next holder", got(slow.release(p.ctx)), 0)
	if seen == slow.token {
		must(db.Del(p.ctx, slow.key).Err())
	}
	p.equal("GET then DEL deletes the next holder's lock", got(db.Exists(p.ctx, next.key).Result()), 0)
}

func contention(p *probe) {
	db := p.goRedis()
	defer db.Close()
	var cs section
	together(50, func(worker int) error {
		h := holder{db, p.key("lock"), "worker-" + strconv.Itoa(worker)}
		for {
			ok, err := h.acquire(p.ctx, 10*time.Second)
			if err != nil {
				return err
			}
			if ok {
				break
			}
			time.Sleep(3 * time.Millisecond)
		}
		cs.pass()
		n, err := h.release(p.ctx)
		if err == nil && n != 1 {
			err = fmt.Errorf("worker %d lost its lock", worker)
		}
		return err
	})
	p.equal("50 goroutines acquire it once each", cs.passes.Load(), 50)
	p.equal("the peak inside the critical section is 1", cs.peak.Load(), 1)
	p.equal("no key is left", got(db.Exists(p.ctx, p.key("lock")).Result()), 0)
}

func lease(p *probe) {
	db := p.goRedis()
	defer db.Close()
	dead := holder{db, p.key("lock"), "dead"}
	heir := holder{db, p.key("lock"), "heir"}
	got(dead.acquire(p.ctx, 200*time.Millisecond))
	start := time.Now()
	p.within("PTTL tells what is left", got(db.PTTL(p.ctx, dead.key).Result()), time.Millisecond, 200*time.Millisecond)
	for !got(heir.acquire(p.ctx, 10*time.Second)) {
		time.Sleep(time.Millisecond)
	}
	p.within("a dead holder's lock is free at its deadline", time.Since(start), 150*time.Millisecond, 2*time.Second)
	p.equal("a stranger cannot renew it", got(dead.renew(p.ctx, time.Minute)), 0)
	p.equal("its holder can", got(heir.renew(p.ctx, time.Minute)), 1)
	p.within("and then has the new life", got(db.PTTL(p.ctx, heir.key).Result()), 50*time.Second, time.Minute)
	got(heir.release(p.ctx))
}

func optimisticCounter(p *probe) {
	db := p.goRedis()
	defer db.Close()
	key := p.key("counter")
	must(db.Set(p.ctx, key, 0, time.Minute).Err())
	p.fails("EXEC is refused when another wrote the watched key", conflict(p, db, key), redis.TxFailedErr)
	must(db.Set(p.ctx, key, 0, time.Minute).Err())
	var retries atomic.Int64
	together(5, func(int) error {
		for {
			err := increment(p.ctx, db, key)
			if !errors.Is(err, redis.TxFailedErr) {
				return err
			}
			retries.Add(1)
		}
	})
	p.equal(fmt.Sprintf("5 goroutines count to 5 (%d retries)", retries.Load()), got(db.Get(p.ctx, key).Int()), 5)
	must(db.Del(p.ctx, key).Err())
}

func increment(ctx context.Context, db *redis.Client, key string) error {
	return db.Watch(ctx, func(tx *redis.Tx) error {
		n, err := tx.Get(ctx, key).Int()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(queue redis.Pipeliner) error {
			return queue.Set(ctx, key, n+1, time.Minute).Err()
		})
		return err
	}, key)
}

func conflict(p *probe, db *redis.Client, key string) error {
	return db.Watch(p.ctx, func(tx *redis.Tx) error {
		must(db.Set(p.ctx, key, 100, time.Minute).Err())
		_, err := tx.TxPipelined(p.ctx, func(queue redis.Pipeliner) error {
			return queue.Incr(p.ctx, key).Err()
		})
		return err
	}, key)
}

func workerQueue(p *probe) {
	const tasks, workers = 100, 4
	db := p.goRedis()
	defer db.Close()
	queue := p.key("tasks")
	var mu sync.Mutex
	var done []int
	producer := make(chan error, 1)
	go func() {
		time.Sleep(20 * time.Millisecond) // the workers are to find the queue empty and wait
		for i := range tasks {
			if err := db.LPush(p.ctx, queue, i).Err(); err != nil {
				producer <- err
				return
			}
		}
		producer <- nil
	}()
	together(workers, func(int) error {
		for {
			item, err := db.BRPop(p.ctx, time.Second, queue).Result()
			if errors.Is(err, redis.Nil) {
				return nil
			}
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(item[1])
			if err != nil {
				return err
			}
			mu.Lock()
			done = append(done, n)
			mu.Unlock()
		}
	})
	must(<-producer)
	sort.Ints(done)
	each := len(done) == tasks
	for i, n := range done {
		each = each && i == n
	}
	p.that("4 workers take each of 100 tasks exactly once", each, "took %v", done)
	start := time.Now()
	p.fails("BRPOP on an empty queue answers nil", db.BRPop(p.ctx, time.Second, queue).Err(), redis.Nil)
	p.within("after its timeout", time.Since(start), 990*time.Millisecond, 3*time.Second)
}

func rateLimit(p *probe) {
	const limit, window = 5, time.Second
	db := p.goRedis()
	defer db.Close()
	key := p.key("rate:203.0.113.7")
	allowed := func(pipeline func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error)) bool {
		var hits *redis.IntCmd
		got(pipeline(p.ctx, func(pipe redis.Pipeliner) error {
			hits = pipe.Incr(p.ctx, key)
			pipe.ExpireNX(p.ctx, key, window)
			return nil
		}))
		return hits.Val() <= limit
	}
	var answers []bool
	for range 8 {
		answers = append(answers, allowed(db.Pipelined))
	}
	p.equal("5 of 8 requests pass in one window", answers,
		[]bool{true, true, true, true, true, false, false, false})
	p.within("the window ends by itself", got(db.PTTL(p.ctx, key).Result()), time.Millisecond, window)
	for got(db.Exists(p.ctx, key).Result()) == 1 {
		time.Sleep(5 * time.Millisecond)
	}
	p.equal("in the next window a request passes, in MULTI too", allowed(db.TxPipelined), true)
	must(db.Del(p.ctx, key).Err())
}

func publishSubscribe(p *probe) {
	db := p.goRedis()
	defer db.Close()
	exact := db.Subscribe(p.ctx, p.key("news"))
	defer exact.Close()
	got(exact.Receive(p.ctx))
	pattern := db.PSubscribe(p.ctx, p.key("n?ws"))
	defer pattern.Close()
	got(pattern.Receive(p.ctx))
	p.equal("PUBSUB NUMSUB counts the subscriber",
		got(db.PubSubNumSub(p.ctx, p.key("news")).Result())[p.key("news")], 1)
	for i := range 100 {
		if n := got(db.Publish(p.ctx, p.key("news"), i).Result()); n != 2 {
			p.that("PUBLISH reaches both subscribers", false, "message %d reached %d", i, n)
			return
		}
	}
	p.equal("PUBLISH reaches both subscribers", true, true)
	for _, sub := range []struct {
		name string
		from *redis.PubSub
	}{{"SUBSCRIBE", exact}, {"PSUBSCRIBE", pattern}} {
		p.that(sub.name+" delivers 100 messages in order", inOrder(p.ctx, sub.from.Channel(), 100), "out of order or late")
	}
	must(exact.Unsubscribe(p.ctx, p.key("news")))
	left := func() bool { return got(db.Publish(p.ctx, p.key("news"), "last").Result()) == 1 }
	p.that("after UNSUBSCRIBE one listener is left", waitFor(5*time.Second, left), "both still listen")
}

func inOrder(ctx context.Context, messages <-chan *redis.Message, n int) bool {
	for i := range n {
		select {
		case m := <-messages:
			if m == nil || m.Payload != strconv.Itoa(i) {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func goRedisTypicalUse(p *probe) {
	db := p.goRedis()
	defer db.Close()
	must(db.Set(p.ctx, p.key("bin"), "\x00\xff\r\n", time.Minute).Err())
	p.equal("values are binary-safe", got(db.Get(p.ctx, p.key("bin")).Result()), "\x00\xff\r\n")
	p.equal("GETDEL takes the value", got(db.GetDel(p.ctx, p.key("bin")).Result()), "\x00\xff\r\n")
	pipe := db.Pipeline()
	for i := range 1000 {
		pipe.Set(p.ctx, p.key("many:")+strconv.Itoa(i), i, time.Minute)
	}
	p.equal("a pipeline of 1000 has 1000 replies", len(got(pipe.Exec(p.ctx))), 1000)
	seen := map[string]bool{}
	all := db.Scan(p.ctx, 0, p.key("many:*"), 100).Iterator()
	for all.Next(p.ctx) {
		seen[all.Val()] = true
	}
	must(all.Err())
	p.equal("SCAN finds the 1000 keys", len(seen), 1000)
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	p.equal("MGET reads them", len(got(db.MGet(p.ctx, names...).Result())), 1000)
	p.equal("UNLINK removes them", got(db.Unlink(p.ctx, names...).Result()), 1000)
	err := db.Do(p.ctx, "NOSUCHCOMMAND").Err()
	p.that("an unknown command is an error and the connection goes on",
		err != nil && db.Ping(p.ctx).Err() == nil, "got %v", err)
}
