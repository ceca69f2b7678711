// Command interop runs real Go clients, with their default options, against a server that speaks RESP.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// deadline bounds one scenario: a server that never answers is a failure, not a hang.
const deadline = 60 * time.Second

func main() {
	addr := address()
	fmt.Println("# Go clients against", addr)
	var scenarios []scenario
	for _, group := range [][]scenario{goRedisStories, redsyncLock, redislockLock, rueidisStories, asynqStories} {
		scenarios = append(scenarios, group...)
	}
	failed := 0
	for _, s := range scenarios {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		failed += s.play(ctx, addr)
		cancel()
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "%d checks of the Go clients failed\n", failed)
		os.Exit(1)
	}
}

// address is HOST PORT from the arguments, else from KHOA_HOST and KHOA_PORT.
func address() string {
	if len(os.Args) == 3 {
		return os.Args[1] + ":" + os.Args[2]
	}
	host, port := os.Getenv("KHOA_HOST"), os.Getenv("KHOA_PORT")
	if host == "" || port == "" {
		fmt.Fprintln(os.Stderr, "usage: interop HOST PORT (or set KHOA_HOST and KHOA_PORT)")
		os.Exit(2)
	}
	return host + ":" + port
}
