package main

import (
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const redsyncPackage = "github.com/go-redsync/redsync/v4"

var redsyncLock = []scenario{
	{redsyncPackage, "one node", redsyncOneNode},
	{redsyncPackage, "extension and expiry", redsyncExtension},
	{redsyncPackage, "quorum of three", redsyncQuorum},
	{redsyncPackage, "contention", redsyncContention},
}

func redsyncOneNode(p *probe) {
	db := p.goRedis()
	defer db.Close()
	rs := redsync.New(goredis.NewPool(db))
	a := rs.NewMutex(p.key("mutex"), redsync.WithExpiry(5*time.Second))
	b := rs.NewMutex(p.key("mutex"), redsync.WithExpiry(5*time.Second), redsync.WithTries(2))
	must(a.LockContext(p.ctx))
	p.equal("the key holds the mutex's value", got(db.Get(p.ctx, p.key("mutex")).Result()), a.Value())
	p.within("the lock is valid for its expiry less the drift", time.Until(a.Until()), 4*time.Second, 5*time.Second)
	var taken *redsync.ErrTaken
	err := b.TryLockContext(p.ctx)
	p.that("another's TryLock finds it taken", errors.As(err, &taken), "got %v", err)
	err = b.LockContext(p.ctx)
	p.that("another's Lock gives up after its tries", err != nil, "acquired a held lock")
	p.equal("its holder unlocks it", got(a.UnlockContext(p.ctx)), true)
	must(b.LockContext(p.ctx))
	p.equal("then another locks and unlocks it", got(b.UnlockContext(p.ctx)), true)
}

func redsyncExtension(p *probe) {
	db := p.goRedis()
	defer db.Close()
	rs := redsync.New(goredis.NewPool(db))
	m := rs.NewMutex(p.key("mutex"), redsync.WithExpiry(time.Second))
	must(m.LockContext(p.ctx))
	for range 4 {
		time.Sleep(300 * time.Millisecond)
		must(second(m.ExtendContext(p.ctx)))
	}
	p.equal("extended four times, it outlives its first expiry", got(db.Get(p.ctx, p.key("mutex")).Result()), m.Value())
	time.Sleep(1100 * time.Millisecond)
	p.equal("left alone, it expires", got(db.Exists(p.ctx, p.key("mutex")).Result()), 0)
	_, err := m.UnlockContext(p.ctx)
	p.fails("unlocking it then tells so", err, redsync.ErrLockAlreadyExpired)
	extended, err := m.ExtendContext(p.ctx)
	p.that("extending it then fails", !extended && err != nil, "got %v, %v", extended, err)
	again := rs.NewMutex(p.key("again"), redsync.WithExpiry(50*time.Millisecond), redsync.WithSetNXOnExtend())
	must(again.LockContext(p.ctx))
	time.Sleep(80 * time.Millisecond)
	p.equal("with SetNXOnExtend an expired lock that is free is taken again", got(again.ExtendContext(p.ctx)), true)
}

func second[T any](_ T, err error) error { return err }

// redsyncQuorum lets three databases of the one server stand for three nodes.
func redsyncQuorum(p *probe) {
	var nodes []*redis.Client
	var pools []syncpool.Pool
	for n := range 3 {
		db := redis.NewClient(&redis.Options{Addr: p.addr, DB: n})
		defer db.Close()
		nodes = append(nodes, db)
		pools = append(pools, goredis.NewPool(db))
	}
	rs := redsync.New(pools...)
	key := p.key("mutex")
	must(nodes[0].Set(p.ctx, key, "a stranger", 5*time.Second).Err())
	a := rs.NewMutex(key)
	must(a.LockContext(p.ctx))
	p.equal("two of three nodes are enough", got(a.UnlockContext(p.ctx)), true)
	must(nodes[1].Set(p.ctx, key, "a stranger", 5*time.Second).Err())
	p.that("one of three is not", rs.NewMutex(key).TryLockContext(p.ctx) != nil, "locked with one node")
	p.equal("and the one is given back", got(nodes[2].Exists(p.ctx, key).Result()), 0)
	for _, node := range nodes {
		must(node.Del(p.ctx, key).Err())
	}
}

func redsyncContention(p *probe) {
	db := p.goRedis()
	defer db.Close()
	rs := redsync.New(goredis.NewPool(db))
	var cs section
	together(20, func(int) error {
		m := rs.NewMutex(p.key("mutex"), redsync.WithTries(2000), redsync.WithRetryDelay(5*time.Millisecond))
		if err := m.LockContext(p.ctx); err != nil {
			return err
		}
		cs.pass()
		return second(m.UnlockContext(p.ctx))
	})
	p.equal("20 goroutines acquire it once each", cs.passes.Load(), 20)
	p.equal("the peak inside is 1", cs.peak.Load(), 1)
}
