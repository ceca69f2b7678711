package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const (
	rueidisPackage     = "github.com/redis/rueidis"
	rueidislockPackage = "github.com/redis/rueidis/rueidislock"
)

var rueidisStories = []scenario{
	{rueidisPackage, "automatic pipelining", rueidisPipelining},
	{rueidisPackage, "client-side caching", rueidisCaching},
	{rueidisPackage, "WATCH/MULTI counter", rueidisCounter},
	{rueidisPackage, "scripts", rueidisScripts},
	{rueidisPackage, "pub/sub", rueidisPubSub},
	{rueidislockPackage, "try, wait and force", rueidislockBasics},
	{rueidislockPackage, "automatic extension and loss", rueidislockLoss},
	{rueidislockPackage, "contention", rueidislockContention},
}

func (p *probe) rueidis() rueidis.Client {
	return got(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.addr}}))
}

func rueidisPipelining(p *probe) {
	db := p.rueidis()
	defer db.Close()
	key := p.key("n")
	together(50, func(int) error {
		for range 20 {
			if err := db.Do(p.ctx, db.B().Incr().Key(key).Build()).Error(); err != nil {
				return err
			}
		}
		return nil
	})
	p.equal("50 goroutines share one connection and count to 1000", got(db.Do(p.ctx, db.B().Getdel().Key(key).Build()).AsInt64()), 1000)
	err := db.Do(p.ctx, db.B().Get().Key(key).Build()).Error()
	p.that("a missing key is nil", rueidis.IsRedisNil(err), "got %v", err)
}

func rueidisCaching(p *probe) {
	db, other := p.rueidis(), p.goRedis()
	defer db.Close()
	defer other.Close()
	key := p.key("cached")
	read := func() (string, bool) {
		reply := db.DoCache(p.ctx, db.B().Get().Key(key).Cache(), time.Minute)
		return got(reply.ToString()), reply.IsCacheHit()
	}
	must(other.Set(p.ctx, key, "one", time.Minute).Err())
	read()
	value, hit := read()
	p.equal("a second read is answered from the cache", fmt.Sprintf("%s %t", value, hit), "one true")
	must(other.Set(p.ctx, key, "two", 300*time.Millisecond).Err())
	for range 200 {
		if value, _ = read(); value == "two" {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.equal("another's write invalidates it", value, "two")
	time.Sleep(350 * time.Millisecond)
	err := db.DoCache(p.ctx, db.B().Get().Key(key).Cache(), time.Minute).Error()
	p.that("and so does its expiry", rueidis.IsRedisNil(err), "got %v", err)
}

func rueidisCounter(p *probe) {
	db := p.rueidis()
	defer db.Close()
	key := p.key("counter")
	must(db.Do(p.ctx, db.B().Set().Key(key).Value("0").ExSeconds(60).Build()).Error())
	var retries atomic.Int64
	together(5, func(int) error {
		for {
			done, err := rueidisIncrement(p.ctx, db, key)
			if done || err != nil {
				return err
			}
			retries.Add(1)
		}
	})
	final := got(db.Do(p.ctx, db.B().Getdel().Key(key).Build()).AsInt64())
	p.equal(fmt.Sprintf("5 goroutines count to 5 (%d retries)", retries.Load()), final, 5)
}

// rueidisIncrement tells whether EXEC was carried out.
func rueidisIncrement(ctx context.Context, db rueidis.Client, key string) (done bool, err error) {
	err = db.Dedicated(func(c rueidis.DedicatedClient) error {
		if err := c.Do(ctx, c.B().Watch().Key(key).Build()).Error(); err != nil {
			return err
		}
		n, err := c.Do(ctx, c.B().Get().Key(key).Build()).AsInt64()
		if err != nil {
			return err
		}
		replies := c.DoMulti(ctx,
			c.B().Multi().Build(),
			c.B().Set().Key(key).Value(strconv.FormatInt(n+1, 10)).ExSeconds(60).Build(),
			c.B().Exec().Build(),
		)
		err = replies[2].Error()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		done = err == nil
		return err
	})
	return done, err
}

func rueidisScripts(p *probe) {
	db := p.rueidis()
	defer db.Close()
	script := rueidis.NewLuaScript(`redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000) return {redis.call('GET', KEYS[1]), #ARGV}`)
	reply := got(script.Exec(p.ctx, db, []string{p.key("script")}, []string{"value", "more"}).ToArray())
	p.equal("a script answers an array", got(reply[0].ToString())+" "+strconv.FormatInt(got(reply[1].AsInt64()), 10), "value 2")
	must(db.Do(p.ctx, db.B().Del().Key(p.key("script")).Build()).Error())
}

func rueidisPubSub(p *probe) {
	db := p.rueidis()
	defer db.Close()
	heard := make(chan string, 100)
	ctx, stop := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- db.Receive(ctx, db.B().Subscribe().Channel(p.key("news")).Build(), func(m rueidis.PubSubMessage) {
			heard <- m.Message
		})
	}()
	for got(db.Do(p.ctx, db.B().Publish().Channel(p.key("news")).Message("hello").Build()).AsInt64()) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	p.equal("a RESP3 push is delivered beside commands on the same connection", <-heard, "hello")
	stop()
	p.fails("a cancelled Receive ends", <-ended, context.Canceled)
}

func (p *probe) rueidislock(validity time.Duration) rueidislock.Locker {
	return got(rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{p.addr}},
		KeyPrefix:    p.key("rueidislock"),
		KeyValidity:  validity,
	}))
}

