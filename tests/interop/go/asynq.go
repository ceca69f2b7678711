package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const asynqPackage = "github.com/hibiken/asynq"

var asynqStories = []scenario{
	{asynqPackage, "queue with two servers", asynqQueue},
	{asynqPackage, "unique, scheduled and retried tasks", asynqKinds},
}

// asynqBench is a client, an inspector and a queue that no other run uses.
type asynqBench struct {
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	queue     string
}

func (p *probe) asynq() *asynqBench {
	opt := asynq.RedisClientOpt{Addr: p.addr}
	return &asynqBench{opt, asynq.NewClient(opt), asynq.NewInspector(opt), p.key("queue")}
}

func (b *asynqBench) close() {
	_ = b.inspector.DeleteQueue(b.queue, true)
	_ = b.client.Close()
	_ = b.inspector.Close()
}

// serve starts a worker server; it must be shut down.
func (b *asynqBench) serve(handle func(*asynq.Task) error) *asynq.Server {
	server := asynq.NewServer(b.redis, asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{b.queue: 1},
		LogLevel:                 asynq.FatalLevel,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		TaskCheckInterval:        20 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
	})
	must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error { return handle(task) })))
	return server
}

func asynqQueue(p *probe) {
	const tasks = 100
	b := p.asynq()
	defer b.close()
	var mu sync.Mutex
	runs := map[string]int{}
	count := func(task *asynq.Task) error {
		mu.Lock()
		defer mu.Unlock()
		runs[string(task.Payload())]++
		return nil
	}
	for range 2 {
		defer b.serve(count).Shutdown()
	}
	for n := range tasks {
		got(b.client.EnqueueContext(p.ctx, asynq.NewTask("count", fmt.Append(nil, n)), asynq.Queue(b.queue)))
	}
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(runs) == tasks
	}
	p.that("two servers run each of 100 tasks", waitFor(20*time.Second, done), "ran %d", len(runs))
	once := true
	for _, n := range runs {
		once = once && n == 1
	}
	p.that("exactly once", once, "%v", runs)
	empty := func() bool {
		info, err := b.inspector.GetQueueInfo(b.queue)
		return err == nil && info.Size == 0 && info.Processed == tasks
	}
	p.that("the inspector counts 100 processed and none left", waitFor(5*time.Second, empty), "it does not")
}

func asynqKinds(p *probe) {
	b := p.asynq()
	defer b.close()
	var tries, late atomic.Int64
	unique := asynq.NewTask("unique", []byte("u"))
	got(b.client.Enqueue(unique, asynq.Queue(b.queue), asynq.Unique(time.Minute)))
	_, err := b.client.Enqueue(unique, asynq.Queue(b.queue), asynq.Unique(time.Minute))
	p.fails("a unique task is refused the second time", err, asynq.ErrDuplicateTask)
	got(b.client.Enqueue(asynq.NewTask("flaky", nil), asynq.Queue(b.queue), asynq.MaxRetry(3)))
	start := time.Now()
	got(b.client.Enqueue(asynq.NewTask("late", nil), asynq.Queue(b.queue), asynq.ProcessIn(2*time.Second)))
	p.equal("the delayed task is scheduled", len(got(b.inspector.ListScheduledTasks(b.queue))), 1)
	server := b.serve(func(task *asynq.Task) error {
		switch task.Type() {
		case "flaky":
			if tries.Add(1) < 3 {
				return errors.New("not yet")
			}
		case "late":
			late.Store(time.Since(start).Milliseconds())
		}
		return nil
	})
	defer server.Shutdown()
	p.that("a failing task is retried until it succeeds", waitFor(20*time.Second, func() bool { return tries.Load() == 3 }), "%d tries", tries.Load())
	p.that("a delayed task runs when it is due", waitFor(10*time.Second, func() bool { return late.Load() >= 1000 }), "after %d ms", late.Load())
}
