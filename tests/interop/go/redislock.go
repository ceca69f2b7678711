package main

import (
	"time"

	"github.com/bsm/redislock"
)

const redislockPackage = "github.com/bsm/redislock"

var redislockLock = []scenario{
	{redislockPackage, "obtain and release", redislockObtain},
	{redislockPackage, "TTL and refresh", redislockRefresh},
	{redislockPackage, "contention", redislockContention},
}

func redislockObtain(p *probe) {
	db := p.goRedis()
	defer db.Close()
	locker := redislock.New(db)
	a := got(locker.Obtain(p.ctx, p.key("lock"), 5*time.Second, &redislock.Options{Metadata: "who: A"}))
	p.equal("the metadata comes back", a.Metadata(), "who: A")
	p.equal("the key holds token and metadata", got(db.Get(p.ctx, p.key("lock")).Result()), a.Token()+"who: A")
	_, err := locker.Obtain(p.ctx, p.key("lock"), 5*time.Second, nil)
	p.fails("another is not given it", err, redislock.ErrNotObtained)
	retry := redislock.LimitRetry(redislock.LinearBackoff(10*time.Millisecond), 5)
	_, err = locker.Obtain(p.ctx, p.key("lock"), 5*time.Second, &redislock.Options{RetryStrategy: retry})
	p.fails("nor after five retries", err, redislock.ErrNotObtained)
	must(a.Release(p.ctx))
	p.fails("a second release finds nothing held", a.Release(p.ctx), redislock.ErrLockNotHeld)
	b := got(locker.Obtain(p.ctx, p.key("lock"), 5*time.Second, nil))
	p.fails("the first holder cannot release the second's lock", a.Release(p.ctx), redislock.ErrLockNotHeld)
	must(b.Release(p.ctx))
}

func redislockRefresh(p *probe) {
	db := p.goRedis()
	defer db.Close()
	locker := redislock.New(db)
	lock := got(locker.Obtain(p.ctx, p.key("lock"), 300*time.Millisecond, nil))
	p.within("TTL tells what is left", got(lock.TTL(p.ctx)), time.Millisecond, 300*time.Millisecond)
	must(lock.Refresh(p.ctx, 10*time.Second, nil))
	p.within("a refresh gives a new life", got(lock.TTL(p.ctx)), 9*time.Second, 10*time.Second)
	must(lock.Refresh(p.ctx, 30*time.Millisecond, nil))
	waiting := redislock.ExponentialBackoff(2*time.Millisecond, 16*time.Millisecond)
	heir := got(locker.Obtain(p.ctx, p.key("lock"), 5*time.Second, &redislock.Options{RetryStrategy: waiting}))
	p.equal("a waiter with backoff obtains it after expiry", heir.Key(), p.key("lock"))
	p.equal("the first holder's TTL is then 0", got(lock.TTL(p.ctx)), time.Duration(0))
	p.fails("and its refresh is refused", lock.Refresh(p.ctx, time.Second, nil), redislock.ErrNotObtained)
	must(heir.Release(p.ctx))
}

func redislockContention(p *probe) {
	db := p.goRedis()
	defer db.Close()
	locker := redislock.New(db)
	var cs section
	together(20, func(int) error {
		every := redislock.LinearBackoff(3 * time.Millisecond)
		lock, err := locker.Obtain(p.ctx, p.key("lock"), 10*time.Second, &redislock.Options{RetryStrategy: every})
		if err != nil {
			return err
		}
		cs.pass()
		return lock.Release(p.ctx)
	})
	p.equal("20 goroutines obtain it once each", cs.passes.Load(), 20)
	p.equal("the peak inside is 1", cs.peak.Load(), 1)
}