func rueidislockBasics(p *probe) {
	a, b := p.rueidislock(5*time.Second), p.rueidislock(5*time.Second)
	defer a.Close()
	defer b.Close()
	held, release, err := a.TryWithContext(p.ctx, "lock")
	must(err)
	_, _, err = b.TryWithContext(p.ctx, "lock")
	p.fails("another locker's try is refused", err, rueidislock.ErrNotLocked)
	p.equal("the holder's context lives", held.Err() == nil, true)
	start := time.Now()
	time.AfterFunc(300*time.Millisecond, release)
	_, releaseB, err := b.WithContext(p.ctx, "lock")
	must(err)
	p.within("a waiter is woken by the invalidation of the released keys", time.Since(start), 250*time.Millisecond, 3*time.Second)
	forced, releaseA, err := a.ForceWithContext(p.ctx, "lock")
	must(err)
	p.equal("a forced take-over holds", forced.Err() == nil, true)
	releaseB()
	releaseA()
}

func rueidislockLoss(p *probe) {
	locker, db := p.rueidislock(time.Second), p.goRedis()
	defer locker.Close()
	defer db.Close()
	held, release, err := locker.WithContext(p.ctx, "lock")
	must(err)
	time.Sleep(1500 * time.Millisecond)
	p.equal("the lock outlives its validity by extension", held.Err() == nil, true)
	keys := got(db.Keys(p.ctx, p.key("rueidislock")+"*").Result())
	p.that("a majority of its keys exists", len(keys) >= 2, "got %v", keys)
	must(db.Del(p.ctx, keys...).Err())
	select {
	case <-held.Done():
		p.that("when its keys vanish the holder's context ends", true, "")
	case <-time.After(5 * time.Second):
		p.that("when its keys vanish the holder's context ends", false, "still alive after 5 s")
	}
	release()
}

func rueidislockContention(p *probe) {
	var lockers []rueidislock.Locker
	for range 3 {
		locker := p.rueidislock(5 * time.Second)
		defer locker.Close()
		lockers = append(lockers, locker)
	}
	var cs section
	together(15, func(worker int) error {
		_, release, err := lockers[worker%3].WithContext(p.ctx, "lock")
		if err != nil {
			return err
		}
		defer release()
		cs.pass()
		return nil
	})
	p.equal("15 goroutines of 3 lockers acquire it once each", cs.passes.Load(), 15)
	p.equal("the peak inside is 1", cs.peak.Load(), 1)
}
