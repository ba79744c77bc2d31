// Command slow exits with 0 on a slow machine, as package pace defines it, and with 1 on any other.
package main

import (
	"fmt"
	"os"

	"github.com/goverse/goverse/internal/test/pace"
)

func main() {
	fmt.Printf("the first touch of a page of memory takes %v\n", pace.PageFaultTime())
	if !pace.SlowMachine() {
		os.Exit(1)
	}
}
