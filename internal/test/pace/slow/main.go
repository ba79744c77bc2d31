// Command slow ends with 0 on a machine that is slow as package pace means it, and with 1 on another one.
package main

import (
	"fmt"
	"os"

	"github.com/goverse/goverse/internal/test/pace"
)

func main() {
	fmt.Printf("the first touch of a page of memory takes %v\n", pace.Fault())
	if !pace.Slow() {
		os.Exit(1)
	}
}
