// Pause holds the namespaces of a pod: it waits for its end, and reaps whoever is left to it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			child, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if child <= 0 {
				break
			}
		}
	}
}
