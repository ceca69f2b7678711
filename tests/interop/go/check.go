package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A scenario is one story played with one client library, named by its Go package.
type scenario struct {
	pkg   string
	topic string
	run   func(*probe)
}

// A probe is what a scenario holds: the address, a name space of its own, and the claims that it makes.
type probe struct {
	ctx    context.Context
	addr   string
	label  string
	prefix string
	mu     sync.Mutex
	failed int
}

// play runs the scenario and tells how many of its checks failed.
func (s scenario) play(ctx context.Context, addr string) int {
	p := &probe{
		ctx:    ctx,
		addr:   addr,
		label:  fmt.Sprintf("%s %s | %s", shortName(s.pkg), moduleVersion(s.pkg), s.topic),
		prefix: fmt.Sprintf("interop:go:%d:%d:", os.Getpid(), time.Now().UnixNano()),
	}
	func() {
		defer p.caught()
		s.run(p)
	}()
	return p.failed
}

// caught turns the panic of must into a failed check, so that the other scenarios still run.
func (p *probe) caught() {
	if cause := recover(); cause != nil {
		p.that("runs to its end", false, "%v", cause)
	}
}

// that states a claim; the detail is printed when it does not hold.
func (p *probe) that(claim string, holds bool, detail string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if holds {
		fmt.Printf("ok   %s | %s\n", p.label, claim)
		return
	}
	p.failed++
	cause := strings.ReplaceAll(fmt.Sprintf(detail, args...), "\n", " / ")
	fmt.Printf("FAIL %s | %s | %.400s\n", p.label, claim, cause)
}

func (p *probe) equal(claim string, got, want any) {
	p.that(claim, fmt.Sprint(got) == fmt.Sprint(want), "got %v, want %v", got, want)
}

func (p *probe) fails(claim string, got, want error) {
	p.that(claim, errors.Is(got, want), "got error %v, want %v", got, want)
}

// within holds when a duration lies between two bounds.
func (p *probe) within(claim string, got, low, high time.Duration) {
	p.that(claim, got >= low && got <= high, "got %v, want %v to %v", got, low, high)
}

// key is a name that no other scenario and no other run uses.
func (p *probe) key(name string) string { return p.prefix + name }

// goRedis connects with default options, so that the handshake is the one that users have.
func (p *probe) goRedis() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: p.addr})
}

// must ends the scenario on an error that it did not ask for.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// got is must for a call that returns a value too.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// together runs n workers at once; the error of one fails the scenario after all have ended.
func together(n int, work func(worker int) error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = work(i)
		}()
	}
	wg.Wait()
	must(errors.Join(errs...))
}

// A section counts how many are inside it at once, and how many came through.
type section struct{ inside, peak, passes atomic.Int64 }

// pass stays inside for long enough that a broken lock would let another in.
func (s *section) pass() {
	now := s.inside.Add(1)
	for {
		peak := s.peak.Load()
		if now <= peak || s.peak.CompareAndSwap(peak, now) {
			break
		}
	}
	time.Sleep(2 * time.Millisecond)
	s.passes.Add(1)
	s.inside.Add(-1)
}

// waitFor polls until it is done, for a bounded time.
func waitFor(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

func shortName(pkg string) string {
	var last string
	for _, part := range strings.Split(pkg, "/") {
		if len(part) > 1 && (part[0] != 'v' || part[1] < '0' || part[1] > '9') {
			last = part
		}
	}
	return last
}

// moduleVersion finds the module that the package is in.
func moduleVersion(pkg string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "?"
	}
	for _, dep := range info.Deps {
		if pkg == dep.Path || strings.HasPrefix(pkg, dep.Path+"/") {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return "?"
}
